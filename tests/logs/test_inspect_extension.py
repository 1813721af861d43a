"""Position and length bias beside the metrics of Inspect, with the real package in an environment of its own."""

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pandas as pd
import pytest

from biaslab.core.errors import MissingDependencyError
from biaslab.logs import inspect_extension

ROOT = Path(__file__).resolve().parents[2]
#: Thirty questions, and judges of which everything is known: by words, and a little for what is shown first.
TASK = """
import json, sys, warnings
from inspect_ai import Task, eval as run
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import accuracy, model_graded_qa, stderr
from inspect_ai.solver import generate
import biaslab as bl
from biaslab.logs.inspect_extension import length_bias, pair_graded, position_bias

def said(text):
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else they are counted by a download
    return output

def answer(messages, *_):
    return said(" ".join(["word"] * (3 + int(messages[-1].text.split()[1]) % 7)))

def compare(messages, *_):
    text = messages[-1].text
    first, second = text.split("[Answer A]")[1].split("Which answer")[0].split("[Answer B]")
    words = len(first.split()) + 2 - len(second.split())
    unread = "Question 7 " in text and words > 2
    verdict = "A" if words > 0 else "B" if words < 0 else "tie"
    return said("I cannot say." if unread else f"Because. **Verdict: {verdict}**")

def grade(messages, *_):
    words = len(messages[-1].text.split("[Submission]:")[1].split("***")[0].split())
    return said(f"GRADE: {'C' if words > 5 else 'I'}")

def samples(count):
    return [
        Sample(input=f"Question {n} ?", target="t", metadata={
            "other": " ".join(["text"] * (3 + 5 * n % 8)), "gap": (-1) ** n, "rating": 1 + n * 7 % 5})
        for n in range(count)
    ]

def ran(judge, folder=sys.argv[1], count=30, **task):
    asked = {"grader": get_model("mockllm/judge", custom_outputs=judge)}
    model = get_model("mockllm/model", custom_outputs=answer)
    log = run(Task(dataset=samples(count), solver=generate(), **task), model=model, model_roles=asked,
              log_dir=folder, display="none", epochs=2)[0]
    assert log.status == "success", str(log.error)[:500]
    return log, {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()}

warnings.simplefilter("error", UserWarning)
log, pairs = ran(compare, scorer=pair_graded("other", human="gap"))
bl.read_judgements(log.location).to_csv(sys.argv[1] + "/pairs.csv", index=False)
_, single = ran(grade, scorer=model_graded_qa(), metrics=[accuracy(), stderr(), length_bias("rating")])
_, alone = ran(grade, scorer=model_graded_qa(), metrics=[accuracy(), length_bias()])
warnings.simplefilter("ignore", UserWarning)
_, wrong = ran(grade, scorer=model_graded_qa(), metrics=[accuracy(), position_bias(), length_bias("nothing")])
print(json.dumps([pairs, single, alone, wrong]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with Inspect: this one, or one in an environment of its own that finds the rest here."""
    if importlib.util.find_spec("inspect_ai"):
        return sys.executable
    if importlib.util.find_spec("uv") is None:
        pytest.skip("Inspect is not installed, and uv, which would install it, neither")
    folder = tmp_path_factory.mktemp("inspect") / "environment"
    made = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    uv = [sys.executable, "-m", "uv"]
    for command in (
        [*uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
        [*uv, "pip", "install", "--quiet", "--python", str(made), "inspect_ai"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"inspect_ai cannot be installed: {done.stderr.strip().splitlines()[-1][:200]}")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([made, "-c", where], capture_output=True, text=True, check=True).stdout.strip()
    Path(site, "rest.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    return str(made)


@pytest.fixture(scope="module")
def logged(python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, "-c", TASK, str(folder)], capture_output=True, text=True, check=False, cwd=folder,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return [*json.loads(done.stdout.splitlines()[-1]), pd.read_csv(folder / "pairs.csv")]


def pairs_of(count):
    """What the judge of the task says, from its rule alone: value of both orders, words, and who is better."""
    for n in range(count):
        own, other = 3 + n % 7, 3 + 5 * n % 8
        shown = [own + 2 - other, other + 2 - own]
        values = [None if n == 7 and words > 2 else 1.0 if words > 0 else 0.0 if words < 0 else 0.5 for words in shown]
        yield n, own, other, values


@pytest.mark.slow
def test_pairs_are_logged_as_they_were_judged(logged):
    trials = logged[-1]
    assert len(trials) == 30 * 2 * 2  # orders, epochs
    assert set(trials["judge"]) == {"mockllm/judge"}
    for n, own, other, values in pairs_of(30):
        rows = trials[trials["context_id"] == n + 1]
        for place, (name, words) in enumerate((("mockllm/model", own), ("other", other))):
            shown = rows[rows["candidate_id"] == name]
            value = values[place]
            assert shown["words"].tolist() == [words, words]
            assert shown["human_gap"].tolist() == [(-1) ** (n + place)] * 2
            assert shown["status"].tolist() == ["unparsable" if value is None else "tie" if value == 0.5 else "ok"] * 2
            assert shown["value"].dropna().tolist() == ([] if value is None else [value] * 2)


@pytest.mark.slow
def test_pairs_are_logged_with_position_and_length_bias(logged):
    pairs = logged[0]
    full = [values for *_, values in pairs_of(30) if None not in values]
    decided = [value for values in full for value in values if value != 0.5]
    assert pairs["first_position_rate"] == pytest.approx(sum(decided) / len(decided))
    assert pairs["first_position_rate_low"] < pairs["first_position_rate"] < pairs["first_position_rate_high"]
    assert pairs["first_position_rate_low"] > 0.5
    same = [one == 1 - other for one, other in full]
    assert pairs["order_consistency"] == pytest.approx(sum(same) / len(same))
    means = [(one + 1 - other) / 2 for one, other in full]
    assert pairs["mean"] == pytest.approx(sum(means) / len(means))
    longer = [
        value if words > 0 else 1 - value
        for _, own, other, values in pairs_of(30)
        for value, words in zip(values, (own - other, other - own), strict=True)
        if None not in values and value != 0.5 and words
    ]
    assert pairs["longer_wins"] == pytest.approx(sum(longer) / len(longer))
    assert pd.isna(pairs["longer_wins_at_equal_gold"])  # the longer wins wherever it is worse, which separates


@pytest.mark.slow
def test_length_bias_of_scores_with_and_without_human_scores(logged):
    _, single, isolated, wrong, _ = logged
    words = pd.Series([3 + n % 7 for n in range(30)])
    grades, ratings = (words > 5).astype(float), pd.Series([1 + n * 7 % 5 for n in range(30)])
    rho, of_people = words.corr(grades, method="spearman"), words.corr(ratings, method="spearman")
    assert single["accuracy"] == pytest.approx(grades.mean())
    assert single["length_correlation"] == isolated["length_correlation"] == pytest.approx(rho)
    assert single["verbosity_excess"] == pytest.approx(rho - of_people)
    assert "verbosity_excess" not in isolated
    assert pd.isna([wrong["first_position_rate"], wrong["verbosity_excess"]]).all()
    assert wrong["length_correlation"] == pytest.approx(rho)


def test_without_inspect_the_error_names_it():
    if importlib.util.find_spec("inspect_ai"):
        pytest.skip("inspect_ai is installed")
    for make in (inspect_extension.position_bias, inspect_extension.length_bias):
        with pytest.raises(MissingDependencyError, match="pip install inspect_ai"):
            make()
    with pytest.raises(MissingDependencyError, match="pip install inspect_ai"):
        inspect_extension.pair_graded("other")
