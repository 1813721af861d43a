"""Every probe on every judge that people have: it ends in estimates, or in one sentence that says what to do."""

import math
import re
import runpy
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core.errors import (
    InputError,
    JudgeError,
    MissingDataWarning,
    NearestDesignWarning,
    ServerError,
    UnlabelledRepliesError,
    UnreachableError,
    UnsupportedRequestError,
)
from biaslab.judges.api import ApiJudge, Patience
from biaslab.probes import available

AnsweringServer = runpy.run_path(str(Path(__file__).parent / "judges" / "answering_server.py"))["AnsweringServer"]
QUICK = Patience(retries=2, first_wait=0.001, grace=5, reach=0.2)
TWO = ("coherence", "fluency")
#: Studies as small as the statistics allow.
SMALL = {
    "anchoring": {"attributes": TWO, "n_orders": 1, "n_forced": 2},
    "comparative": {"strategy": "symmetric", "budget": 4},
    "consistency": {"scales": ("1-5",), "replicates": 2},
    "familiarity": {"sources": False},
    "list_position": {"k": 3},
    "output_order": {"forms": ("ex", "json")},
    "position": {"templates": (1,)},
    "recipe": {"samples": 2},
    "score_distribution": {"scales": ("1-100",), "samples": 2},
    "sweep": {"temperatures": (0.0, 1.0), "samples": 2},
    "thinking": {"budgets": (0, "low"), "parameters": {"templates": (1,)}},
}
PROBES = {
    name: kind(**{"attributes": TWO[:1], **SMALL.get(name, {}), "resampling": bl.Resampling(n=200)})
    for name, kind in available().items()
}
#: What probes say of a server that gives text alone.
TEXT = "reads text instead of label probabilities (the"
TURN = "puts the first score in an earlier turn instead of at the beginning of the answer (the conversation ends with"
READER = (
    "uses the perplexity of the embedded model instead of the judge's own (the server gives no log-probabilities of"
)
SAID = dict.fromkeys(PROBES, (TEXT,)) | {"anchoring": (TEXT, TURN), "familiarity": (TEXT, READER), "output_order": ()}


@pytest.fixture(scope="module")
def data():
    """Four contexts of the bundled set with three candidates each."""
    whole = bl.load_dataset("graded", limit=4)
    kept = sorted(set(whole.candidates["candidate_id"]))[:3]
    frames = {name: getattr(whole, name) for name in ("candidates", "human")}
    return replace(whole, **{name: frame[frame["candidate_id"].isin(kept)] for name, frame in frames.items()})


@pytest.fixture(scope="module")
def judge_of():
    made = []

    def make(server, **options):
        made.append(ApiJudge("judge", server.url, patience=QUICK, timeout=5.0, **options))
        return made[-1]

    yield make
    for judge in made:
        judge.close()


def refuse(text, attempt):
    return "refusal"


def forbid(text, attempt):
    return "403"


SERVERS = {
    "probabilities": lambda: AnsweringServer(),
    "text only": lambda: AnsweringServer(probabilities=False),
    "sampled:5": lambda: AnsweringServer(probabilities=False),
    "chat only": lambda: AnsweringServer(probabilities=False, completions=False),
    "refusing": lambda: AnsweringServer(refuse, probabilities=False, completions=False),
    "forbidding": lambda: AnsweringServer(forbid),
}


QUICKLY = {"probabilities", "forbidding"}
#: Probes whose smallest study takes half a second.
LARGE = {"anchoring", "edit", "output_order", "recipe", "self_preference", "template", "thinking"}


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=[] if kind in QUICKLY else [pytest.mark.slow]) for kind in SERVERS]
)
def column(request, judge_of):
    """A kind of server, and a judge on it."""
    with SERVERS[request.param]() as server:
        judge = judge_of(server)
        yield request.param, bl.Sampled(judge, 5) if request.param == "sampled:5" else judge


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with bl.Store(tmp_path_factory.mktemp("matrix") / "replies.sqlite") as store:
        yield store


