"""``biaslab doctor``: what a log is, and which biases can be estimated from it."""

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
    """Say what a log is and which biases it allows.

    Judges, contexts, orders, replicates, human scores; replies that could not be read;
    which biases can be estimated, which not and why, and the smallest addition to the log
    that would allow each. It asks no judge, and ends with the command to run.
    """
    from biaslab.logs.audit import doctor as diagnose

    given = given_mapping(mapped, mapping_file, order_unknown)
    for number, file in enumerate(files):
        typer.echo(f"{'' if number == 0 else chr(10)}{diagnose(file, kind, given)}")
