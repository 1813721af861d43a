"""Draw whole figures of estimates, and save them with the estimates that they show."""

from __future__ import annotations

import io
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from biaslab.core.checks import did_you_mean, require_some_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.files import write_csv
from biaslab.core.interfaces import ProbeInterface
from biaslab.core.metrics import Says, find_metric
from biaslab.core.output import AnyPath, replacing, with_interval
from biaslab.report.plots import drawing, style
from biaslab.report.plots.drawing import fit_text, intervals, rows_of, sorted_judges, svg_of, values_of
from biaslab.report.plots.figure_words import headline_of, marked, named, remember_rows, row_name, short_label
from biaslab.report.verdicts import with_findings
from biaslab.report.wording import varying
from biaslab.stats.blocks import CELL
from biaslab.stats.frame import LEADING, require_columns, without_breakdowns
from biaslab.stats.joint_jackknife import condition_names


@dataclass(frozen=True, eq=False, repr=False)
class DrawnFigures:
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

    @property
    def headline(self) -> str:
        """The sentence above the first figure; empty without one."""
        return " ".join(self.axes[0].figure.get_suptitle().split()) if self.axes else ""

    def __repr__(self) -> str:
        return "\n".join(self.missing)

    def _ipython_display_(self) -> None:
        if self.missing:  # the notebook displays the figures themselves
            sys.stdout.write(f"{self}\n")


@style.styled
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
    out: AnyPath = "figures",
    headline: str | None = None,
    says: Says | str | None = None,
) -> DrawnFigures:
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
        Published values, drawn as crosses. Columns: ``label`` (who published them), ``value``, those of ``by`` or
        ``x`` and, if values differ between panels, that of ``col``. If there are as many labels as values of ``hue``,
        they have the same colours, in order.
    name : str, optional
        Save as ``<name>.{png,pdf,csv}``, by convention ``"<study>__<name>"``; see `save`. Default: do not save.
    out : path
        Folder of the files.
    headline : str, optional
        The sentence above the figure; default: that of `headline` for the estimates.
    says : Says or str, optional
        The sentence for each outcome, or for any, instead of ``headline``; with fields in braces, as in `Says`.

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
    defined = with_findings(defined, null) if len(defined) else defined
    if published is not None:
        published = _name_published(published, x, by or "attribute")
    if defined.empty:
        return DrawnFigures(missing=(_why(metrics, chosen),))
    rows = drawing.plain_if_untested(defined)
    rows, col = (rows, None) if col is None else _name_together(rows, col, "panel")
    rows, along = (rows, x) if x is not None else _name_rows(rows, by or "attribute")
    if hue is None and len(metrics) > 1 and col != "metric":
        hue = "metric"
    order = None if hue is None else values_of(rows, hue, metrics)
    hue = hue if order is not None and len(order) > 1 else None  # a condition that does not vary needs no colours
    look: dict[str, Any] = {"metric": metrics, "hue": hue, "hue_order": order}
    names = list(rows["dataset"].unique()) if "dataset" in rows else []
    series = 0 if published is None else published["label"].nunique()
    axes = []
    for ax, part, heads in drawing.each_panel(rows, metrics, along, x is not None, hue, col, row, series):
        head = " · ".join([*([title] if title else names if heads and len(names) == 1 else []), *heads]) or None
        first = part["metric"].iloc[0]
        labels = label if isinstance(label, Mapping) else {x or first: label}
        own = null.get(first) if isinstance(null, Mapping) else null
        more: dict[str, Any] = {"ax": ax, "title": head, "label": labels.get(first), "null": own}
        if x is None:
            intervals(part, by=along, reference=reference, **{**look, "hue": hue or ""}, **more)
        else:
            drawing.against(part, x, xlabel=labels.get(x), **look, **more)
        if published is not None:
            values = rows_of(published, col, part[col].iloc[0]) if col in published else published
            _publish(ax, values, along, order or [None], upright=x is not None)
        axes.append(ax)
    for ax in axes:
        if log:
            drawing.make_logarithmic(ax)
        fit_text(ax)
    return close(axes, defined, name, out, headline, says)


