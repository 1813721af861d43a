"""``biaslab atlas``: recorded judges as numbers, a page to explore them, and how they are made from raw files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biaslab.core.errors import InputError
from biaslab.core.output import count

app = typer.Typer(help="List or explore recorded judges, or build the atlas again.", no_args_is_help=True)


@app.command("list")
def list_judges(
    source: Annotated[str | None, typer.Argument(help="Only this source; all by default.")] = None,
) -> None:
    """Show who judged what, and by which name `biaslab audit` and `biaslab card` know it."""
    from biaslab import atlas

    typer.echo(atlas.judges(source).drop(columns="source").to_string(index=False))


@app.command()
def explore(
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")] = Path("atlas.html"),
) -> None:
    """Write a page to filter and sort every estimate: judge, metric, data set.

    It needs no server and fetches nothing: open the file.
    """
    from biaslab import atlas

    shown = atlas.explorer()
    typer.echo(f"{count(len(shown.estimates), 'estimate')} written to {shown.save(out)}")


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(help="Folder of raw data, laid out as the data cards say.")],
    rows: Annotated[bool, typer.Option("--rows", help="Rebuild rows and data cards.")] = False,
    perplexities: Annotated[
        bool, typer.Option("--perplexities", help="Compute missing log-perplexities; takes long.")
    ] = False,
    estimates: Annotated[
        bool, typer.Option("--estimates", help="Estimate every judge again, also from sources that are not included.")
    ] = False,
    source: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this source; may be repeated. Default: all.")
    ] = None,
) -> None:
    """Make what the atlas holds again from the raw files.

    Without a choice rows are made, which takes a minute; estimates take some; log-perplexities
    take long, may be stopped, and go on where they stopped.
    """
    if not folder.is_dir():
        raise InputError("folder", str(folder), "a folder that exists")
    from biaslab.atlas.sources import build_tool

    if perplexities:
        _read_texts(folder, source)
    if rows or not (perplexities or estimates):
        for file in build_tool("building").build(folder, source):
            typer.echo(f"written: {file}")
    if estimates:
        typer.echo(f"written: {build_tool('estimating').build(folder, source)}")


def _read_texts(folder: Path, names: list[str] | None) -> None:
    from biaslab import load_judge
    from biaslab.atlas.sources import build_tool

    perplexity = build_tool("perplexity")
    for done, of in perplexity.complete(folder, load_judge(perplexity.READER), names=names):
        typer.echo(f"{done:,} of {count(of, 'text')}")
