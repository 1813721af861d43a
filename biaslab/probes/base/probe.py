"""Base of all probes: declarations, the cells of trials that are measured, and the parts of estimates they yield."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Bools, Floats
from biaslab.core.checks import require_counts_and_lists, require_fields
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.interfaces import Design, Nearest, reading_text
from biaslab.core.metrics import FAIR as FAIR, Figure, Metric, MetricForm, declare_metrics, planted as planted
from biaslab.core.output import AnyPath
from biaslab.core.requests import Request
from biaslab.core.scales import REWARD, scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Status, Trial
from biaslab.measures.ranking.pairs import Verdicts, is_pair
from biaslab.prompts.protocols import Protocol, ProtocolForm
from biaslab.stats.blocks import CELL, each_cell, has_value, joined, shared_requests, warn_shared, whole_blocks
from biaslab.stats.estimate import NO_TRIALS, Estimate, Inference, Note, Remark, because, without_rounding
from biaslab.stats.frame import MISSING_SHARE, choose_metrics, estimate_rows, estimates_frame, require_columns
from biaslab.stats.missing import note_missing, shift_extremes
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import UNTIL, Stopping

if TYPE_CHECKING:
    from biaslab.store.tables import TrialsFile

#: A metric, or a callable that computes it only when needed.
Estimable = Ratio | Estimate | Callable[[], Ratio | Estimate]
Metrics = dict[str, Estimable]
#: Judgements with their values, or the numbers of those used and dropped.
Counts = pd.DataFrame | tuple[int, int]
#: The smallest and largest value that missing judgements allow.
Extremes = tuple[Ratio, Ratio]
#: Statuses of missing judgements with a fixable cause, and their words in a note.
_LOST = {"cut_off": "are cut off at the token limit", "unusable": "have unusable probabilities (status unusable)"}
#: Total probability of all labels, reported by every probe that reads label distributions.
LABEL_MASS = Metric("label_mass", "probability of all labels together", "probability")


@dataclass(frozen=True)
class Accepted:
    """The trials of a log that a probe can use, a note on what is left out, and the probe to use."""

    trials: pd.DataFrame
    note: str = ""
    probe: Any = None


def paired(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of two candidates."""
    return trials[is_pair(trials)]


