"""Compare an estimate with those of other judges: which are comparable, and how many it exceeds.

Two estimates are comparable if they are over all items, have the same probe and metric, and agree in the conditions
that the metric names (`biaslab.core.Comparison`). Verdicts on pairs compare with verdicts on pairs, whether parsed from
text or taken from the likelier label; points compare only on the same scale. Metrics that depend on the answer mode,
such as logits, declare no comparison. The judged texts still differ, so a rank among other judges shows what is usual;
it is not a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pandas as pd

from biaslab.core import find_metric
from biaslab.core.binned import without_breakdowns
from biaslab.core.errors import InputError
from biaslab.core.output import count
from biaslab.stats import is_above, require_columns

if TYPE_CHECKING:
    from biaslab.core import Comparison

#: Minimum number of comparable judges.
FEWEST = 5
_REFERENCES = "biaslab.references"  # entry points: estimates frames of reference judges, by name
_NEEDED = ("probe", "judge", "dataset", "metric", "estimate", "ci_low", "ci_high")
_NAMED = 5  # maximum number of data sets named in a sentence
_NUMBERS = ["estimate", "ci_low", "ci_high"]


@dataclass(frozen=True, eq=False)
class Peers:
    """Judges with comparable estimates of a metric.

    Attributes
    ----------
    judges : pandas.DataFrame
        One row per judge, indexed by name: ``estimate, ci_low, ci_high``, each the median over the cells (data sets,
        prompts, attributes) in which the judge was measured, so that every judge counts once.
    datasets : tuple of str
        The data sets they judged.
    comparison : Comparison
        What makes them comparable.
    """

    judges: pd.DataFrame
    datasets: tuple[str, ...]
    comparison: Comparison

    @property
    def label(self) -> str:
        """Number of judges and what they judged, for a legend."""
        return f"{count(len(self.judges), 'recorded judge')} ({self.comparison.of})"

    def standing(self, row: Mapping[Any, Any], above: bool) -> str:
        """Count the judges that an estimate exceeds, and how many of their intervals do not overlap its own.

        Parameters
        ----------
        row : mapping
            ``estimate``, ``ci_low`` and ``ci_high`` of this judge.
        above : bool
            Whether "more so" means a higher estimate; otherwise a lower one.

        Examples
        --------
        >>> from biaslab.core import Comparison
        >>> rows = {"estimate": [0.5, 0.6, 0.9], "ci_low": [0.4, 0.5, 0.8], "ci_high": [0.6, 0.7, 1.0]}
        >>> peers = Peers(pd.DataFrame(rows, index=list("abc")), ("chats",), Comparison("verdicts on pairs"))
        >>> peers.standing({"estimate": 0.7, "ci_low": 0.65, "ci_high": 0.75}, above=True)
        'more so than 2 of 3 recorded judges (verdicts on pairs; chats), 1 of them with a non-overlapping interval'
        """
        value, low, high = (float(row[name]) for name in _NUMBERS)
        if above:
            behind = [is_above(value, one) for one in self.judges["estimate"]]
            apart = [is_above(low, one) for one in self.judges["ci_high"]]
        else:
            behind = [is_above(one, value) for one in self.judges["estimate"]]
            apart = [is_above(one, high) for one in self.judges["ci_low"]]
        clearly = sum(both for both in map(all, zip(behind, apart, strict=True)))
        words = f"more so than {sum(behind)} of {self._described}"
        return f"{words}, {clearly} of them with a non-overlapping interval" if any(behind) else words

    @property
    def spread(self) -> str:
        """Range and median of the judges' estimates, to accompany an estimate that shows no bias."""
        values = self.judges["estimate"]
        return f"{self._described}: {values.min():.2f} to {values.max():.2f}, median {values.median():.2f}"

    @property
    def _described(self) -> str:
        more = len(self.datasets) - _NAMED
        named = [*self.datasets[:_NAMED], *([f"{more} more"] if more > 0 else [])]
        return f"{count(len(self.judges), 'recorded judge')} ({self.comparison.of}; {', '.join(named)})"


def judges_of(reference: str | pd.DataFrame) -> pd.DataFrame:
    """Return the estimates of the reference judges.

    Parameters
    ----------
    reference : {"atlas"} or pandas.DataFrame
        The recorded judges of `biaslab.atlas`, or your own estimates frame.

    Raises
    ------
    InputError
        If the name is unknown.
    TrialsError
        If a column is missing.
    """
    estimates = _named(reference) if isinstance(reference, str) else reference
    require_columns(estimates, _NEEDED, "reference")
    rows = without_breakdowns(estimates)
    return rows[rows["estimate"].notna()]


def _named(reference: str) -> pd.DataFrame:
    """Return the estimates registered under a name by the entry points."""
    entries = {entry.name: entry for entry in entry_points(group=_REFERENCES)}
    if reference not in entries:
        raise InputError("reference", reference, f"{' or '.join(map(repr, entries))}, or an estimates frame")
    estimates: pd.DataFrame = entries[reference].load()()
    return estimates


def find_peers(row: Mapping[Any, Any], reference: pd.DataFrame) -> Peers | None:
    """Return the judges comparable with an estimate, or None if there are fewer than five.

    Parameters
    ----------
    row : mapping
        A row of an estimates frame.
    reference : pandas.DataFrame
        From `judges_of`. The row's own judge is excluded.

    Returns
    -------
    Peers or None

    Examples
    --------
    >>> row = {"probe": "position", "metric": "first_position_rate", "dataset": "chats", "ci_low": 0.4, "ci_high": 0.6}
    >>> reference = pd.DataFrame([row | {"judge": f"judge {i}", "estimate": 0.5} for i in range(5)])
    >>> peers = find_peers(row | {"judge": "mine", "estimate": 0.7}, reference)
    >>> peers.label
    '5 recorded judges (verdicts on pairs)'
    >>> find_peers(row | {"judge": "judge 0", "estimate": 0.7}, reference) is None
    True
    """
    comparison = find_metric(row["metric"], row.get("probe")).comparison
    if comparison is None:
        return None
    same = (reference["metric"] == row["metric"]) & (reference["judge"] != row["judge"])
    same &= reference["probe"] == row.get("probe", "")
    for name in comparison.alike:
        if name not in reference or name not in row:
            return None
        same &= reference[name].astype(str) == str(row[name])
    rows = reference[same]
    judges = rows.groupby("judge", sort=True)[_NUMBERS].median()
    if len(judges) < FEWEST:
        return None
    return Peers(judges, tuple(sorted(map(str, set(rows["dataset"])))), comparison)
