"""``biaslab calibrate``: see whether every primary metric keeps its promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from biaslab.cli.options import Table, require_table, write_table

if TYPE_CHECKING:
    import pandas as pd

_LEFT_BAND = 3
_SHOWN = ("quantity", "planted", "refusals", "n_contexts", "estimate", "ci_low", "ci_high", "low", "high", "kept")


def calibrate(
    probe: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Calibrate this probe; may be repeated.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Calibrate this metric; may be repeated.")
    ] = None,
    studies: Annotated[int, typer.Option(help="Simulated studies a row.")] = 1000,
    contexts: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Contexts of a study; may be repeated. Default: 8, 24, 100.")
    ] = None,
    population: Annotated[int, typer.Option(help="Contexts of the population that studies draw from.")] = 5_000,
    jobs: Annotated[int, typer.Option(help="Processes; the result does not depend on it.")] = 1,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    out: Table = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 3 if a metric leaves its band.")] = False,
) -> None:
    """Measure error rates and power on simulated judges.

    All probes by default. Bands: type-I error .035 to .065, coverage .93 to .97,
    power within .05 of the plan, each widened by the Monte-Carlo error.
    """
    require_table(out)
    from biaslab import calibration
    from biaslab.probes import find_probe

    found = calibration.calibrate(
        [find_probe(name) for name in probe] if probe else None,
        metric,
        studies=studies,
        population=population,
        jobs=jobs,
        seed=seed,
        report=_show,
        **({"contexts": contexts} if contexts else {}),
    )
    write_table(found, out, "row")
    left = calibration.outside(found)
    typer.echo(f"{len(found) - len(left)} of {len(found)} shares keep their band")
    for row in left.itertuples():
        typer.echo(f"biaslab: {calibration.describe(row)}", err=check)
    if check and len(left):
        raise typer.Exit(_LEFT_BAND)


def _show(rows: pd.DataFrame) -> None:
    numbers = ["estimate", "ci_low", "ci_high", "low", "high"]
    shown = rows[list(_SHOWN)].assign(**{name: rows[name].map("{:.3f}".format) for name in numbers})
    flags = {name: rows[name].map({True: "yes", False: "no"}) for name in ("planted", "refusals", "kept")}
    typer.echo(f"{rows['probe'].iloc[0]}: {rows['metric'].iloc[0]}, truth {rows['truth'].iloc[0]:.4f}")
    typer.echo(shown.assign(**flags).to_string(index=False) + "\n")
