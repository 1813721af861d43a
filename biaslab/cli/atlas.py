"""``biaslab atlas``: recorded judges as numbers, a page to explore them, and how they are made from raw files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from biaslab.cli.options import LogFormat, Mapped, MappingFile, OrderUnknown, given_mapping
from biaslab.core.errors import InputError
from biaslab.core.output import count
from biaslab.core.written import pairs

app = typer.Typer(help="Explore recorded judges, or add a log to them.", no_args_is_help=True)


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
    folder: Annotated[Path | None, typer.Option(help="Show what `biaslab atlas add` wrote to this folder too.")] = None,
) -> None:
    """Write a page to filter and sort every estimate: judge, metric, data set.

    It needs no server and fetches nothing: open the file.
    """
    from biaslab import atlas

    shown = atlas.explorer(folder=folder)
    typer.echo(f"{count(len(shown.estimates), 'estimate')} written to {shown.save(out)}")


@app.command()
def add(
    log: Annotated[Path, typer.Argument(help="A log, an archive or a folder of logs, as `biaslab audit` reads it.")],
    source: Annotated[str, typer.Option(metavar="NAME", help="What the log is called in the atlas, such as my_pairs.")],
    licence: Annotated[
        str, typer.Option(metavar="SPDX", help="Licence of the log, such as CC-BY-4.0; none if it is not published.")
    ],
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="The judge's name; LOGGED=NAME where the log has several; repeatable."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where the three files are written.")] = Path("atlas"),
    title: Annotated[str, typer.Option(help="What the log is, in a line, with its paper.")] = "",
    repository: Annotated[str, typer.Option(help="Where it was published: owner/name on GitHub, or an address.")] = "",
    family: Annotated[str, typer.Option(help="Family of a judge that the atlas does not know, such as Qwen.")] = "",
    released: Annotated[str, typer.Option(metavar="MONTH", help="Its month of release, such as 2026-01.")] = "",
    reasons: Annotated[
        bool | None, typer.Option("--reasons/--no-reasons", help="Whether it is a reasoning model.")
    ] = None,
    kind: LogFormat = None,
    mapped: Mapped = None,
    mapping_file: MappingFile = None,
    order_unknown: OrderUnknown = False,
    replace: Annotated[bool, typer.Option("--replace", help="Write over a contribution of the same name.")] = False,
) -> None:
    """Make a contribution of a log: estimates of its judges, and a data card, without any text.

    Checks first what `biaslab doctor` checks, the licence, and that neither the judgements nor their
    estimates are there already. A pull request adds the three files to biaslab/atlas/contributed_logs.

    Exit code 4: more than half of the log could not be read.
    """
    from biaslab import atlas
    from biaslab.logs.audit import doctor
    from biaslab.logs.readers import read_judgements

    given = given_mapping(mapped, mapping_file, order_unknown)
    trials = read_judgements(log, kind, given)
    facts: dict[str, Any] = {
        "title": title,
        "repository": repository,
        "family": family,
        "released": released,
        "reasons": reasons,
    }
    made = atlas.add(trials, source, licence, folder, _judges(judge), replace=replace, **facts)
    judges = count(len(made.judges), "judge")
    diagnosis = str(doctor(trials)).replace("the table:", f"{log}:", 1)
    typer.echo(diagnosis.partition("\n\ncannot be estimated")[0].partition("\n\nnext: ")[0])
    typer.echo(f"\n{count(len(made.estimates), 'estimate')} of {judges} written: {folder / source}.json, .csv and .md")
    typer.echo(f"what would allow more: biaslab doctor {log}")
    typer.echo(f"look at them: biaslab atlas explore --folder {folder}")


def _judges(given: list[str] | None) -> str | dict[str, str] | None:
    if not given or (len(given) == 1 and "=" not in given[0]):
        return given[0] if given else None
    return pairs(given, "judge", "LOGGED=NAME")


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
