"""Group judgements into cards (both orders of a pair, or all scores of an item) and sort the cards."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.arrays import Bools, Floats, Ints
from biaslab.core.errors import TrialsError
from biaslab.core.scales import scale_named
from biaslab.measures.ranking.pairs import decisions, is_pair
from biaslab.stats import require_columns

#: Sort orders. Cards not singled out by a sort order follow in the order of "flips".
SORTS: Final = ("flips", "ties", "unread", "effects", "trials")
#: Outcomes of a card: the decision changes with the order; a tie; a reply without a value; none of these.
OUTCOMES: Final = ("flip", "tie", "unread", "plain")
#: Status of a stored reply that no probe parsed.
NOT_READ: Final = "not read"
NEEDED = ("judge", "context_id", "candidate_id", "attribute", "value", "status")

_WHOSE = ("probe", "judge", "dataset", "context_id", "attribute")
_FIXED = {*_WHOSE, "candidate_id", "opponent_id", "replicate", "value", "status", "label_mass", "samples", "tokens"}
#: Columns that describe what was judged, not how the judge was asked.
_COVARIATES = {
    "human", "opponent_human", "human_gap", "human_scale", "ratings", "annotators", "system", "opponent_system",
    "words", "opponent_words", "subset", "judge_system", "p_first_label", "p_both_orders", "order_known", "label",
    "reply", "key", "outcome", "effect", "winner", "swapped", "card",
}  # fmt: skip


def condition_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns that describe how the judge was asked, such as ``template`` or ``source``."""
    return [str(c) for c in trials.columns if c not in _FIXED and c not in _COVARIATES]


