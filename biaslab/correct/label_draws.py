"""Coverage and width of corrected intervals under repeated draws of a part of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from statsmodels.stats.proportion import proportion_confint

from biaslab.core import Metric, declare_metrics
from biaslab.core.checks import require_count
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.correcting import Correction, correct

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

NAME = "label_draws"
_LEVEL = 0.95
declare_metrics(
    NAME,
    (
        Metric("coverage", "intervals that contain the estimate from all labels", "share", null=_LEVEL),
        Metric("interval_width", "width of the interval"),
    ),
)


def draw_labels(
    judged: pd.DataFrame,
    labels: Dataset | pd.DataFrame | None = None,
    shares: Sequence[float] = (0.1, 0.3, 0.5),
    draws: int = 50,
    corrections: Sequence[Correction] = ("judge", "human", "ppi"),
    seed: int = 0,
) -> pd.DataFrame:
    """Draw a part of the labelled contexts many times, and compare each interval with the estimate from all labels.

    The truth is thus the human labels of these contexts, and intervals are for it (``target="these contexts"``). The
    judge's own interval needs no labels and is the same in every draw.

    Parameters
    ----------
    judged, labels, corrections
        As in `biaslab.correct`.
    shares : sequence of float
        Fractions of the labelled contexts to draw, above 0 and below 1.
    draws : int
        Number of draws for each fraction.
    seed : int
        Random seed of the draws.

    Returns
    -------
    pandas.DataFrame
        An estimates frame, one row per ``correction``, ``share`` and metric. ``coverage``: the share of intervals that
        contain the truth, over all draws, with Wilson's 95 % interval for this number of draws. ``interval_width``:
        the median over draws of the mean width, with the middle 90 % of draws as the interval. ``contexts_labelled``
        is the number of contexts per draw.

    Raises
    ------
    InputError
        If a share is not between 0 and 1, or as in `biaslab.correct`.
    TrialsError
        As in `biaslab.correct`, and if even all labels give no estimate.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=24)
    >>> judge = bl.SimulatedJudge(data, verbosity=2.0)
    >>> trials = bl.collect(bl.probes.Verbosity(["coherence"]), judge, data, progress=False)
    >>> drawn = draw_labels(trials, data, shares=[0.5], draws=4)
    >>> coverage = drawn[drawn["metric"] == "coverage"].set_index("correction")["estimate"]
    >>> bool(coverage["judge"] < coverage["ppi"])
    True
    """
    require_count("draws", draws, 1)
    if not shares or not all(0 < share < 1 for share in shares):
        raise InputError("shares", list(shares), "shares above 0 and below 1")
    cell = ["metric", "attribute", "system", "other"]
    truth = correct(judged, labels, corrections=["human"])
    truth = truth[truth["estimate"].notna()]
    if truth.empty:
        raise TrialsError("labels", "no estimate from all of them", "labels of at least five contexts")
    known = truth.set_index(cell)["estimate"].rename("truth")
    contexts = _labelled(judged, labels)
    rng = np.random.default_rng(seed)
    own = correct(judged, labels, corrections=["judge"]) if "judge" in corrections else truth.head(0)
    others = [name for name in corrections if name != "judge"]
    rows: list[dict[str, Any]] = []
    for share in shares:
        count = max(2, round(share * len(contexts)))
        results = []
        for draw in range(draws):
            sample = list(rng.choice(contexts, count, replace=False))
            parts = [own]
            if others:
                parts.append(correct(judged, labels, labelled=sample, corrections=others, target="these contexts"))
            both = pd.concat(parts, ignore_index=True)
            results.append(both.join(known, on=cell, how="inner").assign(draw=draw))
        for name, drawn in pd.concat(results).dropna(subset=["ci_low", "ci_high"]).groupby("correction", sort=False):
            about = {"judge": drawn["judge"].iloc[0], "dataset": drawn["dataset"].iloc[0], "correction": name}
            about |= {"share": share, "contexts_labelled": count, "n_contexts": len(contexts), "n_trials": len(drawn)}
            rows += [about | measured for measured in _measured(drawn, draws)]
    return pd.DataFrame(rows).assign(probe=NAME, method="draws of labels", seed=seed)


def _measured(part: pd.DataFrame, draws: int) -> list[dict[str, Any]]:
    """Return coverage and width of the intervals of one correction, over all draws of a fraction."""
    coverage = part["truth"].between(part["ci_low"], part["ci_high"]).mean()
    low, high = proportion_confint(coverage * draws, draws, alpha=1 - _LEVEL, method="wilson")
    widths = (part["ci_high"] - part["ci_low"]).groupby(part["draw"]).mean().quantile([0.05, 0.5, 0.95])
    return [
        {"metric": "coverage", "estimate": coverage, "ci_low": low, "ci_high": high, "ci_level": _LEVEL},
        {
            "metric": "interval_width",
            **dict(zip(("ci_low", "estimate", "ci_high"), widths, strict=True)),
            "ci_level": 0.9,
        },
    ]


def _labelled(judged: pd.DataFrame, labels: Dataset | pd.DataFrame | None) -> np.ndarray:
    """Return the judged contexts that humans labelled."""
    if labels is None:
        labelled = judged[[name for name in ("human", "human_gap") if name in judged]].notna().any(axis=1)
        return judged.loc[labelled, "context_id"].unique()
    named = labels if isinstance(labels, pd.DataFrame) else labels.human
    return judged.loc[judged["context_id"].isin(named["context_id"]), "context_id"].unique()
