"""The estimates frame: one scalar a row, with its uncertainty, the only thing that plots, tables and papers see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.errors import TrialsError
from biaslab.stats.resampling import Estimate, Resampling, cluster_ratio

LEADING = ("probe", "judge", "dataset", "metric")
TRAILING = (
    "estimate",
    "ci_low",
    "ci_high",
    "ci_level",
    "p_value",
    "q_value",
    "mde",
    "n_contexts",
    "n_trials",
    "n_dropped",
    "method",
    "seed",
    "note",
)


@dataclass(frozen=True)
class Ratio:
    """A metric that is a ratio of two sums, item by item: a rate, or a mean.

    Parameters
    ----------
    context : array_like of str, shape (items,)
        The context of each item.
    numerator, denominator : array_like of float, shape (items,)
        What an item adds to both sums.
    null : float, optional
        Value under the null hypothesis, if there is one to test.
    bounds : tuple of float, optional
        Least and greatest possible value.
    missing : str
        What to note when nothing is left to divide by.
    """

    context: ArrayLike
    numerator: ArrayLike
    denominator: ArrayLike
    null: float | None = None
    bounds: tuple[float, float] | None = None
    missing: str = "undefined: no trial is left"

    def estimate(self, resampling: Resampling) -> Estimate:
        """Sum within contexts and estimate over them."""
        sums = (
            pd.DataFrame(
                {
                    "context": np.asarray(self.context),
                    "num": np.asarray(self.numerator, float),
                    "den": np.asarray(self.denominator, float),
                }
            )
            .groupby("context")[["num", "den"]]
            .sum()
        )
        found = cluster_ratio(sums["num"], sums["den"], resampling, self.null, self.bounds)
        return found if found.n_contexts else replace(found, note=self.missing)


def ratio_rows(
    ratios: Mapping[str, Ratio], cell: Mapping[str, Any], blocks: pd.DataFrame, resampling: Resampling
) -> list[dict[str, Any]]:
    """Estimate several ratios of one cell.

    Parameters
    ----------
    ratios : mapping of str to Ratio
        By name of the metric.
    cell : mapping
        Judge, data set and the condition columns.
    blocks : pandas.DataFrame
        Made by `biaslab.stats.pairs.both_orders`: two judgements a row, ``attrs["n_dropped"]`` more planned.
    resampling : Resampling
        How uncertainty is computed.
    """
    counts = {"n_trials": 2 * len(blocks), "n_dropped": blocks.attrs.get("n_dropped", 0)}
    settings = {"ci_level": resampling.level, "seed": resampling.seed}
    return [
        {"metric": metric, **cell, **asdict(ratio.estimate(resampling)), **counts, **settings}
        for metric, ratio in ratios.items()
    ]


def estimates_frame(
    rows: Sequence[Mapping[str, Any]], probe: str, primary: Sequence[str], conditions: Sequence[str]
) -> pd.DataFrame:
    """Put rows into the frame and add q-values.

    Parameters
    ----------
    rows : sequence of mapping
        Made by `ratio_rows`.
    probe : str
        Name of the probe.
    primary : sequence of str
        Metrics that form the family of Benjamini and Hochberg's q-values.
    conditions : sequence of str
        Names of the condition columns, in order.

    Returns
    -------
    pandas.DataFrame
        ``probe, judge, dataset, metric, <conditions>, estimate, ci_low, ci_high, ci_level, p_value, q_value, mde,
        n_contexts, n_trials, n_dropped, method, seed, note``.
    """
    columns = [*LEADING, *conditions, *TRAILING]
    frame = pd.DataFrame(list(rows)).assign(probe=probe, q_value=np.nan).reindex(columns=columns)
    family = frame["metric"].isin(list(primary)) & frame["p_value"].notna()
    if family.any():
        frame.loc[family, "q_value"] = stats.false_discovery_control(frame.loc[family, "p_value"].to_numpy())
    return frame


def require_columns(frame: pd.DataFrame, wanted: Sequence[str], what: str) -> None:
    """Raise `TrialsError` if a frame lacks one of the columns that are read from it."""
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise TrialsError(what, f"without {', '.join(missing)}", f"a frame with the columns {', '.join(wanted)}")
