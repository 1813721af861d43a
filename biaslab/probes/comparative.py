"""Comparative assessment: do rankings from pairwise comparisons agree with humans? (Liusie et al. 2024, §3-5)."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.core.arrays import Codes
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.core.metrics import FAIR, Metric, planted
from biaslab.core.requests import Compare
from biaslab.core.schema import Dataset
from biaslab.core.trials import Scalar, Trial
from biaslab.measures.ranking.comparisons import Comparisons, read_trials
from biaslab.measures.ranking.debiasing import Debiasing, debias
from biaslab.measures.ranking.decoding import Decoding, decode
from biaslab.measures.ranking.remedies import MEASURES, RemediedComparisons, tokens_per_item
from biaslab.measures.ranking.selection import SelectionStrategy, most_informative, select
from biaslab.probes.base.probe import LABEL_MASS, Cell, Part, label_mass
from biaslab.probes.base.questions import PairProbe, by_context, draw_of
from biaslab.stats.correlation import CorrelationMethod, Level, estimate_correlation
from biaslab.stats.estimate import Estimate, Note, Remark
from biaslab.stats.frame import warn_missing

_CORRELATED: dict[str, tuple[Level, CorrelationMethod]] = {
    "kendall": ("context", "kendall"),
    "dataset_spearman": ("dataset", "spearman"),
    "system_spearman": ("system", "spearman"),
}
_SCORED = ("human", "opponent_human", "system", "opponent_system")
_BOTH_ORDERS = ("full", "symmetric")


_UNFITTED = Note("debiasing_not_fitted", words="the debiasing cannot be fitted with one context")


@dataclass(frozen=True)
class Comparative(PairProbe):
    """Comparative assessment: agreement with humans, and cost, of rankings from pairwise comparisons.

    Prompts are those of `biaslab.probes.Position`; with a store, they share replies. Further parameters:
    `biaslab.probes.base.PairProbe`.

    Parameters
    ----------
    template : {1, 2}
        Comparative template.
    strategy : {"full", "random", "no-repeat", "symmetric", "adaptive"}
        Which pairs to ask, see `biaslab.ranking.select`; *adaptive* asks the most informative pairs given the answers
        so far (`biaslab.ranking.most_informative`).
    budget : int, optional
        R, comparisons per context and attribute; default: all that the strategy can ask. Not allowed with *full*.
    rounds : int
        Number of rounds over which *adaptive* spreads its budget; each uses the answers to the previous ones.
    decoding : str, optional
        How answers become scores, see `biaslab.ranking.decode`. Default: "win-ratio"; for *adaptive*, which pairs
        candidates of similar quality, "bradley-terry-position".
    debiasing : str
        Correction for position bias to apply first, see `biaslab.ranking.debias`; fitted on other contexts.
    folds : int
        Number of folds of contexts for that.
    in_sample : bool
        Fit it on the contexts it is applied to, as in the paper (Tables 6, 7, 10).
    cue : str
        Text at the end of the prompt, such as "Answer:", which the paper appends for Llama 2.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is the probability that the candidate shown first wins, p_ij of Eq. 3. There is one estimate for
    each judge × data set × attribute × template × strategy, after debiasing. With *full* and *symmetric*, comparisons
    that lack the other order are dropped.

    - ``spearman`` — Spearman's ρ of score and mean human score within a context, averaged over the contexts in which
      both vary. −1 to 1, null 0; above: agrees with human rankings. Primary; t test and t interval over contexts. With
      few candidates, win ratios are often all equal, and such contexts are left out (probabilities rarely are).
    - ``kendall`` — Kendall's τ-b within contexts. −1 to 1, null 0.
    - ``dataset_spearman``, ``system_spearman`` — Spearman's ρ over all candidates, and over the means of systems. −1 to
      1, null 0; of systems without a test.
    - ``comparative_accuracy`` — share of decisions between candidates with different human scores that agree with the
      humans. 0–1, null ½. Tables 7, 10.
    - ``first_position_rate`` — share of decisions for the candidate shown first. 0–1, null ½; with ``debiasing``, the
      bias that is left. P(A) of Eq. 8.
    - ``order_consistency`` — share of comparisons with the same winner in both orders, if both were asked. 0–1.
    - ``tokens_per_item`` — tokens spent per candidate.
    - ``label_mass`` — total probability of all labels. 0–1.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Comparative(["coherence"], strategy="adaptive", budget=10, rounds=5)
    >>> judge = bl.SimulatedJudge(data, quality=2.0, noise=0.5)
    >>> trials = bl.collect(probe, judge, data, progress=False)
    >>> len(trials)
    80
    >>> estimates = probe.estimate(trials).set_index("metric")
    >>> bool(estimates.loc["spearman", "estimate"] > 0.8)
    True
    """

    name = "comparative"
    unprompted = frozenset({Compare})
    cell = ("judge", "dataset", "attribute", "template", "strategy")
    conditions = ("decoding", "debiasing")
    columns = (*_SCORED, "tokens", "label_mass")
    metrics = (
        Metric(
            "spearman",
            "Spearman's ρ with the reference scores",
            null=0.0,
            above="ranks candidates as the reference scores do",
            below="ranks candidates against the reference scores",
            advice=("", "do not use its rankings"),
            matters=0.1,
            quality=True,
            primary=True,
            calibration=planted(
                {"quality": 0.06},
                # few candidates often tie in win ratio, and contexts without a ranking are left out
                {"decoding": "mean-probability"},
                fair=FAIR | {"quality": 0.0},
                candidates=6,  # with three, ρ takes few values, and the coverage with 8 contexts was .91
            ),
        ),
        Metric("kendall", "Kendall's τ with the reference scores", null=0.0, quality=True),
        Metric("dataset_spearman", "Spearman's ρ over all candidates", null=0.0, quality=True),
        Metric("system_spearman", "Spearman's ρ of systems", null=0.0, quality=True),
        Metric("comparative_accuracy", "pairs ordered as the reference scores do", "share", null=0.5, quality=True),
        Metric("first_position_rate", "P(A), decisions for the first", "share", null=0.5),
        Metric("order_consistency", "same winner in both orders", "share"),
        Metric("tokens_per_item", "price", "tokens a candidate"),
        LABEL_MASS,
    )
    #: Metrics of `biaslab.ranking.self_consistency`.
    labels = (
        Metric("final_accuracy", "pairs in the order of all candidates", "share", null=0.5),
        Metric("gold_accuracy", "pairs in the order of the reference scores", "share", null=0.5),
        Metric("predicted_tie_rate", "pairs with equal scores", "share"),
    )

    template: Literal[1, 2] = 1
    strategy: SelectionStrategy = "full"
    budget: int | None = None
    rounds: int = 8
    decoding: Decoding | None = None
    debiasing: Debiasing = "none"
    folds: int = 10
    in_sample: bool = False
    cue: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("folds", self.folds, 2)
        if self.budget is not None:
            require_whole("budget", self.budget, 2)
            if self.strategy == "full":
                raise InputError("budget", self.budget, "None with strategy full", "use symmetric or random")
        if self.strategy == "adaptive" and self.decoding in ("win-ratio", "mean-probability"):
            raise InputError("decoding", self.decoding, "bradley-terry-position with strategy adaptive")

    def design(self, dataset: Dataset, trials: pd.DataFrame | None = None) -> Iterator[Trial]:
        """Plan the comparisons of each context and attribute; for an adaptive design, the next round.

        Parameters
        ----------
        dataset : Dataset
            The data to judge.
        trials : pandas.DataFrame, optional
            The trials so far, from `biaslab.collect`; None plans the first round.
        """
        attributes = dataset.require_attributes(self.attributes)
        if trials is not None and self.strategy != "adaptive":
            return
        before = {} if trials is None else dict(iter(trials.groupby(["context_id", "attribute"], sort=False)))
        for (context_id, candidates), attribute in product(by_context(dataset).items(), attributes):
            if len(candidates) < 2:
                continue
            names = [item.candidate_id for item in candidates]
            for i, j in self._pairs(context_id, attribute, names, before.get((context_id, attribute))).tolist():
                first, second = pair = candidates[i], candidates[j]
                condition: dict[str, Scalar] = {"template": self.template, "strategy": self.strategy}
                human = first.human[attribute], second.human[attribute]
                condition |= zip(_SCORED, (*human, first.system, second.system), strict=True)
                yield from self.ask_pair(dataset, self.template, attribute, pair, condition, cue=self.cue)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of one cell, after debiasing."""
        read = read_trials(cell.trials)
        comparisons, rows = read.comparisons, read.row[read.row >= 0]
        if cell.where["strategy"] in _BOTH_ORDERS:
            rows, comparisons = rows[(comparisons.twins >= 0)[rows]], comparisons.paired()
        dropped = len(cell.trials) - len(rows)
        warn_missing(cell.what, dropped, len(cell.trials), "they or the same pair in the other order are missing")
        debiased = debias(comparisons, self.debiasing, self.folds, self.in_sample)
        metrics = self._estimates(cell, debiased, read)
        if self.debiasing != "none":
            note = _UNFITTED if len(comparisons) and not len(debiased) else ""
            metrics = {name: _fitted(estimate, note) for name, estimate in metrics.items()}
        yield Part(metrics, (len(rows), dropped), {"decoding": self._decoding, "debiasing": self.debiasing})

    def _estimates(self, cell: Cell, debiased: Comparisons, read: Any) -> dict[str, Callable[[], Estimate]]:
        trials, resampling = cell.trials, cell.resampling
        contexts = resampling.numbered(pd.unique(read.comparisons.context_id))
        human = read.of_candidates(trials["human"], trials["opponent_human"]).astype(float)
        system = read.of_candidates(trials["system"].astype(object), trials["opponent_system"].astype(object))
        judged = RemediedComparisons(debiased, decode(debiased, self._decoding).scores, human)
        columns = {"context_id": debiased.context_id, "score": judged.scores, "human": human, "system": system}
        frame = pd.DataFrame(columns)

        def correlated(level: Level, method: CorrelationMethod) -> Estimate:
            return estimate_correlation(frame, "score", "human", resampling, level, method, null=0.0)

        return {
            **{name: partial(judged.estimate, name, resampling) for name in MEASURES},
            **{name: partial(correlated, *options) for name, options in _CORRELATED.items()},
            "tokens_per_item": partial(tokens_per_item(trials, read).estimate, contexts),
            "label_mass": partial(label_mass(trials).estimate, resampling),
        }

    @property
    def _decoding(self) -> Decoding:
        return self.decoding or ("bradley-terry-position" if self.strategy == "adaptive" else "win-ratio")

    def _pairs(self, context_id: str, attribute: str, names: list[str], before: pd.DataFrame | None) -> Codes:
        """Return the pairs to ask next of a context and attribute; shape (pairs, 2)."""
        size = len(names)
        if self.strategy != "adaptive":
            return select(size, self.strategy, self.budget, int(draw_of(self.seed, context_id).integers(2**31)))
        so_far = _comparisons_so_far(names, before)
        budget = min(self.budget or size * (size - 1), size * (size - 1))
        batch = min(math.ceil(budget / self.rounds), budget - len(so_far))
        key = zlib.crc32(f"{context_id}\0{attribute}".encode())
        return most_informative(so_far, max(batch, 0), np.random.default_rng([self.seed, key, len(so_far)]))


def _fitted(estimate: Callable[[], Estimate], note: Remark) -> Callable[[], Estimate]:
    """Explain an undefined estimate; without a context, the debiasing is another, so that no estimate is carried."""

    def explained() -> Estimate:
        computed = replace(estimate(), leave_one_out=None)
        return computed.noted(note) if math.isnan(computed.estimate) else computed

    return explained


def _comparisons_so_far(names: list[str], before: pd.DataFrame | None) -> Comparisons:
    """Return the comparisons of one context asked so far; refused ones are NaN, so that they are not asked again."""
    shown = np.empty((2, 0), np.intp), np.empty(0)
    if before is not None:
        mean = before.groupby(["candidate_id", "opponent_id"], sort=False)["value"].mean()
        places = [pd.Index(names).get_indexer(mean.index.get_level_values(level)) for level in (0, 1)]
        shown = np.array(places, np.intp), mean.to_numpy(float)
    (first, second), p = shown
    return Comparisons(np.full(len(names), "", object), np.array(names, object), first, second, p)
