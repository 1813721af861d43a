"""``biaslab compare``: compare saved judgements of two judges, or of one judge at two times."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biaslab.cli.options import Table, require_table, write_table
from biaslab.core.checks import is_there
from biaslab.core.csv_files import read_csv
from biaslab.core.errors import InputError
from biaslab.core.output import count

if TYPE_CHECKING:
    import pandas as pd

_FILE = "file"


def compare(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Saved trials, logs, or CSV files of estimates.")
    ],
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column to compare by. Default: judge; with one judge, the file."),
    ] = None,
    probe: Annotated[str | None, typer.Option(metavar="NAME", help="For logs: the probe to estimate.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Compare this metric; may be repeated. Default: the primary ones."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="VALUE", help="Reference value to compare the others with.")
    ] = None,
    out: Table = None,
) -> None:
    """Compare judges on the contexts they share.

    Differences are paired by context. Two files of one judge, such as last
    month's and today's, are distinguished by file name.
    """
    require_table(out)
    import pandas as pd

    from biaslab.correct import compare as compare_all
    from biaslab.probes import find_probe
    from biaslab.report import verdicts

    frames = [_read(file) for file in files]
    are_estimates = {"estimate" in frame for frame in frames}
    if len(are_estimates) > 1:
        raise InputError("files", [file.name for file in files], "all trials, or all estimates")
    frame = pd.concat([one.assign(**{_FILE: file.stem}) for one, file in zip(frames, files, strict=True)])
    chosen = by or ("judge" if len(set(frame["judge"])) > 1 else _FILE)
    estimator = None if probe is None else find_probe(probe)()
    comparison = compare_all(frame, chosen, metric, reference=reference, probe=estimator, progress=False)
    shifts = comparison[comparison["role"] == "difference"]
    with_words = shifts.assign(words=verdicts(shifts.drop(columns="compared")))
    for (names, about), rows in with_words.groupby(["compared", "metric"], sort=False):
        typer.echo(f"{names}: {about}" + "".join(f"\n  {words}" for words in rows["words"]))
    left = comparison.attrs["contexts_left_out"]
    if left:
        typer.echo(f"left out: {count(left, 'context')} judged on one side only")
    write_table(comparison, out, "estimate")


def _read(file: Path) -> pd.DataFrame:
    """Read estimates, or judgements in any known format."""
    from biaslab import read_judgements

    if is_there(file) and file.suffix == ".csv":
        with suppress(ValueError):  # empty, or no UTF-8: no estimates of ours
            head = read_csv(file, nrows=1)
            if {"estimate", "se", "metric"} <= set(head.columns):
                return read_csv(file, keep_default_na=False, na_values=[""])
    return read_judgements(file)
