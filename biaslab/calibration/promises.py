"""Validate promises beyond type-I error and coverage: detectable effects are detected, corrections cover.

Studies are made by numpy alone. The sentence of each promise stands in the table that `keep_promises` returns.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from biaslab.core.checked import checked
from biaslab.core.checks import require_some_of, require_whole
from biaslab.correct import correct
from biaslab.stats import corrected, corrected_effects
from biaslab.stats.t_inference import p_by_t, rare_effect
from biaslab.study.planning.flips import Flips, p_values

Floats = NDArray[np.float64]
_CONTEXTS, _TESTS, _PAIRS = 24, 14, 6
_FOUND, _COVERED, _LEVEL = (0.75, 0.87), (0.93, 1.0), (0.0, 0.065)


@dataclass(frozen=True)
class Promise:
    """A sentence, the share of studies in which it must hold, and the simulation that checks it.

    Parameters
    ----------
    sentence : str
        What is promised.
    band : tuple of float
        From which to which share of studies.
    share : callable
        Maps a generator of random numbers and a number of studies to hits or shares, shape (studies,); NaN where a
        study has no answer.
    """

    sentence: str
    band: tuple[float, float]
    share: Callable[[np.random.Generator, int], Floats]


def _found_on_cards(rng: np.random.Generator, studies: int, contexts: int = _CONTEXTS) -> Floats:
    """Return whether cards detect the shift they state as detectable, when only one judge is biased."""
    stated = np.mean([corrected_effects(_card(rng, 0.0, contexts)).iloc[0] for _ in range(max(studies // 4, 10))])
    cards = [_card(rng, float(stated), contexts).iloc[0] for _ in range(studies)]
    return np.array([card["q_value"] <= 0.05 and card["ci_low"] > card["null"] for card in cards], float)


def _card(rng: np.random.Generator, shift: float, contexts: int) -> pd.DataFrame:
    """Return estimates of one metric for 14 judges, the first with a shift: rates per context, tested by t."""
    values = 0.5 + 0.15 * rng.standard_t(8, (_TESTS, contexts))
    values[0] += shift
    mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / math.sqrt(contexts)
    tested = [p_by_t(m - 0.5, e, contexts) for m, e in zip(mean, error, strict=True)]
    half, power = (float(stats.t.ppf(share, contexts - 1)) for share in (0.975, 0.8))
    columns = {"judge": [f"judge {n}" for n in range(_TESTS)], "p_value": tested, "mde": (half + power) * error}
    columns |= {"ci_low": mean - half * error, "probe": "position", "metric": "first_position_rate", "null": 0.5}
    return corrected(pd.DataFrame(columns).assign(n_contexts=contexts), np.ones(_TESTS, bool))


def _power_of_plans(rng: np.random.Generator, studies: int, pilot: int = 8, tests: int = 1) -> Floats:
    """Return the actual power at the shifts stated by plans from unbiased pilots, one per pilot."""
    found = []
    for sharpness in (1.0, 3.0, 8.0):
        biases = np.r_[0.0, np.geomspace(0.05, 8, 20)]
        nets = [_nets(rng, bias, sharpness, (200, _CONTEXTS)) for bias in biases]
        shifts = [float(net.mean()) / (2 * _PAIRS) for net in nets]
        powers = np.maximum.accumulate([np.mean(p_values(net) < 0.05 / tests) for net in nets])
        for _ in range(max(studies // 60, 2)):
            wins = _wins(rng, 0.0, sharpness, (pilot,))
            first, second = (np.sum(wins[0] & wins[1], axis=-1), np.sum(~wins[0] & ~wins[1], axis=-1))
            deviation = float((first - second).std(ddof=1)) / (2 * _PAIRS)
            made = Flips(deviation, 1.0, "", np.full(pilot, _PAIRS), first, second, pilot=pilot)
            found.append(float(np.interp(made.detectable(_CONTEXTS, alpha=0.05 / tests), shifts, powers)))
    return np.array(found)


def _wins(
    rng: np.random.Generator, bias: float, sharpness: float, shape: tuple[int, ...]
) -> tuple[NDArray[np.bool_], ...]:
    """Return whether the first wins in both orders of each pair; contexts share a position bias."""
    margin = sharpness * rng.normal(size=(*shape, _PAIRS))
    shared = bias + 0.4 * rng.normal(size=(*shape, 1))
    return tuple(sign * margin + shared + 0.7 * rng.normal(size=margin.shape) > 0 for sign in (1, -1))


def _nets(rng: np.random.Generator, bias: float, sharpness: float, shape: tuple[int, ...]) -> Floats:
    first, second = (wins.sum(axis=-1) for wins in _wins(rng, bias, sharpness, shape))
    nets: Floats = (first + second).astype(float) - _PAIRS
    return nets


def _covered(rng: np.random.Generator, studies: int, estimand: str, correction: str) -> Floats:
    """Return whether intervals from 24 of 96 labelled contexts contain the population value; NaN without interval."""
    make, truth = (_pairs, _accuracy) if estimand == "agreement" else (_pairs, _win_rate)
    known, found = truth(_pairs(np.random.default_rng(7), 40_000, 40_000)), []
    for _ in range(studies):
        options = {"estimand": estimand, "corrections": [correction]}
        row = correct(make(rng, 4 * _CONTEXTS, _CONTEXTS), **options).iloc[0]  # type: ignore[arg-type]
        held = row["ci_low"] <= known <= row["ci_high"]
        found.append(math.nan if math.isnan(row["ci_low"]) else float(held))
    return np.array(found)


def _pairs(rng: np.random.Generator, contexts: int, labelled: int) -> pd.DataFrame:
    """Return verdicts on two systems compared three times per context; labels share the context's preference."""
    lean = 0.8 * rng.normal(size=(contexts, 1)) + rng.normal(size=(contexts, 3)) + 1.0
    human = np.sign(lean + rng.normal(size=lean.shape))
    judge = 1 / (1 + np.exp(-4 * (lean + 0.3 + rng.normal(size=lean.shape))))
    human[labelled:] = np.nan
    at = np.tile(np.arange(3), contexts)
    names = {"context_id": np.repeat([f"c{n}" for n in range(contexts)], 3), "candidate_id": [f"x{n}" for n in at]}
    frame = pd.DataFrame(
        names | {"opponent_id": [f"y{n}" for n in at], "value": judge.ravel(), "human_gap": human.ravel()}
    )
    return frame.assign(system="x", opponent="y", judge="j", dataset="d", attribute="a", status="ok")


