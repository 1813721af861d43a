"""Measure texts, and compare ways of writing or choosing them, by reward, overlap, length or familiarity."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.reference import ReferenceMetric, reference_scores
from biaslab.stats.blocks import ITEM
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model
from biaslab.stats.resample import Resampling


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
    """Estimate the mean of each measure per way of writing, and its change from a baseline, paired by context.

    Parameters
    ----------
    ways : mapping of str to pandas.DataFrame
        By name: one row per text with ``context_id`` and the measures. Measures are first averaged within contexts.
    measures : sequence of str
        Columns of the frames; missing values are ignored.
    baseline : str
        One of the ways; contexts that it lacks are dropped from the changes.
    study : str
        Value of the column ``probe``.
    condition : str
        Name of the column that holds the way.
    primary : sequence of str
        Metrics that are tested together, for example ``"reward_change"``.
    resampling : Resampling, optional
        Settings of the estimates.
    **cell
        Constant columns, such as ``judge`` and ``dataset``.

    Returns
    -------
    pandas.DataFrame
        An estimates frame: for each way the measures and, except for the baseline, ``<measure>_change`` tested against
        0.

    Raises
    ------
    InputError
        If the baseline is not one of the ways.

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
    for name, own in means.items():
        estimates = {measure: _mean(own[measure]).estimate(how) for measure in measures}
        if name != baseline:
            changes = (own - means[baseline]).loc[own.index.intersection(means[baseline].index)]
            estimates |= {f"{measure}_change": _mean(changes[measure], 0.0).estimate(how) for measure in measures}
        rows += estimate_rows(estimates, cell | {condition: name}, how, len(ways[name]), 0)
    return estimates_frame(rows, study, primary, [condition])


def _mean(values: pd.Series, null: float | None = None) -> Ratio:
    known = values.dropna()
    return Ratio(known.index.to_numpy(), known.to_numpy(float), np.ones(len(known)), null=null)


