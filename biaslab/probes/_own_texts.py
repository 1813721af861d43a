"""Judgements of a judge's own texts beside others': who wrote what, seen from the own side, and how often it wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.order_odds import is_counted, log_odds
from biaslab.probes.base import mean_of
from biaslab.probes.base.human_errors import noted
from biaslab.stats import Estimate, Ratio, Resampling, has_value, undefined, usable
from biaslab.stats.rating_error import rating_error

#: What trials of a text's likelihood are called in the column ``asked``.
LIKELIHOOD = "likelihood"
#: What is known of the candidate shown first, and of its opponent.
SIDES = ("human", "ratings", "annotators", "log_perplexity")
_MAY_BE_BETTER = "own texts may be better or worse: compare with people's judgements of the same texts"
_NUMBERS = ("human", "log_perplexity")


def add_perplexities(trials: pd.DataFrame) -> pd.DataFrame:
    """Return scores and pairs, with the log perplexity that the judge itself gave each text, where it was asked."""
    if "asked" not in trials or not (read := trials["asked"] == LIKELIHOOD).any():
        return trials
    perplexity = usable(trials[read]).groupby(["context_id", "candidate_id"])["value"].mean()
    rest = trials[~read]
    columns = {
        f"{side}log_perplexity": perplexity.reindex(pd.MultiIndex.from_frame(rest[["context_id", who]])).to_numpy(float)
        for side, who in (("", "candidate_id"), ("opponent_", "opponent_id"))
    }
    return rest.assign(**columns)


def seen_from_own(trials: pd.DataFrame, own: str) -> pd.DataFrame:
    """Return the judgements of an own text and another's, re-expressed from the side of the own one.

    Parameters
    ----------
    trials : pandas.DataFrame
        Of pairs, with ``system`` and ``opponent_system``.
    own : str
        The judge's own system.

    Returns
    -------
    pandas.DataFrame
        The trials, with ``own_first``; ``other``, the other system; ``won``, the probability that the own text wins
        (of both orders, where a log tells but that); ``gap``, how much higher humans score it; and what is known of the
        two sides, ``human_own``, ``human_other`` and so on. Human scores of which but the difference is known are half
        of it, up and down.
    """
    ahead = trials["system"] == own
    judged = trials[ahead != (trials["opponent_system"] == own)]
    first = ahead[judged.index].to_numpy(bool)
    shown = judged["p_both_orders"].fillna(judged["value"]) if "p_both_orders" in judged else judged["value"]
    gap = judged["human_gap"].to_numpy(float) * np.where(first, 1, -1)
    columns: dict[str, Any] = {
        "own_first": first,
        "other": judged["opponent_system"].where(first, judged["system"]),
        "won": shown.where(first, 1 - shown),
        "one": judged["value"].where(first, 1 - judged["value"]),
        "gap": gap,
    }
    for name in SIDES:
        one, two = (judged.get(column) for column in (name, f"opponent_{name}"))
        if one is None or two is None:
            continue
        columns[f"{name}_own"], columns[f"{name}_other"] = one.where(first, two), two.where(first, one)
    if "human_own" not in columns or not pd.Series(columns["human_own"]).notna().any():
        columns |= {"human_own": gap / 2, "human_other": -gap / 2}
    return judged.assign(**columns)


def in_both_orders(judged: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements that can be read and whose pair was judged in both orders."""
    whole: pd.DataFrame = judged[has_value(judged) & pairs.in_both_orders(judged, [])]
    return whole


def is_exact(judged: pd.DataFrame) -> bool:
    """Say whether values are probabilities, neither shares of samples nor verdicts throughout."""
    return len(judged) > 0 and not is_counted(judged)


def by_side(judged: pd.DataFrame) -> tuple[pd.DataFrame, dict[int, Any]]:
    """Return one row a text and judgement, and the context of each judgement.

    The difference between both rows of a judgement is its log odds for the own text, so that a regression within
    judgements is one of these log odds on differences: of human scores, of perplexities, and of who stands first.

    Returns
    -------
    tuple of pandas.DataFrame and dict
        ``context_id``, the number of the judgement; ``score``, half the log odds, up or down; ``own`` and ``first``, 0
        or 1; and what is known of the text. The dict maps judgements to contexts.
    """
    half = log_odds(judged["one"].to_numpy(float)) / 2
    first, number = judged["own_first"].to_numpy(bool), np.arange(len(judged))
    parts = []
    for side, sign in (("own", 1.0), ("other", -1.0)):
        own = side == "own"
        known = {name: judged[f"{name}_{side}"].to_numpy() for name in SIDES if f"{name}_{side}" in judged}
        known |= {name: np.asarray(known[name], float) for name in _NUMBERS if name in known}
        columns = {"context_id": number, "score": sign * half, "own": float(own), "first": (first == own).astype(float)}
        parts.append(pd.DataFrame(columns | known))
    return pd.concat(parts, ignore_index=True), dict(zip(number.tolist(), judged["context_id"], strict=True))