def _accuracy(pairs: pd.DataFrame) -> float:
    return float(((pairs["human_gap"] > 0) == (pairs["value"] > 0.5)).mean())


def _win_rate(pairs: pd.DataFrame) -> float:
    return float((pairs["human_gap"] > 0).mean())


def _found_of_sure_judges(rng: np.random.Generator, studies: int) -> Floats:
    """Return whether the stated detectable effect is found if one context in 24 differs."""
    effect = rare_effect(np.r_[1.0, np.zeros(_CONTEXTS - 1)] / _CONTEXTS)[0]
    return (p_values((rng.uniform(size=(studies, _CONTEXTS)) < effect).astype(float)) < 0.05).astype(float)


def _rejected_of_sure_judges(rng: np.random.Generator, studies: int) -> Floats:
    """Return whether a fair judge is called biased if a quarter of contexts differ, equally to both sides."""
    differ = rng.uniform(size=(studies, _CONTEXTS)) < 0.25
    return (p_values(np.where(differ, rng.choice([-1.0, 1.0], differ.shape), 0.0)) < 0.05).astype(float)


#: Promises by name.
PROMISES = {
    "card_power": Promise(
        "the shift that a card of 14 tests states with 80 % power is found on it", _FOUND, _found_on_cards
    ),
    **{
        f"plan_power_{pilot}": Promise(
            f"real power at the shift that a plan promises, pilots of {pilot} contexts",
            _FOUND,
            partial(_power_of_plans, pilot=pilot),
        )
        for pilot in (8, 24, 100)
    },
    "plan_power_card": Promise(
        "the same of plans for a card of 14 tests, pilots of 24",
        _FOUND,
        partial(_power_of_plans, pilot=24, tests=_TESTS),
    ),
    **{
        f"{name}_{correction}": Promise(
            f"the {words} corrected by {correction}, 24 of 96 contexts labelled, covers",
            _COVERED,
            partial(_covered, estimand=estimand, correction=correction),
        )
        for name, estimand, words in (("accuracy", "agreement", "accuracy"), ("win_rate", "win_rate", "win rate"))
        for correction in ("human", "ppi")
    },
    "sure_power": Promise(
        "the effect that is stated where one context in 24 differs is found", _FOUND, _found_of_sure_judges
    ),
    "sure_type_i": Promise(
        "a fair judge of whom a quarter of the contexts differ is called biased", _LEVEL, _rejected_of_sure_judges
    ),
}


