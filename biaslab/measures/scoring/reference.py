"""Overlap with a reference text: ROUGE (Lin 2004), BLEU (Papineni et al. 2002) and chrF (Popović 2015)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from statistics import fmean
from typing import Literal, get_args

import pandas as pd

from biaslab.core.checks import require_some_of
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.scorer import scored

Metric = Literal["ROUGE-1", "ROUGE-2", "ROUGE-L", "BLEU", "chrF"]
Against = Literal["reference", "source"]
_PACKAGES = {"ROUGE": "rouge-score", "BLEU": "sacrebleu", "chrF": "sacrebleu"}


def reference_scores(
    dataset: Dataset,
    metrics: Sequence[Metric] = get_args(Metric),
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

    Examples
    --------
    >>> import biaslab as bl
    >>> scored = reference_scores(bl.load_dataset("graded", limit=2), ["ROUGE-1"], ["relevance"])
    >>> scored["scorer"].iloc[0], bool(scored["score"].between(0, 1).all())
    ('ROUGE-1 (reference)', True)
    """
    known = get_args(Metric)
    require_some_of("metrics", metrics, known)
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
        raise InputError("dataset", problem, f"a {where} for every candidate")
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
