"""What people get wrong in their first hour, each with the message that they need: what was given, its value, what is
allowed, and what to do. Nothing is asked of a judge before."""

from pathlib import Path

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.core.project import require_known
from biaslab.figures.regenerate import regenerate
from biaslab.store.stored_judge import PROCESS

ROOT = Path(__file__).resolve().parents[2]
TABLE = "context,text,attribute,score\nRain.,It rained.,coherence,5\nRain.,It poured.,coherence,1\n"
WIDE = "article,summary,quality\nRain.,It rained.,5\nRain.,It poured.,1\n"
SIMULATED = ["--judge", "simulated", "--contexts", "2"]


def data():
    return bl.load_dataset("graded", limit=2)


def judge():
    return bl.SimulatedJudge(data())


def position(**parameters):
    return bl.probes.Position(**parameters)


def estimates():
    probe = position(attributes=["coherence"], templates=[1], n_pairs=2)
    return probe.estimate(bl.collect(probe, judge(), data(), progress=False))


#: Name of the case: words of the command line, or what is called; then name, value and words of the message.
COMMANDS = {
    "a probe, misspelt": (["probe", "positon"], "probe", "'positon'", "one of anchoring", "did you mean position?"),
    "a judge of an API": (
        ["probe", "position", "--judge", "gpt-4o"],
        *("judge", "'gpt-4o'", "a local model", "did you mean api:gpt-4o?"),
    ),
    "a judge of another API": (
        ["card", "claude-3-5-haiku-latest"],
        *("judge", "'claude-3-5-haiku-latest'", "local model", "did you mean api:claude-3-5-haiku-latest?"),
    ),
    "the embedded judge, misspelt": (
        ["plan", "position", "--judge", "smollm2-135"],
        *("judge", "'smollm2-135'", "such as smollm2-135m", "did you mean smollm2-135m?"),
    ),
    "a kind of judge, misspelt": (
        ["probe", "position", "--judge", "simulatd:position=1"],
        *("judge", "'simulatd:position=1'", "one of api, atlas", "did you mean simulated?"),
    ),
    "a planted bias, misspelt": (
        ["probe", "position", "--judge", "simulated:positon=1"],
        *("judge", "'positon=1'", "name=number", "did you mean position?"),
    ),
    "samples without a number": (
        ["probe", "position", "--judge", "sampled:five:simulated"],
        *("judge", "'sampled:five:simulated'", "sampled:k:judge", "such as sampled:20:"),
    ),
    "a data set, misspelt": (
        ["probe", "position", *SIMULATED, "--dataset", "gradde"],
        *("dataset", "'gradde'", "one of dialogue_sets", "did you mean graded?"),
    ),
    "an option of another data set": (
        ["probe", "position", *SIMULATED, "--noun", "essay"],
        *("noun", "'essay'", "an option of the data set graded", "load your own table as 'tabular'"),
    ),
    "a file that is not there": (
        ["probe", "position", *SIMULATED, "--dataset", "tabular", "--path", "ratings.xlsx"],
        *("path", "'ratings.xlsx'", "an existing file or folder", "check the name"),
    ),
    "columns without a file": (
        ["figures", "--columns", "text=summary"],
        *("these options", "", "need a data set", "add --dataset tabular --path FILE"),
    ),
    "a column that the table lacks": (
        ["probe", "position", "--dataset", "tabular", "--path", "wide.csv", "--columns", "text=summry"],
        *(
            "wide.csv, column 'summry'",
            "",
            "is missing, expected: a column of the file",
            "of the file: article, summary, quality",
        ),
    ),
    "a wide table without attributes": (
        ["plan", "position", "--dataset", "tabular", "--path", "wide.csv", "--columns", "text=summary,context=article"],
        *("attributes", "()", "at least one attribute", "--attribute coherence"),
    ),
    "a scale that is none": (
        ["probe", "position", "--dataset", "tabular", "--path", "ratings.csv", "--scale", "five"],
        *("scale", "'five'", "the lowest and the highest", "such as 1-5"),
    ),
    "a score outside the scale": (
        ["probe", "position", "--dataset", "tabular", "--path", "ratings.csv", "--scale", "1-3"],
        *("ratings.csv, row 1, column 'score'", "'5'", "a number from 1 to 3", "or empty"),
    ),
    "a parameter, misspelt": (
        ["probe", "position", *SIMULATED, "-p", "n_pair=3"],
        *("parameter", "'n_pair'", "one of attributes, seed", "did you mean n_pairs?"),
    ),
    "a parameter of another probe": (
        ["card", "simulated", "--probe", "position", "-p", "position.scale=1-5"],
        *("parameter", "'position.scale'", "one of attributes", "templates"),
    ),
    "a parameter without a value": (
        ["probe", "position", *SIMULATED, "-p", "n_pairs"],
        *("param", "'n_pairs'", "NAME=VALUE", "such as -p n_pairs=3"),
    ),
    "a parameter twice": (
        ["plan", "position", *SIMULATED[:2], "-p", "n_pairs=3", "-p", "n_pairs=4"],
        *("param", "'n_pairs=4'", "each name once", "n_pairs is already set to 3"),
    ),
    "a word for a number": (
        ["probe", "position", *SIMULATED, "-p", "n_pairs=few"],
        *("n_pairs", "'few'", "none or a whole number", "such as n_pairs=3"),
    ),
    "a word for true or false": (
        ["probe", "position", *SIMULATED, "-p", "ties=maybe"],
        *("ties", "'maybe'", "true or false", "such as ties=true"),
    ),
    "a choice, misspelt": (
        ["plan", "comparative", *SIMULATED[:2], "-p", "strategy=adaptiv"],
        *("strategy", "'adaptiv'", "one of full, random", "did you mean adaptive?"),
    ),
    "a list with a stranger": (
        ["probe", "position", *SIMULATED, "-p", "templates=1,3"],
        *("templates", "'3'", "one of 1, 2", "1, 2"),
    ),
    "a scale of scores that is none": (
        ["probe", "source", *SIMULATED, "-p", "scale=1-11"],
        *("scale", "'1-11'", "one of 1-5", "did you mean 1-10"),
    ),
    "a confidence level in percent": (
        ["probe", "position", *SIMULATED, "-p", "resampling.level=95"],
        *("resampling.level", "95.0", "a number between 0 and 1", "use 0.95"),
    ),
    "a temperature below 0": (
        ["probe", "position", *SIMULATED, "-p", "temperature=-1"],
        *("temperature", "-1.0", "a number from 0 to 10", "0 is greedy"),
    ),
    "an attribute, misspelt": (
        ["probe", "position", *SIMULATED, "--attribute", "coherense"],
        *("attributes", "['coherense']", "names among coherence", "did you mean coherence?"),
    ),
    "a way to answer, misspelt": (
        ["probe", "sweep", *SIMULATED, "-p", "answer=txt"],
        *("answer", "'txt'", "one of distribution, text", "did you mean text?"),
    ),
    "a table in no format": (
        ["probe", "position", *SIMULATED, "--out", "position.xlsx"],
        *("out", "'position.xlsx'", "a file that ends in .csv", "such as position.csv"),
    ),
    "a folder that cannot be made": (
        ["card", "simulated", "--out", "ratings.csv/card"],
        *("out", "'ratings.csv/card'", "a folder that exists or can be created", "use another path"),
    ),
    "a notebook, misspelt": (
        ["figures", "--only", "positon"],
        *("only", "'positon'", "names among 00_tour", "did you mean position?"),
    ),
    "a parameter that no notebook has": (
        ["figures", "--only", "position", "-p", "n_contxts=4"],
        *("parameter", "'n_contxts'", "one of judge", "did you mean n_contexts?"),
    ),
    "a parameter of a notebook that is no number": (
        ["figures", "--only", "position", "-p", "n_pairs=few"],
        *("n_pairs", "'few'", "none or a whole number", "such as n_pairs=3"),
    ),
    "a metric, misspelt": (
        ["plan", "position", *SIMULATED[:2], "--effect", "0.1", "--metric", "first_positon_rate"],
        *("metric", "'first_positon_rate'", "one of first_position_rate", "did you mean first_position_rate"),
    ),
    "a price of answers alone": (
        ["plan", "position", *SIMULATED[:2], "--effect", "0.1", "--price-out", "3"],
        *("price-in", "", "is required", "if another price is given"),
    ),
}
CALLS = {
    "a judge by its name": (
        lambda: bl.collect(position(), "simulated", data()),
        *("judge", "'simulated'", "a judge", "biaslab.load_judge('simulated', data)"),
    ),
    "a probe by its class": (
        lambda: bl.collect(bl.probes.Position, judge(), data()),
        *("probe", "<class 'biaslab.probes.position.Position'>", "a probe", "create one: Position()"),
    ),
    "a data set by its name": (
        lambda: bl.collect(position(), judge(), "graded"),
        *("dataset", "'graded'", "a data set", "load one: biaslab.load_dataset('graded')"),
    ),
    "a frame as a path": (
        lambda: bl.load_dataset("tabular", pd.DataFrame({"text": ["It rained."]})),
        *("path", "a DataFrame of 1 rows and 1 columns", "an existing file or folder", "a table"),
    ),
    "no judge": (
        lambda: bl.load_judge(None),
        *("judge", "None", "the name of a judge", "needs no loading"),
    ),
    "a temperature when the object is made": (
        lambda: position(temperature=-1),
        *("temperature", "-1", "a number from 0 to 10", "0 is greedy"),
    ),
    "one attribute without a list": (
        lambda: position(attributes="coherence"),
        *("attributes", "'coherence'", "a list of names", "use ['coherence']"),
    ),
    "a metric of a figure, misspelt": (
        lambda: bl.plots.intervals(estimates(), "first_positon_rate"),
        *("metric", "'first_positon_rate'", "one of first_position_rate", "did you mean first_position_rate"),
    ),
    "a figure that nobody can draw": (
        lambda: regenerate(only=["position"], notebooks=ROOT / "notebooks", parameters={"n_pair": 3}),
        *("parameter", "'n_pair'", "one of judge", "did you mean n_pairs?"),
    ),
    "a budget without prices": (
        lambda: bl.Budget(dollars=5),
        *("budget.prices", "None", "dollars per million tokens", "because the budget is in dollars"),
    ),
    "a number instead of a budget": (
        lambda: bl.collect(position(), judge(), data(), budget=5, progress=False),
        *("budget", "5", "a Budget", "write biaslab.Budget(requests=5)"),
    ),
    "no budget at all": (
        lambda: bl.screen(judge(), data(), budget=0),
        *("budget", "0", "a Budget", "write biaslab.Budget(requests=0)"),
    ),
    "a number instead of prices": (
        lambda: bl.ApiJudge("gpt-4o-mini", prices=3),
        *("prices", "3", "a dictionary of numbers", "write prices={'input': 3}"),
    ),
    "the name of a data set to simulate": (
        lambda: bl.SimulatedJudge("graded"),
        *("dataset", "'graded'", "a data set", "load one: biaslab.load_dataset('graded')"),
    ),
    "one column instead of roles": (
        lambda: bl.load_dataset("tabular", path="ratings.csv", columns="text"),
        *("columns", "'text'", "role → column", "write columns={'text': 'summary'}"),
    ),
    "one label instead of verdicts": (
        lambda: bl.Protocol.from_template("{question} {answer_a} {answer_b}", verdicts="A"),
        *("verdicts", "'A'", "reply → value", 'write verdicts={"[[A]]": 1, "[[B]]": 0}'),
    ),
    "a probe by name to validate": (
        lambda: bl.validate("position"),
        *("probes", "'position'", "classes of probes", "write probes=[biaslab.probes.Position]"),
    ),
    "one size that matters, without its metric": (
        lambda: bl.report.verdicts(estimates(), matters=0.1),
        *("matters", "0.1", "metric → smallest distance", "write matters={'first_position_rate': 0.1}"),
    ),
    "a metric of verdicts, misspelt": (
        lambda: bl.report.verdicts(estimates(), metric="first_positon_rate"),
        *("metric", "'first_positon_rate'", "one of first_position_rate", "did you mean first_position_rate"),
    ),
    "a condition of a figure, misspelt": (
        lambda: bl.plots.intervals(estimates(), "first_position_rate", by="atribute"),
        *("by", "'atribute'", "one of probe, judge", "did you mean attribute?"),
    ),
    "notes of one's own": (
        lambda: bl.report.verdicts(estimates().assign(notes="checked")),
        *("notes", "'checked'", "notes as JSON", "rename a column of your own"),
    ),
    "trials instead of estimates": (
        lambda: bl.report.overview(bl.collect(position(), judge(), data(), progress=False)),
        *("estimates", "lacks the columns metric, estimate", "a frame with the columns probe, judge", "n_contexts"),
    ),
    "a path instead of frames": (
        lambda: bl.compare("trials.csv"),
        *("found", "'trials.csv'", "a frame of trials or estimates", "a list of such frames"),
    ),
}


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("ratings.csv").write_text(TABLE)
    Path("wide.csv").write_text(WIDE)


