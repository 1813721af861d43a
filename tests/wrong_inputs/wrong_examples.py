"""Arguments that are right, for every public function: by the name of the parameter, else by function and parameter."""

import math
from functools import cached_property

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import biaslab as bl
from biaslab.core import Score
from biaslab.distill.examples import examples
from biaslab.planning.pilot import Spread
from biaslab.probes.base.probe import Cell
from biaslab.scales import find_scale
from biaslab.scoring.pointwise import Item
from biaslab.stats import Ratio

#: What cannot be called cheaply, and why. A name stands for the class and its methods.
LEFT_OUT = {
    "LocalJudge": "loads a language model; its own tests call it with one",
    "RayJudge": "starts Ray",
    "ApiJudge.ask": "needs a server",
    "ApiJudge.packs": "needs a server",
    "distill.Evaluator": "needs a trained encoder",
    "distill.Evaluators": "needs trained encoders",
    "distill.EvaluatorJudge": "needs a trained encoder",
    "distill.WeightedEvaluators": "needs trained encoders",
    "distill.Policy": "needs a model that writes",
    "distill.collect_samples": "needs a model that writes",
    "distill.cross_fit": "trains encoders",
    "distill.train": "trains an encoder",
    "distill.reinforce": "trains a model that writes",
    "distill.evaluate": "needs trained encoders",
    "distill.rerank": "needs trained encoders",
    "distill.tune_weights": "needs trained encoders",
    "distill.load_evaluator": "needs a trained encoder",
    "distill.load_evaluators": "needs trained encoders",
    "distill.load_policy": "loads a model that writes",
    "distill.features": "needs torch",
    "scoring.load_encoder": "loads a model",
    "scoring.bert_scores": "loads a model",
    "scoring.Encoder": "needs a model",
    "report.Card": "made by report.card alone",
    "plots.styled": "a decorator: it returns whatever it is given",
    "edits.edit": "a decorator, which fails where it is used",
    "probes.Probe": "abstract; every probe is walked",
    "scoring.Scorer": "abstract; every scorer is walked",
    "enter_project": "changes the folder of the process",
}


