"""Figures of verdicts: distances from no bias for a bias card, judges × biases as a matrix, data sets as a forest."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from biaslab.core.errors import TrialsError
from biaslab.core.metrics import find_metric
from biaslab.core.output import AnyPath, count, number, percent, with_interval
from biaslab.probes import available
from biaslab.report.plots import style
from biaslab.report.plots.drawing import caption, fit_text, height_of, intervals
from biaslab.report.plots.figure import DrawnFigures, close
from biaslab.report.plots.figure_words import judge_words, marked, short_label
from biaslab.report.plots.style import MARKERS, OTHERS, PALETTE, family_of, note, panels, shortened, styled
from biaslab.report.summary import STATUS, is_bias, strongest_of
from biaslab.report.verdicts import Finding, by_metric, classify, side_words, with_findings
from biaslab.report.wording import conditions, span, varying
from biaslab.stats.frame import require_columns, with_numpy_types, without_breakdowns
from biaslab.stats.synthesis import synthesis

_INCH, _LINE, _POINTS = 2.54, 0.28, 8.4  # centimetres per inch and per line of a verdict; points per such line
_WIDTH, _NAME = 72, 110  # characters per line of a verdict, and maximum number of characters of a judge's name
_SHORT = 20  # maximum number of characters of a name next to a judge's rows
_LEFT, _RIGHT = -0.9, 2.1  # left and right end of the rows, in widths of the axes
#: Traffic-light colours that colour-blind readers can distinguish; each also has its own mark.
_LIGHTS = {"bias": "#9c2f00", "slight": "#8a6400", "none": "#00614d", "unclear": "0.3", "untested": "0.3"}
_CROWDED = 20  # axis limit, in units of what matters, beyond which three labels per decade do not fit


@styled
def draw(biases: pd.DataFrame, found: Sequence[Finding], facts: str) -> Axes:
    """Draw one row per judge and metric, with its cells in units of the smallest effect that matters, and its verdict.

    The worst verdicts come first, as in the card's table. Metrics that were not tested for any judge have no row; a
    line above the axes names them.

    Parameters
    ----------
    biases : pandas.DataFrame
    found : sequence of Finding
        Attributes ``biases`` and ``findings`` of a `biaslab.report.Card`.
    facts : str
        Line above the axes: data, n, level.

    Returns
    -------
    matplotlib.axes.Axes
    """
    judges = list(dict.fromkeys(each.row["judge"] for each in found))
    severity = biases["status"].map({status: place for place, status in enumerate(STATUS)})
    worst = severity.groupby([biases["probe"], biases["metric"]], sort=False).min().sort_values(kind="stable")
    order = {key: place for place, key in enumerate(worst.index)}
    tested = biases.groupby(["probe", "metric"])["status"].transform(lambda statuses: (statuses != "untested").any())
    shown = biases if not tested.any() else biases[tested]
    keys = zip(shown["probe"], shown["metric"], shown["judge"], strict=True)
    rows = sorted(keys, key=lambda key: (order[key[:2]], judges.index(key[2])))
    names, colours = _short_names(judges), _colours(judges)
    [ax] = panels(1)
    figure: Figure = ax.figure  # type: ignore[assignment]
    figure.set_layout_engine("none")  # the text lies outside the axes, which must not shrink to make room for it
    most = max(len(_words(row)) for row in shown.to_dict("records"))
    figure.set_size_inches(9 / _INCH, (2.6 + max(1.0, _LINE * (most + 2.1)) * len(rows)) / _INCH)
    ax.axvspan(-1, 1, color="0.92", zorder=0, linewidth=0)
    ax.axvline(0, color="0.4", linestyle="--", linewidth=1, zorder=0)
    cells = by_metric(found)
    for place, (probe, metric, judge) in enumerate(rows):
        bias = biases[(biases["probe"] == probe) & (biases["metric"] == metric) & (biases["judge"] == judge)].iloc[0]
        first = not place or rows[place - 1][:2] != (probe, metric)
        if first and place:
            line: dict[str, Any] = {"color": "0.8", "linewidth": 0.5, "clip_on": False}
            ax.plot([_LEFT, _RIGHT], [place - 0.5] * 2, transform=ax.get_yaxis_transform(), **line)
        marker = MARKERS[judges.index(judge) % len(MARKERS)]
        _draw_cells(ax, cells[judge, probe, metric], place, {"marker": marker, "color": colours[judge]})
        _write(ax, bias.to_dict(), place, names[judge] if len(judges) > 1 else "", first)
    left = biases[~tested] if tested.any() else biases.iloc[:0]
    above = [f"{names[name]}: {name}" if names[name] else name for name in judges if names[name] != name]
    above = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in above]
    _finish(ax, len(rows), [*above, *textwrap.wrap(facts, _NAME), *_not_tested(left)])
    return ax


def _short_names(judges: list[str]) -> dict[str, str]:
    """Return a label per judge: its name if all are short and distinct, else a number; "" for a single judge."""
    if len(judges) == 1:
        return {judges[0]: ""}
    short = [judge_words(judge) for judge in judges]
    if len(set(short)) == len(judges) and max(map(len, short)) <= _SHORT:
        return dict(zip(judges, short, strict=True))
    return {judge: f"judge {number}" for number, judge in enumerate(judges, 1)}


def _colours(judges: list[str]) -> dict[str, Any]:
    """Return the colour of each judge: that of its model family, as in every figure, if any family is known."""
    families = {judge: style.family_colour(judge_words(judge)) for judge in judges}
    if set(families.values()) != {OTHERS}:
        return families
    return {judge: PALETTE[place % len(PALETTE)] for place, judge in enumerate(judges)}


def _draw_cells(ax: Axes, found: Sequence[Finding], place: int, own: Mapping[str, Any]) -> None:
    """Draw the tested cells of one judge and metric, in units of the smallest effect that matters."""
    drawn = [each for each in found if each.kind != "untested" and each.matters and each.estimate == each.estimate]
    x, low, high = (
        np.array([(getattr(each, end) - each.null) / each.matters for each in drawn], float)
        for end in ("estimate", "low", "high")
    )
    y = place + (np.linspace(-0.3, 0.3, len(drawn)) if len(drawn) > 1 else np.zeros(len(drawn)))
    look: dict[str, Any] = {"markersize": 3.5, "elinewidth": 1.6, "linestyle": "", **own}
    ax.errorbar(x, y, xerr=np.abs(np.array([x - low, high - x])), **look)


def _write(ax: Axes, row: Mapping[Any, Any], place: int, judge: str, first: bool) -> None:
    """Write the metric on the left of a row and the verdict on the right."""
    if judge:
        at: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "parse_math": False, "fontsize": 6.5}
        ax.text(-0.03, place, judge, ha="right", va="center", **at)
    label = textwrap.wrap(str(row["label"]), 36)
    if first:
        probe = str(row["probe"]).replace("_", " ")
        top = {"y": place - 0.42, "middle": False} if judge else {"y": place}
        _write_block(ax, _LEFT, probe, label, "black", "0.3", **top)
    mark, word = STATUS[row["status"]]
    lines, light = _words(row), _LIGHTS[row["status"]]
    _write_block(ax, 1.03, mark, lines, light, y=place, body=False)
    _write_block(ax, 1.08, word, lines, light, y=place)


def _write_block(
    ax: Axes, x: float, head: str, lines: list[str], bold: str, colour: str = "black", *, y: float, middle: bool = True,
    body: bool = True,
) -> None:  # fmt: skip
    """Write a bold line above further lines, vertically centred at `y` or, unless `middle`, below it."""
    below = _POINTS * ((len(lines) - 1) / 2 if middle else -1)
    at: dict[str, Any] = {"xy": (x, y), "xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    at |= {"xytext": (0, below), "annotation_clip": False, "parse_math": False, "fontsize": 6.5, "ha": "left"}
    ax.annotate(head, va="bottom", color=bold, fontweight="bold", **at)
    if body:
        ax.annotate("\n".join(lines), va="top", color=colour, **at)


def _words(row: Mapping[Any, Any]) -> list[str]:
    """Return the lines below a verdict's word: the verdict and, if a bias was found, the numbers."""
    is_bias = row["status"] in ("bias", "slight")
    evidence = [f"{row['estimate']} {row['interval']}, q {row['q']}"] if is_bias else []
    verdict = "; ".join(filter(None, (row["verdict"], row["rank"] if is_bias else "")))
    return [*textwrap.wrap(verdict, _WIDTH), *evidence]


