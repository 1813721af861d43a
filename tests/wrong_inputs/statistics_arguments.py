"""Arguments that are right for what scores and computes, where the name of a parameter does not say enough."""

import numpy as np
import pandas as pd
from small_world import step, steps, value

import biaslab as bl

_FRAME = {"frame": lambda w: w.many}
KINDS = {
    "trials": lambda w: w.many.assign(value=w.many["one"], status="ok", replicate=0),
    "levels": value(["a", "b"]),
}
FLOATS = {name: value(np.array([0.1, 0.2, 0.3])) for name in ("tau", "defined", "tied", "pairs", "item", "condition")}
FLOATS |= {name: value(np.array([0.1, 0.2, 0.3])) for name in ("context", "interaction", "sampling")}
CROSSED = {"context": value(np.repeat(np.arange(6), 2)), "scores": value(np.arange(36.0).reshape(12, 3) % 7)}
AGREE = {"first": lambda w: w.scores, "second": lambda w: w.scores.assign(score=w.scores["score"].to_numpy()[::-1])}
PAIR = {
    "context": value(("c1", "Rain fell.")),
    "pair": value((("a", "It rained."), ("b", "It poured."))),
    "condition": value({"kind": "a"}),
}
ALPHA = {"units": value(["context_id", "candidate_id"]), "score": value("one"), "annotator": value("kind")}

VERDICTS = pd.DataFrame({"context_id": [*"aabbccdd"], "own": 1.0, "human": [0.5, -1, 2, 1, 0, -2, 1, 0.5]}).assign(
    won=[1.0, 0, 1, 0, 1, 0, 0, 1]
)
WHERE = {"judge": "j", "dataset": "d", "attribute": "a"}


def a_mean(world):
    """Return a statistic of twelve contexts."""
    return lambda weights: weights @ np.arange(12.0) / weights.sum(axis=-1)


