"""``biaslab notebooks``: copy the notebooks that come with biaslab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biaslab.core.output import count

app = typer.Typer(help="Copy the notebooks so that you can change them.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    pass


@app.command()
def copy(
    folder: Annotated[Path, typer.Argument(help="Target folder; created if missing.")] = Path("notebooks"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Also overwrite notebooks that you changed.")] = False,
) -> None:
    """Copy all notebooks to a folder, keeping those you changed."""
    from biaslab.figures.copying import copy_notebooks

    done = copy_notebooks(folder, overwrite)
    typer.echo(f"{count(len(done.written), 'notebook')} written to {folder}, {len(done.same)} there already")
    if done.kept:
        names = ", ".join(path.name for path in done.kept)
        typer.echo(f"kept your changed versions of: {names}; use --overwrite to replace them")
