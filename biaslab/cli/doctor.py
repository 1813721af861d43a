"""``biaslab doctor``: describe a log and list the biases that can be estimated from it."""

from __future__ import annotations

import typer

from biaslab.cli.options import LogFiles, LogFormat, Mapped, MappingFile, OrderUnknown, given_mapping


def doctor(
    files: LogFiles,
    kind: LogFormat = None,
    mapped: Mapped = None,
    mapping_file: MappingFile = None,
    order_unknown: OrderUnknown = False,
) -> None:
    """Describe a log and list which biases can be estimated from it.

    Shows judges, contexts, orders, replicates and human scores; unreadable replies;
    which biases can be estimated, and for the others why not and the smallest addition
    to the log that would allow each. Asks no judge; ends with the next command to run.
    """
    from biaslab.logs.audit import doctor as diagnose

    mapping = given_mapping(mapped, mapping_file, order_unknown)
    for number, file in enumerate(files):
        typer.echo(f"{'' if number == 0 else chr(10)}{diagnose(file, kind, mapping)}")
