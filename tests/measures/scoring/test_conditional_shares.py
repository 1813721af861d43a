"""Scores after a low and after a high one: counted by hand, and as the anchoring probe has them."""

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.measures.scoring import conditional_shares


def test_shares_are_those_that_one_counts_and_add_up_to_one():
    rows = [("c", 1, 1, 5), ("c", 3, 2, 5), ("d", 4, 5, 1), ("d", 5, 5, np.nan), ("e", 5, 4.4, 1)]
    scores = pd.DataFrame(rows, columns=["context_id", "x", "y", "z"])
    found = conditional_shares(scores, ["x", "y", "z"], range(1, 6), "j", "d")
    pairs = found[["after", "attribute", "position"]].drop_duplicates()
    assert list(pairs.itertuples(index=False, name=None)) == [("x", "y", 2), ("x", "z", 3), ("y", "z", 3)]
    one = found[(found["after"] == "x") & (found["attribute"] == "y")].set_index(["metric", "score"])["estimate"]
    assert [one["share_after_low", k] for k in range(1, 6)] == pytest.approx([0.5, 0.5, 0, 0, 0])
    assert [one["share_after_high", k] for k in range(1, 6)] == pytest.approx([0, 0, 0, 1 / 3, 2 / 3])
    dropped = found.loc[found["attribute"] == "z", "n_dropped"]
    assert (dropped == 1).all()


def test_conditional_shares_agree_with_the_anchoring_probe():
    data = bl.load_dataset("graded", limit=8)
    probe = bl.probes.Anchoring(["coherence", "fluency"], scale="1-10", answer="text", n_forced=0, n_orders=1)
    trials = bl.collect(probe, bl.SimulatedJudge(data, anchoring=0.4, noise=1.0), data, progress=False)
    joint = trials[trials["arm"] == "joint"]
    wide = joint.pivot_table(index=["context_id", "candidate_id"], columns="attribute", values="value").reset_index()
    ours = conditional_shares(wide, ["coherence", "fluency"], range(1, 11), "j", data.name)
    theirs = probe.estimate(trials)
    for metric in ("mean_after_low", "mean_after_high", "share_after_low"):
        both = [f.loc[f["metric"] == metric].set_index("score")["estimate"].sort_index() for f in (ours, theirs)]
        np.testing.assert_allclose(*(each.to_numpy(float) for each in both))


def test_one_attribute_follows_nothing():
    with pytest.raises(InputError, match="two"):
        conditional_shares(pd.DataFrame({"context_id": ["c"], "x": [1.0]}), ["x"], [1, 2], "j", "d")