def scored(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of one candidate on a scale."""
    return trials[~is_pair(trials) & trials["scale"].notna()]


def rated(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of one candidate that also has a human score."""
    scores = scored(trials)
    return scores[scores["human"].notna()]


def by_configuration(scores: pd.DataFrame) -> pd.DataFrame:
    """Append the configuration, which probes do not know, to attributes if a judge has several."""
    several = scores.groupby(list(CELL), sort=False)["configuration"].transform("nunique") > 1
    named = scores["attribute"] + " (" + scores["configuration"] + ")"
    return scores.assign(attribute=scores["attribute"].where(~several, named))


@dataclass(frozen=True)
class Cell:
    """The trials of one cell, such as one judge, data set and attribute, and the requested metrics.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of the cell.
    where : mapping of str to object
        The columns that define the cell, with their values.
    chosen : tuple of str
        The metrics to estimate.
    everything : bool
        Whether breakdowns are wanted too, because no metrics were named.
    what : str
        Name for warnings, such as ``"position (coherence, template 1)"``.
    resampling : Resampling
        Level and resampling of the estimates.
    """

    trials: pd.DataFrame
    where: Mapping[str, Any]
    chosen: tuple[str, ...]
    everything: bool
    what: str
    resampling: Resampling

    def wants(self, *metrics: str) -> list[str]:
        """Return which of the metrics are requested."""
        return [metric for metric in metrics if metric in self.chosen]

    def items(self, keep: Sequence[str] = ("human",)) -> pd.DataFrame:
        """Return one row per item with its mean ``score`` over replicates; see `biaslab.stats.blocks.whole_blocks`."""
        return self.blocks("kind", ["score"], keep, self.trials.assign(kind="score"))

    def blocks(
        self,
        condition: str,
        levels: Sequence[object],
        keep: Sequence[str] = ("human",),
        trials: pd.DataFrame | None = None,
        of: str = "",
    ) -> pd.DataFrame:
        """Put the conditions of each item side by side; see `biaslab.stats.blocks.whole_blocks`.

        Parameters
        ----------
        condition, levels, keep
            As there.
        trials : pandas.DataFrame, optional
            Part of the cell; default: all.
        of : str
            Name of the part, for the warning.
        """
        return whole_blocks(self.trials if trials is None else trials, condition, levels, self.named(of), keep)

    def linear_model(self, items: pd.DataFrame, formula: str, within: bool = True) -> dict[str, Estimate]:
        """Regress over items, with the level and the clusters of this cell; see `biaslab.stats.linear_model`.

        Parameters
        ----------
        items : pandas.DataFrame
            From `items`.
        formula : str
            Outcome and terms, such as ``"score ~ words + human"``.
        within : bool
            Give each context its own intercept.
        """
        level, clusters = self.resampling.level, self.resampling.clusters
        return linear_model(items, formula, within=within, level=level, clusters=clusters)

    def contrast(
        self,
        condition: str,
        levels: tuple[Any, Any],
        keep: Sequence[str] = (),
        of: str = "",
        exact: ArrayLike = False,
        both_orders: bool = True,
    ) -> Contrast:
        """Compare two conditions on the items that have a score, or the pairs that have a verdict, under both.

        Parameters
        ----------
        condition, levels, keep, of
            As in `blocks`, with two levels: the condition of interest, and the one to compare it with.
        exact : bool or array_like of bool, shape (trials,)
            For pairs: whether values are exact probabilities rather than verdicts or shares of samples.
        both_orders : bool
            For pairs: leave out those that were not shown in both orders.
        """
        if not is_pair(self.trials).any():
            return Contrast(self, condition, levels, self.blocks(condition, levels, keep, of=of))
        verdicts = Verdicts.of(self.trials, condition, levels, np.asarray(exact, bool), self.named(of))
        return Contrast(self, condition, levels, verdicts.in_both_orders() if both_orders else verdicts)

    def part(
        self,
        metrics: Mapping[str, Estimable],
        counts: Counts,
        condition: Mapping[str, Any] | None = None,
        extremes: Callable[[], Mapping[str, Extremes]] = dict,
        notes: Callable[[], tuple[Note, ...]] = tuple,
    ) -> Part:
        """Return metrics of one condition; if judgements are missing, with missing-data bounds and notes.

        Parameters
        ----------
        metrics, counts, condition
            As in `Part`.
        extremes : callable
            Returns the smallest and largest possible value of some of the metrics, whatever is missing.
        notes : callable
            Returns notes on what is missing.
        """
        part = Part(metrics, counts, condition or {})
        if not part.judgements()[1] or self.resampling.values_only:
            return part
        ratios = {name: (metrics[name], ends) for name, ends in extremes().items()}
        bounded = {name: replace(one, extremes=ends) for name, (one, ends) in ratios.items() if isinstance(one, Ratio)}
        return replace(part, metrics={**metrics, **bounded}, notes=notes())

    def named(self, of: str) -> str:
        """Return the name of a part of the cell, for warnings."""
        return f"{self.what[:-1]}, {of})" if of else self.what


@dataclass(frozen=True)
class Contrast:
    """Two conditions of a cell, on the items or pairs that were judged under both.

    Parameters
    ----------
    cell : Cell
        The cell.
    condition, levels
        As in `Cell.contrast`.
    judged : pandas.DataFrame or Verdicts
        Scores of each item, one column per condition; or verdicts on each pair.
    """

    cell: Cell
    condition: str
    levels: tuple[Any, Any]
    judged: Any

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of judgements used and dropped."""
        return self.judged.counts if isinstance(self.judged, Verdicts) else counts_of(self.judged)

    def shift(
        self, bounds: tuple[float, float], missing: Remark, inference: Inference = "resampling", clipped: bool = True
    ) -> Ratio:
        """Return the mean score under the first condition minus that under the second, with missing-data bounds.

        Parameters
        ----------
        bounds : tuple of float
            Lowest and highest score.
        missing, inference
            As in `biaslab.stats.ratio.Ratio`.
        clipped : bool
            Limit the interval to the possible values.
        """
        (one, two), width = self.levels, bounds[1] - bounds[0]
        limits = (-width, width) if clipped else None

        def mean(blocks: pd.DataFrame) -> Ratio:
            return mean_of(blocks, blocks[one] - blocks[two], 0.0, limits, missing, inference)

        if not self.counts[1] or self.cell.resampling.values_only:
            return mean(self.judged)
        ends = shift_extremes(self.cell.trials, self.condition, self.levels, bounds, mean)
        return replace(mean(self.judged), extremes=ends)

    def differences(self, rates: Mapping[str, Sequence[Ratio]]) -> Metrics:
        """Return the first of two ratios minus the second, for each pair of them by name; Student's t over contexts."""
        by_t = {name: (replace(one, inference="t"), two) for name, (one, two) in rates.items()}
        return {name: partial(one.difference, two, self.cell.resampling) for name, (one, two) in by_t.items()}

    def part(
        self,
        metrics: Mapping[str, Estimable],
        where: Mapping[str, Any] | None = None,
        extremes: Callable[[], Mapping[str, Extremes]] = dict,
    ) -> Part:
        """Return metrics of the contrast as `Cell.part`, noting if more is missing under one of its conditions."""
        return self.cell.part(metrics, self.counts, where, extremes, self._notes)

    def _notes(self) -> tuple[Note, ...]:
        planned = self.cell.trials[self.cell.trials[self.condition].isin(self.levels)]
        lost, conditions = ~has_value(planned), planned[self.condition]
        return note_missing(planned["context_id"], lost, conditions, f"the {self.condition}")


@dataclass(frozen=True)
class Part:
    """Metrics of one condition of a cell.

    Parameters
    ----------
    metrics : mapping of str to Ratio, Estimate or callable
        Metrics by name; only requested ones are computed.
    counts : pandas.DataFrame or tuple of int
        Numbers of judgements used and dropped; or blocks that carry both in ``attrs``; or trials, of which those with a
        value are used.
    condition : mapping of str to object
        Condition columns in addition to those of the cell.
    notes : tuple of Note
        Notes on missing data, added to its tests.
    """

    metrics: Mapping[str, Estimable]
    counts: Counts
    condition: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    def rows(self, cell: Cell) -> list[dict[str, Any]]:
        """Estimate the chosen metrics, one row each."""
        chosen = {name: self.metrics[name] for name in cell.chosen if name in self.metrics}
        counts = self.judgements()
        estimates = {
            name: _noted(_estimate(name, metric, cell.resampling, *counts), self.notes, *counts)
            for name, metric in chosen.items()
        }
        return estimate_rows(estimates, {**cell.where, **self.condition}, cell.resampling, *counts)

    def judgements(self) -> tuple[int, int]:
        """Return the numbers of judgements used and dropped."""
        return self.counts if isinstance(self.counts, tuple) else counts_of(self.counts)


def counts_of(judged: pd.DataFrame) -> tuple[int, int]:
    """Return the numbers of judgements used and dropped: of blocks as they carry them, of trials by their values."""
    if "n_trials" in judged.attrs:
        return judged.attrs["n_trials"], judged.attrs["n_dropped"]
    entering = int(has_value(judged).sum())
    return entering, len(judged) - entering


def with_lost(rows: list[dict[str, Any]], trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Add a note on missing judgements with a fixable cause to the rows of a cell."""
    counts = dict(trials["status"].value_counts()) if "status" in trials else {}
    known = {status: words for status, words in _LOST.items() if counts.get(status)}
    lost = [f"{counts[status]:,} of {len(trials):,} judgements {words}" for status, words in known.items()]
    return [{**row, "note": "; ".join(filter(None, (row.get("note", ""), *lost)))} for row in rows] if lost else rows


def mean_of(
    items: pd.DataFrame,
    values: ArrayLike,
    null: float | None = None,
    bounds: tuple[float, float] | None = None,
    missing: Remark = NO_TRIALS,
    inference: Inference = "resampling",
) -> Ratio:
    """Return the mean of one value per item.

    Parameters
    ----------
    items : pandas.DataFrame
        One row per item, with ``context_id``.
    values : array_like of float, shape (items,)
        One value per item; NaN items are left out.
    null, bounds, missing, inference
        As in `biaslab.stats.ratio.Ratio`.

    Examples
    --------
    >>> items = pd.DataFrame({"context_id": list("aabb"), "score": [1.0, 2.0, 3.0, 4.0]})
    >>> mean_of(items, items["score"]).estimate(Resampling()).estimate
    2.5
    """
    return Ratio(items["context_id"], values, np.ones(len(items)), null, bounds, missing, inference)


def label_mass(trials: pd.DataFrame) -> Ratio:
    """Return the mean total probability of all labels."""
    mass = trials["label_mass"]
    missing = because("text_answers", "answers are text")
    return Ratio(trials["context_id"], mass.fillna(0), mass.notna(), bounds=(0.0, 1.0), missing=missing)


def _noted(estimate: Estimate, notes: tuple[Note, ...], n_trials: int, n_dropped: int) -> Estimate:
    """Add notes on missing data to a test: dependence on the condition, and lack of bounds."""
    if np.isnan(estimate.p_value) or not n_dropped:
        return estimate
    unbounded = n_dropped > MISSING_SHARE * (n_trials + n_dropped) and np.isnan(estimate.bound_low)
    adds = unbounded and not estimate.has_note("unbounded")
    return estimate.noted(*notes, *([Note("unbounded")] if adds else []))


def _estimate(name: str, metric: Estimable, resampling: Resampling, n_trials: int, n_dropped: int) -> Estimate:
    """Estimate a metric, with missing-data bounds if its values are bounded."""
    computed = metric() if callable(metric) else metric
    if not isinstance(computed, Ratio):
        stopping = resampling.stopping
        return computed if stopping is None else stopping.of_estimate(computed, resampling.level, name)
    return computed.with_missing(computed.estimate(resampling), n_trials, n_dropped)


#: All probe classes defined so far, by name.
WRITTEN: dict[str, type[Probe]] = {}


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
    from_zero : tuple of str
        Parameters that are whole numbers and may be 0; others are at least 1.
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
    protocol_forms: ClassVar[tuple[ProtocolForm, ...]] = ()
    asks_for: ClassVar[tuple[MetricForm, ...]] = ("score",)
    from_zero: ClassVar[tuple[str, ...]] = ("seed",)

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
        self.take_protocol()
        require_fields(self)
        require_counts_and_lists(self, self.from_zero)

    def take_protocol(self) -> None:
        """Load the protocol, if one is given, and adopt its settings."""
        if self.protocol is None:
            return
        if not self.protocol_forms:
            allowed = f"None, because {self.name} has its own prompts"
            raise InputError("protocol", self.protocol, allowed, "the probe template compares several, protocols=[…]")
        protocol = Protocol.of_form(self.protocol, *self.protocol_forms)
        adopted: dict[str, Any] = {"protocol": protocol, "temperature": protocol.temperature}
        if protocol.answer == "text":
            adopted["answer"] = "text"
        if len(self.protocol_forms) > 1:
            adopted |= {"forms": (protocol.form,), "asks": (f"{protocol.form}s",)}
        if protocol.form == "pair":
            adopted["ties"] = 0.5 in protocol.points
        elif protocol.form == "list":
            adopted["ranks"] = protocol.places.ranks
        else:
            scale = protocol.scale.name
            adopted |= {"scale": scale, "scales": (scale,), "max_tokens": protocol.max_tokens}
        own = {each.name for each in fields(self)}
        settle(self, {name: value for name, value in adopted.items() if name in own})

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
        trials: pd.DataFrame | TrialsFile | AnyPath,
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
        rows, conditions = self.estimate_rows(trials, metrics, breakdowns)
        return estimates_frame(rows, self.name, self.primary, conditions)

    def estimate_rows(
        self,
        trials: pd.DataFrame | TrialsFile | str | PathLike[str],
        metrics: Sequence[str] | None = None,
        breakdowns: bool | None = None,
    ) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        """Return the rows of `estimate` and their condition columns; `biaslab.stats.Estimate` has ``leave_one_out``."""
        chosen = choose_metrics([metric.name for metric in self.metrics], metrics)
        everything = metrics is None if breakdowns is None else breakdowns
        source = trials if isinstance(trials, pd.DataFrame) else _opened(trials)
        columns = (*self.cell, "protocol") if "protocol" in getattr(source, "columns", ()) else self.cell
        require_columns(source, (*columns, *self.columns), "trials")
        rows: list[dict[str, Any]] = []
        shared: dict[Any, Any] = {}
        for values, part in _cells(source, columns):
            where = dict(zip(columns, values, strict=True))
            clusters = shared_requests(part)
            shared |= clusters
            probe = replace(self, resampling=joined(self.resampling, clusters)) if clusters else self
            if UNTIL in part and (stopping := Stopping.of(part)) is not None:
                sequential = replace(probe.resampling, stopping=stopping, leave_one_out=True)
                probe = replace(probe, resampling=sequential)
            if "value" in part:
                require_values(part)
                part = part.assign(value=without_rounding(in_points(part)))
            cell = Cell(part, where, chosen, everything, self._named(where), probe.resampling)
            measured = [row for part_of_cell in probe.measure(cell) for row in part_of_cell.rows(cell)]
            rows += with_lost(measured, part)
        warn_shared(self.name, shared)
        return rows, (*columns[2:], *self.conditions)

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

    def _accepted(self, trials: pd.DataFrame) -> Accepted:
        """Return the trials to estimate from; without any, the note says what is missing."""
        return Accepted(trials, f"needs {self.needs}" if trials.empty else "")

    def _named(self, where: Mapping[str, Any]) -> str:
        parts = [str(where[name]) if name == "attribute" else f"{name} {where[name]}" for name in self.cell[2:]]
        return f"{self.name} ({', '.join(parts)})"


def settle(probe: Any, parameters: Mapping[str, Any]) -> None:
    """Set parameters of a frozen probe during initialisation."""
    for name, value in parameters.items():
        object.__setattr__(probe, name, value)


def _opened(trials: TrialsFile | AnyPath) -> TrialsFile:
    from biaslab.store.tables import TrialsFile  # imported here because most trials are frames

    return TrialsFile(trials) if isinstance(trials, str | PathLike) else trials


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
        kind = str(trials["value"].dtype)
        raise TrialsError("dtype of value", kind, "numbers", "load the saved table with its dtypes") from error
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
