"""``biaslab.toml``: user-defined names of judges and protocols, shared by command line, notebooks and Python."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError
from biaslab.core.project import SETTINGS

_NAME = re.compile(r"[\w.-]+")
_FORMS = {
    "judges": """a table such as [judges.mini] with model = "gpt-4o-mini", or judge = "organisation/model\"""",
    "protocols": """a table such as [protocols.mine] with file = "mine.toml\"""",
}


def find_file() -> Path | None:
    """Return the ``biaslab.toml`` in the working folder or the nearest parent folder, or None."""
    folder = Path.cwd()
    return next((place / SETTINGS for place in (folder, *folder.parents) if (place / SETTINGS).is_file()), None)


def named_tables(kind: str) -> dict[str, dict[str, Any]]:
    """Return the named tables in the file; empty if there is no file.

    Parameters
    ----------
    kind : {"judges", "protocols"}
        What the tables define.

    Raises
    ------
    InputError
        If the file is not valid TOML, or contains anything else.
    """
    path = find_file()
    if path is None:
        return {}
    form = _FORMS[kind]
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError("file", str(path), f"TOML ({error})", f"write {form}") from None
    unknown = [name for name in document if name not in _FORMS]
    tables = document.get(kind, {})
    if unknown or not isinstance(tables, Mapping):
        remedy = did_you_mean(unknown[0], list(_FORMS)) if unknown else ""
        raise InputError(str(path), unknown[0] if unknown else kind, form, remedy)
    for name, table in tables.items():
        if not _NAME.fullmatch(name) or not isinstance(table, Mapping):
            raise InputError(str(path), name, f"{form}; names may contain letters, digits, dots and hyphens")
    return {name: dict(table) for name, table in tables.items()}
