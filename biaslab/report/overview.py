"""Show estimates, or the verdicts on several judges, as a compact table in a notebook."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.errors import TrialsError
from biaslab.core.metrics import find_metric
from biaslab.core.output import MISSING, interval, number
from biaslab.report import wording
from biaslab.report.card import card
from biaslab.report.summary import STATUS, is_bias
from biaslab.report.verdicts import Finding, by_metric, classify
from biaslab.stats.frame import LEADING, corrected_effects, require_columns, with_numpy_types, without_breakdowns

_MOST = 100  # rows that a notebook shows
_BAR = 160  # pixels of an interval
_NEEDED = (*LEADING, "estimate", "ci_low", "ci_high", "q_value", "mde", "n_contexts", "n_dropped", "note")
_STATUS = {"above": "bias", "below": "bias", "none": "none", "open": "unclear"}


class RenderedFrame(pd.DataFrame):
    """Base of frames with a look of their own in JupyterLab; they are saved and copied as plain frames."""

    @property
    def plain(self) -> pd.DataFrame:
        """The same table as a plain frame."""
        return pd.DataFrame(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return pd.DataFrame, (self.plain,)


class Overview(RenderedFrame):
    """The frame returned by `overview`; JupyterLab shows it with interval bars and verdicts.

    A click on a column's head sorts what is shown, not the frame. Frames derived from it, such as selections, are
    plain.
    """

    _source: tuple[pd.DataFrame, list[str], int]

    @classmethod
    def of(cls, table: pd.DataFrame, estimates: pd.DataFrame, named: list[str], digits: int) -> Overview:
        """Return a table that remembers its estimates and their distinguishing columns."""
        shown = cls(table)
        object.__setattr__(shown, "_source", (estimates, named, digits))
        return shown

    def _repr_html_(self) -> str:
        estimates, named, digits = self._source
        try:
            found = classify(estimates, as_tested=True)
        except TrialsError:  # a column needed for verdicts is missing
            return self.plain.to_html(max_rows=_MOST)
        facts = _facts(found, named, digits) | {"level": wording.levels(estimates)}
        return wording.templates().get_template("overview.html.j2").render(**facts)


def overview(
    estimates: pd.DataFrame,
    digits: int = 3,
    metric: str | Sequence[str] | None = None,
    across: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Summarise estimates for reading: what was estimated, interval, test and sample size.

    Parameters
    ----------
    estimates : pandas.DataFrame
        From ``probe.estimate``, or several such frames together. Rows for single bins, such as those of ``human_gap``,
        are left out if there are others.
    digits : int
        Decimals for estimates, intervals and effects.
    metric : str or sequence of str, optional
        Which metrics; default: all.
    across : str or sequence of str, optional
        Conditions to spread over columns, one per value; cells then hold only estimates with intervals.

    Returns
    -------
    Overview
        A frame of strings, one row per estimate, indexed by metric, attribute and the conditions that vary. Columns:
        ``estimate`` with its interval; if tested, ``q_value`` (corrected over the tests of the study) and ``mde`` (the
        smallest effect that the single test detects with 80 % power); if there are several tests, ``detectable`` (the
        same after correction); ``n_contexts``; and, if any, ``n_dropped`` (missing judgements) and ``note``. JupyterLab
        shows intervals as bars, on one axis per metric, and verdicts by the same q-values (see
        `biaslab.report.findings`), sorted by a click on a column's head; ``plain`` is the frame alone.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, position=2.0), data, progress=False)
    >>> overview(probe.estimate(trials, ["first_position_rate"]).head(1))["estimate"].to_dict()
    {('first_position_rate', 'coherence'): '0.927 [0.926, 0.928]'}
    """
    require_columns(estimates, _NEEDED, "estimates")
    estimates = with_numpy_types(wording.of_metrics(estimates, metric))
    whole = without_breakdowns(estimates)
    estimates = estimates if whole.empty else whole
    apart = [] if across is None else [across] if isinstance(across, str) else list(across)
    named = list(dict.fromkeys([*wording.conditions(estimates), *(name for name in apart if name in estimates)]))
    differing = {"metric", "attribute", *apart, *wording.varying(estimates, ["judge", "dataset", *named])}
    index = [name for name in ("judge", "dataset", "metric", *named) if name in differing]
    table = pd.DataFrame({name: estimates[name].map(wording.condition_text) for name in index}, index=estimates.index)
    wording.check_digits(digits)
    table["estimate"] = wording.with_intervals(estimates, digits)
    if apart:
        return _spread(table, apart)
    if estimates["q_value"].notna().any():
        table["q_value"] = estimates["q_value"].map(wording.probability)
        table["mde"] = [number(value, digits) for value in estimates["mde"]]
        if estimates["q_value"].notna().sum() > 1:
            table["detectable"] = [number(value, digits) for value in corrected_effects(estimates)]
    table["n_contexts"] = estimates["n_contexts"]
    if (estimates["n_dropped"] > 0).any():
        table["n_dropped"] = estimates["n_dropped"]
    notes = estimates["note"].fillna("")  # empty words in a CSV file are read as missing
    if (notes != "").any():
        table["note"] = notes
    return Overview.of(table.set_index(index), estimates, index, digits)