def outcome(probe, judge, data, store):
    """Return trials and estimates, or the error."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", MissingDataWarning)
        warnings.simplefilter("always", NearestDesignWarning)
        try:
            trials = bl.collect(probe, judge, data, store=store, progress=False)
            estimates = probe.estimate(trials)
        except (InputError, JudgeError) as error:
            return None, error
    assert [str(one.message) for one in said] == [trials.attrs[name] for name in ("otherwise",) if name in trials.attrs]
    return trials, estimates


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else []) for name in sorted(PROBES)]
)
def test_every_probe_on_every_judge_estimates_or_explains(name, column, data, store):
    kind, judge = column
    probe = PROBES[name]
    trials, found = outcome(probe, judge, data, store)
    if kind == "forbidding":
        assert isinstance(found, ServerError)
        assert re.search(r"HTTP 403: not yours\); the key has no access to this model", str(found))
        assert "\n" not in str(found)
        return
    if kind == "refusing" and isinstance(found, UnlabelledRepliesError):
        assert re.search(r"none of the first \d+ replies holds a label \(\d+ refused\)", str(found))
        return
    assert not isinstance(found, Exception), found
    primary = found[found["metric"].isin(probe.primary)]
    assert len(primary)
    assert (primary["estimate"].notna() | primary["note"].str.len().gt(0)).all()
    assert (trials["judge"] == judge.id).all()
    if kind == "refusing":
        assert trials.loc[trials["status"] != "refused", "value"].isna().all() or name == "familiarity"
        assert primary["estimate"].isna().all()
        return
    if (kind, name) == ("sampled:5", "source"):
        assert primary["note"].str.contains('use answer="text" and replicates=2').any()
    else:
        assert primary["estimate"].notna().any(), set(primary["note"])
    said = trials.attrs.get("otherwise", "")
    if kind in ("text only", "chat only"):
        assert bool(said) == bool(SAID[name])
        assert all(words in said for words in SAID[name]), said
    again, _ = outcome(probe, judge, data, store)
    assert again.attrs["asked"] == 0
    assert again["value"].equals(trials["value"])


@pytest.mark.slow
def test_missing_perplexity_comes_from_the_embedded_model(data, judge_of, store):
    with AnsweringServer(probabilities=True, completions=False) as server:
        trials, found = outcome(PROBES["familiarity"], judge_of(server), data, store)
    assert "uses the perplexity of the embedded model" in trials.attrs["otherwise"]
    assert "HTTP 404" in trials.attrs["otherwise"]
    slopes = found[found["metric"] == "familiarity_slope"]
    assert slopes["likelihood_judge"].str.contains("smollm2-135m", case=False).all()
    assert slopes["estimate"].notna().all()
    own = bl.collect(replace(PROBES["familiarity"], asks="likelihoods"), bl.LocalJudge(), data, store, progress=False)
    assert own.attrs["asked"] == 0  # the embedded model's replies are kept under its own name
    known = own.set_index("candidate_id")["value"]
    assert math.isclose(trials["log_perplexity"].iloc[0], known[trials["candidate_id"].iloc[0]].iloc[0])


def test_a_kind_that_a_server_refused_is_not_asked_for_again(data, judge_of):
    with AnsweringServer(probabilities=False, completions=False) as server:
        judge = judge_of(server)
        for name in ("position", "verbosity"):
            outcome(PROBES[name], judge, data, None)
        assert sum("logprobs" in body for body in server.bodies) == 1
        with pytest.raises(UnsupportedRequestError, match=r"Sampled\(judge, k\)"):
            bl.collect(PROBES["position"], judge, data, progress=False, nearest=False)


@pytest.mark.slow
def test_stored_replies_are_read_without_a_server(data, judge_of, store):
    """The nearest designs were asked while the server was there; now it is gone, and nothing waits for it."""
    with AnsweringServer(probabilities=False, completions=False) as server:
        judge = judge_of(server)
        whole = {name: outcome(probe, judge, data, store)[0] for name, probe in PROBES.items()}
        port = server.port
    gone = ApiJudge("judge", f"http://127.0.0.1:{port}/v1", patience=QUICK)
    for name, probe in PROBES.items():
        trials, found = outcome(probe, gone, data, store)
        assert not isinstance(found, Exception), found
        assert trials["value"].equals(whole[name]["value"]), name
    trials, found = outcome(bl.probes.Position(TWO[1:]), gone, data, store)
    assert isinstance(found, UnreachableError)
    assert re.search(r"nothing answers at http://127.0.0.1:\d+/v1 .*start the server", str(found))
    gone.close()


def test_evaluator_is_asked_for_scores_where_probes_allow(data):
    class Evaluator:
        id, kinds = "evaluator of lengths", frozenset({bl.core.Score})

        def check(self, requests):
            bl.core.require_kinds(self, requests)

        def ask(self, requests):
            return ((request, bl.Reply(score=min(len(request.text) / 1000, 1.0))) for request in requests)

    trials, found = outcome(PROBES["verbosity"], Evaluator(), data, None)
    assert "takes an evaluator's number instead of text" in trials.attrs["otherwise"]
    assert (found["estimate"].notna()).any()
    _, found = outcome(PROBES["position"], Evaluator(), data, None)
    assert isinstance(found, UnsupportedRequestError)
    assert "does not answer Choice requests, only Score; use another judge" in str(found)
