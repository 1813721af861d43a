"""Commands about collected judgements: ``biaslab store`` and ``view``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from biaslab.cli.command import command
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.core.output import count, require_file
from biaslab.store import Store

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.datasets import Dataset

store_app = typer.Typer(help="Inspect, export, prune or merge stores of replies.", no_args_is_help=True)


@command(store_app)
def info(path: Path, /) -> None:
    """Show number, cost and dates of the replies of each judge.

    Parameters
    ----------
    path : STORE
        The store, such as replies.sqlite.
    """
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


@command(store_app)
def export(path: Path, out: Path, /) -> None:
    """Write all replies with their requests and costs to one file.

    Parameters
    ----------
    path : STORE
        The store, such as replies.sqlite.
    out : FILE
        Output file ending in .parquet, .csv or .jsonl.
    """
    with Store(path, create=False) as store:
        count = store.export(out)
    typer.echo(f"{count:,} replies written to {out}")


@command(store_app)
def prune(
    path: Path, /, judge: str | None = None, older_than: str | None = None, dry_run: bool = False, yes: bool = False
) -> None:
    """Delete replies of a judge, before a date, or both; shrink the file.

    Parameters
    ----------
    path : STORE
        The store, such as replies.sqlite.
    judge
        Delete replies of the judge with exactly this id.
    older_than : DATE
        Delete replies stored before this date (UTC), such as 2025-06-30.
    dry_run
        Only show how many replies would be deleted.
    yes
        Delete without asking.
    """
    with Store(path, create=False) as store:
        count = store.prune(judge, older_than, dry_run=True)
        if dry_run or not count:
            typer.echo(f"{count:,} of {len(store):,} replies would be deleted" if count else "nothing to delete")
            return
        if not yes:
            typer.confirm(f"Delete {count:,} of {len(store):,} replies from {path}?", abort=True)
        count = store.prune(judge, older_than)
        typer.echo(f"{count:,} replies deleted, {len(store):,} kept")


@command(store_app)
def merge(out: Path, stores: list[Path], /, first_wins: bool = False) -> None:
    """Merge several stores, such as those of parallel runs, into one.

    Parameters
    ----------
    out : OUT
        The store to create; must not exist yet.
    stores : STORE…
        At least two stores, opened read-only.
    first_wins
        Where replies differ, keep the first store's.
    """
    from biaslab.store.export import merge_stores

    merged = merge_stores(out, stores, first_wins)
    typer.echo(f"{out}: {count(merged.replies, 'reply')} from {len(stores)} stores")
    if merged.repeated:
        other = f", {merged.different:,} with a different reply in a later store" if merged.different else ""
        typer.echo(f"{count(merged.repeated, 'reply')} found in several stores, kept once{other}")


_SQLITE = b"SQLite format 3\0"
_KEY = "[0-9a-f]{64}"


view_app = typer.Typer()


@command(view_app)
def view(
    source: Path,
    /,
    out: Path = Path("view.html"),
    probe: list[str] | None = None,
    attribute: list[str] | None = None,
    judge: str | None = None,
    max_: int = 200,
    sort: str = "flips",
    store: Path | None = None,
    dataset: str | None = None,
    path: Path | None = None,
) -> None:
    """Write a web page of prompts, replies and their parsed values.

    The page works offline and has filters by probe, attribute, status and context. For a store, the
    probes' prompts are rebuilt from the data set (default: graded) to match the stored replies.

    Parameters
    ----------
    source : STORE_OR_TRIALS
        A store of replies, saved trials, or a log.
    out : FILE.html
        The page to write.
    probe : NAME
        Show only this probe; may be repeated.
    attribute : NAME
        Show only this attribute; may be repeated.
    judge
        Show only the judge with exactly this id.
    max_
        Maximum number of cards; flips, ties and unread replies come first.
    sort
        Sort order: flips, ties, unread, effects or trials first.
    store
        For trials: the store that has their prompts and replies.
    dataset
        The data set; see `biaslab list`. Bundled ones are found automatically.
    """
    from biaslab.report.evidence.trials import SORTS

    require_whole("max", max_, 1)
    require_one_of("sort", sort, SORTS)
    require_file("out", out, ".html")
    if not source.exists():
        raise InputError("source", str(source), "an existing store or file of trials")
    from biaslab import load_dataset
    from biaslab.report.evidence import show

    data = None if dataset is None else load_dataset(dataset, path)
    if is_store(source):
        store, data = source, data or load_dataset("graded")
        trials = of_store(source, data, probe)
    else:
        trials = _chosen(_saved(source), "probe", probe)
    trials = _chosen(_chosen(trials, "attribute", attribute), "judge", None if judge is None else [judge])
    shown = show(trials, store=store, n=max_, sort=sort, dataset=data)
    shown.save(out)
    for line in shown.missing:
        typer.echo(line)
    typer.echo(f"{shown.summary} of {count(len(trials), 'trial')} written to {out}")


def is_store(source: Path) -> bool:
    """Return whether a file is a store of replies."""
    if not source.is_file():
        return False
    with source.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def of_store(source: Path, data: Dataset, probes: list[str] | None) -> pd.DataFrame:
    """Return the trials of a store; report replies that match no prompt of a probe."""
    from biaslab.report.evidence import trials_of_store

    if sys.stderr.isatty():
        typer.echo(f"matching stored replies to the probes' prompts on {data.name} …", err=True)
    trials = trials_of_store(source, data, probes)
    if trials.empty:
        allowed = f"a store with replies about {data.name}" if probes else "a store with replies"
        raise InputError("store", str(source), allowed, "name the data that was judged with --dataset")
    unknown = int((trials["probe"] == "unknown").sum())
    if unknown:
        unmatched = f"{count(unknown, 'reply')} matched no prompt of a probe with default parameters on {data.name}"
        typer.echo(f"{unmatched}; only prompt and reply are shown")
    return trials


def _saved(source: Path) -> pd.DataFrame:
    """Read saved trials with their keys, or a log."""
    import pandas as pd

    from biaslab import read_judgements

    trials = read_judgements(source)
    if set(trials.attrs["files"].values()) != {"collected"} or source.suffix not in (".csv", ".parquet"):
        return trials
    how = {"dtype": {"key": str}, "encoding": trials.attrs["encodings"].get(source.name, "utf-8")}
    saved = pd.read_parquet(source) if source.suffix == ".parquet" else pd.read_csv(source, **how)
    keys = saved["key"].astype(str) if "key" in saved and len(saved) == len(trials) else pd.Series(dtype="str")
    fits = len(keys) and keys.str.fullmatch(_KEY).all()
    return trials.assign(key=saved["key"].array) if fits else trials


def _chosen(trials: pd.DataFrame, column: str, wanted: list[str] | None) -> pd.DataFrame:
    """Return the trials with one of the wanted values in a column; all if none is given."""
    if not wanted:
        return trials
    known = list(dict.fromkeys(map(str, trials[column])))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(column, unknown, f"among {', '.join(known)}")
    return trials[trials[column].isin(wanted)]
