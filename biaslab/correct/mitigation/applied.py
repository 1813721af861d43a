"""Remedies computed from judgements: trials in, trials out, with the resulting cost per judgement.

Whatever is fitted is fitted on other contexts than those it is applied to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.measures.ranking.comparisons import cells, read_trials
from biaslab.measures.ranking.debiasing import DEBIASINGS, Debiasing, content_free, debias
from biaslab.stats import CELL, each_cell, require_columns, usable
from biaslab.stats.regression import demeaned

Mask = Bools
#: Trials in, trials out.
Remedy = Callable[[pd.DataFrame], pd.DataFrame]


def order_averaging(trials: pd.DataFrame) -> pd.DataFrame:
    """Judge each pair by the mean of both orders, at the cost of two judgements.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials in both orders, as made by `biaslab.probes.Position`.

    Returns
    -------
    pandas.DataFrame
        Pairs that were judged in both orders, with the same probability for the same candidate in each order, and the
        ``tokens`` of both judgements.

    References
    ----------
    Wang et al. 2023, *Large Language Models are not Fair Evaluators* (balanced position calibration); Zheng et al.
    2023, *Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena*.
    """
    return debiased(trials, "swap-average")


def debiased(trials: pd.DataFrame, debiasing: Debiasing, folds: int = 10) -> pd.DataFrame:
    """Remove position bias from pair trials by one of the methods of `biaslab.ranking.debias`.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials.
    debiasing : {"none", "threshold", "uniform-prior", "position-term", "swap-average"}
        The method. It is fitted on the contexts of other folds.
    folds : int
        Number of parts into which contexts are split.

    Returns
    -------
    pandas.DataFrame
        The trials with a debiased probability, as ``value``. Debiased sample shares are no longer counts, so their
        ``samples`` is empty.
    """
    require_one_of("debiasing", debiasing, DEBIASINGS)
    parts = [_debiased(cell, debiasing, folds) for _, cell in cells(trials)]
    return pd.concat(parts, ignore_index=True) if parts else trials


def content_free_prior(empty: pd.DataFrame) -> Remedy:
    """Calibrate pair trials by the judge's content-free prior.

    Parameters
    ----------
    empty : pandas.DataFrame
        Pair trials without content: identical or empty candidates, "N/A". They are not contexts of the data set, so
        nothing is fitted where it is applied. Only judges and attributes of the trials are used.

    Returns
    -------
    callable
        Trials in, trials out: p̂ = α p / (α p + 1 − p), where − log α are the log odds of the first without content
        (`biaslab.ranking.content_free`). Decisions (0, 1) and ties are unchanged. The tokens of the prompts without
        content are spread over the judgements.

    Raises
    ------
    InputError
        If a judge and attribute has no usable trial without content.

    References
    ----------
    Zhao et al. 2021, *Calibrate Before Use*, ICML, §4.

    Examples
    --------
    >>> nothing = pd.DataFrame({"judge": "j", "attribute": "a", "value": [0.8], "status": "ok", "tokens": 10})
    >>> nothing["context_id"] = "n"
    >>> pair = pd.DataFrame({"judge": "j", "attribute": "a", "value": [0.8, 0.2], "status": "ok", "tokens": 30})
    >>> content_free_prior(nothing)(pair)[["value", "tokens"]].round(3).to_numpy().tolist()
    [[0.5, 35.0], [0.059, 35.0]]
    """
    require_columns(empty, ("judge", "attribute", "context_id", "value", "status"), "empty")
    return partial(_without_prior, usable(empty), float(empty["tokens"].sum()) if "tokens" in empty else 0.0)


def length_regression(trials: pd.DataFrame, folds: int = 10) -> pd.DataFrame:
    """Remove the effect of length at equal human score, as length-controlled win rates do.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials with ``words`` and ``human``, as made by `biaslab.probes.Verbosity`.
    folds : int
        Number of parts into which contexts are split, at least 2. Each is adjusted with the slope fitted on the
        others.

    Returns
    -------
    pandas.DataFrame
        With ``value`` minus slope × (log2 words − its mean over the other contexts). The slope is from score ~ log2
        words + human score + an intercept per context; human scores are needed to fit it, not to apply it. If it is
        not identified, the score is unchanged.

    Raises
    ------
    TrialsError
        If a column is missing.

    References
    ----------
    Dubois et al. 2024, *Length-Controlled AlpacaEval*.

    Examples
    --------
    >>> rows = [(c, k, 2.0**k, 3.0 + k + 0.5 * h, h) for c in range(6) for k, h in ((0, 0.0), (1, 2.0), (2, 1.0))]
    >>> trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "words", "value", "human"])
    >>> trials = trials.assign(judge="j", dataset="d", attribute="a", status="ok")
    >>> length_regression(trials)["value"].head(3).round(6).tolist()
    [4.0, 5.0, 4.5]
    """
    require_columns(trials, (*CELL, "context_id", "value", "status", "words", "human"), "trials")
    require_whole("folds", folds, 2)
    parts = [_without_length(cell, folds) for _, cell in each_cell(trials, CELL)]
    return pd.concat(parts, ignore_index=True) if parts else trials


def _without_prior(read: pd.DataFrame, price: float, trials: pd.DataFrame) -> pd.DataFrame:
    """Subtract the content-free prior, and spread the cost of asking for it over the trials."""
    parts = []
    for (judge, attribute), cell in each_cell(trials, ("judge", "attribute")):
        own = read[(read["judge"] == judge) & (read["attribute"] == attribute)]
        if own.empty:
            allowed = f"readable judgements of {judge} on {attribute}"
            raise InputError("empty", "none", allowed, "ask the same judge about the same attribute without content")
        p, tied = cell["value"].to_numpy(float), (cell["status"] == "tie").to_numpy()
        parts.append(_with_probabilities(cell, np.where(tied, p, content_free(own).weigh(p)), tied))
    corrected = pd.concat(parts, ignore_index=True)
    return corrected.assign(tokens=corrected["tokens"] + price / len(corrected)) if "tokens" in corrected else corrected


def _debiased(cell: pd.DataFrame, debiasing: Debiasing, folds: int) -> pd.DataFrame:
    """Remove position bias from the trials of one judge and attribute; trials without a debiased value are dropped."""
    if debiasing == "none":
        return cell
    read = read_trials(cell)
    comparisons, size = debias(read.comparisons, debiasing, folds), read.comparisons.n_candidates
    first, second = read.candidates
    keys, wanted = comparisons.first * size + comparisons.second, first * size + second
    p, tied = (_looked_up(keys, values, wanted) for values in (comparisons.p, comparisons.tied.astype(float)))
    moved = _with_probabilities(cell, p, tied == 1)
    if debiasing == "swap-average" and "tokens" in cell:
        own = cell["tokens"].to_numpy(float)
        twins = _looked_up(first * size + second, own, second * size + first)
        moved = moved.assign(tokens=own + np.nan_to_num(twins))
    return moved[~np.isnan(p)]


def _looked_up(known: Codes, values: Floats, wanted: Codes) -> Floats:
    """Return the value of each requested key, NaN if missing."""
    order = np.argsort(known, kind="stable")
    place = np.minimum(np.searchsorted(known[order], wanted), max(len(known) - 1, 0))
    at = order[place] if len(known) else np.zeros(len(wanted), np.intp)
    return np.where(known[at] == wanted, values[at], np.nan) if len(known) else np.full(len(wanted), np.nan)


def _with_probabilities(cell: pd.DataFrame, p: Floats, tied: Bools) -> pd.DataFrame:
    """Return trials with other probabilities, some of them ties; trials without a value keep their status."""
    status = np.where(np.isnan(p), cell["status"], np.where(tied, "tie", "ok"))
    moved = cell.assign(value=p, status=status)
    return moved.assign(samples=math.nan) if "samples" in moved else moved


def _without_length(cell: pd.DataFrame, folds: int) -> pd.DataFrame:
    """Subtract the effect of length from the scores of one judge and attribute, cross-fitted over contexts."""
    known = (cell["status"] == "ok").to_numpy() & cell["human"].notna().to_numpy()
    codes, doublings = pd.factorize(cell["context_id"])[0], np.log2(cell["words"].to_numpy(float))
    columns = np.column_stack([cell["value"].to_numpy(float), doublings, cell["human"].to_numpy(float)])
    value = columns[:, 0].copy()
    for others, fold_rows in held_out(cell["context_id"], known, folds):
        if others.any():
            value[fold_rows] -= _slope(columns[others], codes[others]) * (
                doublings[fold_rows] - doublings[others].mean()
            )
    return cell.assign(value=value)


def _slope(columns: Floats, codes: Codes) -> float:
    """Return the effect of doubling the words within contexts at equal human score; 0 if not identifiable."""
    y, *x = demeaned(columns, np.unique(codes, return_inverse=True)[1]).T
    slopes, _, rank, _ = np.linalg.lstsq(np.column_stack(x), y, rcond=1e-9)
    return float(slopes[0]) if rank == len(x) else 0.0


def held_out(context: pd.Series, labelled: Mask, folds: int) -> Iterator[tuple[Mask, Mask]]:
    """Yield masks to fit and to apply: labelled contexts are assigned to folds in turn; all others use every label.

    Examples
    --------
    >>> context, labelled = pd.Series(["a", "b", "c"]), np.array([True, False, True])
    >>> [(np.flatnonzero(fit).tolist(), np.flatnonzero(use).tolist()) for fit, use in held_out(context, labelled, 2)]
    [([0, 2], [1]), ([2], [0]), ([0], [2])]
    """
    codes, names = pd.factorize(context)
    known = np.unique(codes[labelled])
    fold = np.full(len(names), -1)
    fold[known] = np.arange(len(known)) % folds
    for each in np.unique(fold):
        fold_rows = fold[codes] == each
        yield labelled & ~fold_rows, fold_rows