def test_at_least_forty_mistakes_are_covered():
    assert len(COMMANDS) + len(CALLS) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("case", COMMANDS)
def test_wrong_command_names_value_and_allowed_ones(case, capsys):
    words, name, value, allowed, remedy = COMMANDS[case]
    assert remedy
    before = PROCESS.asked
    assert main(words) == 2
    told = capsys.readouterr()
    line = told.err
    assert line.startswith(f"biaslab: {name} is {value}" if value else f"biaslab: {name} ")
    assert line.count("\n") == 1
    assert (", allowed: " in line) == bool(value)  # a plain sentence where nothing that was written is wrong
    assert allowed in line
    assert remedy in line
    assert told.out == ""
    assert PROCESS.asked == before
    assert not Path("judgements.sqlite").exists()
    assert not Path("papermill_runs").exists()


@pytest.mark.parametrize("case", CALLS)
def test_wrong_call_names_value_and_allowed_ones(case):
    call, name, value, allowed, remedy = CALLS[case]
    assert remedy
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith((f"{name} is {value}", f"{name} {value}"))
    assert ", allowed: " in message or ", expected: " in message
    assert allowed in message
    assert remedy in message


def test_a_parameter_of_papermill_that_the_notebook_lacks():
    cell = "judge = dataset = path = attributes = n_contexts = seed = store = out = None"
    require_known([cell, "# Parameters\nn_contexts = 4", "import biaslab"])
    require_known(["import numpy", "# Parameters\nn = 4", "import biaslab"])  # a cell of somebody's own
    with pytest.raises(InputError, match=r"n_contxts is 4, .*; did you mean n_contexts\?"):
        require_known(["", cell, "# Parameters\nn_contexts = 2\nn_contxts = 4\n", "import biaslab"])
