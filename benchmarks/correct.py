"""Coverage and width of corrected estimates, over simulated studies of judges with planted biases.

    python benchmarks/correct.py [STUDIES] [--summeval FOLDER] [--active]

Contexts have two to seven items. Humans score 1 to 5. The judge is lenient by half a point and rewards length, which
humans do not; its verdicts prefer what stands first, and length.
"""

import argparse
import gzip
import json
import re
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit

import biaslab as bl
from biaslab.correct.estimators import Sums, of_humans, of_judge, powered, rogan_gladen
from biaslab.correct.label_plan import choose_contexts

CELLS = [(24, 0.25), (24, 0.5), (100, 0.1), (100, 0.25), (100, 0.5), (400, 0.1), (400, 0.25), (400, 0.5)]
SUPER, THESE = "contexts like these", "these contexts"


def sums_of(place, judge, human, at, contexts, likely=None):
    """Return sums over contexts, as `biaslab.correct.estimators.summed` makes them, many times as quick."""
    size = np.bincount(place, minlength=contexts)
    judged, scored = (np.column_stack([np.bincount(place, of, contexts), size]).astype(float) for of in (judge, human))
    chance = np.full(len(at), len(at) / contexts) if likely is None else likely
    return Sums(judged, at, scored[at], judged[at], chance)


def study(rng, contexts, share, noise, sizes=(2, 8)):
    """One study: a mean of scores, and a win rate of binary verdicts."""
    place = np.repeat(np.arange(contexts), rng.integers(*sizes, contexts))
    quality = 0.7 * rng.normal(size=contexts)[place] + rng.normal(size=len(place))
    length = rng.normal(size=len(place))
    human = np.clip(3 + quality, 1, 5)
    context_noise = 0.5 * noise * rng.normal(size=contexts)[place]
    judge = np.clip(3.5 + 0.8 * quality + 0.4 * length + noise * rng.normal(size=len(place)) + context_noise, 1, 5)
    won = (quality > 0.3).astype(float)
    verdict = (quality + 0.3 * length + 0.6 * noise * rng.normal(size=len(place)) + 0.2 > 0).astype(float)
    at = np.sort(rng.choice(contexts, round(contexts * share), replace=False))
    rate = stats.norm.sf(0.3 / np.sqrt(1.49))
    scores, verdicts = (sums_of(place, *of, at, contexts) for of in ((judge, human), (verdict, won)))
    both = np.bincount(place, verdict * won, contexts)[at]
    return scores, verdicts, both, rate, human.mean()


def coverage(studies):
    """Print coverage and width, a line a cell and judge."""
    rng, rows = np.random.default_rng(0), []
    for contexts, share in CELLS:
        for noise in (0.3, 1.0, 3.0):
            found, width = defaultdict(list), defaultdict(list)
            for _ in range(studies):
                scores, verdicts, both, rate, finite = study(rng, contexts, share, noise)
                fits = {"judge": of_judge(scores), "human": of_humans(scores), "ppi": powered(scores)}
                estimates = {name: (fit.estimate(), 3.0) for name, fit in fits.items()}
                for name in ("human", "ppi"):
                    estimates[f"{name}, these"] = fits[name].estimate(THESE), finite
                estimates["ppi, verdicts"] = powered(verdicts).estimate(null=None, bounds=(0.0, 1.0)), rate
                estimates["rogan_gladen"] = rogan_gladen(verdicts, both).estimate(), rate
                for name, (one, truth) in estimates.items():
                    if not np.isnan(one.estimate):
                        found[name].append(one.ci_low <= truth <= one.ci_high)
                        width[name].append(one.ci_high - one.ci_low)
            ratio = np.mean(width["ppi"]) / np.mean(width["human"])
            row = {"contexts": contexts, "labelled": round(contexts * share), "noise": noise}
            rows.append(row | {name: np.mean(values) for name, values in found.items()} | {"ppi / human": ratio})
            print(pd.DataFrame(rows[-1:]).round(3).to_string(header=len(rows) == 1, index=False), flush=True)


def narrower(studies):
    """Print how much narrower ppi is where context means correlate at ρ, beside the theory."""
    rng = np.random.default_rng(1)
    for contexts, labelled in ((100, 10), (400, 40), (400, 20), (1000, 100)):
        for rho in (0.0, 0.5, 0.7, 0.75, 0.8, 0.9):
            width = defaultdict(list)
            for _ in range(studies):
                human, noise = rng.normal(size=(2, contexts))
                judge, at = rho * human + np.sqrt(1 - rho**2) * noise, np.arange(labelled)
                sums = sums_of(np.arange(contexts), judge, human, at, contexts)
                for name, fit in (("human", of_humans), ("ppi", powered)):
                    one = fit(sums).estimate()
                    width[name].append(one.ci_high - one.ci_low)
            ratio = np.mean(width["ppi"]) / np.mean(width["human"])
            theory = np.sqrt(1 - rho**2 * (1 - labelled / contexts))
            print(f"{labelled} of {contexts}, ρ = {rho}: width {ratio:.3f} of labels alone, theory {theory:.3f}")


