"""Estimates that several tests of reports read: a real probe's, of two simulated judges."""

import shutil
import subprocess

import pandas as pd
import pytest

import biaslab as bl


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
    """One row of an estimates frame, P(A) = .372 unless changed."""
    return {
        "probe": "position", "judge": "a judge", "dataset": "a set", "metric": "first_position_rate",
        "attribute": "coherence", "estimate": 0.3721, "ci_low": 0.341, "ci_high": 0.402, "ci_level": 0.95,
        "p_value": 0.001, "q_value": 0.004, "mde": 0.05, "n_contexts": 30, "n_trials": 60, "n_dropped": 0,
        "method": "t over contexts", "seed": 0, "note": "",
    } | changes  # fmt: skip


@pytest.fixture(scope="session")
def make_row():
    """A function that makes one row of an estimates frame."""
    return row


@pytest.fixture
def compile_latex(tmp_path):
    """A function that compiles a document with pdflatex and returns what LaTeX said; the test is skipped without it."""
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here; install texlive-latex-base and texlive-latex-recommended to compile the tables")

    def compile_document(body, preamble=""):
        head = f"\\documentclass{{article}}\n\\usepackage{{booktabs}}\n{preamble}\n"
        source = f"{head}\\begin{{document}}\n{body}\n\\end{{document}}\n"
        (tmp_path / "paper.tex").write_text(source, encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")
        return done.stdout

    return compile_document
