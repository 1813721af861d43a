"""What an audit estimates from recorded pairs: position from one order, length, and rates of replies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy.special import expit

from biaslab.core.arrays import Bools, Floats
from biaslab.logs.audit.measures import UNKNOWN_ORDER, CellMeasure
from biaslab.measures.ranking import pairs
from biaslab.probes.base.feature_probe import as_verdicts, seen_from, without_test
from biaslab.probes.base.joint_model import JointPairs
from biaslab.probes.base.probe import Accepted, Part, paired
from biaslab.stats.blocks import has_value, usable
from biaslab.stats.estimate import NO_TRIALS, Estimate, Note, because, undefined, without_interval
from biaslab.stats.ratio import Ratio

_FEWEST_JUDGEMENTS = 10  # minimum judgements for a candidate to count as a system; single texts occur once or twice
_MOSTLY = 0.8  # of the pairs, in which a baseline is; and of its judgements, by which it is more often on one side
_OFTEN_KNOWN = 0.5  # of the pairs, from which on lengths enter the model; pairs without them are left out
#: Pairs that people compared, from which on their preferences enter (fewer are often separated), with their share; and
#: the number that is enough for any share.
_FEWEST_LABELS, _LABELLED, _MANY_LABELS = 20, 0.2, 100
_ALIKE = 1e-9  # relative difference that may be due to rounding
#: Assumption of a verdict on the order of systems, between whose texts it may follow from quality.
_UNCHECKED_ORDER = Note("unchecked_order", words="if the order was random, which the log cannot show")
_FIXED = because(
    "always_same_side", "{system} is always shown {side}, so position cannot be told apart from the baseline"
)
_SAME_SIDE = because(
    "same_side_better",
    "people prefer the same side by as much in each labelled pair, so position cannot be told from it",
)
_FOLLOWS = because(
    "order_follows", "the order of a pair follows from what is compared, so position cannot be told apart"
)


@dataclass(frozen=True)
class OneOrder(CellMeasure):
    """Measure position bias from pairs judged in one order only.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template, from decisions (ties excluded):

    ``first_position_log_odds`` (primary; log odds, null 0)
        Log odds that the candidate shown first wins at equal quality: the intercept of a logistic regression that
        includes the strengths of the candidates if these are systems, and of a baseline (Bradley and Terry 1952, with
        an order term as in Davidson and Beaver 1977). Clustered by context, with the effective number of contexts
        (`biaslab.stats.regression.effective_contexts`), because few of them may inform the intercept.
        ``first_position_rate`` of `biaslab.logs.audit.pair_measures.Replies` is the raw share of decisions for the
        first.

    **Estimability.** If the systems of a pair determine their order, as with a baseline that is always shown second,
    position cannot be told apart from their strengths, and the estimate is undefined (Davidson and Beaver 1977).

    **Estimand.** The log odds are conditional on what enters the model, and ``method`` names it: log odds given more
    covariates are further from 0, also if these are balanced over both positions (Gail, Wieand & Piantadosi 1984). Word
    counts (log ratio) enter if at least half of the pairs have them, and people's preferences if a fifth of the pairs
    and at least 20 have one, or 100, or all, without a test of their balance; pairs without them are left out and
    counted. If fewer are known, log odds average over differences in quality, and assume that these do not depend on
    the order, given systems and lengths; verdicts name this assumption. If not all texts are of systems, nothing shows
    whether better ones come first, so that there is no interval and no test.

    **Missing judgements.** ``bound_low`` and ``bound_high`` are ends of the intervals where missing verdicts make the
    log odds smallest and largest (`biaslab.stats.regression.extreme_outcomes`).

    **Label error.** Human scores with several ratings per text are corrected for error
    (`biaslab.stats.regression.log_odds_at_equal`). With one label per pair, interval and test hold for every
    reliability of the label, given systems and lengths, from .3 to 1 (.19 if it only names the better text, see
    `PairLength`). Judging each pair in both orders needs no label and is the better design, because each pair is its
    own control.

    References
    ----------
    Bradley & Terry 1952, Biometrika 39; Davidson & Beaver 1977, *On extending the Bradley-Terry model to incorporate
    within-pair order effects*, Biometrics 33; Gail, Wieand & Piantadosi 1984, *Biased estimates of treatment effect in
    randomized experiments with nonlinear regressions and omitted covariates*, Biometrika 71(3).
    """

    name: ClassVar[str] = "one_order"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select pairs with known order from cells in which no pair was judged in both orders."""
        judged = paired(trials)
        if judged.empty:
            return Accepted(judged, "needs judgements of two candidates shown one after the other")
        shown = judged[judged["order_known"].astype(bool)]
        if shown.empty:
            return Accepted(shown, "needs to know which candidate was shown first; the log does not say")
        cell = [shown[name] for name in self.cell]
        both = pairs.in_both_orders(shown, cell).groupby(cell).transform("any")
        why = "pairs were judged in both orders; the probe position uses them better" if both.all() else ""
        note = "adjusts for labels if known, else for systems; judging both orders has more power"
        return Accepted(shown[~both], why or note)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell."""
        trials = trials.reset_index(drop=True)
        readable = usable(trials)
        won = _won(readable).reindex(trials.index)
        judged = trials.assign(won=won)[won.notna() | ~trials.index.isin(readable.index)]
        metrics = {"first_position_log_odds": first_position_log_odds(judged, self)}
        yield Part(metrics, (int(won.notna().sum()), len(trials) - len(readable)))


def first_position_log_odds(judged: pd.DataFrame, measure: OneOrder) -> Estimate:
    """Estimate the log odds of choosing the candidate shown first at equal quality.

    Parameters
    ----------
    judged : pandas.DataFrame
        One row per decision or missing judgement, with ``won`` 1 if the first won, 0 if the second did, and NaN if it
        is missing.
    measure : OneOrder
        Its ``resampling`` sets the confidence level and the clusters.
    """
    contexts = judged["context_id"].nunique()
    if judged["won"].isna().all():
        return undefined(because("no_decision", "no pair was judged"))
    seen = seen_from(judged.assign(value=judged["won"]), np.ones(len(judged), bool))
    frame = as_verdicts(seen, [])
    terms: list[str] = []
    given: list[str] = []
    left_out: list[str] = []
    systems = _systems_judged_often(judged)
    for number, system in enumerate(systems):
        signs = (judged["candidate_id"] == system).astype(float) - (judged["opponent_id"] == system)
        frame, terms = frame.assign(**{f"system {number}": signs}), [*terms, f"system {number}"]
    if systems:
        given.append(f"strengths of {len(systems)} systems")
    texts = judged[["words", "opponent_words"]].where(lambda words: words > 0)
    frame = frame.assign(length=np.log(texts["words"] / texts["opponent_words"]))
    for name, what in (("length", "lengths"), ("human", "people's preferences")):
        values = frame[name]
        labels = min(max(_FEWEST_LABELS, _LABELLED * len(values)), _MANY_LABELS, len(values))
        least = _OFTEN_KNOWN * len(values) if name == "length" else labels
        if values.notna().sum() < least or not values.any():
            few = f"{what} known of {values.notna().sum():,} of {len(values):,} pairs, too few to adjust for"
            left_out += [few] if values.any() else []
            continue
        if not values.std() > _ALIKE * values.abs().max():
            if name == "human":
                return undefined(_SAME_SIDE, contexts)
            left_out.append(f"{what} differ in the same way in every pair, which cannot be separated from order")
            continue
        frame, terms, given = frame[values.notna()], [*terms, name], [*given, what]
    if len(frame) < len(judged):
        left_out.append(f"leaves out {len(judged) - len(frame):,} of {len(judged):,} pairs without these")
    model = JointPairs(frame, seen.loc[frame.index], measure.resampling, measure.reliability, effective=True)
    estimate = model.effect([*(term for term in terms if term != "human"), "first"], "human" in terms)
    if any(isinstance(note, Note) and note.code == "collinear" for note in estimate.notes):
        return undefined(_why_collinear(judged[judged["won"].notna()]), contexts)
    known = f"conditional on {', '.join(given)}" if given else "unadjusted"
    equal = "" if "human" in terms else "; averages over differences in quality, assumes random order"
    named = replace(estimate, method="; ".join([f"{estimate.method}, {known}{equal}", *left_out]))
    compared = {*judged["candidate_id"], *judged["opponent_id"]}
    return _of_assumed_order(named, compared <= set(systems), labels) if equal else named


def _of_assumed_order(estimate: Estimate, of_systems: bool, labels: float) -> Estimate:
    """Name the assumption that the order is random or, unless all candidates are systems, leave out the test."""
    if math.isnan(estimate.estimate):
        return estimate
    if of_systems:
        return estimate.noted(_UNCHECKED_ORDER)
    systems_in = f"systems in at least {_FEWEST_JUDGEMENTS} pairs each"
    showing = f"people's preferences of {math.ceil(labels):,} pairs, {systems_in}, or both orders"
    return without_test(estimate).noted(UNKNOWN_ORDER.with_values(what=showing))


def _systems_judged_often(decided: pd.DataFrame) -> list[str]:
    """Return the candidates whose strength enters the model: all if each is judged often, as systems are.

    If some are not, such as single texts, only a baseline could pass for position: a candidate judged often that is in
    most pairs, or nearly always on one side.
    """
    first, second = (decided[name].value_counts() for name in ("candidate_id", "opponent_id"))
    counts, lead = first.add(second, fill_value=0), first.sub(second, fill_value=0).abs()
    often = counts >= _FEWEST_JUDGEMENTS
    if not often.all():
        often &= (counts >= _MOSTLY * len(decided)) | (lead >= _MOSTLY * counts)
    return sorted(map(str, counts.index[often]))


def why_order_follows(decided: pd.DataFrame) -> Note | None:
    """Return why position cannot be told from the strengths of the systems; None if it can, or they are none."""
    systems = _systems_judged_often(decided) if len(decided) else []
    if not systems:
        return None
    one, two = (decided[name].astype(str).to_numpy()[:, None] == np.array(systems) for name in _SIDES)
    signs = one.astype(float) - two
    both = np.column_stack([signs, np.ones(len(signs))])
    return _why_collinear(decided) if np.linalg.matrix_rank(both) == np.linalg.matrix_rank(signs) else None


def _why_collinear(decided: pd.DataFrame) -> Note:
    """Return why position is not estimable: a baseline is always on one side, or pairs determine their order."""
    for side, name in (("first", "candidate_id"), ("second", "opponent_id")):
        if (decided[name] == decided[name].iloc[0]).all():
            return _FIXED.with_values(system=str(decided[name].iloc[0]), side=side)
    return _FOLLOWS


_USED = ("context_id", "value", "status", "human_gap", "words", "opponent_words")
_RATED = tuple(f"{side}{name}" for name in ("human", "ratings", "annotators") for side in ("", "opponent_"))
_UNIT = (0.0, 1.0)
_FEWEST_DECISIONS = 2  # minimum decisions per kind
_ALWAYS = "no test: all decisions are alike, so that nothing shows how they depend on the label"
_NO_DECISION = because("equal_lengths", "no decision between texts of different length")


@dataclass(frozen=True)
class PairLength(CellMeasure):
    """Measure length bias in pairs: how often the longer of two texts wins.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template, from decisions (ties excluded) between texts of
    different length in words:

    ``longer_wins`` (0–1)
        Share of decisions for the longer text. Not a bias by itself: longer texts may be better.
    ``longer_better`` (0–1)
        Share of the same pairs in which people, or the gold label, prefer the longer text.
    ``longer_wins_when_better``, ``longer_wins_when_worse`` (0–1)
        ``longer_wins`` among pairs in which people prefer the longer text, and in which they prefer the shorter one.
    ``longer_wins_at_equal_gold`` (primary; 0–1, null ½)
        Probability that the longer of two equally good texts wins: the prediction of a logistic regression on the
        difference in label, at 0. It is ½ for a judge whose verdicts depend on quality alone.

    **Missing judgements.** ``longer_wins_at_equal_gold`` has bounds as the log odds of `OneOrder`.

    **Label error.** Where longer texts tend to be better, pairs with the same label differ in quality: the longer text
    is better by more where it is called better, and often better where an erroneous label calls it worse. A judge that
    sees this seems to prefer length. Differences of scores with several ratings per text are corrected for error
    (`biaslab.stats.regression.log_odds_at_equal`). With one label per pair, interval and test hold for every
    reliability from .3 to 1. A label that only names the better text has at most 2/π of the reliability of the graded
    difference, whose sign it is, so the least is .19 for these, or 2/π (2A − 1)² if that is more, where A is the lower
    confidence limit of the judge's agreement with the labels: errors that are independent cannot agree more often.
    Errors that judge and people share are not corrected. A declared reliability (`biaslab.audit`) takes the place of
    .3: it is that of the difference, of which labels that only name the better text keep 2/π at least. Labels by the
    annotator ``"construction"`` are exact, also if they only name the better text.

    References
    ----------
    Carroll, Ruppert, Stefanski & Crainiceanu 2006, *Measurement Error in Nonlinear Models*, §4.2.
    """

    name: ClassVar[str] = "pair_length"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements of two texts with known, different lengths."""
        comparisons = paired(trials)
        one, two = comparisons["words"], comparisons["opponent_words"]
        known = (one > 0) & (two > 0) & (one != two)
        why = "needs the lengths of both texts of a pair: words and opponent_words, or the texts"
        rated = [name for name in _RATED if name in comparisons and comparisons[name].notna().any()]
        used = [*self.cell, *_USED, *rated]
        kept = comparisons.loc[known.to_numpy(), used]  # of millions of rows, a copy of all is large
        return Accepted(kept, _left_out(comparisons, known) if known.any() else why)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell, each with its numbers of decisions and of missing judgements."""
        for name, (counts, metric) in _of_longer(trials, self).items():
            yield Part({name: metric}, counts)


def _left_out(comparisons: pd.DataFrame, known: pd.Series) -> str:
    """Return a note on how many judgements are uninformative about length, and why; empty if there are none."""
    if known.all():
        return ""
    equal = int((comparisons["words"] > 0).mul(comparisons["words"] == comparisons["opponent_words"]).sum())
    counts = {"of texts of equal length": equal, "without the lengths of both texts": int((~known).sum()) - equal}
    reasons = ", ".join(f"{number:,} {why}" for why, number in counts.items() if number)
    return f"leaves out {int((~known).sum()):,} of {len(comparisons):,} judgements: {reasons}"


def _of_longer(trials: pd.DataFrame, measure: PairLength) -> dict[str, tuple[tuple[int, int], Ratio | Estimate]]:
    """Return each metric with its numbers of decisions and of missing judgements."""
    first_longer = (trials["words"] > trials["opponent_words"]).to_numpy()
    first, read = pairs.decisions(trials), has_value(trials)
    won, decided = np.where(first_longer, first, 1 - first), ~np.isnan(first)
    gap = trials["human_gap"].to_numpy(float) * np.where(first_longer, 1, -1)
    better, worse = decided & (gap > 0), decided & (gap < 0)

    def share(of: Floats, among: Bools, missing: Note = NO_TRIALS) -> tuple[tuple[int, int], Ratio]:
        of, counted = np.where(among, of, 0.0)[read], among[read].astype(float)
        ratio = Ratio(trials["context_id"][read], of, counted, None, _UNIT, missing, "score")
        return (int(among.sum()), int((~read).sum())), ratio

    wins: dict[str, tuple[tuple[int, int], Ratio | Estimate]] = {"longer_wins": share(won, decided, _NO_DECISION)}
    if min(better.sum(), worse.sum()) < _FEWEST_DECISIONS:
        return wins
    labelled = (decided | ~read) & ~np.isnan(gap)
    equal = _at_equal_label(trials[labelled], won[labelled], first_longer[labelled], measure)
    return wins | {
        "longer_better": share(better.astype(float), better | worse),
        "longer_wins_when_better": share(won, better),
        "longer_wins_when_worse": share(won, worse),
        "longer_wins_at_equal_gold": ((int((labelled & read).sum()), int((labelled & ~read).sum())), equal),
    }


def _at_equal_label(trials: pd.DataFrame, won: Floats, first_longer: Bools, measure: PairLength) -> Estimate:
    """Estimate ``longer_wins_at_equal_gold``: the intercept of a logistic regression on the difference in label."""
    decided = ~np.isnan(won)
    if len(set(won[decided])) == 1:
        return without_interval(float(won[decided][0]), trials["context_id"][decided].nunique(), _ALWAYS)
    seen = seen_from(trials, first_longer)
    verdicts = as_verdicts(seen, []).assign(won=won, longer=1.0)
    logit = JointPairs(verdicts, seen, measure.resampling, measure.reliability).effect(["longer"])
    ends = (logit.ci_low, logit.ci_high, logit.bound_low, logit.bound_high)
    share, effect, low, high, least, most = (float(expit(x)) for x in (logit.estimate, logit.mde, *ends))
    slope = share * (1 - share)  # of the share, by its log odds
    notes = tuple(
        note.with_values(se=float(dict(note.values)["se"]) * slope)
        if isinstance(note, Note) and note.code == "single_ratings"
        else note
        for note in logit.notes
    )
    shown = replace(logit, estimate=share, se=logit.se * slope, ci_low=low, ci_high=high, mde=effect - 0.5)
    return replace(shown, notes=notes, bound_low=least, bound_high=most)


_SIDES = ("candidate_id", "opponent_id")
_UNRATED = because("human_scores_do_not_differ", "no differing human scores")


@dataclass(frozen=True)
class Replies(CellMeasure):
    """Descriptive rates of pair trials; those that need human scores are omitted if there are none.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template:

    ``readable_rate`` (0–1)
        Share of replies that give a verdict.
    ``first_position_rate`` (0–1)
        Share of decisions, ties excluded, for the candidate shown first. Unlike in `biaslab.probes.Position`, replies
        without the other order count too, so it depends on the quality of candidates that are often shown first and has
        no test. ``n_trials`` counts judgements with known order. `biaslab.audit` drops it, and
        ``comparative_accuracy``, from cells in which the probe has an estimate.
    ``first_label_rate`` (0–1)
        Share of judgements in which the first label is the more likely one, if the log has its probability. Needs no
        known order of the candidates.
    ``comparative_accuracy`` (0–1)
        Share of decisions between candidates with different human scores that agree with humans.
    ``accuracy_both_orders`` (0–1)
        Share of pairs decided in agreement with humans in both orders.
    ``win_rate`` (0–1; column ``system``)
        Mean probability that a system wins, counting ties as ½; not defined for candidates that are single texts.
    ``accuracy_shown_first`` (0–1; column ``system``)
        ``comparative_accuracy`` among pairs where this candidate is shown first.
    """

    name: ClassVar[str] = "replies"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template")
    conditions: ClassVar[tuple[str, ...]] = ("system",)

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements of two candidates."""
        comparisons = paired(trials)
        return Accepted(comparisons, "needs judgements of two candidates" if comparisons.empty else "")

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics over all candidates, then per candidate, each with its number of judgements."""
        used = usable(trials)
        planned_of, read_of = _counts(trials), _counts(used)
        read = trials.index.isin(used.index)
        readable = Ratio(trials["context_id"], read, np.ones(len(trials)), bounds=_UNIT, inference="score")
        for system, ratios in (("", {"readable_rate": readable, **_overall_rates(used)}), *_system_rates(trials, used)):
            for name, ratio in ratios.items():
                planned = planned_of.get(system, len(trials))
                entering = read_of.get(system, _entering(name, used))
                yield Part({name: ratio}, (entering, planned - entering), {"system": system})


@dataclass(frozen=True)
class Subsets(CellMeasure):
    """Measure agreement with the gold label in each subset.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template × ``subset``: ``comparative_accuracy`` (null ½) and
    ``accuracy_both_orders``, defined as in `Replies`.
    """

    name: ClassVar[str] = "subsets"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template", "subset")
    primary: ClassVar[tuple[str, ...]] = ("comparative_accuracy",)

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements of two candidates with a gold label, from data sets with subsets."""
        labelled = paired(trials)
        labelled = labelled[labelled["human_gap"].fillna(0).ne(0) & labelled["subset"].fillna("").ne("")]
        several = labelled.groupby(list(self.cell[:2]))["subset"].transform("nunique") > 1
        why = "needs a gold label or human preference, and several subsets"
        return Accepted(labelled[several], "" if several.any() else why)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one subset."""
        readable = usable(trials)
        won = _won(readable)
        ratios = {
            "comparative_accuracy": pairs.comparative_accuracy(readable["context_id"], won, readable["human_gap"]),
            "accuracy_both_orders": both_orders(readable, won),
        }
        known = {name: ratio for name, ratio in ratios.items() if np.asarray(ratio.denominator).any()}
        yield Part(known, (len(readable), len(trials) - len(readable)))


def _counts(trials: pd.DataFrame) -> dict[str, int]:
    """Return the number of judgements that involve each candidate."""
    sides = [trials[name].value_counts() for name in _SIDES]
    return {str(name): int(count) for name, count in sides[0].add(sides[1], fill_value=0).items()}


def _entering(metric: str, trials: pd.DataFrame) -> int:
    """Return the number of readable judgements behind a metric."""
    if metric == "first_position_rate":
        return int(trials["order_known"].astype(bool).sum())
    return int(trials["p_first_label"].notna().sum()) if metric == "first_label_rate" else len(trials)


def _won(trials: pd.DataFrame) -> pd.Series:
    """Return `decisions` as a series: 1 if the candidate shown first won, 0 if the second did."""
    return pd.Series(pairs.decisions(trials), trials.index)


def _overall_rates(trials: pd.DataFrame) -> dict[str, Ratio]:
    won, context = _won(trials), trials["context_id"]
    shown = won.where(trials["order_known"].astype(bool))
    ratios = {"first_position_rate": pairs.first_position_rate(context, shown, null=None)}
    label = trials["p_first_label"]
    if label.notna().any():
        chosen = (label > 0.5).astype(float).where(label.notna() & (label != 0.5))
        ratios["first_label_rate"] = pairs.first_position_rate(context, chosen, null=None)
    accuracy = pairs.comparative_accuracy(context, won, trials["human_gap"])
    if not np.asarray(accuracy.denominator).any():
        return ratios
    return ratios | {"comparative_accuracy": accuracy, "accuracy_both_orders": both_orders(trials, won)}


def both_orders(trials: pd.DataFrame, won: pd.Series) -> Ratio:
    """Return, over pairs judged in both orders, the share decided in agreement with humans in both."""
    differ = trials[trials["human_gap"].fillna(0) != 0]
    one, two = differ["candidate_id"], differ["opponent_id"]
    ahead = one < two
    right = won[differ.index] == (differ["human_gap"] > 0)
    keys = [differ["context_id"], one.where(ahead, two), two.where(ahead, one), differ["replicate"]]
    whole = right.groupby(keys).agg(["sum", "size"])
    whole = whole[whole["size"] == 2]
    context = whole.index.get_level_values(0)
    return Ratio(context, whole["sum"] == 2, np.ones(len(whole)), None, _UNIT, _UNRATED, "score")


def _systems_with_rates(trials: pd.DataFrame) -> list[str]:
    """Return the candidates that have a win rate: systems, which occur in several contexts.

    If most candidates occur in a single context, they are texts. Then only candidates in at least half of the contexts,
    such as a baseline, count as systems, because others may be the same short answer to several questions.
    """
    sides = [trials[["context_id", name]].set_axis(["context", "candidate"], axis=1) for name in _SIDES]
    appearances = pd.concat(sides).drop_duplicates()
    contexts, every = appearances["candidate"].value_counts(sort=False), appearances["context"].nunique()
    texts = every > 1 and (contexts == 1).mean() > 0.5
    fewest = max(2, every / 2) if texts else min(2, every)
    return [str(name) for name in contexts.index[contexts >= fewest]]


def _system_rates(trials: pd.DataFrame, readable: pd.DataFrame) -> Iterator[tuple[str, dict[str, Ratio]]]:
    won, known = _won(readable), readable["order_known"].astype(bool)
    rated = bool((known & won.notna() & (readable["human_gap"].fillna(0) != 0)).any())
    groups = [readable.groupby(name, sort=False).groups for name in _SIDES]
    used = readable[["context_id", "value", "human_gap"]]
    for system in _systems_with_rates(trials):
        shown, against = (used.loc[places.get(system, [])] for places in groups)
        context = pd.concat([shown["context_id"], against["context_id"]])
        wins = pd.concat([shown["value"], 1 - against["value"]])
        ratios = {"win_rate": Ratio(context, wins, np.ones(len(wins)), None, _UNIT, inference="score")}
        if rated:
            verdict = won[shown.index].where(known[shown.index])
            first = pairs.comparative_accuracy(shown["context_id"], verdict, shown["human_gap"], null=None)
            ratios["accuracy_shown_first"] = first
        yield system, ratios