def close(
    axes: list[Axes],
    shown: pd.DataFrame,
    name: str | None,
    out: AnyPath,
    headline: str | None,
    says: Says | str | None = None,
) -> DrawnFigures:
    """Give a figure its legend; with a name ``<study>__<rest>``, write it and the rows that it shows to files."""
    if name is None:
        style.share_legend(axes)
        return DrawnFigures(tuple(axes))
    if headline is None and says is not None:
        headline = headline_of(axes[0].figure, shown, says)  # type: ignore[arg-type]
    study, _, rest = name.partition("__")
    return DrawnFigures(tuple(axes), tuple(save(axes, shown, study, rest, out, headline=headline)))


def standard(
    probe: ProbeInterface, estimates: pd.DataFrame, *names: str, out: AnyPath = "figures", **options: Any
) -> DrawnFigures:
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
        says = declared["says"]
        own = {"says": says(estimates)} if callable(says) else {}
        look = {**declared, **own, "name": f"{probe.name}__{name}", **options}
        drawn.append(draw(estimates, look.pop("metric"), out=out, **look))
    parts = ("axes", "paths", "missing")
    return DrawnFigures(*(tuple(each for one in drawn for each in getattr(one, part)) for part in parts))


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
        color = style.PALETTE[index % len(style.PALETTE)] if 1 < len(order) == len(series) else "0.35"
        marker = style.PUBLISHED_MARKERS[index % len(style.PUBLISHED_MARKERS)]
        _cross(ax, part.set_index(along)["value"].dropna(), f"{style.PUBLISHED}{label}", float(offset), marker, color)


def _cross(ax: Axes, values: pd.Series, label: str, offset: float, marker: str, color: Any) -> None:
    """Draw crosses: values with a numeric index at that x; others in the row of that name, if there is one."""
    upright = pd.api.types.is_numeric_dtype(values.index)
    if upright:
        x, y = values.index.to_numpy(float), values.to_numpy(float)
    else:
        rows = ax.yaxis.get_major_formatter().format_ticks(list(ax.get_yticks()))  # panels hide shared labels
        values.index = pd.Index([row_name(str(values.index.name), name) for name in values.index])
        values = values[values.index.isin(rows)]
        x, y = values.to_numpy(float), np.array([rows.index(name) + offset for name in values.index], float)
    if len(values):
        look: dict[str, Any] = {"marker": marker, "markersize": 4.5, "color": color, "linewidth": 1}
        ax.plot(x, y, linestyle=":" if upright else "none", label=label, **look)


_LONG = 40  # maximum number of characters of a judge's name
_WIDE = 30  # characters per line of a row label
_BOXED: Any = {"ha": "center", "fontsize": 7, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}}
#: Verdicts on an inherited share, as verbs of a sentence, if they are not so already.
_VERBS = {"keeps a part": "keeps a part of", "cannot be told": "is not shown to keep or lose"}


@style.styled
def compared(
    estimates: pd.DataFrame,
    metric: str | None = None,
    title: str | None = None,
    name: str | None = None,
    out: AnyPath = "figures",
    headline: str | None = None,
) -> list[Axes]:
    """Plot the result of `biaslab.compare` for one metric: estimates on the left, differences on the right.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Result of `biaslab.compare`.
    metric : str, optional
        Metric to plot; default: the first in the frame.
    title : str, optional
        Title above n; default: the data set's name before n.
    name, out
        As in `biaslab.plots.draw`: with a name, save the figure and its estimates.
    headline : str, optional
        The sentence above the figure; default: how many pairs of judges differ, and the largest difference.

    Returns
    -------
    list of matplotlib.axes.Axes
        Estimates, one row per judge, with the null dashed; and differences from the reference, one row per pair of
        judges, with 0 dashed. Attributes and other conditions that vary have separate rows.

    Raises
    ------
    TrialsError
        If the frame has no row of the metric.

    Examples
    --------
    >>> left, right = compared(found, "first_position_rate")  # doctest: +SKIP
    """
    require_columns(estimates, ["role", "compared", "metric", "probe", "estimate"], "estimates")
    own = estimates[estimates["role"] != "difference"]
    metric = metric or str(own["metric"].iloc[0])
    rows = estimates[estimates["metric"].isin([metric, f"{metric}_difference"])]
    if rows.empty:
        raise TrialsError("metric", metric, f"one of {', '.join(dict.fromkeys(own['metric']))}")
    names, who = varying(rows, condition_names(rows, "role", "compared")), rows["compared"].astype(str)
    pairs = {f"{other} − {one}": (other, one) for one, other in permutations(map(str, own["compared"].unique()), 2)}
    cell = [", ".join(named(name, row[name]) for name in names) for row in rows.to_dict("records")]
    people = ["\n− ".join(style.shortened(each, _LONG) for each in pairs.get(text, (text,))) for text in who]
    rows = rows.assign(cell=cell, who=people)
    shifts = rows["role"] == "difference"
    shown, apart = rows[~shifts].drop_duplicates(["who", "cell"]), rows[shifts]
    left, right = style.panels(2, 3.0 + 0.85 * max(len(shown), len(apart)), sharex=False, sharey=False)
    by = ["cell", "who"] if names else ["who"]
    intervals(shown, metric, by=by, hue="metric", ax=left, title=title)
    intervals(apart, f"{metric}_difference", by=by, hue="metric", ax=right, title="difference")
    headline = _largest(apart, metric, pairs) if headline is None else headline
    return list(close([left, right], estimates, name, out, headline).axes)


