"""Figures of the atlas: estimates with a headline, on pairwise judgements, on scores and on own texts."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from biaslab.atlas.estimates_table import PEOPLE, estimates, of_models
from biaslab.atlas.judgements import trials
from biaslab.atlas.release_trend import has_fallen, one_each, trend, with_dates
from biaslab.core.errors import TrialsError
from biaslab.core.metrics import find_metric
from biaslab.core.output import NAMES, WAYS, percent, title, written
from biaslab.logs.audit import audit
from biaslab.report.verdicts import with_findings
from biaslab.report.wording import size

WRITTEN = NAMES["judges"]
_MATTERS = size(find_metric("first_position_rate", "position").matters or 0.0)
_SINCE = "2024-05"  # release month from which judges count as recent
_BY_CONSTRUCTION = "trained as judge"  # reward models, which score texts alone
_ORDER = ("order_consistency", "resampling_consistency")
_SUMMEVAL = ("summeval_judges", "summeval_experts")
_RATED = ("coherence", "consistency")  # the attributes of SummEval that models were asked about
_SCALE = "1-5"
_NAMINGS = ("authors not named", "authors named rightly", "authors named at random", "authors named wrongly")


@dataclass(frozen=True, eq=False)
class AtlasFigure:
    """The estimates of a figure, and its headline.

    Attributes
    ----------
    rows : pandas.DataFrame
        Estimates, with ``data`` (the data set as papers write it), ``kind`` ("model" or "person") and ``who`` (the
        label of a row).
    headline : str
        One sentence, whose numbers are those of the rows.
    """

    rows: pd.DataFrame
    headline: str

    def _repr_markdown_(self) -> str:
        return f"**{self.headline}**"


def choose(estimates: pd.DataFrame, **where: object) -> pd.DataFrame:
    """Select estimates on whole data sets by column values (a list: any of them).

    Adds ``data``, ``kind``, and the finding on each estimate by its own study (``finding``, ``slight``).

    Raises
    ------
    TrialsError
        If there is none.
    """
    kept = estimates["estimate"].notna() & estimates["subset"].isna()
    for name, value in where.items():
        kept &= estimates[name].isna() if value is None else estimates[name].isin(_several(value))
    if not kept.any():
        raise TrialsError.plain(f"estimates has no rows with {where}; pass `biaslab.atlas.estimates()`")
    rows = estimates[kept]
    kind = rows["judge"].str.fullmatch(PEOPLE).map({True: "person", False: "model"})
    return with_findings(rows.assign(data=rows["dataset"].map(title), kind=kind))


def largest(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the data set with most contexts for each source, judge and attribute."""
    cells = rows.groupby(["source", "judge", "attribute"], sort=False)["n_contexts"]
    return rows[rows["n_contexts"] == cells.transform("max")]