def _not_tested(left: pd.DataFrame) -> list[str]:
    """Return lines that name the metrics without a row."""
    pairs = dict.fromkeys(zip(left["probe"], left["label"], strict=True))
    names = [f"{str(probe).replace('_', ' ')} ({label})" for probe, label in pairs]
    return textwrap.wrap(f"not tested: {', '.join(names)}", _NAME) if names else []


def _finish(ax: Axes, rows: int, above: list[str]) -> None:
    """Set limits, scale and labels of the horizontal axis, and write the caption."""
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xscale("symlog", linthresh=1, linscale=0.6)
    reach = 1.3 * max(2.0, *map(abs, ax.get_xlim()))
    ax.set_xlim(-reach, reach)
    _mark(ax, reach)
    label = "distance from no bias, in units of what matters\n(grey: less than that; bars: intervals)"
    ax.set_xlabel(label, fontsize=7)
    note(ax, "\n".join(above))


def _mark(ax: Axes, reach: float) -> None:
    """Label 1, 2, 5, 10, … (only powers of ten if space is short), with minor ticks between them."""
    steps = (1, 2, 5) if reach < _CROWDED else (1,)
    ticks = [step * 10**power for power in range(4) for step in steps if step * 10**power <= reach]
    ax.set_xticks([*(-tick for tick in ticks), 0, *ticks], [*(f"−{tick}" for tick in ticks), "0", *map(str, ticks)])
    between = [step * 10**power for power in range(4) for step in range(2, 10) if step * 10**power <= reach]
    ax.set_xticks([*(-tick for tick in between), *between], minor=True)
    ax.tick_params(axis="x", labelsize=7)