def _largest(shifts: pd.DataFrame, metric: str, pairs: Mapping[str, tuple[str, str]]) -> str | None:
    """Say how many of several differences are found and which one is largest, or what a single one shows."""
    tests = shifts[shifts["estimate"].notna()]
    if tests.empty:
        return None
    tests = with_findings(tests)
    found = int(tests["finding"].isin(["above", "below"]).sum())
    largest = tests.iloc[int(tests["estimate"].abs().to_numpy().argmax())].to_dict()
    value = f"{with_interval(largest, 2)} over {largest['n_contexts']} contexts"
    if len(tests) > 1:
        what = "pairs of judges differ" if tests["compared"].is_unique else "differences are found"
        return f"{found} of {len(tests)} {what}; {largest['compared']}: {value}"
    other, reference = pairs[str(largest["compared"])]
    label = short_label(find_metric(metric, str(largest["probe"])))
    return f"{other} {'differs' if found else 'is not shown to differ'} from {reference} in {label}: {value}"


@style.styled
def inherited(
    estimates: pd.DataFrame,
    unit: str = "SD",
    title: str | None = None,
    name: str | None = None,
    out: AnyPath = "figures",
    headline: str | None = None,
) -> list[Axes]:
    """Plot the result of `biaslab.distill.bias_inheritance`: estimates on the left, inherited shares on the right.

    Parameters
    ----------
    estimates : pandas.DataFrame
        One result of `biaslab.distill.bias_inheritance`, or several concatenated. Any ``role`` besides "difference" and
        "share", such as a control, is drawn with teacher and student.
    unit : str
        Plot the rows in this unit.
    title : str, optional
        Title above n; default: the data set's name before n.
    name, out, headline
        As in `biaslab.plots.draw`: with a name, save the figure and its estimates.

    Returns
    -------
    list of matplotlib.axes.Axes
        Estimates with the null dashed; and shares with their verdicts, with 0 (no bias inherited) and 1 (all of it)
        dashed. An undefined share has no dot.

    Raises
    ------
    TrialsError
        If the frame has no row in this unit.

    Examples
    --------
    >>> left, right = inherited(found, "points")  # doctest: +SKIP
    """
    require_columns(estimates, ["of", "unit", "role", "verdict", "probe", "attribute", "estimate"], "estimates")
    rows = estimates[(estimates["unit"] == unit) & (estimates["role"] != "difference")]
    if rows.empty:
        raise TrialsError("unit", unit, f"one of {', '.join(dict.fromkeys(estimates['unit']))}")
    probes, attributes = (len(set(rows[name])) > 1 for name in ("probe", "attribute"))
    labels = []
    for of, probe, attribute in rows[["of", "probe", "attribute"]].itertuples(index=False):
        text = (f"{probe}: " if probes else "") + find_metric(of, probe).label
        labels.append(textwrap.fill(text + (f", {attribute}" if attributes else ""), _WIDE))
    levels = list(dict.fromkeys(labels))
    places = np.array([levels.index(label) for label in labels], float)
    left, right = style.panels(2, 3.4 + 1.3 * len(levels), sharex=False)
    left.get_gridspec().set_width_ratios([1.25, 1])  # type: ignore[union-attr]
    _estimates(left, rows, places, unit)
    shares = (rows["role"] == "share").to_numpy()
    remember_rows(right, _in_words(rows, shares))
    _shares(right, rows[shares], places[shares])
    left.set_yticks(range(len(levels)), levels, parse_math=False)
    left.set_ylim(len(levels) - 0.5, -0.5)
    style.note(left, drawing.caption(rows, title))
    return list(close([left, right], estimates[estimates["unit"] == unit], name, out, headline).axes)


