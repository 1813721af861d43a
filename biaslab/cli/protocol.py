"""``biaslab protocol``: try out a prompt and its parser before asking a judge."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biaslab.cli.options import DataPath
from biaslab.core.errors import InputError

if TYPE_CHECKING:
    from biaslab.core.schema import Dataset
    from biaslab.prompts.protocols import Protocol

app = typer.Typer(help="Try out your own judge prompt and parser.", no_args_is_help=True)
_MOST_POINTS = 12
_LISTED = 3  # candidates of a list that are shown


@app.callback()
def _group() -> None:
    pass


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Judge prompt: a TOML file, the format of its authors, or a name.")
    ],
    name: Annotated[str | None, typer.Option(help="Name of the prompt, if the file holds several.")] = None,
    dataset: Annotated[str, typer.Option(help="Data set of the example item; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    attribute: Annotated[str | None, typer.Option(help="Attribute to judge; default: the data set's first.")] = None,
    reply: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Parse this reply; may be repeated.")] = None,
    replies: Annotated[
        Path | None, typer.Option(metavar="FILE.txt", help="Parse the replies in this file, separated by lines of ---.")
    ] = None,
) -> None:
    """Show the prompt of one item, then write and parse each verdict.

    Also parses the replies you pass. Exit code 2: the file is not a valid
    protocol or does not fit the data set; the message says why.
    """
    from biaslab import load_dataset
    from biaslab.prompts.protocols import Protocol

    pasted = [*(reply or ()), *(_pasted(replies) if replies else ())]
    protocol = Protocol.from_file(file, name) if name else Protocol.loaded(file)
    data = load_dataset(dataset, path, limit=1)
    typer.echo(f"{protocol.id}: {protocol.form}, the reply is {_how(protocol)}\n")
    for slot, source in protocol.variables:
        typer.echo(f"  {slot} shows {source}")
    for message in protocol.messages(_first_item(protocol, data, attribute)):
        typer.echo(f"\n--- {message.role}\n{message.content}")
    typer.echo("\n--- each verdict as the judge would write it, and how it is parsed")
    if protocol.form == "list":
        _echo_list(protocol, _LISTED, pasted)
        return
    points = protocol.points if len(protocol.points) <= _MOST_POINTS else (protocol.points[0], protocol.points[-1])
    for value in points:
        written = protocol.write(value)
        typer.echo(f"  {value:g}: {written!r} is parsed as {_reading(protocol, written)}")
    for text in pasted:
        typer.echo(f"  reply {_short(text)!r} is parsed as {_reading(protocol, text)}")


def _first_item(protocol: Protocol, data: Dataset, attribute: str | None) -> dict[str, object]:
    """Return an item of the first context: first and last candidate, the first, or the first three."""
    (chosen,) = data.require_attributes([attribute or next(iter(data.attributes))])
    names = data.candidates["candidate_id"].tolist()
    first = {"pair": [names[0], names[-1]], "score": names[:1], "list": names[:_LISTED]}[protocol.form]
    return protocol.show(data, chosen, str(data.candidates["context_id"].iloc[0]), first)


def _echo_list(protocol: Protocol, k: int, pasted: list[str]) -> None:
    """Print each possible answer for k candidates and each pasted reply with its parsed value."""
    values = permutations(range(1, k + 1)) if protocol.places.ranks else set(permutations((1,) + (0,) * (k - 1)))
    for text in [*map(protocol.write_list, sorted(values)), *pasted]:
        value, status = protocol.parse_list(text, k)
        read = status if status != "ok" else ", ".join(f"{each:g}" for each in value)
        quantity = "ranks" if protocol.places.ranks else "P(best)"
        typer.echo(f"  {_short(text)!r} is parsed as {read if status != 'ok' else f'{quantity} by position: {read}'}")


def _pasted(file: Path) -> list[str]:
    """Return the replies in a file, which are separated by lines of three hyphens."""
    try:
        whole = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("replies", str(file), f"a UTF-8 text file ({type(error).__name__})") from None
    return [text for part in f"\n{whole}\n".split("\n---\n") if (text := part.strip("\n"))]


def _how(protocol: Protocol) -> str:
    if protocol.answer == "label":
        return "a label, read from its probability"
    return f"a text of up to {protocol.max_tokens} tokens"


def _reading(protocol: Protocol, text: str) -> str:
    """Describe the parsed value of a reply, or its status if it has none."""
    value, status = protocol.parse(text)
    if math.isnan(value):
        return status
    if protocol.form == "score":
        return f"{value:g}"
    return "a tie" if value == 0.5 else f"P(first wins) = {value:g}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:29]} … {flat[-28:]}"
