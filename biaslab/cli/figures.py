"""Commands that run notebooks and simulations: ``biaslab figures``, ``paper``, ``notebooks`` and ``validate``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab.cli.options import (
    ColumnsOption,
    Contexts,
    DataPath,
    DatasetName,
    JudgeOption,
    Knobs,
    Noun,
    ScaleOption,
    StorePath,
    name_dataset,
    require_table,
)
from biaslab.core.checks import pairs
from biaslab.core.errors import InputError
from biaslab.core.output import count, replacing

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.figures import NotebookRun


def figures(
    judge: JudgeOption = None,
    dataset: DatasetName = None,
    path: DataPath = None,
    columns: ColumnsOption = None,
    scale: ScaleOption = None,
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


def paper(
    name: Annotated[str, typer.Argument(metavar="PAPER", help="liusie2024, stureborg2024, wang2023 or chen2024.")],
    item: Annotated[str | None, typer.Argument(help="A table or figure, such as 'Table 5'; omit to list them.")] = None,
    judge: JudgeOption = None,
    path: DataPath = None,
    dataset: DatasetName = None,
    contexts: Contexts = None,
    param: Knobs = None,
    out: Annotated[Path | None, typer.Option(help="Output folder, as for biaslab figures.")] = None,
    store: StorePath = Path("judgements.sqlite"),
) -> None:
    """Run a published experiment with the settings of the paper.

    Uses the paper's contexts, samples, scales and temperatures; -p and --contexts change single settings.
    If the paper used several data sets for an item, choose one with --dataset.
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
        figures(
            judge=judge,
            dataset=each.dataset,
            path=path,
            contexts=contexts,
            param=[
                f"{setting}={value}"
                for setting, value in settings.items()
                if not (setting == "n_contexts" and contexts)
            ],
            only=[each.notebook],
            out=out,
            store=store,
        )


notebooks_app = typer.Typer(help="Copy the notebooks so that you can change them.", no_args_is_help=True)


@notebooks_app.callback()
def _group() -> None:
    pass


@notebooks_app.command()
def copy(
    folder: Annotated[Path, typer.Argument(help="Target folder; created if missing.")] = Path("notebooks"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Also overwrite notebooks that you changed.")] = False,
) -> None:
    """Copy all notebooks to a folder, keeping those you changed."""
    from biaslab.figures.regenerate import copy_notebooks

    done = copy_notebooks(folder, overwrite)
    typer.echo(f"{count(len(done.written), 'notebook')} written to {folder}, {len(done.same)} there already")
    if done.kept:
        names = ", ".join(path.name for path in done.kept)
        typer.echo(f"kept your changed versions of: {names}; use --overwrite to replace them")


_LEFT_BAND = 3
_SHOWN = ("quantity", "planted", "refusals", "n_contexts", "estimate", "ci_low", "ci_high", "low", "high", "kept")


def validate(
    probe: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Validate this probe; may be repeated.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Validate this metric; may be repeated.")
    ] = None,
    studies: Annotated[int, typer.Option(help="Simulated studies per row.")] = 1000,
    contexts: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Contexts per study; may be repeated. Default: 8, 24, 100.")
    ] = None,
    population: Annotated[
        int, typer.Option(help="Size of the population of contexts that studies sample from.")
    ] = 5_000,
    jobs: Annotated[int, typer.Option(help="Number of processes; does not affect the results.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    mode: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="How judges answer: exact, text, sampled:k; may be repeated."),
    ] = None,
    generator: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Data generator of the studies: judge, two_judges, t3 ...; may be repeated."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="All modes and generators, of all or the named metrics: the full table."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Write rows to this file as they are finished; a second run resumes."),
    ] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE.md", help="Also write the table as a page.")] = None,
    promises: Annotated[
        bool, typer.Option("--promises", help="Instead simulate the guarantees of cards, plans and corrections.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with code 3 if a metric is outside its band.")] = False,
) -> None:
    """Measure error rates, coverage and power on simulated judges.

    Default: all probes. Bands: type-I error .035 to .065, coverage .93 to .97,
    power within .05 of the planned power; for other modes and generators .03 to .07
    and .92 to .98. Each band is widened by the Monte-Carlo error.
    """
    require_table(out)
    from biaslab import calibration
    from biaslab.calibration.table import write_page
    from biaslab.probes import find_probe

    if promises:
        chosen_metrics = {"probe": probe, "metric": metric, "contexts": contexts, "mode": mode, "generator": generator}
        _refuse_a_choice("promises", promises, all=everything, **chosen_metrics)
        _keep_promises(studies, seed, out, page, check)
        return
    _refuse_a_choice("all", everything, contexts=contexts, mode=mode, generator=generator)
    numbers: dict[str, Any] = {"studies": studies, "population": population, "jobs": jobs, "seed": seed}
    numbers |= {"report": _show, "out": out}
    probes = [find_probe(name) for name in probe] if probe else None
    if everything:
        rows = calibration.validate_all(**numbers, probes=probes, metrics=metric or None)
    else:
        selection = {"contexts": contexts, "modes": mode, "generators": generator}
        chosen: dict[str, Any] = {name: value for name, value in selection.items() if value}
        rows = calibration.validate(probes, metric, **numbers, **chosen)
    if out is not None:
        typer.echo(f"{count(len(rows), 'row')} in {out}")
    if page is not None:
        choices = {"probe": probe, "metric": metric, "contexts": contexts, "mode": mode, "generator": generator}
        sizes = {"studies": studies, "population": population, "seed": seed}
        write_page(rows, page, _command(everything, choices, sizes, out))
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
        raise InputError(
            option, ", ".join(f"--{name}" for name in selected), "no option that selects rows", "drop one of them"
        )


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
    typer.echo(
        f"{first['probe']}: {first['metric']}, {first['mode']}, {first['generator']}, truth {first['truth']:.4f}"
    )
    typer.echo(shown.assign(**flags).to_string(index=False) + "\n")
