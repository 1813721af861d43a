"""``biaslab store``: look into a store of replies, export it, delete from it, and merge several into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biaslab.core.output import count
from biaslab.store import Store

app = typer.Typer(help="Look into a store of replies, export, trim or merge it.", no_args_is_help=True)

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="The store's file, such as replies.sqlite.")]


@app.command()
def info(path: StorePath) -> None:
    """Show how many replies of which judge are stored, what they cost, and since when."""
    with Store(path, create=False) as store:
        frame = store.info()
    size = frame.attrs["bytes"] / 2**20
    typer.echo(f"{path}: {frame['replies'].sum():,} replies, {size:.1f} MiB")
    if not frame["reasoning_tokens"].any():
        frame = frame.drop(columns="reasoning_tokens")
    if len(frame):
        for name in ("first", "last"):
            frame[name] = frame[name].dt.strftime("%Y-%m-%d %H:%M")
        typer.echo(frame.to_string(index=False))


@app.command()
def export(
    path: StorePath,
    out: Annotated[Path, typer.Argument(help="The file to write: ends in .parquet, .csv or .jsonl.")],
) -> None:
    """Write every reply, with its request and its cost, to one file."""
    with Store(path, create=False) as store:
        count = store.export(out)
    typer.echo(f"{count:,} replies written to {out}")


@app.command()
def prune(
    path: StorePath,
    judge: Annotated[str | None, typer.Option(help="Delete replies of the judge with exactly this id.")] = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Delete replies stored before this date (UTC), such as 2025-06-30."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many would be deleted.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete the replies of a judge, or those before a date, or both at once, and shrink the file."""
    with Store(path, create=False) as store:
        count = store.prune(judge, older_than, dry_run=True)
        if dry_run or not count:
            typer.echo(f"{count:,} of {len(store):,} replies would be deleted" if count else "nothing to delete")
            return
        if not yes:
            typer.confirm(f"Delete {count:,} of {len(store):,} replies from {path}?", abort=True)
        count = store.prune(judge, older_than)
        typer.echo(f"{count:,} replies deleted, {len(store):,} kept")


@app.command()
def merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The store to create; the file must not exist.")],
    stores: Annotated[list[Path], typer.Argument(metavar="STORE…", help="At least two stores; they are only read.")],
    first_wins: Annotated[
        bool, typer.Option("--first-wins", help="If stores hold different replies, keep the first store's.")
    ] = False,
) -> None:
    """Merge several stores into one, such as those of drivers that each asked a part of a study."""
    from biaslab.store.merging import merge_stores

    merged = merge_stores(out, stores, first_wins)
    typer.echo(f"{out}: {count(merged.replies, 'reply')} from {len(stores)} stores")
    if merged.repeated:
        other = f", {merged.different:,} with another reply in a later one" if merged.different else ""
        typer.echo(f"{count(merged.repeated, 'reply')} in several stores, kept once{other}")