_REACH = 4.0  # distance from no bias, in units of what matters, of the darkest colour
_COLOURS = sns.diverging_palette(255, 35, s=90, l=65, as_cmap=True)  # light enough for black text, and distinct in grey
_HEAD, _LINES = 26, 3  # characters and lines of a column's name
_ROW, _TWO_LINES, _AROUND = 0.45, 0.66, 5.2  # centimetres of a row, of one with two lines, and of all else
_FEW = 6  # columns whose names are not turned
_LIGHT = 1.7  # factor by which the darkest colour lies above the largest value, so that text is legible
_MOST = 3  # biases that a headline names
_FILL = {"above": "black", "below": "black"}
_STRONGEST = "\nof several tests (attributes, data, prompts) the strongest, with the number in which a bias is found"
_DIAMOND, _LEGEND = np.array([0.0, 0.3, 0.0, -0.3]), 0.9  # corners of a diamond, in rows; centimetres of a legend


@styled
def bias_matrix(
    estimates: pd.DataFrame,
    fewest: int = 1,
    matters: Mapping[str, float] | None = None,
    title: str | None = None,
    name: str | None = None,
    out: AnyPath = "figures",
) -> DrawnFigures:
    """Plot which judge has which bias: a row per judge, a column per bias.

    A cell has the mark of the finding and the strongest of its estimates, as in `biaslab.report.verdict_table`, and in
    how many of its tests a bias is found, unless in all. Its colour is the distance of the estimate from no bias, in
    units of the smallest that matters. Hatched cells were not tested.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Estimates of several probes or judges, such as `biaslab.audit` returns.
    fewest : int
        Leave out judges that were tested for fewer biases.
    matters : mapping of str to float, optional
        See `biaslab.report.verdicts`.
    title : str, optional
        Title above n.
    name, out
        As in `biaslab.plots.draw`.

    Returns
    -------
    DrawnFigures
        The headline counts the judges with each of the most frequent biases.

    Raises
    ------
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(metric=["first_position_rate", "longer_wins_at_equal_gold"], source="mt_bench")
    >>> len(bias_matrix(rows).axes)
    1
    """
    require_columns(estimates, ["probe", "judge", "metric", "estimate"], "estimates")
    whole = without_breakdowns(with_numpy_types(estimates))
    tested = whole[[is_bias(*named) for named in zip(whole["metric"], whole["probe"], strict=True)]]
    classified = [each for each in classify(tested, matters) if each.kind != "untested"] if len(tested) else []
    rows = pd.DataFrame(
        [
            {**each.row, "status": status, "finding": each.kind, "slight": each.slight, "matters": each.matters}
            | {"distance": (each.estimate - each.null) / (each.matters or np.nan)}
            | {"n_found": sum(one.is_bias for one in cells), "n_tests": sum(one.kind != "untested" for one in cells)}
            for cells in by_metric(classified).values()
            for status, each in [strongest_of(cells)]
        ]
    )
    if len(rows):
        rows = rows[rows.groupby("judge")["metric"].transform("size") >= fewest]
    if rows.empty:
        return DrawnFigures(missing=("Not drawn: no judge was tested for so many biases",))
    rows = rows.assign(bias=[_bias(*named) for named in zip(rows["metric"], rows["probe"], strict=True)])
    found = rows["status"].isin(["bias", "slight"])
    by = ["people", "found"]
    order = rows.assign(people=rows["judge"].map(family_of) == "people", found=-found.astype(int))
    order = order.groupby("judge", sort=False)[by].sum().sort_values(by, kind="stable")
    table = rows.pivot_table("distance", "judge", "bias", dropna=False)
    table = table.loc[order.index, rows["bias"].value_counts().index]
    partly = (rows["n_found"] > 0) & (rows["n_found"] < rows["n_tests"])
    shares = (rows["n_found"].astype(str) + " of " + rows["n_tests"].astype(str)).where(partly, "")
    words = {
        (row["judge"], row["bias"]): f"{STATUS[row['status']][0]} {number(row['estimate'], 2)}\n{share}".strip()
        for row, share in zip(rows.to_dict("records"), shares, strict=True)
    }
    [ax] = panels(1, _AROUND + (_TWO_LINES if partly.any() else _ROW) * len(table), width=17.0)
    image = _draw_matrix(ax, table, words, cmap=_COLOURS, vmin=-_REACH, vmax=_REACH)
    label = "distance from no bias (1: smallest that matters)"
    ax.figure.colorbar(image, ax=ax, location="bottom", extend="both", label=label, fraction=0.04, pad=0.02, aspect=40)
    explained = [f"{mark} {text}" for mark, text in STATUS.values()][:-1]
    explained[-1] += f"  hatched: not tested{_STRONGEST if (rows['n_tests'] > 1).any() else ''}"
    note(ax, f"{_facts(rows, title)}\n{'  '.join(explained)}")
    return close([ax], rows, name, out, _most_frequent(rows))


