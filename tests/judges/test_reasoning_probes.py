"""Every probe on a judge that thinks first: with room nearly all is read, without it ten calls say what to do."""

import runpy
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core.errors import CutOffError
from biaslab.judges.api import Patience

ReasoningServer = runpy.run_path(str(Path(__file__).with_name("reasoning_server.py")))["ReasoningServer"]
PROBES = runpy.run_path(str(Path(__file__).parents[1] / "test_every_judge.py"))["PROBES"]
QUICK = Patience(retries=2, first_wait=0.001, grace=5, reach=2)
ROOM = {"tokens": 2048}
#: One a form of question, quickly; all of them otherwise.
QUICKLY = {"position"}
#: Takes perplexities of the embedded model.
LENGTHY = {"familiarity"}
PLACES = (("reasoning_content", "tags"), ("reasoning", "inside"))


@pytest.fixture(scope="module")
def data():
    """Two contexts of the bundled set with three candidates each."""
    whole = bl.load_dataset("graded", limit=2)
    kept = sorted(set(whole.candidates["candidate_id"]))[:3]
    frames = {name: getattr(whole, name) for name in ("candidates", "human")}
    return replace(whole, **{name: frame[frame["candidate_id"].isin(kept)] for name, frame in frames.items()})


@pytest.mark.parametrize(
    ("name", "where"),
    [
        pytest.param(name, where, marks=() if name in QUICKLY else pytest.mark.slow)
        for at, name in enumerate(sorted(PROBES.keys() - {"thinking"}))  # which sets its budgets itself
        for where in PLACES[at % 2][: 1 if name in LENGTHY else 2]
    ],
)
def test_with_and_without_room(name, where, data, tmp_path):
    probe = PROBES[name]
    with warnings.catch_warnings(), ReasoningServer(where) as server, bl.Store(tmp_path / "replies.sqlite") as store:
        warnings.simplefilter("ignore")
        judge = bl.ApiJudge("thinker", server.url, patience=QUICK, thinking=ROOM)
        trials = bl.collect(probe, judge, data, store=store, progress=False)
        of_thinker = trials[trials["status"] != "refused"]
        assert of_thinker["status"].isin(["ok", "tie"]).mean() >= 0.95
        assert len(probe.estimate(trials))
        asked = len(server.order)
        again = bl.collect(probe, judge, data, store=store, progress=False)
        assert again["value"].equals(trials["value"])
        assert len(server.order) == asked
        judge.close()
    with warnings.catch_warnings(), ReasoningServer(where) as server:
        warnings.simplefilter("ignore")
        judge = bl.ApiJudge("thinker", server.url, patience=QUICK)
        said = ""
        try:
            bl.collect(probe, judge, data, progress=False)
        except CutOffError as error:
            said = str(error)
        assert "\n" not in said
        assert "thinking=" in said
        assert len(server.order) <= 10
        judge.close()
