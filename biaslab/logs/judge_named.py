"""Load recorded judges by name, for `biaslab.load_judge`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biaslab.core.errors import InputError

if TYPE_CHECKING:
    from biaslab.core.schema import Dataset
    from biaslab.logs.exported import ExportedJudge
    from biaslab.logs.recorded import RecordedJudge


def load_named(name: str, dataset: Dataset | None) -> ExportedJudge | RecordedJudge:
    """Load a recorded judge from a name such as ``"recorded:log.jsonl,configuration=rts"``.

    Raises
    ------
    InputError
        If a log is named without the data set that was judged.
    """
    from biaslab.logs.exported import ExportedJudge, is_export
    from biaslab.logs.recorded import RecordedJudge

    file, where = log_named(name)
    if is_export(file):
        return ExportedJudge(file, where.get("judge"))
    if dataset is None:
        raise InputError("dataset", dataset, "the data set that was judged")
    return RecordedJudge(file, dataset, where)


def log_named(name: str) -> tuple[str, dict[str, str]]:
    """Split the name of a recorded judge into the file and the column values that select its rows.

    Examples
    --------
    >>> log_named("recorded:log.jsonl,configuration=rts")
    ('log.jsonl', {'configuration': 'rts'})
    """
    file, *parts = name.removeprefix("recorded:").split(",")
    return file, dict(_pair(part) for part in parts)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError("judge", text, "column=value, such as configuration=rts")
    return name, value