def not_at_random(studies):
    """Print coverage where the contexts that score high are three times as likely to be labelled."""
    rng, found = np.random.default_rng(2), defaultdict(list)
    for _ in range(studies):
        quality = rng.normal(size=400)
        human, judge = 3 + quality, 3.5 + 0.8 * quality + rng.normal(size=400)
        likely = np.where(quality > 0, 0.15, 0.05)
        at = np.flatnonzero(rng.random(400) < likely)
        place = np.arange(400)
        for name, chance in (("taken as random", None), ("weighted", likely[at])):
            sums = sums_of(place, judge, human, at, 400, chance)
            for kind, fit in (("human", of_humans), ("ppi", powered)):
                one = fit(sums).estimate()
                found[f"{kind}, {name}"].append((one.ci_low <= 3 <= one.ci_high, one.estimate - 3))
    for name, values in found.items():
        print(f"{name}: coverage {np.mean([v[0] for v in values]):.3f}, bias {np.mean([v[1] for v in values]):+.3f}")


def active(studies):
    """Print error and coverage of contexts chosen by the judge's doubt beside those chosen uniformly."""
    rng = np.random.default_rng(3)
    judges = {
        "calibrated": lambda z: expit(2 * z),
        "noisy": lambda z: expit(2 * z + 1.5 * rng.normal(size=len(z))),
        "overconfident": lambda z: expit(6 * z + 2 * rng.normal(size=len(z))),
        "lenient": lambda z: expit(2 * z + 1.5),
    }
    for contexts, labelled in ((400, 40), (100, 25)):
        for name, judge in judges.items():
            for how in ("uniform", "uncertain"):
                covered, apart = [], []
                for seed in range(studies):
                    z = rng.normal(size=contexts)
                    won, p = (rng.random(contexts) < expit(2 * z)).astype(float), judge(z)
                    names = [f"{n:03}" for n in range(contexts)]
                    pairs = pd.DataFrame({"context_id": names, "value": p, "candidate_id": "x", "opponent_id": "y"})
                    chosen = choose_contexts(pairs, labelled, how, seed)
                    at = chosen["context_id"].astype(int).to_numpy()
                    chance = chosen["probability"].to_numpy()
                    one = powered(sums_of(np.arange(contexts), p, won, at, contexts, chance)).estimate()
                    covered.append(one.ci_low <= 0.5 <= one.ci_high)
                    apart.append(one.estimate - 0.5)
                print(f"{labelled} of {contexts}, {name}, {how}: error {np.std(apart):.4f}, cov {np.mean(covered):.3f}")


def summeval(folder, studies):
    """Print the coverage of GPT-4-0314's corrected mean coherence of each system, a random fifth labelled."""
    data = bl.load_dataset("summeval", path=Path(folder) / "summeval" / "annotations_1200.jsonl.gz")
    file = Path(folder) / "recorded" / "summeval_judges" / "judge_scores.jsonl.gz"
    with gzip.open(file, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    wanted = [r for r in rows if (r["aspect"], r["mode"]) == ("coherence", "rts") and "gpt-4" in r["judge"].lower()]
    table = pd.DataFrame(wanted).drop_duplicates(["system", "id"])
    table["value"] = [score_of(text) for text in table["resp"]]
    human = data.human_means["coherence"].rename("human").reset_index()
    both = human.merge(table, left_on=["context_id", "candidate_id"], right_on=["id", "system"])
    rng, covered, widths = np.random.default_rng(0), defaultdict(list), defaultdict(list)
    names = sorted(set(both["context_id"]))
    for _ in range(studies):
        at = np.sort(rng.choice(len(names), len(names) // 5, replace=False))
        for system, part in both.groupby("system"):
            known = part[part["value"].notna()].set_index("context_id").reindex(names).dropna(subset=["value", "human"])
            place = pd.Index(names).get_indexer(known.index)
            sums = sums_of(place, known["value"].to_numpy(), known["human"].to_numpy(), at, len(names))
            here = sums.judged_labelled[:, 1] > 0
            kept = Sums(sums.judged, at[here], sums.human[here], sums.judged_labelled[here], sums.probability[here])
            for kind, fit in (("human", of_humans), ("ppi", powered)):
                for target in (SUPER, THESE):
                    one, truth = fit(kept).estimate(target), known["human"].mean()
                    covered[kind, target, system].append(one.ci_low <= truth <= one.ci_high)
                    widths[kind, target].append(one.ci_high - one.ci_low)
    for kind, target in widths:
        each = [np.mean(v) for (k, t, _), v in covered.items() if (k, t) == (kind, target)]
        print(f"{kind}, {target}: {min(each):.3f} to {max(each):.3f} by system, mean {np.mean(each):.3f}; "
              f"width {np.mean(widths[kind, target]):.3f}")  # fmt: skip


def score_of(text):
    """Return the last number of a reply, NaN where there is none from 1 to 5."""
    found = re.findall(r"\d+(?:\.\d+)?", str(text))
    value = float(found[-1]) if found else np.nan
    return value if 1 <= value <= 5 else np.nan


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", type=int, nargs="?", default=1000)
    parser.add_argument("--summeval", metavar="FOLDER")
    parser.add_argument("--active", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.summeval:
        summeval(given.summeval, given.studies)
    elif given.active:
        active(given.studies)
    else:
        not_at_random(given.studies)
        narrower(given.studies)
        coverage(given.studies)


if __name__ == "__main__":
    main()
