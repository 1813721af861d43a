"""Positional bias: does a judge prefer the candidate shown first? (Liusie et al. 2024, §3.5, Tables 5, 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from biaslab.core.metrics import FAIR, Comparison, Figure, Metric, Says, planted
from biaslab.core.requests import EACH_ALONE, Compare
from biaslab.core.schema import Dataset
from biaslab.core.trials import Trial
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.pairs import first_position_log_odds, log_odds, missing_data_bounds, note_missing_pairs
from biaslab.probes.base.probe import LABEL_MASS, Accepted, Cell, Metrics, Part, label_mass, mean_of, paired
from biaslab.probes.base.questions import PairProbe
from biaslab.stats.estimate import Estimate, because, by_construction
from biaslab.stats.frame import estimate_rows, estimates_frame
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

_BY_GAP = ("first_position_rate", "first_position_logit", "order_consistency")
_CONSISTENCY = ("order_consistency", "resampling_consistency")
_SAME_WINNER = (
    "{judge}: share of pairs with the same winner {order_consistency} when the order is swapped, "
    "{resampling_consistency} when the request is repeated"
)
_PREFERS_FIRST = planted({"position": 0.4}, {"templates": (1,)})
_IN_LOGITS = replace(_PREFERS_FIRST, conservative=("text",))  # because few pairs flip
_VERDICTS = Comparison("verdicts on pairs")  # a distribution decides for its likelier label, like greedy text


def better_by_stated(trials: pd.DataFrame, bins: int = 4, resampling: Resampling | None = None) -> pd.DataFrame:
    """Estimate how often people prefer the candidate shown first, by the probability that the judge gives it.

    A reliability diagram (Murphy & Winkler 1977) shows one against the other: a calibrated judge has them equal.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials. Pairs without human scores, or with equal ones, are left out.
    bins : int
        Quantile bins of the probability; verdicts have a bin for each value.
    resampling : Resampling, optional
        Resampling settings.

    Returns
    -------
    pandas.DataFrame
        Estimates of ``first_is_better`` over all attributes of a judge, data set and template; ``stated`` is the mean
        probability of a bin.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> judge = bl.SimulatedJudge(data, quality=0.0, position=2.0)
    >>> trials = bl.collect(Position(["coherence"], [1]), judge, data, progress=False)
    >>> better_by_stated(trials)[["stated", "estimate"]].round(2).to_numpy().tolist()
    [[0.88, 0.5]]
    """
    resampling, rows = resampling or Resampling(), []
    known, cell = trials[(trials["status"] == "ok") & (trials["human_gap"] != 0)], ["judge", "dataset", "template"]
    for where, part in known[known["human_gap"].notna()].groupby(cell, sort=False):
        verdicts = part["value"].isin([0.0, 0.5, 1.0]).all()
        for stated, shown in part.groupby("value") if verdicts else pairs.in_bins(part, bins, "value"):
            share = mean_of(shown, shown["human_gap"].to_numpy(float) > 0, None, (0.0, 1.0)).estimate(resampling)
            at = dict(zip(cell, where, strict=True)) | {"stated": stated}
            rows += estimate_rows({"first_is_better": share}, at, resampling, len(shown), 0)
    return estimates_frame(rows, Position.name, (), ("template", "stated"))


@dataclass(frozen=True)
class Position(PairProbe):
    """Positional bias of a pairwise judge: a preference for the first or second candidate shown.

    Every pair is compared in both orders. Further parameters: `biaslab.probes.base.PairProbe`.

    Parameters
    ----------
    templates : sequence of int
        Comparative templates, 1 and/or 2.
    n_pairs : int, optional
        Unordered pairs per context, drawn at random without replacement; default: all. The draw depends only on the
        seed and the context.
    gap_bins : int
        Bins of the human score gap.
    cue : str
        Text at the end of the prompt, such as "Answer:", which the paper appends for Llama 2.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is defined in `biaslab.probes.base.PairProbe`. There is one estimate for each judge × data set ×
    attribute × template, over pairs judged in both orders. A refusal in one order drops the pair, which is counted in
    ``n_dropped``.

    - ``first_position_rate`` — share of decisions (ties excluded) won by the candidate shown first. 0–1, null ½; above:
      primacy, below: recency. Primary. P(A) in Liusie et al. (2024), Eq. 8. A distribution decides for its likelier
      label; each of k samples (`biaslab.Sampled`) is a decision, as with text, so k does not affect the
      estimand, here and below.
    - ``first_position_logit`` — mean over pairs of ½ [logit p_ij + logit p_ji], in logits. Null 0; above: primacy. It
      does not depend on the candidates' quality. From text and shares of samples: half the common log odds ratio of the
      two orders, Mantel-Haenszel with pairs as strata (`biaslab.measures.ranking.pairs.common_log_odds`).
    - ``order_consistency`` — share of pairs with the same winner, or a tie, in both orders. 0–1.
    - ``resampling_consistency`` — its noise floor: how often two samples of one request agree. 0–1. Computed from p;
    for
      shares of k samples with the unbiased 1 − 2 p (1 − p) k / (k − 1); or counted between replicates.
    - ``primacy_share`` — among pairs that flip, the share in which the first won both times. 0–1, null ½.
    - ``comparative_accuracy`` — share of decisions between candidates with different human scores that agree with the
      humans. 0–1, null ½.
    - ``tie_rate`` — share of ties. 0–1.
    - ``label_mass`` — total probability of all labels. 0–1; low: the judge would rather say something else.

    ``first_position_rate``, ``first_position_logit`` and ``order_consistency`` are also given by bins of the absolute
    human gap (column ``human_gap``, the bin's mean; NaN for all pairs): bias grows as the gap shrinks.

    **Missing judgements.** Rates over all pairs have ``bound_low`` and ``bound_high``, which hold whatever the missing
    judgements are. A note says if more are missing with the better candidate shown first, or second. For the simulated
    coverage of intervals and bounds, see the documentation of biases.

    **Inference.** Most pairs do not flip and carry no information about the order. ``first_position_rate``,
    ``primacy_share`` and ``comparative_accuracy`` therefore have a t test over contexts and its score interval
    (`biaslab.stats.t_inference`); ``first_position_logit`` a t test and t interval, from a jackknife for counts.
    Everything else: bootstrap intervals and sign-flip tests over contexts; ``method`` says which.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Position(attributes=["coherence"], templates=[1])
    >>> judge = bl.SimulatedJudge(data, quality=1.0, position=0.8)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), breakdowns=False)
    >>> overall = estimates.set_index("metric")
    >>> round(float(overall.loc["first_position_logit", "estimate"]), 2)
    0.8
    """

    name = "position"
    unprompted = frozenset({Compare})
    cell = ("judge", "dataset", "attribute", "template")
    conditions = ("human_gap",)
    columns = ("human_gap", *pairs.PAIR, "label_mass")
    needs = "judgements of two candidates shown one after the other"
    metrics = (
        Metric(
            "first_position_rate",
            "P(A), decisions for the first",
            "share",
            null=0.5,
            above="prefers the candidate shown first",
            below="prefers the candidate shown second",
            advice="ask every pair in both orders and average",
            advice_at_ends="use another judge or prompt, because hardly anything but the order decides",
            use="pairs shown in one order only",
            matters=0.1,
            primary=True,
            calibration=_PREFERS_FIRST,
            comparison=_VERDICTS,
        ),
        Metric("first_position_logit", "first-position bias", "logits", null=0.0, calibration=_IN_LOGITS),
        Metric("order_consistency", "same winner in both orders", "share", comparison=_VERDICTS),
        Metric("primacy_share", "primacy among flipped pairs", "share", null=0.5),
        Metric(
            "comparative_accuracy",
            "pairs ordered as the reference scores do",
            "share",
            null=0.5,
            above="orders pairs as the reference scores do",
            below="orders pairs against the reference scores",
            quality=True,
            calibration=planted({"quality": 0.18}, {"templates": (1,)}, fair=FAIR | {"quality": 0.0}),
        ),
        Metric("tie_rate", "ties", "share"),
        LABEL_MASS,
        Metric("resampling_consistency", "same winner in two samples of one request", "share"),
    )
    figures = (
        Figure("first_position_rate", "first_position_rate", by="attribute", hue="template"),
        Figure("consistency", _CONSISTENCY, by="attribute", col="template", says=Says(plain=_SAME_WINNER)),
    )

    templates: Sequence[Literal[1, 2]] = (1, 2)
    n_pairs: int | None = None
    gap_bins: int = 4
    cue: str = field(default="", kw_only=True)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every drawn pair in both orders, for each attribute, template and replicate."""
        return self.pairs(dataset, templates=self.templates, n_pairs=self.n_pairs, cue=self.cue)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics over all pairs and, if no metric was named, some by bins of the human gap."""
        blocks = pairs.both_orders(cell.trials, cell.what)
        metrics = _metrics(blocks, self.resampling)
        metrics["resampling_consistency"] = partial(_noise_floor, blocks, cell.trials)
        if (cell.trials["template"] == EACH_ALONE).all() and _is_free(blocks):
            checked = f"each text is scored alone, so swapping changes none of {len(blocks):,} verdicts"
            n = blocks["context_id"].nunique()
            metrics["first_position_rate"] = by_construction(0.5, n, checked)
            metrics["first_position_logit"] = by_construction(0.0, n, checked)
        missing = partial(missing_data_bounds, cell.trials), partial(note_missing_pairs, cell.trials)
        yield cell.part(metrics, blocks, {"human_gap": np.nan}, *missing)
        for gap, part in pairs.in_bins(blocks, self.gap_bins) if cell.everything else ():
            binned = _metrics(part, self.resampling, null=None)
            yield Part({name: binned[name] for name in _BY_GAP}, part, {"human_gap": gap})

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select pairs with known order, by judges that judged some pair in both orders."""
        judged = paired(trials)
        if judged.empty:
            return self._accepted(judged)
        shown = judged[judged["order_known"].astype(bool)]
        if shown.empty:
            return Accepted(shown, "needs to know which candidate was shown first; the log does not say")
        cell = [shown[name] for name in self.cell]
        kept = pairs.in_both_orders(shown, cell).groupby(cell).transform("any")
        if not kept.any():
            return Accepted(shown[kept], "needs pairs in both orders; each was judged in one order only")
        others = shown.loc[~kept, list(self.cell)].drop_duplicates()
        names = ", ".join(" / ".join(map(str, row)) for row in others.itertuples(index=False))
        return Accepted(shown[kept], f"left out {names}: no pair was judged in both orders" if names else "")


