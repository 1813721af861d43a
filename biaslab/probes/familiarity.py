"""Familiarity bias: does a judge prefer text that a language model finds likely? (Stureborg et al. 2024, §3.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError, TrialsError
from biaslab.core.interfaces import Nearest
from biaslab.core.metrics import Figure, Metric, planted
from biaslab.core.requests import Likelihood, Request
from biaslab.core.schema import Dataset
from biaslab.core.trials import Scalar, Trial
from biaslab.measures.scoring.pointwise import Item
from biaslab.probes.base import by_configuration
from biaslab.probes.base.comparisons import ordered_pairs
from biaslab.probes.base.feature_probe import (
    WITH_BENDS,
    PairFeatureProbe,
    add_perplexities,
    kept_columns,
    with_missing_scores,
)
from biaslab.probes.base.probe import LABEL_MASS, Accepted, Cell, Metrics, Part, label_mass, paired, rated, settle
from biaslab.probes.base.questions import ScoreProbe
from biaslab.stats.blocks import CELL, ITEM, usable
from biaslab.stats.correlation import Level
from biaslab.stats.frame import require_columns
from biaslab.stats.joint_jackknife import suppressed_data_warnings
from biaslab.stats.ratio import Ratio

__all__ = ["Familiarity", "log_perplexities"]

#: Column of trials with the given log perplexity of each text.
GIVEN = {"candidate": "log_perplexity", "source": "source_log_perplexity"}
#: Column of trials and estimates with the source of given perplexities.
READER = "likelihood_judge"


def widest_range(estimates: pd.DataFrame) -> str | None:
    """Say by what factor the mean perplexity differs between scores, for each scorer; None without estimates."""
    rows = estimates[(estimates["metric"] == "mean_perplexity") & estimates["estimate"].notna()]
    means = rows.groupby(["scorer", "attribute"])["estimate"]
    widest = (means.max() / means.min()).groupby("scorer").max()
    names = {"human": "reference", "judge": "judge"}
    factors = " and ".join(f"{times:.1f} between {names[str(who)]} scores" for who, times in widest.items())
    return f"Mean perplexity differs by a factor of up to {factors}" if factors else None


_ADVICE = "compare only scores of texts with similar perplexity, or adjust for it"
_ADVICE_ON_PAIRS = "compare only texts with similar perplexity, or adjust win rates for it"
_OF_SCORES = ("familiarity_slope", "familiarity_excess", "familiarity_correlation")
_CORRELATION: dict[str, Any] = {"unit": "Spearman's ρ", "null": 0.0, "form": "score"}
_BY_SCORE: dict[str, Any] = {"x": "score", "hue": "scorer", "col": "attribute", "log": True}
_CALIBRATED: dict[str, Any] = {"sources": False, "reliability": 1.0}


@dataclass(frozen=True)
class Familiarity(PairFeatureProbe):
    """Familiarity bias: preference for text that a language model finds likely, beyond that of human raters.

    Every candidate is scored, or compared with every other of its context in both orders. Its perplexity is computed
    from the judge's own token probabilities of the bare text, without prompt and chat template: exp(−mean log P(token |
    previous tokens)). It depends on the tokenizer, so compare texts under one judge, not numbers between judges.
    Further parameters, and the treatment of error in human scores: `biaslab.probes.base.PairFeatureProbe`.

    Parameters
    ----------
    answer : {"distribution", "text", "score"}
        Use the exact mean over the scale's labels, or generate text and parse the score; or ask an evaluator, which
        takes no prompt, for one number (requires ``log_perplexity``).
    sources : bool
        Also read the source documents.
    asks : {"both", "likelihoods"} or sequence of {"pairs", "scores"}
        Ask one judge for scores and likelihoods, or only for likelihoods (see `log_perplexities`). Or for likelihoods
        and comparisons in both orders, scores, or both; evaluators support only one of them.
    log_perplexity : mapping of str to float, optional
        Log perplexity of every text, in nats per token; NaN if it has none. Then likelihoods are not asked for: use
        this for judges without `Likelihood`, or for perplexities from another model.
    likelihood_judge : str
        With ``log_perplexity``: its source, recorded in the estimates.
    humans : {"means", "single"}
        For ``mean_perplexity``: an item counts at its rounded mean human score, or in equal parts at each annotator's
        rating, as in Table 1. The same if there is one rating per item.
    level : {"context", "dataset"}
        Level of correlations with the candidates' perplexity: averaged within contexts, or pooled.

    Raises
    ------
    InputError
        If a value is out of range. From `design`, if ``log_perplexity`` lacks a text.

    Notes
    -----
    A trial's ``asked`` says what its ``value`` is: "score", "label" (the probability of the label in column ``label``),
    "pair" (the probability that the candidate shown first wins), or the log perplexity of the "candidate" or "source",
    in nats. There is one estimate for each judge × data set ×
    attribute, over items with both score and perplexity:

    - ``familiarity_slope`` — standard deviations of the judge's score per nat of log perplexity, at equal human score.
      Null 0; below: familiarity is rewarded. Primary. Regression of score on log perplexity, human score and context
      intercepts.
    - ``familiarity_excess`` — Spearman's ρ of score and log perplexity, the judge's minus the humans', on the same
      items. −2 to 2, null 0; below: the judge prefers familiar text more than humans do. Primary. Noise alone moves a
      judge's correlation towards 0, so read it together with the slope.
    - ``familiarity_correlation`` — the two correlations themselves (column ``scorer``), at ``level``. −1 to 1, null 0;
      below: likely text scores high. Humans may prefer it too, because errors are unlikely.
    - ``mean_perplexity`` — mean perplexity of the items with a given score (columns ``scorer``, ``score``). At least 1.
      Table 1, Fig. 2. With distributions, an item counts at each label with its probability (the limit of sampled
      scores); mean human scores are rounded, halves up (but see ``humans``).
    - ``score_share`` — share of items with that score. 0–1.
    - ``source_correlation``, ``source_excess``, ``source_slope``, ``source_perplexity`` — the same with the perplexity
      of the source. It is constant within a context: the correlation is pooled, the regression has no context
      intercepts.
    - ``familiarity_logit`` — log odds that a text with twice its opponent's perplexity wins, at equal human score. Null
      0; below: familiarity is rewarded. Primary. Like ``verbosity_logit`` of `Verbosity` for words.
    - ``label_mass`` — total probability of all labels. 0–1.

    **Inference.** Slopes, logits, and excess within contexts: Student's t over contexts. Everything else: bootstrap or
    jackknife intervals and sign-flip tests over contexts; ``method`` says which.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Familiarity(attributes=["coherence"], sources=False, reliability=1.0)
    >>> judge = bl.SimulatedJudge(data, quality=0.5, familiarity=-1.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["familiarity_slope"])
    >>> bool(estimates.loc[0, "ci_high"] < 0)
    True
    """

    name = "familiarity"
    feature = "log_perplexity"
    conditions = ("likelihood_judge", "scorer", "level", "score", "template", "configuration")
    columns = (*ScoreProbe.columns, "asked", "label_mass")
    needs = "log perplexities of the judged texts"
    metrics = (
        Metric("familiarity_correlation", "correlation of score and log perplexity", **_CORRELATION),
        Metric(
            "familiarity_excess",
            "ρ of the judge minus ρ of the reference",
            "Spearman's ρ",
            null=0.0,
            above="prefers unfamiliar text more than the reference does",
            below="prefers familiar text more than the reference does",
            advice=_ADVICE,
            use="comparing familiar with unfamiliar texts",
            matters=0.1,
            form="score",
            primary=True,
            calibration=planted({"familiarity": -2.3}, _CALIBRATED),
        ),
        Metric(
            "familiarity_slope",
            "score per nat of log perplexity",
            "SD",
            null=0.0,
            above="scores unfamiliar text higher at equal reference score",
            below="scores familiar text higher at equal reference score",
            advice=_ADVICE,
            use="comparing familiar with unfamiliar texts",
            matters=0.2,
            form="score",
            primary=True,
            calibration=planted({"familiarity": -1.1}, _CALIBRATED, conservative=WITH_BENDS),
        ),
        Metric(
            "familiarity_logit",
            "a text wins per doubling of perplexity",
            "logits",
            null=0.0,
            above="prefers the less familiar of two texts at equal reference score",
            below="prefers the more familiar of two texts at equal reference score",
            advice=_ADVICE_ON_PAIRS,
            use="comparing familiar with unfamiliar texts",
            matters=0.2,
            form="pair",
            primary=True,
            calibration=planted(
                {"familiarity": -1.1}, {"asks": ("pairs",), "reliability": 1.0}, conservative=("text", "sampled:3")
            ),
        ),
        Metric("mean_perplexity", "mean perplexity", "per token", form="score"),
        Metric("score_share", "items with this score", "share", form="score"),
        LABEL_MASS,
        Metric("source_correlation", "correlation of score and the source's log perplexity", **_CORRELATION),
        Metric("source_excess", "ρ of judge minus reference, source", **_CORRELATION),
        Metric("source_slope", "score per nat of the source's log perplexity", "SD", null=0.0, form="score"),
        Metric("source_perplexity", "mean perplexity of the source", "per token", form="score"),
    )
    figures = (
        Figure("mean_perplexity", "mean_perplexity", **_BY_SCORE, says=widest_range),
        Figure("scores", _OF_SCORES, by="attribute", hue="scorer", col="metric"),
        Figure("pairs", "familiarity_logit", by="attribute"),
        Figure("source_perplexity", "source_perplexity", **_BY_SCORE),
        Figure("source_correlation", "source_correlation", by="attribute", hue="scorer"),
    )

    sources: bool = True
    asks: Literal["both", "likelihoods"] | Sequence[Literal["pairs", "scores"]] = field(  # type: ignore[assignment]
        default="both", kw_only=True
    )
    log_perplexity: Mapping[str, float] | None = field(default=None, repr=False)
    likelihood_judge: str = "given"
    level: Literal["context", "dataset"] = "context"
    humans: Literal["means", "single"] = "means"

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in (self.log_perplexity or {}).values():
            if value < 0 or math.isinf(value):
                raise InputError("log_perplexity", value, "finite numbers of at least 0, or NaN if a text has none")
        if self.log_perplexity is not None and self.asks == "likelihoods":
            raise InputError("asks", self.asks, "both, because log_perplexity is given")

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms to ask for in addition to likelihoods."""
        if isinstance(self.asks, str):
            return ("scores",) if self.asks == "both" else ()
        return tuple(self.asks)

    def take_protocol(self) -> None:
        """Adopt the protocol's settings, and ask for no form but the protocol's."""
        asks, forms = self.asks, set(self.forms)
        super().take_protocol()
        if forms <= set(self.forms):
            settle(self, {"asks": asks})

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each candidate's scores, its likelihood and its source's, and all pairs."""
        for question, ratings in self._rated_questions(dataset):
            item = question.item
            if "scores" in self.forms:
                columns = self._known(item) | ratings
                yield from question.trials(self.asking, {"asked": "score", **columns})
                if self.answer == "distribution":
                    yield from question.label_trials({"asked": "label", **columns})
            for text, shown in self._texts(item).items() if self.log_perplexity is None else ():
                condition = {"asked": text, "human": item.human[question.attribute], **ratings}
                yield self._likelihood_trial(question, shown, condition, own=text == "candidate")
        if "pairs" in self.forms:
            yield from ordered_pairs(self, dataset, self._columns)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: the embedded model's perplexity, text instead of label probabilities."""
        if isinstance(refused, Likelihood) and self.forms:
            words = "uses the perplexity of the embedded model instead of the judge's own"
            sources = self.sources and "scores" in self.forms
            return Nearest(self, words, reads=replace(self, asks="likelihoods", sources=sources))
        return super().nearest(refused)

    def given(self, read: pd.DataFrame, dataset: Dataset) -> Familiarity:
        """Return this probe with the log perplexities from another model's trials."""
        reader = str(read["judge"].iloc[0])
        return replace(self, log_perplexity=log_perplexities(read, dataset), likelihood_judge=reader)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics for the perplexity of candidates and, if asked for, of sources.

        Raises
        ------
        InputError
            If a named metric needs the perplexity of a text that was not asked for.
        TrialsError
            If no score was asked for.
        """
        whole, whose = replace(cell, trials=add_perplexities(cell.trials, "candidate")), {READER: self._reader(cell)}
        compared = False
        for at, pairs in self._apart(whole)[1]:
            compared, doublings = True, {}
            for side in ("", "opponent_"):
                doublings[f"{side}doublings"] = pairs.trials[f"{side}log_perplexity"].astype(float) / math.log(2)
            part = replace(pairs, trials=pairs.trials.assign(**doublings))
            yield from self._per_doubling(part, "familiarity_logit", whose | at)
        cell = self._apart(cell)[0]
        asked = cell.trials["asked"]
        if not (asked == "score").any():
            if compared:
                return
            remedy = "pass log_perplexities(trials, dataset) to a probe that asks for scores"
            raise TrialsError("asked", sorted(set(asked)), "score or pair, for the judgements to explain", remedy)
        trials = with_given(cell.trials)
        for text in GIVEN:
            wanted = cell.wants(*(metric.name for metric in self.metrics if _text_of(metric.name) == text))
            if wanted and (not cell.everything or (trials["asked"] == text).any()):
                keep, perplexity = ("human", *kept_columns(trials)), {text: "log_perplexity"}
                blocks = cell.blocks("asked", ["score", text], keep, trials, text).rename(columns=perplexity)
                with suppressed_data_warnings():  # already shown
                    planned = cell.blocks("asked", ["score", text], keep, with_missing_scores(trials), text)
                planned = planned.rename(columns=perplexity)
                for metrics, condition in self._of_text(text, cell, trials, blocks, planned):
                    yield Part(metrics, blocks, whose | condition)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select scores of texts with log perplexities and human scores."""
        scores, pairs = rated(trials), paired(trials)
        if "log_perplexity" not in scores:
            return self._accepted(scores.iloc[:0])
        read = scores[scores["log_perplexity"].notna()]
        known = pairs.reindex(columns=["log_perplexity", "opponent_log_perplexity", "human_gap"]).notna().all(axis=1)
        both = [by_configuration(read).assign(asked="score"), pairs[known].assign(asked="pair")]
        return self._accepted(pd.concat(both))

    def _columns(self, item: Item, attribute: str, ratings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Return the columns of a compared text: its perplexity, if given, and its human scores."""
        known = {name: value for name, value in self._known(item).items() if name in (GIVEN["candidate"], READER)}
        return {**known, "human": item.human[attribute], **ratings}

    def _known(self, item: Item) -> dict[str, Scalar]:
        """Return the columns of given perplexities; empty if likelihoods are asked for."""
        if self.log_perplexity is None:
            return {}
        for text, shown in self._texts(item).items():
            if shown not in self.log_perplexity:
                which = f"log_perplexity of the {text} of context {item.context_id!r}, candidate {item.candidate_id!r}"
                remedy = "collect Familiarity(asks='likelihoods') on this data set and use log_perplexities"
                raise InputError(which, None, "a number for every text", remedy)
        columns = {GIVEN[text]: self.log_perplexity[shown] for text, shown in self._texts(item).items()}
        return {**columns, READER: self.likelihood_judge}

    def _reader(self, cell: Cell) -> object:
        """Return the source of a cell's perplexities."""
        if "log_perplexity" not in cell.trials:
            return cell.where["judge"]
        return cell.trials[READER].iloc[0] if READER in cell.trials else self.likelihood_judge  # as in the atlas

    def _texts(self, item: Item) -> dict[str, str]:
        with_source = self.sources and item.context.strip() and self.forms != ("pairs",)
        return {"candidate": item.text} | ({"source": item.context} if with_source else {})

    def _of_text(
        self, text: str, cell: Cell, trials: pd.DataFrame, blocks: pd.DataFrame, planned: pd.DataFrame
    ) -> Iterator[tuple[Metrics, dict[str, Any]]]:
        """Yield the metrics of one text with their conditions."""
        own = text == "candidate"
        name = "familiarity" if own else "source"
        level: Level = self.level if own else "dataset"
        yield {f"{name}_slope": partial(self._slope, blocks, own, planned=planned)}, {}
        yield {f"{name}_excess": lambda: self._excess(blocks, level)}, {"level": level}
        if own:
            yield {"label_mass": label_mass(trials[trials["asked"] == "score"])}, {}
        for scorer in ("judge", "human"):
            correlation = partial(self._correlation, blocks, scorer, level)
            yield {f"{name}_correlation": correlation}, {"scorer": scorer, "level": level}
        perplexity_of = "mean_perplexity" if own else "source_perplexity"
        for scorer in ("judge", "human") if cell.wants(perplexity_of, "score_share") else ():
            shares = _shares_of_judge(trials, blocks) if scorer == "judge" else _shares_of_humans(blocks, self.humans)
            for score, perplexity, share in _by_score(shares):
                metrics: Metrics = {perplexity_of: perplexity}
                yield metrics | ({"score_share": share} if own else {}), {"scorer": scorer, "score": score}


def _text_of(metric: str) -> str:
    """Return which text's perplexity a metric is about."""
    return "source" if metric.startswith("source") else "candidate"


def log_perplexities(trials: pd.DataFrame, dataset: Dataset) -> dict[str, float]:
    """Return the log perplexity of every text, to use with another judge's scores in `biaslab.probes.Familiarity`.

    Parameters
    ----------
    trials : pandas.DataFrame
        Collected with a `biaslab.probes.Familiarity` that asks for likelihoods.
    dataset : Dataset
        The data set of these trials.

    Returns
    -------
    dict of str to float
        In nats per token, by text; NaN if the judge gave none.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> reader, judge = bl.SimulatedJudge(data), bl.SimulatedJudge(data, familiarity=-1.0)
    >>> read = bl.collect(bl.probes.Familiarity(asks="likelihoods"), reader, data, progress=False)
    >>> probe = bl.probes.Familiarity(log_perplexity=log_perplexities(read, data), likelihood_judge=reader.id)
    >>> set(bl.collect(probe, judge, data, progress=False)["asked"]) == {"score", "label"}
    True
    """
    require_columns(trials, (*ITEM, "asked", "value"), "trials")
    read = trials[trials["asked"].isin(list(GIVEN))].merge(dataset.candidates, on=list(ITEM))
    texts = read["text"].where(read["asked"] == "candidate", read["context"])
    return dict(zip(texts, read["value"].astype(float), strict=True))


def with_given(trials: pd.DataFrame) -> pd.DataFrame:
    """Turn given perplexities into trials, as if a judge had answered them."""
    scores = trials[trials["asked"] == "score"].drop_duplicates([*CELL, *ITEM])
    given = [(text, name) for text, name in GIVEN.items() if name in trials and not (trials["asked"] == text).any()]
    how: dict[str, Any] = {"status": "ok", "label_mass": np.nan}
    likelihoods = [scores.assign(asked=text, value=scores[name], **how) for text, name in given]
    return pd.concat([trials, *likelihoods], ignore_index=True) if likelihoods else trials


def _shares_of_judge(trials: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each item at each of the judge's scores: one row per label or per sample."""
    scores = usable(trials[trials["asked"] == "label"])
    if len(scores):
        scores = scores.assign(score=scores["label"], share=scores["value"])
    else:
        scores = usable(trials[trials["asked"] == "score"])
        samples = scores.groupby(list(ITEM))["value"].transform("size")
        scores = scores.assign(score=scores["value"], share=1 / samples)
    return scores[[*ITEM, "score", "share"]].merge(blocks[[*ITEM, "log_perplexity"]], on=list(ITEM))


def _shares_of_humans(blocks: pd.DataFrame, humans: Literal["means", "single"]) -> pd.DataFrame:
    """Return each item at its mean human score (rounded, halves up), or in equal parts at its single ratings."""
    rated = blocks[blocks["human"].notna()]
    if humans == "single" and "ratings" in rated:
        ratings = rated["ratings"].fillna(rated["human"].map(repr)).str.split()
        parts = rated.assign(score=ratings, share=1 / ratings.map(len)).explode("score")
        return parts.astype({"score": float})
    return rated.assign(score=np.floor(rated["human"] + 0.5), share=1.0)


def _by_score(shares: pd.DataFrame) -> Iterator[tuple[float, Ratio, Ratio]]:
    """Yield each score, the mean perplexity of the items with it, and their share."""
    share, context = shares["share"].to_numpy(float), shares["context_id"]
    perplexity = np.exp(shares["log_perplexity"].to_numpy(float))
    for score in sorted(shares["score"].unique()):
        weight = share * (shares["score"].to_numpy(float) == score)
        mean = Ratio(context, weight * perplexity, weight)
        yield float(score), mean, Ratio(context, weight, share, bounds=(0.0, 1.0))
