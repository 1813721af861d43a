"""``biaslab audit``: measure biases in judgements that already exist."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab.cli.options import (
    DataPath,
    LogFormat,
    Mapped,
    MappingFile,
    OrderUnknown,
    Table,
    given_mapping,
    require_table,
    write_table,
)
from biaslab.core.errors import InputError, UnreadableLogError
from biaslab.core.output import require_file

if TYPE_CHECKING:
    import pandas as pd

UNREAD = 4
"""Exit code if more than half of a log could not be read."""


def audit(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Logs, archives or folders of them, or atlas:JUDGE@SOURCE.")
    ],
    kind: LogFormat = None,
    mapped: Mapped = None,
    mapping_file: MappingFile = None,
    humans: Annotated[
        bool,
        typer.Option(
            "--humans", help="Measure agreement between human annotators in a table of ratings; needs no judge."
        ),
    ] = False,
    order_unknown: OrderUnknown = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first malformed line.")] = False,
    dataset: Annotated[
        str | None, typer.Option(help="Add human scores from this data set; see `biaslab list`.")
    ] = None,
    path: DataPath = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run only this probe; may be repeated.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print every estimate instead of the summary.")] = False,
    card: Annotated[
        Path | None, typer.Option(metavar="STEM", help="Write the bias card: STEM.html, .md, .png and .csv.")
    ] = None,
    out: Table = None,
) -> None:
    """Audit recorded judgements with every probe that applies.

    Prints which biases were found, their size, their uncertainty, and what to do.
    `biaslab doctor FILE` shows in seconds which biases a log allows to estimate.
    Detects the format from the content: AlpacaEval, MT-Bench, LLMBar, JudgeBench, G-Eval, and more,
    or tables with common columns such as question, answer_a, answer_b, winner; use --map for others.

    Exit code 4: more than half of a log could not be read.
    """
    require_table(out)
    if card is not None:
        require_file("card", card)
    from biaslab import load_dataset
    from biaslab.logs.audit import audit as run_audit
    from biaslab.logs.audit.annotators import audit_humans

    _require_once(files)
    mapping = given_mapping(mapped, mapping_file, order_unknown)
    human = None if dataset is None else load_dataset(dataset, path)
    trials = _read(files, kind, mapping, strict, unread=humans)
    estimates = audit_humans(trials) if humans else run_audit(trials, human, only or None)
    _show(estimates, everything or humans)
    write_table(estimates, out, "estimate")
    if card is not None and not humans:
        from biaslab.report import card as make_card

        written = make_card(estimates, unmeasured=not_measured(estimates)).save(card)
        typer.echo(f"written: {', '.join(map(str, written))}")


def is_log(judge: str) -> bool:
    """Return whether a judge's name refers to a log or the atlas; an exported store can answer, so it is not a log."""
    from biaslab.logs.exported import is_export
    from biaslab.logs.judge_named import log_named

    return _is_carried(judge) or (judge.startswith("recorded:") and not is_export(log_named(judge)[0]))


def audit_log(judge: str, only: list[str]) -> pd.DataFrame:
    """Audit the log behind a judge's name, such as recorded:log.jsonl,configuration=rts or atlas:palm-2@llmbar."""
    from biaslab.logs.audit import audit as run_audit
    from biaslab.logs.judge_named import log_named
    from biaslab.logs.recorded import rows_where

    if _is_carried(judge):
        return run_audit(_read([Path(judge)], None, None, strict=False), None, only)
    file, where = log_named(judge)
    return run_audit(rows_where(_read([Path(file)], None, None, strict=False), where), None, only)


def not_measured(estimates: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Return judge, probe and reason for each probe that could not be measured."""
    from biaslab.probes import names

    reasons = {name: why for name, why in estimates.attrs["not_run"].items() if name in names()}
    return [(str(judge), name, why) for judge in estimates["judge"].unique() for name, why in reasons.items()]


def _read(
    files: list[Path], kind: str | None, mapping: dict[str, Any] | Path | None, strict: bool, unread: bool = False
) -> pd.DataFrame:
    """Read all files and report on each; stop at the first that is mostly unreadable, unless ``unread``."""
    import pandas as pd

    from biaslab import read_judgements
    from biaslab.logs.readers.summary import reading_summary

    parts = []
    for file in files:
        if _is_carried(str(file)):
            parts.append(_carried(str(file)))
            continue
        parts.append(read_judgements(file, kind, mapping, strict))
        for line in reading_summary(str(file), parts[-1], unread):
            typer.echo(line)
        if not unread:
            _require_readable(file, parts[-1])
        parts[-1].attrs = {}
    return pd.concat(parts, ignore_index=True)


def _is_carried(name: str) -> bool:
    return name.startswith("atlas:")


def _carried(name: str) -> pd.DataFrame:
    """Return the atlas rows of a judge and print their licence."""
    from biaslab.atlas.named import rows_named

    rows = rows_named(name)
    readable = int(rows["status"].isin(["ok", "tie"]).sum())
    licences = "; ".join(rows.attrs["licences"].values())
    typer.echo(f"{name}: {len(rows):,} judgements, {readable:,} of them readable ({licences})")
    rows.attrs = {}
    return rows


def _require_once(files: list[Path]) -> None:
    """Raise `InputError` if two of the files are the same or have the same content."""
    seen: dict[object, Path] = {}
    for file in files:
        key: object = file.resolve()
        if file.is_file():
            with file.open("rb") as opened:
                key = hashlib.file_digest(opened, "sha256").hexdigest()
        if key in seen:
            raise InputError("files", str(file), "each log once", f"it is identical to {seen[key]}: remove one of them")
        seen[key] = file


def _require_readable(file: Path, trials: pd.DataFrame) -> None:
    """Exit if more than half of a log could not be read, showing examples and how to read them."""
    from biaslab.logs.readers.unread import explain_unread, require_readable

    try:
        require_readable(trials)
    except UnreadableLogError as error:
        lines = "".join(f"\n  {line}" for line in explain_unread(trials))
        typer.echo(f"biaslab: no finding: more than half of {file} could not be read: {error.value}{lines}", err=True)
        raise typer.Exit(UNREAD) from error


def _show(estimates: pd.DataFrame, everything: bool) -> None:
    """Print the summary page, or every estimate."""
    from biaslab.cli.text import table
    from biaslab.report import page

    if not everything:
        typer.echo(f"\n{page(estimates)}")
    for (probe, judge, dataset), part in estimates.groupby(["probe", "judge", "dataset"], sort=False):
        if everything:
            typer.echo(f"\n{probe} of {judge} on {dataset}\n\n{table(part)}")
    for name, note in estimates.attrs.get("notes", {}).items():
        typer.echo(f"{name}: {note}")
    for name, why in estimates.attrs.get("not_run", {}).items() if everything else ():
        typer.echo(f"{name}: not run, {why}")
    if not everything:
        typer.echo("for every estimate: --all, or --out FILE.csv")
