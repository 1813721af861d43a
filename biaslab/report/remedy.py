"""Find the remedy that is shown to reduce a bias: paired tests, corrected for the number of remedies tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.multitest import multipletests

from biaslab.core.output import number
from biaslab.report.wording import condition_text, interval, size
from biaslab.stats import ALPHA, is_above, is_rounding, p_by_t, require_columns

_MEASURED = (
    *("before", "before_se", "before_low", "before_high", "after", "after_se"),
    *("difference", "se", "p_value", "n_contexts", "ci_level"),
)
_ESTIMATED = ("judge", "metric", "remedy", "estimate", "se", "ci_low", "ci_high", "p_value", "n_contexts", "ci_level")
_PART = ("attribute", "template", "orders")


def best_remedy(cells: pd.DataFrame, remedies: pd.DataFrame) -> str:
    """Return a sentence on which remedy is shown to reduce a bias, and by how much, or that none is.

    Parameters
    ----------
    cells : pandas.DataFrame
        Rows of `biaslab.report.findings` for one judge and metric.
    remedies : pandas.DataFrame
        Result of `biaslab.mitigation.remedies`, or an estimates frame such as from `biaslab.ranking.compare_remedies`
        with the columns ``remedy`` ("none" or empty without a remedy) and ``against`` ("none" if the estimate is the
        paired difference to no remedy).

    Returns
    -------
    str
        Empty if no remedy was measured for this judge and metric.

    Raises
    ------
    TrialsError
        If a column is missing.

    Notes
    -----
    A remedy helps if it brings the estimate nearer to the null: the estimate moves towards the null, and does not end
    up as far beyond it. Both are tested by Student's t, paired over contexts, and the larger p-value counts (Berger
    1982). The direction is that of the bias, so tests are one-sided if the interval without a remedy excludes the null.
    p-values are corrected over the remedies by Holm's procedure: if no remedy works, one is named in at most 5 % of
    studies. Several cells of one metric share contexts; they are averaged, using the mean of their standard errors,
    which is conservative whatever their correlation.

    **Selection.** The best of several remedies is also the luckiest. Its estimate is shrunk towards the one without a
    remedy by the share of the variance of effects that noise explains (Efron & Morris 1973), and its interval is
    simultaneous over all remedies tried.

    References
    ----------
    Berger 1982, *Multiparameter hypothesis testing and acceptance sampling*, Technometrics 24; Efron & Morris 1973,
    *Stein's estimation rule and its competitors*, JASA 68; Holm 1979, *A simple sequentially rejective multiple test
    procedure*, Scand. J. Statistics 6.
    """
    rows = _measured(cells, remedies)
    if rows.empty:
        return ""
    null = float(cells["null"].iloc[0])
    tried = [_Tried.of(str(name), part, null) for name, part in rows.groupby("remedy", sort=False)]
    names = ", ".join(one.name for one in tried)
    if all(math.isnan(one.p_value) for one in tried):
        return f"not tested: {names} (no paired differences; see biaslab.mitigation.remedies)"
    tested = [one for one in tried if not math.isnan(one.p_value)]
    helpful = multipletests([one.p_value for one in tested], ALPHA, "holm")[0]
    if helpful.any():
        best = min((one for one, helps in zip(tested, helpful, strict=True) if helps), key=lambda one: one.left)
        return best.words(tested)
    least = max(one.detectable(len(tested)) for one in tested)
    can = f"can detect an improvement ≥ {size(least)} (80 % power)" if least > 0 else "too few contexts"
    return f"none of {names} is shown to help; {can}"


def _measured(cells: pd.DataFrame, remedies: pd.DataFrame) -> pd.DataFrame:
    """Return one row per remedy and cell: estimates without and with it and the paired difference (NaN if missing)."""
    first = cells.iloc[0]
    if "difference" in remedies:
        require_columns(remedies, ("judge", "metric", "remedy", *_MEASURED), "remedies")
        own = remedies[(remedies["judge"] == first["judge"]) & (remedies["metric"] == first["metric"])]
        return pd.DataFrame(own[own["after"].notna()])
    require_columns(remedies, _ESTIMATED, "remedies")
    own = remedies[(remedies["judge"] == first["judge"]) & (remedies["metric"] == first["metric"])]
    own = own[own["estimate"].notna()]
    against = own["against"].fillna("") if "against" in own else pd.Series("", own.index)
    without = own["remedy"].fillna("").isin(["", "none"])
    part = [name for name in _PART if name in own and own[name].notna().any()]
    own = own.assign(**{name: own[name].map(condition_text) for name in part})
    before = own[without & (against == "")] if (without & (against == "")).any() else cells
    after = own[~without & (against == "")]
    gap = own[~without & (against == "none")]
    gap_columns = {"estimate": "difference", "p_value": "p_value", "se": "se"}
    before_columns = {"estimate": "before", "se": "before_se", "ci_low": "before_low", "ci_high": "before_high"}
    by = [name for name in part if name in before]
    before = before.assign(**{name: before[name].map(condition_text) for name in by})
    left = after[["remedy", *part, "estimate", "se", "n_contexts", "ci_level"]]
    left = left.rename(columns={"estimate": "after", "se": "after_se"})
    states = before[[*by, *before_columns]].rename(columns=before_columns)
    paired = left.merge(states, on=by, how="inner") if by else left.merge(states, how="cross")
    gaps = gap[["remedy", *part, *gap_columns]].rename(columns=gap_columns)
    return pd.DataFrame(paired.merge(gaps, on=["remedy", *part], how="left"))


@dataclass(frozen=True)
class _Tried:
    """A remedy over all cells of a metric: how much nearer to the null it brings the estimate."""

    name: str
    before: float
    after: float
    after_se: float
    left: float
    se: float
    p_value: float
    one_sided: bool
    contexts: int
    cells: int
    level: float

    @classmethod
    def of(cls, name: str, rows: pd.DataFrame, null: float) -> _Tried:
        """Test whether a remedy helps in these cells, on average."""
        contexts, cells = int(rows["n_contexts"].min()), len(rows)
        before, after = rows["before"].mean(), rows["after"].mean()
        errors = {column: rows[column].fillna(0.0).to_numpy(float) for column in ("before_se", "after_se", "se")}
        direction = np.sign(rows["before"].to_numpy(float) - null)
        gain = float((direction * -rows["difference"].to_numpy(float)).mean())
        on_this_side = float((direction * (rows["before"] + rows["after"] - 2 * null)).mean())
        of_sum = np.sqrt(np.maximum(2 * errors["before_se"] ** 2 + 2 * errors["after_se"] ** 2 - errors["se"] ** 2, 0))
        biased = [
            is_above(row["before_low"], null) or is_above(null, row["before_high"]) for row in rows.to_dict("records")
        ]
        moved = float(rows["p_value"].iloc[0]) if cells == 1 else _two_sided(gain, errors["se"].mean(), contexts)
        nearer = moved / (2 if all(biased) else 1) if gain > 0 else 1.0
        within = _two_sided(on_this_side, float(of_sum.mean()), contexts) / 2 if on_this_side > 0 else 1.0
        return cls(
            name=name,
            before=float(before),
            after=float(after),
            after_se=float(errors["after_se"].mean()),
            left=float((rows["after"] - null).abs().mean()),
            se=float(errors["se"].mean()),
            p_value=math.nan if math.isnan(gain) or math.isnan(moved) else max(nearer, within),
            one_sided=all(biased),
            contexts=contexts,
            cells=cells,
            level=float(rows["ci_level"].iloc[0]),
        )

    def detectable(self, tried: int) -> float:
        """Return the smallest improvement detectable with 80 % power, corrected for the number of remedies tried."""
        level = ALPHA / tried / (1 if self.one_sided else 2)
        if self.contexts < 2 or 2.0**-self.contexts > level:
            return math.nan
        return float(np.sum(stats.t.ppf([1 - level, 0.8], self.contexts - 1))) * self.se

    def words(self, tried: Sequence[_Tried]) -> str:
        """Return a sentence on this remedy, the best of those tried."""
        if len(tried) > 1:
            after_squared = [one.after_se**2 for one in tried]
            spread = max(float(np.mean([(one.before - one.after) ** 2 for one in tried]) - np.mean(after_squared)), 0.0)
            kept = spread / (spread + self.after_se**2) if spread else 0.0
        else:
            kept = 1.0
        after = self.before - kept * (self.before - self.after)
        reach = float(stats.t.ppf(1 - (1 - self.level) / 2 / len(tried), self.contexts - 1)) * self.after_se
        low, high = min(self.after - reach, after), max(self.after + reach, after)
        shown = f"{self.name}: {number(self.before)} becomes {number(after)} {interval(low, high)}"
        about = [f"means of {self.cells} cells"] * (self.cells > 1)
        about += [f"best of {len(tried)}: shrunk, simultaneous interval"] * (len(tried) > 1)
        return f"{shown} ({'; '.join(about)})" if about else shown


def _two_sided(distance: float, error: float, contexts: int) -> float:
    """Return the two-sided p-value of a mean over contexts; without variation, that of a sign-flip test."""
    if math.isnan(distance) or contexts < 2:
        return math.nan
    if is_rounding(distance):
        return 1.0
    return 2.0 ** (1 - contexts) if is_rounding(error, distance) else p_by_t(distance, error, contexts)
