"""Figures of the atlas on scores and on own texts: length, scale, reliability, reasons, a constant answer."""

from __future__ import annotations

import pandas as pd

from biaslab.atlas.estimates_table import estimates, reference
from biaslab.atlas.judgements import trials
from biaslab.atlas.panel import AtlasFigure, choose, found, joined, labelled
from biaslab.core.output import percent
from biaslab.logs.audit import audit

_SUMMEVAL = ("summeval_judges", "summeval_experts")
_RATED = ("coherence", "consistency")  # the attributes of SummEval that models were asked about
_SCALE = "1-5"
_NAMINGS = ("authors not named", "authors named rightly", "authors named at random", "authors named wrongly")


def length() -> AtlasFigure:
    """Show the score gained per doubling of the words, at equal score of the (other) experts."""
    where = {"probe": "verbosity", "metric": "verbosity_slope", "source": _SUMMEVAL, "attribute": _RATED}
    every = choose(estimates(), **where)
    rows = _by_kind(every[every["ci_low"].notna()])  # the human scores reach an end of the scale: no test
    models, people = _kinds(rows)
    most = models.iloc[int(models["estimate"].to_numpy().argmax())]
    left_out = len(every) - len(rows)
    excluded = f"; {left_out} cells are left out, whose scores lie at an end of the scale" if left_out else ""
    return AtlasFigure(
        rows,
        f"At equal expert score, longer summaries score higher with models in {_above(models)} of {len(models)} cells "
        f"and with single experts in {_above(people)} of {len(people)}, by up to "
        f"{most['estimate']:.2f} SD per doubling ({most['who']}, {most['attribute']}){excluded}.",
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
    return AtlasFigure(
        rows,
        f"{judge} scores lower when reasons come first in {len(found(rows, 'below'))} of {len(rows)} cells, by "
        f"{_span(-rows['estimate'])} points on the scale {points}.",
    )


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
    return AtlasFigure(
        rows,
        f"A judge's own summary wins against those of four others at {own}, and with the names exchanged still at "
        f"{exchanged}.",
    )


def constant_answer() -> AtlasFigure:
    """Show how often a constant answer wins, overall and by place, compared with the answers of a real model."""
    null_model = trials("null_model")
    first, second = (null_model[null_model[who] == "null_model"] for who in ("candidate_id", "opponent_id"))
    by_position = {"constant answer": null_model, "… shown first": first, "… shown second": second}
    rows = pd.concat([audit(part, only=["replies"]).assign(role=where) for where, part in by_position.items()])
    rows = choose(rows.assign(subset=None), metric="win_rate", system="null_model")
    anywhere, *by_place = (percent(share, 2) for share in rows["estimate"])
    judge, questions = rows[["judge", "n_contexts"]].iloc[0]
    real = choose(reference(), metric="win_rate", source="alpaca_eval", system="text_davinci_001", judge=judge)
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


def _above(rows: pd.DataFrame) -> int:
    return len(found(rows, "above"))


def _span(values: pd.Series) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
