"""Commands about recorded judgements: ``biaslab audit``, ``doctor`` and ``atlas``."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from biaslab.cli.command import command
from biaslab.cli.options import LogOptions, require_table, table, write_table
from biaslab.core.checks import pairs
from biaslab.core.errors import InputError, UnreadableLogError
from biaslab.core.output import count, require_file

if TYPE_CHECKING:
    import pandas as pd

UNREAD = 4
"""Exit code if more than half of a log could not be read."""


logs_app = typer.Typer()


@command(logs_app)
def audit(
    files: list[Path],
    /,
    *,
    log: LogOptions,
    labels: Path | None = None,
    humans: bool = False,
    strict: bool = False,
    dataset: str | None = None,
    path: Path | None = None,
    only: list[str] | None = None,
    by: list[str] | None = None,
    cluster: str | None = None,
    covariate: list[str] | None = None,
    reliability: float | None = None,
    all_: bool = False,
    card: Path | None = None,
    out: Path | None = None,
) -> None:
    """Audit recorded judgements: agreement with people, and biases.

    With people's labels (ground truth, gold labels), prints accuracy, Cohen's kappa, the
    true-positive and true-negative rate (TPR, TNR), precision and leniency first.
    Prints which biases were found, their size, their uncertainty, and what to do.
    `biaslab doctor FILE` shows in seconds which biases a log allows to estimate.
    Detects the format from the content: AlpacaEval, MT-Bench, LLMBar, JudgeBench, G-Eval, and more,
    or tables with common columns such as question, answer_a, answer_b, winner.
    `biaslab map FILE` proposes how to read any other, and asks what its columns leave open.

    Exit code 4: more than half of a log could not be read.

    Parameters
    ----------
    files : FILE…
        Logs, archives or folders of them, or atlas:JUDGE@SOURCE.
    labels : FILE
        People's labels, if they are in a file of their own, with the log's identifiers.
    humans
        Measure agreement between human annotators in a table of ratings; needs no judge.
    strict
        Stop at the first malformed line.
    dataset
        Add human scores from this data set; see `biaslab list`.
    only : NAME
        Run only this probe; may be repeated.
    by : COLUMN
        Split agreement with people by this column of the log; may be repeated.
    cluster : COLUMN
        Column of the log by which contexts are related, such as a document; they then count as one.
    covariate : NAME
        Test whether this column of the log changes scores at the same human label; may be repeated.
    reliability : R
        Reliability of people's labels, if you know it (of the mean rating, if several rated an
        item): the share of their variance that is not error, 0.3 to 1; 1 if they are exact.
    all_
        Print every estimate instead of the summary.
    card : STEM
        Write the bias card: STEM.html, .md, .png and .csv.
    """
    require_table(out)
    if card is not None:
        require_file("card", card)
    from biaslab import load_dataset
    from biaslab.correct.labels import HumanLabels, with_labels
    from biaslab.correct.systems import corrected_line
    from biaslab.logs.audit import audit as run_audit
    from biaslab.logs.audit.run import audit_humans, columns_to_keep, with_clusters

    mapping, known = log.with_labels(files[0], labels)
    human = None if dataset is None else load_dataset(dataset, path)
    keep = columns_to_keep(by or (), covariate or (), cluster)
    trials = read_logs(files, log.format_, mapping, strict, unread=humans, keep=keep)
    if known is not None:
        given = HumanLabels.read(known, trials)
        matched = given.matched(trials)
        matches = f"{int(matched.sum()):,} of {count(len(matched), 'label')} match a judgement"
        typer.echo(f"labels: {matches}, by {', '.join(given.matched_by)}")
        trials = with_labels(trials, given)
    humans = humans or trials.attrs["by_people"]
    if humans:
        estimates = audit_humans(*with_clusters(trials, cluster))
    else:
        how: dict[str, Any] = {"by": by or (), "cluster": cluster, "covariates": covariate or ()}
        estimates = run_audit(trials, human, only or None, None, True, **how, reliability=reliability)
    _show(estimates, all_ or humans)
    write_table(estimates, out, "estimate")
    words = f"{' '.join(quote(str(file)) for file in files)}{log.words(labels)}"
    if line := "" if humans else corrected_line(trials):
        typer.echo(f"{line}\nfor each system, differences and ranks: biaslab correct {words}")
    elif not (humans or trials[["human", "human_gap"]].notna().any(axis=None) or any(map(is_log, map(str, files)))):
        typer.echo(f"with people's labels of a random part, corrected: biaslab correct {words} --labels LABELS.csv")
    if card is not None and not humans:
        from biaslab.report import card as make_card

        written = make_card(estimates, unmeasured=not_measured(estimates)).save(card)
        typer.echo(f"written: {', '.join(map(str, written))}")


def is_log(judge: str) -> bool:
    """Return whether a judge's name refers to a log or the atlas; an exported store can answer, so it is not a log."""
    from biaslab.logs.recorded import is_export, log_named

    return _is_carried(judge) or (judge.startswith("recorded:") and not is_export(log_named(judge)[0]))


