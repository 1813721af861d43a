"""Base of all probes: parameters, declarations, and the way from trials to estimates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import Any, ClassVar, Self

import pandas as pd

from biaslab.core import (
    Calibration,
    Figure,
    Metric,
    Nearest,
    Reply,
    Request,
    Status,
    Trial,
    declare_metrics,
    reading_text,
)
from biaslab.core.checked import check_methods, checked_fields, checked_function
from biaslab.core.checks import require_attributes_list, require_whole
from biaslab.core.declarations import Form
from biaslab.core.schema import Dataset
from biaslab.probes.base.cell import Cell, Part, with_lost
from biaslab.probes.base.value_ranges import in_points, require_values
from biaslab.stats import (
    Resampling,
    choose_metrics,
    each_cell,
    estimates_frame,
    require_columns,
    shared_requests,
    warn_shared,
    without_rounding,
)
from biaslab.store.trials import TrialsFile, opened, spelled

#: Every probe class that has been read in, by its name, wherever it is written.
WRITTEN: dict[str, type[Probe]] = {}
#: A simulated judge that sees quality and errs, without any bias: what most metrics are calibrated on.
FAIR: dict[str, Any] = {"quality": 1.0, "noise": 1.0, "context_noise": 0.5}


def planted(
    bias: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    fair: Mapping[str, Any] = FAIR,
    **options: Any,
) -> Calibration:
    """Declare how a metric is calibrated: on a fair judge, and on the same judge with a bias.

    Parameters
    ----------
    bias : mapping
        Settings of `biaslab.SimulatedJudge` that plant the bias.
    parameters : mapping, optional
        Constructor parameters of the probe, such that the metric has one value.
    fair : mapping
        Settings of the fair judge.
    **options
        The rest of `biaslab.core.Calibration`.

    Examples
    --------
    >>> planted({"position": 0.4}, fair={"noise": 1.0}).planted
    {'noise': 1.0, 'position': 0.4}
    """
    return Calibration(fair, {**fair, **bias}, parameters or {}, **options)


@dataclass(frozen=True)
class Accepted:
    """The trials of a log from which a probe can be estimated, a note on what is left out, and the probe to use."""

    trials: pd.DataFrame
    note: str = ""
    probe: Probe | None = None


@dataclass(frozen=True)
class Probe(ABC):
    """Base of all probes: a frozen dataclass whose fields are its parameters, and which never meets a judge.

    A subclass says what it measures in class attributes, plans judgements in `design`, reads a reply in `read`, and
    says in `measure` what the trials of one cell give.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to judge; all attributes of the data set by default.
    seed : int
        Of everything drawn at random.
    resampling : Resampling
        Of the estimates.

    Attributes
    ----------
    name : str
        The phenomenon; also the name of the module, the notebook and the test.
    metrics : tuple of Metric
        Everything that is estimated, in the order of the estimates.
    primary : tuple of str
        The names of the primary ones, over which q-values are computed.
    labels : tuple of Metric
        How metrics are read that other functions estimate of the phenomenon.
    figures : tuple of Figure
        Its standard figures, which `biaslab.plots.standard` draws.
    cell : tuple of str
        Columns of trials that tell cells apart, judge and data set first.
    conditions : tuple of str
        Condition columns of the estimates beyond those of the cell.
    columns : tuple of str
        Other columns of trials that are read.
    needs : str
        What a log must hold to be estimated from, after "needs".
    asks_for : tuple of str
        What it asks a judge for: "pair", "score" or "list"; by default the forms of the protocols that it takes.
    """

    name: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]] = ()
    primary: ClassVar[tuple[str, ...]] = ()
    labels: ClassVar[tuple[Metric, ...]] = ()
    figures: ClassVar[tuple[Figure, ...]] = ()
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute")
    conditions: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[str] = "trials of its own design"
    asks_for: ClassVar[tuple[Form, ...]] = ("score",)

    attributes: Sequence[str] | None = None
    seed: int = field(default=0, kw_only=True)
    resampling: Resampling = field(default_factory=Resampling, kw_only=True)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        check_methods(cls)
        checked_fields(cls)
        if "protocol_form" in vars(cls) and "asks_for" not in vars(cls) and vars(cls)["protocol_form"]:
            cls.asks_for = tuple(vars(cls)["protocol_form"].split(" or "))
        cls.primary = tuple(metric.name for metric in cls.metrics if metric.primary)
        if hasattr(cls, "name"):
            own = "name" in vars(cls)
            declare_metrics(cls.name, (*cls.metrics, *cls.labels), again=own)
            if own:
                WRITTEN[cls.name] = cls

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        require_whole("seed", self.seed, 0)

    @classmethod
    @checked_function
    def from_parameters(cls, parameters: Mapping[str, Any], **others: Any) -> Self:
        """Make the probe from variables that are named like its fields, such as the parameters of a notebook.

        Parameters
        ----------
        parameters : mapping
            Values by name, such as ``globals()``. Names that are no field are left out; a field that is not among them
            has its default. ``seed`` is that of the resampling, too.
        **others
            Fields, in place of those.

        Examples
        --------
        >>> import biaslab as bl
        >>> bl.probes.Position.from_parameters({"n_pairs": 2, "seed": 3, "judge": "mine"}, ties=True).resampling.seed
        3
        """
        given = {each.name: parameters[each.name] for each in fields(cls) if each.name in parameters} | others
        if "seed" in given:
            given.setdefault("resampling", Resampling(seed=given["seed"]))
        return cls(**given)

    @abstractmethod
    def design(self, dataset: Dataset) -> Iterable[Trial]:
        """Plan the judgements of a data set."""

    @abstractmethod
    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Turn one raw reply into a value and a status; NaN unless the status is ``"ok"`` or ``"tie"``."""

    @checked_function
    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design without such requests as a judge refuses; None where there is none.

        Trials of that design are estimated by this probe, too: see `biaslab.core.Nearest`.
        """
        return reading_text(self, refused)

    @abstractmethod
    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of one cell, a part for each condition."""

    @checked_function
    def estimate(
        self,
        trials: pd.DataFrame | TrialsFile | str | PathLike[str],
        metrics: Sequence[str] | None = None,
        breakdowns: bool | None = None,
    ) -> pd.DataFrame:
        """Estimate the metrics, which the notes of the class explain, from trials.

        Parameters
        ----------
        trials : pandas.DataFrame, TrialsFile or path
            Made by `biaslab.collect`, or by `biaslab.read_judgements` where `accepts` takes them. Of the file that
            ``collect(…, out=path)`` wrote, one cell at a time is in memory as it is, the rest in compact columns.
        metrics : sequence of str, optional
            Estimate these only; by default all.
        breakdowns : bool, optional
            Estimate some metrics by bins of the human score gap too (column ``human_gap``), where the probe does that.
            By default if no metrics are named. False leaves one row for each metric of a cell.

        Returns
        -------
        pandas.DataFrame
            The estimates frame: see `biaslab.stats.frame.estimates_frame`.

        Raises
        ------
        InputError
            If there is no such metric; the message lists those there are.
        TrialsError
            If a column is missing, or a value lies outside the range of what was asked.

        Warns
        -----
        MissingDataWarning
            If more than 5 % of the judgements of an estimate are missing.
        SharedRequestsWarning
            If contexts share requests: then they are one cluster.
        """
        chosen = choose_metrics([metric.name for metric in self.metrics], metrics)
        source = opened(trials)
        columns = (*self.cell, "protocol") if "protocol" in source.columns else self.cell
        require_columns(source, (*columns, *self.columns), "trials")
        rows: list[dict[str, Any]] = []
        shared: dict[Any, Any] = {}
        for values, part in _cells(source, columns):
            where = dict(zip(columns, values, strict=True))
            clusters = shared_requests(part)
            shared |= clusters
            probe = replace(self, resampling=replace(self.resampling, clusters=clusters)) if clusters else self
            if "value" in part:
                require_values(part)
                part = part.assign(value=without_rounding(in_points(part)))
            cell = Cell(
                part,
                where,
                chosen,
                metrics is None if breakdowns is None else breakdowns,
                self._named(where),
                probe.resampling,
            )
            measured = [row for part_of_cell in probe.measure(cell) for row in part_of_cell.rows(cell)]
            rows += with_lost(measured, part)
        warn_shared(self.name, shared)
        return estimates_frame(rows, self.name, self.primary, (*columns[2:], *self.conditions))

    @checked_function
    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Choose the trials of a log to estimate from: those of this probe's own design, else recorded ones.

        Parameters
        ----------
        trials : pandas.DataFrame
            Made by `biaslab.read_judgements`, with all its columns.

        Returns
        -------
        Accepted
            Without trials where there are none; then the note says what is needed.
        """
        own = trials[trials["probe"] == self.name]
        if own.empty:
            return self.accepts_recorded(trials[trials["probe"] == "recorded"])
        lacking = [column for column in self.columns if column not in own]
        return self._accepted(own.iloc[:0] if lacking else own)

    @checked_function
    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Choose among judgements of no probe's design; none, unless a subclass says which."""
        return self._accepted(trials.iloc[:0])

    def _accepted(self, trials: pd.DataFrame, note: str = "") -> Accepted:
        """Return the trials to estimate from, with a note; where there are none, it says what is needed."""
        return Accepted(trials, f"needs {self.needs}" if trials.empty else note)

    def _named(self, where: Mapping[str, Any]) -> str:
        parts = [str(where[name]) if name == "attribute" else f"{name} {where[name]}" for name in self.cell[2:]]
        return f"{self.name} ({', '.join(parts)})"


def _cells(trials: pd.DataFrame | TrialsFile, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield the trials of each cell as they are in memory."""
    if isinstance(trials, pd.DataFrame):
        yield from each_cell(trials, by)
    else:
        for values, part in each_cell(trials.compact(), by):
            yield values, spelled(part)