def _metrics(blocks: pd.DataFrame, resampling: Resampling, null: float | None = 0.0) -> Metrics:
    """Compute the metrics of pairs in both orders; without a null, no tests."""
    both = blocks[["first_ij", "first_ji"]].to_numpy(float)
    context, won, other = blocks["context_id"].repeat(2), both.ravel(), both[:, ::-1].ravel()
    gap = np.outer(blocks["human_gap"].to_numpy(float), (1, -1)).ravel()
    even = None if null is None else 0.5
    return {
        "first_position_rate": pairs.first_position_rate(blocks["context_id"], both, even),
        "first_position_logit": lambda: _bias(blocks, resampling, null),
        "order_consistency": pairs.order_consistency(context, won, other),
        "primacy_share": pairs.primacy_share(context, won, other),
        "comparative_accuracy": pairs.comparative_accuracy(context, won, gap),
        "tie_rate": pairs.tie_rate(context, won),
        "label_mass": label_mass(blocks),
    }


def _is_exact(blocks: pd.DataFrame) -> bool:
    """Return whether p are exact probabilities rather than shares of samples or verdicts."""
    sampled = blocks[["samples_ij", "samples_ji"]].notna().to_numpy().any()
    return not (sampled or np.isin(blocks[["p_ij", "p_ji"]], (0.0, 0.5, 1.0)).all())


