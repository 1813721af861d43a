"""Simulated studies of what is promised of corrections and remedies; numpy draws them, without a simulated judge."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.calibration.generators import GENERATORS, generate
from biaslab.core.arrays import Floats
from biaslab.correct import correct
from biaslab.probes.edit import Edit
from biaslab.report.remedy import best_remedy
from biaslab.report.verdicts import findings

_Make = Callable[[np.random.Generator, int, int], pd.DataFrame]
_CONTEXTS, _LARGE = 24, 40_000
_NULL, _NOISE = 0.5, 0.08
#: The bias whose halving a single paired two-sided test of 24 contexts detects with 80 % power.
HALVED = 2 * math.sqrt(2) * _NOISE * float(np.sum(stats.t.ppf([0.975, 0.8], _CONTEXTS - 1))) / math.sqrt(_CONTEXTS)


def covered(rng: np.random.Generator, studies: int, name: str, correction: str) -> Floats:
    """Return whether intervals from 24 of 96 labelled contexts contain the population value; NaN without interval.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the studies.
    studies : int
        Number of studies.
    what : {"accuracy", "win_rate", "rank_agreement", "difference"}
        The corrected quantity.
    correction : str
        A correction of `biaslab.correct`.

    Returns
    -------
    numpy.ndarray
        1 or 0 per study, NaN where there is no interval; shape (studies,).
    """
    make, estimand, value = _CORRECTED[name]
    truth, estimates = value(), []
    for _ in range(studies):
        row = correct(make(rng, 4 * _CONTEXTS, _CONTEXTS), estimand=estimand, corrections=[correction]).iloc[0]  # type: ignore[arg-type, list-item]
        missing = math.isnan(row["ci_low"])
        estimates.append(math.nan if missing else float(row["ci_low"] <= truth <= row["ci_high"]))
    return np.array(estimates)


def refused(rng: np.random.Generator, studies: int) -> Floats:
    """Return whether a regression on length gives no interval if the judge also favours one system by a point."""
    frames = [_lengthy(rng, 4 * _CONTEXTS, _CONTEXTS, other=1.0) for _ in range(studies)]
    rows = [correct(frame, estimand="difference", corrections=["regression"]).iloc[0] for frame in frames]
    return np.array([math.isnan(row["ci_low"]) for row in rows], float)


def worth_covered(rng: np.random.Generator, studies: int) -> Floats:
    """Return whether intervals of `score_worth` contain the value of a population of 5,000 contexts."""
    truth = _worth(5_000, 0)["estimate"]
    rows = [_worth(_CONTEXTS, int(seed)) for seed in rng.integers(1, 2**31, studies)]
    covers = [math.nan if math.isnan(row["ci_low"]) else row["ci_low"] <= truth <= row["ci_high"] for row in rows]
    return np.array(covers, float)


def _worth(contexts: int, seed: int) -> pd.Series:
    trials = generate(GENERATORS["shown"], "edit", contexts, planted=True, seed=(seed,))
    rows = Edit(edits=["authority"]).estimate(trials, ["score_worth"])
    return pd.Series(rows.iloc[0])


def remedy_named(rng: np.random.Generator, studies: int, bias: float, effects: tuple[float, ...]) -> Floats:
    """Return whether `best_remedy` names a remedy: the first one if it has an effect, otherwise any.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws the studies.
    studies : int
        Number of studies of 24 contexts.
    bias : float
        Distance of the rate from 1/2 without a remedy.
    effects : tuple of float
        By how much each remedy reduces it.

    Returns
    -------
    numpy.ndarray
        1 or 0 per study; shape (studies,).
    """
    wanted = "remedy 0:" if effects[0] else "remedy "
    named = [best_remedy(*_tried(rng, bias, effects)) for _ in range(studies)]
    return np.array([words.startswith(wanted) for words in named], float)


def _tried(rng: np.random.Generator, bias: float, effects: tuple[float, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return findings without a remedy, and estimates with each one and of its paired difference to none."""
    quality = rng.normal(0, 0.1, _CONTEXTS)
    before = _NULL + bias + quality + rng.normal(0, _NOISE, _CONTEXTS)
    rows = [_estimate(before, _NULL, "none", "")]
    for number, effect in enumerate(effects):
        after = _NULL + bias - effect + quality + rng.normal(0, _NOISE, _CONTEXTS)
        rows.append(_estimate(after, _NULL, f"remedy {number}", ""))
        rows.append(_estimate(after - before, 0.0, f"remedy {number}", "none"))
    frame = pd.DataFrame(rows).assign(probe="position", judge="generated", dataset="generated", attribute="quality")
    frame = frame.assign(metric="first_position_rate", n_contexts=_CONTEXTS, ci_level=0.95, seed=0, note="")
    return findings(frame.iloc[:1].drop(columns=["remedy", "against"])), frame


