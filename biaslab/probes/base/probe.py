"""Base of all probes: parameters, declarations, and estimation from trials."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Floats
from biaslab.core.checks import require_fields, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.interfaces import Design, Nearest, reading_text
from biaslab.core.metrics import Calibration, Figure, Metric, MetricForm, declare_metrics
from biaslab.core.requests import Request
from biaslab.core.scales import REWARD, scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Status, Trial
from biaslab.probes.base.cell import Cell, Part, with_lost
from biaslab.stats.blocks import each_cell, shared_requests, warn_shared
from biaslab.stats.estimate import without_rounding
from biaslab.stats.frame import choose_metrics, estimates_frame, require_columns
from biaslab.stats.resample import Resampling

if TYPE_CHECKING:
    from biaslab.store.tables import TrialsFile

#: All probe classes defined so far, by name.
WRITTEN: dict[str, type[Probe]] = {}
#: Simulated judge with quality and noise but no bias, on which most metrics are calibrated.
FAIR: dict[str, Any] = {"quality": 1.0, "noise": 1.0, "context_noise": 0.5}


def planted(
    bias: Mapping[str, Any], parameters: Mapping[str, Any] | None = None, fair: Mapping[str, Any] = FAIR, **options: Any
) -> Calibration:
    """Declare how a metric is calibrated: on a fair judge, and on the same judge with a bias.

    Parameters
    ----------
    bias : mapping
        Settings of `biaslab.SimulatedJudge` that add the bias.
    parameters : mapping, optional
        Parameters of the probe with which the metric has a single value.
    fair : mapping
        Settings of the fair judge.
    **options
        Other fields of `biaslab.core.Calibration`.

    Examples
    --------
    >>> planted({"position": 0.4}, fair={"noise": 1.0}).planted
    {'noise': 1.0, 'position': 0.4}
    """
    return Calibration(fair, {**fair, **bias}, parameters or {}, **options)


@dataclass(frozen=True)
class Accepted:
    """The trials of a log that a probe can use, a note on what is left out, and the probe to use."""

    trials: pd.DataFrame
    note: str = ""
    probe: Probe | None = None


@dataclass(frozen=True)
class Probe(Design, ABC):
    """Base of all probes: a frozen dataclass whose fields are its parameters; it never asks a judge itself.

    A subclass declares its metrics in class attributes, plans judgements in `design`, parses replies in `read`, and
    computes the metrics of one cell in `measure`.

    Parameters
    ----------
    attributes : sequence of str, optional
        Attributes to judge; default: all of the data set.
    seed : int
        Random seed.
    resampling : Resampling
        Level and resampling of the estimates.

    Attributes
    ----------
    name : str
        Name of the bias, and of the module, the notebook and the test.
    metrics : tuple of Metric
        All metrics, in the order of the estimates.
    primary : tuple of str
        Names of the primary metrics, over which q-values are computed.
    labels : tuple of Metric
        Declarations of metrics of this bias that other functions estimate.
    figures : tuple of Figure
        Standard figures, drawn by `biaslab.plots.standard`.
    cell : tuple of str
        Columns of trials that define cells, judge and data set first.
    conditions : tuple of str
        Condition columns of the estimates in addition to those of the cell.
    columns : tuple of str
        Other columns of trials that the probe reads.
    needs : str
        What a log must contain; completes "needs …".
    protocol_forms : tuple of str
        Forms of protocol it accepts.
    asks_for : tuple of str
        Forms it asks for: "pair", "score" or "list"; default: the forms of protocol it accepts.
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
    protocol_forms: ClassVar[tuple[MetricForm, ...]] = ()
    asks_for: ClassVar[tuple[MetricForm, ...]] = ("score",)

    attributes: Sequence[str] | None = None
    seed: int = field(default=0, kw_only=True)
    resampling: Resampling = field(default_factory=Resampling, kw_only=True)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "asks_for" not in vars(cls):
            cls.asks_for = vars(cls).get("protocol_forms") or cls.asks_for
        cls.primary = tuple(metric.name for metric in cls.metrics if metric.primary)
        if hasattr(cls, "name"):
            own = "name" in vars(cls)
            declare_metrics(cls.name, (*cls.metrics, *cls.labels), again=own)
            if own:
                WRITTEN[cls.name] = cls

    def __post_init__(self) -> None:
        require_fields(self)
        require_whole("seed", self.seed, 0)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], **others: Any) -> Self:
        """Create the probe from variables named like its fields, such as the parameters of a notebook.

        Parameters
        ----------
        parameters : mapping
            Values by name, such as ``globals()``. Other names are ignored; missing fields have their defaults. ``seed``
            is also used for resampling.
        **others
            Fields that override `parameters`.

        Examples
        --------
        >>> import biaslab as bl
        >>> bl.probes.Position.from_parameters({"n_pairs": 2, "seed": 3, "judge": "mine"}, ties=True).resampling.seed
        3
        """
        values = {each.name: parameters[each.name] for each in fields(cls) if each.name in parameters} | others
        if "seed" in values:
            values.setdefault("resampling", Resampling(seed=values["seed"]))
        return cls(**values)

    @abstractmethod
    def design(self, dataset: Dataset) -> Iterable[Trial]:
        """Plan the judgements for a data set."""

    @abstractmethod
    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Parse a raw reply into a value and a status; NaN unless the status is ``"ok"`` or ``"tie"``."""

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design without requests of a kind that a judge refuses, or None.

        This probe also estimates from trials of that design; see `biaslab.core.Nearest`.
        """
        return reading_text(self, refused)

    @abstractmethod
    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of one cell, one part per condition."""

    def estimate(
        self,
        trials: pd.DataFrame | TrialsFile | str | PathLike[str],
        metrics: Sequence[str] | None = None,
        breakdowns: bool | None = None,
    ) -> pd.DataFrame:
        """Estimate the metrics from trials; the class documents them.

        Parameters
        ----------
        trials : pandas.DataFrame, TrialsFile or path
            From `biaslab.collect`, or from `biaslab.read_judgements` if `accepts` takes them. A file written by
            ``collect(…, out=path)`` is expanded in memory one cell at a time.
        metrics : sequence of str, optional
            Metrics to estimate; default: all.
        breakdowns : bool, optional
            Also estimate metrics by bins of the human score gap (column ``human_gap``), if the probe supports it.
            Default: if no metrics are named. False gives one row per metric and cell.

        Returns
        -------
        pandas.DataFrame
            The estimates frame; see `biaslab.stats.frame.estimates_frame`.

        Raises
        ------
        InputError
            If a metric is unknown; the message lists all.
        TrialsError
            If a column is missing, or a value is outside the range of its request.

        Warns
        -----
        MissingDataWarning
            If more than 5 % of the judgements of an estimate are missing.
        SharedRequestsWarning
            If contexts share requests; they are then one cluster.
        """
        from biaslab.store.tables import opened

        chosen = choose_metrics([metric.name for metric in self.metrics], metrics)
        source = opened(trials)
        columns = (*self.cell, "protocol") if "protocol" in getattr(source, "columns", ()) else self.cell
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

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select the trials of a log to estimate from: those of this probe's design, else recorded ones.

        Parameters
        ----------
        trials : pandas.DataFrame
            From `biaslab.read_judgements`, with all its columns.

        Returns
        -------
        Accepted
            Empty if there are none; the note then says what is needed.
        """
        own = trials[trials["probe"] == self.name]
        if own.empty:
            return self.accepts_recorded(trials[trials["probe"] == "recorded"])
        lacking = [column for column in self.columns if column not in own]
        return self._accepted(own.iloc[:0] if lacking else own)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select among judgements that follow no probe's design; none, unless a subclass overrides this."""
        return self._accepted(trials.iloc[:0])

    def _accepted(self, trials: pd.DataFrame, note: str = "") -> Accepted:
        """Return the trials to estimate from, with a note; without trials, the note says what is missing."""
        return Accepted(trials, f"needs {self.needs}" if trials.empty else note)

    def _named(self, where: Mapping[str, Any]) -> str:
        parts = [str(where[name]) if name == "attribute" else f"{name} {where[name]}" for name in self.cell[2:]]
        return f"{self.name} ({', '.join(parts)})"