def audit_log(judge: str, only: list[str]) -> pd.DataFrame:
    """Audit the log behind a judge's name, such as recorded:log.jsonl,configuration=rts or atlas:palm-2@llmbar."""
    from biaslab.logs.audit import audit as run_audit
    from biaslab.logs.recorded import log_named, rows_where

    if _is_carried(judge):
        return run_audit(read_logs([Path(judge)], None, None, strict=False), None, only)
    file, where = log_named(judge)
    return run_audit(rows_where(read_logs([Path(file)], None, None, strict=False), where), None, only)


def not_measured(estimates: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Return judge, probe and reason for each probe that could not be measured."""
    from biaslab.probes import names

    reasons = {name: why for name, why in estimates.attrs["not_run"].items() if name in names()}
    return [(str(judge), name, why) for judge in estimates["judge"].unique() for name, why in reasons.items()]


def read_logs(
    files: list[Path],
    kind: str | None,
    mapping: dict[str, Any] | Path | None,
    strict: bool,
    unread: bool = False,
    keep: Sequence[str] = (),
) -> pd.DataFrame:
    """Read all files, keeping some columns, and report on each; stop at a mostly unreadable one, unless ``unread``."""
    import pandas as pd

    from biaslab import read_judgements
    from biaslab.logs.readers.card import ReadingCard, are_texts, is_by_people

    _require_once(files)
    parts = []
    for file in files:
        if _is_carried(str(file)):
            parts.append(_carried(str(file)))
            continue
        parts.append(read_judgements(file, kind, mapping, strict, keep))
        typer.echo(ReadingCard(parts[-1].attrs["reading"]))
        by_people = is_by_people(parts[-1])
        if not (unread or by_people):
            _require_readable(file, parts[-1])
        parts[-1].attrs = {"by_people": by_people, "of_texts": are_texts(parts[-1])}
    trials = pd.concat(parts, ignore_index=True)
    trials.attrs = {name: all(part.attrs.get(name) for part in parts) for name in ("by_people", "of_texts")}
    return trials


def _is_carried(name: str) -> bool:
    return name.startswith("atlas:")


def _carried(name: str) -> pd.DataFrame:
    """Return the atlas rows of a judge and print their licence."""
    from biaslab.atlas.judgements import rows_named

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
    from biaslab.logs.readers.card import describe_unread, explain_unread, require_readable

    try:
        require_readable(trials)
    except UnreadableLogError as error:
        lines = "\n  ".join([describe_unread(trials), *explain_unread(trials)])
        typer.echo(f"biaslab: no finding: more than half of {file} could not be read: {lines}", err=True)
        raise typer.Exit(UNREAD) from error


def _show(estimates: pd.DataFrame, everything: bool) -> None:
    """Print the summary page, or every estimate."""
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


@command(logs_app, "map")
def propose_mapping(file: Path, /, *, log: LogOptions, write: Path | None = None) -> None:
    """Propose how to read a table: the role of each column.

    Every column with the kind of its values, three of them, its role, and the roles it could have; then the open
    questions. --write saves the proposal as a mapping file: fill in each ?, or delete the line, and
    add --mapping map.toml to audit or doctor. Logs in a known format need no mapping.

    Parameters
    ----------
    file : FILE
        A table: CSV, JSON, JSON Lines, Parquet or a workbook.
    write : FILE.toml
        The mapping file to write.
    """
    from biaslab.logs import propose

    if write is not None:
        require_file("write", write, ".toml")
    proposal = propose(file, log.given_mapping())
    typer.echo(str(proposal))
    if write is not None:
        write.write_text(proposal.toml(), encoding="utf-8")
        state = "complete" if proposal.is_complete else f"{count(len(proposal.questions), 'open question')}, each a ?"
        following = f"biaslab audit {quote(str(file))} --mapping {quote(str(write))}"
        typer.echo(f"\nwritten to {write} ({state}); then: {following}")


@command(logs_app)
def doctor(files: list[Path], /, *, log: LogOptions) -> None:
    """Describe a log and list what can be estimated from it.

    Shows judges, contexts, orders, replicates and human scores; unreadable replies;
    which biases can be estimated, and for the others why not and the smallest addition
    to the log that would allow each. Asks no judge; ends with the next command to run.

    Parameters
    ----------
    files : FILE…
        Logs, archives or folders of them, or atlas:JUDGE@SOURCE.
    """
    from biaslab.logs.audit import doctor as diagnose

    mapping = log.given_mapping()
    for number, file in enumerate(files):
        typer.echo("\n" * (number > 0), nl=False)
        if _is_carried(str(file)):
            of_atlas = diagnose(_carried(str(file)))
            typer.echo(replace(of_atlas, command=f"biaslab audit {quote(str(file))}"))
        else:
            typer.echo(diagnose(file, log.format_, mapping))


atlas_app = typer.Typer(help="Explore the atlas of recorded judges, or add a log to it.", no_args_is_help=True)


@command(atlas_app, "list")
def list_judges(source: str | None = None, /) -> None:
    """List recorded judges, what they judged, and their names in commands.

    Parameters
    ----------
    source
        Show only this source; default: all.
    """
    from biaslab import atlas

    typer.echo(atlas.judges(source).drop(columns="source").to_string(index=False))


@command(atlas_app)
def explore(out: Path = Path("atlas.html"), folder: Path | None = None) -> None:
    """Write a web page to filter and sort all estimates.

    The page works offline: open the file in a browser.

    Parameters
    ----------
    out : FILE.html
        The page to write.
    folder
        Also show what `biaslab atlas add` wrote to this folder.
    """
    from biaslab import atlas

    shown = atlas.explorer(folder=folder)
    typer.echo(f"{count(len(shown.estimates), 'estimate')} written to {shown.save(out)}")


_OF_LOG = ("title", "repository", "family", "released", "reasons", "replace")


@command(atlas_app, calls="biaslab.atlas.contribution:add", takes=_OF_LOG)
def add(
    file: Path,
    /,
    *,
    source: str,
    licence: str,
    judge: list[str] | None = None,
    folder: Path = Path("atlas"),
    log: LogOptions,
    **options: Any,
) -> None:
    """Turn a log into a contribution to the atlas, without its texts.

    First runs the checks of `biaslab doctor`, then checks the licence and that neither the judgements
    nor their estimates are in the atlas already. Under an open licence it also writes the judgements as
    numbers. To contribute, open a pull request that adds the files to biaslab/atlas/contributed_logs.

    Exit code 4: more than half of the log could not be read.

    Parameters
    ----------
    file : LOG
        A log, an archive or a folder of logs that `biaslab audit` can read.
    source : NAME
        Name of the log in the atlas, such as my_pairs.
    licence : SPDX
        Licence of the log, such as CC-BY-4.0, or none if unpublished.
    judge : NAME
        The judge's name; LOGGED=NAME if the log has several; may be repeated.
    folder
        Output folder.
    family
        Model family of a judge new to the atlas, such as Qwen.
    released : MONTH
        Release month of a judge new to the atlas, such as 2026-01.
    reasons
        Whether the judge is a reasoning model.
    """
    from biaslab import atlas
    from biaslab.logs.audit import doctor
    from biaslab.logs.readers import read_judgements

    trials = read_judgements(file, log.format_, log.given_mapping())
    contribution = atlas.add(trials, source, licence, folder, _judges(judge), **options)
    judges = count(len(contribution.judges), "judge")
    typer.echo(doctor(trials).estimable_text)
    endings = ".json, .csv, .md and .parquet" if contribution.log["carried"] else ".json, .csv and .md"
    typer.echo(f"\n{count(len(contribution.estimates), 'estimate')} of {judges} written: {folder / source}{endings}")
    undated = [str(one["judge"]) for one in contribution.judges if not one["released"]]
    if undated:
        typer.echo(f"not dated, so not in plots by release: {', '.join(undated)} (--released MONTH --family NAME)")
    typer.echo(f"to see what would allow more: biaslab doctor {quote(str(file))}")
    typer.echo(f"to explore them: biaslab atlas explore --folder {folder}")


@command(atlas_app)
def check(folder: Path | None = None, /, update: bool = False) -> None:
    """Estimate contributed logs again from their judgements, and compare.

    Exit code 1: some estimates differ.

    Parameters
    ----------
    folder
        Folder of `biaslab atlas add`; default: the contributions to the atlas.
    update
        Rewrite what differs.
    """
    from biaslab import atlas

    checked = atlas.check(update=update) if folder is None else atlas.check(folder, update=update)
    for row in checked.to_dict("records"):
        about = f"{count(row['estimates'], 'estimate')} of {count(row['judgements'], 'judgement')}"
        typer.echo(f"{row['source']}: {about}, {row['outcome']}" + (f": {row['why']}" if row["why"] else ""))
    if checked.empty:
        typer.echo("no contributions")
    if (checked["outcome"] == "different").any():
        raise typer.Exit(1)


def _judges(options: list[str] | None) -> str | dict[str, str] | None:
    if not options or (len(options) == 1 and "=" not in options[0]):
        return options[0] if options else None
    return pairs(options, "judge", "LOGGED=NAME")


@command(atlas_app)
def build(
    folder: Path,
    /,
    rows: bool = False,
    perplexities: bool = False,
    estimates: bool = False,
    source: list[str] | None = None,
) -> None:
    """Rebuild the atlas from raw files.

    By default rebuilds rows, which takes a minute. Estimates take a few minutes.
    Log-perplexities take long; a stopped run can be resumed.

    Parameters
    ----------
    folder
        Folder of raw data, laid out as described in the data cards.
    rows
        Rebuild rows and data cards.
    perplexities
        Compute missing log-perplexities (slow).
    estimates
        Estimate every judge again, also from sources not included in the package.
    source : NAME
        Build only this source; may be repeated. Default: all.
    """
    if not folder.is_dir():
        raise InputError("folder", str(folder), "an existing folder")
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
