"""``biaslab figures``: regenerate all figures."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab.cli.options import (
    Columns,
    Contexts,
    DataPath,
    DatasetName,
    Judge,
    Knobs,
    Noun,
    Scale,
    StorePath,
    name_dataset,
)
from biaslab.core.output import count
from biaslab.core.written import pairs

if TYPE_CHECKING:
    from biaslab.figures import Run


def figures(
    judge: Judge = None,
    dataset: DatasetName = None,
    path: DataPath = None,
    columns: Columns = None,
    scale: Scale = None,
    noun: Noun = None,
    contexts: Contexts = None,
    param: Knobs = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run only this notebook; may be repeated.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of notebooks to run in parallel.")] = 1,
    changed: Annotated[bool, typer.Option("--changed", help="Skip notebooks whose figures are up to date.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the figures; by default figures, with a subfolder for changed parameters."),
    ] = None,
    store: StorePath = Path("judgements.sqlite"),
) -> None:
    """Run the notebooks, save all figures, and report the cost.

    Options that you leave out keep each notebook's default: the embedded judge, bundled texts.
    -p sets a parameter in all notebooks that have it, such as -p n_pairs=3.
    --changed skips a notebook if its code, its parameters, the files they name, biaslab and all
    installed packages are unchanged.
    """
    from biaslab.figures.gallery import cost, describe
    from biaslab.figures.precision import FILE, describe_precision, measure_precision
    from biaslab.figures.regenerate import regenerate

    started = time.monotonic()
    runs: list[Run] = []

    def report(run: Run) -> None:
        runs.append(run)
        typer.echo(describe(run))

    try:
        parameters = pairs(param, "param", "NAME=VALUE, such as -p n_pairs=3")
        attributes = parameters["attributes"].split(",") if "attributes" in parameters else None
        named = name_dataset(dataset, columns, scale, noun, attributes)
        settings: dict[str, Any] = {"judge": judge, "dataset": named, "path": path, "contexts": contexts}
        settings |= {"parameters": parameters, "changed": changed}
        progress = sys.stderr.isatty()
        regenerate(only or None, **settings, jobs=jobs, out=out, store=store, progress=progress, report=report)
    finally:
        if runs:
            total = f"{count(sum(len(run.figures) for run in runs), 'figure')} from {count(len(runs), 'notebook')}"
            for folder in dict.fromkeys(file.parent for run in runs for file in run.files):
                if (folder / "index.html").exists():
                    typer.echo(f"open {folder / 'index.html'} to see all figures")
                if summary := describe_precision(measure_precision(folder)):
                    typer.echo(f"{summary} ({folder / FILE})")
            executed = [run for run in runs if not run.up_to_date]
            if executed != runs:
                total += f", {len(runs) - len(executed)} of them up to date,"
            typer.echo(f"{total} in {time.monotonic() - started:.0f} s; {cost(executed)}")
