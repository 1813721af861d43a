"""Measure every probe of a judge in turn, and keep the estimates, or the reason why there are none, as they come."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import typer

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

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.core import Judge
    from biaslab.datasets import Dataset
    from biaslab.probes.base import Probe
    from biaslab.report import Card

#: Errors of one probe after which the others may still be measured.
_OF_ONE = (InputError, JudgeError, BudgetExceededError, MissingDependencyError)
_OF_ALL = frozenset({401, 402, 403, 404, 429})  # a server that says one of these for good says so to everything


@dataclass
class Measured:
    """Estimates so far, and the reasons where there are none; the card is saved after each probe.

    Parameters
    ----------
    out : Path
        Where the card is saved: what its files begin with.
    remedies : pandas.DataFrame, optional
        As of `biaslab.report.card`.
    frames : list of pandas.DataFrame
        Estimates.
    missing, otherwise : list of tuple of str
        Judge, probe, and why it was not measured or what was asked otherwise.
    ended : dict of str to BiaslabError
        Judges that were asked nothing more, by id, and why.
    """

    out: Path
    remedies: pd.DataFrame | None
    frames: list[pd.DataFrame]
    missing: list[tuple[str, str, str]]
    otherwise: list[tuple[str, str, str]] = field(default_factory=list)
    ended: dict[str, BiaslabError] = field(default_factory=dict)

    def card(self) -> Card:
        """Return the card of everything so far."""
        from biaslab.report import card

        return card(self.frames, self.remedies, unmeasured=self.missing, otherwise=self.otherwise)

    def save(self) -> None:
        """Save the card so far, without its figure; nothing where no bias was measured yet."""
        try:
            self.card().save(self.out, picture=False)
        except TrialsError:
            return


def measure_all(judge: Judge, probes: Sequence[Probe], data: Dataset, store: Path, measured: Measured) -> None:
    """Measure every probe of one judge as far as it can be asked; estimates are added and saved probe by probe."""
    from biaslab.study.spending.announcement import foresee_all

    if planned := foresee_all(probes, judge, data, store):
        typer.echo(f"{judge.id}, {count(len(probes), 'probe')}: {planned}")
    before = len(measured.frames)
    for place, probe in enumerate(probes):
        try:
            measured.frames.append(_measure(probe, judge, data, store, measured))
        except _OF_ONE as error:
            why = " ".join(str(error).split())
            if _ends_all(error, answered=len(measured.frames) > before):
                measured.ended[judge.id] = error
                measured.missing.append((judge.id, ", ".join(other.name for other in probes[place:]), why))
                return
            measured.missing.append((judge.id, probe.name, why))
            typer.echo(f"{probe.name} of {judge.id}: not measured; {why}")
        else:
            measured.save()


def _ends_all(error: BiaslabError, answered: bool) -> bool:
    """Say whether everything else that a judge would be asked fails too, so that one error is enough."""
    if isinstance(error, UnreachableError | ModelLoadError):
        return True
    return isinstance(error, ServerError) and (error.status in _OF_ALL or (error.status is None and not answered))


def _measure(probe: Probe, judge: Judge, data: Dataset, store: Path, measured: Measured) -> pd.DataFrame:
    """Measure what a card shows of one probe: its primary metrics, and how well the judge agrees with references."""
    from biaslab import collect

    trials = collect(probe, judge, data, store=store, progress=sys.stderr.isatty())
    quality = [metric.name for metric in probe.metrics if metric.quality]
    estimates = probe.estimate(trials, [*probe.primary, *quality])
    asked, stored = trials.attrs["asked"], trials.attrs["stored"]
    told = f"{count(asked, 'judge call')}, {count(stored, 'reply')} from the store"
    typer.echo(f"{probe.name} of {judge.id}: {count(len(estimates), 'estimate')}; {told}")
    if "otherwise" in trials.attrs:
        measured.otherwise.append((judge.id, probe.name, trials.attrs["otherwise"]))
        typer.echo(f"  {trials.attrs['otherwise']}")
    return estimates
