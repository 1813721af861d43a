"""Every kind of fault, at 64 requests in flight: good replies are stored, bad ones counted under their name.

What is expected of a kind stands with it, in `biaslab.testing`, and so in the documentation.
"""

import random
import re
import time
import warnings
from collections import Counter

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.core.errors import JudgeError, MissingDataWarning
from biaslab.judges.api import ApiJudge, Patience
from biaslab.testing import ANSWERS, FAULTS, FaultServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::biaslab.core.errors.ModelChangedWarning"),
    pytest.mark.filterwarnings("ignore::biaslab.core.errors.InexactLabelsWarning"),
]
COUNT, IN_FLIGHT, RETRIES = 160, 64, 2
LABELS = ("Summary A", "Summary B")
LATE = {"hang", "drip"}  # kinds that are known by the clock alone
LARGE = {"endless", "bomb", "megabyte"}
PAUSING = {"429 long", "429 for years", "429 for ever"}  # nobody is asked for a while after each
REFUSED = {name for name in FAULTS if name.startswith("429")} | {"503"}  # what costs no retry
AGAIN = {name for name, kind in FAULTS.items() if kind.text == "asked again"}
MODES = ("text", "distribution")
WAIT = 600  # seconds: whatever else the machine does, more is a hang


def request_of(mode, number):
    prompt = f"Summary A or Summary B? {number:03}"
    return Completion(prompt, max_tokens=8) if mode == "text" else Choice(prompt, LABELS)


def chosen(name):
    """A seeded part of the prompts, never the first, which shows what a server can do."""
    size = 4 if name in LATE | LARGE | PAUSING else 40
    return set(random.Random(name).sample(range(1, COUNT), size))


def played(name, mode, bad, path, once):
    """Ask all with a fault at some prompts; return the server, the judge, what is stored and the error."""
    prompts = {f"Summary A or Summary B? {number:03}" for number in bad}
    script = lambda text, attempt: name if text in prompts and not (once and attempt) else ""  # noqa: E731
    first = 0.001 if once or name in REFUSED else 0.05  # seconds: between two attempts others are answered
    minutes = 0.005 if name in REFUSED and not once else 10.0
    patience = Patience(RETRIES, minutes=minutes, first_wait=first, grace=60)
    error, began = None, time.monotonic()
    with FaultServer(script, latency=0.02) as server, bl.Store(path) as store:
        judge = ApiJudge(
            "judge",
            server.url,
            patience=patience,
            timeout=5.0 if name in LATE else 300.0,
            max_concurrency=IN_FLIGHT,
        )
        try:
            list(store.wrap(judge).ask([request_of(mode, number) for number in range(COUNT)]))
        except JudgeError as raised:
            error = raised
        judge.close()
        stored = {record.request.messages[-1].content: record.reply for record in store.records()}
    assert time.monotonic() - began < WAIT
    return server, judge, stored, error, prompts


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in ("429 for years", "429 for ever")])
def test_transient_fault(name, mode, tmp_path):
    kind = FAULTS[name]
    server, judge, stored, error, bad = played(name, mode, chosen(name), tmp_path / "s", once=True)
    outcome = getattr(kind, mode)
    if outcome == "ends the run":
        assert re.search(kind.words, str(error))
        assert stored.keys() == server.paid.keys()
        assert not stored.keys() & bad
        return
    assert error is None
    assert len(stored) == COUNT
    counted = Counter({words: times for words, times in judge.faults.items() if re.search(kind.words, words)})
    if outcome == "asked again":
        assert counted.total() == len(bad)
        assert all(server.asked[prompt] == 2 for prompt in bad)
    for prompt in bad if outcome == "unusable" else ():
        assert stored[prompt].finish_reason == "unusable"  # and so without a value: see below
    if name not in LATE:  # on a busy machine others may be late too
        assert judge.faults.total() == (len(bad) if outcome == "asked again" else 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", [name for name, kind in FAULTS.items() if kind.text == "asked again" and name not in LATE]
)
def test_permanent_fault(name, mode, tmp_path):
    server, judge, stored, error, bad = played(name, mode, chosen(name), tmp_path / "s", once=False)
    if name in REFUSED:  # it may be that nobody is answered for as long as patience goes
        assert stored.keys() == server.paid.keys()
    else:
        assert len(stored) == COUNT - len(bad)
        asked = Counter(server.asked[prompt] for prompt in bad)
        assert judge.faults.total() == sum(times * prompts for times, prompts in asked.items())
        assert max(asked) == RETRIES + 1
        # Where a slow machine asks some of the bad after all good ones were answered, one of those ends the run.
        if asked.keys() == {RETRIES + 1}:
            assert re.match(rf"{len(bad)} requests failed, all others were|a request failed", str(error))
    assert re.search(FAULTS[name].words, str(error))
    assert not stored.keys() & bad
    assert all(re.search(FAULTS[name].words, words) for words in judge.faults)


