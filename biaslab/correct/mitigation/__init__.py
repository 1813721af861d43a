"""Measure remedies: the bias before and after on held-out contexts, and the cost in tokens.

`order_averaging`, `debiased`, `content_free_prior`, `length_regression`, `human_scale` and `pooled` (a panel) are
computed from existing judgements; remedies that change the prompt (a rubric, reasons first, hidden names, delimiters)
require a second set of judgements.

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=8)
>>> probe = bl.probes.Position(["coherence"], [1])
>>> trials = bl.collect(probe, bl.SimulatedJudge(data, position=1.0, noise=0.5), data, progress=False)
>>> found = remedies([Case(probe, "first_position_logit", "order averaging", trials, order_averaging)])
>>> found[["bias", "remedy", "before", "after", "difference"]].round(1).to_numpy().tolist()
[['position', 'order averaging', 1.0, 0.0, -1.0]]
"""

from biaslab.correct.mitigation.applied import content_free_prior, debiased, length_regression, order_averaging
from biaslab.correct.mitigation.human_scores import HumanScale, human_scale
from biaslab.correct.mitigation.measured import Case, as_estimates, remedies
from biaslab.correct.mitigation.panels import beside_members, learned_weights, pooled

__all__ = [
    "Case",
    "HumanScale",
    "as_estimates",
    "beside_members",
    "content_free_prior",
    "debiased",
    "human_scale",
    "learned_weights",
    "length_regression",
    "order_averaging",
    "pooled",
    "remedies",
]
