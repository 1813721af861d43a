"""Labels drawn again and again: a biased judge's interval misses the truth, corrected ones hold it."""

import pytest

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct import draw_labels


@pytest.fixture(scope="module")
def trials():
    return bl.atlas.trials("arena_gpt52", judge="gpt-5.2")


@pytest.mark.slow
def test_a_judge_that_needs_correction(trials):
    """All labels: .236 [.189, .290]. The judge says .359 [.302, .416], whatever is labelled."""
    drawn = draw_labels(trials, shares=[0.2, 0.5], draws=30)
    table = drawn.pivot_table("estimate", ["metric", "share"], "correction")
    assert (table.loc["coverage", "judge"] == 0).all()
    assert (table.loc["coverage", ["human", "ppi"]] > 0.8).all(axis=None)
    widths = table.loc["interval_width"]
    assert (widths.loc[0.5, ["human", "ppi"]] < widths.loc[0.2, ["human", "ppi"]]).all()
    assert widths["judge"].nunique() == 1
    assert sorted(set(drawn["contexts_labelled"])) == [55, 138]
    assert drawn["ci_low"].le(drawn["estimate"] + 1e-9).all()
    assert drawn.equals(draw_labels(trials, shares=[0.2, 0.5], draws=30))


def test_labels_that_cannot_be_drawn(trials, graded):
    with pytest.raises(InputError, match="shares"):
        draw_labels(trials, shares=[0.5, 1.0])
    few = trials[trials["context_id"].isin(trials["context_id"].unique()[:3])]
    with pytest.raises(TrialsError, match="at least five contexts"):
        draw_labels(few, shares=[0.5], draws=1)
