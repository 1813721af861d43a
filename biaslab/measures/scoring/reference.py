"""Similarity to a reference text: ROUGE, BLEU, chrF and BERTScore."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from statistics import fmean
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Floats, Ints
from biaslab.core.checks import require_extra, require_one_of, require_some_of
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.encoder import TokenEmbedder, load_encoder
from biaslab.measures.scoring.scorers import scored

ReferenceMetric = Literal["ROUGE-1", "ROUGE-2", "ROUGE-L", "BLEU", "chrF"]
Against = Literal["reference", "source"]
_PACKAGES = {"ROUGE": "rouge-score", "BLEU": "sacrebleu", "chrF": "sacrebleu"}


def reference_scores(
    dataset: Dataset,
    metrics: Sequence[ReferenceMetric] = get_args(ReferenceMetric),
    attributes: Sequence[str] | None = None,
    against: Against | None = None,
) -> pd.DataFrame:
    """Score every candidate by its overlap with its references or, without any, with its source.

    Parameters
    ----------
    dataset : Dataset
        The data set to score. Variables called ``reference_2``, ``reference_3`` … are further references, as in
        SummEval: ROUGE is then the mean over references (ECT's Table 1), BLEU and chrF treat several as sacrebleu
        does.
    metrics : sequence of {"ROUGE-1", "ROUGE-2", "ROUGE-L", "BLEU", "chrF"}
        ROUGE is the F1 over stemmed words, 0-1 (rouge-score). BLEU is sentence-level, with effective order and
        exponential smoothing; chrF uses character 6-grams and β = 2; both 0-100 (sacrebleu).
    attributes : sequence of str, optional
        Attributes that humans judged; by default all of the data set. The metrics ignore them: a candidate has the
        same score for each.
    against : {"reference", "source"}, optional
        By default the reference if every candidate of the data set has one, else the source.

    Returns
    -------
    pandas.DataFrame
        The scores frame. ``scorer`` includes the comparison text, as in ``"ROUGE-1 (reference)"``; ``judge`` is the
        package.

    Raises
    ------
    InputError
        If a metric or an attribute is unknown, or a candidate has no text to compare it with.
    MissingDependencyError
        Without the packages of the extra text-metrics.

    Examples
    --------
    >>> import biaslab as bl
    >>> scored = reference_scores(bl.load_dataset("graded", limit=2), ["ROUGE-1"], ["relevance"])
    >>> scored["scorer"].iloc[0], bool(scored["score"].between(0, 1).all())
    ('ROUGE-1 (reference)', True)
    """
    known = get_args(ReferenceMetric)
    require_some_of("metrics", metrics, known)
    require_extra("text-metrics", metrics[0])
    dataset.require_attributes(attributes)
    where, compared = compared_with(dataset, against)
    texts = dataset.candidates["text"]
    further = [name for name in dataset.variables if _FURTHER.fullmatch(name)] if where == "reference" else []
    others = zip(compared, *(dataset.candidates[name] for name in further), strict=True)
    pairs = [(text, [other for other in each if other.strip()]) for text, each in zip(texts, others, strict=True)]
    parts = []
    for name in metrics:
        package = _PACKAGES[name.partition("-")[0]]
        judge = f"{package} {version(package)}"
        values = [_score(name)(text, references) for text, references in pairs]
        parts.append(scored(dataset, f"{name} ({where})", judge, values, attributes))
    return pd.concat(parts, ignore_index=True)


def compared_with(dataset: Dataset, against: Against | None = None) -> tuple[Against, list[str]]:
    """Return "reference" or "source", whichever candidates are compared with, and that text for each candidate.

    Raises
    ------
    InputError
        If ``against`` is neither, or a candidate has no such text.
    """
    if against is not None and against not in get_args(Against):
        raise InputError("against", against, "reference, source, or None to choose automatically")
    blank = {name: dataset.candidates[column].str.strip() == "" for name, column in _COLUMNS.items()}
    where: Against = against or ("source" if blank["reference"].any() else "reference")
    if blank[where].any():
        rows = dataset.candidates.loc[blank[where], ["context_id", "candidate_id"]]
        problem = f"context {rows.iloc[0, 0]!r}, candidate {rows.iloc[0, 1]!r} has no {where}"
        raise InputError.plain(f"{problem}; every candidate needs one")
    return where, dataset.candidates[_COLUMNS[where]].tolist()


_FURTHER = re.compile(r"reference_\d+")
_COLUMNS: dict[Against, str] = {"reference": "reference", "source": "context"}


@cache
def _score(metric: str) -> Callable[[str, list[str]], float]:
    """Return the function that scores a candidate against other texts."""
    if metric.startswith("ROUGE"):
        from rouge_score.rouge_scorer import RougeScorer
        from rouge_score.tokenizers import DefaultTokenizer

        kind, tokenizer = metric.replace("ROUGE-", "rouge"), DefaultTokenizer(use_stemmer=True)
        tokenizer.tokenize = lru_cache(maxsize=4096)(tokenizer.tokenize)  # stemming takes most of the time
        rouge = RougeScorer([kind], tokenizer=tokenizer)
        return lambda text, others: fmean(rouge.score(other, text)[kind].fmeasure for other in others)
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    sacre = BLEU(effective_order=True) if metric == "BLEU" else CHRF()
    return lambda text, others: float(sacre.sentence_score(text, others).score)


BertScoreMeasure = Literal["precision", "recall", "F1"]


class Match(NamedTuple):
    """Precision, recall and F1 of one candidate; NaN if no token of a text has weight."""

    precision: float
    recall: float
    f1: float


def bert_scores(
    dataset: Dataset,
    encoder: TokenEmbedder | None = None,
    measure: BertScoreMeasure = "F1",
    attributes: Sequence[str] | None = None,
    idf: bool = False,
) -> pd.DataFrame:
    """Score every candidate by how well its tokens match its reference or, without one, its source.

    Parameters
    ----------
    dataset : Dataset
        The data set to score.
    encoder : Encoder, optional
        Source of the embeddings. By default the hidden states of the embedded causal model: enough to demonstrate the
        method, but no substitute for an encoder such as RoBERTa, whose tokens also see the text to their right.
    measure : {"precision", "recall", "F1"}
        Which of the three to use as the score.
    attributes : sequence of str, optional
        Attributes that humans judged; by default all of the data set. A candidate has the same score for each.
    idf : bool
        Weight each token by its rarity among the comparison texts, −log((n + 1) / (N + 1)) if n of N distinct texts
        contain it; by default weights are equal.

    Returns
    -------
    pandas.DataFrame
        The scores frame. ``scorer`` names the measure and the comparison text, ``judge`` the encoder and layer.
        Cosines, −1 to 1, without the baseline rescaling of the paper's §A, which does not affect rankings.

    Raises
    ------
    InputError
        If the measure or an attribute is unknown, or a candidate has no text to compare it with.
    ModelLoadError
        If the embedded model is not installed.

    Examples
    --------
    >>> import biaslab as bl
    >>> scored = bert_scores(bl.load_dataset("graded", limit=2))  # doctest: +SKIP
    """
    require_one_of("measure", measure, get_args(BertScoreMeasure))
    dataset.require_attributes(attributes)
    where, compared = compared_with(dataset)
    encoder = encoder or load_encoder()
    texts = list(dict.fromkeys([*dataset.candidates["text"], *compared]))
    encoded = dict(zip(texts, encoder.encode(texts), strict=True))
    others = [encoded[text].ids for text in dict.fromkeys(compared)]
    rarity = _rarity(others) if idf else None
    values = []
    for text, other in zip(dataset.candidates["text"], compared, strict=True):
        one, two = encoded[text], encoded[other]
        weights = [np.ones(len(each.ids)) if rarity is None else rarity(each.ids) for each in (one, two)]
        values.append(getattr(match(one.vectors, two.vectors, *weights), measure.lower()))
    name = f"BERTScore {measure}{', idf' if idf else ''} ({where})"
    return scored(dataset, name, encoder.name, values, attributes)


def match(
    candidate: ArrayLike,
    reference: ArrayLike,
    candidate_weights: ArrayLike | None = None,
    reference_weights: ArrayLike | None = None,
) -> Match:
    """Match every token with the most similar token of the other text.

    Parameters
    ----------
    candidate, reference : array_like, shape (tokens, dimensions)
        Vectors of length 1.
    candidate_weights, reference_weights : array_like, shape (tokens,), optional
        Weights of the tokens in the means; equal by default.

    Examples
    --------
    >>> matched = match([[1, 0], [0, 1]], [[1, 0]])
    >>> matched.precision, matched.recall, round(matched.f1, 3)
    (0.5, 1.0, 0.667)
    """
    one, two = np.asarray(candidate, float), np.asarray(reference, float)
    if not len(one) or not len(two):
        return Match(math.nan, math.nan, math.nan)
    cosines = one @ two.T
    precision = _mean(cosines.max(axis=1), candidate_weights)
    recall = _mean(cosines.max(axis=0), reference_weights)
    total = precision + recall
    return Match(precision, recall, 2 * precision * recall / total if total else math.nan)


def _mean(values: Floats, weights: ArrayLike | None) -> float:
    shares = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    return float(values @ shares / shares.sum()) if shares.sum() > 0 else math.nan


def _rarity(texts: Sequence[Ints]) -> Callable[[Ints], Floats]:
    """Return a function that maps tokens to inverse document frequency, with add-one smoothing for unseen tokens."""
    having = Counter(token for ids in texts for token in set(ids.tolist()))

    def weigh(ids: Ints) -> Floats:
        seen = np.array([having[token] for token in ids.tolist()], float)
        return np.asarray(-np.log((seen + 1) / (len(texts) + 1)), float)

    return weigh
