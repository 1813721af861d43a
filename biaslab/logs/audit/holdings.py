"""Count the contents of a log, and find the smallest addition that would allow a missing estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import pandas as pd

from biaslab.core.metrics import find_metric
from biaslab.probes.base.probe import paired, scored
from biaslab.stats.estimate import FEWEST
from biaslab.stats.power import expected_power

_CELL = ["judge", "dataset", "attribute", "template"]


@dataclass(frozen=True)
class Holdings:
    """Counts of the contents of a log.

    Parameters
    ----------
    judgements, judges, datasets, contexts, candidates, attributes, prompts : int
        Number of rows and of distinct values. Prompts are the templates of pairs and the configurations of scores.
    replicates : int
        Maximum number of judgements of the same item.
    pairs, both_orders, one_order, unknown_order : int
        Pairs of candidates per judge, and how many were judged in both orders, in one order, and in unknown order.
    scores, items : int
        Judgements of single candidates on a scale, and the candidates scored.
    rated_pairs, rated_items : int
        Pairs with a human preference or gold label, and items with a human score.
    annotators : int
        Maximum number of people who rated one item, if single ratings are known.
    long_pairs, long_items : int
        Pairs and items with known lengths in words.
    own_texts : int
        Judgements that involve the judge's own system, as named by the column ``judge_system`` or else by the judge.
    """

    judgements: int
    judges: int
    datasets: int
    contexts: int
    candidates: int
    attributes: int
    prompts: int
    replicates: int
    pairs: int
    both_orders: int
    one_order: int
    unknown_order: int
    scores: int
    items: int
    rated_pairs: int
    rated_items: int
    annotators: int
    long_pairs: int
    long_items: int
    own_texts: int


def holdings(trials: pd.DataFrame) -> Holdings:
    """Count the contents of a log.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`.

    Examples
    --------
    >>> from biaslab.logs.readers.rows import trials_of
    >>> index = pd.RangeIndex(3)
    >>> columns = {"context_id": ["q", "q", "r"], "candidate_id": [*"xyx"], "opponent_id": [*"yxy"], "value": 1.0}
    >>> given = {name: pd.Series(value, index=index) for name, value in columns.items()}
    >>> counted = holdings(trials_of(given, index))
    >>> counted.pairs, counted.both_orders, counted.one_order, counted.contexts
    (2, 1, 1, 2)
    """
    judged, scores = _by_pair(paired(trials)), scored(trials)
    items = scores.drop_duplicates([*_CELL[:3], "context_id", "candidate_id"])
    known = judged[judged["order_known"]]
    orders = known.drop_duplicates(["pair", "first"])["pair"].value_counts()
    pairs = judged.drop_duplicates("pair")
    candidates = {*trials["candidate_id"].dropna().unique(), *trials["opponent_id"].dropna().unique()}
    ratings = trials["ratings"].fillna("")
    return Holdings(
        judgements=len(trials),
        judges=trials["judge"].nunique(),
        datasets=trials["dataset"].nunique(),
        contexts=len(trials[["dataset", "context_id"]].drop_duplicates()),
        candidates=len(candidates - {""}),
        attributes=trials["attribute"].nunique(),
        prompts=max(judged["template"].nunique(), scores["configuration"].nunique()),
        replicates=trials["replicate"].nunique(),
        pairs=len(pairs),
        both_orders=int((orders > 1).sum()),
        one_order=int((orders == 1).sum()),
        unknown_order=len(pairs) - len(orders),
        scores=len(scores),
        items=len(items),
        rated_pairs=int(pairs["human_gap"].fillna(0).ne(0).sum()),
        rated_items=int(items["human"].notna().sum()),
        annotators=1 + int(ratings.str.count(" ").max()) if ratings.ne("").any() else 0,
        long_pairs=int(((pairs["words"] > 0) & (pairs["opponent_words"] > 0)).sum()),
        long_items=int((items["words"] > 0).sum()),
        own_texts=int(_of_own_system(trials).sum()),
    )


def _of_own_system(trials: pd.DataFrame) -> pd.Series:
    """Flag the judgements that involve the judge's own system, ignoring case."""
    named = trials["judge_system"].fillna("")
    own, one, two = (
        column.astype("str").str.strip().str.casefold()
        for column in (named.where(named != "", trials["judge"]), trials["candidate_id"], trials["opponent_id"])
    )
    return ((one == own) | (two == own)) & (own != "")


def _by_pair(judged: pd.DataFrame) -> pd.DataFrame:
    """Assign a number to each pair of candidates, and flag whether the alphabetically first one was shown first."""
    one, two = judged["candidate_id"], judged["opponent_id"]
    first = one < two
    names = [*(judged[name] for name in _CELL), judged["context_id"], one.where(first, two), two.where(first, one)]
    pair = pd.DataFrame(dict(enumerate(names))).groupby(list(range(len(names))), sort=False, dropna=False)
    return judged.assign(pair=pair.ngroup(), first=first, order_known=judged["order_known"].astype(bool))


#: Assumed standard deviation over contexts, by the unit of the metric; for rates over both orders of a pair, that
#: which results if the order decides one pair in three.
_DEVIATIONS = {"share": 0.5, "probability": 0.5, "log odds": 2.0, "logits": 2.0}
_BOTH_ORDERS = 0.5 / 3**0.5
_OF_LISTS = "one_list"  # has no addition of its own, because lists in balanced orders, for the list probe, are better
_SPREAD, _POWER, _MATTERS, _STEP = 1.0, 0.8, 0.1, 1.05
#: The addition for biases that can be measured only by asking the judge.
STUDY = "ask the judge (biaslab probe NAME --judge JUDGE)"
#: Steps: the text before a colon names one step that allows several estimates; the text after it, what each needs.
SCORES, PAIRS = "score items on a scale", "judge pairs of candidates"


def addition_for(metric: str, probe: str, log: Holdings) -> str:
    """Return a short instruction on what to add to a log to estimate a metric.

    Parameters
    ----------
    metric, probe : str
        The metric that cannot be estimated.
    log : Holdings
        Counts of its contents.

    Returns
    -------
    str
        Empty if the log allows a better estimate. Counts are those needed to detect the smallest shift that matters
        with 80 % power at level .05, but at least 6 contexts and at most the number of items in the log.

    Examples
    --------
    >>> from dataclasses import fields
    >>> log = Holdings(**{field.name: 0 for field in fields(Holdings)} | {"pairs": 40, "one_order": 40})
    >>> addition_for("first_position_rate", "position", log)
    'judge 40 pairs in the other order'
    """
    known = (lambda *_: "") if probe == _OF_LISTS else _ADDITIONS.get(metric)
    matters = find_metric(metric, probe).matters or _MATTERS
    deviation = _DEVIATIONS.get(find_metric(metric, probe).unit, _SPREAD)
    return STUDY if known is None else known(log, _enough(matters, deviation))


@cache
def _enough(effect: float, deviation: float) -> int:
    """Return the number of contexts needed to detect an effect with 80 % power.

    >>> _enough(0.1, 0.5)
    199
    """
    contexts = FEWEST
    while expected_power(effect, deviation / contexts**0.5, contexts) < _POWER:
        contexts = max(contexts + 1, int(contexts * _STEP))
    while contexts > FEWEST and expected_power(effect, deviation / (contexts - 1) ** 0.5, contexts - 1) >= _POWER:
        contexts -= 1
    return contexts


def _upto(wanted: int, existing: int) -> str:
    return f"{min(wanted, existing) if existing else wanted:,}"


def _position(log: Holdings, _wanted: int) -> str:
    wanted = _enough(find_metric("first_position_rate", "position").matters or _MATTERS, _BOTH_ORDERS)
    if not log.pairs:
        return f"{PAIRS}: {wanted:,} pairs, each in both orders"
    if log.unknown_order == log.pairs:
        return "say which candidate was shown first (--map candidate_id=FIELD, or --map swapped=FIELD)"
    return f"judge {_upto(wanted, log.one_order)} pairs in the other order"


def _one_order(log: Holdings, wanted: int) -> str:
    return "" if log.both_orders else _position(log, wanted)


def _pair_length(log: Holdings, wanted: int) -> str:
    if not log.pairs:
        return f"{PAIRS}: {wanted:,} pairs, with their texts and human preferences"
    lacking = []
    if not log.long_pairs:
        lacking.append("the texts of the pairs (--map text=FIELD --map opponent_text=FIELD)")
    if not log.rated_pairs:
        lacking.append(_preferences(log, wanted))
    return _all_of(lacking) or f"{wanted:,} pairs of different length, where people sometimes prefer the shorter text"


def _length_of_pairs(log: Holdings, wanted: int) -> str:
    return "" if log.scores and not log.pairs else _pair_length(log, wanted)


def _subsets(log: Holdings, wanted: int) -> str:
    if not log.pairs:
        return f"{PAIRS}: {wanted:,} pairs, with human preferences and the subset of each"
    lacking = [] if log.rated_pairs else [_preferences(log, wanted)]
    return _all_of([*lacking, "the subset of each question (--map subset=FIELD)"])


def _preferences(log: Holdings, wanted: int) -> str:
    return f"human preferences, or a gold label, of {_upto(wanted, log.pairs)} pairs (--map preference=FIELD)"


def _human_scores(log: Holdings, wanted: int) -> str:
    how = "--map human=FIELD, --labels FILE or --dataset NAME"
    return f"human scores of {_upto(wanted, log.items)} items ({how})"


def _verbosity(log: Holdings, wanted: int) -> str:
    if not log.scores:
        return f"{SCORES}: {wanted:,} items, with human scores and the texts"
    lacking = [] if log.rated_items else [_human_scores(log, wanted)]
    lacking += [] if log.long_items else ["the texts that were scored (--map text=FIELD)"]
    return _all_of(lacking) or "texts of different length"


def _covariate(log: Holdings, wanted: int) -> str:
    if not log.scores:
        return f"{SCORES}: {wanted:,} items, with human labels"
    return "values of the covariate that differ" if log.rated_items else _human_scores(log, wanted)


def _agreement(log: Holdings, wanted: int) -> str:
    if not log.scores:
        return f"{SCORES}: {wanted:,} items, with human scores"
    return _human_scores(log, wanted) if not log.rated_items else "scores of several candidates of a context"


def _halo(log: Holdings, wanted: int) -> str:
    if not log.scores:
        return f"{SCORES}: {wanted:,} items on two attributes, with human scores"
    lacking = [] if log.attributes > 1 else [f"scores of a second attribute of {_upto(wanted, log.items)} items"]
    lacking += [] if log.rated_items else [_human_scores(log, wanted)]
    return _all_of(lacking) or "human scores of both attributes of the same items"


def _repeated(log: Holdings, wanted: int) -> str:
    if not log.scores:
        return f"{SCORES}: {wanted:,} items, twice, with the ratings of two people"
    lacking = []
    if log.replicates < 2:
        lacking.append(f"judge {_upto(wanted, log.items)} items again (--map replicate=FIELD)")
    if log.annotators < 2:
        lacking.append(f"ratings by two people of {_upto(wanted, log.items)} items (--map ratings=FIELD,FIELD)")
    return _all_of(lacking) or "repeated scores and single ratings of the same items"


def _configuration(log: Holdings, wanted: int) -> str:
    if not log.scores:
        return f"{SCORES}: {wanted:,} items, with two prompts, twice each"
    what = f"score {_upto(wanted, log.items)} items with another prompt (--map configuration=FIELD)"
    return what if log.replicates > 1 else f"{what}, twice each (--map replicate=FIELD)"


def _template(log: Holdings, wanted: int) -> str:
    if log.pairs:
        return f"judge {_upto(wanted, log.pairs)} pairs with another prompt (--map template=FIELD)"
    return f"score {_upto(wanted, log.items)} items with another prompt (--map configuration=FIELD)"


def _own_pairs(log: Holdings, wanted: int) -> str:
    if not log.pairs:
        return "" if log.scores else f"{PAIRS}: {wanted:,} pairs that include texts of the judge's own system"
    lacking = [] if log.own_texts else [_OWN]
    lacking += [] if log.rated_pairs else [_preferences(log, wanted)]
    return _all_of(lacking) or _OTHERS


def _own_scores(log: Holdings, wanted: int) -> str:
    if not log.scores:
        return ""
    lacking = [] if log.own_texts else [_OWN]
    lacking += [] if log.rated_items else [_human_scores(log, wanted)]
    return _all_of(lacking) or _OTHERS


def _round_numbers(log: Holdings, wanted: int) -> str:
    return "scores on a scale of at least 0-20" if log.scores else f"{SCORES}: {wanted:,} items, on at least 0-20"


def _edited_scores(log: Holdings, wanted: int) -> str:
    return f"score {_upto(wanted, log.items)} items again with an edit (--map edit=FIELD)" if log.scores else ""


def _edited_pairs(log: Holdings, wanted: int) -> str:
    what = "pairs again with one text edited (--map edit=FIELD --map edited=FIELD)"
    return "" if not log.pairs else f"judge {_upto(wanted, log.pairs)} {what}"


def _order_of_output(log: Holdings, wanted: int) -> str:
    if not log.scores:
        return f"{SCORES}: {wanted:,} items, before the reason and after it"
    both = "with the score before the reason and after it (--map order=FIELD --map form=FIELD)"
    return f"score {_upto(wanted, log.items)} items {both}"


def _all_of(lacking: Iterable[str]) -> str:
    return ", and ".join(lacking)


_OWN = "the judge's own system among the candidates (--map judge_system==NAME if it has another name)"
_OTHERS = "texts of the judge's own system together with texts of others on the same questions"
#: By metric: a function of the log's content and the number of contexts needed.
_ADDITIONS: dict[str, Callable[[Holdings, int], str]] = {
    "first_position_rate": _position,
    "first_position_log_odds": _one_order,
    "longer_wins_at_equal_gold": _pair_length,
    "comparative_accuracy": _subsets,
    "verbosity_slope": _verbosity,
    "verbosity_logit": _length_of_pairs,
    "exact_agreement": _agreement,
    "covariate_slope": _covariate,
    "covariate_contrast": _covariate,
    "halo_excess": _halo,
    "alpha_gap": _repeated,
    "configuration_gap": _configuration,
    "template_shift": _template,
    "self_preference_logit": _own_pairs,
    "self_preference_shift": _own_scores,
    "round_number_excess_10": _round_numbers,
    "round_number_excess_5": _round_numbers,
    "score_excess": _edited_scores,
    "win_excess": _edited_pairs,
    "reason_first_shift": _order_of_output,
}
