"""The command line: ``biaslab figures``, ``probe``, ``plan``, ``list``, ``calibrate``, ``batch``, ``store``."""

from __future__ import annotations

import re
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab import cli_audit, cli_batch, cli_calibrate, cli_plan, cli_report, cli_store
from biaslab.checks import require_whole
from biaslab.cli_text import cost, count, describe, first_line, table
from biaslab.errors import BiaslabError, InputError, MissingDataWarning

if TYPE_CHECKING:
    from biaslab.core import Probe
    from biaslab.regenerate import Run

_INTERRUPTED = 130
_EPILOG = """
\b
Start here:
  biaslab figures --only position --contexts 4
  biaslab probe position --attribute coherence --out position.csv
\b
Exit codes: 0 fine, 2 a wrong command or input, 3 anything else that failed,
130 stopped with Ctrl-C.
"""

app = typer.Typer(
    help="Measure the biases of LLM judges.",
    epilog=_EPILOG,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(cli_store.app, name="store")
app.add_typer(cli_batch.app, name="batch")
app.command("plan")(cli_plan.plan)
app.command()(cli_calibrate.calibrate)
app.command()(cli_audit.audit)
app.command()(cli_report.card)
app.command("table")(cli_report.table)

Judge = Annotated[
    str | None, typer.Option(help="Who judges, such as smollm2-135m, a folder, a .gguf file or simulated:position=1.")
]
DatasetName = Annotated[str | None, typer.Option(help="What is judged: a name that `biaslab list` shows.")]
DataPath = Annotated[Path | None, typer.Option(help="File or folder of a data set that is not bundled.")]
Contexts = Annotated[int | None, typer.Option(help="Use the first so many contexts of the data set.")]
StorePath = Annotated[Path, typer.Option(help="Where replies are kept, so that nothing is asked twice.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 fine, 2 wrong input, 3 another failure, 130 stopped.

    Parameters
    ----------
    arguments : sequence of str, optional
        What stands after ``biaslab``; taken from the command line by default.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    words = [word for word in given if word != "--debug"]
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        try:
            code: int = app(words or ["--help"], prog_name="biaslab", standalone_mode=False) or 0
        except Exception as error:
            if debug:
                traceback.print_exc()
            code, message = _explain(error)
            typer.echo(message, err=True)
    if code == _INTERRUPTED:
        typer.echo("biaslab: stopped; everything answered so far is in the store, run it again to go on", err=True)
    return code


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"biaslab {metadata.version('biaslab')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")] = False,
) -> None:
    pass


@app.command()
def figures(
    judge: Judge = None,
    dataset: DatasetName = None,
    path: DataPath = None,
    contexts: Contexts = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Execute this notebook; may be repeated.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Notebooks that run at once.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the figures.")] = Path("figures"),
    store: StorePath = Path("judgements.sqlite"),
) -> None:
    """Make all figures: execute the notebooks, and say what it cost.

    What is not given is left to each notebook: the embedded judge, bundled texts.
    """
    from biaslab.regenerate import regenerate

    started = time.monotonic()
    runs: list[Run] = []

    def report(run: Run) -> None:
        runs.append(run)
        typer.echo(describe(run))

    try:
        settings: dict[str, Any] = {"judge": judge, "dataset": dataset, "path": path, "contexts": contexts}
        progress = sys.stderr.isatty()
        regenerate(only or None, **settings, jobs=jobs, out=out, store=store, progress=progress, report=report)
    finally:
        if runs:
            made = f"{count(sum(len(run.figures) for run in runs), 'figure')} from {count(len(runs), 'notebook')}"
            if (out / "index.html").exists():
                typer.echo(f"{out / 'index.html'} shows all figures of the folder")
            typer.echo(f"{made} in {time.monotonic() - started:.0f} s; {cost(runs)}")


