"""Measure the probes of a judge one by one, keeping the estimates or the reason why there are none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.core.errors import (
    BiaslabError,
    BudgetExceededError,
    InputError,
    JudgeError,
    MissingDependencyError,
    ModelLoadError,
    ServerError,
    TrialsError,
    UnreachableError,
)
from biaslab.core.output import count
from biaslab.report.card import Card, card
from biaslab.study.collect import collect
from biaslab.study.spending.announcement import Announcement, foresee_all
from biaslab.study.spending.budget import Budget

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.core import Judge
    from biaslab.datasets import Dataset
    from biaslab.probes.base import Probe

#: Errors that end one probe but not the others.
_OF_ONE = (InputError, JudgeError, BudgetExceededError, MissingDependencyError)
_OF_ALL = frozenset({401, 402, 403, 404, 429})  # status codes that a server keeps returning, whatever the request


@dataclass
class Measured:
    """Estimates so far, and reasons for missing ones; saves the card after each probe.

    Parameters
    ----------
    out : Path, optional
        Path of the card's files, without suffix. Default: do not save.
    remedies : pandas.DataFrame, optional
        As in `biaslab.report.card`.
    frames : list of pandas.DataFrame
        Estimates frames.
    missing, otherwise : list of tuple of str
        Judge, probe, and why it was not measured or what was asked differently.
    ended : dict of str to BiaslabError
        Judges that are no longer asked, by id, with the error.
    trials : list of pandas.DataFrame
        Judgements of each measured probe.
    everything : bool
        Estimate all metrics; otherwise only those on a card.
    say : callable
        Receives progress messages, one line at a time.
    progress : bool, optional
        Show progress bars; default: only in a terminal.
    """

    out: Path | None = None
    remedies: pd.DataFrame | None = None
    frames: list[pd.DataFrame] = field(default_factory=list)
    missing: list[tuple[str, str, str]] = field(default_factory=list)
    otherwise: list[tuple[str, str, str]] = field(default_factory=list)
    ended: dict[str, BiaslabError] = field(default_factory=dict)
    trials: list[pd.DataFrame] = field(default_factory=list)
    everything: bool = False
    say: Callable[[str], object] = print
    progress: bool | None = None

    def card(self, reference: str | pd.DataFrame | None = "atlas") -> Card:
        """Return the card of all estimates so far."""
        options = {"unmeasured": self.missing, "otherwise": self.otherwise, "reference": reference}
        return card(self.frames, self.remedies, **options)  # type: ignore[arg-type]

    def save(self) -> None:
        """Save the card so far, without its figure; do nothing if no bias has been measured yet."""
        if self.out is None:
            return
        try:
            self.card().save(self.out, picture=False)
        except TrialsError:
            return


def measure_all(
    judge: Judge,
    probes: Sequence[Probe],
    data: Dataset,
    store: Path,
    measured: Measured,
    budget: Budget | None = None,
) -> Announcement | None:
    """Measure all probes of one judge, adding and saving estimates probe by probe.

    Parameters
    ----------
    judge, data, store
        As for `biaslab.collect`.
    probes : sequence of Probe
        The probes, in the order to ask.
    measured : Measured
        The results to add to.
    budget : Budget, optional
        Budget for all probes together; default: the judge's own limits, if any, for each run.

    Returns
    -------
    Announcement or None
        The planned requests; None if the store held all replies.

    Raises
    ------
    BudgetExceededError
        Before asking, if the budget does not cover all probes and is not partial.
    """
    planned = foresee_all(probes, judge, data, store, budget)
    if planned is not None:
        measured.say(f"{judge.id}, {count(len(probes), 'probe')}: {planned}")
    left = None if budget is None else _Left(budget)
    before = len(measured.frames)
    for place, probe in enumerate(probes):
        try:
            measured.frames.append(_measure(probe, judge, data, store, measured, left))
        except _OF_ONE as error:
            why = " ".join(str(error).split())
            spent = left is not None and isinstance(error, BudgetExceededError)
            if spent or _ends_all(error, answered=len(measured.frames) > before):
                measured.ended[judge.id] = error
                measured.missing.append((judge.id, ", ".join(other.name for other in probes[place:]), why))
                return planned
            measured.missing.append((judge.id, probe.name, why))
            measured.say(f"{probe.name} of {judge.id}: not measured; {why}")
        else:
            measured.save()
    return planned


class _Left:
    """The remainder of a budget shared by several runs."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._began = budget, time.monotonic()
        self._spent = {"requests": 0, "tokens": 0, "dollars": 0.0}

    def spend(self, attrs: dict[Any, Any]) -> None:
        """Subtract what a run has spent."""
        for name, column in (("requests", "asked"), ("tokens", "tokens"), ("dollars", "dollars")):
            self._spent[name] += attrs[column]

    @property
    def budget(self) -> Budget:
        """The budget for the next run; raises `BudgetExceededError` if nothing is left."""
        spent = {**self._spent, "minutes": (time.monotonic() - self._began) / 60}
        left = {name: limit - spent[name] for name in spent if (limit := getattr(self._budget, name)) is not None}
        over = [name for name, amount in left.items() if amount <= 0]
        if over:
            raise BudgetExceededError(f"the budget is spent: no {over[0]} are left; run again with a larger budget")
        return replace(self._budget, **left)


def _ends_all(error: BiaslabError, answered: bool) -> bool:
    """Return whether all further requests to the judge would fail too."""
    if isinstance(error, UnreachableError | ModelLoadError):
        return True
    return isinstance(error, ServerError) and (error.status in _OF_ALL or (error.status is None and not answered))


def _measure(
    probe: Probe, judge: Judge, data: Dataset, store: Path, measured: Measured, left: _Left | None
) -> pd.DataFrame:
    """Measure the metrics of one probe that a card shows: the primary ones, and agreement with references."""
    bars = sys.stderr.isatty() if measured.progress is None else measured.progress
    limits = None if left is None else left.budget
    how: dict[str, Any] = {"progress": bars, "budget": limits, "announce": False}  # all probes were announced together
    trials = collect(probe, judge, data, store=store, **how)
    if left is not None:
        left.spend(trials.attrs)
    quality = [metric.name for metric in probe.metrics if metric.quality]
    estimates = probe.estimate(trials, None if measured.everything else [*probe.primary, *quality], breakdowns=False)
    asked, stored = trials.attrs["asked"], trials.attrs["stored"]
    sources = f"{count(asked, 'judge call')}, {count(stored, 'reply')} from the store"
    measured.say(f"{probe.name} of {judge.id}: {count(len(estimates), 'estimate')}; {sources}")
    if "otherwise" in trials.attrs:
        otherwise = (judge.id, probe.name, trials.attrs["otherwise"])
        if otherwise not in measured.otherwise:  # verbosity of pairs and of scores give the same message
            measured.otherwise.append(otherwise)
            measured.say(f"  {trials.attrs['otherwise']}")
    measured.trials.append(trials)
    return estimates
