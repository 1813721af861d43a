"""Re-express comparisons from the side of one text: how often it wins, and how it differs from the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Bools, Floats
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.order_odds import is_counted, log_odds
from biaslab.probes.base.cell import mean_of
from biaslab.stats import Ratio, has_value, usable
from biaslab.stats.rating_error import rating_error

_HUMANS = ("human", "ratings", "annotators")
_WINNING = ("context_id", "value", "status", "p_both_orders", "human_gap", "words", "opponent_words")


def add_perplexities(trials: pd.DataFrame, likelihood: str) -> pd.DataFrame:
    """Add the judge's own log perplexity of each text, if it was asked for, to scores and pairs.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of one cell.
    likelihood : str
        Value of the column ``asked`` for trials of a candidate's likelihood.
    """
    if "asked" not in trials or not (read := trials["asked"] == likelihood).any():
        return trials
    perplexity = usable(trials[read]).groupby(["context_id", "candidate_id"])["value"].mean()
    rest = trials[~read]
    columns = {
        f"{side}log_perplexity": perplexity.reindex(pd.MultiIndex.from_frame(rest[["context_id", who]])).to_numpy(float)
        for side, who in (("", "candidate_id"), ("opponent_", "opponent_id"))
        if who in rest
    }
    return rest.assign(**columns)


def seen_from(judged: pd.DataFrame, first: ArrayLike, known: Sequence[str] = ()) -> pd.DataFrame:
    """Re-express comparisons from the side of one text.

    Parameters
    ----------
    judged : pandas.DataFrame
        Pair trials.
    first : array_like of bool, shape (judged,)
        Whether this text is shown first.
    known : sequence of str
        Columns of the text shown first, such as ``"words"``; its opponent's are named ``opponent_…``.

    Returns
    -------
    pandas.DataFrame
        The trials with ``seen_first``; ``won``, the probability that the text wins (the mean of both orders, if a log
        has only that); ``one``, that of this judgement; ``gap``, how much higher humans score it; and the columns of
        both texts, ``human_here``, ``human_there`` and so on. If only the difference of human scores is known, they are
        plus and minus half of it.
    """
    ahead = np.asarray(first, bool)
    shown = judged["p_both_orders"].fillna(judged["value"]) if "p_both_orders" in judged else judged["value"]
    gap = judged["human_gap"].to_numpy(float) * np.where(ahead, 1, -1)
    columns: dict[str, Any] = {
        "seen_first": ahead,
        "won": shown.where(ahead, 1 - shown),
        "one": judged["value"].where(ahead, 1 - judged["value"]),
        "gap": gap,
    }
    for name in dict.fromkeys((*_HUMANS, "log_perplexity", *known)):
        one, two = (judged.get(column) for column in (name, f"opponent_{name}"))
        if one is None or two is None:
            continue
        columns[f"{name}_here"], columns[f"{name}_there"] = one.where(ahead, two), two.where(ahead, one)
    if "human_here" not in columns or not pd.Series(columns["human_here"]).notna().any():
        columns |= {"human_here": gap / 2, "human_there": -gap / 2}
    return judged.assign(**columns)


def seen_from_longer(pairs: pd.DataFrame) -> pd.DataFrame:
    """Re-express the comparisons of texts of different length that humans judged from the side of the longer one."""
    used = pairs[[name for name in _WINNING if name in pairs]]  # of millions of pairs, a copy of all columns is large
    differ = used[(used["words"] != used["opponent_words"]) & used["human_gap"].notna()]
    return seen_from(differ, differ["words"] > differ["opponent_words"])


def in_both_orders(judged: pd.DataFrame) -> pd.DataFrame:
    """Return the readable judgements of pairs judged in both orders."""
    whole: pd.DataFrame = judged[has_value(judged) & pairs.in_both_orders(judged, [])]
    return whole


def is_exact(judged: pd.DataFrame) -> bool:
    """Return whether values are exact probabilities rather than shares of samples or verdicts."""
    return len(judged) > 0 and not is_counted(judged)


def by_side(judged: pd.DataFrame, terms: Sequence[str]) -> pd.DataFrame:
    """Return one row per text and judgement.

    The difference between the two rows of a judgement is its log odds, so a regression within judgements regresses
    log odds on differences in human scores, terms and position.

    Parameters
    ----------
    judged : pandas.DataFrame
        From `seen_from`.
    terms : sequence of str
        Numeric terms, given as ``…_here`` and ``…_there``.

    Returns
    -------
    pandas.DataFrame
        ``context_id``, the number of the judgement; ``score``, half the log odds, up or down; ``first``, 0 or 1; the
        terms; and the human scores of the text.
    """
    half, first = log_odds(judged["one"].to_numpy(float)) / 2, judged["seen_first"].to_numpy(bool)
    columns = {"score": np.concatenate([half, -half]), "first": np.concatenate([first, ~first]).astype(float)}
    return _of_both(judged, ("human", *terms)).assign(**columns)


def human_scores(judged: pd.DataFrame) -> pd.DataFrame:
    """Return the human scores alone of what `by_side` returns: ``context_id``, ``human`` and any ratings."""
    return _of_both(judged, ("human",))


def _of_both(judged: pd.DataFrame, numbers: Sequence[str]) -> pd.DataFrame:
    """Return numbers and ratings of both texts, one row per text and judgement, all first texts first."""
    sides: dict[str, Any] = {"context_id": np.tile(np.arange(len(judged)), 2)}
    for name in dict.fromkeys((*_HUMANS, *numbers)):
        both = [judged[f"{name}_{side}"] for side in ("here", "there") if f"{name}_{side}" in judged]
        if name in numbers:
            sides[name] = np.concatenate([side.to_numpy(float) for side in both])
        elif any((side.fillna("") != "").any() for side in both):
            sides[name] = np.concatenate([side.to_numpy() for side in both])
    return pd.DataFrame(sides)


def as_verdicts(judged: pd.DataFrame, terms: Sequence[str]) -> pd.DataFrame:
    """Return one row per verdict: ``won`` by the text, and the differences that may explain it.

    Parameters
    ----------
    judged, terms
        As in `by_side`.
    """
    columns: dict[str, Any] = {"context_id": judged["context_id"], "won": judged["one"]}
    columns["first"] = np.where(judged["seen_first"], 1.0, -1.0)
    for name in ("human", *terms):
        columns[name] = judged[f"{name}_here"].astype(float) - judged[f"{name}_there"].astype(float)
    return pd.DataFrame(columns)


def adds(judged: pd.DataFrame, terms: Sequence[str]) -> Floats:
    """Return the first-order effect of a won verdict on the log odds of the last term, given the others.

    Parameters
    ----------
    judged, terms
        As in `by_side`.

    Returns
    -------
    numpy.ndarray, shape (judged,)
        NaN if a term is missing.
    """
    x = as_verdicts(judged, terms)[["first", *terms[:-1], "human", terms[-1]]].to_numpy(float)
    known = np.isfinite(x).all(axis=1)
    gram = x[known].T @ x[known]
    gram[-2, -2] -= 2 * rating_error(human_scores(judged[known])).error[0]
    effects = np.full(len(x), np.nan)
    effects[known] = x[known] @ np.linalg.lstsq(gram, np.eye(x.shape[1])[-1], rcond=None)[0]
    return effects


def with_verdicts(judged: pd.DataFrame, wins: Bools) -> pd.DataFrame:
    """Fill in missing judgements as wins or losses of the text."""
    lost = ~has_value(judged)
    filled = {name: judged[name].where(~lost, wins.astype(float)) for name in ("one", "won")}
    return judged.assign(**filled, status=judged["status"].where(~lost, "ok"))


def win_excess(judged: pd.DataFrame) -> Ratio:
    """Return the mean probability that the text wins minus the share in which humans prefer it."""
    read = usable(judged)
    return mean_of(read, read["won"] - (np.sign(read["gap"]) + 1) / 2, 0.0, (-1.0, 1.0))


def is_recorded(trials: pd.DataFrame) -> bool:
    """Return whether judgements come from a log rather than a probe's design."""
    return "probe" in trials and bool((trials["probe"] == "recorded").all())


def column_or_blank(trials: pd.DataFrame, name: str) -> pd.Series:
    """Return a column, with "" for missing values or a missing column."""
    if name not in trials:
        return pd.Series("", trials.index, object)
    return trials[name].astype(object).where(trials[name].notna(), "")
