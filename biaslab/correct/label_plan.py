"""Plan which contexts to label and how many, and check a plan by repeated draws of labels."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_count, require_one_of, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.metrics import Metric, declare_metrics
from biaslab.core.output import PrintedText
from biaslab.core.schema import Dataset
from biaslab.correct.contrasts import Estimand, LabelledContrast, contrasts
from biaslab.correct.correction import Correction, correct
from biaslab.correct.estimators import FEWEST_LABELLED, Sums, Target, ratio, summed
from biaslab.correct.labels import HumanLabels, LabelledCell, pair_items, read_cells
from biaslab.stats.blocks import has_value
from biaslab.stats.t_inference import assured_power

Choosing = Literal["uniform", "uncertain"]
_MOST = 10_000_000
#: Uniform share of the choice, which bounds probabilities from below and weights from above.
_UNIFORM = 0.5


@dataclass(frozen=True)
class LabelPlan(PrintedText):
    """Number of contexts to label; prints as text.

    Attributes
    ----------
    metric, system, other, judge, dataset : str
        The estimand, the judge and the data set.
    effect : float
        Shift detected with the required power, in the metric's unit.
    power, alpha : float
        Power, on average over pilots of this size, and two-sided level of the test.
    judged : int
        Number of contexts that the judge has judged.
    with_judge : int or None
        Number of labelled contexts needed with ``ppi``; None if all judged contexts are too few.
    alone : int or None
        Number of labelled contexts needed with labels alone; None if no number suffices.
    correlation : float
        Correlation of the judge's and humans' context values in the pilot.
    deviation : float
        Standard deviation of human values between contexts.
    pilot : int
        Number of labelled contexts in the pilot.
    """

    metric: str
    system: str
    other: str
    judge: str
    dataset: str
    effect: float
    power: float
    alpha: float
    judged: int
    with_judge: int | None
    alone: int | None
    correlation: float
    deviation: float
    pilot: int

    def to_frame(self) -> pd.DataFrame:
        """Return one row with every attribute."""
        return pd.DataFrame([vars(self)])

    def __str__(self) -> str:
        test = f"{100 * self.power:g} % power (two-sided, α = {self.alpha:g})"
        lines = [
            f"To detect a shift of {self.effect:.3g} in {self.metric}{self._whose()} with {test}",
            f"with the judge (ppi): {self._words(self.with_judge)}",
            f"with labels alone: {self._words(self.alone)}",
            f"{self.judge} judged {self.judged:,} contexts of {self.dataset}",
            f"pilot of {self.pilot} labelled contexts: standard deviation of human labels {self.deviation:.3g}",
            f"correlation of judge and humans: ρ = {self.correlation:.2f}",
        ]
        return "\n  ".join(lines)

    def _whose(self) -> str:
        """Return the names of the systems."""
        between = {"win_rate": " over ", "score_difference": " − "}.get(self.metric, "")
        whose = between.join(filter(None, (self.system, self.other)))
        return f" of {whose}" if whose else ""

    def _words(self, contexts: int | None) -> str:
        if contexts is None:
            return f"all {self.judged:,} judged contexts are not enough"
        return f"{contexts:,} labelled contexts"


def plan_labels(
    judged: pd.DataFrame,
    labels: Dataset | pd.DataFrame | str | Path | HumanLabels | None = None,
    effect: float = 0.05,
    estimand: Estimand | None = None,
    *,
    systems: Sequence[str] | None = None,
    labelled: Sequence[str] | Mapping[str, float] | None = None,
    target: Target = "contexts like these",
    power: float = 0.8,
    alpha: float = 0.05,
) -> LabelPlan:
    """Compute how many contexts to label to detect an effect, with and without the judge.

    Parameters
    ----------
    judged, labels, estimand, systems, labelled, target
        As in `biaslab.correct.correct`; labels come from a pilot of at least five contexts. If there are several
        quantities to estimate, the plan is for the one that varies most between contexts.
    effect : float
        Shift to detect, above 0, in the metric's unit.
    power, alpha : float
        Required power, on average over pilots of this size, and two-sided level of the test.

    Returns
    -------
    LabelPlan

    Raises
    ------
    InputError, TrialsError
        As in `biaslab.correct.correct`; also if the effect is not positive or the pilot has fewer than five contexts.

    Notes
    -----
    The standard error with n labels among G judged contexts is σ √(1 / n − (ρ² − 1 / n) (1 / n − 1 / G)), where ρ² is
    adjusted for the size of the pilot and 1 / n is what it costs to estimate the judge's weight. If the target is these
    contexts, 1 / n − 1 / G replaces the first 1 / n. The power of a t-test is averaged over what the true σ may be
    given the pilot's (assurance, `biaslab.stats.t_inference.assured_power`), so small pilots require more labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> human = rng.normal(3, 1, 200)
    >>> frame = pd.DataFrame({"judge": "j", "dataset": "d", "attribute": "a", "candidate_id": "x"}, index=range(200))
    >>> frame = frame.assign(context_id=[f"c{n}" for n in range(200)], score=human + 0.5 * rng.normal(size=200))
    >>> frame["human"] = np.where(np.arange(200) < 40, human, np.nan)
    >>> found = plan_labels(frame, effect=0.4)
    >>> bool(found.with_judge < found.alone)
    True
    """
    if not 0 < effect < math.inf:
        raise InputError("effect", effect, "a number above 0")
    planned = []
    for cell in read_cells(judged, labels, labelled, ()):
        wanted: Estimand = estimand or ("win_rate" if cell.pairs else "mean_score")
        if wanted in ("ranking", "agreement"):
            raise InputError("estimand", wanted, "mean_score, win_rate, difference or systems")
        planned += [_planned(cell, one, effect, target, power, alpha) for one in contrasts(cell, wanted, systems)]
    known = [plan for plan in planned if plan is not None]
    if not known:
        allowed = f"varying labels in at least {FEWEST_LABELLED} contexts"
        raise InputError.plain(f"the pilot is too small, expected: {allowed}; label a few more contexts")
    return max(known, key=lambda plan: plan.deviation)


def _planned(
    cell: LabelledCell, contrast: LabelledContrast, effect: float, target: Target, power: float, alpha: float
) -> LabelPlan | None:
    """Plan the labels for one quantity; None if the pilot is too small or its labels do not vary between contexts."""
    sums = summed(contrast.items, cell.contexts, cell.probability)
    if sums.rated < FEWEST_LABELLED:
        return None
    deviation, correlation = _spread(sums)
    if not deviation > 0:
        return None
    size, least = sums.contexts, 1 / sums.contexts if target == "these contexts" else 0.0

    def required(rho: float, most: int) -> int | None:
        """Return the smallest sufficient number of labels, up to ``most``; None if even that is too few."""
        counts = range(FEWEST_LABELLED, most + 1)
        place = bisect_left(counts, True, key=lambda n: enough(n, rho))
        return counts[place] if place < len(counts) else None

    def enough(n: int, rho: float) -> bool:
        saved = max(rho**2 - 1 / n, 0.0) * max(1 / n - 1 / size, 0.0)
        error = deviation * math.sqrt(max(1 / n - least - saved, 0.0))
        return not error > 0 or assured_power(effect, error, n, alpha, sums.rated) >= power

    alone = required(0.0, size if least else _MOST)
    where = {name: str(cell.where[name]) for name in ("judge", "dataset")}
    return LabelPlan(
        contrast.metric, contrast.system, contrast.other, where["judge"], where["dataset"], effect, power, alpha, size,
        required(correlation, size), alone, correlation, deviation, sums.rated,
    )  # fmt: skip


def _spread(sums: Sums) -> tuple[float, float]:
    """Return the standard deviation of human labels between contexts, and their adjusted correlation with the judge."""
    n, weight = sums.labelled, sums.weight
    human, judge = (n * ratio(part, weight)[1] / np.sqrt(weight) for part in (sums.human, sums.judged_labelled))
    deviation = math.sqrt(float(human @ human) / (n - 1))
    size = float(np.linalg.norm(human) * np.linalg.norm(judge))
    rho = float(human @ judge) / size if size > 0 else 0.0
    adjusted = 1 - (1 - rho**2) * (n - 1) / (n - 2)
    return deviation, math.sqrt(max(adjusted, 0.0)) if rho > 0 else 0.0


def choose_contexts(judged: pd.DataFrame, budget: int, how: Choosing = "uncertain", seed: int = 0) -> pd.DataFrame:
    """Choose the contexts to label, with known probabilities.

    Parameters
    ----------
    judged : pandas.DataFrame
        Trials, as in `biaslab.correct.correct`.
    budget : int
        Number of contexts to label, at least five.
    how : {"uncertain", "uniform"}
        *uncertain*: half of the probability is proportional to the judge's uncertainty, averaged over the items of a
        context: for pairs √(p (1 − p)), with p the mean over both orders; for scores the standard deviation between
        replicates. If uncertainty does not vary, and for *uniform*, all contexts have equal probability.
    seed : int
        Random seed.

    Returns
    -------
    pandas.DataFrame
        ``context_id, probability`` of the chosen contexts, for a column of the labels, or as ``labelled`` of
        `correct`.

    Raises
    ------
    InputError
        If the budget is out of range.

    References
    ----------
    Zrnic & Candès 2024, *Active statistical inference*, arXiv 2403.03208; Madow 1949 for systematic sampling.

    Examples
    --------
    >>> pairs = pd.DataFrame({"context_id": [f"c{n}" for n in range(20)], "value": [0.5, 0.99] * 10})
    >>> pairs = pairs.assign(candidate_id="x", opponent_id="y", status="ok")
    >>> chosen = choose_contexts(pairs, 8)
    >>> len(chosen), sorted(chosen["probability"].unique().round(3).tolist())
    (8, [0.266, 0.534])
    """
    require_one_of("how", how, get_args(Choosing))
    require_whole("budget", budget, FEWEST_LABELLED)
    read = judged[has_value(judged)] if "status" in judged else judged
    names = pd.Index(read["context_id"].astype(str).unique())
    if budget > len(names):
        raise InputError("budget", budget, f"at most {len(names)}, the number of judged contexts")
    doubt = _doubt(read).reindex(names).fillna(0.0).to_numpy(float)
    likely = np.full(len(names), budget / len(names))
    if how == "uncertain" and doubt.sum() > 0:
        likely = _capped(budget * (_UNIFORM / len(names) + (1 - _UNIFORM) * doubt / doubt.sum()), budget)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(names))
    cumulative = np.cumsum(likely[order])
    marks = rng.random() + np.arange(budget)
    place = np.minimum(np.searchsorted(cumulative, marks, side="right"), len(names) - 1)
    chosen = np.sort(order[place])
    return pd.DataFrame({"context_id": names[chosen], "probability": likely[chosen]})


def _doubt(read: pd.DataFrame) -> pd.Series:
    """Return the judge's uncertainty by context, averaged over its items."""
    if "opponent_id" in read and read["opponent_id"].notna().all():
        items = pair_items(read)
        return (items["value"] * (1 - items["value"])).pow(0.5).groupby(items["context_id"]).mean()
    ids = [read[name].astype(str) for name in ("context_id", "candidate_id")]
    return read["value"].astype(float).groupby(ids).std(ddof=0).groupby(level=0).mean()