def _is_free(blocks: pd.DataFrame) -> bool:
    """Return whether all pairs have the same winner, with the same probability, in both orders."""
    return bool(len(blocks)) and bool(np.allclose(blocks["p_ij"] + blocks["p_ji"], 1.0, rtol=0, atol=1e-6))


def _bias(blocks: pd.DataFrame, resampling: Resampling, null: float | None) -> Ratio | Estimate:
    """Return the mean of ½ [logit p_ij + logit p_ji]; from counts, the value common to all pairs."""
    if not _is_exact(blocks):
        return first_position_log_odds(blocks, resampling, null)
    return mean_of(blocks, log_odds(blocks[["p_ij", "p_ji"]].to_numpy(float)).mean(axis=1), null, inference="t")


def _noise_floor(blocks: pd.DataFrame, trials: pd.DataFrame) -> Ratio:
    """Return how often two samples of one request agree, from p, shares of samples, or replicates."""
    p, samples = (blocks[[f"{name}_ij", f"{name}_ji"]].to_numpy(float) for name in ("p", "samples"))
    if np.isnan(samples).all() and not _is_exact(blocks):
        seen = pairs.replicate_agreement(trials)
        missing = because("one_replicate", "only one replicate")
        return Ratio(seen["context_id"], seen["agree"], seen["pairs"], bounds=(0.0, 1.0), missing=missing)
    with np.errstate(divide="ignore", invalid="ignore"):
        unbiased = np.where(samples > 1, samples / (samples - 1), np.where(np.isnan(samples), 1.0, np.nan))
    agree = (1 - 2 * p * (1 - p) * unbiased).mean(axis=1)
    return mean_of(blocks, agree, None, (0.0, 1.0), because("one_sample", "needs at least 2 samples per request (k=2)"))
