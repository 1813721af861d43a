"""Base of probes of a text feature's effect on scores and on verdicts, at equal human scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Bools, Floats
from biaslab.core.interfaces import Nearest
from biaslab.core.requests import Compare, Request
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Status, Trial
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.pairs import is_counted, log_odds
from biaslab.measures.scoring.pointwise import Item, Question
from biaslab.probes.base.feature_probe import FeatureProbe, has_several_ratings, over_reliabilities, without_ratings
from biaslab.probes.base.probe import Cell, Part, label_mass, mean_of
from biaslab.probes.base.questions import question_of, read_pair
from biaslab.prompts.protocols import Protocol
from biaslab.stats.blocks import each_cell, has_value, usable
from biaslab.stats.estimate import Estimate
from biaslab.stats.frame import warn_missing
from biaslab.stats.missing import note_missing
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import log_odds_at_equal, logistic_model
from biaslab.stats.reliability import Corrected, rating_error
from biaslab.stats.resample import Resampling

_WAYS = ("template", "configuration")


@dataclass(frozen=True)
class PairFeatureProbe(FeatureProbe):
    """Base for probes of a text feature's effect on scores, on comparisons in both orders, or on both.

    Effects on scores: see `biaslab.probes.base.FeatureProbe`. Effects on comparisons: regression of the log odds that a
    text wins on the differences of both texts in the feature and in human scores, and on position. Least squares for
    exact log odds; logistic for verdicts and for shares of samples, which noise pulls towards ½. Both are corrected for
    error in human scores; if it is unknown, interval and test of verdicts hold for every reliability from .3 to 1.

    Parameters
    ----------
    asks : sequence of {"pairs", "scores"}
        Compare texts in both orders, score them, or both; evaluators support only one of them.
    template : {1, 2}
        Comparative template.
    """

    protocol_forms = ("pair", "score")

    asks: Sequence[Literal["pairs", "scores"]] = field(default=("scores",), kw_only=True)
    template: Literal[1, 2] = field(default=1, kw_only=True)

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms to ask for: "pairs", "scores", or both."""
        return tuple(self.asks)

    @property
    def _scale(self) -> Scale:
        of_pairs = isinstance(self.protocol, Protocol) and self.protocol.form == "pair"
        return find_scale("1-5") if of_pairs else super()._scale

    def question(self, dataset: Dataset, item: Item, attribute: str, **placed: str) -> Question:
        """Return the question for one score; with a pair protocol, only its text is used, for likelihoods."""
        of_pairs = isinstance(self.protocol, Protocol) and self.protocol.form == "pair"
        protocol = None if of_pairs else self.protocol
        return question_of(protocol, dataset, item, attribute, self._scale, self.attributes, **placed)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design; for an evaluator that lacks one of the forms, a design with only the other."""
        if self.answer == "score" and len(self.forms) > 1:
            left: Literal["pairs", "scores"] = "scores" if isinstance(refused, Compare) else "pairs"
            words = f"asks for {left} only"
            return Nearest(replace(self, asks=(left,)), words, omits=words)
        return super().nearest(refused)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the first wins, the score, or the log perplexity, and the status."""
        return super().read(trial, reply) if trial.opponent_id is None else read_pair(trial, reply, self.protocol)

    def _apart(self, cell: Cell) -> tuple[Cell, Iterator[tuple[dict[str, Any], Cell]]]:
        """Split a cell into its scores and, per prompt, its comparisons with their condition columns."""
        compared = column_or_blank(cell.trials, "opponent_id") != ""
        if not compared.any():
            return cell, iter(())
        pairs = cell.trials[compared]
        named = pairs.assign(**{name: column_or_blank(pairs, name) for name in _WAYS})
        each = each_cell(named, _WAYS)
        parts = ((dict(zip(_WAYS, values, strict=True)), replace(cell, trials=part)) for values, part in each)
        return replace(cell, trials=cell.trials[~compared]), parts

    def _per_doubling(self, cell: Cell, metric: str, at: Mapping[str, Any]) -> Iterator[Part]:
        """Yield the log odds per doubling of a feature, at equal human score, and the label mass.

        Parameters
        ----------
        cell : Cell
            Comparisons, with log2 of the feature of both texts in ``doublings`` and ``opponent_doublings``; missing
            ones count as dropped.
        metric : str
            Name of the log odds.
        at : mapping
            Condition columns.
        """
        rated = cell.trials[cell.trials["human_gap"].notna()]
        known = rated[["doublings", "opponent_doublings"]].notna().all(axis=1)
        rated = rated.assign(value=rated["value"].where(known), status=rated["status"].where(known, "refused"))
        seen = seen_from(rated, np.ones(len(rated), bool), ["doublings"])
        yield from self._at_equal_quality(cell, metric, seen, [(at, ["doublings"])])
        if not is_recorded(cell.trials):
            yield Part({"label_mass": label_mass(cell.trials)}, cell.trials, at)

    def _at_equal_quality(
        self, cell: Cell, metric: str, rated: pd.DataFrame, each: Sequence[tuple[Mapping[str, Any], Sequence[str]]]
    ) -> Iterator[Part]:
        """Yield the log odds of a feature at equal human score.

        Parameters
        ----------
        cell : Cell
            The cell of the judgements.
        metric : str
            Name of the log odds.
        rated : pandas.DataFrame
            From `biaslab.probes.base.pair_feature.seen_from`, for pairs judged by humans.
        each : sequence of tuple
            For each estimate, the condition columns and the regression terms in addition to human scores and position,
            the feature last; each term has columns ``…_here`` and ``…_there``.
        """
        if not cell.wants(metric):
            return
        whole = usable(rated) if is_recorded(rated) else in_both_orders(rated)
        dropped = len(rated) - len(whole)
        why = "their value is missing or, in this probe's own design, that of the other order"
        warn_missing(cell.what, dropped, len(rated), why)
        notes = note_missing(rated["context_id"], ~has_value(rated), rated["seen_first"], "the order")
        for at, terms in each:
            logit = self._log_odds(whole, terms, cell.resampling)
            bounded = dropped and not cell.resampling.values_only and not is_exact(whole)
            if bounded and not math.isnan(logit.estimate):
                logit = self._with_bounds(logit, rated, terms, cell.resampling)
            yield Part({metric: logit}, (len(whole), dropped), at, notes)

    def _with_bounds(
        self, logit: Estimate, rated: pd.DataFrame, terms: Sequence[str], resampling: Resampling
    ) -> Estimate:
        """Return log odds of verdicts with bounds, setting missing verdicts so that they are smallest and largest."""
        adds = win_effects(rated, terms) > 0
        extremes = [self._verdict_log_odds(with_verdicts(rated, wins), terms, resampling) for wins in (~adds, adds)]
        low, high = min(logit.ci_low, extremes[0].ci_low), max(logit.ci_high, extremes[1].ci_high)
        return logit if math.isnan(low) or math.isnan(high) else replace(logit, bound_low=low, bound_high=high)

    def _log_odds(self, judged: pd.DataFrame, terms: Sequence[str], resampling: Resampling) -> Estimate:
        """Regress the log odds for a text on its differences from the other; return the last term's coefficient."""
        if is_exact(judged):
            sides = by_side(judged, terms)
            clusters = dict(enumerate(resampling.cluster_of([*judged["context_id"]])))
            within = replace(resampling, clusters=clusters)
            return self._slope_given_quality(sides, within, covariates=["first", *terms[:-1]], feature=terms[-1])
        return self._verdict_log_odds(judged, terms, resampling)

    def _verdict_log_odds(self, judged: pd.DataFrame, terms: Sequence[str], resampling: Resampling) -> Estimate:
        """Regress verdicts on the differences between both texts; return the log odds of the last term.

        If the error in human scores is unknown, interval and test hold for every reliability down to .3.
        """
        verdicts, feature = as_verdicts(judged, terms), terms[-1]
        covariates = ["first", *terms[:-1]]
        known = verdicts[["won", "human", *covariates]].notna().all(axis=1) & verdicts[feature].notna()
        judged, verdicts = judged[known], verdicts[known]
        sides = human_scores(judged)

        def at_equal(rated: pd.DataFrame) -> Corrected:
            return log_odds_at_equal(verdicts, "won", [*covariates, feature], rated, resampling)

        logit = self._allowing_for_errors(
            sides,
            # the feature comes last, so it is the term dropped if terms are collinear
            lambda: logistic_model(verdicts, "won", [*covariates, "human", feature], resampling)[feature],
            at_equal,
        )
        unhedged = self.reliability is not None or has_several_ratings(sides)
        if unhedged or resampling.values_only or math.isnan(logit.estimate):
            return logit
        return over_reliabilities(logit, at_equal(without_ratings(sides)))


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


def win_effects(judged: pd.DataFrame, terms: Sequence[str]) -> Floats:
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