def _capped(likely: Floats, budget: int) -> Floats:
    """Return probabilities of at most 1 that sum to the budget."""
    probabilities = likely
    while (probabilities > 1 + 1e-12).any():
        sure = probabilities >= 1
        rest = budget - int(sure.sum())
        probabilities = np.where(sure, 1.0, likely * rest / likely[~sure].sum())
    return probabilities


NAME = "label_draws"
_LEVEL = 0.95
_COVERAGE = Metric("coverage", "intervals that contain the estimate from all labels", "share", null=_LEVEL)
declare_metrics(NAME, (_COVERAGE, Metric("interval_width", "width of the interval")))


def draw_labels(
    judged: pd.DataFrame,
    labels: Dataset | pd.DataFrame | None = None,
    shares: Sequence[float] = (0.1, 0.3, 0.5),
    draws: int = 50,
    corrections: Sequence[Correction] = ("judge", "human", "ppi"),
    seed: int = 0,
) -> pd.DataFrame:
    """Draw a part of the labelled contexts many times, and compare each interval with the estimate from all labels.

    The truth is thus the human labels of these contexts, and intervals are for it (``target="these contexts"``). The
    judge's own interval needs no labels and is the same in every draw.

    Parameters
    ----------
    judged, labels, corrections
        As in `biaslab.correct`.
    shares : sequence of float
        Fractions of the labelled contexts to draw, above 0 and below 1.
    draws : int
        Number of draws for each fraction.
    seed : int
        Random seed of the draws.

    Returns
    -------
    pandas.DataFrame
        An estimates frame, one row per ``correction``, ``share`` and metric. ``coverage``: the share of intervals that
        contain the truth, over all draws, with Wilson's 95 % interval for this number of draws. ``interval_width``:
        the median over draws of the mean width, with the middle 90 % of draws as the interval. ``contexts_labelled``
        is the number of contexts per draw.

    Raises
    ------
    InputError
        If a share is not between 0 and 1, or as in `biaslab.correct`.
    TrialsError
        As in `biaslab.correct`, and if even all labels give no estimate.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=24)
    >>> judge = bl.SimulatedJudge(data, verbosity=2.0)
    >>> trials = bl.collect(bl.probes.Verbosity(["coherence"]), judge, data, progress=False)
    >>> drawn = draw_labels(trials, data, shares=[0.5], draws=4)
    >>> coverage = drawn[drawn["metric"] == "coverage"].set_index("correction")["estimate"]
    >>> bool(coverage["judge"] < coverage["ppi"])
    True
    """
    require_count("draws", draws, 1)
    if not shares or not all(0 < share < 1 for share in shares):
        raise InputError("shares", list(shares), "shares above 0 and below 1")
    cell = ["metric", "attribute", "system", "other"]
    truth = correct(judged, labels, corrections=["human"])
    truth = truth[truth["estimate"].notna()]
    if truth.empty:
        raise TrialsError.plain("labels are too few for an estimate; label at least five contexts")
    known = truth.set_index(cell)["estimate"].rename("truth")
    contexts = _labelled(judged, labels)
    rng = np.random.default_rng(seed)
    own = correct(judged, labels, corrections=["judge"]) if "judge" in corrections else truth.head(0)
    others = [name for name in corrections if name != "judge"]
    rows: list[dict[str, Any]] = []
    for share in shares:
        count = max(2, round(share * len(contexts)))
        results = []
        for draw in range(draws):
            sample = list(rng.choice(contexts, count, replace=False))
            parts = [own]
            if others:
                parts.append(correct(judged, labels, labelled=sample, corrections=others, target="these contexts"))
            both = pd.concat(parts, ignore_index=True)
            results.append(both.join(known, on=cell, how="inner").assign(draw=draw))
        for name, drawn in pd.concat(results).dropna(subset=["ci_low", "ci_high"]).groupby("correction", sort=False):
            about = {"judge": drawn["judge"].iloc[0], "dataset": drawn["dataset"].iloc[0], "correction": name}
            about |= {"share": share, "contexts_labelled": count, "n_contexts": len(contexts), "n_trials": len(drawn)}
            rows += [about | measured for measured in _measured(drawn, draws)]
    return pd.DataFrame(rows).assign(probe=NAME, method="draws of labels", seed=seed)