def best_of_n(
    texts: pd.DataFrame, measures: Sequence[str], by: str = "reward", counts: Iterable[int] | None = None
) -> pd.DataFrame:
    """Return the expected measures of the best of n texts by reward, for n from 1 to the texts of a context.

    The n texts are drawn without replacement, and the expectation over all draws is exact: with N texts ordered by
    reward, the i-th largest is the best of a draw with probability C(N − i, n − 1) / C(N, n). Texts with equal rewards
    are averaged. If the reward and another measure diverge as n grows, the reward is over-optimised (Gao et al. 2023,
    *Scaling Laws for Reward Model Overoptimization*).

    Parameters
    ----------
    texts : pandas.DataFrame
        One row per text with ``context_id``, the measure that chooses, and the measures to return.
    measures : sequence of str
        Numeric columns, for example the scores of another judge.
    by : str
        The column that chooses.
    counts : iterable of int, optional
        Values of n; by default 1, 2, 4, … and the number of texts of the smallest context. Larger ones are skipped.

    Returns
    -------
    pandas.DataFrame
        One row per context and n: ``context_id, n`` and the measures.

    Raises
    ------
    InputError
        If no count is in this range.

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
        ordered = part.groupby(by)[list(measures)].mean()  # averaged over equal rewards; in ascending order
        sizes = part.groupby(by).size().cumsum().to_numpy()
        values = ordered.assign(**{by: ordered.index})[list(measures)].to_numpy(float)
        for n in known:
            below = np.array([math.comb(int(size), n) for size in (0, *sizes)], float)
            rows.append([name, n, *(np.diff(below) / below[-1] @ values)])
    return pd.DataFrame(rows, columns=["context_id", "n", *measures])


def measure_texts(
    samples: Dataset,
    labels: Mapping[str, pd.DataFrame],
    overlap: Sequence[ReferenceMetric] = ("ROUGE-1", "ROUGE-2", "ROUGE-L"),
) -> pd.DataFrame:
    """Measure a model's texts: judges' scores, length, and overlap with the reference.

    Parameters
    ----------
    samples : Dataset
        The texts, such as those of `biaslab.distill.collect_samples`.
    labels : mapping of str to pandas.DataFrame
        By column name: the result of `biaslab.distill.annotate` for these texts and one aspect.
    overlap : sequence of str
        Metrics of `biaslab.scoring.reference_scores`; their columns have names like ``rouge_l``.

    Returns
    -------
    pandas.DataFrame
        One row per text: ``context_id, candidate_id, context, reference, text``, the labels, ``words`` and the
        overlap; NaN if a judge's answer could not be parsed.

    Raises
    ------
    InputError
        If a metric is unknown.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> labels = bl.distill.annotate(bl.SimulatedJudge(data), data, ["fluency"], progress=False)
    >>> texts = measure_texts(data, {"reward": labels}, ["ROUGE-1"])
    >>> list(texts.columns)[4:], bool(texts["rouge_1"].between(0, 1).all())
    (['text', 'reward', 'words', 'rouge_1'], True)
    """
    keys = list(ITEM)
    texts = samples.candidates[[*keys, "context", "reference", "text"]].set_index(keys)
    for name, frame in labels.items():
        require_columns(frame, [*keys, "label"], f"labels of {name}")
        texts[name] = frame.set_index(keys)["label"]
    texts["words"] = [float(len(text.split())) for text in texts["text"]]
    names = list(samples.attributes)[:1]
    shared = reference_scores(samples, overlap, names, "reference") if overlap else pd.DataFrame()
    for metric, part in shared.groupby(shared["scorer"].str.partition(" ")[0], sort=False) if overlap else ():
        texts[str(metric).lower().replace("-", "_")] = part.set_index(keys)["score"]
    return texts.reset_index()


def add_overshoot(
    texts: pd.DataFrame, baseline: pd.DataFrame, reward: str = "reward", other: str = "again"
) -> pd.DataFrame:
    """Add the difference between the reward's and another judge's score of each text, in standard deviations.

    An optimised reward increases more than what it is a proxy for (over-optimisation). Both are in standard deviations
    of a baseline's texts within contexts, because their scales differ.

    Parameters
    ----------
    texts : pandas.DataFrame
        One row per text with both scores.
    baseline : pandas.DataFrame
        The texts that define the unit, with ``context_id``: those of the model before training.
    reward, other : str
        The two columns.

    Returns
    -------
    pandas.DataFrame
        With ``<reward>_sd``, ``<other>_sd`` and ``overshoot``, the first minus the second.

    Examples
    --------
    >>> texts = pd.DataFrame({"context_id": ["a", "a"], "reward": [0.2, 0.4], "again": [0.5, 0.6]})
    >>> add_overshoot(texts, texts).round(2)[["reward_sd", "again_sd", "overshoot"]].to_numpy().tolist()
    [[1.41, 7.07, -5.66], [2.83, 8.49, -5.66]]
    """
    require_columns(texts, [reward, other], "texts")
    require_columns(baseline, ["context_id", reward, other], "baseline")
    units = baseline.groupby("context_id")[[reward, other]].var().mean() ** 0.5
    texts = texts.assign(**{f"{name}_sd": texts[name] / units[name] for name in (reward, other)})
    return texts.assign(overshoot=texts[f"{reward}_sd"] - texts[f"{other}_sd"])


def most_changed(
    before: pd.DataFrame, after: pd.DataFrame, by: Sequence[str] = ("reward",), up: int = 2, down: int = 1
) -> pd.DataFrame:
    """Return the sources whose texts changed most, up and down, with both texts (Table 10 of Wang et al. 2023).

    Parameters
    ----------
    before, after : pandas.DataFrame
        As returned by `measure_texts`; the first text of each source is used.
    by : sequence of str
        Names of measures, of which the first is used for choosing.
    up, down : int
        Numbers of sources with the largest increase, and with the largest decrease (or smallest increase).

    Returns
    -------
    pandas.DataFrame
        One column per source: ``source, reference, before, after``, and each measure as ``0.41 → 0.55``.

    Examples
    --------
    >>> one = pd.DataFrame({"context_id": ["a", "b"], "reward": [0.1, 0.4]}).assign(context="", reference="", text="x")
    >>> most_changed(one, one.assign(text="y", reward=[0.5, 0.4]), up=1).loc["reward"].to_dict()
    {'a': '0.10 → 0.50', 'b': '0.40 → 0.40'}
    """
    columns = ["context_id", "context", "reference", "text", *by]
    for name, frame in (("before", before), ("after", after)):
        require_columns(frame, columns, name)
    first, now = (frame.drop_duplicates("context_id").set_index("context_id") for frame in (before, after))
    first = first[first.index.isin(now.index)]
    now = now.reindex(first.index)
    table = first[["context", "reference"]].rename(columns={"context": "source"})
    table = table.assign(before=first["text"], after=now["text"])
    for name in by:
        table[name] = [f"{old:.2f} → {new:.2f}" for old, new in zip(first[name], now[name], strict=True)]
    order = (now[by[0]] - first[by[0]]).dropna().sort_values(kind="stable").index
    chosen = dict.fromkeys([*order[::-1][:up], *order[:down]])  # with few sources they overlap
    return table.loc[list(chosen)].T


def unigram_log_perplexity(texts: Iterable[str]) -> dict[str, float]:
    """Return each text's log perplexity under a unigram model of all texts: familiarity without a language model.

    Returns
    -------
    dict of str to float
        By text: minus the mean log frequency of its words, in nats per word; NaN for a text without words.

    Examples
    --------
    >>> perplexities = unigram_log_perplexity(["rain rain", "rain snow"])
    >>> {text: round(value, 2) for text, value in perplexities.items()}
    {'rain rain': 0.29, 'rain snow': 0.84}
    """
    words = [(text, text.lower().split()) for text in texts]
    counts = Counter(word for _, split in words for word in split)
    total = counts.total()
    levels = {word: math.log(n / total) for word, n in counts.items()}
    return {text: -fmean(levels[word] for word in split) if split else math.nan for text, split in words}


def reward_slopes(
    texts: pd.DataFrame, *, study: str = "reward", resampling: Resampling | None = None, **cell: str
) -> pd.DataFrame:
    """Regress the reward on length and log perplexity, both at once, among texts of the same source.

    Parameters
    ----------
    texts : pandas.DataFrame
        One row per text with ``context_id``, ``reward``, ``words`` (above 0) and ``log_perplexity`` (nats per token).
    study : str
        Value of the column ``probe``.
    resampling : Resampling, optional
        Settings of the estimates.
    **cell
        Constant columns, such as ``judge`` and ``dataset``.

    Returns
    -------
    pandas.DataFrame
        An estimates frame with ``reward_per_doubling_of_words`` and ``reward_per_nat``, null 0, clustered by source.

    Raises
    ------
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> texts = pd.DataFrame({"context_id": list("aaabbb"), "words": [4.0, 8, 16] * 2})
    >>> texts["log_perplexity"] = [3.0, 2.0, 4.0, 2.5, 3.5, 3.0]
    >>> texts["reward"] = 0.1 * np.log2(texts["words"]) - 0.2 * texts["log_perplexity"]
    >>> reward_slopes(texts)["estimate"].round(2).tolist()
    [0.1, -0.2]
    """
    require_columns(texts, ["context_id", "reward", "words", "log_perplexity"], "texts")
    how = resampling or Resampling()
    frame = texts.assign(doublings=np.log2(texts["words"]))
    slopes = linear_model(frame, "reward ~ doublings + log_perplexity", within=True)
    metrics = {"reward_per_doubling_of_words": slopes["doublings"], "reward_per_nat": slopes["log_perplexity"]}
    return estimates_frame(estimate_rows(metrics, cell, how, len(frame), 0), study, list(metrics), list(cell))
