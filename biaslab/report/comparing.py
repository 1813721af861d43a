"""Place an estimate among those of other judges: which of them compare with it, and how many it exceeds.

Estimates of different judges compare where their metric declares so (`biaslab.core.Comparison`): they have the same
probe and metric, the conditions that the metric names are alike, and they are over all items. So verdicts on pairs
compare with verdicts on pairs, whether read in text or taken from the likelier label, and points only with points of
the same scale; metrics that depend on how was answered, such as logits, declare nothing. Texts differ all the same, so
that a standing among other judges says what is usual, and is no test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pandas as pd

from biaslab.core import find_metric
from biaslab.core.binned import over_all_items
from biaslab.core.errors import InputError
from biaslab.core.output import count
from biaslab.stats import is_above, require_columns

if TYPE_CHECKING:
    from biaslab.core import Comparison

#: Nothing is said among fewer judges.
FEWEST = 5
_REFERENCES = "biaslab.references"  # entry points: frames of judges to stand among, by name
_NEEDED = ("probe", "judge", "dataset", "metric", "estimate", "ci_low", "ci_high")
_NAMED = 5  # data sets that a sentence has room for
_NUMBERS = ["estimate", "ci_low", "ci_high"]


@dataclass(frozen=True, eq=False)
class Peers:
    """Judges whose estimates of a metric compare.

    Attributes
    ----------
    judges : pandas.DataFrame
        One row a judge, whose name is the index: ``estimate, ci_low, ci_high``, each the median over the cells (data
        sets, prompts, attributes) in which the judge was measured, so that every judge counts once.
    datasets : tuple of str
        What they judged.
    comparison : Comparison
        What was asked of them, and what is alike.
    """

    judges: pd.DataFrame
    datasets: tuple[str, ...]
    comparison: Comparison

    @property
    def label(self) -> str:
        """Number of judges and what they were asked, for a legend."""
        return f"{count(len(self.judges), 'recorded judge')} ({self.comparison.of})"

    def standing(self, row: Mapping[Any, Any], above: bool) -> str:
        """Count the judges that an estimate exceeds, and those whose intervals do not overlap its own.

        Parameters
        ----------
        row : mapping
            ``estimate``, ``ci_low`` and ``ci_high`` of the judge at hand.
        above : bool
            Whether more of the metric is meant, or less.

        Examples
        --------
        >>> from biaslab.core import Comparison
        >>> rows = {"estimate": [0.5, 0.6, 0.9], "ci_low": [0.4, 0.5, 0.8], "ci_high": [0.6, 0.7, 1.0]}
        >>> peers = Peers(pd.DataFrame(rows, index=list("abc")), ("chats",), Comparison("verdicts on pairs"))
        >>> peers.standing({"estimate": 0.7, "ci_low": 0.65, "ci_high": 0.75}, above=True)
        'more so than 2 of 3 recorded judges (verdicts on pairs; chats), 1 of them with intervals apart'
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
        return f"{words}, {clearly} of them with intervals apart" if any(behind) else words

    @property
    def spread(self) -> str:
        """Range and median of their estimates, for an estimate that shows no bias."""
        values = self.judges["estimate"]
        return f"{self._described}: {values.min():.2f} to {values.max():.2f}, median {values.median():.2f}"

    @property
    def _described(self) -> str:
        more = len(self.datasets) - _NAMED
        named = [*self.datasets[:_NAMED], *([f"{more} more"] if more > 0 else [])]
        return f"{count(len(self.judges), 'recorded judge')} ({self.comparison.of}; {', '.join(named)})"


def judges_of(reference: str | pd.DataFrame) -> pd.DataFrame:
    """Return the estimates of judges to compare with.

    Parameters
    ----------
    reference : {"atlas"} or pandas.DataFrame
        The recorded judges of `biaslab.atlas`, or an estimates frame of one's own.

    Raises
    ------
    InputError
        If it is another name.
    TrialsError
        If a column is missing.
    """
    estimates = _named(reference) if isinstance(reference, str) else reference
    require_columns(estimates, _NEEDED, "reference")
    rows = over_all_items(estimates)
    return rows[rows["estimate"].notna()]


def _named(reference: str) -> pd.DataFrame:
    entries = {entry.name: entry for entry in entry_points(group=_REFERENCES)}
    if reference not in entries:
        raise InputError("reference", reference, f"{' or '.join(map(repr, entries))}, or an estimates frame")
    estimates: pd.DataFrame = entries[reference].load()()
    return estimates


def find_peers(row: Mapping[Any, Any], reference: pd.DataFrame) -> Peers | None:
    """Return the judges whose estimates compare with one, or None where they are fewer than five.

    Parameters
    ----------
    row : mapping
        Of an estimates frame.
    reference : pandas.DataFrame
        From `judges_of`. The judge of the row itself is left out.

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
