"""Output order: do scores move when the judge gives reasons before them? (Chen et al. 2024, Tables 1-2, Figs. 1-2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from biaslab.core import Comparison, Figure, Metric, Reply, Scalar, Status, Trial
from biaslab.core.checks import require_some_of, require_whole
from biaslab.core.schema import Dataset
from biaslab.measures.ranking.pairs import is_pair
from biaslab.measures.ranking.verdicts import Verdicts
from biaslab.probes._ordered_scores import REASONS, SHIFTS, OrderedScores, failures, mean_by_order
from biaslab.probes._pairs_too import (
    ACCURACY,
    ASKS,
    FIRST_RATE,
    ORDER_CONSISTENCY,
    RESAMPLING,
    Asks,
    drawn_pairs,
    pair_trials,
    reasoned,
)
from biaslab.probes.base import FAIR, Cell, Part, planted
from biaslab.probes.base.pair_probe import read_pair
from biaslab.probes.position import Position
from biaslab.stats import ITEM

_PAIRS, _SHIFTS_OF_PAIRS = "pairs", ("first_shift", "accuracy_shift", "consistency_shift")
_RATES_OF_PAIRS = ("first_position_rate", "comparative_accuracy", "order_consistency")


@dataclass(frozen=True)
class OutputOrder(OrderedScores):
    """Output order: how much a score moves when the judge gives reasons before it.

    Every candidate is scored alone, before and after reasons. Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    forms : sequence of {"ex", "json"}
        Show an example of the answer, and/or describe a JSON object (Table 1). The example consists of lines of text,
        which small models follow more easily; with the printed wording it is JSON with a score of 5.
    orders : sequence of {"s", "sr", "rs"}
        Score alone, score before reasons, score after reasons; the last two are required.
    rules : sequence of bool
        With and/or without the special rules in the prompt; default as in Table 2 and Fig. 1 (Fig. 2: without).
    scale : str
        Name in `biaslab.core.scales.SCALES`. With our wording the highest score is best; Chen et al. ask for the
        severity of faults, so their shifts have the opposite sign.
    wording : {"own", "printed"}
        Ask for one attribute in our wording, or in that of Chen et al., as far as they print it
        (`biaslab.prompts.rate_severity`): one score for all problems, 10 the most severe, and two special rules. The
        score is then compared with the only attribute of the data set, as in ``"dialogue_sets"``.
    aspects : sequence of str
        With the printed wording: the aspects to consider.
    n_candidates : int, optional
        Candidates per context, drawn at random without replacement; default: all. The draw depends only on the
        seed and the context.
    replicates : int
        Samples of each request (N).
    temperature : float
        0 is greedy; replicates are then equal.
    max_tokens : int
        Maximum tokens of an answer with reasons (16 for a score alone). Reasons cut off before the score are parse
        failures, which are rarely missing at random: allow enough.
    asks : sequence of {"pairs", "scores"}
        Score single candidates, compare all pairs in both orders, or both. Pairs have neither forms nor rules.
    opened : bool
        Begin the answer for the judge, up to its first score or reasons, to help small models that do not follow the
        format. The judge must be able to continue an answer, which not every server supports.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    Answers are text, because reasons must be generated before the score. A trial's ``value`` is the score. There is one
    estimate for each judge × data set × attribute × scale × form × rules.

    Contrasts of two orders (column ``order``: "rs-sr", "sr-s") are over items with a score in both (means over
    replicates); others are dropped and counted in ``n_dropped``. In points of the scale:

    - ``reason_first_shift`` — score(rs) − score(sr), paired by item. Null 0; above: a judge that reasons first scores
      higher. Primary.
    - ``reason_shift`` — score(sr) − score(s), paired by item: effect of asking for reasons on a score given before
      them. Null 0.
    - ``sample_difference`` — mean absolute difference between samples in the two orders, for the same item. At least 0.
    - ``resampling_difference`` — its noise floor: the same between two samples of one request. At least 0; undefined
      with one replicate.

    For one configuration (column ``order``: "s", "sr", "rs"; no null), over all its scores:

    - ``mean_score`` — mean over items of the mean over replicates. Table 2.
    - ``score_sd`` — standard deviation of all scores, over items and samples. Table 2.
    - ``resampling_sd`` — standard deviation of the samples of one request. Undefined with one replicate.
    - ``score_share`` — share of scores nearest to the value in the column ``score``, one of at most ten evenly spaced
      values. 0–1. Figs. 1, 2.
    - ``parse_failure_rate`` — share of replies, excluding refusals, without a readable score on the scale. 0–1.

    For **pairs** (``scale`` and ``form`` are "pairs"), over those with verdicts in both orders of verdict and reasons
    and in both orders of the candidates:

    - ``first_shift`` — share of decisions for the candidate shown first, P(A), in the first order of verdict and
      reasons minus that in the second. −1 to 1, null 0; above: more primacy. Primary.
    - ``accuracy_shift`` — the same for the share of decisions that agree with humans, between candidates with different
      human scores. −1 to 1, null 0.
    - ``consistency_shift`` — the same for ``order_consistency``. −1 to 1, null 0.
    - ``verdict_change`` — probability that verdicts in the two orders of verdict and reasons differ. 0–1.
    - ``resampling_change`` — its noise floor: the same for two samples of one request. 0–1; undefined with one
      replicate.
    - ``first_position_rate``, ``comparative_accuracy``, ``order_consistency`` — for one order of verdict and reasons,
      over the pairs of its contrast: P(A), the share of decisions that agree with humans, and the probability that
      samples in both orders of the candidates have the same winner. 0–1.

    If scores are missing, both shifts have ``bound_low`` and ``bound_high``, which hold whatever the missing values
    are.

    **Inference.** All shifts: t tests and t intervals over contexts. Shares, which may come from one context: t or
    score intervals. Everything else: bootstrap intervals over contexts; ``method`` says which.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("dialogues")
    >>> probe = OutputOrder(attributes=["coherence"], forms=["json"], rules=[False], replicates=4)
    >>> judge = bl.SimulatedJudge(data, reason_first=-0.2, quality=0.5)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["reason_first_shift"])
    >>> round(float(estimates["estimate"].iloc[0]), 1)  # −0.2 × 9 points, from 1 to 10
    -1.8
    """

    name = "output_order"
    cell = ("judge", "dataset", "attribute", "scale", "form", "rules")
    conditions = ("order", "score")
    columns = (*ITEM, "order", "replicate", "value", "status")
    needs = "scores before and after reasons, by one judge with one form of prompt"
    asks_for = ("pair", "score")
    metrics = (
        Metric(
            "reason_first_shift",
            "reasons first minus score first",
            "points",
            null=0.0,
            above="scores higher after reasons than before them",
            below="scores lower after reasons than before them",
            advice="fix one order of score and reasons, and report it",
            use="comparing scores given before reasons with scores after them",
            matters=0.5,
            form="score",
            primary=True,
            calibration=planted(
                {"reason_first": 0.12},
                {"forms": ("ex",), "orders": ("sr", "rs"), "rules": (True,), "replicates": 1},
                FAIR | {"quality": 0.5},
            ),
            comparison=Comparison("scores with reasons", ("scale",)),
        ),
        Metric("reason_shift", "score before reasons minus score alone", "points", null=0.0, form="score"),
        Metric("sample_difference", "samples of two orders", "mean absolute difference, points", form="score"),
        Metric("resampling_difference", "samples of one request", "mean absolute difference, points", form="score"),
        Metric("mean_score", "mean score", "points", form="score"),
        Metric("score_sd", "standard deviation of all scores", "points", form="score"),
        Metric("resampling_sd", "standard deviation of samples of one request", "points", form="score"),
        Metric("score_share", "scores at this value", "share", form="score"),
        Metric("parse_failure_rate", "replies without a score", "share"),
        Metric(
            "first_shift",
            "P(A) with reasons first minus verdict first",
            "share",
            null=0.0,
            above="prefers the candidate shown first more after reasons than before them",
            below="prefers the candidate shown first less after reasons than before them",
            advice="fix one order of verdict and reasons, and ask every pair in both orders",
            use="comparing verdicts given before reasons with verdicts after them",
            matters=0.1,
            form="pair",
            primary=True,
            calibration=planted({"reason_first": 0.12}, {"asks": ("pairs",), "orders": ("sr", "rs"), "replicates": 1}),
            comparison=Comparison("verdicts on pairs with reasons"),
        ),
        Metric("accuracy_shift", "accuracy with reasons first minus verdict first", "share", null=0.0, form="pair"),
        Metric(
            "consistency_shift",
            "order consistency with reasons first minus verdict first",
            "share",
            null=0.0,
            form="pair",
        ),
        Metric("verdict_change", "verdicts that differ between two orders", "share", form="pair"),
        RESAMPLING,
        FIRST_RATE,
        ACCURACY,
        ORDER_CONSISTENCY,
    )
    figures = (
        Figure("shifts", ("reason_first_shift", "reason_shift"), by=("attribute", "form"), col="rules"),
        Figure("noise_floor", ("sample_difference", "resampling_difference"), by=("form", "order"), col="rules"),
        Figure("scores", "score_share", x="score", hue="order", col=("form", "rules"), finding=mean_by_order),
        Figure("parse_failures", "parse_failure_rate", by="order", hue="form", col="rules"),
        Figure(
            "pairs",
            ("first_shift", "accuracy_shift", "consistency_shift"),
            by="attribute",
            where={"order": "rs-sr", "scale": "pairs"},
        ),
    )

    asks: Sequence[Asks] = field(default=("scores",), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_some_of("asks", self.asks, ASKS)
        require_whole("n_candidates", self.n_candidates, 2 if "pairs" in self.asks else 1, optional=True)
        self._asking("sr")

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every item in every configuration, and every pair in every order of verdict and reasons."""
        if "pairs" in self.asks:
            yield from self._pairs(dataset)
        if "scores" in self.asks:
            yield from self._scores(dataset)

    def _pairs(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan both orders of every pair, with the verdict alone, before and after reasons."""
        among = drawn_pairs(dataset, self.n_candidates, self.seed)
        where: dict[str, Scalar] = {"form": _PAIRS, "rules": False}
        for trial in pair_trials(self._comparing, dataset, where):
            for order in self.orders if among(trial) else ():
                asked = replace(trial, condition={**trial.condition, "order": order})
                yield reasoned(asked, dataset, REASONS[order], self.max_tokens)

    @property
    def _comparing(self) -> Position:
        how = {"replicates": self.replicates, "temperature": self.temperature, "seed": self.seed}
        return Position(self.attributes, templates=(1,), answer="text", **how)  # type: ignore[arg-type]

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score in the reply (after the given beginning) or the winner of a pair, and the status."""
        if trial.opponent_id is not None:
            return read_pair(trial, reply)
        return self._read_score(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the contrasts of two orders, then the metrics of each configuration."""
        if is_pair(cell.trials).any():
            yield from _of_pairs(cell)
            return
        yield from self._measure_scores(cell)


def _of_pairs(cell: Cell) -> Iterator[Part]:
    """Yield the contrasts of two orders of verdict and reasons, then the rates of each order."""
    asked = set(cell.trials["order"])
    for orders in (each for each in SHIFTS.values() if asked.issuperset(each)):
        label = f"{cell.what[:-1]}, {'-'.join(orders)})"
        verdicts = Verdicts.of(cell.trials, "order", orders, exact=False, what=label).in_both_orders()
        rates = (verdicts.first_rates(), verdicts.accuracies(), verdicts.order_consistencies())
        shifts = {
            name: partial(replace(one, inference="t").difference, two, cell.resampling)
            for name, (one, two) in zip(_SHIFTS_OF_PAIRS, rates, strict=True)
        }
        changes = dict(zip(("verdict_change", "resampling_change"), verdicts.changes(), strict=True))
        note = cell.note_missing(verdicts.n_dropped, "order", orders)
        yield Part({**shifts, **changes}, verdicts.counts, {"order": "-".join(orders)}, note)
        for place, order in enumerate(orders):
            if order != "sr" or orders == SHIFTS["reason_first_shift"]:
                of_order = zip(_RATES_OF_PAIRS, (each[place] for each in rates), strict=True)
                yield Part(dict(of_order), verdicts.counts, {"order": order})
    for name, part in cell.trials.groupby("order", sort=False):
        yield Part({"parse_failure_rate": failures(part)}, part, {"order": name})