def single_judgements(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per judgement, merging the labels of a distribution into one row with the expected score.

    Raises
    ------
    TrialsError
        If a column is missing, or the frame is empty.
    """
    require_columns(trials, NEEDED, "trials")
    if trials.empty:
        raise TrialsError("trials", "an empty frame", "at least one judgement")
    rows = trials.reset_index(drop=True)
    if "label" not in rows or "key" not in rows or rows["label"].isna().all():
        return rows
    labelled = rows["label"].notna()
    expected = pd.to_numeric(rows["label"], errors="coerce") * rows["value"]
    same = [c for c in ("probe", "judge", "context_id", "candidate_id", "attribute", "replicate", "key") if c in rows]
    sums = expected.groupby([rows[c] for c in same], dropna=False).transform(lambda part: part.sum(min_count=1))
    rows["value"] = rows["value"].where(~labelled, sums)
    return rows[~(labelled & rows.duplicated([*same, *condition_columns(rows)]))].reset_index(drop=True)


def grouped(judgements: pd.DataFrame) -> pd.DataFrame:
    """Assign each judgement to a card, and classify the cards.

    Parameters
    ----------
    judgements : pandas.DataFrame
        From `single_judgements`.

    Returns
    -------
    pandas.DataFrame
        One row per judgement, in order: ``card`` (a number), ``swapped`` (the alphabetically later name is shown
        first), ``winner`` (1: the earlier name, 0: the later one, NaN: none; pairs only), ``outcome`` (of the card, see
        `OUTCOMES`), ``effect`` (of the card, 0 to 1: change of the winning probability with the order; spread of an
        item's scores, or distance of a single score from the human one, as shares of the scale; NaN if unknown).
    """
    pair = is_pair(judgements)
    card = _cards(judgements, pair)
    swapped = np.zeros(len(judgements), bool)
    if pair.any():
        one, two = (_texts(judgements[name]) for name in ("candidate_id", "opponent_id"))
        swapped = pair & (one > two)
    won = np.where(pair, decisions(judgements), np.nan)
    winner = np.where(np.isnan(won) | (won == 0.5), np.nan, (np.where(swapped, 1 - won, won) > 0.5))
    groups = pd.DataFrame({"card": card, "swapped": swapped, "winner": winner})
    status = judgements["status"].to_numpy()
    by_card = groups.groupby("card")
    both = by_card["swapped"].transform("nunique") > 1
    flip = (both & (by_card["winner"].transform("nunique") > 1)).to_numpy()
    tied = pd.Series(pair & ((status == "tie") | ((status == "ok") & np.isnan(won)))).groupby(card).transform("any")
    unread = pd.Series(~np.isin(status, ("ok", "tie", NOT_READ))).groupby(card).transform("any")
    outcome = np.select([flip, tied, unread], OUTCOMES[:3], OUTCOMES[3])
    return groups.assign(outcome=outcome, effect=_effects(judgements, groups, pair))


def in_order(groups: pd.DataFrame, sort: str) -> list[int]:
    """Return the cards in the order named by `sort`; see `SORTS`."""
    cards = groups.drop_duplicates("card")
    if sort == "trials":
        return [int(card) for card in cards["card"]]
    first = {"ties": "tie", "unread": "unread"}.get(sort, "flip")
    ranks = {name: rank for rank, name in enumerate([first, *(name for name in OUTCOMES if name != first)])}
    rank = np.zeros(len(cards)) if sort == "effects" else cards["outcome"].map(ranks).to_numpy()
    order = np.lexsort((-cards["effect"].fillna(-1.0).to_numpy(), rank))
    return [int(card) for card in cards["card"].to_numpy()[order]]


def _cards(judgements: pd.DataFrame, pair: Bools) -> Ints:
    """Return the card number of each judgement, numbered by first appearance."""
    one = _texts(judgements["candidate_id"])
    two = _texts(judgements["opponent_id"]) if pair.any() else one
    columns = [*(name for name in (*_WHOSE, "scale") if name in judgements)]
    names = [_texts(judgements[name]) for name in columns]
    names += [np.where(pair, np.minimum(one, two), one), np.where(pair, np.maximum(one, two), "")]
    asked = [name for name in condition_columns(judgements) if _separates_cards(judgements, name)]
    for name in [*asked, *(["replicate"] if "replicate" in judgements else [])]:
        names.append(np.where(pair, _texts(judgements[name]), ""))
    return pd.factorize(pd.MultiIndex.from_arrays(names))[0].astype(np.int64)


def _texts(column: pd.Series) -> NDArray[np.object_]:
    """Return the values as strings; missing values are empty."""
    return column.astype(object).where(column.notna(), "").map(str).to_numpy(object)


def _separates_cards(judgements: pd.DataFrame, column: str) -> bool:
    """Return whether a condition separates cards; floats may be signed and so differ between orders."""
    return column == "temperature" or not pd.api.types.is_float_dtype(judgements[column].dtype)


def _effects(judgements: pd.DataFrame, groups: pd.DataFrame, pair: Bools) -> Floats:
    """Return the effect of each judgement's card; see `grouped`."""
    values, card = judgements["value"].astype(float), groups["card"]
    first = values.where(~groups["swapped"]).groupby(card).transform("mean")
    second = values.where(groups["swapped"]).groupby(card).transform("mean")
    scaled = _scaled(judgements, values)
    by_card = scaled.groupby(card)
    spread = by_card.transform("max") - by_card.transform("min")
    human = judgements["human"].astype(float) if "human" in judgements else pd.Series(np.nan, judgements.index)
    low, high = human.min(), human.max()
    distance = (scaled - (human - low) / (high - low if high > low else np.nan)).abs()
    scored = spread.where(by_card.transform("count") > 1, distance)
    return np.where(pair, (first + second - 1).abs(), scored).astype(float)


def _scaled(judgements: pd.DataFrame, values: pd.Series) -> pd.Series:
    """Return scores as shares of their scale, if known."""
    if "scale" not in judgements:
        return values
    of_scores = judgements["scale"].where(~is_pair(judgements))
    scales = {name: scale_named(str(name)) for name in of_scores.dropna().unique()}
    low = of_scores.map({name: scale.low for name, scale in scales.items()}).astype(float)
    high = of_scores.map({name: scale.high for name, scale in scales.items()}).astype(float)
    return ((values - low) / (high - low)).where(low.notna(), values)