def _bias(metric: str, probe: str) -> str:
    lines = textwrap.wrap(f"{probe.replace('_', ' ')}: {short_label(find_metric(metric, probe))}", _HEAD)
    return "\n".join(lines[:_LINES])


def _most_frequent(rows: pd.DataFrame) -> str:
    """Say how many judges have a bias, and which biases are most frequent; people are left out."""
    people = rows["judge"].map(family_of) == "people"
    rows = rows if people.all() else rows[~people]
    biased = rows["status"] == "bias"
    pairs = zip(rows["metric"], rows["probe"], strict=True)
    names = [name.replace("_", " ") if name in available() else short_label(find_metric(m, name)) for m, name in pairs]
    by_bias = rows.assign(bias=names, biased=biased).groupby("bias", sort=False)
    often = sorted(by_bias, key=lambda each: -each[1].loc[each[1]["biased"], "judge"].nunique())[:_MOST]
    of = [f"{name} ({_by_side(part)})" for name, part in often if part["biased"].any()]
    judges = rows["judge"].unique()
    if len(judges) == 1:
        who = marked(judges[0]) or judge_words(judges[0])
        return f"{who}: {biased.sum()} of {len(rows)} tested biases found"
    most = f", most often {', '.join(of)}" if of else ""
    return f"{rows.loc[biased, 'judge'].nunique()} of {len(judges)} judges have a bias{most}"