def _estimates(ax: Axes, rows: pd.DataFrame, places: np.ndarray, unit: str) -> None:
    roles = [role for role in dict.fromkeys(rows["role"]) if role != "share"]
    for index, (role, offset) in enumerate(zip(roles, np.linspace(-0.2, 0.2, len(roles)), strict=True)):
        mine = (rows["role"] == role).to_numpy()
        style.dots(ax, rows[mine], places[mine] + offset, index, role)
        if "planted" in rows:
            style.planted(ax, rows.loc[mine, "planted"].to_numpy(float), places[mine] + offset)
    nulls = {find_metric(of, probe).null for of, probe in zip(rows["of"], rows["probe"], strict=True)}
    if len(nulls) == 1:
        ax.axvline(float(nulls.pop() or 0.0), **style.NULL)
    ax.set_xlabel(f"estimate ({unit})")


def _in_words(rows: pd.DataFrame, shares: np.ndarray) -> pd.DataFrame:
    """Add a column ``headline`` to the shares: one sentence on the share of each bias that the student inherits."""
    clauses = []
    for row in rows[shares].to_dict("records"):
        share = f" (share {with_interval(row, 2)})" if row["estimate"] == row["estimate"] else ""
        label = find_metric(row["of"], row["probe"]).label
        clauses.append(f"{_VERBS.get(row['verdict'], row['verdict'])} its teacher's {label}{share}")
    whose = next((f" of a {kind}" for judge in rows["judge"] if (kind := marked(str(judge)))), "")
    return rows[shares].assign(headline=f"The student{whose} {'; '.join(clauses)}")


def _shares(ax: Axes, rows: pd.DataFrame, places: np.ndarray) -> None:
    for value in (0.0, 1.0):
        ax.axvline(value, **style.NULL)
    defined = rows["estimate"].notna().to_numpy()
    style.dots(ax, rows[defined], places[defined], 3)
    ax.set_xlabel("share of the teacher's bias (0: none, 1: all)")
    ax.margins(x=0.12)
    for place, verdict, low, high in zip(places, rows["verdict"], rows["ci_low"], rows["ci_high"], strict=True):
        middle = 0.5 if np.isnan(low) else (low + high) / 2
        ax.annotate(str(verdict), (middle, place), (0, 7), textcoords="offset points", **_BOXED)


@style.styled
def leaderboard(
    ranking: pd.DataFrame, name: str | None = None, out: AnyPath = "figures", **options: Any
) -> DrawnFigures:
    """Draw a corrected ranking: each system's number and rank, by the judge, by the labels alone, and corrected.

    Parameters
    ----------
    ranking : pandas.DataFrame
        From `biaslab.correct` with the estimand *ranking*, or *systems*; rows of one judge, data set and attribute.
    name, out, **options
        As in `draw`.

    Returns
    -------
    DrawnFigures
        Systems from best to worst corrected rank; a rank is known where its interval is one number.

    Raises
    ------
    TrialsError
        If there are no ranks, or those of several judges, data sets or attributes.

    Examples
    --------
    >>> import biaslab as bl
    >>> found = bl.correct(bl.atlas.trials("pandalm", judge="gpt-3.5-turbo"), corrections=["judge", "ppi"])
    >>> len(leaderboard(found).axes)
    2
    """
    ranks = ranking[ranking["metric"] == "rank"]
    if ranks.empty:
        remedy = 'pass bl.correct(judged, labels, "ranking")'
        raise TrialsError.plain(f"estimates have no ranks; {remedy}")
    if several := varying(ranks, [*CELL]):
        raise TrialsError(several[0], list(ranks[several[0]].unique()), "rows of one, since each has its own ranks")
    corrected = ranks[ranks["correction"] == "ppi"]
    best = (ranks if corrected.empty else corrected).sort_values("estimate", kind="stable")
    order = {system: place for place, system in enumerate(dict.fromkeys(best["system"]))}
    values = ranking[ranking["metric"].isin(["pass_rate", "mean_score", "win_rate", "rank"])]
    shown = values.sort_values("system", key=lambda names: names.map(order), kind="stable")
    metrics = list(dict.fromkeys(shown["metric"]))
    look = {"by": "system", "hue": "correction", "col": "metric", "headline": _order_of(best, ranks)} | options
    return draw(shown, metrics, name=name, out=out, **look)


