"""How good and how quick ranking from comparisons is: exact search, debiasing, adaptive selection, 10,000 candidates.

    python benchmarks/ranking.py exact scale debiasing adaptive --runs 100 --out ranking.csv

Parts
-----
exact      The most likely ranking of 16 candidates, all 240 ordered pairs, by dynamic programming over subsets, beside
           the paper's greedy search, local search and HiGHS: seconds (median and largest), and how much each loses
           against the exact one: share of draws in which it loses, mean loss in nats, or in decisions where ``hard``.
scale      10,000 candidates of one context, 20 comparisons each: seconds to select and to decode, and Spearman's ρ with
           the scores they were drawn from.
debiasing  40 contexts of 16 candidates, a judge with a position bias, R = 25 % of the ordered pairs (each pair at most
           once): Spearman's ρ as a share of what the judge without the bias reaches, per remedy, with a 95 % interval
           over runs. Remedies are fitted on other contexts.
adaptive   Comparisons that adaptive selection needs for 85, 90 and 95 % of the agreement (Spearman's ρ) that all
           N (N − 1) reach, hard decisions, as a share of what random selection needs, with a 95 % bootstrap interval
           over runs. Both are decoded by Bradley–Terry with a position term. Scores are uniform on 1 to 5; i wins,
           shown first, where ``s_i − s_j + bias + noise × Normal > 0``, with noise drawn once for each ordered pair.
           Adaptive selection asks ``batch`` comparisons at a time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import rankdata

from biaslab.measures.ranking import (
    Comparisons,
    debias,
    decode,
    fit_bradley_terry,
    most_likely_ranking,
    select,
    select_adaptively,
)
from biaslab.measures.ranking.debiasing import DEBIASINGS
from biaslab.stats.correlation import correlate_within

Rows = list[dict[str, Any]]
SHARES = (0.85, 0.9, 0.95)
#: Candidates, noise, bias, and how many comparisons adaptive selection asks at a time.
CELLS = (
    *((8, noise, bias, 1) for noise, bias in ((1.0, 0.0), (2.0, 0.0), (1.0, 2.0))),
    *((16, noise, bias, 1) for noise in (0.5, 1.0, 2.0) for bias in (0.0, 1.0, 2.0)),
    *((16, noise, bias, 4) for noise, bias in ((1.0, 0.0), (2.0, 0.0), (1.0, 2.0))),
    *((24, noise, bias, 1) for noise, bias in ((1.0, 0.0), (2.0, 0.0), (1.0, 1.0), (1.0, 2.0))),
)


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's ρ; 0 where the scores do not vary, which ranks nothing."""
    if np.ptp(a) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def run_exact(runs: int) -> Rows:
    """Time the exact ranking of 16 candidates and compare the searches with it."""
    names, pairs, rows = list(map(str, range(16))), select(16, "full"), []
    for hard in (False, True):
        found = []
        for run in range(runs):
            rng = np.random.default_rng([1, run])
            scores = rng.normal(size=16)
            p = expit(scores[pairs[:, 0]] - scores[pairs[:, 1]] + 2 * rng.normal(size=len(pairs)))
            comparisons = Comparisons.of(names, pairs[:, 0], pairs[:, 1], np.round(p) if hard else p)
            best = None
            for method in ("exact", "greedy", "search", "milp"):
                started = time.perf_counter()
                ranking = most_likely_ranking(comparisons, method)
                seconds = time.perf_counter() - started
                best = ranking.log_likelihood if best is None else best
                loss = best - ranking.log_likelihood
                found.append({"method": method, "seconds": seconds, "loss": loss, "loses": loss > 1e-6})
        for method, group in pd.DataFrame(found).groupby("method", sort=False):
            rows.append(
                {"part": "exact", "hard": hard, "method": method, "runs": runs}
                | {"seconds": group["seconds"].median(), "largest_seconds": group["seconds"].max()}
                | {
                    "loses": group["loses"].mean(),
                    "mean_loss": group["loss"].mean(),
                    "largest_loss": group["loss"].max(),
                }
            )
    return rows