def _by_side(rows: pd.DataFrame) -> str:
    """Say how many judges have a bias to each side, of those that were tested."""
    found = rows[rows["biased"]]
    words = [side_words(find_metric(m, p), side) for m, p, side in found[["metric", "probe", "finding"]].to_numpy()]
    sides = found["judge"].groupby(np.array(words, object)).nunique().sort_values(ascending=False, kind="stable")
    return f"{', '.join(f'{side}: {n}' for side, n in sides.items())}, of {rows['judge'].nunique()}"


@styled
def forest(
    estimates: pd.DataFrame,
    by: str = "dataset",
    title: str | None = None,
    name: str | None = None,
    out: AnyPath = "figures",
    headline: str | None = None,
) -> DrawnFigures:
    """Plot each judge's independent estimates of one metric, and pool them: a forest plot.

    A diamond is the pooled estimate with its interval, filled if a bias is found; the grey bar is where 95 % of other
    estimates are predicted. See `biaslab.synthesis`.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Rows of one metric. Judges with fewer than three, and rows without a standard error, are left out.
    by : str
        Column of the independent parts, such as data sets, each in one row of a judge.
    title, name, out, headline
        As in `biaslab.plots.draw`.

    Returns
    -------
    DrawnFigures
        By default, the headline has for each judge the pooled estimate, I², and what is predicted for another part.

    Raises
    ------
    TrialsError
        If there are several metrics, or as in `biaslab.synthesis`.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(judge="gpt-4", metric="first_position_rate", source="llmbar", breakdowns=False)
    >>> len(forest(rows[rows["subset"].notna() & (rows["template"] == "Vanilla")], by="subset").axes)
    1
    """
    whole = with_findings(synthesis(estimates, by))
    if len(metrics := estimates["metric"].unique()) > 1:
        raise TrialsError("metric", ", ".join(metrics), "rows of one metric")
    whole[by] = [f"pooled, I² {percent(share, 2)}" for share in whole["i_squared"]]
    known = estimates[np.isfinite(estimates["se"]) & (estimates["se"] > 0) & estimates["judge"].isin(whole["judge"])]
    left = len(estimates) - len(known)
    known = with_findings(known[known["estimate"].notna()]).sort_values("estimate", kind="stable")
    rows = pd.concat([known, whole]).sort_values("judge", kind="stable")
    [ax] = panels(1, height_of(len(rows), 1) + _LEGEND)
    intervals(rows, by=["judge", by] if len(whole) > 1 else by, hue="", ax=ax)
    clauses = []
    for place, row in enumerate(rows.to_dict("records")):
        if row["n_estimates"] > 0:
            x, y = [row[each] for each in ("ci_low", "estimate", "ci_high", "estimate")], place + _DIAMOND
            ax.fill(x, y, facecolor=_FILL.get(row["finding"], "white"), edgecolor="black", zorder=5)
            ends = row["prediction_low"], row["prediction_high"]
            ax.plot(
                ends, [place] * 2, color="0.7", lw=4, solid_capstyle="butt", zorder=0, label="95 % of others, predicted"
            )
            value = f"{short_label(find_metric(row['metric'], row['probe']))} {with_interval(row, 2)}"
            value += f" pooled over {row['n_estimates']:.0f} estimates (I² {percent(row['i_squared'], 2)}); "
            value += f"{number(ends[0], 2)} to {number(ends[1], 2)} is predicted for another"
            sides = known.loc[known["judge"] == row["judge"], "finding"].value_counts()
            if {"above", "below"} <= set(sides.index):
                value += f"; found above in {sides['above']} and below in {sides['below']}"
                value += ", so the side does not carry over"
            clauses.append(f"{judge_words(row['judge'])}: {value}")
    apart = f"\n{count(left, 'estimate')} not drawn: without a standard error, or of a judge with fewer than three"
    note(ax, f"{caption(known, title)}{apart if left else ''}")
    fit_text(ax)
    return close([ax], rows, name, out, "; ".join(clauses) if headline is None else headline)