def _order_of(best: pd.DataFrame, ranks: pd.DataFrame) -> str:
    """Return the sentence above a leaderboard: who is first, how many ranks are certain, and whom correction moves."""
    certain = int(best["ci_low"].eq(best["ci_high"]).sum())
    by_judge = ranks[ranks["correction"] == "judge"].set_index("system")["estimate"]
    moved = [row for row in best.to_dict("records") if by_judge.get(row["system"], row["estimate"]) != row["estimate"]]
    moves = ", ".join(f"{row['system']} from {by_judge[row['system']]:g} to {row['estimate']:g}" for row in moved)
    order = f"{best['system'].iloc[0]} is first; ranks that are certain: {certain} of {len(best)}"
    has_both = len(by_judge) and best["correction"].iloc[0] == "ppi"
    return f"{order}; correction moves {moves or 'no system'}" if has_both else order


def recovery(found: pd.DataFrame, name: str | None = None, out: AnyPath = "figures") -> DrawnFigures:
    """Plot estimates of planted biases against their population, in units of the smallest size that matters.

    Parameters
    ----------
    found : pandas.DataFrame
        Result of `biaslab.calibration.recover`.
    name, out
        As in `biaslab.plots.draw`.

    Returns
    -------
    Drawn
        On the dashed line an estimate equals the value of the population.

    Raises
    ------
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> recovery(biaslab.calibration.recover(), name="calibration__recovery")  # doctest: +SKIP
    """
    require_columns(found, ["probe", "metric", "truth", "estimate", "ci_low", "ci_high", "inside"], "found")
    found = found[found[["truth", "estimate"]].notna().all(axis=1)]
    if found.empty:
        return DrawnFigures(missing=("Not drawn: no estimate with a true value",))
    metrics = [find_metric(*named) for named in zip(found["metric"], found["probe"], strict=True)]
    null, size = (np.array([getattr(each, field) for each in metrics], float) for field in ("null", "matters"))
    columns = found[["truth", "estimate", "ci_low", "ci_high"]].to_numpy(float)
    truth, *estimated = ((columns - null[:, None]) / size[:, None]).T
    rows = pd.DataFrame(dict(zip(("estimate", "ci_low", "ci_high"), estimated, strict=True)))
    held = found["inside"].to_numpy(bool)
    rows = rows.assign(truth=truth, held=np.where(held, "interval covers the true value", "it does not"))
    rows = rows.sort_values("held", kind="stable")
    studies = f"n = {found['n_contexts'].max()} contexts a study"
    facts = f"{found['probe'].nunique()} probes, {found['metric'].nunique()} metrics · {studies}"
    labels = ("true bias (1 = smallest that matters)", "estimated bias, with 95 % interval")
    [ax] = identity(rows, "truth", "held", f"simulated judges · {facts}", labels).axes
    headline = f"{held.sum()} of {len(found)} intervals cover the true value (simulated judges, biases planted)"
    return close([ax], found, name, out, headline)


