"""Count the contents of a log, and find the smallest addition that would allow a missing estimate."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cache

import pandas as pd

from biaslab.core.files import declared
from biaslab.core.metrics import find_metric
from biaslab.core.output import count, percent
from biaslab.probes.base.probe import paired, scored
from biaslab.stats.estimate import FEWEST
from biaslab.stats.t_inference import expected_power

_CELL = ["judge", "dataset", "attribute", "template"]


def holdings(trials: pd.DataFrame) -> dict[str, int]:
    """Count the contents of a log.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`.

    Returns
    -------
    dict of str to int
        ``judgements, judges, datasets, contexts, candidates, attributes, prompts``
            Number of rows and of distinct values. Prompts are the templates of pairs and the configurations of scores.
        ``replicates``
            Maximum number of judgements of the same item.
        ``pairs, both_orders, one_order, unknown_order``
            Pairs of candidates per judge, and how many were judged in both orders, in one order, and in unknown order.
        ``scores, items``
            Judgements of single candidates on a scale, and the candidates scored.
        ``rated_pairs, rated_items``
            Pairs with a human preference or gold label, and items with a human score.
        ``annotators``
            Maximum number of people who rated one item, if single ratings are known.
        ``long_pairs, long_items``
            Pairs and items with known lengths in words.
        ``own_texts``
            Judgements that involve the judge's own system, as named by the column ``judge_system`` or else by the
            judge.

    Examples
    --------
    >>> from biaslab.logs.readers.trials import trials_of
    >>> index = pd.RangeIndex(3)
    >>> columns = {"context_id": ["q", "q", "r"], "candidate_id": [*"xyx"], "opponent_id": [*"yxy"], "value": 1.0}
    >>> given = {name: pd.Series(value, index=index) for name, value in columns.items()}
    >>> counted = holdings(trials_of(given, index))
    >>> [counted[name] for name in ("pairs", "both_orders", "one_order", "contexts")]
    [2, 1, 1, 2]
    """
    judged, scores = _by_pair(paired(trials)), scored(trials)
    items = scores.drop_duplicates([*_CELL[:3], "context_id", "candidate_id"])
    known = judged[judged["order_known"]]
    orders = known.drop_duplicates(["pair", "first"])["pair"].value_counts()
    pairs = judged.drop_duplicates("pair")
    candidates = {*trials["candidate_id"].dropna().unique(), *trials["opponent_id"].dropna().unique()}
    ratings = trials["ratings"].fillna("")
    return {
        "judgements": len(trials),
        "judges": trials["judge"].nunique(),
        "datasets": trials["dataset"].nunique(),
        "contexts": len(trials[["dataset", "context_id"]].drop_duplicates()),
        "candidates": len(candidates - {""}),
        "attributes": trials["attribute"].nunique(),
        "prompts": max(judged["template"].nunique(), scores["configuration"].nunique()),
        "replicates": trials["replicate"].nunique(),
        "pairs": len(pairs),
        "both_orders": int((orders > 1).sum()),
        "one_order": int((orders == 1).sum()),
        "unknown_order": len(pairs) - len(orders),
        "scores": len(scores),
        "items": len(items),
        "rated_pairs": int(pairs["human_gap"].fillna(0).ne(0).sum()),
        "rated_items": int(items["human"].notna().sum()),
        "annotators": 1 + int(ratings.str.count(" ").max()) if ratings.ne("").any() else 0,
        "long_pairs": int(((pairs["words"] > 0) & (pairs["opponent_words"] > 0)).sum()),
        "long_items": int((items["words"] > 0).sum()),
        "own_texts": int(_of_own_system(trials).sum()),
    }


def _of_own_system(trials: pd.DataFrame) -> pd.Series:
    """Flag the judgements that involve the judge's own system, ignoring case."""
    named = trials["judge_system"].fillna("")
    columns = (named.where(named != "", trials["judge"]), trials["candidate_id"], trials["opponent_id"])
    own, one, two = (column.astype("str").str.strip().str.casefold() for column in columns)
    return ((one == own) | (two == own)) & (own != "")


def _by_pair(judged: pd.DataFrame) -> pd.DataFrame:
    """Assign a number to each pair of candidates, and flag whether the alphabetically first one was shown first."""
    one, two = judged["candidate_id"], judged["opponent_id"]
    first = one < two
    names = [*(judged[name] for name in _CELL), judged["context_id"], one.where(first, two), two.where(first, one)]
    pair = pd.DataFrame(dict(enumerate(names))).groupby(list(range(len(names))), sort=False, dropna=False)
    return judged.assign(pair=pair.ngroup(), first=first, order_known=judged["order_known"].astype(bool))


_OF_LISTS = "one_list"  # has no addition of its own, because lists in balanced orders, for the list probe, are better
#: Standard deviation over contexts of a rate over both orders of a pair, if the order decides one pair in three.
_BOTH_ORDERS = 0.5 / 3**0.5
_POWER = 0.8
#: The addition for biases that can be measured only by asking the judge.
STUDY = "ask the judge (biaslab probe NAME --judge JUDGE)"
#: Steps: the text before a colon names one step that allows several estimates; the text after it, what each needs.
SCORES, PAIRS = "score items on a scale", "judge pairs of candidates"


_ADDITIONS = declared("biaslab.logs.audit", "additions.toml")


def addition_for(metric: str, probe: str, log: Mapping[str, int]) -> str:
    """Return a short instruction on what to add to a log to estimate a metric.

    Parameters
    ----------
    metric, probe : str
        The metric that cannot be estimated.
    log : mapping of str to int
        Counts of its contents, from `holdings`.

    Returns
    -------
    str
        Empty if the log allows a better estimate. A number of pairs is that of which the judgement in the other order
        detects, with 80 % power at level .05, the smallest shift that matters, but at most that in the log.

    Examples
    --------
    >>> log = {"pairs": 40, "both_orders": 0, "one_order": 40, "unknown_order": 0}
    >>> addition_for("first_position_rate", "position", log)
    'judge 40 pairs in the other order'
    """
    if probe == _OF_LISTS or (metric == "first_position_log_odds" and log["both_orders"]):
        return ""
    if metric in ("first_position_rate", "first_position_log_odds"):
        return _other_order(log)
    if (addition := _ADDITIONS.get(metric)) is None:
        return STUDY
    if not log[addition["of"]]:
        start = "" if addition.get("either") and log["scores"] else addition.get("start", "")
        return str(start).format(scores=SCORES, pairs=PAIRS)
    needs = [_ADDITIONS["needs"][name] for name in addition.get("needs", ())]
    lacking = [need["add"] for need in needs if log[need["count"]] < need["least"]]
    return ", and ".join(lacking or [addition["further"]])


@cache
def _pairs_in_both_orders() -> tuple[int, str]:
    """Return the number of pairs in both orders that detect the smallest shift that matters, and what they are for.

    >>> _pairs_in_both_orders()
    (68, 'to detect a P(A) of 0.6 with 80 % power')
    """
    metric = find_metric("first_position_rate", "position")
    effect = metric.matters or 0.0
    enough = (n for n in itertools.count(FEWEST) if expected_power(effect, _BOTH_ORDERS / n**0.5, n) >= _POWER)
    return next(enough), f"to detect a P(A) of {(metric.null or 0.0) + effect:g} with {percent(_POWER)} power"


def _other_order(log: Mapping[str, int]) -> str:
    wanted, why = _pairs_in_both_orders()
    if not log["pairs"]:
        return f"{PAIRS}: {wanted} pairs, each in both orders, {why}"
    if log["unknown_order"] == log["pairs"]:
        return "say which candidate was shown first (--map candidate_id=FIELD, or --map swapped=FIELD)"
    if log["one_order"] > wanted:
        return f"judge {wanted} pairs in the other order, {why}"
    return f"judge {count(log['one_order'], 'pair')} in the other order"
