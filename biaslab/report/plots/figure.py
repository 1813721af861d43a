"""Draw whole figures: panels by condition, published values, a common legend and a headline; save them to files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.core import Probe
from biaslab.core.binned import without_breakdowns
from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError
from biaslab.report.plots.drawing import against, intervals, sorted_judges
from biaslab.report.plots.grid import each_panel, fit_text, make_logarithmic, rows_of, values_of
from biaslab.report.plots.naming import named, row_name
from biaslab.report.plots.saving import save
from biaslab.report.plots.style import MARKERS, PALETTE, PUBLISHED, share_legend, styled
from biaslab.stats import LEADING, require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Drawn:
    """The figures drawn, and messages about those without estimates, which a notebook displays.

    Parameters
    ----------
    axes : tuple of matplotlib.axes.Axes
        Axes of all figures.
    paths : tuple of Path
        Files written.
    missing : tuple of str
        One message per figure that has no estimates.
    """

    axes: tuple[Axes, ...] = ()
    paths: tuple[Path, ...] = ()
    missing: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "\n".join(self.missing)

    def _ipython_display_(self) -> None:
        if self.missing:  # the notebook displays the figures themselves
            sys.stdout.write(f"{self}\n")


@styled
def draw(
    estimates: pd.DataFrame,
    metric: str | Sequence[str] | None = None,
    *,
    by: str | Sequence[str] | None = None,
    x: str | None = None,
    hue: str | None = None,
    col: str | Sequence[str] | None = None,
    row: str | None = None,
    where: Mapping[str, Any] | None = None,
    title: str | None = None,
    label: str | Mapping[str, str] | None = None,
    null: float | Mapping[str, float | None] | None = None,
    log: bool = False,
    published: pd.DataFrame | None = None,
    reference: str | pd.DataFrame | None = None,
    name: str | None = None,
    out: str | PathLike[str] = "figures",
    finding: str | None = None,
) -> Drawn:
    """Draw a figure of estimates, with a panel for each value of ``col`` and ``row``; save it if it has a name.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame. Undefined estimates are not drawn.
    metric : str or sequence of str, optional
        Metrics to draw; default: all in the frame. Several are distinguished by colour or, with ``col="metric"``, drawn
        in separate panels.
    by : str or sequence of str, optional
        Condition column on the vertical axis, as in `intervals`; default: ``"attribute"``. The values of several
        columns are joined to name a row.
    x : str, optional
        Numeric condition on the horizontal axis, as in `against`; replaces ``by``.
    hue : str, optional
        Condition column shown by colour and marker.
    col, row : str or sequence of str, optional
        Condition columns with one panel per value: those of ``col`` side by side, those of ``row`` one below another.
        Without ``row``, a line holds at most four panels. The values of several columns in ``col`` are joined to name a
        panel.
    where : mapping, optional
        Rows to draw: a value, or a list of values, by condition. None selects rows without the condition.
    title : str, optional
        Title of each panel, before the values of ``row`` and ``col``.
    label, null, reference
        As in `intervals`. A mapping gives one per metric, and the label of ``x``. With ``x``, a plain text labels
        ``x``.
    log : bool
        With ``x``: use a logarithmic axis for the estimates.
    published : pandas.DataFrame, optional
        Published values, drawn as hollow marks. Columns: ``label`` (who published them), ``value``, those of ``by`` or
        ``x`` and, if values differ between panels, that of ``col``. If there are as many labels as values of ``hue``,
        they have the same colours, in order.
    name : str, optional
        Save as ``<name>.{png,pdf,csv}``, by convention ``"<study>__<name>"``; see `save`. Default: do not save.
    out : path
        Folder of the files.
    finding : str, optional
        Headline; default: the sentence that `finding` returns for the estimates.

    Returns
    -------
    Drawn
        Axes and files; without estimates, only a message.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = bl.probes.Position(attributes=["coherence", "fluency"])
    >>> estimates = probe.estimate(bl.collect(probe, bl.SimulatedJudge(data, position=2.0), data, progress=False))
    >>> len(draw(estimates, "first_position_rate", by="attribute", col="template").axes)
    2
    """
    require_columns(estimates, ["metric", "estimate"], "estimates")
    metrics = [metric] if isinstance(metric, str) else list(metric or estimates["metric"].unique())
    chosen = _select(estimates, metrics, x, where or {})
    defined = chosen[chosen["estimate"].notna()]
    if published is not None:
        published = _name_published(published, x, by or "attribute")
    if defined.empty:
        return Drawn(missing=(_why(metrics, chosen),))
    rows, col = (defined, None) if col is None else _name_together(defined, col, "panel")
    rows, along = (rows, x) if x is not None else _name_rows(rows, by or "attribute")
    if hue is None and len(metrics) > 1 and col != "metric":
        hue = "metric"
    order = None if hue is None else values_of(rows, hue, metrics)
    hue = hue if order is not None and len(order) > 1 else None  # a condition that does not vary needs no colours
    look: dict[str, Any] = {"metric": metrics, "hue": hue, "hue_order": order}
    names = list(rows["dataset"].unique()) if "dataset" in rows else []
    series = 0 if published is None else published["label"].nunique()
    axes = []
    for ax, part, heads in each_panel(rows, metrics, along, x is not None, hue, col, row, series):
        head = " · ".join([*([title] if title else names if heads and len(names) == 1 else []), *heads]) or None
        first = part["metric"].iloc[0]
        labels = label if isinstance(label, Mapping) else {x or first: label}
        own = null.get(first) if isinstance(null, Mapping) else null
        more: dict[str, Any] = {"ax": ax, "title": head, "label": labels.get(first), "null": own}
        if x is None:
            intervals(part, by=along, reference=reference, **{**look, "hue": hue or ""}, **more)
        else:
            against(part, x, xlabel=labels.get(x), **look, **more)
        if published is not None:
            values = rows_of(published, col, part[col].iloc[0]) if col in published else published
            _publish(ax, values, along, order or [None], upright=x is not None)
        axes.append(ax)
    for ax in axes:
        if log:
            make_logarithmic(ax)
        fit_text(ax)
    return close(axes, defined, name, out, finding)


def close(
    axes: list[Axes], shown: pd.DataFrame, name: str | None, out: str | PathLike[str], finding: str | None
) -> Drawn:
    """Give a figure its legend; with a name ``<study>__<rest>``, write it and the rows that it shows to files."""
    if name is None:
        share_legend(axes)
        return Drawn(tuple(axes))
    study, _, rest = name.partition("__")
    return Drawn(tuple(axes), tuple(save(axes, shown, study, rest, out, finding=finding)))


def standard(
    probe: Probe, estimates: pd.DataFrame, *names: str, out: str | PathLike[str] = "figures", **options: Any
) -> Drawn:
    """Draw the standard figures of a probe, and save them.

    Parameters
    ----------
    probe : Probe
        The probe, which declares its figures in the attribute ``figures``.
    estimates : pandas.DataFrame
        From ``probe.estimate``.
    *names : str
        Names of figures; default: all.
    out : path
        Folder of the files, ``<probe>__<name>.{png,pdf,csv}``.
    **options
        Options of `draw`, which override those declared by the probe.

    Returns
    -------
    Drawn
        Axes and files, and a message for each figure without estimates.

    Raises
    ------
    InputError
        If the probe has no such figure; the message lists those it has.

    Examples
    --------
    >>> standard(probe, estimates, "consistency", out="figures")  # doctest: +SKIP
    """
    figures = {figure.name: figure for figure in getattr(probe, "figures", ())}
    for name in names:
        if name not in figures:
            allowed = f"one of {', '.join(figures)}" if figures else f"no figure: {probe.name} declares none"
            raise InputError("names", name, allowed, did_you_mean(name, list(figures)))
    drawn = []
    for name in names or figures:
        declared = vars(figures[name])
        headline = {"finding": declared["finding"](estimates)} if declared["finding"] else {}
        look = {**declared, **headline, "name": f"{probe.name}__{name}", **options}
        drawn.append(draw(estimates, look.pop("metric"), out=out, **look))
    return Drawn(
        *(tuple(each for one in drawn for each in getattr(one, part)) for part in ("axes", "paths", "missing"))
    )


def _select(estimates: pd.DataFrame, metrics: list[str], x: str | None, where: Mapping[str, Any]) -> pd.DataFrame:
    """Select rows by metric and condition: with `x`, those with a value of it; otherwise all but breakdowns."""
    require_columns(estimates, [*where, *([x] if x else [])], "estimates")
    chosen = estimates[estimates["metric"].isin(metrics)]
    for column, value in where.items():
        wanted = list(value) if isinstance(value, list | tuple) else [value]
        none = chosen[column].isna() | (chosen[column] == "")
        chosen = chosen[chosen[column].isin(wanted) | (none & (None in wanted))]
    return without_breakdowns(chosen) if x is None else chosen[chosen[x].notna()]


def _why(metrics: list[str], rows: pd.DataFrame) -> str:
    """Return a message on why nothing was drawn."""
    names = " or ".join(metric.replace("_", " ") for metric in metrics)
    notes = list(dict.fromkeys(note for note in rows.get("note", ()) if note))
    return f"Not drawn: no {names}{': ' if notes else ''}{'; '.join(notes)}"


def _name_rows(rows: pd.DataFrame, by: str | Sequence[str]) -> tuple[pd.DataFrame, str]:
    """Return the rows, sorted by judge if `by` begins with that column, and the column that names them."""
    first = by if isinstance(by, str) else by[0]
    return _name_together(sorted_judges(rows) if first == "judge" else rows, by, "who")


def _name_together(rows: pd.DataFrame, names: str | Sequence[str], into: str) -> tuple[pd.DataFrame, str]:
    """Return the rows and the column that names them; several columns are joined, as in "fluency, after coherence"."""
    if isinstance(names, str):
        return rows, names
    require_columns(rows, list(names), "estimates")
    words = [
        ", ".join(named(c, v).replace("_", " ") for c, v in zip(names, row, strict=True) if not pd.isna(v) and v != "")
        for row in rows[list(names)].itertuples(index=False)
    ]
    kept = rows.drop(columns=[column for column in names if column not in LEADING])
    return kept.assign(**{into: words}), into


def _name_published(published: pd.DataFrame, x: str | None, by: str | Sequence[str]) -> pd.DataFrame:
    """Return published values with the columns of `by` joined, as `_name_together` does for the estimates."""
    along = by if x is None else x
    require_columns(published, ["label", "value", *([along] if isinstance(along, str) else along)], "published")
    return published if x is not None else _name_together(published, by, "who")[0]


def _publish(ax: Axes, values: pd.DataFrame, along: str, order: Sequence[Any], upright: bool) -> None:
    """Draw published values; if there are as many series as values of ``hue``, they have the same colours."""
    series = list(values.groupby("label", sort=False))
    offsets = [0.0] * len(series) if upright else [0.3] if len(series) == 1 else np.linspace(-0.34, 0.34, len(series))
    for index, ((label, part), offset) in enumerate(zip(series, offsets, strict=True)):
        color = PALETTE[index % len(PALETTE)] if 1 < len(order) == len(series) else "0.35"
        marker = MARKERS[index % len(MARKERS)]
        _hollow(ax, part.set_index(along)["value"].dropna(), f"{PUBLISHED}{label}", float(offset), marker, color)


def _hollow(ax: Axes, values: pd.Series, label: str, offset: float, marker: str, color: Any) -> None:
    """Draw hollow marks: values with a numeric index at that x; others in the row of that name, if there is one."""
    upright = pd.api.types.is_numeric_dtype(values.index)
    if upright:
        x, y = values.index.to_numpy(float), values.to_numpy(float)
    else:
        rows = ax.yaxis.get_major_formatter().format_ticks(list(ax.get_yticks()))  # panels hide shared labels
        values.index = pd.Index([row_name(str(values.index.name), name) for name in values.index])
        values = values[values.index.isin(rows)]
        x, y = values.to_numpy(float), np.array([rows.index(name) + offset for name in values.index], float)
    if len(values):
        style: dict[str, Any] = {"marker": marker, "markerfacecolor": "white", "markersize": 4.5, "color": color}
        ax.plot(x, y, linestyle=":" if upright else "none", linewidth=1, label=label, **style)
