"""Verbosity bias: does a judge reward length at equal human quality? (Zheng et al. 2023; Saito et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.core.metrics import Comparison, Figure, Metric, planted
from biaslab.core.schema import Dataset, count_words
from biaslab.core.trials import Scalar, Trial
from biaslab.measures.scoring.pointwise import Item
from biaslab.probes.base import feature_probe
from biaslab.probes.base.comparisons import ordered_pairs
from biaslab.probes.base.feature_probe import WITH_BENDS, PairFeatureProbe, kept_columns, level_of, with_missing_scores
from biaslab.probes.base.probe import LABEL_MASS, Accepted, Cell, Part, by_configuration, label_mass, paired, rated
from biaslab.probes.base.questions import ScoreProbe

_OF_SCORES = ("verbosity_slope", "verbosity_excess", "verbosity_correlation")
_ADVICE = "compare only scores of texts of similar length, or adjust for it"
_ADVICE_ON_PAIRS = "compare only texts of similar length, or adjust win rates for it"


@dataclass(frozen=True)
class Verbosity(PairFeatureProbe):
    """Verbosity bias: rewarding length more than human raters do.

    Every candidate is scored, or compared with every other of its context in both orders. Length is the log2 of the
    number of words separated by white space (column ``words``), so one unit is a doubling. Prompts are those of
    `Familiarity` and `Position`; with a store, they share replies. Further parameters, and the treatment of error in
    human scores: `biaslab.probes.base.PairFeatureProbe`.

    Parameters
    ----------
    level : {"context", "dataset"}, optional
        Compare the items of each context, or all items across contexts. Default: within contexts, but across contexts
        if at most a tenth of them have several candidates. The column ``level`` states it.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is the score, or the probability that the candidate shown first wins (column ``asked``). There
    is one estimate for each judge × data set × attribute and, for pairs, ``template``:

    - ``verbosity_slope`` — standard deviations of the judge's score per doubling of words, at equal human score. Null
      0; above: length is rewarded. Primary. Regression of score on log2 words, human score and context intercepts.
    - ``verbosity_excess`` — Spearman's ρ of score and words, the judge's minus the humans', on the same items. −2 to 2,
      null 0; above: the judge prefers longer texts more than humans do. Noise alone moves the judge's correlation
      towards 0, so read it together with the slope.
    - ``verbosity_correlation`` — the two correlations themselves (column ``scorer``). −1 to 1, null 0.
    - ``verbosity_logit`` — log odds that a text twice as long as its opponent wins, at equal human score. Null 0;
      above: length is rewarded; .2 logits turn an even chance into .55. Primary. Regression of logit P(wins) on the
      differences of log2 words and of human scores and on position, over pairs judged in both orders (in logs, over all
      judgements); logistic for verdicts and shares of samples. If a log has human verdicts but no scores, these (−1, 0,
      1) replace the difference.
    - ``longer_wins_excess`` — probability that the longer text wins, minus the share of pairs in which humans prefer
      it. −1 to 1, null 0. Noise alone moves it away from 0; prefer the logit.
    - ``label_mass`` — total probability of all labels. 0–1.

    **Inference.** The logit: Student's t over contexts with a cluster jackknife; for verdicts, with bounds if some are
    missing, and with one rating per item, interval and test hold for every reliability from .3 to 1. Slope, and
    excess within contexts: Student's t over contexts. Everything else: bootstrap or jackknife intervals and sign-flip
    tests over contexts; ``method`` says which.

    References
    ----------
    Zheng et al. 2023, *Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena*, §3.3; Saito et al. 2023, *Verbosity
    Bias in Preference Labeling by Large Language Models*; Dubois et al. 2024, *Length-Controlled AlpacaEval*, who also
    adjust for length by regression.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Verbosity(attributes=["coherence"], reliability=1.0)
    >>> judge = bl.SimulatedJudge(data, quality=0.5, verbosity=1.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["verbosity_slope"])
    >>> bool(estimates.loc[0, "ci_low"] > 0)
    True
    """

    name = "verbosity"
    feature = "doublings"
    conditions = ("scorer", "level", "template", "configuration")
    columns = (*ScoreProbe.columns, "words", "label_mass")
    needs = "human scores and the lengths of the judged texts: a data set with both, or a column words"
    metrics = (
        Metric(
            "verbosity_slope",
            "score per doubling of words",
            "SD",
            null=0.0,
            above="scores longer text higher at equal reference score",
            below="scores shorter text higher at equal reference score",
            advice=_ADVICE,
            use="comparing texts of different length",
            matters=0.2,
            form="score",
            primary=True,
            calibration=planted({"verbosity": 0.35}, {"reliability": 1.0}, longest=16, conservative=WITH_BENDS),
            comparison=Comparison("scores of texts that humans scored too", ("level",)),
        ),
        Metric(
            "verbosity_excess",
            "ρ of the judge minus ρ of the reference, with length",
            "Spearman's ρ",
            null=0.0,
            above="prefers longer text more than the reference does",
            below="prefers shorter text more than the reference does",
            advice=_ADVICE,
            matters=0.1,
            form="score",
        ),
        Metric(
            "verbosity_logit",
            "a text wins per doubling of words",
            "logits",
            null=0.0,
            above="prefers the longer of two texts at equal reference score",
            below="prefers the shorter of two texts at equal reference score",
            advice=_ADVICE_ON_PAIRS,
            use="comparing texts of different length",
            matters=0.2,
            form="pair",
            primary=True,
            calibration=planted(
                {"verbosity": 0.25},
                {"asks": ("pairs",), "reliability": 1.0},
                longest=16,
                conservative=("text", "sampled:3"),  # with few verdicts from 8 contexts, separation is frequent
            ),
        ),
        Metric(
            "longer_wins_excess",
            "the longer text wins, minus how often the reference prefers it",
            "share",
            null=0.0,
            above="prefers the longer of two texts more than the reference does",
            below="prefers the longer of two texts less than the reference does",
            advice=_ADVICE_ON_PAIRS,
            matters=0.05,
            comparison=Comparison("verdicts on pairs that humans judged too"),
            form="pair",
        ),
        Metric("verbosity_correlation", "correlation of score and words", "Spearman's ρ", null=0.0, form="score"),
        LABEL_MASS,
    )
    figures = (
        Figure("scores", _OF_SCORES, by="attribute", hue="scorer", col="metric"),
        Figure("pairs", ("verbosity_logit", "longer_wins_excess"), by="attribute", col="metric"),
    )

    level: Literal["context", "dataset"] | None = None

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each candidate's score on each attribute, and each pair in both orders."""
        for question, ratings in self._rated_questions(dataset) if "scores" in self.asks else ():
            words = count_words(question.item.text)
            yield from question.trials(self.asking, {"asked": "score", "words": words, **ratings})
        if "pairs" in self.asks:
            yield from ordered_pairs(self, dataset, _columns)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of scores, and of comparisons with each prompt."""
        scores, comparisons = self._apart(cell)
        if len(scores.trials):
            yield from self._of_scores(scores)
        for at, part in comparisons:
            yield from self._of_pairs(part, at)

    def _of_scores(self, cell: Cell) -> Iterator[Part]:
        """Yield slope and excess, and the correlations of judge and humans."""
        keep = ("human", "words", *kept_columns(cell.trials))
        items = _with_doublings(cell.items(keep))
        planned = _with_doublings(replace(cell, trials=with_missing_scores(cell.trials)).items(keep))
        level = level_of(planned, self.level)
        slope = partial(self._slope, items, level == "context", planned=planned)
        excess = partial(self._excess, items, level)
        yield Part({"verbosity_slope": slope, "verbosity_excess": excess}, items, {"level": level})
        yield Part({"label_mass": label_mass(cell.trials)}, items)
        for scorer in ("judge", "human"):
            correlation = partial(self._correlation, items, scorer, level)
            yield Part({"verbosity_correlation": correlation}, items, {"level": level, "scorer": scorer})

    def _of_pairs(self, cell: Cell, at: Mapping[str, Any]) -> Iterator[Part]:
        """Yield the log odds per doubling of words, and how often the longer text wins."""
        counted = {name: cell.trials[name].astype(float) for name in ("words", "opponent_words")}
        logs = {name.replace("words", "doublings"): np.log2(n.where(n > 0)) for name, n in counted.items()}
        trials = cell.trials.assign(**counted, **logs)
        yield from self._per_doubling(replace(cell, trials=trials), "verbosity_logit", at)
        from_longer = feature_probe.from_longer_side(trials)
        yield Part({"longer_wins_excess": partial(feature_probe.win_excess, from_longer)}, from_longer, at)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select scores and pairs with known lengths and human judgements."""
        scores = rated(trials)
        pairs = paired(trials)
        known = (pairs["words"] > 0) & (pairs["opponent_words"] > 0) & pairs["human_gap"].notna()
        return self._accepted(pd.concat([by_configuration(scores[scores["words"] > 0]), pairs[known]]))


def _columns(item: Item, attribute: str, ratings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the columns of a text: its word count and human scores."""
    return {"words": count_words(item.text), "human": item.human[attribute], **ratings}


def _with_doublings(items: pd.DataFrame) -> pd.DataFrame:
    items["doublings"] = np.log2(items["words"].to_numpy(float))
    return items
