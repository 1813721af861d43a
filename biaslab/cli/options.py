"""Options shared by several commands, with their checks."""

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
DatasetName = Annotated[str | None, typer.Option(help="The data set; see `biaslab list`.")]
DataPath = Annotated[Path | None, typer.Option(help="File or folder of a data set that is not bundled with biaslab.")]
Contexts = Annotated[int | None, typer.Option(help="Use the first N contexts.")]
StorePath = Annotated[Path, typer.Option(help="Store of replies; stored requests are not asked again.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN,…", help="For your own table: column names, such as text=summary,context=article."
    ),
]
Scale = Annotated[
    str | None, typer.Option("--scale", metavar="LOW-HIGH", help="For your own table: the scale of its scores.")
]
Noun = Annotated[
    str | None, typer.Option(help="For your own table: the noun for a candidate in prompts, such as summary.")
]
Knobs = Annotated[
    list[str] | None,
    typer.Option(
        "--param", "-p", metavar="NAME=VALUE", help="Set a parameter; may be repeated. Separate list items with commas."
    ),
]
Protocols = Annotated[
    list[Path] | None,
    typer.Option(
        "--protocol",
        metavar="FILE",
        help="Use this prompt and parser: a file, a name in biaslab.toml, or python:module:object; at most one for "
        "pairs and one for scores.",
    ),
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
        "--map", metavar="NAME=FIELD", help="COLUMN=field, COLUMN==constant or COLUMN=field~regex; may be repeated."
    ),
]
MappingFile = Annotated[
    Path | None,
    typer.Option("--mapping", metavar="FILE.toml", help="A mapping file; can express more than --map."),
]
OrderUnknown = Annotated[
    bool, typer.Option("--order-unknown", help="The log does not record which candidate was shown first.")
]
PriceIn = Annotated[float | None, typer.Option(help="Dollars per million input tokens.")]
PriceOut = Annotated[float | None, typer.Option(help="Dollars per million output tokens.")]
PriceCached = Annotated[float | None, typer.Option(help="Dollars per million cached input tokens.")]
Table = Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write the table to this file.")]


def require_table(out: Path | None) -> None:
    """Raise `InputError` unless a table can be written to this path; create a missing folder."""
    if out is not None:
        require_file("out", out, ".csv")


def write_table(frame: pd.DataFrame, out: Path | None, noun: str) -> None:
    """Write a table atomically, if a file is given, and print its number of rows."""
    if out is not None:
        write_csv(frame, out)
        typer.echo(f"{count(len(frame), noun)} written to {out}")


def given_prices(**prices: float | None) -> dict[str, float] | None:
    """Return the given prices by kind of token; raise `InputError` if there are some, but not that of input."""
    known = {kind: price for kind, price in prices.items() if price is not None}
    if known and "input" not in known:
        raise InputError("price-in", None, "dollars per million input tokens, if another price is given")
    return known or None


def given_mapping(mapped: Sequence[str] | None, file: Path | None, order_unknown: bool) -> dict[str, str] | Path | None:
    """Return the mapping of a log from --map entries, a mapping file, or both."""
    entries = dict(_entry(text) for text in [*(mapped or []), *(["order_known==false"] if order_unknown else [])])
    if file is None or not entries:
        return entries or file
    from biaslab.logs.readers.mapping_files import read_mapping_file

    return read_mapping_file(file) | entries


def _entry(text: str) -> tuple[str, str]:
    """Split an entry of --map into name and expression."""
    name, equals, expression = text.partition("=")
    if not (name and equals and expression):
        raise InputError("map", text, "NAME=FIELD, NAME==CONSTANT or NAME=FIELD~REGEX")
    return name, expression


def name_dataset(
    dataset: str | None,
    columns: Sequence[str] | None,
    scale: str | None,
    noun: str | None,
    attributes: Sequence[str] | None,
) -> str | None:
    """Append the options for the user's own table to the data set's name, as `biaslab.load_dataset` expects it.

    If the columns name no attribute, the attributes must be given.
    """
    options = pairs([each for some in columns or () for each in some.split(",")], "columns", "NAME=COLUMN")
    options |= {name: value for name, value in (("scale", scale), ("noun", noun)) if value is not None}
    if dataset is None:
        if options:
            raise InputError("dataset", None, "a data set of type tabular", "add --dataset tabular --path FILE")
        return None
    from biaslab.datasets import join_name, maps_columns

    if attributes and maps_columns(dataset):
        options["attributes"] = ",".join(attributes)
    return join_name(dataset, options)


def make_probe(
    name: str,
    attributes: Sequence[str] | None,
    seed: int | None = None,
    given: Sequence[str] | None = None,
    protocols: Sequence[Path] | None = None,
) -> Probe:
    """Create a probe from the command-line options."""
    from biaslab.cli.knobs import make_probes
    from biaslab.probes import find_probe

    kind = find_probe(name)
    return make_probes([kind], given, {"attributes": attributes or None, "seed": seed}, protocols)[0]
