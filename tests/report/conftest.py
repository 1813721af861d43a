"""What tests of reports share: figures that are closed, and LaTeX, where it is installed."""

import shutil
import subprocess

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def compile_latex(tmp_path):
    """A function that compiles a document with pdflatex and returns what LaTeX said; the test is skipped without it."""
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here; install texlive-latex-base and texlive-latex-recommended to compile the tables")

    def compile_document(body, preamble=""):
        head = f"\\documentclass{{article}}\n\\usepackage{{booktabs}}\n\\usepackage{{graphicx}}\n{preamble}\n"
        source = f"{head}\\begin{{document}}\n{body}\n\\end{{document}}\n"
        (tmp_path / "paper.tex").write_text(source, encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:]
        assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")
        return done.stdout

    return compile_document