def replies(trials: pd.DataFrame, by: str | Sequence[str] = ()) -> pd.DataFrame:
    """Count trials by the status of their answers.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.collect`.
    by : str or sequence of str
        Columns to count by as well, such as ``"template"``.

    Returns
    -------
    pandas.DataFrame
        A row for each combination. The column's name says how many replies were asked for now and how many came from
        the store.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1], n_pairs=1)
    >>> replies(bl.collect(probe, bl.SimulatedJudge(data), data, progress=False)).to_dict()
    {'trials (4 replies asked now, 0 stored)': {'ok': 4}}
    """
    columns = [*([by] if isinstance(by, str) else by), "status"]
    require_columns(trials, columns, "trials")
    known = {"asked", "stored"} <= set(trials.attrs)
    now = f" ({trials.attrs['asked']:,} replies asked now, {trials.attrs['stored']:,} stored)" if known else ""
    return trials.groupby(columns, sort=False).size().rename(f"trials{now}").to_frame()


def _spread(table: pd.DataFrame, across: list[str]) -> pd.DataFrame:
    """Spread the values of conditions over columns."""
    require_columns(table, across, "estimates with these conditions")
    index = [name for name in table if name not in (*across, "estimate")]
    return table.pivot_table("estimate", index, across, "first", sort=False).fillna(MISSING)


def _facts(found: Sequence[Finding], named: list[str], digits: int) -> dict[str, Any]:
    """Return the template's variables for classified estimates."""
    named = [name for name in named if name != "metric"]
    scales = {key: _Scale(part) for key, part in by_metric(found, "probe", "metric").items()}
    lines = [_line(each, named, scales, digits) for each in found[:_MOST]]
    has = {name: any(line[name] for line in lines) for name in ("verdict", "q", "note")}
    heads = [name.replace("_", " ") for name in named]
    facts = {"status": STATUS, "left_out": len(found) - len(lines), "width": _BAR}
    return {"heads": heads, "lines": lines, "has": has, **facts}


def _line(finding: Finding, named: list[str], scales: Mapping[tuple[Any, ...], _Scale], digits: int) -> dict[str, Any]:
    row, scale = finding.row, scales[finding.row["probe"], finding.row["metric"]]
    status = "slight" if finding.slight else _STATUS.get(finding.kind, "untested")
    verdict = f"{'inconclusive: ' * bool(finding.doubt)}{finding.words}"
    matters = math.nan if finding.matters is None else finding.matters
    sortable = {"estimate": finding.estimate, "q": row["q_value"], "n": row["n_contexts"]}
    return {
        "label": finding.metric.axis,
        "metric": row["metric"],
        "names": [wording.condition_text(row[name]) for name in named],
        "estimate": number(finding.estimate, digits),
        "interval": interval(finding.low, finding.high, digits),
        "status": status,
        "verdict": "" if finding.kind == "untested" else verdict,
        "q": "" if math.isnan(row["q_value"]) else wording.probability(row["q_value"]),
        "n": f"{row['n_contexts']:,.0f}",
        "note": finding.note,
        "raw": {name: _raw(value) for name, value in sortable.items()} | {"verdict": list(STATUS).index(status)},
        "bar": {name: scale.place(getattr(finding, name)) for name in ("estimate", "low", "high", "null")},
        "grey": [scale.place(finding.null + way * matters) for way in (-1, 1)],
    }


def _raw(value: float) -> str:
    """Return a number as a sort key for the page's script; empty if missing, which sorts last."""
    return "" if math.isnan(value) else f"{value:.12g}"


