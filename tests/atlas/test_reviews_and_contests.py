"""Figures computed from the raw files alone come out of the readers of reviews, debates and translations."""

import numpy as np
import pytest

import biaslab as bl
from biaslab.atlas.sources import find_source

pytestmark = pytest.mark.slow


def test_paper_reviews_reproduce_printed_means_and_correlations(shared_data):
    rows = find_source("ai_scientist").read(shared_data)
    assert rows["context_id"].nunique() == 500
    assert rows["human"].mean() == pytest.approx(5.4231, abs=5e-5)
    figures = {
        "single": (5.0520, 0.2185),
        "reflected": (4.9840, 0.3214),
        "merged": (5.4000, 0.3212),
        "merged with an example": (5.2280, 0.4188),
    }
    for way, (mean, correlation) in figures.items():
        own = rows[rows["configuration"] == way]
        assert own["value"].mean() == pytest.approx(mean, abs=5e-5)
        assert own["value"].corr(own["human"]) == pytest.approx(correlation, abs=5e-5)
    ours = bl.atlas.estimates(source="ai_scientist", metric="human_agreement")
    ours = ours[ours["coefficient"] == "pearson"].set_index("configuration")["estimate"]
    assert ours.to_dict() == pytest.approx({way: printed for way, (_, printed) in figures.items()}, abs=5e-5)


def test_debates_have_the_printed_wins_of_the_roles_and_no_order(shared_data):
    rows = find_source("debates").read(shared_data)
    figures = {"kimi-k2.6": (1273, 0.5931), "gemini-3.1-pro-preview": (308, 0.4545), "grok-4.3": (266, 0.6053)}
    for judge, (count, wins) in figures.items():
        own = rows[rows["judge"] == judge]
        assert len(own) == count
        assert own["value"].mean() == pytest.approx(wins, abs=5e-5)
    assert not rows["order_known"].any()
    told = set(bl.atlas.estimates(source="debates")["metric"])
    assert told == {"readable_rate", "win_rate"}  # a role is no place, and no preference for the first is told


def test_translations_are_one_segment_a_document(shared_data):
    rows = find_source("wmt25").read(shared_data)
    by_gpt, by_command = (rows[rows["judge"].str.startswith(name)] for name in ("gpt", "command"))
    assert len(by_gpt) == 55_699
    assert "CommandA-MT" in set(by_gpt["candidate_id"]) - set(by_command["candidate_id"])
    assert not rows.duplicated(["judge", "context_id", "candidate_id"]).any()
    fives = [np.mean(part["value"] % 5 == 0) for part in (by_gpt, by_command)]
    assert fives == pytest.approx([0.3937, 0.8787], abs=0.03)  # of all segments
    gaps = bl.atlas.estimates(source="wmt25", metric="own_score_gap").set_index("judge")["estimate"]
    assert (gaps > 0).all()
