"""Plan a study before anything is spent: how many contexts it needs, and what its requests cost."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING

from biaslab.core import PRICES, Judge, Probe
from biaslab.core.checked import checked
from biaslab.core.checks import check_spending, require_whole
from biaslab.core.errors import InputError
from biaslab.judges.modes import AnswerMode
from biaslab.store import Store, open_store
from biaslab.study.planning.flips import RATE, assumed_flips, flips_of
from biaslab.study.planning.pilot import Spread, simulated_pilot, spread_of
from biaslab.study.planning.rounds import count_rounds
from biaslab.study.spending.budget import budget_of
from biaslab.study.spending.cost import price

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.datasets import Dataset

_SHORT = "Too few for any test"


@dataclass(frozen=True)
class Plan:
    """Contexts that a study needs to detect an effect, and its cost; printed as text, in a notebook as HTML.

    Attributes
    ----------
    probe, judge, dataset, metric : str
        Names of what is studied.
    effect : float
        Shift of the metric that is detected with the wanted power, in the metric's unit; NaN where the contexts are too
        few for any test.
    contexts : int
        Contexts of the study; more than `available` if the data set has too few.
    power, alpha : float
        Power, and two-sided level of the test.
    spread : Spread
        How much contexts vary, and where that is known from.
    available : int
        Contexts that the data set has.
    effect_of_all : float
        Shift that all contexts of the data set detect; NaN where they are too few.
    requests, stored : int
        Different requests of the study, and those among them that the store answers.
    read, written, distinct : int
        Tokens of the open requests: read, written at most, and read if every shared beginning is read only once.
    counted : str
        How tokens were counted.
    seconds_per_request : float or None
        Speed of the judge; None if it was not measured.
    dollars, dollars_cached : float or None
        Price of the open requests at most, and if every shared beginning is served from the server's cache; None
        without prices.
    rounds : str
        Of a design that goes on with what was answered: what is known of its later rounds, in words.
    excluded : float
        Shift that the study excludes with the wanted power where there is none: the interval lies within ± it.
    tests : int
        Tests of the card or page on which the result will stand; the study is planned for the corrected one.
    effect_alone : float
        Shift that a test alone would detect, at `alpha`.
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
        """Requests that the judge has to answer."""
        return self.requests - self.stored

    @property
    def minutes(self) -> float | None:
        """Duration of the open requests; None if the speed is not known."""
        return None if self.seconds_per_request is None else self.open * self.seconds_per_request / 60

    def to_frame(self) -> pd.DataFrame:
        """Return one row with every attribute, so that plans can be stacked and compared.

        The spread is its standard deviation; ``spread_from`` says where it is known from.
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
        return [
            f"{self._question()}: {self.contexts:,} contexts",
            *self._alone(),
            *self._cleared(),
            f"{self.probe} on {self.dataset}, judged by {self.judge}",
            f"{self.contexts:,} contexts × {about}{each:,.5g} requests = {self.requests:,}, {stored}",
            *([self.rounds] if self.rounds else []),
            f"{self.read:,} tokens to read ({self.counted})",
            f"{self.distinct:,} tokens to read if every shared beginning is read once",
            f"{self.written:,} tokens to write at most",
            self._time(),
            *([] if self.dollars is None else [self._price()]),
            *([f"the data set has only {self.available:,} contexts: {self._all()}"] if few else []),
            self.spread.origin,
        ]

    def _question(self) -> str:
        if math.isnan(self.effect):
            return f"{_SHORT} of {self.metric} at α = {self.alpha:g}"
        shift = f"a shift of {self.effect:.3g} in {self.metric}"
        if self.spread.aim == "exclude":
            return f"To exclude {shift} (α = {self.alpha:g}), if no context differs"
        over = f" over {self.tests:,} tests" if self.tests > 1 else ""
        return f"To detect {shift} with {100 * self.power:g} % power (two-sided, α = {self.alpha:g}{over})"

    def _alone(self) -> list[str]:
        """Write the effect that the test detects alone."""
        if self.tests == 1 or self.spread.aim == "exclude" or math.isnan(self.effect_alone):
            return []
        return [f"alone: ≥ {self.effect_alone:.3g}; on a card of {self.tests:,} tests: ≥ {self.effect:.3g}"]

    def _cleared(self) -> list[str]:
        """Write the shifts of which an unbiased judge is cleared."""
        if self.spread.aim == "exclude" or math.isnan(self.excluded):
            return []
        return [f"excludes shifts of ≥ {self.excluded:.3g} where there is none, with {100 * self.power:g} % power"]

    def _time(self) -> str:
        if self.minutes is None:
            return "time: not measured"
        return f"{_duration(self.minutes)} at {self.seconds_per_request:.3g} s a request"

    def _price(self) -> str:
        cached = "" if self.dollars_cached is None else f", ${self.dollars_cached:,.2f} if shared beginnings are cached"
        return f"at most ${self.dollars:,.2f}{cached}"

    def _all(self) -> str:
        known = not math.isnan(self.effect_of_all)
        return f"all of them {self.spread.aim} a shift of {self.effect_of_all:.3g}" if known else _SHORT.lower()


@checked(eager=True)
def plan(
    probe: Probe,
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
    """Compute the contexts that an effect needs and their cost, or the effect that a number of contexts detects.

    Parameters
    ----------
    probe : Probe
        What would be measured.
    judge : Judge
        Who would be asked. It is not asked; a `LocalJudge` counts tokens with its tokenizer.
    dataset : Dataset
        What would be judged.
    effect : float, optional
        The shift of the metric to detect, above 0, in its unit: 0.05 is five points of a rate.
    contexts : int, optional
        Turns the question round: which shift does this number of contexts detect? Without `effect` and `contexts`: all
        contexts of the data set.
    metric : str, optional
        By default the probe's first primary metric.
    power, alpha : float
        Wanted power, and two-sided level of the test.
    tests : int
        On how many tests' card or page the result will stand, this one counted: metrics times cells. What is planned is
        then found there, where no other test is: at α / tests, by the correction of `biaslab.stats.adjust_families`.
    pilot : pandas.DataFrame, optional
        Trials of an earlier study with this probe, from which it is read how much contexts vary. By default a simulated
        pilot, which is an assumption: see `biaslab.study.planning.pilot.simulated_pilot`.
    answer : str, optional
        How the judge answers: "exact", "text" or "sampled:k", as of `biaslab.judges.modes.AnswerMode`. Texts and shares
        of few samples vary more. By default what the probe asks for.
    flips : float, optional
        Of ``first_position_rate``: the share of pairs that flip with their order. By default that of the pilot.
    prices : mapping, optional
        Dollars for a million tokens: ``input``, and if wanted ``output`` and ``cached`` (input that the server has in
        its cache). By default those of the judge, where it has any.
    store : Store or path, optional
        Replies that it holds are free. A missing file is not created.
    seconds_per_request : float, optional
        Speed of the judge, such as `biaslab.study.spending.cost.measure` returns.

    Returns
    -------
    Plan

    Raises
    ------
    InputError
        If a value is out of range, effect and contexts are both given, the pilot does not say how much contexts
        vary, or pairs flip too rarely for such an effect.

    Notes
    -----
    The effect is (t_{1−α/2} + t_{power}) · s / √G with G − 1 degrees of freedom, s the standard deviation between
    contexts: `biaslab.stats.detectable_effect`. Where the metric comes in several cells (attributes, templates),
    s is that of the cell that varies most, so that the effect is detected in every one of them; α is that of one test.

    Only pairs that flip with their order move ``first_position_rate``. Where a study has fewer than 30 of them, its
    power is the share of 1,000 simulated studies in which the probe's own test finds the shift; these draw contexts of
    the pilot: `biaslab.study.planning.flips.Flips`.

    What an adaptive design asks in its later rounds depends on the answers. These rounds are counted with answers from
    the store and, where it holds none, of a fair simulated judge: `biaslab.study.planning.rounds.count_rounds`.

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


def _spread(probe: Probe, trials: pd.DataFrame, metric: str, origin: str, flips: float | None) -> Spread:
    """Return how much contexts vary, and of the rate that flips alone move, how they flip."""
    if flips is not None:
        if metric != RATE:
            raise InputError("flips", flips, f"nothing for {metric}", f"only {RATE} depends on it alone")
        return assumed_flips(trials, flips)
    found = spread_of(probe, trials, metric, origin)
    return flips_of(trials, found) if metric == RATE else found


def _check(
    effect: float | None, contexts: int | None, prices: Mapping[str, float] | None, seconds: float | None
) -> None:
    if effect is not None and contexts is not None:
        raise InputError("effect and contexts", (effect, contexts), "one of them", "the plan answers with the other")
    if contexts is not None:
        require_whole("contexts", contexts, 1)
    if seconds is not None and not 0 < seconds < math.inf:
        raise InputError("seconds_per_request", seconds, "a number above 0, or None if it is not known")
    if prices is not None:
        check_spending("prices", prices, PRICES)


def _duration(minutes: float) -> str:
    """Write a time for reading: "40 s", "12 min", "3.5 h"."""
    if minutes < 2:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
