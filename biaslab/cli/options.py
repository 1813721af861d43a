"""Options that several commands share, the checks of these, and the probe that they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biaslab.core.csv_files import write_csv
from biaslab.core.errors import InputError
from biaslab.core.output import count, require_file
from biaslab.core.written import pairs

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.probes.base import Probe

Judge = Annotated[
    str | None,
    typer.Option(help="The judge: a name such as smollm2-135m, a folder, a .gguf file or simulated:position=1."),
]
DatasetName = Annotated[str | None, typer.Option(help="The data set, by a name that `biaslab list` shows.")]
DataPath = Annotated[Path | None, typer.Option(help="File or folder of a data set that is not bundled with biaslab.")]
Contexts = Annotated[int | None, typer.Option(help="Use the first N contexts.")]
StorePath = Annotated[Path, typer.Option(help="Store of replies; what it holds is not asked again.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN,…", help="For your own table: its columns, such as text=summary,context=article."
    ),
]
Scale = Annotated[
    str | None, typer.Option("--scale", metavar="LOW-HIGH", help="For your own table: the scale of its scores.")
]
Noun = Annotated[str | None, typer.Option(help="For your own table: what prompts call a candidate, such as summary.")]
Knobs = Annotated[
    list[str] | None,
    typer.Option(
        "--param", "-p", metavar="NAME=VALUE", help="Set a parameter; repeatable. Separate list items by commas."
    ),
]
Protocols = Annotated[
    list[Path] | None,
    typer.Option("--protocol", metavar="FILE", help="Ask with this prompt and parser; one of pairs, one of scores."),
]
Attributes = Annotated[
    list[str] | None, typer.Option("--attribute", metavar="NAME", help="Judge this attribute; may be repeated.")
]
LogFiles = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Logs, archives or folders of them.")]
LogFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format, such as llmbar or mapping; detected by default."),
]
Mapped = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="NAME=FIELD", help="Column of trials=field, ==constant or =field~regex; may be repeated."
    ),
]
MappingFile = Annotated[
    Path | None,
    typer.Option("--mapping", metavar="FILE.toml", help="A mapping file, which can do what --map does and more."),
]
OrderUnknown = Annotated[
    bool, typer.Option("--order-unknown", help="The log does not say which of two candidates was shown first.")
]
Table = Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write the table to this file.")]


def require_table(out: Path | None) -> None:
    """Raise `InputError` unless a table can be written there; a missing folder is created."""
    if out is not None:
        require_file("out", out, ".csv")


def write_table(frame: pd.DataFrame, out: Path | None, noun: str) -> None:
    """Write a table where a file is named, whole or not at all, and say how many rows it has."""
    if out is not None:
        write_csv(frame, out)
        typer.echo(f"{count(len(frame), noun)} written to {out}")


def given_mapping(mapped: Sequence[str] | None, file: Path | None, order_unknown: bool) -> dict[str, str] | Path | None:
    """Return the mapping of a log that the command line gives, entry by entry or as a file."""
    entries = dict(_entry(text) for text in [*(mapped or []), *(["order_known==false"] if order_unknown else [])])
    if file is None or not entries:
        return entries or file
    from biaslab.logs.readers.mapping_files import read_mapping_file

    return read_mapping_file(file) | entries


def _entry(text: str) -> tuple[str, str]:
    name, equals, expression = text.partition("=")
    if not (name and equals and expression):
        raise InputError("map", text, "name=field, name==constant or name=field~regular expression")
    return name, expression


def name_dataset(
    dataset: str | None,
    columns: Sequence[str] | None,
    scale: str | None,
    noun: str | None,
    attributes: Sequence[str] | None,
) -> str | None:
    """Return the name of a data set with what is told of one's own table behind it, as `biaslab.load_dataset` takes it.

    A table of which no attribute is named by a column needs those that are wanted.
    """
    given = pairs([each for some in columns or () for each in some.split(",")], "columns", "NAME=COLUMN")
    given |= {name: value for name, value in (("scale", scale), ("noun", noun)) if value is not None}
    if dataset is None:
        if given:
            raise InputError("dataset", None, "the name of one's own table", "add --dataset tabular --path FILE")
        return None
    from biaslab.datasets import join_name, maps_columns

    if attributes and maps_columns(dataset):
        given["attributes"] = ",".join(attributes)
    return join_name(dataset, given)


def make_probe(
    name: str,
    attributes: Sequence[str] | None,
    seed: int | None = None,
    given: Sequence[str] | None = None,
    protocols: Sequence[Path] | None = None,
) -> Probe:
    """Make a probe from what the command line gives."""
    from biaslab.cli.knobs import make_probes
    from biaslab.probes import find_probe

    kind = find_probe(name)
    return make_probes([kind], given, {"attributes": attributes or None, "seed": seed}, protocols)[0]
