"""What every judge owes: each judge class of the package is found here by itself and held to the protocol."""

import ast
import runpy
from pathlib import Path

import numpy as np
import pytest

import biaslab as bl
from biaslab.core import KINDS, Choice, Completion, Judge, Likelihood, Score, Stoppable
from biaslab.core.errors import UnsupportedRequestError
from biaslab.judges.api import ApiJudge, Patience
from biaslab.judges.repetition import Sampled
from biaslab.logs.recorded import ExportedJudge, RecordedJudge
from biaslab.testing import FaultServer

HERE = Path(__file__).parent
STUDENTS = runpy.run_path(str(HERE.parent / "distill" / "conftest.py"))
tiny_encoder, taught = STUDENTS["tiny_encoder"], STUDENTS["taught"]
QUESTIONS = [Choice(f"Is {n} even, A: yes or B: no?", ("A", "B")) for n in range(4)]
TEXTS = [Completion(f"Say {n}.", max_tokens=4) for n in range(4)]
OTHERS = {Choice: QUESTIONS[0], Completion: TEXTS[0], Likelihood: Likelihood("a text"), Score: Score("a text")}


BASES = {"BaseJudge", "DelegatingJudge", "RepeatingJudge"}


def judge_classes():
    """Name every public class of the package that derives from `BaseJudge`, or has methods `ask` and `check`."""
    sources = (path.read_text(encoding="utf-8") for path in sorted(Path(bl.__file__).parent.rglob("*.py")))
    for source in (each for each in sources if "def check(" in each or "(DelegatingJudge)" in each):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in BASES:
                methods = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                if (BASES & bases or {"ask", "check"} <= methods) and "Protocol" not in bases:
                    yield node.name


@pytest.fixture(scope="module")
def pairs(graded):
    probe = bl.probes.Position(["fluency"], [1], n_pairs=2)
    return [trial.request for trial in probe.design(graded.head(1))]


@pytest.fixture(scope="module")
def pair_trials(graded):
    probe = bl.probes.Position(["fluency"], [1], n_pairs=2)
    return bl.collect(probe, bl.SimulatedJudge(graded), graded.head(1), progress=False)


class Known:
    """How to make one judge of each class, and requests that it answers."""

    def SimulatedJudge(self, get):  # noqa: N802 - the name of the class
        yield bl.SimulatedJudge(get("graded"), noise=1.0), [*get("pairs"), Likelihood("a text")]

    def RecordedJudge(self, get):  # noqa: N802
        yield RecordedJudge(get("pair_trials"), get("graded")), get("pairs")

    def Sampled(self, get):  # noqa: N802
        yield Sampled(bl.SimulatedJudge(get("graded")), 3), get("pairs")

    def Panel(self, get):  # noqa: N802
        yield bl.Panel([bl.SimulatedJudge(get("graded"), seed=seed, noise=1.0) for seed in (0, 1)]), get("pairs")

    def RayJudge(self, get):  # noqa: N802
        get("local_cluster")
        judge = bl.RayJudge("simulated:noise=1", 2, dataset=get("graded"))
        yield judge, [*get("pairs"), Likelihood("a text")]
        judge.close()

    def StoredJudge(self, get):  # noqa: N802
        with bl.Store(get("tmp_path") / "s.sqlite") as store:
            yield store.wrap(bl.SimulatedJudge(get("graded"))), get("pairs")

    def ExportedJudge(self, get):  # noqa: N802
        folder = get("tmp_path")
        with bl.Store(folder / "s.sqlite") as store:
            list(store.wrap(bl.SimulatedJudge(get("graded"))).ask(get("pairs")))
            store.export(folder / "e.jsonl")
        yield ExportedJudge(folder / "e.jsonl"), get("pairs")

    def LocalJudge(self, get):  # noqa: N802
        yield get("make_judge")(), [*QUESTIONS, *TEXTS, Likelihood("a text")]

    def MeanOverThoughts(self, get):  # noqa: N802
        judge = bl.LocalJudge.from_loaded(*get("make_judge")()._loaded, "tiny", thinking=4)
        yield bl.MeanOverThoughts(judge, 3), [*QUESTIONS, *TEXTS, Likelihood("a text")]

    def ApiJudge(self, get):  # noqa: N802
        with FaultServer() as server:
            judge = ApiJudge("judge", server.url, patience=Patience(retries=2, first_wait=0.001, grace=5), timeout=5.0)
            yield judge, [*QUESTIONS, *TEXTS]
            judge.close()

    def EvaluatorJudge(self, get):  # noqa: N802
        from biaslab.distill import EvaluatorJudge, train

        taught = get("taught")
        made = train(taught, encoder=get("tiny_encoder"), epochs=1, hidden=(4,), progress=False)
        shown = zip(*(taught[name][:3] for name in ("text", "source", "reference")), strict=True)
        yield EvaluatorJudge(made), [Score(*parts, "merit") for parts in shown]


SLOW = {"RayJudge"}  # a cluster has to start
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in sorted(judge_classes())]


@pytest.fixture(params=NAMES)
def known(request):
    """A judge and what it answers; a class that `Known` lacks fails."""
    yield from getattr(Known(), request.param)(request.getfixturevalue)


def test_every_judge_that_is_known_is_found():
    assert {name for name in vars(Known) if not name.startswith("_")} == set(judge_classes())


def numbers(reply):
    return np.array([*(reply.logprobs or ()), np.nan if reply.score is None else reply.score])


def test_judge_satisfies_the_protocol(known):
    judge, requests = known
    name = judge.id
    assert isinstance(judge, Judge)
    assert isinstance(name, str)
    assert name.strip()
    assert judge.kinds
    assert {type(request) for request in requests} <= judge.kinds <= set(KINDS)
    judge.check(requests)
    first, again = (list(judge.ask(requests)) for _ in range(2))
    assert len(first) == len(requests)
    assert {request for request, _ in first} == set(requests)
    assert judge.id == name
    for request, reply in first:
        same = dict(again)[request]
        assert reply.text == same.text
        np.testing.assert_allclose(numbers(reply), numbers(same), rtol=1e-5)
        if isinstance(request, Choice):
            assert len(reply.logprobs) == len(request.labels)
        if isinstance(request, Choice | Likelihood):
            assert max(reply.logprobs) <= 1e-6
        assert (reply.text is None) == (not isinstance(request, Completion))
        assert (reply.score is None) == (not isinstance(request, Score))


def test_unsupported_requests_are_refused_by_check(known):
    judge, requests = known
    others = [request for kind, request in OTHERS.items() if kind not in judge.kinds]
    assert others
    for other in others:
        with pytest.raises(UnsupportedRequestError) as caught:
            judge.check([*requests, other])
        assert caught.value.request == other


def test_stopped_judge_yields_only_requests_it_was_asked(known):
    judge, requests = known
    answers = judge.ask(requests)
    first, _ = next(answers)
    late = [request for request, _ in answers.stop()] if isinstance(answers, Stoppable) else []
    answers.close()
    assert {first, *late} <= set(requests)
    assert list(answers) == []
