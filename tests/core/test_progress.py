"""What a notebook keeps of a progress bar, and which line of the caller a warning names."""

import inspect
import warnings

import pytest

import biaslab as bl
from biaslab.core.errors import MissingDataWarning, ModelChangedWarning
from biaslab.stats.blocks import warn_shared

STUDY = """
import biaslab as bl
data = bl.load_dataset("graded", limit=2)
trials = bl.collect(bl.probes.Position(n_pairs=1), bl.SimulatedJudge(data), data)
"""
BARS = """
from biaslab.core.output import progress_bar
for _ in progress_bar(range(3), desc="gone", leave=False): pass
for _ in progress_bar(range(3), desc="stopped"): break
with progress_bar(total=3, desc="unseen", disable=True) as bar: bar.update()
"""
LOADING = """
import biaslab as bl
[_] = bl.LocalJudge().ask([bl.Choice("Which is a fruit: A, an apple, or B, a bicycle?", labels=("A", "B"))])
"""


def kept(tmp_path, *sources):
    """Execute cells and return what each keeps of what it displayed or wrote."""
    import nbformat
    import papermill
    from nbformat.v4 import new_code_cell, new_notebook

    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources], metadata={"kernelspec": kernel})
    nbformat.write(notebook, tmp_path / "given.ipynb")
    target = tmp_path / "executed.ipynb"
    papermill.execute_notebook(str(tmp_path / "given.ipynb"), str(target), cwd=str(tmp_path), progress_bar=False)
    executed = nbformat.read(target, as_version=4)
    nbformat.validate(executed)
    return [[output.get("data", output.get("text")) for output in cell.outputs] for cell in executed.cells]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_keeps_how_a_bar_ended_and_no_widget(tmp_path):
    [collected, announced], [gone, stopped] = kept(tmp_path, STUDY, BARS)
    assert announced.startswith("position: 32 requests; ")
    assert list(collected) == ["text/plain"]
    assert collected["text/plain"].startswith("position: 100%|██████████| 32/32 [")
    assert "?reply/s" not in collected["text/plain"]
    assert gone == {}
    assert stopped["text/plain"].startswith("stopped:   0%|")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.thorough
def test_unpacking_the_embedded_judge_says_nothing_in_a_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    assert kept(tmp_path, LOADING) == [[]]
    assert list((tmp_path / "empty").rglob("model.safetensors"))  # it was read from its GGUF file


DATA = bl.load_dataset("graded", limit=8)
PROBE = bl.probes.Position(attributes=["fluency"], templates=[1])
TRIALS = bl.collect(PROBE, bl.SimulatedJudge(DATA, position=1.0), DATA, progress=False)


class TwoModels:
    """A judge whose server changes its model on the way."""

    id = "two models"

    def __init__(self):
        self.inner = bl.SimulatedJudge(DATA)
        self.kinds = self.inner.kinds

    def check(self, requests):
        self.inner.check(requests)

    def ask(self, requests):
        for number, (request, reply) in enumerate(self.inner.ask(requests)):
            parts = {name: getattr(reply, name) for name in inspect.signature(bl.Reply).parameters}
            yield request, bl.Reply(**parts | {"model": f"model-{number % 2}"})


def lost(trials):
    trials = trials.copy()
    rows = trials["context_id"].isin(trials["context_id"].unique()[:2])
    return trials.assign(
        value=trials["value"].where(~rows), status=trials["status"].astype(object).where(~rows, "refused")
    )


@pytest.mark.parametrize(
    ("call", "category"),
    [
        (lambda: PROBE.estimate(lost(TRIALS)), MissingDataWarning),
        (lambda: warn_shared("position", {"a": 0, "b": 0}), UserWarning),
        (lambda: bl.collect(PROBE, TwoModels(), DATA, progress=False), ModelChangedWarning),
    ],
)
def test_warnings_name_the_line_of_the_caller(call, category):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    named = [one for one in caught if issubclass(one.category, category)]
    assert named
    assert {one.filename for one in named} == {__file__}
    assert {one.lineno for one in named} == {inspect.getsourcelines(call)[1]}