@style.styled
def identity(
    estimates: pd.DataFrame,
    x: str,
    hue: str,
    title: str,
    labels: tuple[str, str],
    name: str | None = None,
    out: AnyPath = "figures",
    headline: str | None = None,
) -> DrawnFigures:
    """Plot estimates against what they should be, such as planted or published values; on the dashed line both agree.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Columns ``estimate, ci_low, ci_high`` (missing: no interval), and those named by `x` and `hue`.
    x : str
        Column of the values to compare with.
    hue : str
        Column shown by colour and marker, in order of appearance.
    title : str
        Caption.
    labels : tuple of str
        Labels of the horizontal and the vertical axis.
    name, out, headline
        As in `biaslab.plots.draw`.

    Returns
    -------
    DrawnFigures

    Raises
    ------
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.replications()
    >>> len(identity(rows, "theirs", "outcome", "recorded judges", ("printed", "recomputed")).axes)
    1
    """
    require_columns(estimates, [x, hue, "estimate", "ci_low", "ci_high"], "estimates")
    estimates = estimates.loc[np.isfinite(estimates[["estimate", x]].to_numpy(float)).all(axis=1)]
    if estimates.empty:
        return DrawnFigures(missing=(f"Not drawn: no estimate with a value of {x}",))
    [ax] = style.panels(1, 8.0)
    ax.axline((0, 0), slope=1, label="both are equal", **style.NULL)
    for index, (label, part) in enumerate(estimates.groupby(hue, sort=False)):
        style.dots(ax, part, part[x].to_numpy(float), index, label, vertical=True, join=False)
    ax.set(xlabel=labels[0], ylabel=labels[1])
    style.note(ax, title)
    fit_text(ax)
    return close([ax], estimates, name, out, headline)


_SEEN = 0.02  # visible difference of a pixel, as a share of the full range
_DIGIT = 64  # pixels; replacing a digit of the smallest text by another changes at least 119


def save(
    axes: Axes | Sequence[Axes] | DrawnFigures,
    estimates: pd.DataFrame,
    study: str,
    name: str,
    out: AnyPath = "figures",
    formats: Sequence[str] = ("png", "pdf"),
    headline: str | None = None,
) -> list[Path]:
    """Save a figure as PNG and PDF, with a headline, and its estimates as CSV.

    Parameters
    ----------
    axes : matplotlib.axes.Axes, sequence of them, or DrawnFigures
        Any Axes of the figure, which is saved as drawn; or all its panels, which first get a common legend
        (`share_legend`); or what `draw` returned.
    estimates : pandas.DataFrame
        Estimates that the figure shows.
    study, name : str
        The files are named ``<study>__<name>.{png,pdf,csv}``.
    out : path
        Folder; created if missing.
    formats : sequence of {"png", "pdf", "svg"}
        Formats of the figure. Marks of an SVG have tooltips in a browser: condition, estimate, interval and n.
    headline : str, optional
        The sentence above the figure, also written to the table's column ``headline``; default: that of
        `biaslab.plots.headline` for the estimates drawn. Empty: none.

    Returns
    -------
    list of Path
        The figure in each format, then the CSV. An existing PNG that looks the same keeps its bytes.

    Raises
    ------
    InputError
        If a format is not one of these.
    """
    require_some_of("formats", formats, ("png", "pdf", "svg"))
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("out", str(out), "a folder that exists or can be created", "use another path") from error
    stem = folder / f"{study}__{name}"
    axes = axes.axes[0] if isinstance(axes, DrawnFigures) else axes
    if isinstance(axes, Sequence):
        style.share_legend(axes)
    first = axes[0] if isinstance(axes, Sequence) else axes
    figure: Figure = first.figure  # type: ignore[assignment]
    headline = headline_of(figure, estimates) if headline is None else headline
    if headline:
        style.head(figure, headline)
        estimates = estimates.assign(headline=headline)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in (*formats, "csv")]
    for path in paths[:-1]:
        _write(figure, path)
    write_csv(estimates, paths[-1])
    return paths


def _write(figure: Figure, path: Path) -> None:
    if path.suffix == ".svg":
        with replacing(path) as partial:
            partial.write_text(svg_of(figure), encoding="utf-8")
        return
    changing = "Software" if path.suffix == ".png" else "CreationDate"  # left out for reproducible files
    with style.in_style(), io.BytesIO() as file:
        figure.savefig(file, format=path.suffix[1:], bbox_inches="tight", metadata={changing: None})
        drawn = file.getvalue()
    if path.suffix == ".png" and _shows(path, drawn):
        path.touch()
    else:
        path.write_bytes(drawn)


def _shows(path: Path, drawn: bytes) -> bool:
    """Return whether a file shows the same picture, ignoring single pixels that rounding changes between machines."""
    try:
        before, now = imread(path), imread(io.BytesIO(drawn))
    except (OSError, SyntaxError):  # missing or damaged
        return False
    return before.shape == now.shape and int((np.abs(before - now) > _SEEN).any(axis=-1).sum()) < _DIGIT
