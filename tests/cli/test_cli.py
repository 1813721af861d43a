"""The command line as a user meets it: words, exit codes, one-line errors."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import app, main
from biaslab.core.project import folder_of

PARAMETERS = 'judge = "simulated"\nn_contexts = 1\nstore = ""\nout = ""'
STUDY = """
from pathlib import Path
import biaslab as bl

data = bl.load_dataset("graded", limit=n_contexts)
bl.collect(bl.probes.Position(attributes=["fluency"], templates=[1]), bl.load_judge(judge, data), data, store=store)
Path(out, "NAME__rate.png").touch()
Path(out, "NAME__rate.pdf").touch()
"""
PROBE = ["probe", "position", "--judge", "simulated:position=1", "--attribute", "coherence", "--contexts", "3"]


def write_notebook(name, *sources, minutes=0):
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
    cells += [new_code_cell(source.replace("NAME", name)) for source in sources]
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    Path("notebooks").mkdir(exist_ok=True)
    metadata = {"kernelspec": kernel, "biaslab": {"minutes": minutes}}
    nbformat.write(new_notebook(cells=cells, metadata=metadata), f"notebooks/{name}.ipynb")


def biaslab(*words):
    command = [sys.executable, "-m", "biaslab.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_help_reads_well_and_is_light():
    code = "import sys; from biaslab.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for command in ("figures", "probe", "list", "store"):
        assert f"\n  {command} " in done.stdout
    assert "..." not in done.stdout.split("Commands:")[1]
    loaded = {module.split(".")[0] for module in done.stderr.split()}
    assert "biaslab" in loaded
    assert not loaded & {"torch", "matplotlib", "papermill", "pandas", "numpy", "transformers", "nbformat"}


def test_without_a_command_it_shows_help(capsys):
    assert main([]) == 0
    assert "Usage: biaslab" in capsys.readouterr().out
    assert main(["store"]) == 2
    assert capsys.readouterr().err.startswith("Usage: biaslab store")


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"biaslab {bl.__version__}\n"


def test_list_shows_everything_there_is():
    write_notebook("my_study", "x = 1")
    shown = CliRunner().invoke(app, ["list"]).output
    for name in ("position ", "graded ", "summeval ", "comparative_1 ", "smollm2-135m ", "simulated", "my_study "):
        assert f"\n  {name}" in shown
    assert all(f"\n{title}\n" in f"\n{shown}" for title in ("Probes", "Data sets", "Prompts", "Judges", "Notebooks"))


@pytest.mark.slow
def test_probe_prints_and_writes_what_the_package_computes():
    done = CliRunner().invoke(app, [*PROBE, "--out", "rates.csv", "--seed", "3"])
    assert done.exit_code == 0, done.output
    assert "on graded (constructed), 3 contexts" in done.output
    assert "180 judge calls, 0 replies from the store" in done.output
    data = bl.load_dataset("graded", limit=3)
    probe = bl.probes.Position(attributes=["coherence"], seed=3, resampling=bl.Resampling(seed=3))
    expected = probe.estimate(bl.collect(probe, bl.SimulatedJudge(data, position=1), data, progress=False))
    written = pd.read_csv("rates.csv", dtype={"note": str}).fillna({"note": ""})
    pd.testing.assert_frame_equal(written, expected, check_dtype=False)
    row = expected.iloc[0]
    line = next(line for line in done.output.splitlines() if line.split()[:1] == [row.metric])
    assert f"{row.estimate:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}]" in line
    assert "95 % interval" in done.output
    again = CliRunner().invoke(app, PROBE)
    assert "0 judge calls, 180 replies from the store (judgements.sqlite)" in again.output


@pytest.mark.slow
def test_missing_answers_are_a_warning_in_one_line():
    done = biaslab("probe", "position", "--judge", "simulated:refusal=0.4", "--attribute", "fluency", "--contexts", "2")
    assert done.returncode == 0
    assert "position: 120 requests; " in done.stdout
    assert done.stderr
    assert all(line.startswith("biaslab: warning: position (fluency") for line in done.stderr.splitlines())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nope"], 2, "nope"),
        (["figures", "--contexts", "many"], 2, "--contexts"),
        (["figures", "--contexts", "0"], 2, "contexts is 0"),
        (["figures", "--only", "nope"], 2, "position"),
        (["figures", "--path", "missing"], 2, "path is 'missing'"),
        (["probe"], 2, "Missing"),
        (["probe", "nope"], 2, "position"),
        (["probe", "position", "--contexts", "0"], 2, "contexts is 0"),
        (["probe", "position", "--out", "notebooks/position.ipynb/x.csv"], 2, "a folder that exists or can be created"),
        (["probe", "position", "--judge", "simulated", "--attribute", "wit"], 2, "coherence"),
        (["store", "prune", "x.sqlite"], 3, "x.sqlite"),
        (["store", "info", "x.sqlite"], 3, "x.sqlite"),
        (["probe", "position", "--judge", "simulated", "--store", "notebooks/position.ipynb"], 3, "not modified"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(words, code, message, capsys):
    write_notebook("position", "x = 1")
    assert main(words) == code
    captured = capsys.readouterr()
    assert captured.err.startswith("biaslab: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert captured.out == ""
    assert main([*words, "--debug"]) == code
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.slow
def test_figures_says_what_it_made_and_that_nothing_was_asked(capfd):
    write_notebook("00_tour", STUDY)
    write_notebook("fails", "1 / 0")
    assert main(["figures", "--only", "tour", "--contexts", "2"]) == 0
    message, errors = capfd.readouterr()
    assert errors == ""
    assert f"{Path('figures', folder_of({'n_contexts': 2}), '00_tour__rate')}  .pdf .png" in message
    assert message.splitlines()[-1].startswith("1 figure from 1 notebook in ")
    assert "60 judge calls (60 tokens), 0 replies from the store" in message
    assert main(["figures", "--contexts", "2"]) == 3
    message, errors = capfd.readouterr()
    assert errors.startswith("biaslab: fails.ipynb failed with ZeroDivisionError: division by zero; ")
    assert errors.count("\n") == 1
    assert "; 0 judge calls, 60 replies from the store (60 tokens)" in message.splitlines()[-1]


@pytest.mark.thorough
@pytest.mark.slow
def test_two_notebooks_at_once():
    import nbformat

    for name in ("one", "two"):
        write_notebook(name, STUDY)
    write_notebook("zenith", "pass", minutes=3)
    done = biaslab("figures", "--jobs", "2", "--judge", "simulated:position=1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("2 figures from 3 notebooks in ")
    runs = {path.stem: nbformat.read(path, 4).metadata["papermill"] for path in Path("papermill_runs").rglob("*.ipynb")}
    assert runs["zenith"]["start_time"] < runs["two"]["start_time"]  # the longest is not left to the end
    assert "\none: 1 figure in " in f"\n{done.stdout}"
    with bl.Store("judgements.sqlite") as store:
        assert len(store) == 30
    again = biaslab("figures", "--jobs", "2", "--judge", "simulated:position=1")
    assert "; 0 judge calls, 60 replies from the store" in again.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a group of processes")
@pytest.mark.parametrize("jobs", [pytest.param("1", marks=pytest.mark.thorough), "2"])
def test_ctrl_c_keeps_what_was_answered_and_leaves_no_kernel(jobs):
    for name in ("one", "two"):
        write_notebook(name, STUDY, "import os, time\nPath('pid-NAME').write_text(str(os.getpid()))\ntime.sleep(99)")
    command = [sys.executable, "-m", "biaslab.cli", "figures", "--jobs", jobs]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        deadline = time.monotonic() + 400  # kernels start late on a busy machine
        while len(list(Path().glob("pid-*"))) < int(jobs) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=200)
    assert process.returncode == 130
    assert message == "biaslab: stopped; all replies so far are in the store; run the same command again to continue\n"
    with bl.Store("judgements.sqlite") as store:
        assert len(store) == 30
    kernels = [int(path.read_text()) for path in Path().glob("pid-*")]
    assert len(kernels) == int(jobs)
    for kernel in kernels:
        with pytest.raises(ProcessLookupError):
            os.kill(kernel, 0)


SLOW_TO_END = """
import asyncio, os, signal, sys, threading
from jupyter_client.manager import AsyncKernelManager
from biaslab.cli import main

async def cleanup_resources(self, restart=False):
    await asyncio.sleep(2.5)  # longer than the client waits before it looks whether its kernel is alive

AsyncKernelManager.cleanup_resources = cleanup_resources

def interrupt():
    while not [name for name in os.listdir() if name.startswith("pid-")]:
        threading.Event().wait(0.1)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sys.exit(main(["figures"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal to a process")
def test_ctrl_c_is_one_line_however_long_the_kernel_takes_to_end():
    write_notebook("one", STUDY, "import os, time\nPath('pid-NAME').write_text(str(os.getpid()))\ntime.sleep(99)")
    done = subprocess.run([sys.executable, "-c", SLOW_TO_END], capture_output=True, text=True, timeout=100)
    assert done.returncode == 130
    assert (
        done.stderr == "biaslab: stopped; all replies so far are in the store; run the same command again to continue\n"
    )