@checked(eager=True)
def keep_promises(studies: int = 400, names: Sequence[str] | None = None, seed: int = 0) -> pd.DataFrame:
    """Simulate promises beyond type-I error and coverage: of cards, plans, corrections and confident judges.

    Parameters
    ----------
    studies : int
        Simulated studies a promise, at least 10; of plans a twentieth as many pilots.
    names : sequence of str, optional
        Some of `PROMISES`; all by default.
    seed : int
        Of everything random. A promise does not depend on which others are simulated.

    Returns
    -------
    pandas.DataFrame
        One row per promise: ``promise, sentence, studies`` (those with an answer), ``estimate`` (the share of them, or
        of plans the mean power), ``ci_low, ci_high`` (95 %: its Monte-Carlo error), ``low, high`` (the band), ``kept``
        (does the interval reach into the band), ``seconds``.

    Raises
    ------
    InputError
        If a number is too small or a name is unknown.

    Examples
    --------
    >>> keep_promises(100, ["sure_type_i"])[["promise", "kept"]].to_numpy().tolist()
    [['sure_type_i', True]]
    """
    require_whole("studies", studies, 10)
    require_whole("seed", seed, 0)
    if names is not None:
        require_some_of("names", names, tuple(PROMISES))
    return pd.DataFrame([_row(name, studies, seed) for name in (names or PROMISES)])


def _row(name: str, studies: int, seed: int) -> dict[str, object]:
    promise, started = PROMISES[name], time.perf_counter()
    shares = promise.share(np.random.default_rng([seed, zlib.crc32(name.encode())]), studies)
    shares = shares[~np.isnan(shares)]
    mean, count = float(shares.mean()), len(shares)
    if set(shares) <= {0.0, 1.0}:
        low, high = proportion_confint(shares.sum(), count, alpha=0.05, method="wilson")
    else:
        reach = float(stats.t.ppf(0.975, count - 1)) * float(shares.std(ddof=1)) / math.sqrt(count)
        low, high = mean - reach, mean + reach
    numbers = {"studies": count, "estimate": mean, "ci_low": float(low), "ci_high": float(high)}
    numbers |= {"low": promise.band[0], "high": promise.band[1]}
    kept = bool(low <= promise.band[1] and high >= promise.band[0])
    return {
        "promise": name,
        "sentence": promise.sentence,
        **numbers,
        "kept": kept,
        "seconds": time.perf_counter() - started,
    }


def render_promises(found: pd.DataFrame, command: str, day: str) -> str:
    """Return the table of `keep_promises` as a documentation page.

    Parameters
    ----------
    found : pandas.DataFrame
        Made by `keep_promises`.
    command : str
        With which the table was made.
    day : str
        When it was made.

    Examples
    --------
    >>> page = render_promises(keep_promises(50, ["sure_type_i"]), "biaslab validate --promises", "2026-01-31")
    >>> page.count("| sure_type_i |")
    1
    """
    head = (
        f"# Promises of cards, plans and corrections\n\nSimulated on {day} with\n\n```bash\n{command}\n```\n\n"
        "Studies are made by numpy, without a simulated judge. **Bold** shares leave their band by more than the\n"
        "Monte-Carlo error. Metrics and their own promises are in [The calibration table](table.md).\n\n"
        "| promise | sentence | studies | share | 95 % interval | band |\n|---|---|---:|---:|---:|---:|\n"
    )
    lines = []
    for row in found.itertuples():
        share = f"{row.estimate:.3f}" if row.kept else f"**{row.estimate:.3f}**"
        interval, band = f"{row.ci_low:.3f} – {row.ci_high:.3f}", f"{row.low:g} – {row.high:g}"
        lines.append(f"| {row.promise} | {row.sentence} | {row.studies} | {share} | {interval} | {band} |")
    return head + "\n".join(lines) + "\n"
