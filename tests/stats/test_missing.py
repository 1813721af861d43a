"""Bounds of shifts, and the test of whether what is missing depends on the condition."""

import numpy as np
import pandas as pd
import pytest

from biaslab.stats.blocks import whole_blocks
from biaslab.stats.missing import completed, missing_by_condition, note_missing, shift_extremes
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

pytestmark = pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")


def scores(seed=0, contexts=20, lost=0.2):
    rng = np.random.default_rng(seed)
    rows = [
        {"context_id": f"c{c}", "candidate_id": f"x{k}", "source": source, "value": float(rng.integers(1, 6))}
        for c in range(contexts)
        for k in range(3)
        for source in ("with", "without")
    ]
    trials = pd.DataFrame(rows)
    gone = rng.random(len(trials)) < lost
    return trials.assign(status=np.where(gone, "refused", "ok"), value=trials["value"].mask(gone)), trials["value"]


def shift(blocks):
    return Ratio(blocks["context_id"], blocks["with"] - blocks["without"], np.ones(len(blocks)), 0.0, (-4.0, 4.0))


def test_shift_bounds_cover_every_completion_and_are_attained():
    trials, _ = scores()
    levels = ["with", "without"]
    ends = shift_extremes(trials, "source", levels, (1.0, 5.0), shift)
    least, most = (np.sum(ratio.numerator) / np.sum(ratio.denominator) for ratio in ends)
    missing, with_source = trials["value"].isna(), trials["source"] == "with"
    planned = len(trials) / 2
    sums = {side: trials["value"][(trials["source"] == side)].sum() for side in levels}
    first, second = (missing & with_source).sum(), (missing & ~with_source).sum()
    known = sums["with"] - sums["without"]
    assert (least, most) == pytest.approx(
        ((known + first - 5 * second) / planned, (known + 5 * first - second) / planned)
    )
    rng = np.random.default_rng(1)
    for _ in range(20):
        filled = completed(trials, rng.integers(1, 6, len(trials)).astype(float))
        one = shift(whole_blocks(filled, "source", levels, "shift", keep=()))
        assert least <= np.sum(one.numerator) / np.sum(one.denominator) <= most


def test_estimate_carries_its_missing_data_bounds():
    trials, _ = scores()
    levels = ["with", "without"]
    ends = shift_extremes(trials, "source", levels, (1.0, 5.0), shift)
    blocks = whole_blocks(trials, "source", levels, "shift", keep=())
    found = Ratio(**{**vars(shift(blocks)), "extremes": ends}).estimate(Resampling(n=200))
    least, most = (ratio.estimate(Resampling(n=200)) for ratio in ends)
    assert (found.bound_low, found.bound_high) == (least.ci_low, most.ci_high)
    assert np.isnan(shift(blocks).estimate(Resampling(n=200)).bound_low)


@pytest.mark.slow
def test_missing_at_random_is_noted_at_the_level_of_the_test():
    noted = 0
    for seed in range(100):
        trials, _ = scores(seed)
        missing = trials["value"].isna()
        noted += bool(note_missing(trials["context_id"], missing, trials["source"], "the source"))
    assert noted <= 12


def test_more_missing_under_one_condition_is_found():
    trials, _ = scores(lost=0.0)
    rng = np.random.default_rng(0)
    missing = (rng.random(len(trials)) < 0.3) & (trials["source"] == "without")
    (found,) = note_missing(trials["context_id"], missing, trials["source"], "the source")
    assert str(found).startswith("missing judgements depend on the source (p = ")


def test_missingness_test_is_undefined_without_comparison():
    context, missing = np.repeat(np.arange(8), 3), np.tile([True, False, False], 8)
    assert np.isnan(missing_by_condition(context, missing, np.zeros(24)))
    assert np.isnan(missing_by_condition(context, missing, np.full(24, np.nan)))
    assert missing_by_condition(context, missing, np.tile([1, 2, 3], 8)) < 0.05
    assert note_missing(context, np.zeros(24, bool), np.tile([1, 2, 3], 8), "the order") == ()