@styled
def matrix(
    estimates: pd.DataFrame,
    metric: str,
    across: str,
    by: str = "judge",
    title: str | None = None,
    name: str | None = None,
    out: AnyPath = "figures",
    headline: str | None = None,
) -> DrawnFigures:
    """Plot one metric as numbers on colours: a row per value of one condition, a column per value of another.

    Parameters
    ----------
    estimates : pandas.DataFrame
        One estimate for each pair of values.
    metric : str
        Which metric.
    across, by : str
        Condition columns that name the columns and the rows.
    title : str, optional
        Title above n.
    name, out, headline
        As in `biaslab.plots.draw`; default headline: in which columns most rows are lowest and highest.

    Returns
    -------
    DrawnFigures
        Rows with the highest mean come first.

    Raises
    ------
    TrialsError
        If a column is missing, or two values have several estimates.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(source="llmbar", metric="comparative_accuracy", probe="subsets")
    >>> len(matrix(rows.query("template == 'Vanilla'"), "comparative_accuracy", across="subset").axes)
    1
    """
    require_columns(estimates, ["metric", "estimate", across, by], "estimates")
    rows = estimates[(estimates["metric"] == metric) & estimates[["estimate", across, by]].notna().all(axis=1)]
    if rows.empty:
        return DrawnFigures(missing=(f"Not drawn: no {metric.replace('_', ' ')} by {across}",))
    if len(several := rows[rows.duplicated([by, across])]):
        cell = " and ".join(f"{name} {several[name].iloc[0]}" for name in (by, across))
        raise TrialsError.plain(f"estimates have several rows of {metric} with {cell}; keep one")
    table = rows.pivot_table("estimate", by, across, sort=False)
    table = table.loc[table.mean(axis=1).sort_values(ascending=False).index]
    words = {(row, column): number(value, 2) for column, cells in table.items() for row, value in cells.items()}
    [ax] = panels(1, _AROUND - 1.5 + _ROW * len(table), width=8.0 if len(table.columns) <= _FEW else 17.0)
    most = _LIGHT * float(np.nanmax(np.abs(table))) or 1.0
    signed = float(np.nanmin(table)) < 0
    _draw_matrix(ax, table, words, cmap=_COLOURS if signed else "Blues", vmin=-most if signed else 0.0, vmax=most)
    note(ax, _facts(rows, title))
    if headline is None:
        label = short_label(find_metric(metric, rows["probe"].iloc[0] if "probe" in rows else None))
        ends = []
        for word, place in (("lowest", table.idxmin(axis=1)), ("highest", table.idxmax(axis=1))):
            values = table.loc[place == place.mode()[0], place.mode()[0]]
            reach = " to ".join(dict.fromkeys(number(value, 2) for value in (values.min(), values.max())))
            ends.append(f"{word} in {values.name} for {len(values)} of {count(len(table), by)} ({reach})")
        headline = f"{label[:1].upper()}{label[1:]} is {', '.join(ends)}"
    return close([ax], rows, name, out, headline)


def _facts(rows: pd.DataFrame, title: str | None) -> str:
    """Return the title, simulated and toy judges, and n."""
    marks = sorted({marked(str(judge)) for judge in rows.get("judge", ())} - {""})
    return " · ".join(filter(None, [title, *marks, f"n = {span(rows['n_contexts'])} contexts"]))


