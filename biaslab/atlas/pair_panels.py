"""Figures of the atlas on pairwise judgements: order, its noise, and recent judges."""

from __future__ import annotations

import pandas as pd

from biaslab.atlas.estimates_table import reference
from biaslab.atlas.panel import WRITTEN, AtlasFigure, choose, found, joined, labelled, largest
from biaslab.atlas.release_trend import has_fallen, one_each, trend, with_dates
from biaslab.core.metrics import find_metric
from biaslab.core.output import percent
from biaslab.report.wording import size

_MATTERS = size(find_metric("first_position_rate", "position").matters or 0.0)
_SINCE = "2024-05"  # release month from which judges count as recent
_BY_CONSTRUCTION = "trained as judge"  # reward models, which score texts alone
_ORDER = ("order_consistency", "resampling_consistency")


def first_position() -> AtlasFigure:
    """Show P(A) of every recorded judge under its plainest prompt, in increasing order."""
    where = {"probe": "position", "metric": "first_position_rate", "human_gap": None}
    rows = largest(_of_what(choose(reference(), **where)))
    rows = labelled(rows, "judge", "of_what").sort_values("estimate", kind="stable")
    first, second, fair, unclear = (len(found(rows, kind)) for kind in ("above", "below", "none", "open"))
    slight = int(found(rows)["slight"].sum())
    least, most = rows.iloc[0], rows.iloc[-1]
    return AtlasFigure(
        rows,
        f"In {len(rows)} tests of {rows['judge'].nunique()} judges on {rows['data'].nunique()} data sets, the "
        f"candidate shown first is preferred in {first} and the one shown second in {second} ({slight} of these biases "
        f"are below {_MATTERS}), no bias of ≥ {_MATTERS} in {fair}, and {unclear} are inconclusive; P(A) goes from "
        f"{least['estimate']:.2f} ({least['judge']}, {least['data']}) to {most['estimate']:.2f} ({most['judge']}, "
        f"{most['data']}).",
    )


def today() -> AtlasFigure:
    """Show how far recent judges prefer the answer shown first, and the longer one."""
    order = choose(reference(), probe="position", metric="first_position_rate", human_gap=None)
    length = choose(reference(), probe="pair_length", metric="longer_wins_at_equal_gold")
    rows = with_dates(largest(pd.concat([order, length], ignore_index=True)))
    rows = rows[(rows["released"] >= _SINCE) & (rows["family"] != _BY_CONSTRUCTION)]
    rows = rows.sort_values(["metric", "estimate"], ascending=[True, False], kind="stable").reset_index(drop=True)
    rows = rows.assign(name=rows["judge"].replace(WRITTEN))
    facts = [rows["name"], rows["released"], rows["data"], "n = " + rows["n_contexts"].astype(str)]
    rows = rows.assign(who=[" · ".join(row) for row in zip(*facts, strict=True)])
    first, longer = (rows[rows["metric"] == name] for name in ("first_position_rate", "longer_wins_at_equal_gold"))
    groups = {
        "the answer shown first is preferred by": found(first, "above"),
        "the longer one at equal gold label by": found(longer, "above"),
        f"no position bias of ≥ {_MATTERS}:": found(first, "none"),
        "position inconclusive:": found(first, "open"),
        "length inconclusive:": found(longer, "open"),
    }
    clauses = [f"{words} {_named_shares(part)}" for words, part in groups.items() if len(part)]
    return AtlasFigure(rows, f"Recent judges: {'; '.join(clauses)}.")


def over_time() -> AtlasFigure:
    """Show P(A) of every dated judge by release month, and whether its distance from ½ has fallen."""
    rows = one_each(first_position().rows)
    rows = with_dates(rows).sort_values(["released", "judge"], kind="stable")
    rows = rows.assign(who=rows["released"] + "  " + rows["who"])
    return AtlasFigure(rows, has_fallen(trend(rows, null=0.5), rows, "The position bias", "|P(A) − ½|"))


def order_and_noise() -> AtlasFigure:
    """Show how often the winner stays the same in the other order, and when the request is repeated."""
    rows = choose(reference(), probe="position", metric=list(_ORDER), human_gap=None, source=["mt_bench", "devbench"])
    rows = _of_repetitions(rows)
    both = rows.pivot_table(index=["judge", "data"], columns="metric", values=["estimate", "ci_low", "ci_high"])
    apart = both["ci_high", _ORDER[0]] < both["ci_low", _ORDER[1]]
    order, again = (both["estimate", name].mean() for name in _ORDER)
    return AtlasFigure(
        labelled(rows, "judge"),
        f"Swapping the two answers changes {percent(1 - order, 2)} of the winners and asking again "
        f"{percent(1 - again, 2)}, on average over {len(both)} pairs of judge and data set; in {apart.sum()} of them "
        "order matters more than chance (intervals apart).",
    )


def _named_shares(rows: pd.DataFrame) -> str:
    """Write judges with their shares: "a (61 %) and b (59 %)"."""
    named = [f"{judge} ({percent(share, 2)})" for judge, share in zip(rows["name"], rows["estimate"], strict=True)]
    return joined(named)


def _of_what(rows: pd.DataFrame) -> pd.DataFrame:
    """Append the attribute, unless the whole answer was judged."""
    return rows.assign(of_what=rows["attribute"].where(rows["attribute"] != "overall"))


def _of_repetitions(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the judges and data sets that have both metrics, sorted by consistency between orders."""
    cell = ["judge", "dataset", "n_contexts"]
    rows = rows[rows.groupby(cell)["metric"].transform("nunique") == len(_ORDER)]
    worst = rows["estimate"].where(rows["metric"] == _ORDER[0]).groupby([rows["judge"]]).transform("mean")
    return rows.assign(place=worst).sort_values(["place", "metric"], kind="stable").drop(columns="place")
