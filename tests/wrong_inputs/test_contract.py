"""Every public function, with every argument replaced by what people hand over by mistake.

What escapes is an error of `biaslab.core.errors` that says what is allowed; or the call is valid all the same.
"""

import inspect
import sys
import warnings
from collections import Counter
from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from public_interface import SUBMODULES, parameters, public, room_of
from right_arguments import LEFT_OUT, given, instance
from small_world import World

from biaslab.core import BaseJudge
from biaslab.core.errors import BiaslabError, InputError

ROOMS = ("biaslab", *SUBMODULES)
COUNTS = Counter()
#: Cheap ones, of each kind one: what `make test` walks.
QUICK = (
    *("Budget", "Choice", "Completion", "Dataset.head", "Reply", "Resampling", "Store.get", "Usage.total"),
    *("atlas.estimates", "collect", "edits.constant", "edits.find_edit", "load_dataset", "load_judge"),
    *("mitigation.order_averaging", "probes.Position", "probes.Position.estimate", "published.load"),
    *("ranking.decode", "ranking.rank", "report.findings", "report.to_markdown", "scoring.scores"),
    *("stats.adjust", "stats.average_over", "stats.expected_power", "stats.Ratio"),
)

#: What a judge may offer and most do not; nobody calls it unless the judge says so.
OPTIONAL = (BaseJudge.encode, BaseJudge.of_members)

#: What is no error of ours, and why.
OF_OTHERS = {("kept", "make", "a function"): "the function that was given failed, and its own error says why"}
#: What takes more than some seconds a walk.
LONG = (
    *("validate", "plan", "screen", "plots.draw", "plots.save", "plots.standard"),
    *("report.card", "report.page", "ranking.rank_intervals"),
)


class Nothing:
    """A thing of no kind that anybody knows."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield World(tmp_path_factory.mktemp("world"))


@pytest.fixture(autouse=True)
def _anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    plt.close("all")


def wrong(world, name):
    """Return what is handed over by mistake."""
    other = world.estimates if name in ("trials", "judged", "judgements", "pilot", "found") else world.trials
    return {
        "None": None,
        "a path": Path("no") / "such",
        "a DataFrame": pd.DataFrame({"a": [1.0]}),
        "a function": len,
        "NaN": float("nan"),
        "an empty text": "",
        "an empty list": [],
        "an empty dictionary": {},
        "another frame of ours": other,
        "a string": "some words",
        "a negative number": -3,
        "an object": Nothing(),
    }


def arguments(world, path):
    """Return the parameters, and those of them that an example gives."""
    kind, function = public(room_of(path))[path]
    bound = getattr(kind, path.rsplit(".", 1)[1]) if kind else function
    known = parameters(bound, bound=kind is None or not inspect.isfunction(function))
    told = {}
    for parameter in known:
        try:
            told[parameter.name] = given(world, path, kind, parameter)
        except KeyError:
            if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
                raise
    return known, told


def call(world, path, known, told):
    """Call, and look at what an iterator yields."""
    kind, function = public(room_of(path))[path]
    if kind is not None and inspect.isfunction(function):
        function = getattr(instance(world, path, kind), path.rsplit(".", 1)[1])
    elif kind is not None:
        function = getattr(kind, path.rsplit(".", 1)[1])
    by_name = {
        p.name: told[p.name] for p in known if p.name in told and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    }
    by_place = [told[p.name] for p in known if p.name in told and p.kind is p.POSITIONAL_ONLY]
    if any(p.kind is p.VAR_POSITIONAL for p in known):
        by_place = [told[p.name] for p in known if p.name in told and p.kind is not p.KEYWORD_ONLY]
        by_name = {p.name: told[p.name] for p in known if p.name in told and p.kind is p.KEYWORD_ONLY}
    made = function(*by_place, **by_name)
    return list(islice(made, 50)) if hasattr(made, "__next__") else made


def says_enough(error):
    """Say whether an error of ours says what is allowed or what to do."""
    return bool(error.allowed) if isinstance(error, InputError) else len(str(error)) > 20


def walk(world, path):
    """Call with every argument wrong; return what escaped that is not ours."""
    known, _ = arguments(world, path)
    raw = []
    for parameter in known:
        for how, value in wrong(world, parameter.name).items():
            if (path, parameter.name, how) in OF_OTHERS:
                continue
            COUNTS["calls"] += 1
            try:
                call(world, path, known, arguments(world, path)[1] | {parameter.name: value})
            except BiaslabError as error:
                COUNTS["own errors"] += 1
                if not says_enough(error):
                    raw.append(f"{path}({parameter.name}={how}): says too little: {error}")
            except Exception as error:
                COUNTS["raw"] += 1
                raw.append(f"{path}({parameter.name}={how}): {type(error).__name__}: {str(error)[:150]}")
            else:
                COUNTS["valid"] += 1
    return raw


def walked(room):
    """Return the names of what is walked in a submodule."""
    return [
        path
        for path, (_, function) in public(room).items()
        if path not in LEFT_OUT and path.rsplit(".", 1)[0] not in LEFT_OUT and function not in OPTIONAL
    ]


def check(world, path):
    """Call as is right, which must go well, then with every argument wrong."""
    COUNTS["functions"] += 1
    known, told = arguments(world, path)
    call(world, path, known, told)
    return walk(world, path)


@pytest.mark.parametrize("path", [*QUICK, *(pytest.param(path, marks=pytest.mark.thorough) for path in LONG)])
def test_a_wrong_argument_is_named(world, path):
    raw = check(world, path)
    assert not raw, "\n".join(raw)


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_a_wrong_argument_is_named_wherever_it_is_given(world, room, tmp_path, monkeypatch):
    paths = [path for path in walked(room) if path not in (*QUICK, *LONG)]
    raw = []
    for path in paths:
        (tmp_path / path).mkdir()
        monkeypatch.chdir(tmp_path / path)
        raw += check(world, path)
        plt.close("all")
    assert paths
    assert not raw, "\n".join(raw)


@pytest.mark.slow
def test_what_is_left_out_is_public():
    everything = {path for room in ROOMS for path in public(room)}
    assert {path for path in LEFT_OUT if path not in everything} <= {
        *("enter_project", "probes.Probe", "scoring.Scorer")
    }
    assert set(QUICK) <= {path for room in ROOMS for path in walked(room)}


def test_counts(capsys, record_testsuite_property):
    for name, number in COUNTS.items():
        record_testsuite_property(name, number)
    with capsys.disabled():
        sys.stdout.write(f"\nwrong arguments: {', '.join(f'{number} {name}' for name, number in COUNTS.items())}\n")
    assert not COUNTS["raw"]
