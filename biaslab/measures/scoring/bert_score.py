"""BERTScore: greedy matching of contextual embeddings (Zhang et al. 2020, arXiv 1904.09675, §3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Floats, Ints
from biaslab.core.checks import require_one_of
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.encoder import Encoder, load_encoder
from biaslab.measures.scoring.reference import Against, compared_with
from biaslab.measures.scoring.scorer import scored

Measure = Literal["precision", "recall", "F1"]


class Match(NamedTuple):
    """Precision, recall and F1 of one candidate; NaN if no token of a text has weight."""

    precision: float
    recall: float
    f1: float


def bert_scores(
    dataset: Dataset,
    encoder: Encoder | None = None,
    measure: Measure = "F1",
    attributes: Sequence[str] | None = None,
    against: Against | None = None,
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
    against : {"reference", "source"}, optional
        By default the reference if every candidate of the data set has one, else the source.
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
    require_one_of("measure", measure, get_args(Measure))
    dataset.require_attributes(attributes)
    where, compared = compared_with(dataset, against)
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
