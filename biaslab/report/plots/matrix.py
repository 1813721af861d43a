"""Plot estimates as a matrix: judges and their biases, or any two conditions."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from biaslab.core.metrics import find_metric
from biaslab.core.output import number
from biaslab.probes import available
from biaslab.report.card import card
from biaslab.report.plots.figure import DrawnFigures, close
from biaslab.report.plots.figure_words import judge_words, marked, short_label
from biaslab.report.plots.style import family_of, note, panels, shortened, styled
from biaslab.report.summary import STATUS, strongest_of
from biaslab.report.verdicts import by_metric
from biaslab.report.wording import span
from biaslab.stats.frame import require_columns

_REACH = 4.0  # distance from no bias, in units of what matters, of the darkest colour
_COLOURS = sns.diverging_palette(255, 35, s=90, l=65, as_cmap=True)  # light enough for black text, and distinct in grey
_HEAD, _LINES = 26, 3  # characters and lines of a column's name
_ROW, _AROUND = 0.45, 5.2  # centimetres of a row, and of all else
_FEW = 6  # columns whose names are not turned
_LIGHT = 1.7  # factor by which the darkest colour lies above the largest value, so that text is legible
_MOST = 3  # biases that a headline names


@styled
def bias_matrix(
    estimates: pd.DataFrame,
    fewest: int = 1,
    matters: Mapping[str, float] | None = None,
    title: str | None = None,
    name: str | None = None,
    out: str | PathLike[str] = "figures",
) -> DrawnFigures:
    """Plot which judge has which bias: a row per judge, a column per bias.

    A cell has the mark of the finding and the strongest estimate, as in `biaslab.report.verdict_table`. Its colour is
    the distance of the estimate from no bias, in units of the smallest that matters. Hatched cells were not tested.

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
        If no primary metric has an estimate, or a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(metric=["first_position_rate", "longer_wins_at_equal_gold"], source="mt_bench")
    >>> len(bias_matrix(rows).axes)
    1
    """
    cells = [
        strongest_of(found) for found in by_metric(card(estimates, matters=matters, reference=None).findings).values()
    ]
    rows = pd.DataFrame(
        [
            {**each.row, "status": status, "finding": each.kind, "slight": each.slight, "matters": each.matters}
            | {"distance": (each.estimate - each.null) / (each.matters or np.nan)}
            for status, each in cells
            if status != "untested"
        ]
    )
    if len(rows):
        rows = rows[rows.groupby("judge")["metric"].transform("size") >= fewest]
    if rows.empty:
        return DrawnFigures(missing=("Not drawn: no judge was tested for so many biases",))
    rows = rows.assign(bias=[_bias(*named) for named in zip(rows["metric"], rows["probe"], strict=True)])
    found = rows["status"].isin(["bias", "slight"])
    order = rows.assign(people=rows["judge"].map(family_of) == "people", found=-found.astype(int))
    order = (
        order.groupby("judge", sort=False)[["people", "found"]].sum().sort_values(["people", "found"], kind="stable")
    )
    table = rows.pivot_table("distance", "judge", "bias", dropna=False)
    table = table.loc[order.index, rows["bias"].value_counts().index]
    words = {
        (row["judge"], row["bias"]): f"{STATUS[row['status']][0]} {number(row['estimate'], 2)}"
        for row in rows.to_dict("records")
    }
    [ax] = panels(1, _AROUND + _ROW * len(table), width=17.0)
    image = _draw(ax, table, words, cmap=_COLOURS, vmin=-_REACH, vmax=_REACH)
    label = "distance from no bias (1: smallest that matters)"
    ax.figure.colorbar(image, ax=ax, location="bottom", extend="both", label=label, fraction=0.04, pad=0.02, aspect=40)
    explained = [f"{mark} {text}" for mark, text in STATUS.values()][:-1]
    note(ax, f"{_facts(rows, title)}\n{'  '.join(explained)}  hatched: not tested")
    return close([ax], rows, name, out, _most_frequent(rows))


def _bias(metric: str, probe: str) -> str:
    lines = textwrap.wrap(f"{probe.replace('_', ' ')}: {short_label(find_metric(metric, probe))}", _HEAD)
    return "\n".join(lines[:_LINES])


def _most_frequent(rows: pd.DataFrame) -> str:
    """Say how many judges have a bias that matters, and which biases are most frequent; people are left out."""
    people = rows["judge"].map(family_of) == "people"
    rows = rows if people.all() else rows[~people]
    biased = rows["status"] == "bias"
    pairs = zip(rows["metric"], rows["probe"], strict=True)
    names = [name.replace("_", " ") if name in available() else short_label(find_metric(m, name)) for m, name in pairs]
    by_judge = biased.groupby([pd.Index(names, name="bias"), rows["judge"]], sort=False).any()
    by_bias = by_judge.groupby(level="bias", sort=False).agg(["sum", "size"]).query("sum > 0")
    often = by_bias.sort_values("sum", ascending=False, kind="stable").head(_MOST)
    of = [f"{name} ({row['sum']} of {row['size']})" for name, row in often.iterrows()]
    judges = rows["judge"].unique()
    if len(judges) == 1:
        who = marked(judges[0]) or judge_words(judges[0])
        return f"{who}: {biased.sum()} of {len(rows)} tested biases found"
    most = f", most often {', '.join(of)}" if of else ""
    return f"{rows.loc[biased, 'judge'].nunique()} of {len(judges)} judges have a bias that matters{most}"


@styled
def matrix(
    estimates: pd.DataFrame,
    metric: str,
    across: str,
    by: str = "judge",
    title: str | None = None,
    name: str | None = None,
    out: str | PathLike[str] = "figures",
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
        As in `biaslab.plots.draw`; default headline: the lowest estimate of each row, over all rows.

    Returns
    -------
    DrawnFigures
        Rows with the highest mean come first.

    Raises
    ------
    TrialsError
        If a column is missing.

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
    table = rows.pivot_table("estimate", by, across, sort=False)
    table = table.loc[table.mean(axis=1).sort_values(ascending=False).index]
    words = {(row, column): number(value, 2) for column, cells in table.items() for row, value in cells.items()}
    [ax] = panels(1, _AROUND - 1.5 + _ROW * len(table), width=8.0 if len(table.columns) <= _FEW else 17.0)
    _draw(ax, table, words, cmap="Blues", vmax=_LIGHT * table.max(axis=None))
    note(ax, _facts(rows, title))
    if headline is None:
        label = short_label(find_metric(metric, rows["probe"].iloc[0] if "probe" in rows else None))
        lowest = table.min(axis=1).sort_values()
        ends = " to ".join(f"{number(lowest.iloc[end], 2)} ({lowest.index[end]})" for end in (0, -1))
        headline = f"{label[:1].upper()}{label[1:]} in the lowest {across} of each {by}: {ends}"
    return close([ax], rows, name, out, headline)


def _facts(rows: pd.DataFrame, title: str | None) -> str:
    """Return the title, simulated and toy judges, and n."""
    marks = sorted({marked(str(judge)) for judge in rows.get("judge", ())} - {""})
    return " · ".join(filter(None, [title, *marks, f"n = {span(rows['n_contexts'])} contexts"]))


def _draw(ax: Axes, table: pd.DataFrame, words: Mapping[Any, str], **colours: Any) -> AxesImage:
    """Draw a table as colours with words on them; cells without words are hatched."""
    image = ax.imshow(table.to_numpy(float), aspect="auto", **colours)
    ax.patch.set(hatch="////", edgecolor="0.88", facecolor="white")
    for place, row in enumerate(table.index):
        for along, column in enumerate(table.columns):
            ax.text(along, place, words.get((row, column), ""), ha="center", va="center", fontsize=7)
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
