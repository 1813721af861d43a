"""Compare ways to write or choose texts by reward, overlap, length or familiarity."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.stats import Ratio, Resampling, estimate_rows, estimates_frame


@checked
def compare_texts(
    ways: Mapping[str, pd.DataFrame],
    measures: Sequence[str],
    baseline: str,
    *,
    study: str,
    condition: str = "written",
    primary: Sequence[str] = (),
    resampling: Resampling | None = None,
    **cell: str,
) -> pd.DataFrame:
    """Estimate the mean of each measure by way of writing, and its change against a baseline, paired by context.

    Parameters
    ----------
    ways : mapping of str to pandas.DataFrame
        By name: one row a text with ``context_id`` and the measures. Measures are averaged within contexts first.
    measures : sequence of str
        Columns of the frames; missing values do not enter.
    baseline : str
        One of the ways; contexts that it lacks do not enter the changes.
    study : str
        What stands in the column ``probe``.
    condition : str
        Name of the column that says the way.
    primary : sequence of str
        Metrics that are tested together, such as ``"reward_change"``.
    resampling : Resampling, optional
        Of the estimates.
    **cell
        Columns that are alike in all rows, such as ``judge`` and ``dataset``.

    Returns
    -------
    pandas.DataFrame
        An estimates frame: per way the measures and, but for the baseline, ``<measure>_change`` with a test of 0.

    Raises
    ------
    InputError
        If the baseline is none of the ways.

    Examples
    --------
    >>> one = pd.DataFrame({"context_id": ["a", "a", "b"], "words": [4.0, 6.0, 9.0]})
    >>> estimates = compare_texts({"before": one, "after": one.assign(words=10.0)}, ["words"], "before", study="length")
    >>> estimates[["written", "metric", "estimate"]].to_numpy().tolist()
    [['before', 'words', 7.0], ['after', 'words', 10.0], ['after', 'words_change', 3.0]]
    """
    if baseline not in ways:
        raise InputError("baseline", baseline, f"one of {', '.join(ways)}")
    how = resampling or Resampling()
    means = {name: texts.groupby("context_id")[list(measures)].mean() for name, texts in ways.items()}
    rows = []
    for name, here in means.items():
        estimates = {measure: _mean(here[measure]).estimate(how) for measure in measures}
        if name != baseline:
            changes = (here - means[baseline]).loc[here.index.intersection(means[baseline].index)]
            estimates |= {f"{measure}_change": _mean(changes[measure], 0.0).estimate(how) for measure in measures}
        rows += estimate_rows(estimates, cell | {condition: name}, how, len(ways[name]), 0)
    return estimates_frame(rows, study, primary, [condition])


def _mean(values: pd.Series, null: float | None = None) -> Ratio:
    known = values.dropna()
    return Ratio(known.index.to_numpy(), known.to_numpy(float), np.ones(len(known)), null=null)


@checked
def best_of_n(
    texts: pd.DataFrame,
    measures: Sequence[str],
    by: str = "reward",
    counts: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the expected measures of the text with the greatest reward among n, for n from 1 to a context's texts.

    The n texts are drawn from a context's texts without putting back, and the expectation over all such draws is exact:
    with N texts ordered by reward, the i-th greatest is the best of a draw with probability C(N − i, n − 1) / C(N, n).
    Texts with equal rewards share it. Where reward and another measure part as n grows, the reward is over-optimised
    (Gao et al. 2023, *Scaling Laws for Reward Model Overoptimization*).

    Parameters
    ----------
    texts : pandas.DataFrame
        One row a text with ``context_id``, the measure that chooses, and the measures that are asked for.
    measures : sequence of str
        Columns of numbers, such as a score by somebody else.
    by : str
        The column that chooses.
    counts : iterable of int, optional
        Values of n; by default 1, 2, 4, … and the number of texts of the context that has the fewest. Greater ones than
        that are left out.

    Returns
    -------
    pandas.DataFrame
        One row a context and n: ``context_id, n`` and the measures.

    Raises
    ------
    InputError
        If no count is from 1 to that number.

    Examples
    --------
    >>> texts = pd.DataFrame({"context_id": ["a"] * 3, "reward": [1.0, 2.0, 3.0], "words": [5.0, 9.0, 1.0]})
    >>> best_of_n(texts, ["reward", "words"], counts=[1, 2, 3]).round(2).to_numpy().tolist()
    [['a', 1, 2.0, 5.0], ['a', 2, 2.67, 3.67], ['a', 3, 3.0, 1.0]]
    """
    fewest = int(texts.groupby("context_id").size().min())
    wanted = sorted({2**k for k in range(fewest.bit_length())} | {fewest}) if counts is None else list(counts)
    known = [n for n in wanted if 1 <= n <= fewest]
    if not known:
        raise InputError("counts", wanted, f"at least one number from 1 to {fewest}, the texts of a context")
    rows = []
    for name, part in texts.groupby("context_id", sort=False):
        ordered = part.groupby(by)[list(measures)].mean()  # of equal rewards the mean; from the least reward up
        sizes = part.groupby(by).size().cumsum().to_numpy()
        values = ordered.assign(**{by: ordered.index})[list(measures)].to_numpy(float)
        for n in known:
            below = np.array([math.comb(int(size), n) for size in (0, *sizes)], float)
            rows.append([name, n, *(np.diff(below) / below[-1] @ values)])
    return pd.DataFrame(rows, columns=["context_id", "n", *measures])


@checked
def unigram_log_perplexity(texts: Iterable[str]) -> dict[str, float]:
    """Return each text's log perplexity by a unigram model of all of them: familiarity without a language model.

    Returns
    -------
    dict of str to float
        By text: minus the mean log frequency of its words, in nats a word; NaN for a text without words.

    Examples
    --------
    >>> perplexities = unigram_log_perplexity(["rain rain", "rain snow"])
    >>> {text: round(value, 2) for text, value in perplexities.items()}
    {'rain rain': 0.29, 'rain snow': 0.84}
    """
    words = [(text, text.lower().split()) for text in texts]
    counts = Counter(word for _, split in words for word in split)
    total = counts.total()
    return {
        text: -fmean(math.log(counts[word] / total) for word in split) if split else math.nan for text, split in words
    }