@app.command()
def probe(
    name: Annotated[str, typer.Argument(help="A probe that `biaslab list` shows, such as position.")],
    judge: Annotated[str, typer.Option(help="Who judges; see `biaslab list`.")] = "smollm2-135m",
    dataset: Annotated[str, typer.Option(help="What is judged; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    contexts: Contexts = None,
    attribute: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Judge this attribute; may be repeated.")
    ] = None,
    store: StorePath = Path("judgements.sqlite"),
    out: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write the estimates to this file.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random: drawn pairs, resampling.")] = None,
) -> None:
    """Measure one phenomenon and print the estimates."""
    if out is not None and (out.suffix != ".csv" or not out.absolute().parent.is_dir()):
        raise InputError("out", str(out), "a file that ends in .csv, in a folder that exists")
    if contexts is not None:
        require_whole("contexts", contexts, 1)
    from biaslab import collect, load_dataset, load_judge

    chosen = make_probe(name, attribute, seed)
    data = load_dataset(dataset, path, limit=contexts)
    trials = collect(chosen, load_judge(judge, data), data, store=store, progress=sys.stderr.isatty())
    estimates = chosen.estimate(trials)
    typer.echo(f"{name} of {trials['judge'].iloc[0]} on {data.name}, {count(data.n_contexts, 'context')}\n")
    typer.echo(table(estimates))
    asked, stored = trials.attrs["asked"], trials.attrs["stored"]
    typer.echo(f"\n{count(asked, 'judge call')}, {count(stored, 'reply')} from the store ({store})")
    if out is not None:
        partial = out.with_name(f".{out.name}.partial")
        estimates.to_csv(partial, index=False)
        partial.replace(out)
        typer.echo(f"{count(len(estimates), 'estimate')} written to {out}")


@app.command("list")
def list_everything() -> None:
    """Show all probes, data sets, prompts, judges, notebooks."""
    from biaslab import datasets, judges, probes, prompts
    from biaslab.regenerate import list_notebooks

    try:
        notebooks = {path.stem: str(path) for path in list_notebooks()}
    except InputError:
        notebooks = {"(none)": "run it in a checkout of biaslab"}
    listed = {
        "Probes": {name: first_line(kind.__doc__) for name, kind in probes.available().items()},
        "Data sets": datasets.available(),
        "Prompts": {name: re.split(r"\. (?=[A-Z])", origin)[0] for name, origin in prompts.available().items()},
        "Judges": judges.available(),
        "Notebooks": notebooks,
    }
    width = max(len(name) for group in listed.values() for name in group)
    for title, group in listed.items():
        typer.echo(f"{title}\n" + "\n".join(f"  {name:{width}}  {text}" for name, text in group.items()) + "\n")


def make_probe(name: str, attributes: list[str] | None, seed: int | None) -> Probe:
    """Make a probe from what the command line gives."""
    from dataclasses import fields

    from biaslab.probes import find_probe
    from biaslab.stats.resampling import Resampling

    kind = find_probe(name)
    given: dict[str, Any] = {}
    if attributes:
        given["attributes"] = attributes
    if seed is not None:
        given |= {"seed": seed, "resampling": Resampling(seed=seed)}
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if attributes and "attributes" not in known:
        raise InputError("attribute", attributes, f"nothing for the probe {name}, which has no attributes")
    return kind(**{key: value for key, value in given.items() if key in known})


def _explain(error: Exception) -> tuple[int, str]:
    """Return the exit code of an error and its one line."""
    text = " ".join(str(error).split())
    if isinstance(error, BiaslabError):
        return (2 if isinstance(error, InputError) else 3), f"biaslab: {text}"
    if isinstance(error, typer.Abort):
        return 3, "biaslab: not confirmed, nothing was changed"
    if isinstance(error, typer.TyperException):
        if error.message.startswith("Usage:"):  # a group without a command shows its help
            return 2, error.message
        return 2, f"biaslab: {' '.join(error.format_message().split())}"
    return 3, f"biaslab: unexpected {type(error).__name__}: {text}; --debug shows where"


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    prefix = "" if issubclass(category, MissingDataWarning) else f"{category.__name__}: "
    typer.echo(f"biaslab: warning: {prefix}{' '.join(str(message).split())}", err=True)


if __name__ == "__main__":
    sys.exit(main())