def as_verdicts(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one row a verdict: ``won`` by the own text, and the differences to the other that may explain it."""
    columns = {"context_id": judged["context_id"], "won": judged["one"], "own": 1.0}
    columns |= {"human": judged["human_own"].astype(float) - judged["human_other"].astype(float)}
    columns |= {"first": np.where(judged["own_first"], 1.0, -1.0)}
    if "log_perplexity_own" in judged:
        columns["log_perplexity"] = judged["log_perplexity_own"] - judged["log_perplexity_other"]
    return pd.DataFrame(columns)


def adds_to_own(judged: pd.DataFrame, terms: Sequence[str]) -> NDArray[np.float64]:
    """Return what a won verdict adds to the log odds for the own text beside the terms, to first order.

    Parameters
    ----------
    judged : pandas.DataFrame
        As `seen_from_own` returns them.
    terms : sequence of str
        Columns of `as_verdicts`.

    Returns
    -------
    numpy.ndarray, shape (judged,)
        NaN where a term is missing.
    """
    x = as_verdicts(judged)[[*terms, "human", "own"]].to_numpy(float)
    known = np.isfinite(x).all(axis=1)
    gram = x[known].T @ x[known]
    gram[-2, -2] -= 2 * rating_error(by_side(judged[known])[0]).error[0]
    adds = np.full(len(x), np.nan)
    adds[known] = x[known] @ np.linalg.lstsq(gram, np.eye(x.shape[1])[-1], rcond=None)[0]
    return adds


def with_verdicts(judged: pd.DataFrame, wins: NDArray[np.bool_]) -> pd.DataFrame:
    """Return judgements of which none is missing: the own text wins those that are, or loses them."""
    lost = ~has_value(judged)
    filled = {name: judged[name].where(~lost, wins.astype(float)) for name in ("one", "won")}
    return judged.assign(**filled, status=judged["status"].where(~lost, "ok"))


def win_rate(judged: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the mean probability that the own text wins."""
    read = usable(judged)
    rate = mean_of(read, read["won"], None, (0.0, 1.0), inference="score")
    return noted(rate.with_missing(rate.estimate(resampling), len(read), len(judged) - len(read)), _MAY_BE_BETTER)


def win_excess(judged: pd.DataFrame) -> Ratio:
    """Return the mean probability that the own text wins, less how often humans prefer it."""
    read = usable(judged)
    return mean_of(read, read["won"] - (np.sign(read["gap"]) + 1) / 2, 0.0, (-1.0, 1.0))


def score_gap(scores: pd.DataFrame, own: pd.Series, width: float, resampling: Resampling) -> Estimate:
    """Return the mean score of a context's own texts less that of the others, over contexts with both.

    Parameters
    ----------
    scores : pandas.DataFrame
        Trials of scores.
    own : pandas.Series of bool
        Whether a text is the judge's own.
    width : float
        Of the scale, in points; infinite where it has no ends.
    resampling : Resampling
        Of the estimate.
    """
    read = usable(scores)
    sides = {side: part.groupby("context_id")["value"].mean() for side, part in read.groupby(own[read.index])}
    if len(sides) < 2:
        return undefined("undefined: no context with scores of own texts and of others")
    gap = (sides[True] - sides[False]).dropna()
    ratio = Ratio(gap.index, gap, np.ones(len(gap)), bounds=(-width, width) if np.isfinite(width) else None)
    found = ratio.with_missing(ratio.estimate(resampling), len(read), len(scores) - len(read))
    return noted(found, _MAY_BE_BETTER)


def is_recorded(trials: pd.DataFrame) -> bool:
    """Say whether judgements come from a log, and from no probe's design."""
    return "probe" in trials and bool((trials["probe"] == "recorded").all())


def column_or_blank(trials: pd.DataFrame, name: str) -> pd.Series:
    """Return a column, "" where it has nothing or does not exist."""
    if name not in trials:
        return pd.Series("", trials.index, object)
    return trials[name].astype(object).where(trials[name].notna(), "")


def systems_of(trials: pd.DataFrame) -> list[str]:
    """Return every system that is named, in order of appearance."""
    named = [trials[name].dropna() for name in ("system", "opponent_system") if name in trials]
    return [str(name) for name in pd.unique(pd.concat(named)) if name]


def with_writers(trials: pd.DataFrame) -> pd.DataFrame:
    """Name the writers of recorded texts: candidates are systems, and the judge's own goes by the judge's name.

    That is the column ``judge_system``, or the judge's name, in small letters or capitals.
    """
    named = trials["judge_system"].where(_folded(trials["judge_system"]) != "", trials["judge"])
    own, name = _folded(named), named.astype(object).str.strip()
    sides = {}
    for column, who in (("system", "candidate_id"), ("opponent_system", "opponent_id")):
        written = (_folded(trials[who]) == own) & (own != "")
        sides[column] = trials[who].astype(object).where(~written, name)
    return trials.assign(own=name, **sides)


def _folded(names: pd.Series) -> pd.Series:
    """Return names in small letters, without blanks around them; "" where there is none."""
    folded = {name: str(name).strip().casefold() for name in names.dropna().unique()}
    return names.astype(object).map(folded).astype(object).fillna("")
