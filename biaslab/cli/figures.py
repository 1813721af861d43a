"""Commands that run notebooks and simulations: ``biaslab figures``, ``paper``, ``notebooks`` and ``validate``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from biaslab.cli.command import command
from biaslab.cli.options import DataOptions, require_table
from biaslab.core.checks import pairs
from biaslab.core.errors import InputError
from biaslab.core.output import count, replacing

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.figures import NotebookRun


figures_app = typer.Typer()


@command(figures_app)
def figures(
    *,
    judge: str | None = None,
    data: DataOptions,
    contexts: int | None = None,
    param: list[str] | None = None,
    only: list[str] | None = None,
    jobs: int = 1,
    changed: bool = False,
    out: Path | None = None,
    store: Path = Path("judgements.sqlite"),
) -> None:
    """Run the notebooks, save all figures, and report the cost.

    Options that you leave out keep each notebook's default: the embedded judge, bundled texts.
    -p sets a parameter in all notebooks that have it, such as -p n_pairs=3.
    --changed skips a notebook if its code, its parameters, the files they name, biaslab and all
    installed packages are unchanged.

    Parameters
    ----------
    judge
        The judge: a name such as smollm2-135m, a folder, a .gguf file or simulated:position=1.
    only : NAME
        Run only this notebook; may be repeated.
    jobs
        Number of notebooks to run in parallel.
    changed
        Skip notebooks whose figures are up to date.
    out : FOLDER
        Folder of the figures; by default figures, with a subfolder for changed parameters.
    """
    from biaslab.figures.gallery import FILE, cost, describe, describe_precision, measure_precision
    from biaslab.figures.regenerate import regenerate

    started = time.monotonic()
    runs: list[NotebookRun] = []

    def report(run: NotebookRun) -> None:
        runs.append(run)
        typer.echo(describe(run))

    try:
        parameters = pairs(param, "param", "NAME=VALUE, such as -p n_pairs=3")
        attributes = parameters["attributes"].split(",") if "attributes" in parameters else None
        settings: dict[str, Any] = {"judge": judge, "dataset": data.name(attributes), "path": data.path}
        settings |= {"contexts": contexts, "parameters": parameters, "changed": changed}
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


@command(figures_app)
def paper(
    name: str,
    item: str | None = None,
    /,
    judge: str | None = None,
    path: Path | None = None,
    dataset: str | None = None,
    contexts: int | None = None,
    param: list[str] | None = None,
    out: Path | None = None,
    store: Path = Path("judgements.sqlite"),
) -> None:
    """Run a published experiment with the settings of the paper.

    Uses the paper's contexts, samples, scales and temperatures; -p and --contexts change single settings.
    If the paper used several data sets for an item, choose one with --dataset.

    Parameters
    ----------
    name : PAPER
        liusie2024, stureborg2024, wang2023 or chen2024.
    item
        A table or figure, such as 'Table 5'; omit to list them.
    judge
        The judge: a name such as smollm2-135m, a folder, a .gguf file or simulated:position=1.
    out : FOLDER
        Output folder, as for biaslab figures.
    """
    from biaslab.atlas.published import experiments

    chosen = experiments(name, item, dataset)
    if item is None:
        for each in chosen:
            typer.echo(f"{', '.join(each.items)}: {each.notebook} on {each.dataset}")
        return
    sets = list(dict.fromkeys(each.dataset for each in chosen))
    if len(sets) > 1:
        raise InputError("dataset", dataset, " or ".join(sets), f"choose one: --dataset '{sets[0]}' --path FILE")
    changed = pairs(param, "param", "NAME=VALUE, such as -p n_contexts=20")
    for each in chosen:
        settings = each.settings | changed
        typer.echo(f"{each.notebook} on {each.dataset}: " + ", ".join(f"{k}={v}" for k, v in settings.items()))
        if unstated := [setting for setting in each.not_stated if setting not in changed]:
            typer.echo(f"not stated by the paper: {', '.join(unstated)}")
        settings = {key: value for key, value in settings.items() if not (key == "n_contexts" and contexts)}
        given = [f"{setting}={value}" for setting, value in settings.items()]
        options: dict[str, Any] = {"judge": judge, "contexts": contexts, "out": out, "store": store}
        figures(data=DataOptions(each.dataset, path), param=given, only=[each.notebook], **options)


notebooks_app = typer.Typer(help="Copy the notebooks so that you can change them.", no_args_is_help=True)


@command(notebooks_app)
def copy(folder: Path = Path("notebooks"), /, overwrite: bool = False) -> None:
    """Copy all notebooks to a folder, keeping those you changed.

    Parameters
    ----------
    folder
        Target folder; created if missing.
    overwrite
        Also overwrite notebooks that you changed.
    """
    from biaslab.figures.regenerate import copy_notebooks

    done = copy_notebooks(folder, overwrite)
    typer.echo(f"{count(len(done.written), 'notebook')} written to {folder}, {len(done.same)} there already")
    if done.kept:
        names = ", ".join(path.name for path in done.kept)
        typer.echo(f"kept your changed versions of: {names}; use --overwrite to replace them")


_LEFT_BAND = 3
_SHOWN = ("quantity", "planted", "refusals", "n_contexts", "estimate", "ci_low", "ci_high", "low", "high", "kept")


@command(figures_app, calls="biaslab.calibration:validate", takes=("studies", "population", "jobs", "seed"))
def validate(
    probe: list[str] | None = None,
    metric: list[str] | None = None,
    contexts: list[int] | None = None,
    mode: list[str] | None = None,
    generator: list[str] | None = None,
    all_: bool = False,
    out: Path | None = None,
    page: Path | None = None,
    promises: bool = False,
    check: bool = False,
    **numbers: Any,
) -> None:
    """Measure error rates, coverage and power on simulated judges.

    Default: all probes. Bands: type-I error .035 to .065, coverage .93 to .97,
    power within .05 of the planned power; for other modes and generators .03 to .07
    and .92 to .98. Each band is widened by the Monte-Carlo error.

    Parameters
    ----------
    probe : NAME
        Validate this probe; may be repeated.
    metric : NAME
        Validate this metric; may be repeated.
    contexts : N
        Contexts per study; may be repeated. Default: 8, 24, 100.
    mode : NAME
        How judges answer: exact, text, sampled:k; may be repeated.
    generator : NAME
        Data generator of the studies: judge, two_judges, t3 ...; may be repeated.
    all_
        All modes and generators, of all or the named metrics: the full table.
    out : FILE.csv
        Write rows to this file as they are finished; a second run resumes.
    page : FILE.md
        Also write the table as a page.
    promises
        Instead simulate the guarantees of cards, plans and corrections.
    check
        Exit with code 3 if a metric is outside its band.
    """
    require_table(out)
    from biaslab import calibration
    from biaslab.calibration.table import write_page
    from biaslab.probes import find_probe

    settings = {"contexts": contexts, "mode": mode, "generator": generator}
    choices = {"probe": probe, "metric": metric, **settings}
    if promises:
        _refuse_a_choice("promises", promises, all=all_, **choices)
        _keep_promises(numbers["studies"], numbers["seed"], out, page, check)
        return
    _refuse_a_choice("all", all_, **settings)
    probes = [find_probe(name) for name in probe] if probe else None
    options = numbers | {"report": _show, "out": out}
    if all_:
        rows = calibration.validate_all(**options, probes=probes, metrics=metric or None)
    else:
        selection = {"contexts": contexts, "modes": mode, "generators": generator}
        options |= {name: value for name, value in selection.items() if value}
        rows = calibration.validate(probes, metric, **options)
    if out is not None:
        typer.echo(f"{count(len(rows), 'row')} in {out}")
    if page is not None:
        sizes = {name: numbers[name] for name in ("studies", "population", "seed")}
        write_page(rows, page, _command(all_, choices, sizes, out))
    left = calibration.outside(rows)
    typer.echo(f"{len(rows) - len(left)} of {len(rows)} rates lie within their band")
    for row in left.itertuples():
        typer.echo(f"biaslab: {calibration.describe(row)}", err=check)
    if check and len(left):
        raise typer.Exit(_LEFT_BAND)


def _refuse_a_choice(option: str, wanted: bool, **chosen: object) -> None:
    """Raise `InputError` if a whole table is requested together with a selection."""
    selected = [name for name, value in chosen.items() if value]
    if wanted and selected:
        given = ", ".join(f"--{name}" for name in selected)
        raise InputError(option, given, "none that selects rows", "drop one of them")


def _keep_promises(studies: int, seed: int, out: Path | None, page: Path | None, check: bool) -> None:
    """Simulate the guarantees of cards, plans and corrections; print, write and check them."""
    from datetime import date

    from biaslab.calibration.promises import keep_promises, render_promises
    from biaslab.core.files import write_csv

    rows = keep_promises(studies, seed=seed)
    for row in rows.itertuples():
        band = f"band {row.low:g} to {row.high:g}{'' if row.kept else ', outside'}"
        typer.echo(f"{row.promise}: {row.estimate:.3f} [{row.ci_low:.3f}, {row.ci_high:.3f}], {band}: {row.sentence}")
    if out is not None:
        write_csv(rows, out)
    if page is not None:
        command = f"biaslab validate --promises --studies {studies} --seed {seed}"
        with replacing(page) as partial:
            partial.write_text(render_promises(rows, command, date.today().isoformat()), encoding="utf-8")
    if check and not rows["kept"].all():
        raise typer.Exit(_LEFT_BAND)


def _command(
    everything: bool, choices: Mapping[str, list[Any] | None], numbers: Mapping[str, int], out: Path | None
) -> str:
    """Return the command that reproduces the table."""
    words = ["biaslab validate", *(["--all"] if everything else [])]
    words += [f"--{name} {value}" for name, values in choices.items() for value in values or ()]
    words += [f"--{name} {value}" for name, value in numbers.items()]
    return " ".join([*words, *([f"--out {out.name}"] if out else [])])


def _show(rows: pd.DataFrame) -> None:
    numbers = ["estimate", "ci_low", "ci_high", "low", "high"]
    shown = rows[list(_SHOWN)].assign(**{name: rows[name].map("{:.3f}".format) for name in numbers})
    flags = {name: rows[name].map({True: "yes", False: "no"}) for name in ("planted", "refusals", "kept")}
    first = rows.iloc[0]
    if first["quantity"] == "refused":
        typer.echo(f"{first['probe']}: {first['metric']}, {first['mode']}: refused: {first['note']}\n")
        return
    where = ", ".join(first[["metric", "mode", "generator"]])
    typer.echo(f"{first['probe']}: {where}, truth {first['truth']:.4f}")
    typer.echo(shown.assign(**flags).to_string(index=False) + "\n")