@pytest.mark.parametrize("mode", MODES)
def test_all_faults_that_pass_in_one_run(mode, tmp_path):
    kinds = [name for name, kind in FAULTS.items() if getattr(kind, mode) == "asked again"]
    kinds = [name for name in kinds if name not in LATE | LARGE | PAUSING]
    rng = random.Random(0)
    plan = {f"Summary A or Summary B? {number:03}": rng.sample(kinds, RETRIES) for number in range(1, COUNT)}

    def script(text, attempt):
        return plan[text][attempt] if text in plan and attempt < RETRIES else ""

    patience = Patience(RETRIES, minutes=10, first_wait=0.001)
    with FaultServer(script, latency=0.02) as server, bl.Store(tmp_path / "s") as store:
        judge = ApiJudge("judge", server.url, patience=patience, max_concurrency=IN_FLIGHT)
        assert len(list(store.wrap(judge).ask([request_of(mode, number) for number in range(COUNT)]))) == COUNT
        judge.close()
        assert len(store) == COUNT
        assert judge.faults.total() == RETRIES * (COUNT - 1)
        words = {FAULTS[name].words for names in plan.values() for name in names}
        assert all(any(re.search(each, counted) for each in words) for counted in judge.faults)
        assert set(server.asked.values()) == {1, RETRIES + 1}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", [name for name in ANSWERS if ANSWERS[name].text not in ("asked again", "ends the run")]
)
def test_faulty_replies_have_the_declared_status(name, mode, tmp_path):
    """Every trial has the status that is promised, and only a good one a value."""
    if getattr(FAULTS[name], mode) == "asked again":
        return
    data = bl.load_dataset("graded", limit=2)
    probe = bl.probes.Position(attributes=["coherence"], templates=[1], answer=mode)
    asked = sorted({trial.request.messages[-1].content for trial in probe.design(data)})
    bad = set(asked[8 :: 16 if name in LARGE else 4])  # some of the first are looked at before more is asked
    with FaultServer(lambda text, attempt: name if text in bad else "") as server, bl.Store(tmp_path / "s") as store:
        judge = ApiJudge("judge", server.url, max_concurrency=IN_FLIGHT)
        trials = bl.collect(probe, judge, data, store=store, progress=False)
        again = bl.collect(probe, judge, data, store=store, progress=False)
        judge.close()
        keys = {record.key for record in store.records() if record.request.messages[-1].content in bad}
        store.export(tmp_path / "export.jsonl")
        times = Counter(server.asked.values())
        assert times[2] <= (name == "no text" and mode == "text")  # once with room for a thought that may be hidden
        assert set(times) <= {1, 2}
    is_bad = trials["key"].isin(keys)
    assert is_bad.sum() >= len(bad)
    assert set(trials.loc[is_bad, "status"]) == {getattr(FAULTS[name], mode)}
    assert set(trials.loc[~is_bad, "status"]) == {"ok"}
    pd.testing.assert_frame_equal(trials, again)
    usable = trials["status"].isin(["ok", "tie"])
    assert trials.loc[~usable, "value"].isna().all()
    if not usable.all():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissingDataWarning)
            dropped = probe.estimate(trials, ["first_position_rate"])["n_dropped"]
        assert (dropped >= (~usable).sum()).all()