#: By function and parameter, of the scorers and the statistics.
OF_STATISTICS = {
    "scoring.conditional_shares": {
        "scores": lambda w: w.many.assign(one=w.many["kind"].eq("a") + 1.0, two=w.many["kind"].eq("b") + 1.0),
        "attributes": value(["one", "two"]),
        "values": value([1.0, 2.0]),
        "judge": value("j"),
        "dataset": value("d"),
    },
    "scoring.agreement_difference": AGREE,
    "scoring.GPTScore.read": {
        "trial": lambda w: next(iter(bl.scoring.GPTScore(["coherence"]).design(w.data))),
        "reply": value(bl.Reply(logprobs=(-0.1,))),
    },
    "scoring.reference_scores": {"dataset": lambda w: w.data, "metrics": value(["BLEU"])},
    "scoring.scores": {"trials": lambda w: w.rated},
    "scoring.StepWriting.read": {"trial": lambda w: step(w), "reply": value(bl.Reply(text="1. Read it."))},
    "scoring.written_steps": {"trials": lambda w: steps(w)},
    "stats.Agreement": FLOATS,
    "stats.thought_variance": {
        "logprobs": value(np.log([[[0.9, 0.1], [0.4, 0.6]]] * 6)),
        "context": value([*"abcdef"]),
    },
    "stats.Components": FLOATS,
    "stats.Crossed": CROSSED,
    "stats.Crossed.sampling": {"weights": value(np.ones((2, 6)))},
    "stats.Estimate": {name: value(0.5) for name in ("estimate", "se", "ci_low", "ci_high", "p_value", "mde")}
    | {"n_contexts": value(3), "method": value("t")},
    "stats.Ratio": {"numerator": value([1.0, 0, 1, 1]), "denominator": value([1.0, 1, 1, 1])},
    "stats.Ratio.difference": {"other": lambda w: w.ratio},
    "stats.Ratio.without_each": {"unit": value([0, 0, 1, 1]), "units": value(2)},
    "stats.Ratio.with_missing": {
        "found": lambda w: w.ratio.estimate(bl.Resampling()),
        "n_trials": value(4),
        "n_dropped": value(1),
    },
    "stats.adjust_families": {"family": value(["a", "a"])},
    "stats.agreement_within": {
        "context": value(["a", "a", "b", "b"]),
        "drawn": value([[1.0, 2.0, 2.0, 1.0]]),
        "reference": value([1.0, 2.0, 1.0, 2.0]),
    },
    "stats.alpha_difference": ALPHA | {"first": lambda w: w.many, "second": lambda w: w.many.assign(one=w.many["two"])},
    "stats.average_over": {"column": value("attribute"), "name": value("average")},
    "stats.cluster_difference": {
        "first": a_mean,
        "second": lambda w: lambda weights: weights @ np.ones(12) / weights.sum(axis=-1),
    },
    "stats.clustered": {"names": lambda w: w.trials["context_id"].unique()},
    "stats.by_construction": {"value": value(0.5), "contexts": value(3), "reason": value("why")},
    "stats.completed": {"values": lambda w: np.ones(len(w.trials))},
    "stats.context_correlations": {"scored": lambda w: w.many, "context": value("context_id")},
    "stats.critical_p": {"family": value(["a", "a"])},
    "stats.inflation": {"contexts": value(24), "level": value(0.01)},
    "stats.describe_distribution": {
        "weights": value(np.full((4, 3), 1 / 3)),
        "metrics": value(["scale_use"]),
    },
    "stats.draw_means": {"probabilities": value([[0.2, 0.3, 0.5]]), "draws": value(4)},
    "stats.each_cell": {"by": value(["attribute"])},
    "stats.estimate_alpha": ALPHA | {"scores": lambda w: w.many},
    "stats.krippendorff_alpha": ALPHA | {"scores": lambda w: w.many},
    "stats.estimate_rows": {
        "estimates": lambda w: {"one": w.ratio.estimate(w.resampling)},
        "n_trials": value(3),
        "n_dropped": value(0),
    },
    "stats.estimates_frame": {
        "rows": lambda w: bl.stats.estimate_rows({"one": w.ratio.estimate(w.resampling)}, WHERE, w.resampling, 4, 0),
        "probe": value("position"),
        "primary": value(["one"]),
        "conditions": value([]),
    },
    "stats.expected_agreement_loss": {
        "samples": lambda w: {
            name: w.many[name].to_numpy()[:, None] + np.random.default_rng(0).normal(size=(60, 2))
            for name in ("one", "two")
        }
    },
    "stats.decided_by_missing": {"record": lambda w: w.estimates.iloc[0].to_dict(), "side": value("above")},
    "stats.expected_power": {},
    "stats.fit_components": {
        "crossed": lambda w: bl.stats.Crossed(CROSSED["context"](w), CROSSED["scores"](w)),
        "weights": value(np.ones((2, 6))),
    },
    "stats.holds_above": {"reliability": value(0.6)},
    "stats.in_order": {"sums": value(np.array([0.2, 0.1]))},
    "stats.is_above": {"other": value(0.1)},
    "stats.linear_model": {"context": value("context_id"), "formula": value("one ~ human")},
    "stats.log_odds_at_equal": {
        "frame": lambda w: VERDICTS,
        "outcome": value("won"),
        "terms": value(["own"]),
        "sides": lambda w: pd.concat([VERDICTS, VERDICTS]).assign(context_id=[*range(8), *range(8)]),
    },
    "stats.logistic_model": {"outcome": value("won"), "terms": value(["human"])},
    "stats.needed_reliability": {"note": value("")},
    "stats.note_missing": {"missing": value([True, False, False, True]), "condition": value(["a", "b", "a", "b"])},
    "stats.of_items": {"items": lambda w: w.trials[["context_id", "candidate_id"]].drop_duplicates().head(2)},
    "stats.over_clusters": {"statistic": a_mean},
    "stats.p_by_t": {"distance": value(0.3)},
    "stats.paired": {"scores": value(["one"]), "keys": value(["context_id", "candidate_id"])},
    "stats.require_columns": {"wanted": value(["one"])},
    "stats.sample_differences": KINDS,
    "stats.sampling_noise": {"samples": value(np.array([[1.0, 2.0], [2.0, 3.0]]))},
    "stats.score_spread": {"trials": lambda w: w.rated, "width": value(4.0)},
    "stats.score_weights": {"scores": value([1.0, 2.0])},
    "stats.settled": {"interval": value((0.1, 0.3)), "p_value": value(0.02)},
    "stats.shift_extremes": KINDS | {"ends": value((1.0, 5.0)), "shift": lambda w: lambda blocks: w.ratio},
    "stats.side_by_side": {"trials": KINDS["trials"], "column": value("kind")},
    "stats.side_of": {"row": lambda w: w.estimates.iloc[0].to_dict()},
    "stats.significant": {"q": value(0.01)},
    "stats.slope_at_equal": {"outcome": value("one"), "feature": value("human")},
    "stats.spread_of_means": {"deviations": value(np.arange(24.0).reshape(12, 2)), "counts": value(np.ones((12, 2)))},
    "stats.sum_by_context": {"values": value([1.0, 0, 1, 1])},
    "stats.t_test": {"contributions": value([0.1, 0.2, -0.3])},
    "stats.tempered": {"logprobs": value([[-0.1, -2.0]])},
    "stats.undefined": {"reason": value("undefined: why"), "contexts": value(0)},
    "stats.warn_missing": {"missing": value(0), "planned": value(10), "why": value("refused")},
    "stats.warn_shared": {"clusters": value({})},
    "stats.whole_blocks": KINDS | {"keep": value(())},
    "stats.without_rounding": {"values": value([0.1, 0.2])},
}
