"""Correct the estimate of a biased judge with a few human labels, with a valid interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy import special

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_one_of, require_some_of
from biaslab.core.errors import InputError
from biaslab.core.metrics import Metric, declare_metrics
from biaslab.core.schema import Dataset
from biaslab.correct.contrasts import ESTIMANDS, Estimand, LabelledContrast, contrasts, differences, judge_rates
from biaslab.correct.estimators import Fitted, Sums, Target, of_humans, of_judge, powered, rogan_gladen, summed
from biaslab.correct.labels import HumanLabels, LabelledCell, read_cells
from biaslab.stats.estimate import Estimate, because, undefined
from biaslab.stats.frame import estimates_frame
from biaslab.stats.resample import Resampling

Correction = Literal["judge", "human", "ppi", "rogan_gladen"]
CORRECTIONS = get_args(Correction)
#: Value of the column ``probe`` in its estimates.
NAME = "correct"
_HIGHER, _LOWER = "scores higher than the other", "scores lower than the other"
_DIFFERENCE: Any = {"null": 0.0, "above": _HIGHER, "below": _LOWER, "subject": "system", "primary": True}
_WINS = _DIFFERENCE | {"null": 0.5, "above": "wins more often than it loses", "below": "loses more often than it wins"}
METRICS = (
    Metric("mean_score", "mean score", "points"),
    Metric("pass_rate", "pass rate", "share"),
    Metric("win_rate", "win rate (ties count ½)", "share", **_WINS),
    Metric("score_difference", "difference of mean scores", "points", **_DIFFERENCE),
    Metric("pass_rate_difference", "difference of pass rates", "share", **_DIFFERENCE),
    Metric("win_rate_difference", "difference of win rates", "share", **_DIFFERENCE),
    Metric("true_positive_rate", "true-positive rate", "share", quality=True),
    Metric("true_negative_rate", "true-negative rate", "share", quality=True),
    Metric("rank", "rank (1 = best)", whole=True),
    Metric("accuracy", "pairs decided as humans decide them", "share", null=0.5, quality=True),
    Metric("rank_agreement", "agreement with humans within contexts (Spearman's ρ)", null=0.0, quality=True),
)
declare_metrics(NAME, METRICS)
_TESTED = tuple(metric.name for metric in METRICS if metric.null is not None)


def correct(
    judged: pd.DataFrame,
    labels: Dataset | pd.DataFrame | str | Path | HumanLabels | None = None,
    estimand: Estimand | None = None,
    *,
    systems: Sequence[str] | None = None,
    corrections: Sequence[Correction] | None = None,
    labelled: Sequence[str] | Mapping[str, float] | None = None,
    target: Target = "contexts like these",
    by: Sequence[str] = (),
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Estimate a study's target quantity from judgements of all items and human labels for some.

    Parameters
    ----------
    judged : pandas.DataFrame
        Trials of scores or pairs, made by `biaslab.collect` or `biaslab.read_judgements`, or a scores frame
        (`biaslab.scoring.scores`): ``judge, dataset, attribute, context_id, candidate_id``, for pairs ``opponent_id``,
        and ``value`` or ``score``. Replicates and the two orders of a pair are averaged.
    labels : Dataset, pandas.DataFrame or path, optional
        Human labels: a data set with human scores; or a table or CSV file with ``context_id, candidate_id, score`` and
        optionally ``attribute``, ``opponent_id`` (``score`` is then 1 if the candidate wins, 0 if the opponent does)
        and ``probability``, the probability that the context was chosen for labelling; or trials, or anything that
        `biaslab.read_judgements` reads, whose labels are what people gave. By default the judgements contain them,
        in ``human`` or ``human_gap``.
    estimand : {"mean_score", "win_rate", "difference", "ranking", "systems", "agreement"}, optional
        The mean score of each system; the rate at which one wins over another, counting a tie as ½; the difference
        between their mean scores; all systems with simultaneous intervals, and their ranks; each system with its own
        interval (pass rate, mean score, or win rate over all others), all differences, ranks, and for *rogan_gladen*
        the judge's true-positive and true-negative rate; agreement with humans (within contexts: Spearman's ρ for
        scores, accuracy on pairs that humans decide). By default a ranking of more than two systems; of one or two, win
        rates for pairs and mean scores for scores.
    systems : sequence of str, optional
        Systems of interest; by default all. For win rates and differences the earlier one is compared with the later.
    corrections : sequence of {"judge", "human", "ppi", "rogan_gladen"}, optional
        By default all that apply. *judge*: uncorrected. *human*: the labels alone. *ppi*: both, by power-tuned
        prediction-powered inference, which assumes nothing about the judge's biases. *rogan_gladen*: for binary
        verdicts, using sensitivity and specificity on the labelled part.
    labelled : sequence of str, or mapping of str to float, optional
        The contexts whose labels are used, by default all with labels; as a mapping, with the probability that each
        was chosen for labelling, if these differ (`biaslab.correct.choose_contexts` returns them). Without
        probabilities, the labelled part is treated as a random sample: labelling the easy contexts first makes *human*
        and *ppi* as biased as the judge.
    target : {"contexts like these", "these contexts"}
        The target of the interval: the population from which the contexts are drawn, or the human labels of exactly
        these contexts, of which the labelled part is a sample without replacement. The estimates are the same.
    by : sequence of str
        Further columns by which to split the estimates, for example ``template``.
    resampling : Resampling, optional
        Confidence level, and the seed of simultaneous intervals.

    Returns
    -------
    pandas.DataFrame
        An estimates frame, ``probe`` "correct": metrics ``mean_score``, ``pass_rate``, ``win_rate``, their differences,
        ``rank``, ``true_positive_rate``, ``true_negative_rate``, ``rank_agreement`` and ``accuracy``, one row per
        ``system``, ``other`` and ``correction``; ``n_labelled`` counts labelled contexts. A system is "" if candidates
        are texts. q-values are computed over the rows of one correction.

    Raises
    ------
    InputError
        If an option, a system or a column is unknown, or judgements under several conditions would be mixed.
    TrialsError
        If judgements and labels have no item in common, all labels are in one context, or labels are on another scale
        than the judge's scores; the message says what was compared.

    Notes
    -----
    The context is the sampling unit: estimands are ratios of sums over contexts, and errors are those of whole
    contexts. Intervals use Student's t with the number of labelled contexts minus one as degrees of freedom, and
    residuals divided by √(1 − leverage) (HC2); with fewer than five labelled contexts there are none. Those of win
    rates, pass rates, means of labels with two values, accuracy and rank agreement are on the logit scale, which for a
    correlation is Fisher's z (`biaslab.correct.estimators`). Coverage with few or skewed labels was simulated
    (`benchmarks/correct.py`, guide "Correct a judge with a few labels"). If every context has one item, *ppi* equals
    the estimate of the package ``ppi-python``.

    References
    ----------
    Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023, *Prediction-powered inference*, Science 382; Angelopoulos,
    Duchi & Zrnic 2023, *PPI++*, arXiv 2311.01453; Rogan & Gladen 1978, *Estimating prevalence from the results of a
    screening test*, Am. J. Epidemiol. 107.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=24)
    >>> probe = bl.probes.Verbosity(attributes=["coherence"])
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, quality=0.5), data, progress=False)
    >>> contexts = list(dict.fromkeys(trials["context_id"]))[::3]
    >>> found = correct(trials, data, systems=["clean"], labelled=contexts, corrections=["judge", "human", "ppi"])
    >>> found[["correction", "n_labelled"]].to_numpy().tolist()
    [['judge', 8], ['human', 8], ['ppi', 8]]
    """
    settings = resampling or Resampling()
    require_one_of("target", target, get_args(Target))
    if estimand is not None:
        require_one_of("estimand", estimand, ESTIMANDS)
    if corrections is not None:
        require_some_of("corrections", corrections, CORRECTIONS)
    rows: list[dict[str, Any]] = []
    for cell in read_cells(judged, labels, labelled, by):
        own = list(_rows(cell, estimand or _default(cell, systems), systems, corrections, target, settings))
        widths = {_quantity(row): row["ci_high"] - row["ci_low"] for row in own if row["correction"] == "human"}
        rows += [_noted(row, widths.get(_quantity(row), np.nan)) for row in own]
    return _framed(rows, by)


