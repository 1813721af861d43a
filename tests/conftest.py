"""Fixtures that several test modules share."""

import gc
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import settings

import biaslab as bl

with suppress(ImportError):  # `make test-light` has nothing that draws
    import_module("matplotlib").use("Agg")
if "PYTEST_XDIST_WORKER" in os.environ:  # one core a worker, for what it starts too: threads that share a core spin
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# jsonschema, and so nbformat, takes three seconds to compile grammars with it, for addresses that no notebook has.
sys.modules.setdefault("rfc3987_syntax", None)
# A shell's background job ignores interrupts, and so would all that tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The same examples each time, so that a push fails by what it changes; `make test-all` looks for others.
settings.register_profile("biaslab", deadline=None, max_examples=20, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=50)
settings.load_profile("biaslab")

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for examples in the package alone: without this each test file is read once more for them."""
    collectors = yield
    return [collector for collector in collectors if type(collector) is pytest.Module]


def pytest_collection_finish():
    """Leave what is imported by now, some million objects, out of every later garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)  # otherwise it takes 4 % of the time


@pytest.fixture(scope="session")
def shared_data():
    """The folder of published research data, which is not part of the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"published research data are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def graded():
    """Eight contexts of the bundled constructed set."""
    return bl.load_dataset("graded", limit=8)


@pytest.fixture(scope="session")
def estimates():
    """P(A) and more of a judge that prefers the first and a fair one, on twelve contexts."""
    data = bl.load_dataset("graded", limit=12)
    probe = bl.probes.Position(["coherence", "fluency"])
    judges = (bl.SimulatedJudge(data, position=2.0, noise=1), bl.SimulatedJudge(data, noise=1))
    frames = [probe.estimate(bl.collect(probe, judge, data, progress=False)) for judge in judges]
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="session")
def biased(estimates):
    """Those of the judge that prefers the first."""
    return estimates[estimates["judge"] == estimates["judge"].iloc[0]]


def row(**changes):
    """One row of an estimates frame, P(A) = .372 unless changed; its interval goes with it."""
    estimate = changes.get("estimate", 0.3721)
    return {
        "probe": "position", "judge": "a judge", "dataset": "a set", "metric": "first_position_rate",
        "attribute": "coherence", "estimate": estimate, "ci_low": round(estimate - 0.0311, 4),
        "ci_high": round(estimate + 0.0299, 4), "ci_level": 0.95,
        "p_value": 0.004, "q_value": 0.004, "mde": 0.05, "n_contexts": 30, "n_trials": 60, "n_dropped": 0,
        "method": "t over contexts", "seed": 0, "note": "", "notes": "",
    } | changes  # fmt: skip


@pytest.fixture(scope="session")
def make_row():
    """A function that makes one row of an estimates frame."""
    return row
