"""``biaslab validate``: check type-I error, coverage and power of every primary metric by simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab.cli.options import require_table
from biaslab.core.errors import InputError
from biaslab.core.output import count, replacing

if TYPE_CHECKING:
    import pandas as pd

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
    from biaslab.calibration.pages import write_page
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
    from biaslab.core.csv_files import write_csv

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
