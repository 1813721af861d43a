"""``biaslab store``: inspect, export, prune and merge stores of replies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biaslab.core.output import count
from biaslab.store import Store

app = typer.Typer(help="Inspect, export, prune or merge stores of replies.", no_args_is_help=True)

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="The store, such as replies.sqlite.")]


@app.command()
def info(path: StorePath) -> None:
    """Show number, cost and dates of the replies of each judge."""
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
    out: Annotated[Path, typer.Argument(help="Output file ending in .parquet, .csv or .jsonl.")],
) -> None:
    """Write all replies with their requests and costs to one file."""
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many replies would be deleted.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete replies of a judge, before a date, or both; shrink the file."""
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
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The store to create; must not exist yet.")],
    stores: Annotated[list[Path], typer.Argument(metavar="STORE…", help="At least two stores, opened read-only.")],
    first_wins: Annotated[
        bool, typer.Option("--first-wins", help="Where replies differ, keep the first store's.")
    ] = False,
) -> None:
    """Merge several stores, such as those of parallel runs, into one."""
    from biaslab.store.merging import merge_stores

    merged = merge_stores(out, stores, first_wins)
    typer.echo(f"{out}: {count(merged.replies, 'reply')} from {len(stores)} stores")
    if merged.repeated:
        other = f", {merged.different:,} with a different reply in a later store" if merged.different else ""
        typer.echo(f"{count(merged.repeated, 'reply')} found in several stores, kept once{other}")
