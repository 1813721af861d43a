"""What several commands share: their options, the checks of these, and the probe that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab.errors import InputError
from biaslab.output import count, replacing

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.probes.base import Probe

Judge = Annotated[
    str | None, typer.Option(help="Who judges, such as smollm2-135m, a folder, a .gguf file or simulated:position=1.")
]
DatasetName = Annotated[str | None, typer.Option(help="What is judged: a name that `biaslab list` shows.")]
DataPath = Annotated[Path | None, typer.Option(help="File or folder of a data set that is not bundled.")]
Contexts = Annotated[int | None, typer.Option(help="Use only the first contexts of the data set, this many.")]
StorePath = Annotated[Path, typer.Option(help="Where replies are kept, so that nothing is asked twice.")]
Attributes = Annotated[
    list[str] | None, typer.Option("--attribute", metavar="NAME", help="Judge this attribute; may be repeated.")
]
Table = Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write the table to this file.")]


def require_table(out: Path | None) -> None:
    """Raise `InputError` unless a table can be written there."""
    if out is not None and (out.suffix != ".csv" or not out.absolute().parent.is_dir()):
        raise InputError("out", str(out), "a file that ends in .csv, in a folder that exists")


def require_folder(name: str, target: Path) -> None:
    """Raise `InputError` unless a file can be written there."""
    if not target.absolute().parent.is_dir():
        raise InputError(name, str(target), "a file in a folder that exists")


def write_table(frame: pd.DataFrame, out: Path | None, noun: str) -> None:
    """Write a table where a file is named, whole or not at all, and say how many rows it has."""
    if out is not None:
        with replacing(out) as partial:
            frame.to_csv(partial, index=False)
        typer.echo(f"{count(len(frame), noun)} written to {out}")


def make_probe(name: str, attributes: list[str] | None, seed: int | None) -> Probe:
    """Make a probe from what the command line gives."""
    from biaslab.probes import find_probe

    kind = find_probe(name)
    if attributes and "attributes" not in kind.__dataclass_fields__:
        raise InputError("attribute", attributes, f"nothing for the probe {name}, which has no attributes")
    return with_options(kind, seed, attributes=attributes or None)


def with_options(kind: type[Probe], seed: int | None, **options: Any) -> Probe:
    """Make a probe from those of the options that it has and that are given."""
    from biaslab.stats import Resampling

    given = options | ({} if seed is None else {"seed": seed, "resampling": Resampling(seed=seed)})
    return kind(
        **{key: value for key, value in given.items() if key in kind.__dataclass_fields__ and value is not None}
    )
