"""Make the golden files: trials and estimates, by the code that is checked out.

Made after the modules were merged, from the trials of commit ceca2fb; all numbers were equal to those that the code
before the merge (32242e55) gave for them. `test_golden.py` reads them with today's code. Do not run this again to make
a failing test pass: that an estimate differs is the defect.
"""

import sys
import warnings
from pathlib import Path

import biaslab as bl
from biaslab.stats.resample import Resampling

HERE = Path(__file__).parent
JUDGE = {
    "quality": 1.0, "position": 0.6, "noise": 1.0, "context_noise": 0.5, "familiarity": -0.5, "verbosity": 0.3,
    "anchoring": 0.3, "heaping": 0.5, "reason_first": 0.1, "source_reliance": 0.4, "sharpness": 4.0, "refusal": 0.05,
    "selective": True, "seed": 3,
}  # fmt: skip
ATTRIBUTES = ("coherence", "fluency")
STUDIES = {
    "position": {},
    "position_text": {"answer": "text", "replicates": 2, "ties": True},
    "comparative": {},
    "comparative_symmetric": {"strategy": "symmetric", "budget": 12, "debiasing": "threshold"},
    "comparative_text": {"answer": "text", "replicates": 2, "strategy": "random", "budget": 10},
    "familiarity": {},
    "familiarity_text": {"answer": "text", "replicates": 2, "level": "dataset"},
    "verbosity": {},
    "verbosity_text": {"answer": "text"},
    "score_distribution": {"scales": ("1-5", "1-10", "1-100")},
    "score_distribution_text": {"answer": "text", "samples": 4, "scales": ("1-100",)},
    "consistency": {"scales": ("1-5", "1-10"), "n_candidates": 3},
    "consistency_text": {"answer": "text", "replicates": 3, "scales": ("1-5", "1-10"), "n_candidates": 2},
    "anchoring": {"n_candidates": 2},
    "anchoring_text": {"answer": "text", "n_forced": 3, "n_candidates": 2, "replicates": 2},
    "output_order": {"n_candidates": 2, "replicates": 2},
    "source": {},
    "source_text": {"answer": "text", "replicates": 2},
    "recipe": {},
    "recipe_text": {"answer": "text", "samples": 2, "against": ("rate_explain",)},
    "sweep": {"n_candidates": 3, "samples": 3},
    "sweep_text": {"answer": "text", "n_candidates": 3, "samples": 2, "temperatures": (0.0, 1.0)},
}


def probe_of(study, parameters):
    name = study.removesuffix("_text").removesuffix("_symmetric")
    kind = bl.probes.find_probe(name)
    attributes = {"attributes": ATTRIBUTES[:1] if name not in ("anchoring", "consistency") else ATTRIBUTES}
    return kind(**attributes, **parameters, resampling=Resampling(n=200))


def main():
    data = bl.load_dataset("graded", limit=8)
    judge = bl.SimulatedJudge(data, **JUDGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for study, parameters in STUDIES.items():
            probe = probe_of(study, parameters)
            trials = bl.collect(probe, judge, data, progress=False)
            trials.attrs = {}
            trials.to_parquet(HERE / f"{study}.trials.parquet", index=False, compression="zstd")
            probe.estimate(trials).to_parquet(HERE / f"{study}.estimates.parquet", index=False, compression="zstd")


if __name__ == "__main__":
    sys.exit(main())
