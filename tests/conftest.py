"""Fixtures that several test modules share."""

import os
import signal
from pathlib import Path

import matplotlib as mpl
import pytest
import torch
from hypothesis import settings

import biaslab as bl

mpl.use("Agg")
if "PYTEST_XDIST_WORKER" in os.environ:  # one core a worker, for what it starts too: threads that share a core spin
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
# A shell's background job ignores interrupts, and so would all that tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("biaslab", deadline=None, max_examples=50)
settings.load_profile("biaslab")

ROOT = Path(__file__).resolve().parents[1]


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
