"""Arguments that are right for one function, where the name of the parameter does not say enough."""

import numpy as np
import pandas as pd
from small_world import case, empty, likelihoods, reward, settings, value

import biaslab as bl
from biaslab.study.planning.pilot import Spread

WAYS = {"texts": lambda w: w.many.assign(reward=w.many["one"]), "measures": value(["one"])}
#: By function and parameter, where that says more than the name of the parameter.
OWN = {
    "ApiJudge": {"base_url": value("http://localhost:1/v1")},
    "Budget.exceeded": {"requests": value(3), "tokens": value(4), "seconds": value(1.0)},
    "Dataset": {
        "candidates": lambda w: w.data.candidates,
        "attributes": lambda w: w.data.attributes,
        "name": value("mine"),
    },
    "Dataset.of_contexts": {"contexts": lambda w: [w.data.candidates["context_id"].iloc[0]]},
    "Dataset.require_attributes": {"names": value(["coherence"])},
    "Panel": {"judges": lambda w: [w.judge, bl.SimulatedJudge(w.data, noise=0.1)]},
    "Panel.of_members": {"members": lambda w: [w.judge, bl.SimulatedJudge(w.data, noise=0.1)]},
    "Plan": {name: value(1) for name in ("contexts", "available", "requests", "stored", "read", "written", "distinct")}
    | {
        "probe": value("position"),
        "judge": value("j"),
        "dataset": value("d"),
        "spread": value(Spread(1.0, 1.0, "pilot")),
    }
    | {name: value(0.5) for name in ("effect", "power", "alpha", "effect_of_all", "seconds_per_request")}
    | {"dollars": value(0.1), "dollars_cached": value(0.1), "counted": value("tokens")},
    "RecordedJudge": {"log": lambda w: w.trials},
    "Resampling.cluster_of": {"context": value(["c1", "c2"])},
    "Sampled": {"k": value(3)},
    "Sampled.expand": {"request": lambda w: w.planned[0].request},
    "Shown": {"exhibits": value(()), "n_cards": value(0)},
    "Shown.save": {"path": lambda w: w.path(".html")},
    "SimulatedJudge.template_shift": {"template": value("1")},
    "Store": {"path": lambda w: w.path(".sqlite")},
    "Store.prune": {"judge": value("j")},
    "Store.export": {"path": lambda w: w.path(".jsonl")},
    "Store.put_all": {"answers": lambda w: [(w.planned[0].request, w.reply)]},
    "Usage.total": {"usages": value([bl.Usage(1)])},
    "audit": {"trials": lambda w: w.trials},
    "doctor": {"log": lambda w: w.trials},
    "validate": {
        "probes": value([bl.probes.Position]),
        "metrics": value(["first_position_rate"]),
        "studies": value(2),
        "contexts": value((8,)),
        "population": value(60),
        "modes": value(["exact"]),
    },
    "collect": {"progress": value(False)},
    "compare": {
        "found": lambda w: w.two_judges(),
        "metrics": value(["first_position_rate"]),
        "progress": value(False),
    },
    "correct": {"judged": lambda w: w.rated_5, "labels": lambda w: w.data},
    "kept": {
        "store": lambda w: w.path(".sqlite"),
        "name": value("frame"),
        "depends": value({"a": 1}),
        "make": lambda w: lambda: w.many,
    },
    "load_dataset": {"name": value("graded")},
    "load_judge": {"name": value("simulated"), "dataset": lambda w: w.data},
    "plan": {"effect": value(0.1), "pilot": lambda w: w.trials},
    "read_judgements": {"path": lambda w: w.trials},
    **{
        name: {"protocol": value(None), "contexts": value(3), "candidates": value(2), "store": value(None), **more}
        for name, more in (
            ("plan_screen", {}),
            ("screen", {"progress": value(False), "reference": value(None), "say": value(lambda line: None)}),
        )
    },
    "show": {"judgements": lambda w: w.trials, "dataset": lambda w: w.data},
    "atlas.estimates": {"metric": value("first_position_rate")},
    "atlas.replication_page": {"rows": lambda w: bl.atlas.replications().head(3)},
    "atlas.explorer": {"estimates": lambda w: bl.atlas.estimates(source="null_model")},
    "atlas.judges": {"source": value(None)},
    "atlas.trials": {"source": value("mt_bench")},
    "atlas.trend": {"estimates": lambda w: bl.atlas.estimates(metric="first_position_rate", source="mt_bench")},
    "distill.Aspect": {name: value("words") for name in ("name", "worst", "perfect", "definition")},
    "distill.Reward.read": {"trial": lambda w: reward(w), "reply": value(bl.Reply(score=0.5))},
    "distill.Settings.from_json": {"values": lambda w: settings()},
    "distill.Stars.design": {"dataset": lambda w: w.data},
    "distill.annotate": {
        "aspects": value(["coherence"]),
        "attributes": value(["coherence"]),
        "progress": value(False),
    },
    "distill.add_overshoot": {
        "texts": lambda w: w.many.assign(reward=w.many["one"], again=w.many["one"]),
        "baseline": lambda w: w.many.assign(reward=w.many["one"], again=w.many["one"]),
        "reward": value("reward"),
        "other": value("again"),
    },
    "distill.best_of_n": WAYS | {"by": value("one")},
    "distill.bias_inheritance": {
        "teacher": lambda w: w.trials,
        "student": lambda w: w.trials.assign(judge="student"),
        "progress": value(False),
    },
    "distill.compare_texts": {
        "ways": lambda w: {"before": w.many, "after": w.many},
        "measures": value(["one"]),
        "baseline": value("before"),
    },
    "distill.measure_texts": {
        "samples": lambda w: w.data,
        "labels": lambda w: {"reward": w.examples.drop_duplicates(["context_id", "candidate_id"])},
        "overlap": value(["ROUGE-1"]),
    },
    "distill.most_changed": {
        name: lambda w: w.many.assign(context="", reference="", text="", reward=w.many["one"])
        for name in ("before", "after")
    }
    | {"by": value(["reward"])},
    "distill.ratings": {"examples": lambda w: w.examples},
    "distill.reward_slopes": {
        "texts": lambda w: w.many.assign(reward=w.many["one"], words=2.0, log_perplexity=w.many["one"]),
    },
    "distill.rated_by": {"examples": lambda w: w.examples, "annotator": value("judge")},
    "distill.scores_of": {"examples": lambda w: w.examples, "given": value("label")},
    "distill.examples": {"trials": lambda w: w.rated, "scale": value(None)},
    "edits.Edit": {"name": value("mine"), "change": value(str.upper)},
    "edits.Edit.given": {"context": value("Rain fell.")},
    "edits.constant": {"name": value("mine"), "words": value("Hm."), "about": value("a word")},
    "edits.from_table": {
        "table": value(pd.DataFrame({"text": ["It rained."], "edited": ["It poured."]})),
    },
    "mitigation.Case": {"remedy": value("mine"), "before": lambda w: w.trials, "after": lambda w: w.trials},
    "mitigation.HumanScale.estimate": {"trials": lambda w: w.rated, "metrics": value(None)},
    "mitigation.as_estimates": {
        "found": lambda w: bl.mitigation.remedies([case(w)], w.resampling),
    },
    "mitigation.beside_members": {"resampling": lambda w: w.resampling},
    "mitigation.content_free_prior": {"empty": lambda w: empty(w)},
    "mitigation.human_scale": {"trials": lambda w: w.rated, "method": value("isotonic")},
    "mitigation.length_regression": {"trials": lambda w: w.trials_of("Verbosity")},
    "mitigation.debiased": {"trials": lambda w: w.comparative},
    "mitigation.remedies": {"cases": lambda w: [case(w)]},
    "plots.Hover": {"svg": value("<svg></svg>")},
    "plots.against": {"x": value("template"), "metric": value("first_position_rate")},
    "plots.compared": {
        "out": lambda w: w.path(),
        "estimates": lambda w: bl.compare(w.two_judges(), metrics=["first_position_rate"], progress=False),
    },
    "plots.draw": {
        "metric": value("first_position_rate"),
        "x": value(None),
        "published": value(pd.DataFrame({"label": ["GPT-4"], "attribute": ["coherence"], "value": [0.4]})),
        "out": lambda w: w.path(),
    },
    "plots.finding": {},
    "plots.promises": {
        "shares": lambda w: w.estimates.assign(
            quantity="coverage", metric="coverage", promised=0.95, low=0.93, high=0.97, kept=True
        ),
        "out": lambda w: w.path(),
    },
    "plots.spread": {"trials": lambda w: w.trials_of("Consistency"), "out": lambda w: w.path()},
    "plots.heaps": {"trials": lambda w: w.trials_of("ScoreDistribution"), "out": lambda w: w.path()},
    "plots.inherited": {
        "out": lambda w: w.path(),
        "unit": value("share"),
        "estimates": lambda w: bl.distill.bias_inheritance(
            w.probe, w.trials, w.trials.assign(judge="student"), ["first_position_rate"], progress=False
        ),
    },
    "plots.panels": {"columns": value(2)},
    "plots.save": {"name": value("figure"), "out": lambda w: w.path()},
    "plots.standard": {"names": value("consistency"), "out": lambda w: w.path()},
    "plots.share_legend": {"axes": lambda w: bl.plots.panels(2)},
    "probes.Familiarity.given": {"read": lambda w: likelihoods(w)},
    "probes.difference_of": {"metric": lambda w: bl.probes.find_metric("first_position_rate")},
    "probes.find_metric": {"name": value("first_position_rate")},
    "probes.find_probe": {"name": value("position")},
    "probes.is_primary": {"name": value("first_position_rate"), "probe": value("position")},
    "SimulatedJudge.biases_after": {"tokens": value(100)},
    "SimulatedJudge.after_thought": {"budget": value(1024)},
    "published.experiments": {"paper": value("chen2024")},
    "published.load": {},
    "published.of_dataset": {"printed": lambda w: bl.published.load(), "dataset": value("summeval")},
    "published.of_scorers": {
        "agreement": value(pd.DataFrame({"scorer": ["G-Eval"], "attribute": ["coherence"]})),
        "dataset": value("summeval"),
    },
    "ranking.Comparisons": {
        name: (lambda each: lambda w: getattr(w.comparisons, each))(name)
        for name in ("context_id", "candidate_id", "first", "second", "p")
    },
    "ranking.Comparisons.of": {
        "names": value(["a", "b"]),
        "first": value([0, 1]),
        "second": value([1, 0]),
        "p": value([0.6, 0.4]),
    },
    "ranking.Comparisons.take": {"chosen": value(np.array([0, 1]))},
    "ranking.Comparisons.total": {"p": lambda w: w.comparisons.p},
    "ranking.Conditionals": {"better": value(0.8), "worse": value(0.2)},
    "ranking.Conditionals.log_chances": {"won": value(np.array([0.2, 0.8]))},
    "ranking.Decoded": {"scores": value(np.array([0.2, 0.8])), "method": value("win-ratio")},
    "ranking.PlackettLuce": {
        "worth": value(pd.Series([0.1, -0.1], index=["a", "b"])),
        "places": value(np.array([0.2, -0.2])),
        "log_likelihood": value(-1.0),
    },
    "ranking.Ranking": {"order": value(np.array([0, 1])), "log_likelihood": value(-1.0), "bound": value(-1.0)},
    "ranking.Reweighting": {"log_alpha": value(0.1)},
    "ranking.Strengths": {"scores": value(np.array([0.2, 0.8])), "position": value(0.1)},
    "ranking.agreement": {"scores": lambda w: bl.ranking.rank(w.comparative), "dataset": lambda w: w.data},
    "scoring.agreement": {"scores": lambda w: bl.ranking.rank(w.comparative), "dataset": lambda w: w.data},
    "ranking.agreement_by_budget": {
        "trials": lambda w: w.comparative,
        "budgets": value([10]),
        "draws": value(2),
        "strategies": value(["random"]),
        "resampling": lambda w: w.resampling,
        "human": value(None),
    },
    "ranking.budget_needed": {
        "curves": lambda w: bl.ranking.agreement_by_budget(
            w.comparative, [10], strategies=["random"], draws=2, resampling=w.resampling
        ),
        "share": value(0.9),
    },
    "ranking.compare_remedies": {
        "trials": lambda w: w.comparative,
        "remedies": value(["none"]),
        "resampling": lambda w: w.resampling,
        "human": value(None),
    },
    "ranking.comparisons_of": {"trials": lambda w: w.comparative},
    "ranking.content_free": {"trials": lambda w: empty(w)},
    "ranking.dark_log_odds": {"trials": lambda w: empty(w)},
    "ranking.decode": {},
    "ranking.judge_ranker": {"attribute": value("coherence"), "context_id": value("news-1"), "protocol": value(None)},
    "ranking.most_likely_ranking": {
        "comparisons": lambda w: bl.ranking.Comparisons.of(["a", "b"], [0, 1], [1, 0], [0.7, 0.4]),
        "method": value(None),
    },
    "ranking.rank": {"trials": lambda w: w.comparative, "debiasing": value("none")},
    "ranking.ranks": {"scores": value(np.array([0.2, 0.8, 0.5])), "context": value(np.array([0, 0, 0]))},
    "ranking.balanced_orders": {"candidates": value(["a", "b", "c"])},
    "ranking.fit_plackett_luce": {"trials": lambda w: w.trials_of("ListPosition"), "penalty": value(0.1)},
    "ranking.sliding_windows": {
        "candidates": value(["a", "b", "c"]),
        "ranker": value(lambda shown: list(range(len(shown)))),
        "window": value(2),
        "step": value(1),
    },
    "ranking.window_effect": {
        "orders": value(
            pd.DataFrame(
                [(c, turn, n, (n + turn) % 3 + 1) for c in "abcdef" for turn in range(3) for n in range(3)],
                columns=["context_id", "list", "candidate_id", "place"],
            ).assign(rank=lambda frame: frame["place"])
        )
    },
    "ranking.select_adaptively": {"budget": value(4), "ask": value(lambda codes: np.full(len(codes), 0.6))},
    "ranking.self_consistency": {
        "trials": lambda w: w.comparative,
        "sizes": value([2]),
        "draws": value(2),
        "resampling": lambda w: w.resampling,
        "human": value(None),
    },
    "report.Limit": {"low": value(0.1), "high": value(0.2)},
    "report.Limit.read": {"text": value(".4:.6")},
    "report.check_runs": {
        "runs": lambda w: [
            bl.report.check_limits(w.estimates, {"first_position_rate": bl.report.Limit(0.4, 0.6)}) for _ in range(2)
        ]
    },
    "report.card": {"quality": value(None)},
    "report.check_limits": {"limits": value({"first_position_rate": bl.report.Limit(0.4, 0.6)})},
    "report.replies": {"trials": lambda w: w.trials, "by": value("attribute")},
    "report.write": {"digits": value(3)},
}