def labelled(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Label each row in ``who`` by these columns, omitting missing values and "recorded"."""
    texts = [
        rows[name].astype(str).where(rows[name].notna() & (rows[name] != "recorded"), "").replace(WAYS)
        for name in columns
    ]
    return rows.assign(who=[" · ".join(filter(None, text)) for text in zip(*texts, strict=True)])


def found(rows: pd.DataFrame, *kinds: str) -> pd.DataFrame:
    """Return the estimates with one of these findings, by default above or below the fair value."""
    return rows[rows["finding"].isin(kinds or ("above", "below"))]


def joined(names: list[str]) -> str:
    """Join names: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _several(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _of_models() -> pd.DataFrame:
    """Return what judges are compared with, by data set; `biaslab.atlas.estimates_table.reference` has sources."""
    return estimates()[of_models(estimates())]


def first_position() -> AtlasFigure:
    """Show P(A) of every recorded judge under its plainest prompt, in increasing order."""
    where = {"probe": "position", "metric": "first_position_rate", "human_gap": None}
    rows = largest(_of_what(choose(_of_models(), **where)))
    rows = labelled(rows, "judge", "of_what").sort_values("estimate", kind="stable")
    first, second, fair, unclear = (len(found(rows, kind)) for kind in ("above", "below", "none", "open"))
    slight = int(found(rows)["slight"].sum())
    least, most = rows.iloc[0], rows.iloc[-1]
    return AtlasFigure(
        rows,
        f"In {len(rows)} tests of {rows['judge'].nunique()} judges on {rows['data'].nunique()} data sets, the "
        f"candidate shown first is preferred in {first} and the one shown second in {second} (in {slight} of these the "
        f"interval is within {_MATTERS} of ½), no bias of ≥ {_MATTERS} in {fair}, and {unclear} are inconclusive; P(A) "
        f"goes from {least['estimate']:.2f} ({least['judge']}, {least['data']}) to {most['estimate']:.2f} "
        f"({most['judge']}, {most['data']}).",
    )


def today() -> AtlasFigure:
    """Show how far recent judges prefer the answer shown first, and the longer one."""
    order = choose(_of_models(), probe="position", metric="first_position_rate", human_gap=None)
    length = choose(_of_models(), probe="pair_length", metric="longer_wins_at_equal_gold")
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
    rows = choose(_of_models(), probe="position", metric=list(_ORDER), human_gap=None, source=["mt_bench", "devbench"])
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


def length() -> AtlasFigure:
    """Show the score gained per doubling of the words, at equal score of the (other) experts."""
    where = {"probe": "verbosity", "metric": "verbosity_slope", "source": _SUMMEVAL, "attribute": _RATED}
    rows = choose(estimates(), **where)
    rows = _by_kind(rows[rows["ci_low"].notna()])  # the human scores reach an end of the scale: no test
    models, people = _kinds(rows)
    most = models.iloc[int(models["estimate"].to_numpy().argmax())]
    return AtlasFigure(
        rows,
        f"At equal expert score, longer summaries score higher with models in {len(found(models, 'above'))} of "
        f"{len(models)} cells and with single experts in {len(found(people, 'above'))} of {len(people)}, by up to "
        f"{most['estimate']:.2f} SD per doubling ({most['who']}, {most['attribute']}).",
    )


def scale() -> AtlasFigure:
    """Show how evenly models and experts use the five levels of a scale."""
    where = {"probe": "score_distribution", "metric": "scale_use", "scale": _SCALE, "answer": "single"}
    rows = _by_kind(choose(estimates(), **where, source=_SUMMEVAL, attribute=_RATED))
    spans = []
    for attribute, part in rows.groupby("attribute", sort=False):
        models, people = (_span(one["estimate"]) for one in _kinds(part))
        spans.append(f"{attribute}, models {models} and experts {people}")
    return AtlasFigure(rows, f"Share of the five levels in use: {'; '.join(spans)}.")


def reliability() -> AtlasFigure:
    """Show α between samples of one request, and between people who rated or compared the same texts."""
    samples = choose(estimates(), probe="consistency", metric="sample_alpha", level="interval")
    people = choose(estimates(), probe="humans", metric="human_alpha", level="interval")
    rows = pd.concat([samples, people], ignore_index=True)
    rows = labelled(rows, "judge", "attribute", "configuration")
    alike = rows.duplicated(["who", "data"], keep=False)
    rows["who"] = rows["who"].mask(alike, rows["who"] + " · " + rows["dataset"].map(written))
    middle = people["estimate"].median()
    below = int((samples["ci_high"] < middle).sum())
    return AtlasFigure(
        rows.sort_values(["kind", "estimate"], kind="stable"),
        f"Samples of one request agree at α = {_span(samples['estimate'])}, people at {_span(people['estimate'])}; "
        f"in {below} of {len(samples)} ways to ask, samples agree less than people's median of {middle:.2f} (intervals "
        "below it).",
    )


def reasons() -> AtlasFigure:
    """Show the score given after the rationale minus the score given before it, on the same items."""
    rows = choose(estimates(), probe="output_order", metric="reason_first_shift")
    rows = labelled(rows, "attribute", "form").sort_values("estimate", kind="stable")
    [judge], [points] = rows["judge"].unique(), rows["scale"].unique()
    by = f"{_span(-rows['estimate'])} points on the scale {points}"
    below = f"{len(found(rows, 'below'))} of {len(rows)} cells"
    return AtlasFigure(rows, f"{judge} scores lower when reasons come first in {below}, by {by}.")


def own_texts() -> AtlasFigure:
    """Show how often a judge prefers its own summary, with right, wrong or no author names."""
    rows = choose(estimates(), source="self_recognition", metric="own_win_rate", system=None)
    naming = rows["template"].replace("recorded", _NAMINGS[0])
    rows = labelled(rows.assign(naming=naming, place=naming.map(_NAMINGS.index)), "judge")
    rows = rows.sort_values(["judge", "place"], kind="stable").drop(columns="place")
    by_naming = rows.pivot_table(index="judge", columns="naming", values="estimate")
    by_naming = by_naming.sort_values(_NAMINGS[0], ascending=False)
    shares = (by_naming[_NAMINGS[0]], by_naming[_NAMINGS[-1]])
    own, exchanged = (joined([f"{rate:.3f} ({judge})" for judge, rate in share.dropna().items()]) for share in shares)
    wins = f"A judge's own summary wins against those of four others at {own}"
    return AtlasFigure(rows, f"{wins}, and with the names exchanged still at {exchanged}.")


def constant_answer() -> AtlasFigure:
    """Show how often a constant answer wins, overall and by place, compared with the answers of a real model."""
    null_model = trials("null_model")
    first, second = (null_model[null_model[who] == "null_model"] for who in ("candidate_id", "opponent_id"))
    by_position = {"constant answer": null_model, "… shown first": first, "… shown second": second}
    rows = pd.concat([audit(part, only=["replies"]).assign(role=where) for where, part in by_position.items()])
    rows = choose(rows.assign(subset=None), metric="win_rate", system="null_model")
    anywhere, *by_place = (percent(share, 2) for share in rows["estimate"])
    judge, questions = rows[["judge", "n_contexts"]].iloc[0]
    real = choose(_of_models(), metric="win_rate", source="alpaca_eval", system="text_davinci_001", judge=judge)
    return AtlasFigure(
        labelled(pd.concat([rows, real.assign(role="answers of text-davinci-001")], ignore_index=True), "role"),
        f"{judge} prefers one constant answer to real ones in {anywhere} of {questions} questions ({by_place[0]} where "
        f"it is shown first, {by_place[1]} second); answers of text-davinci-001, a real model, win "
        f"{percent(real['estimate'].iloc[0], 2)}.",
    )


def _by_kind(rows: pd.DataFrame) -> pd.DataFrame:
    """Label the rows, by the way of asking if a judge has several, and sort models before people."""
    ways = rows.groupby("judge")["configuration"].transform("nunique")
    named = labelled(rows.assign(configuration=rows["configuration"].where(ways > 1)), "judge", "configuration")
    place = named.groupby("who")["estimate"].transform("mean")
    return named.assign(place=place).sort_values(["kind", "place"], kind="stable").drop(columns="place")


def _kinds(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    return rows[rows["kind"] == "model"], rows[rows["kind"] == "person"]


def _span(values: pd.Series) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
