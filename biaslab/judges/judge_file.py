"""``biaslab.toml``: user-defined judge names, shared by the command line, notebooks and Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from biaslab.core import Judge
from biaslab.core.checks import is_whole
from biaslab.core.errors import InputError
from biaslab.core.project import SETTINGS
from biaslab.core.settings_file import named_tables

_TAKEN = ("smollm2-135m", "simulated")
_OWN = ("judge", "model", "address", "samples")


def named_judges() -> dict[str, dict[str, Any]]:
    """Return the tables of the judges in the file; empty if there is no file.

    Raises
    ------
    InputError
        If the file is not valid TOML, or a name is that of a built-in judge.
    """
    tables = named_tables("judges")
    taken = next((name for name in tables if name in _TAKEN), None)
    if taken is not None:
        raise InputError(
            SETTINGS, taken, f"a name of letters, digits, dots and hyphens, other than {' and '.join(_TAKEN)}"
        )
    return tables


def make_named(name: str, table: Mapping[str, Any], load: Callable[[str], Judge]) -> Judge:
    """Create the judge described by a table.

    Parameters
    ----------
    name : str
        Name of the table, for messages.
    table : mapping
        ``model``, optionally ``address`` and options of `biaslab.ApiJudge`; or ``judge``, any other judge name. With
        ``samples``, label probabilities are shares of that many texts (`biaslab.Sampled`).
    load : callable
        Creates a judge from another name.

    Raises
    ------
    InputError
        If a value in the table is invalid. Values that may be keys are not displayed.
    """
    where = f"{SETTINGS}: judges.{name}"
    if ("judge" in table) == ("model" in table):
        raise InputError(where, sorted(table), "either model or judge")
    for key in ("judge", "model", "address"):
        if not isinstance(table.get(key, ""), str):
            raise InputError(f"{where}.{key}", table[key], "a quoted string")
    options = {key: value for key, value in table.items() if key not in _OWN}
    judge: Judge
    if "model" in table:
        from biaslab.judges.api.options import make_judge

        judge = make_judge(table["model"], table.get("address"), options, where, _OWN)
    elif options or "address" in table:
        first = next(iter([*options, "address"]))
        raise InputError(where, first, "only judge and samples, because judge refers to another judge", "use model =")
    else:
        judge = load(table["judge"])
    samples = table.get("samples")
    if samples is None:
        return judge
    if not is_whole(samples, 1):
        raise InputError(f"{where}.samples", samples, "a whole number of at least 1")
    from biaslab.judges.sampled import Sampled

    return Sampled(judge, samples)


def described(table: Mapping[str, Any]) -> str:
    """Describe the judge of a table briefly, for a list."""
    if "judge" in table:
        return f"{table['judge']}, in {SETTINGS}"
    return f"{table.get('model')} at {str(table.get('address') or 'OpenAI').rpartition('@')[2]}, in {SETTINGS}"