def _draw_matrix(ax: Axes, table: pd.DataFrame, words: Mapping[Any, str], **colours: Any) -> AxesImage:
    """Draw a table as colours with words on them; cells without words are hatched."""
    image = ax.imshow(table.to_numpy(float), aspect="auto", **colours)
    ax.patch.set(hatch="////", edgecolor="0.88", facecolor="white")
    for place, row in enumerate(table.index):
        for along, column in enumerate(table.columns):
            ax.text(along, place, words.get((row, column), ""), ha="center", va="center", fontsize=7, linespacing=0.9)
    ax.set_yticks(range(len(table)), [shortened(judge_words(str(each))) for each in table.index], parse_math=False)
    ax.xaxis.tick_top()
    upright = len(table.columns) > _FEW
    ax.set_xticks(range(len(table.columns)), table.columns, rotation=90 * upright, parse_math=False)
    ax.tick_params(length=0, labelsize=7)
    ax.set_xticks(np.arange(len(table.columns) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(table) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1.5)
    ax.tick_params(which="minor", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return image


_DOWN, _CURVE = 0.42, 5.0  # centimetres of a level, and of the curve


@styled
def specification_curve(
    specifications: pd.DataFrame,
    title: str | None = None,
    name: str | None = None,
    out: AnyPath = "figures",
    headline: str | None = None,
) -> DrawnFigures:
    """Plot estimates under every specification, sorted, above the choices that each makes (Simonsohn et al. 2020).

    Parameters
    ----------
    specifications : pandas.DataFrame
        From `biaslab.robustness`.
    title, name, out, headline
        As in `biaslab.plots.draw`.

    Returns
    -------
    DrawnFigures
        Intervals that exclude the null are coloured; the dotted line is the median.

    Raises
    ------
    TrialsError
        If a column is missing, or there are several metrics.

    Examples
    --------
    >>> import biaslab as bl
    >>> log = bl.atlas.trials("arena_gpt52")
    >>> found = bl.robustness(log, "first_position_rate")
    >>> len(specification_curve(found.specifications).axes)
    2
    """
    needed = ["probe", "judge", "metric", "estimate", "ci_low", "ci_high", "n_contexts"]
    require_columns(specifications, needed, "specifications")
    rows = specifications.dropna(subset="estimate").sort_values("estimate", kind="stable", ignore_index=True)
    if rows.empty:
        return DrawnFigures(missing=("Not drawn: no specification has an estimate",))
    if len(metrics := rows["metric"].unique()) > 1:
        raise TrialsError("metric", ", ".join(metrics), "specifications of one metric")
    choices = varying(rows, ["judge", *conditions(rows)])
    levels = [(choice, level) for choice in choices for level in dict.fromkeys(rows[choice])]
    curve, marks = panels(1, _CURVE / 2 + _DOWN * len(levels) / 2, width=17.0, rows=2, sharey=False)
    curve.get_subplotspec().get_gridspec().set_height_ratios([_CURVE, max(_DOWN * len(levels), _DOWN)])  # type: ignore[union-attr]
    metric = find_metric(rows["metric"].iloc[0], rows["probe"].iloc[0])
    null, at = metric.null if metric.null is not None else 0.0, rows.index.to_numpy()
    apart = (rows["ci_low"] > null) | (rows["ci_high"] < null)
    size = float(np.clip(200 / len(rows), 0.5, 4))
    for chosen, colour, label in (
        (~apart, "0.65", "interval contains the null"),
        (apart, PALETTE[0], "interval excludes it"),
    ):
        if (part := rows[chosen]).empty:
            continue
        curve.vlines(part.index, part["ci_low"], part["ci_high"], color=colour, linewidth=size / 3, alpha=0.6)
        curve.plot(part.index, part["estimate"], "o", color=colour, markersize=size, label=label)
    curve.axhline(null, **style.NULL)
    curve.axhline(rows["estimate"].median(), color="black", linewidth=0.8, linestyle=":", label="median")
    curve.set_ylabel(textwrap.fill(metric.axis, 34))
    for place, (choice, level) in enumerate(levels):
        made = at[(rows[choice] == level).to_numpy()]
        marks.plot(made, [place] * len(made), "|", color="0.15", markersize=4, markeredgewidth=min(size / 3, 0.8))
    for place, (choice, _) in enumerate(levels[:-1]):
        if choice != levels[place + 1][0]:
            marks.axhline(place + 0.5, color="0.8", linewidth=0.6)
    names = [f"{choice}: {judge_words(level) if choice == 'judge' else level}" for choice, level in levels]
    marks.set_yticks(range(len(levels)), [shortened(each, 40) for each in names], parse_math=False)
    marks.set_ylim(len(levels) - 0.4, -0.6)
    marks.tick_params(axis="y", length=0, labelsize=7)
    marks.set_xlabel(f"specification, by its estimate (of {len(rows):,})")
    note(curve, _facts(rows, title))
    return close([curve, marks], rows, name, out, headline)