def _estimate(values: Floats, null: float, remedy: str, against: str) -> dict[str, object]:
    test = stats.ttest_1samp(values, null)
    low, high = test.confidence_interval()
    reach = float(np.sum(stats.t.ppf([0.975, 0.8], len(values) - 1)))
    row = {"remedy": remedy, "against": against, "estimate": values.mean(), "se": stats.sem(values), "ci_low": low}
    return row | {"ci_high": high, "p_value": test.pvalue, "mde": reach * stats.sem(values)}


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


def _scores(rng: np.random.Generator, contexts: int, labelled: int) -> pd.DataFrame:
    """Return scores of four texts per context by judge and humans, in half points, both with errors."""
    quality = rng.normal(size=(contexts, 4))
    human = np.round(2 * (3 + quality + 0.7 * rng.normal(size=quality.shape))) / 2
    judge = np.round(2 * (3.5 + 0.8 * quality + 0.7 * rng.normal(size=quality.shape))) / 2
    human[labelled:] = np.nan
    return _scored(human, judge, [f"s{n}" for n in range(4)])


def _lengthy(rng: np.random.Generator, contexts: int, labelled: int, other: float = 0.0) -> pd.DataFrame:
    """Return scores of two systems by a judge who rewards length, and favours the second by ``other`` points."""
    quality, words = rng.normal(size=(contexts, 2)), rng.normal([6.0, 7.0], 1, (contexts, 2))
    human = 3 + quality + 0.5 * rng.normal(size=quality.shape)
    judge = human + 0.4 * (words - 6) + [0.0, other] + 0.4 * rng.normal(size=quality.shape)
    human[labelled:] = np.nan
    return _scored(human, judge, ["a", "b"]).assign(words=2 ** words.ravel())


def _scored(human: Floats, judge: Floats, systems: list[str]) -> pd.DataFrame:
    contexts = len(human)
    frame = pd.DataFrame({"context_id": np.repeat([f"c{n}" for n in range(contexts)], len(systems))})
    frame = frame.assign(system=systems * contexts, candidate_id=systems * contexts, human=human.ravel())
    return frame.assign(score=judge.ravel(), judge="j", dataset="d", attribute="a")


@cache
def _accuracy() -> float:
    pairs = _pairs(np.random.default_rng(7), _LARGE, _LARGE)
    return float(((pairs["human_gap"] > 0) == (pairs["value"] > 0.5)).mean())


@cache
def _win_rate() -> float:
    return float((_pairs(np.random.default_rng(7), _LARGE, _LARGE)["human_gap"] > 0).mean())


@cache
def _rank_agreement() -> float:
    frame = _scores(np.random.default_rng(7), _LARGE, _LARGE)
    ranks = [stats.rankdata(frame[name].to_numpy().reshape(-1, 4), axis=1) for name in ("human", "score")]
    one, two = (each - each.mean(axis=1, keepdims=True) for each in ranks)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nanmean((one * two).sum(axis=1) / np.sqrt((one**2).sum(axis=1) * (two**2).sum(axis=1))))


def _difference() -> float:
    return 0.0


_CORRECTED: dict[str, tuple[_Make, str, Callable[[], float]]] = {
    "accuracy": (_pairs, "agreement", _accuracy),
    "win_rate": (_pairs, "win_rate", _win_rate),
    "rank_agreement": (_scores, "agreement", _rank_agreement),
    "difference": (_lengthy, "difference", _difference),
}
