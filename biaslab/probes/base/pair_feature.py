"""Base for probes of a text feature's effect on scores and on verdicts, at equal human scores."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core import Compare, Nearest, Reply, Request, Status, Trial
from biaslab.core.checks import require_one_of
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, Question
from biaslab.probes.base import pair_differences as differences
from biaslab.probes.base.cell import Cell, Part, label_mass
from biaslab.probes.base.feature_probe import FeatureProbe
from biaslab.probes.base.human_errors import has_several_ratings, over_reliabilities, without_ratings
from biaslab.probes.base.own_protocol import question_of, settle_form
from biaslab.probes.base.pair_probe import read_pair
from biaslab.prompts.protocols import Protocol
from biaslab.stats import (
    Corrected,
    Estimate,
    Resampling,
    each_cell,
    has_value,
    log_odds_at_equal,
    logistic_model,
    note_missing,
    usable,
    warn_missing,
)

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
    template : {1, 2}
        Comparative template.
    """

    protocol_form = "pair or score"

    template: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("template", self.template, (1, 2))

    @property
    @abstractmethod
    def forms(self) -> tuple[str, ...]:
        """Forms to ask for: "pairs", "scores", or both."""

    def take_protocol(self) -> None:
        """Ask for no form but the protocol's."""
        if self.protocol is not None:
            settle_form(self, self.forms, super().take_protocol)

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
            left = "scores" if isinstance(refused, Compare) else "pairs"
            words = f"asks for {left} only"
            return Nearest(replace(self, asks=(left,)), words, omits=words)  # type: ignore[call-arg]
        return super().nearest(refused)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the first wins, the score, or the log perplexity, and the status."""
        return super().read(trial, reply) if trial.opponent_id is None else read_pair(trial, reply, self.protocol)

    def _apart(self, cell: Cell) -> tuple[Cell, Iterator[tuple[dict[str, Any], Cell]]]:
        """Split a cell into its scores and, per prompt, its comparisons with their condition columns."""
        compared = differences.column_or_blank(cell.trials, "opponent_id") != ""
        if not compared.any():
            return cell, iter(())
        pairs = cell.trials[compared]
        named = pairs.assign(**{name: differences.column_or_blank(pairs, name) for name in _WAYS})
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
        seen = differences.seen_from(rated, np.ones(len(rated), bool), ["doublings"])
        yield from self._at_equal_quality(cell, metric, seen, [(at, ["doublings"])])
        if not differences.is_recorded(cell.trials):
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
            From `biaslab.probes.base.pair_differences.seen_from`, for pairs judged by humans.
        each : sequence of tuple
            For each estimate, the condition columns and the regression terms in addition to human scores and position,
            the feature last; each term has columns ``…_here`` and ``…_there``.
        """
        if not cell.wants(metric):
            return
        whole = usable(rated) if differences.is_recorded(rated) else differences.in_both_orders(rated)
        dropped = len(rated) - len(whole)
        why = "their value is missing or, in this probe's own design, that of the other order"
        warn_missing(cell.what, dropped, len(rated), why)
        note = note_missing(rated["context_id"], ~has_value(rated), rated["seen_first"], "the order")
        for at, terms in each:
            logit = self._log_odds(whole, terms, cell.resampling)
            bounded = dropped and not cell.resampling.values_only and not differences.is_exact(whole)
            if bounded and not math.isnan(logit.estimate):
                logit = self._with_bounds(logit, rated, terms, cell.resampling)
            yield Part({metric: logit}, (len(whole), dropped), at, note)

    def _with_bounds(
        self, logit: Estimate, rated: pd.DataFrame, terms: Sequence[str], resampling: Resampling
    ) -> Estimate:
        """Return log odds of verdicts with bounds, setting missing verdicts so that they are smallest and largest."""
        adds = differences.adds(rated, terms) > 0
        extremes = [
            self._verdict_log_odds(differences.with_verdicts(rated, wins), terms, resampling) for wins in (~adds, adds)
        ]
        low, high = min(logit.ci_low, extremes[0].ci_low), max(logit.ci_high, extremes[1].ci_high)
        return logit if math.isnan(low) or math.isnan(high) else replace(logit, bound_low=low, bound_high=high)

    def _log_odds(self, judged: pd.DataFrame, terms: Sequence[str], resampling: Resampling) -> Estimate:
        """Regress the log odds for a text on its differences from the other; return the last term's coefficient."""
        if differences.is_exact(judged):
            sides = differences.by_side(judged, terms)
            clusters = dict(enumerate(resampling.cluster_of([*judged["context_id"]])))
            within = replace(resampling, clusters=clusters)
            return self._slope_given_quality(sides, within, covariates=["first", *terms[:-1]], feature=terms[-1])
        return self._verdict_log_odds(judged, terms, resampling)

    def _verdict_log_odds(self, judged: pd.DataFrame, terms: Sequence[str], resampling: Resampling) -> Estimate:
        """Regress verdicts on the differences between both texts; return the log odds of the last term.

        If the error in human scores is unknown, interval and test hold for every reliability down to .3.
        """
        verdicts, feature = differences.as_verdicts(judged, terms), terms[-1]
        covariates = ["first", *terms[:-1]]
        known = verdicts[["won", "human", *covariates]].notna().all(axis=1) & verdicts[feature].notna()
        judged, verdicts = judged[known], verdicts[known]
        sides = differences.human_scores(judged)

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