def _measured(part: pd.DataFrame, draws: int) -> list[dict[str, Any]]:
    """Return coverage and width of the intervals of one correction, over all draws of a fraction."""
    from statsmodels.stats.proportion import proportion_confint

    coverage = part["truth"].between(part["ci_low"], part["ci_high"]).mean()
    low, high = proportion_confint(coverage * draws, draws, alpha=1 - _LEVEL, method="wilson")
    widths = (part["ci_high"] - part["ci_low"]).groupby(part["draw"]).mean().quantile([0.05, 0.5, 0.95])
    width = dict(zip(("ci_low", "estimate", "ci_high"), widths, strict=True))
    covered = {"metric": "coverage", "estimate": coverage, "ci_low": low, "ci_high": high, "ci_level": _LEVEL}
    return [covered, {"metric": "interval_width", **width, "ci_level": 0.9}]


def _labelled(judged: pd.DataFrame, labels: Dataset | pd.DataFrame | None) -> np.ndarray:
    """Return the judged contexts that humans labelled."""
    if labels is None:
        labelled = judged[[name for name in ("human", "human_gap") if name in judged]].notna().any(axis=1)
        return judged.loc[labelled, "context_id"].unique()
    named = labels if isinstance(labels, pd.DataFrame) else labels.human
    return judged.loc[judged["context_id"].isin(named["context_id"]), "context_id"].unique()