def _default(cell: LabelledCell, systems: Sequence[str] | None) -> Estimand:
    names = {*cell.items["system"], *(cell.items["opponent"] if cell.pairs else ())} - {""}
    if len(names if systems is None else systems) > 2:
        return "ranking"
    return "win_rate" if cell.pairs else "mean_score"


def _quantity(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["metric"], row["system"], row["other"]


def _noted(row: dict[str, Any], width: float) -> dict[str, Any]:
    """Say of a corrected estimate that its interval is no narrower than that of the labels alone, of this width."""
    if row["correction"] != "ppi" or row["metric"] == "rank" or not row["ci_high"] - row["ci_low"] >= width:
        return row
    note = "the judge adds nothing: no narrower than from the labels alone"
    return {**row, "note": "; ".join(filter(None, (row["note"], note)))}


def _rows(
    cell: LabelledCell,
    estimand: Estimand,
    systems: Sequence[str] | None,
    corrections: Sequence[Correction] | None,
    target: Target,
    settings: Resampling,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one judge."""
    work = _Work(cell, estimand)
    listed = list(contrasts(cell, estimand, systems))
    for name in corrections or CORRECTIONS:
        if corrections is None and not work.applies(name, listed):
            continue
        fits = [work.fit(name, contrast) for contrast in listed]
        how = (target, settings.level, settings.seed)
        quantities = list(zip(listed, fits, strict=True))
        if estimand == "systems":
            quantities += work.rates(listed) if name == "rogan_gladen" else differences(listed, fits)
        if estimand == "ranking":
            estimates = at_once(fits, *how, bounds=listed[0].bounds)
        else:
            estimates = [fit.estimate(target, settings.level, one.null, one.bounds) for one, fit in quantities]
        for (contrast, _), estimate in zip(quantities, estimates, strict=True):
            yield work.row(name, contrast, estimate, settings)
        if estimand == "ranking" or (estimand == "systems" and name != "rogan_gladen" and len(listed) > 1):
            for contrast, estimate in zip(listed, ranks(fits, *how), strict=True):
                yield work.row(name, replace(contrast, metric="rank"), estimate, settings)


class _Work:
    """Fits of one cell."""

    def __init__(self, cell: LabelledCell, estimand: Estimand) -> None:
        self.cell, self.estimand, self.contexts = cell, estimand, cell.contexts

    def applies(self, name: Correction, listed: Sequence[LabelledContrast]) -> bool:
        """Check whether a correction applies to the estimand and items."""
        if name == "judge":
            return self.estimand != "agreement"
        if name == "rogan_gladen":
            allowed = ("mean_score", "win_rate", *(() if self.cell.pairs else ("systems",)))
            return self.estimand in allowed and all(contrast.is_binary for contrast in listed)
        return True

    def fit(self, name: Correction, contrast: LabelledContrast) -> Fitted:
        """Estimate one quantity with one correction."""
        if not self.applies(name, [contrast]):
            allowed = [other for other in CORRECTIONS if self.applies(other, [contrast])]
            why = "verdicts and labels must be 0 or 1" if name == "rogan_gladen" else ""
            raise InputError("corrections", name, f"for {contrast.metric} some of {', '.join(allowed)}", why)
        items = contrast.items
        if name == "rogan_gladen":
            items = items.assign(value=(items["value"] > 0.5).astype(float).where(items["value"].notna()))
        sums = self._summed(items)
        if name == "judge":
            return of_judge(sums)
        if name == "human":
            return replace(of_humans(sums), logit=contrast.is_share)
        if name == "ppi":
            return replace(powered(sums, most=np.inf if self.estimand == "agreement" else 1.0), logit=contrast.is_share)
        both = self._summed(items.assign(value=items["value"] * items["human"]))
        return rogan_gladen(sums, both.judged_labelled[:, 0])

    def rates(self, listed: Sequence[LabelledContrast]) -> Iterator[tuple[LabelledContrast, Fitted]]:
        """Yield the judge's true-positive and true-negative rate for each system."""
        for rate in (rate for contrast in listed for rate in judge_rates(contrast)):
            yield rate, replace(of_humans(self._summed(rate.items)), logit=True)

    def row(self, name: Correction, contrast: LabelledContrast, estimate: Estimate, how: Resampling) -> dict[str, Any]:
        """Return a row of the frame."""
        where = {"system": contrast.system, "other": contrast.other, "correction": name}
        counts = {"n_trials": self.cell.n_trials, "n_dropped": self.cell.n_dropped}
        labelled = self._summed(contrast.items).rated
        rest = {"metric": contrast.metric, "n_labelled": labelled, "ci_level": how.level, "seed": how.seed}
        return {**self.cell.where, **where, **estimate.row(), **counts, **rest}

    def _summed(self, items: pd.DataFrame) -> Sums:
        return summed(items, self.contexts, self.cell.probability)


def _framed(rows: Sequence[Mapping[str, Any]], by: Sequence[str]) -> pd.DataFrame:
    conditions = ["attribute", *by, "system", "other", "correction", "n_labelled"]
    of_each: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        of_each.setdefault(row["correction"], []).append(row)
    return pd.concat([estimates_frame(own, NAME, _TESTED, conditions) for own in of_each.values()], ignore_index=True)


_DRAWS = 20_000
_RIDGE = 1e-9  # differences of estimates are linearly dependent


def at_once(
    fits: list[Fitted], target: Target, level: float, seed: int, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> list[Estimate]:
    """Estimate several values with simultaneous intervals.

    Parameters
    ----------
    fits : list of Fitted
        One per system, with the same names of contexts.
    target, level
        As in `biaslab.correct.estimators.Fitted.estimate`.
    seed : int
        Random seed.
    bounds : tuple of float
        Smallest and largest possible value.

    Returns
    -------
    list of Estimate
        The quantile of t is replaced by that of the largest |t|, simulated from the multivariate t distribution with
        the correlations of the estimates (max-t; Hothorn, Bretz & Westfall 2008).
    """
    single = [fit.estimate(target, level, bounds=bounds) for fit in fits]
    if len(fits) < 2 or not all(estimate.se > 0 for estimate in single):
        return single
    errors = np.column_stack([fit.errors(target) for fit in fits])
    reach = max_t_quantile(errors, min(fit.sample for fit in fits), level, seed)
    words = f", simultaneous over {len(fits)}"
    levels = [1 - 2 * float(special.stdtr(fit.sample - 1, -reach)) for fit in fits]
    wide = [fit.estimate(target, level, bounds=bounds) for fit, level in zip(fits, levels, strict=True)]
    return [replace(one, method=one.method + words) for one in wide]


def ranks(fits: list[Fitted], target: Target, level: float, seed: int) -> list[Estimate]:
    """Estimate the rank of each system (1 = best), with simultaneous intervals.

    Parameters
    ----------
    fits, target, level, seed
        As in `at_once`.

    Returns
    -------
    list of Estimate
        A rank is at least 1 plus the number of systems shown to be better, and at most the number of systems minus
        those shown to be worse, by max-t intervals for all differences.

    References
    ----------
    Klein, Wright & Wieczorek 2020, *A joint confidence region for an overall ranking of populations*, JRSS C 69;
    Mogstad, Romano, Shaikh & Wilhelm 2024, *Inference for ranks*, Review of Economic Studies 91.
    """
    values = np.array([fit.value for fit in fits])
    if np.isnan(values).any():
        note = next((fit.note for fit in fits if np.isnan(fit.value)), "")
        reason = note or because("system_without_estimate", "a system has no estimate")
        return [undefined(reason, fit.contexts) for fit in fits]
    places = 1 + np.array([np.sum(values > value) + (np.sum(values == value) - 1) / 2 for value in values])
    best, worst = np.ones(len(fits), int), np.full(len(fits), len(fits))
    known = [place for place, fit in enumerate(fits) if fit.sample > 1]  # a single context shows nothing
    pairs = list(combinations(known, 2))
    gaps = [fits[a].errors(target) - fits[b].errors(target) for a, b in pairs]
    errors = np.column_stack(gaps) if gaps else np.zeros((1, 0))
    size = np.linalg.norm(errors, axis=0)
    fewest = min((fits[place].sample for place in known), default=0)
    reach = max_t_quantile(errors[:, size > 0], fewest, level, seed) if (size > 0).any() else 0.0
    for (a, b), error in zip(pairs, size, strict=True):
        gap = values[a] - values[b]
        if abs(gap) > reach * error:
            better, worse = (a, b) if gap > 0 else (b, a)
            best[worse] += 1
            worst[better] -= 1
    method = f"max-t over {len(pairs)} differences, contexts"
    return [
        Estimate(float(p), np.nan, float(low), float(high), np.nan, np.nan, fit.contexts, method, (fit.note,))
        for p, low, high, fit in zip(places, best, worst, fits, strict=True)
    ]


def max_t_quantile(errors: Floats, sample: int, level: float, seed: int) -> float:
    """Return the quantile of the largest |t| by simulation; columns are estimates."""
    df = sample - 1
    rng = np.random.default_rng(seed)
    scaled = errors / np.linalg.norm(errors, axis=0)
    factor = np.linalg.cholesky(scaled.T @ scaled + _RIDGE * np.eye(scaled.shape[1]))  # the same on every processor
    drawn = np.abs(rng.normal(size=(_DRAWS, len(factor))) @ factor.T).max(axis=1)
    return float(np.quantile(drawn / np.sqrt(rng.chisquare(df, _DRAWS) / df), level))
