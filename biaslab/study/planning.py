"""Plan a study before spending anything: the number of contexts it needs, and the cost of its requests."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING

from biaslab.core.checks import check_spending, require_study, require_whole
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.interfaces import PRICES, Judge, ProbeInterface
from biaslab.core.requests import Request, request_key
from biaslab.core.trials import Reply
from biaslab.judges.repetition import AnswerMode
from biaslab.judges.simulated import SimulatedJudge
from biaslab.store import Store, open_store
from biaslab.study.collect import collect
from biaslab.study.pilot import CONTEXTS, RATE, Spread, assumed_flips, flips_of, simulated_pilot, spread_of
from biaslab.study.spending import Cost, budget_of, count_cost, extrapolated_cost, price

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.datasets import Dataset

__all__ = ["Plan", "plan", "simulated_pilot"]

_SHORT = "Too few contexts for any test"


@dataclass(frozen=True)
class Plan:
    """Contexts that a study needs to detect an effect, and its cost; prints as text, in a notebook as HTML.

    Attributes
    ----------
    probe, judge, dataset, metric : str
        Names of probe, judge, data set and metric.
    effect : float
        Shift of the metric detected with the given power, in the metric's unit; NaN if there are too few contexts for
        any test.
    contexts : int
        Number of contexts of the study; more than `available` if the data set has too few.
    power, alpha : float
        Power and two-sided significance level.
    spread : Spread
        Variation between contexts, and its source.
    available : int
        Number of contexts in the data set.
    effect_of_all : float
        Shift that all contexts of the data set can detect; NaN if too few.
    requests, stored : int
        Numbers of different requests, and of those that the store answers.
    read, written, distinct : int
        Tokens of the open requests: input, maximum output, and input if every shared prompt prefix counts once.
    counted : str
        How tokens were counted.
    seconds_per_request : float or None
        Speed of the judge; None if not measured.
    dollars, dollars_cached : float or None
        Maximum price of the open requests, and the price if all shared prefixes come from the server's cache; None
        without prices.
    rounds : str
        For sequential designs: description of the later rounds.
    excluded : float
        Shift that the study excludes with the given power if there is none: the interval lies within ± it.
    tests : int
        Number of tests on the card or page with the result; the plan allows for their correction.
    effect_alone : float
        Shift that a single test would detect, at `alpha`.
    """

    probe: str
    judge: str
    dataset: str
    metric: str
    effect: float
    contexts: int
    power: float
    alpha: float
    spread: Spread
    available: int
    effect_of_all: float
    requests: int
    stored: int
    read: int
    written: int
    distinct: int
    counted: str
    seconds_per_request: float | None
    dollars: float | None
    dollars_cached: float | None
    rounds: str = ""
    excluded: float = math.nan
    tests: int = 1
    effect_alone: float = math.nan

    @property
    def open(self) -> int:
        """Number of requests that the judge has to answer."""
        return self.requests - self.stored

    @property
    def minutes(self) -> float | None:
        """Duration of the open requests; None if the speed is unknown."""
        return None if self.seconds_per_request is None else self.open * self.seconds_per_request / 60

    def to_frame(self) -> pd.DataFrame:
        """Return one row with all attributes, so that plans can be concatenated and compared.

        ``spread`` is the standard deviation, ``spread_from`` its source.
        """
        import pandas as pd

        row = asdict(self) | {"spread": self.spread.deviation, "spread_from": self.spread.origin}
        return pd.DataFrame([row | {"open": self.open, "minutes": self.minutes}])

    def __str__(self) -> str:
        first, *others = self._lines()
        return "\n".join([first, *(f"  {line}" for line in others)])

    def _repr_html_(self) -> str:
        first, *others = (html.escape(line) for line in self._lines())
        return f"<p>{first}</p><ul>{''.join(f'<li>{line}</li>' for line in others)}</ul>"

    def _lines(self) -> list[str]:
        each, few, stored = self.requests / self.contexts, self.contexts > self.available, f"{self.stored:,} stored"
        about = "" if each.is_integer() else "about "
        lines = [
            f"{self._question()}: {self.contexts:,} contexts",
            self._alone(),
            self._cleared(),
            f"{self.probe} on {self.dataset}, judged by {self.judge}",
            f"{self.contexts:,} contexts × {about}{each:,.5g} requests = {self.requests:,}, {stored}",
            self.rounds,
            f"{self.read:,} input tokens ({self.counted})",
            f"{self.distinct:,} input tokens if every shared prompt prefix counts once",
            f"at most {self.written:,} output tokens",
            self._time(),
            self._price(),
            f"the data set has only {self.available:,} contexts: {self._all()}" if few else "",
            self.spread.origin,
        ]
        return list(filter(None, lines))

    def _question(self) -> str:
        if math.isnan(self.effect):
            return f"{_SHORT} of {self.metric} at α = {self.alpha:g}"
        shift = f"a shift of {self.effect:.3g} in {self.metric}"
        if self.spread.aim == "exclude":
            return f"To exclude {shift} (α = {self.alpha:g}), if contexts do not vary"
        over = f", {self.tests:,} tests" if self.tests > 1 else ""
        return f"To detect {shift} with {100 * self.power:g} % power (two-sided, α = {self.alpha:g}{over})"

    def _alone(self) -> str:
        """Return a line on the effect that a single test detects."""
        if self.tests == 1 or self.spread.aim == "exclude" or math.isnan(self.effect_alone):
            return ""
        return f"can detect ≥ {self.effect_alone:.3g} alone, ≥ {self.effect:.3g} on a card of {self.tests:,} tests"

    def _cleared(self) -> str:
        """Return a line on the shifts that the study excludes for an unbiased judge."""
        if self.spread.aim == "exclude" or math.isnan(self.excluded):
            return ""
        return f"if there is no bias, can exclude shifts ≥ {self.excluded:.3g} ({100 * self.power:g} % power)"

    def _time(self) -> str:
        if self.minutes is None:
            return "time: not measured"
        return f"{_duration(self.minutes)} at {self.seconds_per_request:.3g} s per request"

    def _price(self) -> str:
        if self.dollars is None:
            return ""
        cached = "" if self.dollars_cached is None else f", ${self.dollars_cached:,.2f} if shared prefixes are cached"
        return f"at most ${self.dollars:,.2f}{cached}"

    def _all(self) -> str:
        known = not math.isnan(self.effect_of_all)
        return f"all of them {self.spread.aim} a shift of {self.effect_of_all:.3g}" if known else _SHORT.lower()


def plan(
    probe: ProbeInterface,
    judge: Judge,
    dataset: Dataset,
    *,
    effect: float | None = None,
    contexts: int | None = None,
    metric: str | None = None,
    power: float = 0.8,
    alpha: float = 0.05,
    tests: int = 1,
    pilot: pd.DataFrame | None = None,
    answer: str | None = None,
    flips: float | None = None,
    prices: Mapping[str, float] | None = None,
    store: Store | str | PathLike[str] | None = None,
    seconds_per_request: float | None = None,
) -> Plan:
    """Compute the contexts needed to detect an effect and their cost, or the effect that a number of contexts detects.

    Parameters
    ----------
    probe : Probe
        The probe.
    judge : Judge
        The judge. It is not asked; a `LocalJudge` counts tokens with its tokenizer.
    dataset : Dataset
        The data to judge.
    effect : float, optional
        The shift of the metric to detect, above 0, in its unit: 0.05 is five points of a rate.
    contexts : int, optional
        Compute instead the shift that this number of contexts can detect. Without `effect` and `contexts`: all contexts
        of the data set.
    metric : str, optional
        The metric; default: the probe's first primary metric.
    power, alpha : float
        Power and two-sided significance level.
    tests : int
        Number of tests on the card or page with the result, including this one: metrics times cells. The effect is then
        detected even if no other test is significant, at α / tests by the correction of
        `biaslab.stats.adjust_families`.
    pilot : pandas.DataFrame, optional
        Trials of an earlier study with this probe, to estimate the variation between contexts. Default: a simulated
        pilot, which is an assumption; see `biaslab.study.pilot.simulated_pilot`.
    answer : str, optional
        How the judge answers: "exact", "text" or "sampled:k", see `biaslab.judges.repetition.AnswerMode`. Texts and
        shares of few samples vary more. Default: the probe's.
    flips : float, optional
        For ``first_position_rate``: share of pairs that flip with the order. Default: that of the pilot.
    prices : mapping, optional
        Dollars per million tokens: ``input`` and optionally ``output`` and ``cached`` (input from the server's cache).
        Default: the judge's, if any.
    store : Store or path, optional
        Store of replies, which are free. A missing file is not created.
    seconds_per_request : float, optional
        Speed of the judge, such as from `biaslab.study.spending.measure`.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        If a value is out of range, effect and contexts are both given, the pilot does not determine the variation
        between contexts, or pairs flip too rarely for such an effect.

    Notes
    -----
    The effect is (t_{1−α/2} + t_{power}) · s / √G with G − 1 degrees of freedom, where s is the standard deviation
    between contexts; see `biaslab.stats.detectable_effect`. If the metric has several cells (attributes, templates), s
    is the largest, so that the effect is detected in each of them; α is per test.

    ``first_position_rate`` depends only on pairs that flip with the order. If a study has fewer than 30 of them, power
    is the share of 1,000 simulated studies, drawn from the pilot, in which the probe's own test detects the shift; see
    `biaslab.study.pilot.Flips`.

    Later rounds of an adaptive design depend on the answers. They are counted with answers from the store or else from
    an unbiased simulated judge; see `biaslab.study.planning.count_rounds`.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded")
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> planned = plan(probe, bl.SimulatedJudge(data), data, contexts=12)
    >>> planned.requests, planned.open
    (360, 360)
    >>> 0.05 < planned.effect < 0.2
    True
    """
    require_study(probe, judge, dataset)
    own = budget_of(judge) if prices is None else None
    prices = own.prices if own else prices
    _check(effect, contexts, prices, seconds_per_request)
    require_whole("tests", tests, 1)
    metric = probe.primary[0] if metric is None else metric
    if answer is not None:
        probe, judge = AnswerMode(answer).asked(probe, judge)
    trials, origin = simulated_pilot(probe, dataset, answer) if pilot is None else (pilot, "")
    spread = _spread(probe, trials, metric, origin, flips)
    available = dataset.n_contexts
    if effect is not None:
        contexts = spread.required(effect, power, alpha / tests)
    contexts = contexts or available
    with open_store(store, create=False) as opened:
        cost, rounds = count_rounds(probe, judge, dataset, contexts, opened)
    dollars, dollars_cached = price(cost, prices)
    return Plan(
        probe=probe.name,
        judge=judge.id,
        dataset=dataset.name,
        metric=metric,
        effect=spread.detectable(contexts, power, alpha / tests) if effect is None else effect,
        contexts=contexts,
        power=power,
        alpha=alpha,
        spread=spread,
        available=available,
        effect_of_all=spread.detectable(available, power, alpha / tests),
        **cost._asdict(),
        seconds_per_request=seconds_per_request,
        dollars=dollars,
        dollars_cached=dollars_cached,
        rounds=rounds,
        excluded=spread.excludable(contexts, power, alpha),
        tests=tests,
        effect_alone=spread.detectable(contexts, power, alpha) if tests > 1 else math.nan,
    )


def _spread(probe: ProbeInterface, trials: pd.DataFrame, metric: str, origin: str, flips: float | None) -> Spread:
    """Return the variation between contexts and, for first-position rate, the flips."""
    if flips is not None:
        if metric != RATE:
            raise InputError("flips", flips, f"None for {metric}", f"it applies only to {RATE}")
        return assumed_flips(trials, flips)
    spread = spread_of(probe, trials, metric, origin)
    return flips_of(trials, spread) if metric == RATE else spread


def _check(
    effect: float | None, contexts: int | None, prices: Mapping[str, float] | None, seconds: float | None
) -> None:
    if effect is not None and contexts is not None:
        raise InputError("effect and contexts", (effect, contexts), "only one of them", "the plan computes the other")
    if contexts is not None:
        require_whole("contexts", contexts, 1)
    if seconds is not None and not 0 < seconds < math.inf:
        raise InputError("seconds_per_request", seconds, "a number above 0, or None if unknown")
    if prices is not None:
        check_spending("prices", prices, PRICES)


def _duration(minutes: float) -> str:
    """Format a duration: "40 s", "12 min", "3.5 h"."""
    if minutes < 2:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def count_rounds(
    probe: ProbeInterface, judge: Judge, dataset: Dataset, contexts: int, store: Store | None
) -> tuple[Cost, str]:
    """Count the requests and tokens of all rounds of a study.

    The first round is counted exactly. Later rounds are simulated on at most the first 24 contexts, with answers from
    the store or else from an unbiased simulated judge, and scaled up to all contexts.

    Parameters
    ----------
    probe, judge, dataset, contexts
        As in `biaslab.study.planning.plan`. The judge is not asked.
    store : Store, optional
        Store of replies, which are free; opened read-only.

    Returns
    -------
    tuple of Cost and str
        The cost of all rounds, and a description of the later ones; "" if everything is asked at once.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=4)
    >>> probe = bl.probes.Comparative(["coherence"], strategy="adaptive", budget=16, rounds=4)
    >>> cost, words = count_rounds(probe, bl.SimulatedJudge(data), data, 4, None)
    >>> cost.requests, words
    (64, '16 of them in the first round; later rounds assume the answers of an unbiased simulated judge')
    """
    first = count_cost(probe, judge, dataset, contexts, store)
    if "trials" not in signature(probe.design).parameters:
        return first, ""
    walked = dataset.head(min(contexts, dataset.n_contexts, CONTEXTS))
    start = f"{first.requests:,} of them in the first round; later rounds "
    if dataset.human.empty:
        return first, start + "are not counted: there are no human scores to simulate answers from"
    foreseen = _Foreseen(judge, walked, store)
    try:
        collect(probe, foreseen, walked, progress=False)
    except JudgeError as error:
        return first, start + f"are not counted: the simulated judge cannot answer ({error})"
    later = list(dict.fromkeys(foreseen.asked))[foreseen.first :]
    if not later:
        return first, ""
    words = start + "assume the answers of an unbiased simulated judge" + (" if the store has none" if store else "")
    more = extrapolated_cost(judge, later, store, walked.n_contexts, min(contexts, dataset.n_contexts), contexts)
    counted = first.counted if first.read or not more.read else more.counted
    requests, stored, read, written, distinct = (a + b for a, b in zip(first[:5], more[:5], strict=True))
    return Cost(requests, stored, read, written, distinct, counted), words  # later rounds share no prompt prefix


class _Foreseen:
    """Judge that answers from the store or else like an unbiased simulated judge, recording its requests."""

    def __init__(self, judge: Judge, dataset: Dataset, store: Store | None) -> None:
        self._simulated, self._store = SimulatedJudge(dataset), store
        self.id, self.kinds, self.check = judge.id, self._simulated.kinds, self._simulated.check
        self.asked: list[Request] = []
        self.first = 0

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        listed = list(requests)
        self.first = self.first or len(listed)
        self.asked += listed
        keys = [request_key(request, self.id) for request in listed]
        stored = {} if self._store is None else self._store.get(keys)
        for key, (request, reply) in zip(keys, self._simulated.ask(listed), strict=True):
            yield request, stored.get(key, reply)