def _cells(trials: pd.DataFrame | TrialsFile, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield the trials of each cell."""
    if isinstance(trials, pd.DataFrame):
        yield from each_cell(trials, by)
    else:
        from biaslab.store.tables import spelled

        for values, part in each_cell(trials.compact(), by):
            yield values, spelled(part)


_ROUNDING, _BEYOND = 1e-6, 0.25  # the second as a share of the scale's width
_UNIT = (0.0, 1.0)


def require_values(trials: pd.DataFrame) -> None:
    """Raise `TrialsError` if a value is outside the range of its request.

    Probabilities (of a pair's first candidate, or of a label) lie between 0 and 1. Scores lie on their scale, or on the
    human scale after `biaslab.mitigation.human_scale`, and up to a quarter of its width beyond, for regression
    evaluators. Log perplexities and unknown scales have no range.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of one cell, with ``value``.

    Examples
    --------
    >>> try:
    ...     require_values(pd.DataFrame({"opponent_id": ["b"], "value": [7.0]}))
    ... except TrialsError as error:
    ...     error.value, error.allowed
    (7.0, 'from 0 to 1, the probability that the first candidate is better')
    """
    try:
        values = trials["value"].to_numpy(float)
    except (TypeError, ValueError) as error:
        words = f"of the type {trials['value'].dtype}"
        raise TrialsError("value", words, "a numeric column", "load the saved table with its dtypes") from error
    for rows, (low, high), what in _ranges(trials, values):
        beyond = _BEYOND * (high - low) if (low, high) != _UNIT else _ROUNDING
        outside = rows & ((values < low - beyond) | (values > high + beyond))
        if outside.any():
            allowed = f"from {low:g} to {high:g}, {what}"
            remedy = f"check the source of the values; {int(outside.sum())} of {len(values)} are out of range"
            raise TrialsError("value", float(values[outside][0]), allowed, remedy)


def in_points(trials: pd.DataFrame) -> Floats:
    """Return the values of a cell's trials, with unbounded scores in standard deviations.

    Examples
    --------
    >>> in_points(pd.DataFrame({"scale": ["reward"] * 3, "value": [-30.0, 0.0, 30.0]})).tolist()
    [-1.0, 0.0, 1.0]
    """
    values = trials["value"].to_numpy(float)
    rewards = (trials["scale"] == REWARD.name).to_numpy(bool) if "scale" in trials else np.array([False])
    scored = np.isfinite(values) & rewards
    spread = float(values[scored].std(ddof=1)) if scored.sum() > 1 else 0.0
    return np.where(rewards, values / spread, values) if spread else values


def _ranges(trials: pd.DataFrame, values: Floats) -> Iterator[tuple[Bools, tuple[float, float], str]]:
    """Yield selections of rows with their range and the meaning of their values."""
    if not len(values) or (np.nanmin(values, initial=np.inf) >= 0 and np.nanmax(values, initial=-np.inf) <= 1):
        return
    pairs = _has(trials, "opponent_id")
    yield pairs, _UNIT, "the probability that the first candidate is better"
    labels = _has(trials, "label")
    if "asked" in trials:
        labels = labels | (trials["asked"] == "label").to_numpy()
    yield labels & ~pairs, _UNIT, "the probability of a label"
    if "scale" not in trials:
        return
    scores = _has(trials, "scale") & ~pairs & ~labels
    human = trials["human"].to_numpy(float) if "human" in trials else np.array([])
    for name in trials.loc[scores, "scale"].unique():
        try:
            scale = scale_named(str(name))
        except InputError:  # an unknown scale
            continue
        low = np.nanmin(human, initial=scale.low)
        high = np.nanmax(human, initial=scale.high)
        yield scores & (trials["scale"] == name).to_numpy(), (float(low), float(high)), f"a score on the scale {name}"


def _has(trials: pd.DataFrame, column: str) -> Bools:
    """Return which rows have a non-empty value in a column."""
    if column not in trials:
        return np.zeros(len(trials), dtype=bool)
    present: Bools = (trials[column].notna() & (trials[column] != "")).to_numpy(dtype=bool)
    return present


_CELL = ["judge", "dataset", "attribute"]


def paired(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of two candidates."""
    return trials[trials["opponent_id"].notna() & (trials["opponent_id"] != "")]


def scored(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of one candidate on a scale."""
    return trials[(trials["opponent_id"].isna() | (trials["opponent_id"] == "")) & trials["scale"].notna()]


def rated(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of one candidate that also has a human score."""
    scores = scored(trials)
    return scores[scores["human"].notna()]


def by_configuration(scores: pd.DataFrame) -> pd.DataFrame:
    """Append the configuration, which probes do not know, to attributes if a judge has several."""
    several = scores.groupby(_CELL, sort=False)["configuration"].transform("nunique") > 1
    named = scores["attribute"] + " (" + scores["configuration"] + ")"
    return scores.assign(attribute=scores["attribute"].where(~several, named))
