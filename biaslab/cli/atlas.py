"""``biaslab atlas``: list, explore, extend and rebuild the atlas of recorded judges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from biaslab.cli.options import LogFormat, Mapped, MappingFile, OrderUnknown, given_mapping
from biaslab.core.errors import InputError
from biaslab.core.output import count
from biaslab.core.written import pairs

app = typer.Typer(help="Explore the atlas of recorded judges, or add a log to it.", no_args_is_help=True)


@app.command("list")
def list_judges(
    source: Annotated[str | None, typer.Argument(help="Show only this source; default: all.")] = None,
) -> None:
    """List recorded judges, what they judged, and their names in commands."""
    from biaslab import atlas

    typer.echo(atlas.judges(source).drop(columns="source").to_string(index=False))


@app.command()
def explore(
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")] = Path("atlas.html"),
    folder: Annotated[
        Path | None, typer.Option(help="Also show what `biaslab atlas add` wrote to this folder.")
    ] = None,
) -> None:
    """Write a web page to filter and sort all estimates.

    The page works offline: open the file in a browser.
    """
    from biaslab import atlas

    shown = atlas.explorer(folder=folder)
    typer.echo(f"{count(len(shown.estimates), 'estimate')} written to {shown.save(out)}")


@app.command()
def add(
    log: Annotated[Path, typer.Argument(help="A log, an archive or a folder of logs that `biaslab audit` can read.")],
    source: Annotated[str, typer.Option(metavar="NAME", help="Name of the log in the atlas, such as my_pairs.")],
    licence: Annotated[
        str, typer.Option(metavar="SPDX", help="Licence of the log, such as CC-BY-4.0, or none if unpublished.")
    ],
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The judge's name; LOGGED=NAME if the log has several; may be repeated."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Output folder.")] = Path("atlas"),
    title: Annotated[str, typer.Option(help="One-line description of the log, with its paper.")] = "",
    repository: Annotated[str, typer.Option(help="Where it was published: owner/name on GitHub, or a URL.")] = "",
    family: Annotated[str, typer.Option(help="Model family of a judge new to the atlas, such as Qwen.")] = "",
    released: Annotated[
        str, typer.Option(metavar="MONTH", help="Release month of a judge new to the atlas, such as 2026-01.")
    ] = "",
    reasons: Annotated[
        bool | None, typer.Option("--reasons/--no-reasons", help="Whether the judge is a reasoning model.")
    ] = None,
    kind: LogFormat = None,
    mapped: Mapped = None,
    mapping_file: MappingFile = None,
    order_unknown: OrderUnknown = False,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a contribution of the same name.")] = False,
) -> None:
    """Turn a log into a contribution to the atlas, without its texts.

    First runs the checks of `biaslab doctor`, then checks the licence and that neither the judgements
    nor their estimates are in the atlas already. Under an open licence it also writes the judgements as
    numbers. To contribute, open a pull request that adds the files to biaslab/atlas/contributed_logs.

    Exit code 4: more than half of the log could not be read.
    """
    from biaslab import atlas
    from biaslab.logs.audit import doctor
    from biaslab.logs.readers import read_judgements

    mapping = given_mapping(mapped, mapping_file, order_unknown)
    trials = read_judgements(log, kind, mapping)
    facts: dict[str, Any] = {
        "title": title,
        "repository": repository,
        "family": family,
        "released": released,
        "reasons": reasons,
    }
    contribution = atlas.add(trials, source, licence, folder, _judges(judge), replace=replace, **facts)
    judges = count(len(contribution.judges), "judge")
    diagnosis = str(doctor(trials)).replace("the table:", f"{log}:", 1)
    typer.echo(diagnosis.partition("\n\ncannot be estimated")[0].partition("\n\nnext: ")[0])
    endings = ".json, .csv, .md and .parquet" if contribution.log["carried"] else ".json, .csv and .md"
    typer.echo(f"\n{count(len(contribution.estimates), 'estimate')} of {judges} written: {folder / source}{endings}")
    undated = [str(one["judge"]) for one in contribution.judges if not one["released"]]
    if undated:
        typer.echo(f"not dated, so not in plots by release: {', '.join(undated)} (--released MONTH --family NAME)")
    typer.echo(f"to see what would allow more: biaslab doctor {log}")
    typer.echo(f"to explore them: biaslab atlas explore --folder {folder}")


@app.command()
def check(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder of `biaslab atlas add`; default: the contributions to the atlas.")
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Rewrite what differs.")] = False,
) -> None:
    """Estimate contributed logs again from their judgements, and compare.

    Exit code 1: some estimates differ.
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


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(help="Folder of raw data, laid out as described in the data cards.")],
    rows: Annotated[bool, typer.Option("--rows", help="Rebuild rows and data cards.")] = False,
    perplexities: Annotated[
        bool, typer.Option("--perplexities", help="Compute missing log-perplexities (slow).")
    ] = False,
    estimates: Annotated[
        bool,
        typer.Option("--estimates", help="Estimate every judge again, also from sources not included in the package."),
    ] = False,
    source: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Build only this source; may be repeated. Default: all.")
    ] = None,
) -> None:
    """Rebuild the atlas from raw files.

    By default rebuilds rows, which takes a minute. Estimates take a few minutes.
    Log-perplexities take long; a stopped run can be resumed.
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