class _Scale:
    """Position of a value on the axis shared by all rows of one metric."""

    def __init__(self, found: Sequence[Finding]) -> None:
        values = np.array([(each.estimate, each.low, each.high, each.null) for each in found], float)
        values = values[np.isfinite(values)]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        margin = 0.06 * (high - low) or 0.5
        self.low, self.high = low - margin, high + margin

    def place(self, value: float) -> float | None:
        """Return the position in pixels from the left, clipped to the axis; None for a missing value."""
        if math.isnan(value):
            return None
        return round(_BAR * min(1.0, max(0.0, (value - self.low) / (self.high - self.low))), 1)


_NOT_TESTED = f"{STATUS['untested'][0]} {STATUS['untested'][1]}"


class VerdictTable(RenderedFrame):
    """The frame returned by `verdict_table`; JupyterLab colours it by verdict, and adds the verdict in words.

    Frames derived from it, such as selections, are plain.
    """

    _facts: dict[str, Any]

    @classmethod
    def of(cls, biases: pd.DataFrame, level: str, tests: str) -> VerdictTable:
        """Arrange the biases of a card; those that no judge was tested for have no column."""
        tested = biases[biases["status"] != "untested"]
        sizes = tested.groupby(["probe", "metric"], sort=False).size()
        keys = list(sizes.sort_values(ascending=False, kind="stable").index)
        found = biases["status"].eq("bias").groupby(biases["judge"], sort=False).sum()
        judges = list(found.sort_values(ascending=False, kind="stable").index)
        rows = {(row["judge"], row["probe"], row["metric"]): row for row in biases.to_dict("records")}
        cells = [[rows.get((judge, *key)) for key in keys] for judge in judges]
        labels = pd.MultiIndex.from_tuples(keys, names=["probe", "metric"])
        table = cls([[_text(cell) for cell in line] for line in cells], pd.Index(judges, name="judge"), labels)
        every = dict.fromkeys(zip(biases["probe"], biases["metric"], strict=True))
        untested = [find_metric(metric, probe).label for probe, metric in every if (probe, metric) not in keys]
        heads, lines = [_head(*key) for key in keys], list(zip(judges, cells, strict=True))
        facts = {"heads": heads, "lines": lines, "untested": untested, "status": STATUS, "level": level, "tests": tests}
        object.__setattr__(table, "_facts", facts)
        return table

    def _repr_html_(self) -> str:
        return wording.templates().get_template("verdict_table.html.j2").render(**self._facts)


def verdict_table(estimates: pd.DataFrame, matters: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Show which judge has which bias: a row per judge, a column per bias.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Estimates of several probes and judges, such as `biaslab.audit` returns.
    matters : mapping of str to float, optional
        See `biaslab.report.verdicts`.

    Returns
    -------
    VerdictTable
        A frame of strings, judges with the most biases first, with one column ``(probe, metric)`` per bias that at
        least one judge was tested for, the most tested first. A cell has a mark of the verdict, and the strongest
        estimate with its interval, or "not tested". q-values are recomputed over all tests shown; see
        `biaslab.report.card`. JupyterLab shows verdicts in words; ``plain`` is the frame alone. Without any primary
        metric of a bias the table is empty.

    Raises
    ------
    TrialsError
        If a column is missing.
    InputError
        If `matters` is invalid.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(metric=["first_position_rate", "longer_wins_at_equal_gold"], source="mt_bench")
    >>> table = verdict_table(rows)
    >>> table["position", "first_position_rate"].to_dict()["gpt-4-0613"]
    '○ 0.515 [0.482, 0.550]'
    """
    require_columns(estimates, ["judge", "probe", "metric"], "estimates")
    if not any(is_bias(metric, probe) for metric, probe in zip(estimates["metric"], estimates["probe"], strict=True)):
        return VerdictTable.of(pd.DataFrame(columns=["judge", "probe", "metric", "status"]), "95 %", "0 tests")
    whole = card(estimates, matters=matters, reference=None)
    return VerdictTable.of(whole.biases, wording.levels(whole.cells), wording.correction(whole.cells))


def _text(cell: dict[Any, Any] | None) -> str:
    """Return mark, estimate and interval of a verdict."""
    if cell is None or cell["status"] == "untested":
        return _NOT_TESTED
    return f"{STATUS[cell['status']][0]} {cell['estimate']} {cell['interval']}"


def _head(probe: str, metric: str) -> dict[str, str]:
    declared = find_metric(metric, probe)
    return {"probe": probe.replace("_", " "), "label": declared.label, "null": wording.fair(declared.null)}