def run_scale(_: int, n: int = 10_000, each: int = 20) -> Rows:
    """Select and decode many candidates."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1.5, n)

    def ask(pairs: np.ndarray) -> np.ndarray:
        return (scores[pairs[:, 0]] - scores[pairs[:, 1]] + rng.normal(size=len(pairs)) > 0).astype(float)

    rows = []
    for strategy in ("symmetric", "adaptive"):
        started, budget = time.perf_counter(), n * each // 2
        if strategy == "adaptive":
            comparisons = select_adaptively(n, budget, ask, batch=n // 2, seed=0)
        else:
            pairs = select(n, "symmetric", budget, seed=0)
            comparisons = Comparisons.of(list(map(str, range(n))), pairs[:, 0], pairs[:, 1], ask(pairs))
        selected = time.perf_counter() - started
        for decoding in ("win-ratio", "bradley-terry-position", "likelihood"):
            started = time.perf_counter()
            decoded = decode(comparisons, decoding)
            seconds, known = time.perf_counter() - started, ~np.isnan(decoded.scores)
            rows.append(
                {"part": "scale", "strategy": strategy, "method": decoding, "comparisons": len(comparisons)}
                | {"seconds_selection": selected, "seconds": seconds, "gap": decoded.gap}
                | {"spearman": spearman(decoded.scores[known], scores[known])}
            )
    return rows


def judged(bias: float, noise: float, seed: int, contexts: int = 40, n: int = 16) -> tuple[Comparisons, np.ndarray]:
    """Return a quarter of the comparisons of several contexts by a judge with a position bias, and the true scores."""
    rng = np.random.default_rng([2, seed])
    scores = rng.uniform(1, 5, contexts * n)
    drawn = [select(n, "no-repeat", n * (n - 1) // 4, seed * contexts + k) + k * n for k in range(contexts)]
    first, second = np.concatenate(drawn).T
    p = expit(scores[first] - scores[second] + bias + noise * rng.normal(size=len(first)))
    names = np.repeat(np.arange(contexts).astype(str), n).astype(object)
    return Comparisons(names, np.tile(np.arange(n).astype(str), contexts).astype(object), first, second, p), scores


def run_debiasing(runs: int) -> Rows:
    """Compare the agreement after each remedy with that of a judge without the bias."""
    rows = []
    for bias in (1.0, 2.0, 4.0):
        for noise in (0.5, 1.0):
            found: dict[str, list[float]] = {name: [] for name in DEBIASINGS if name != "swap-average"}
            for run in range(max(10, runs // 5)):
                fair, scores = judged(0.0, noise, run)
                biased, _ = judged(bias, noise, run)
                goal = correlate_within(decode(fair).scores, scores, fair.context, "spearman").mean()
                for name, shares in found.items():
                    decoded = decode(debias(biased, name)).scores
                    shares.append(float(correlate_within(decoded, scores, fair.context, "spearman").mean() / goal))
            for name, shares in found.items():
                half = 1.96 * np.std(shares, ddof=1) / np.sqrt(len(shares))
                at = {"part": "debiasing", "bias": bias, "noise": noise, "method": name, "runs": len(shares)}
                rows.append(
                    at | {"share": np.mean(shares), "low": np.mean(shares) - half, "high": np.mean(shares) + half}
                )
    return rows


def replay(n: int, noise: float, bias: float, batch: int, runs: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return numbers of comparisons, and ρ against them, shape (runs, grid), by selection.

    Random selection goes on to all N (N − 1), adaptive selection until random has 95 % of that agreement.
    """
    every, names = n * (n - 1), list(map(str, range(n)))
    grid = np.unique(np.append(np.geomspace(n // 2, every, 24).astype(int), every))
    scores, won = np.zeros((runs, n)), np.zeros((runs, n, n))
    for run in range(runs):
        # other draws than those on which the selection was designed ([3, n, run])
        rng = np.random.default_rng([8, n, run])
        scores[run] = rng.uniform(1, 5, n)
        won[run] = scores[run][:, None] - scores[run] + bias + noise * rng.normal(size=(n, n)) > 0

    def agree(comparisons: Comparisons, run: int, upto: np.ndarray) -> list[float]:
        parts = (comparisons.take(slice(0, size)) for size in upto)
        return [spearman(fit_bradley_terry(part, position=True).scores, scores[run]) for part in parts]

    found = {"random": np.zeros((runs, len(grid)))}
    for run in range(runs):
        pairs = select(n, "random", None, 10_000 + run)
        comparisons = Comparisons.of(names, pairs[:, 0], pairs[:, 1], won[run][pairs[:, 0], pairs[:, 1]])
        found["random"][run] = agree(comparisons, run, grid)
    mean = found["random"].mean(axis=0)
    part = grid[: int(np.argmax(mean >= max(SHARES) * mean[-1])) + 1]
    found["adaptive"] = np.full((runs, len(grid)), np.nan)
    for run in range(runs):

        def ask(pairs: np.ndarray, run: int = run) -> np.ndarray:
            return won[run][pairs[:, 0], pairs[:, 1]]

        comparisons = select_adaptively(n, int(part[-1]), ask, batch, seed=10_000 + run)
        found["adaptive"][run, : len(part)] = agree(comparisons, run, part)
    return grid, found


def needed(mean: np.ndarray, grid: np.ndarray, target: float) -> float:
    """Return where a mean curve first reaches a target, between the points of the grid; NaN where it does not."""
    at = int(np.argmax(mean >= target))
    if not mean[at] >= target:
        return float("nan")
    return float(grid[0] if at == 0 else np.interp(target, mean[at - 1 : at + 1], grid[at - 1 : at + 1]))


def run_adaptive(runs: int) -> Rows:
    """Compare the comparisons that selections need."""
    rows: Rows = []
    for n, noise, bias, batch in CELLS:
        size = 2 * runs if n <= 16 else runs
        grid, found = replay(n, noise, bias, batch, size)
        rng = np.random.default_rng(4)
        drawn = [np.arange(size), *rng.integers(0, size, (400, size))]
        for share in SHARES:
            needs = {name: np.zeros(len(drawn)) for name in found}
            for k, chosen in enumerate(drawn):
                target = share * found["random"][chosen, -1].mean()
                for name, curve in found.items():
                    needs[name][k] = needed(curve[chosen].mean(axis=0), grid, target)
            # a draw in which adaptive selection does not get there within what random has needed counts as above it
            ratio = np.nan_to_num(needs["adaptive"] / needs["random"], nan=np.inf)
            low, high = np.quantile(ratio[1:], [0.025, 0.975], method="nearest")
            rows.append(
                {"part": "adaptive", "candidates": n, "noise": noise, "bias": bias, "batch": batch, "runs": size}
                | {"agreement": share, "full": found["random"][:, -1].mean(), "random_needs": needs["random"][0]}
                | {"share": ratio[0], "low": low, "high": high}
            )
        print(pd.DataFrame(rows[-len(SHARES) :]).round(3).to_string(index=False), flush=True)
    return rows


PARTS: dict[str, Callable[[int], Rows]] = {
    "exact": run_exact,
    "scale": run_scale,
    "debiasing": run_debiasing,
    "adaptive": run_adaptive,
}


def main() -> None:
    """Run the parts that are named, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--out", default="ranking.csv")
    options = parser.parse_args()
    rows: Rows = []
    for name in options.parts or PARTS:
        found = PARTS[name](options.runs)
        print(pd.DataFrame(found).round(4).to_string(index=False), flush=True)
        rows += found
    pd.DataFrame(rows).to_csv(options.out, index=False)


if __name__ == "__main__":
    main()
