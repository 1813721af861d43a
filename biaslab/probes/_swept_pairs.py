"""Effects of temperature and reasons on single verdicts on pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from biaslab.core import Completion, Scalar, Trial
from biaslab.core.arrays import Bools
from biaslab.core.schema import Dataset
from biaslab.measures.ranking.verdicts import ORDERS, Verdicts, in_two_orders
from biaslab.probes._pairs_too import at_temperature, drawn_pairs, pair_trials, reasoned
from biaslab.probes._prompt_variance import combined
from biaslab.probes.base import Cell, Estimable, Part, label_mass, mean_of
from biaslab.probes.base.answers import token_count
from biaslab.probes.position import Position
from biaslab.stats import Estimate, has_value, undefined

#: Values of the column ``cot``: without and with reasons before the verdict.
PLAIN, COT = "no CoT", "CoT"
_NONE = float("nan")
_RATES = ("comparative_accuracy", "first_position_rate", "order_consistency")
_SHIFTS = {
    "cot": ("cot_accuracy_shift", "cot_first_shift"),
    "at": ("temperature_accuracy_shift", "temperature_first_shift"),
}
_NOT_ASKED = "undefined: one of the two settings was not asked"


@dataclass(frozen=True)
class SweptPairs:
    """Plan both orders of each pair at several temperatures, with and without reasons before the verdict.

    Parameters
    ----------
    attributes, n_candidates, seed, max_tokens, samples
        As in `biaslab.probes.Sweep`.
    """

    attributes: Sequence[str] | None
    n_candidates: int | None
    seed: int
    max_tokens: int
    samples: int

    def trials(
        self, dataset: Dataset, cot: Sequence[bool], temperatures: Sequence[float], exact: bool
    ) -> Iterator[Trial]:
        """Plan texts at the temperatures; if ``exact``, label probabilities instead of texts without reasons."""
        among = drawn_pairs(dataset, self.n_candidates, self.seed)
        texts = pair_trials(self._comparing("text"), dataset, {})
        labels = pair_trials(self._comparing("distribution"), dataset, {})
        for text, label in zip(texts, labels, strict=True):
            for reasons in cot if among(text) else ():
                where: dict[str, Scalar] = {"cot": COT if reasons else PLAIN, "temperature": _NONE, "label": _NONE}
                if exact and not reasons:
                    yield replace(label, condition={**label.condition, **where})
                    continue
                asked = replace(text, condition={**text.condition, **where})
                asked = reasoned(asked, dataset, "before", self.max_tokens) if reasons else asked
                for temperature in temperatures:
                    yield from self._samples(asked, float(temperature))

    def _samples(self, trial: Trial, temperature: float) -> Iterator[Trial]:
        """Plan the samples of a text, only one if greedy."""
        where = {**trial.condition, "temperature": temperature}
        request = trial.request
        assert isinstance(request, Completion)  # noqa: S101 - text was asked for
        for k in range(self.samples if temperature else 1):
            sample = replace(request, temperature=temperature, replicate=k)
            yield replace(trial, request=sample, condition=where, replicate=k)

    def _comparing(self, answer: str) -> Position:
        return Position(self.attributes, templates=(1,), answer=answer, seed=self.seed)  # type: ignore[arg-type]


def swept_pair_parts(cell: Cell, temperatures: Sequence[float]) -> Iterator[Part]:
    """Yield the metrics of each setting, then the effects of reasons and of temperature."""
    trials = _at_each_temperature(cell.trials, sorted(map(float, temperatures)))
    cell = replace(cell, trials=trials)
    asked = set(zip(trials["cot"], trials["at"], strict=True))
    of_settings = cell.wants(*_RATES, "alpha", "parse_rate", "tokens", "label_mass")
    for (cot, at), part in trials.groupby(["cot", "at"], sort=False) if of_settings else ():
        yield _of_setting(cell, part, str(cot), float(at))  # type: ignore[arg-type]
    for at in sorted({at for _, at in asked}):
        where: dict[str, Scalar] = {"cot": f"{COT} - {PLAIN}", "temperature": at}
        rows = trials[trials["at"] == at]
        if {cot for cot, _ in asked} >= {COT, PLAIN} and cell.wants(*_SHIFTS["cot"]):
            yield _shift(cell, rows, "cot", (COT, PLAIN), where)
    last, first = float(max(temperatures)), float(min(temperatures))
    for cot in (name for name in (PLAIN, COT) if name in set(trials["cot"])):
        if cell.wants(*_SHIFTS["at"]):
            rows = trials[trials["cot"] == cot]
            yield _shift(cell, rows, "at", (last, first), {"cot": cot, "temperature": _NONE})


def _at_each_temperature(trials: pd.DataFrame, temperatures: Sequence[float]) -> pd.DataFrame:
    """Return trials with the temperature ``at`` which each applies; exact probabilities apply at all.

    Shares of counted samples apply at temperature 1. The column ``exact`` marks exact probabilities, including greedy
    texts, because their samples are equal.
    """
    shares = trials["temperature"].isna()
    counted = shares & (trials["samples"].notna() if "samples" in trials else False)
    texts = trials[~shares]
    parts = [texts.assign(at=texts["temperature"], exact=texts["temperature"] == 0)]
    if 1.0 in temperatures:
        parts.append(trials[counted].assign(at=1.0, exact=False))
    known = trials[shares & ~counted]
    parts += [known.assign(value=at_temperature(known["value"], at), at=at, exact=True) for at in temperatures]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def _of_setting(cell: Cell, trials: pd.DataFrame, cot: str, temperature: float) -> Part:
    """Return rates of single verdicts, agreement of samples, and cost in one setting."""
    exact = trials["exact"].to_numpy(bool)
    label = f"{cell.what[:-1]}, {cot}, temperature {temperature:g})"
    both = Verdicts.of(trials, "at", [temperature], exact, label).in_both_orders()
    rates = (both.accuracies(single=True), both.first_rates(), both.order_consistencies())
    read = mean_of(trials, has_value(trials).astype(float), None, (0.0, 1.0))
    metrics: dict[str, Estimable] = {name: rate for name, (rate,) in zip(_RATES, rates, strict=True)}
    metrics["alpha"] = partial(_alpha, cell, trials, exact, label)
    metrics["parse_rate"] = read
    metrics["tokens"] = partial(token_count, combined(trials), 1)
    if temperature == 1 and trials["label_mass"].notna().any():
        metrics["label_mass"] = label_mass(trials)
    return Part(metrics, both.counts, {"cot": cot, "temperature": temperature})


def _alpha(cell: Cell, trials: pd.DataFrame, exact: Bools, what: str) -> Estimate:
    verdicts = Verdicts.of(in_two_orders(trials), "order", ORDERS, exact, what)
    alpha = verdicts.alphas(cell.resampling)[0]
    if (trials["at"] == 0).all() and alpha.estimate == 1:
        note = "1 by construction: greedy answers are equal"
        return replace(alpha, ci_low=1.0, ci_high=1.0, method="none", note=note)
    return alpha


def _shift(
    cell: Cell, trials: pd.DataFrame, way: str, ways: tuple[str, str] | tuple[float, float], where: dict[str, Scalar]
) -> Part:
    """Return accuracy and P(A) in one setting minus those in another, over pairs with verdicts in both."""
    names = _SHIFTS[way]
    if ways[0] == ways[1] or not set(ways) <= set(trials[way]):
        return Part(dict.fromkeys(names, undefined(_NOT_ASKED)), (0, 0), where)
    label = f"{cell.what[:-1]}, {where['cot']})"
    verdicts = Verdicts.of(trials, way, ways, trials["exact"].to_numpy(bool), label).in_both_orders()
    rates = (verdicts.accuracies(single=True), verdicts.first_rates())
    shifts: dict[str, Estimable] = {
        name: partial(replace(one, inference="t").difference, two, cell.resampling)
        for name, (one, two) in zip(names, rates, strict=True)
    }
    note = replace(cell, trials=trials).note_missing(verdicts.n_dropped, way, ways)
    return Part(shifts, verdicts.counts, where, note)