class World:
    """A small study and whatever is made of one, each made once."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0

    data = cached_property(lambda self: bl.load_dataset("graded", limit=6))
    judge = cached_property(lambda self: bl.SimulatedJudge(self.data, noise=0.5, position=0.5))
    probe = cached_property(lambda self: bl.probes.Position(["coherence"], [1], n_pairs=2, resampling=self.resampling))
    resampling = cached_property(lambda self: bl.Resampling(n=100))
    trials = cached_property(lambda self: self.collect(self.probe))
    planned = cached_property(lambda self: list(self.probe.design(self.data)))
    estimates = cached_property(lambda self: self.probe.estimate(self.trials))
    comparative = cached_property(lambda self: self.collect(bl.probes.Comparative(["coherence"])))
    comparisons = cached_property(lambda self: bl.ranking.comparisons_of(self.comparative))
    rated = cached_property(lambda self: self.collect(bl.scoring.Rating(["coherence"], answer="text")))
    rated_5 = cached_property(lambda self: self.collect(bl.scoring.Rating(["coherence"], scale="1-5", answer="text")))
    scores = cached_property(lambda self: bl.scoring.scores(self.rated))
    reply = cached_property(lambda self: next(iter(self.judge.ask([self.planned[0].request])))[1])
    ratio = cached_property(lambda self: Ratio(["a", "a", "b", "c"], [1.0, 0, 1, 1], [1.0, 1, 1, 1]))
    many = cached_property(lambda self: self.make_many())
    examples = cached_property(lambda self: examples(self.rated, self.data))

    def collect(self, probe, judge=None):
        return bl.collect(probe, judge or self.judge, self.data, progress=False)

    def path(self, end=""):
        self.count += 1
        return self.folder / f"made{self.count}{end}"

    def axes(self):
        plt.close("all")
        return bl.plots.intervals(self.estimates, "first_position_rate")

    def make_many(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"context_id": np.repeat([f"c{i}" for i in range(12)], 5)})
        frame["system"] = [f"s{i}" for i in range(5)] * 12
        frame["candidate_id"] = frame["system"]
        frame["human"] = rng.normal(size=60)
        frame["kind"] = ["a", "b", "a", "b", "a"] * 12
        return frame.assign(
            one=frame["human"] + rng.normal(size=60),
            two=frame["human"] + 2 * rng.normal(size=60),
            won=(rng.random(60) < 0.5).astype(float),
        )

    def probe_of(self, kind):
        made = bl.probes.available()
        chosen = next(each for each in made.values() if each.__name__ == kind)
        attributes = {} if kind == "Anchoring" else {"attributes": ["coherence"]}
        return chosen(**attributes, resampling=self.resampling)

    def trials_of(self, kind):
        held = self.__dict__.setdefault("_trials", {})
        if kind not in held:
            held[kind] = self.collect(self.probe_of(kind))
        return held[kind]

    def cell_of(self, kind):
        probe, trials = self.probe_of(kind), self.trials_of(kind)
        where = {name: trials[name].iloc[0] for name in probe.cell}
        part = trials[np.logical_and.reduce([trials[name] == value for name, value in where.items()])]
        chosen = tuple(metric.name for metric in probe.metrics)
        return Cell(part, where, chosen, True, "what is measured)", self.resampling)

    def item(self):
        row = self.data.candidates.iloc[0]
        texts = [str(row.get(name, "")) for name in ("context_id", "context", "candidate_id", "system", "text")]
        return Item(*texts, reference="", human={"coherence": 3.0})

    def two_judges(self):
        return [self.trials, self.trials.assign(judge="another")]


def _value(made):
    return lambda _: made


#: By the name of the parameter.
GIVEN = {
    "dataset": lambda w: w.data,
    "judge": lambda w: w.judge,
    "probe": lambda w: w.probe,
    "trials": lambda w: w.trials,
    "estimates": lambda w: w.estimates,
    "comparisons": lambda w: w.comparisons,
    "scores": lambda w: w.scores,
    "resampling": lambda w: w.resampling,
    "trial": lambda w: w.planned[0],
    "reply": lambda w: w.reply,
    "request": lambda w: w.planned[0].request,
    "requests": lambda w: [each.request for each in w.planned[:2]],
    "refused": lambda w: w.planned[0].request,
    "asked": lambda w: w.planned[:2],
    "text": _value("It rained."),
    "texts": _value(["It rained.", "It poured."]),
    "name": _value("coherence"),
    "attribute": _value("coherence"),
    "attributes": _value(["coherence"]),
    "source": _value("Rain fell."),
    "edit": lambda w: bl.edits.find_edit("authority"),
    "context": _value(["a", "a", "b", "c"]),
    "frame": lambda w: w.many,
    "first": _value("one"),
    "second": _value("two"),
    "x": _value("one"),
    "y": _value("human"),
    "method": _value("spearman"),
    "path": lambda w: w.path(".csv"),
    "folder": lambda w: w.path(),
    "strategy": _value("random"),
    "candidates": _value(5),
    "n": _value(3),
    "rng": lambda w: np.random.default_rng(0),
    "p_values": _value([0.01, 0.2]),
    "contexts": _value(12),
    "error": _value(0.1),
    "effect": _value(0.3),
    "levels": _value([1.0, 2.0, 3.0]),
    "level": _value(0.95),
    "template": _value(1),
    "keys": _value(["key"]),
    "axes": lambda w: w.axes(),
    "ax": lambda w: w.axes(),
    "study": _value("position"),
    "what": _value("what is estimated"),
    "wanted": _value(["metric"]),
    "known": _value(["metric"]),
    "members": lambda w: [w.trials, w.trials.assign(judge="another")],
    "metric": _value("first_position_rate"),
    "metrics": _value(["first_position_rate"]),
    "quality": _value("left"),
    "debiasing": _value("threshold"),
    "condition": _value("kind"),
    "task": _value("summarization"),
    "aspect": _value("coherence"),
    "scale": lambda w: find_scale("1-5"),
    "item": lambda w: w.item(),
    "statistic": lambda w: lambda weights: weights @ np.arange(12.0) / weights.sum(axis=-1),
    "names": _value([f"c{i}" for i in range(12)]),
    "tell": _value(print),
    "value": _value(0.5),
    "null": _value(0.0),
    "p": lambda w: w.comparisons.p,
    "human": lambda w: w.data.human,
    "low": _value(0.1),
    "high": _value(0.2),
    "label": _value("label"),
    "judge_id": _value("judge"),
    "template_id": _value("1"),
    "model": _value("gpt-4o-mini"),
    "column": _value("template"),
    "cell": _value({"judge": "j"}),
    "context_id": _value("c1"),
    "candidate_id": _value("a"),
    "labels": _value(["A", "B"]),
    "messages": _value("Is it good?"),
    "role": _value("user"),
    "content": _value("Is it good?"),
}
_FRAME = {"frame": lambda w: w.many}
_KINDS = {
    "trials": lambda w: w.many.assign(value=w.many["one"], status="ok", replicate=0),
    "levels": _value(["a", "b"]),
}
_FLOATS = {name: _value(np.array([0.1, 0.2, 0.3])) for name in ("tau", "defined", "tied", "pairs", "item", "condition")}
_FLOATS |= {name: _value(np.array([0.1, 0.2, 0.3])) for name in ("context", "interaction", "sampling")}
_CROSSED = {"context": _value(np.repeat(np.arange(6), 2)), "scores": _value(np.arange(36.0).reshape(12, 3) % 7)}
_AGREE = {"first": lambda w: w.scores, "second": lambda w: w.scores.assign(score=w.scores["score"].to_numpy()[::-1])}
_PAIR = {
    "context": _value(("c1", "Rain fell.")),
    "pair": _value((("a", "It rained."), ("b", "It poured."))),
    "condition": _value({"kind": "a"}),
}
_ALPHA = {"units": _value(["context_id", "candidate_id"]), "score": _value("one"), "annotator": _value("kind")}
_WAYS = {"texts": lambda w: w.many.assign(reward=w.many["one"]), "measures": _value(["one"])}

#: By function and parameter, where that says more than the name of the parameter.
OWN = {
    "ApiJudge": {"base_url": _value("http://localhost:1/v1")},
    "Budget.exceeded": {"requests": _value(3), "tokens": _value(4), "seconds": _value(1.0)},
    "Dataset": {
        "candidates": lambda w: w.data.candidates,
        "attributes": lambda w: w.data.attributes,
        "name": _value("mine"),
    },
    "Dataset.of_contexts": {"contexts": lambda w: [w.data.candidates["context_id"].iloc[0]]},
    "Dataset.require_attributes": {"names": _value(["coherence"])},
    "Panel": {"judges": lambda w: [w.judge, bl.SimulatedJudge(w.data, noise=0.1)]},
    "Panel.of_members": {"members": lambda w: [w.judge, bl.SimulatedJudge(w.data, noise=0.1)]},
    "Plan": {name: _value(1) for name in ("contexts", "available", "requests", "stored", "read", "written", "distinct")}
    | {
        "probe": _value("position"),
        "judge": _value("j"),
        "dataset": _value("d"),
        "spread": _value(Spread(1.0, 1.0, "pilot")),
    }
    | {name: _value(0.5) for name in ("effect", "power", "alpha", "effect_of_all", "seconds_per_request")}
    | {"dollars": _value(0.1), "dollars_cached": _value(0.1), "counted": _value("tokens")},
    "RecordedJudge": {"log": lambda w: w.trials},
    "Resampling.cluster_of": {"context": _value(["c1", "c2"])},
    "Sampled": {"k": _value(3)},
    "Sampled.expand": {"request": lambda w: w.planned[0].request},
    "Shown": {"exhibits": _value(()), "n_cards": _value(0)},
    "Shown.save": {"path": lambda w: w.path(".html")},
    "SimulatedJudge.template_shift": {"template": _value("1")},
    "Store": {"path": lambda w: w.path(".sqlite")},
    "SimulatedJudge.expected_distributions": {"asked": lambda w: _rated(w)},
    "SimulatedJudge.expected_scores": {"asked": lambda w: _rated(w)},
    "Store.prune": {"judge": _value("j")},
    "Store.export": {"path": lambda w: w.path(".jsonl")},
    "Store.put_all": {"answers": lambda w: [(w.planned[0].request, w.reply)]},
    "Usage.total": {"usages": _value([bl.Usage(1)])},
    "audit": {"trials": lambda w: w.trials},
    "calibrate": {
        "probes": _value([bl.probes.Position]),
        "metrics": _value(["first_position_rate"]),
        "studies": _value(2),
        "contexts": _value((8,)),
        "population": _value(60),
        "modes": _value(["exact"]),
    },
    "collect": {"progress": _value(False)},
    "compare": {
        "found": lambda w: w.two_judges(),
        "metrics": _value(["first_position_rate"]),
        "progress": _value(False),
    },
    "correct": {"judged": lambda w: w.rated_5, "labels": lambda w: w.data},
    "kept": {
        "store": lambda w: w.path(".sqlite"),
        "name": _value("frame"),
        "depends": _value({"a": 1}),
        "make": lambda w: lambda: w.many,
    },
    "load_dataset": {"name": _value("graded")},
    "load_judge": {"name": _value("simulated"), "dataset": lambda w: w.data},
    "plan": {"effect": _value(0.1), "pilot": lambda w: w.trials},
    "read_judgements": {"path": lambda w: w.trials},
    "show": {"judgements": lambda w: w.trials, "dataset": lambda w: w.data},
    "atlas.estimates": {"metric": _value("first_position_rate")},
    "atlas.judges": {"source": _value(None)},
    "atlas.trials": {"source": _value("mt_bench")},
    "distill.Aspect": {name: _value("words") for name in ("name", "worst", "perfect", "definition")},
    "distill.Reward.read": {"trial": lambda w: _reward(w), "reply": _value(bl.Reply(score=0.5))},
    "distill.Settings.from_json": {"values": lambda w: _settings()},
    "distill.Stars.design": {"dataset": lambda w: w.data},
    "distill.annotate": {
        "aspects": _value(["coherence"]),
        "attributes": _value(["coherence"]),
        "progress": _value(False),
    },
    "distill.best_of_n": _WAYS | {"by": _value("one")},
    "distill.bias_inheritance": {
        "teacher": lambda w: w.trials,
        "student": lambda w: w.trials.assign(judge="student"),
        "progress": _value(False),
    },
    "distill.compare_texts": {
        "ways": lambda w: {"before": w.many, "after": w.many},
        "measures": _value(["one"]),
        "baseline": _value("before"),
    },
    "distill.examples": {"trials": lambda w: w.rated, "scale": _value(None)},
    "edits.Edit": {"name": _value("mine"), "change": _value(str.upper)},
    "edits.Edit.given": {"context": _value("Rain fell.")},
    "edits.constant": {"name": _value("mine"), "words": _value("Hm."), "about": _value("a word")},
    "edits.from_table": {
        "table": _value(pd.DataFrame({"text": ["It rained."], "edited": ["It poured."]})),
    },
    "mitigation.Case": {"remedy": _value("mine"), "before": lambda w: w.trials, "after": lambda w: w.trials},
    "mitigation.HumanScale.estimate": {"trials": lambda w: w.rated, "metrics": _value(None)},
    "mitigation.as_estimates": {
        "found": lambda w: bl.mitigation.remedies([_case(w)], w.resampling),
    },
    "mitigation.beside_members": {"resampling": lambda w: w.resampling},
    "mitigation.content_free_prior": {"empty": lambda w: _empty(w)},
    "mitigation.human_scale": {"trials": lambda w: w.rated, "method": _value("isotonic")},
    "mitigation.length_regression": {"trials": lambda w: w.trials_of("Verbosity")},
    "mitigation.debiased": {"trials": lambda w: w.comparative},
    "mitigation.remedies": {"cases": lambda w: [_case(w)]},
    "plots.Hover": {"svg": _value("<svg></svg>")},
    "plots.against": {"x": _value("template"), "metric": _value("first_position_rate")},
    "plots.compared": {
        "estimates": lambda w: bl.compare(w.two_judges(), metrics=["first_position_rate"], progress=False),
    },
    "plots.facets": {"titles": _value({1: "one"}), "metric": _value("first_position_rate")},
    "plots.finding": {},
    "plots.hollow": {"values": _value(pd.Series([0.5], index=["coherence"]))},
    "plots.inherited": {
        "unit": _value("share"),
        "estimates": lambda w: bl.distill.bias_inheritance(
            w.probe, w.trials, w.trials.assign(judge="student"), ["first_position_rate"], progress=False
        ),
    },
    "plots.panels": {"columns": _value(2)},
    "plots.save": {"name": _value("figure"), "out": lambda w: w.path()},
    "plots.share_legend": {"axes": lambda w: bl.plots.panels(2)},
    "probes.Familiarity.given": {"read": lambda w: _likelihoods(w)},
    "probes.difference_of": {"metric": lambda w: bl.probes.find_metric("first_position_rate")},
    "probes.find_metric": {"name": _value("first_position_rate")},
    "probes.find_probe": {"name": _value("position")},
    "probes.is_primary": {"name": _value("first_position_rate"), "probe": _value("position")},
    "published.load": {},
    "published.of_dataset": {"printed": lambda w: bl.published.load(), "dataset": _value("summeval")},
    "ranking.Comparisons": {
        name: (lambda each: lambda w: getattr(w.comparisons, each))(name)
        for name in ("context_id", "candidate_id", "first", "second", "p")
    },
    "ranking.Comparisons.of": {
        "names": _value(["a", "b"]),
        "first": _value([0, 1]),
        "second": _value([1, 0]),
        "p": _value([0.6, 0.4]),
    },
    "ranking.Comparisons.take": {"chosen": _value(np.array([0, 1]))},
    "ranking.Comparisons.total": {"p": lambda w: w.comparisons.p},
    "ranking.Conditionals": {"better": _value(0.8), "worse": _value(0.2)},
    "ranking.Conditionals.log_chances": {"won": _value(np.array([0.2, 0.8]))},
    "ranking.Decoded": {"scores": _value(np.array([0.2, 0.8])), "method": _value("win-ratio")},
    "ranking.Ranking": {"order": _value(np.array([0, 1])), "log_likelihood": _value(-1.0), "bound": _value(-1.0)},
    "ranking.Reweighting": {"log_alpha": _value(0.1)},
    "ranking.Strengths": {"scores": _value(np.array([0.2, 0.8])), "position": _value(0.1)},
    "ranking.agreement": {"scores": lambda w: bl.ranking.rank(w.comparative), "dataset": lambda w: w.data},
    "ranking.agreement_by_budget": {
        "trials": lambda w: w.comparative,
        "budgets": _value([10]),
        "draws": _value(2),
        "strategies": _value(["random"]),
        "resampling": lambda w: w.resampling,
        "human": _value(None),
    },
    "ranking.compare_remedies": {
        "trials": lambda w: w.comparative,
        "remedies": _value(["none"]),
        "resampling": lambda w: w.resampling,
        "human": _value(None),
    },
    "ranking.comparisons_of": {"trials": lambda w: w.comparative},
    "ranking.content_free": {"trials": lambda w: _empty(w)},
    "ranking.dark_log_odds": {"trials": lambda w: _empty(w)},
    "ranking.decode": {},
    "ranking.most_likely_ranking": {
        "comparisons": lambda w: bl.ranking.Comparisons.of(["a", "b"], [0, 1], [1, 0], [0.7, 0.4]),
        "method": _value(None),
    },
    "ranking.rank": {"trials": lambda w: w.comparative, "debiasing": _value("none")},
    "ranking.ranks": {"scores": _value(np.array([0.2, 0.8, 0.5])), "context": _value(np.array([0, 0, 0]))},
    "ranking.select_adaptively": {"budget": _value(4), "ask": _value(lambda codes: np.full(len(codes), 0.6))},
    "ranking.self_consistency": {
        "trials": lambda w: w.comparative,
        "sizes": _value([2]),
        "draws": _value(2),
        "resampling": lambda w: w.resampling,
        "human": _value(None),
    },
    "report.Limit": {"low": _value(0.1), "high": _value(0.2)},
    "report.Limit.read": {"text": _value(".4:.6")},
    "report.card": {"quality": _value(None)},
    "report.check_limits": {"limits": _value({"first_position_rate": bl.report.Limit(0.4, 0.6)})},
    "report.write": {"digits": _value(3)},
    "scoring.conditional_shares": {
        "scores": lambda w: w.many.assign(one=w.many["kind"].eq("a") + 1.0, two=w.many["kind"].eq("b") + 1.0),
        "attributes": _value(["one", "two"]),
        "values": _value([1.0, 2.0]),
        "judge": _value("j"),
        "dataset": _value("d"),
    },
    "scoring.agreement_difference": _AGREE,
    "scoring.GPTScore.read": {
        "trial": lambda w: next(iter(bl.scoring.GPTScore(["coherence"]).design(w.data))),
        "reply": _value(bl.Reply(logprobs=(-0.1,))),
    },
    "scoring.reference_scores": {"dataset": lambda w: w.data, "metrics": _value(["BLEU"])},
    "scoring.scores": {"trials": lambda w: w.rated},
    "scoring.StepWriting.read": {"trial": lambda w: _step(w), "reply": _value(bl.Reply(text="1. Read it."))},
    "scoring.written_steps": {"trials": lambda w: _steps(w)},
    "stats.Agreement": _FLOATS,
    "stats.Components": _FLOATS,
    "stats.Crossed": _CROSSED,
    "stats.Crossed.sampling": {"weights": _value(np.ones((2, 6)))},
    "stats.Estimate": {name: _value(0.5) for name in ("estimate", "se", "ci_low", "ci_high", "p_value", "mde")}
    | {"n_contexts": _value(3), "method": _value("t")},
    "stats.Ratio": {"numerator": _value([1.0, 0, 1, 1]), "denominator": _value([1.0, 1, 1, 1])},
    "stats.Ratio.difference": {"other": lambda w: w.ratio},
    "stats.adjust_families": {"family": _value(["a", "a"])},
    "stats.agreement_within": {
        "context": _value(["a", "a", "b", "b"]),
        "drawn": _value([[1.0, 2.0, 2.0, 1.0]]),
        "reference": _value([1.0, 2.0, 1.0, 2.0]),
    },
    "stats.alpha_difference": _ALPHA
    | {"first": lambda w: w.many, "second": lambda w: w.many.assign(one=w.many["two"])},
    "stats.average_over": {"column": _value("attribute"), "name": _value("average")},
    "stats.cluster_difference": {
        "first": GIVEN["statistic"],
        "second": lambda w: lambda weights: weights @ np.ones(12) / weights.sum(axis=-1),
    },
    "stats.clustered": {"names": lambda w: w.trials["context_id"].unique()},
    "stats.completed": {"values": lambda w: np.ones(len(w.trials))},
    "stats.context_correlations": {"given": lambda w: w.many, "context": _value("context_id")},
    "stats.describe_distribution": {
        "weights": _value(np.full((4, 3), 1 / 3)),
        "metrics": _value(["scale_use"]),
    },
    "stats.draw_means": {"probabilities": _value([[0.2, 0.3, 0.5]]), "draws": _value(4)},
    "stats.each_cell": {"by": _value(["attribute"])},
    "stats.estimate_alpha": _ALPHA | {"scores": lambda w: w.many},
    "stats.estimate_rows": {
        "estimates": lambda w: {"one": w.ratio.estimate(w.resampling)},
        "n_trials": _value(3),
        "n_dropped": _value(0),
    },
    "stats.estimates_frame": {
        "rows": lambda w: bl.stats.estimate_rows({"one": w.ratio.estimate(w.resampling)}, _WHERE, w.resampling, 4, 0),
        "probe": _value("position"),
        "primary": _value(["one"]),
        "conditions": _value([]),
    },
    "stats.expected_agreement_loss": {
        "samples": lambda w: {
            name: w.many[name].to_numpy()[:, None] + np.random.default_rng(0).normal(size=(60, 2))
            for name in ("one", "two")
        }
    },
    "stats.expected_power": {},
    "stats.fit_components": {
        "crossed": lambda w: bl.stats.Crossed(_CROSSED["context"](w), _CROSSED["scores"](w)),
        "weights": _value(np.ones((2, 6))),
    },
    "stats.in_order": {"sums": _value(np.array([0.2, 0.1]))},
    "stats.is_above": {"other": _value(0.1)},
    "stats.linear_model": {"context": _value("context_id"), "formula": _value("one ~ human")},
    "stats.logistic_model": {"outcome": _value("won"), "terms": _value(["human"])},
    "stats.note_missing": {"missing": _value([True, False, False, True]), "condition": _value(["a", "b", "a", "b"])},
    "stats.of_items": {"items": lambda w: w.trials[["context_id", "candidate_id"]].drop_duplicates().head(2)},
    "stats.over_clusters": {"statistic": GIVEN["statistic"]},
    "stats.p_by_t": {"distance": _value(0.3)},
    "stats.paired": {"scores": _value(["one"]), "keys": _value(["context_id", "candidate_id"])},
    "stats.require_columns": {"wanted": _value(["one"])},
    "stats.sample_differences": _KINDS,
    "stats.sampling_noise": {"samples": _value(np.array([[1.0, 2.0], [2.0, 3.0]]))},
    "stats.score_spread": {"trials": lambda w: w.rated, "width": _value(4.0)},
    "stats.score_weights": {"scores": _value([1.0, 2.0])},
    "stats.settled": {"interval": _value((0.1, 0.3)), "p_value": _value(0.02)},
    "stats.shift_extremes": _KINDS | {"ends": _value((1.0, 5.0)), "shift": lambda w: lambda blocks: w.ratio},
    "stats.side_by_side": {"trials": _KINDS["trials"], "column": _value("kind")},
    "stats.side_of": {"row": lambda w: w.estimates.iloc[0].to_dict()},
    "stats.significant": {"q": _value(0.01)},
    "stats.slope_at_equal": {"outcome": _value("one"), "feature": _value("human")},
    "stats.spread_of_means": {"deviations": _value(np.arange(24.0).reshape(12, 2)), "counts": _value(np.ones((12, 2)))},
    "stats.sum_by_context": {"values": _value([1.0, 0, 1, 1])},
    "stats.t_test": {"contributions": _value([0.1, 0.2, -0.3])},
    "stats.tempered": {"logprobs": _value([[-0.1, -2.0]])},
    "stats.undefined": {"reason": _value("undefined: why"), "contexts": _value(0)},
    "stats.warn_missing": {"missing": _value(0), "planned": _value(10), "why": _value("refused")},
    "stats.warn_shared": {"clusters": _value({})},
    "stats.whole_blocks": _KINDS | {"keep": _value(())},
    "stats.without_rounding": {"values": _value([0.1, 0.2])},
}
_WHERE = {"judge": "j", "dataset": "d", "attribute": "a"}


def instance(world, path, kind):
    """Return an object whose method is called."""
    name = path.rsplit(".", 1)[0]
    made = {
        "ApiJudge": lambda: bl.ApiJudge("m", "http://localhost:1/v1"),
        "Budget": lambda: bl.Budget(requests=3),
        "Dataset": lambda: world.data,
        "Panel": lambda: bl.Panel([world.judge, bl.SimulatedJudge(world.data, noise=0.1)]),
        "RecordedJudge": lambda: bl.RecordedJudge(world.trials, world.data, partial=True),
        "Resampling": lambda: world.resampling,
        "Sampled": lambda: bl.Sampled(world.judge, 3),
        "Shown": lambda: bl.show(world.trials, dataset=world.data),
        "SimulatedJudge": lambda: world.judge,
        "Store": lambda: bl.Store(world.path(".sqlite")),
        "edits.Edit": lambda: bl.edits.find_edit("authority"),
        "ranking.Comparisons": lambda: world.comparisons,
        "ranking.Conditionals": lambda: bl.ranking.Conditionals(0.8, 0.2),
        "ranking.Reweighting": lambda: bl.ranking.Reweighting(0.1),
        "report.Limit": lambda: bl.report.Limit(0.4, 0.6),
        "stats.Crossed": lambda: bl.stats.Crossed(_CROSSED["context"](world), _CROSSED["scores"](world)),
        "stats.Ratio": lambda: world.ratio,
    }
    if name in made:
        return made[name]()
    if name.startswith("probes."):
        return world.probe_of(kind.__name__)
    return kind()


def given(world, path, kind, parameter):
    """Return an argument that is right, made for one call; `KeyError` where none is known."""
    own = OWN.get(path, {})
    if parameter.name in own:
        return own[parameter.name](world)
    if path.startswith("probes.") and kind is not None:
        name = kind.__name__
        method = path.rsplit(".", 1)[1]
        if method == "accepts_recorded":
            return bl.read_judgements(world.trials_of(name))
        if parameter.name == "trials":
            return world.trials_of(name)
        if parameter.name == "cell":
            return world.cell_of(name)
        if parameter.name == "metrics":
            return list(kind.primary[:1])
        if method == "ask_pair" and parameter.name in _PAIR:
            return _PAIR[parameter.name](world)
        if parameter.name in ("trial", "reply"):
            trial = next(iter(world.probe_of(name).design(world.data)))
            return trial if parameter.name == "trial" else next(iter(world.judge.ask([trial.request])))[1]
    if parameter.name in ("trial", "reply") and kind is not None and path.startswith(("scoring.", "distill.")):
        return _answered(world, kind)[parameter.name == "reply"]
    if parameter.default is not parameter.empty and parameter.name != "resampling":
        raise KeyError(parameter.name)
    return GIVEN[parameter.name](world)


def _answered(world, kind):
    design = kind(answer="text") if "answer" in kind.__dataclass_fields__ else kind()
    return next(iter(design.design(world.data))), bl.Reply(text="4")


def _case(world):
    return bl.mitigation.Case(world.probe, "first_position_rate", "mine", world.trials, world.trials)


def _empty(world):
    return world.collect(bl.probes.Vacuum(["coherence"], nothing=["empty"], asks=["pairs"]))


def _rated(world):
    return list(bl.scoring.Rating(["coherence"]).design(world.data))[:2]


def _reward(world):
    return next(iter(bl.distill.Reward(["coherence"]).design(world.data)))


def _settings():
    return dict(bl.distill.Settings().__dict__)


def _step(world):
    return next(iter(bl.scoring.StepWriting(["coherence"]).design(world.data)))


def _steps(world):
    frame = world.trials.head(1).assign(reply="1. Read it.\n2. Score it.", status="ok", attribute="coherence")
    return frame.assign(value=math.nan)


def _likelihoods(world):
    probe = bl.probes.Familiarity(["coherence"], asks="likelihoods")
    return world.collect(probe)


__all__ = ["LEFT_OUT", "Score", "World", "given", "instance"]
