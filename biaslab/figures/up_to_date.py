"""Determine which notebooks are up to date: nothing that their figures depend on has changed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from biaslab.core.parameters import defaults, parameters_cell, types_of
from biaslab.figures.notebook import Run, Task, count_replies

_COUNTED = ("seconds", "asked", "stored", "asked_tokens", "stored_tokens", "estimates", "ignored")


def inputs(task: Task) -> str:
    """Return a digest of everything a notebook's figures depend on; empty if it cannot be read.

    That is the notebook, its parameters, the files they name, biaslab itself, and the versions of all installed
    packages. The model behind a name on the Hub or a server is not included.
    """
    try:
        parameters = task.wanted | task.always
        values = defaults(parameters_cell(task.source)) | {
            n: parameters[n] for n in types_of(task.source) if n in parameters
        }
        files = [list(_stamps(value)) for name, value in sorted(values.items()) if name not in task.always]
        document = [task.source.read_text(encoding="utf-8"), values, files, _package(), _installed()]
    except (OSError, ValueError, KeyError, SyntaxError):
        return ""
    return _digest(json.dumps(document, sort_keys=True, default=repr).encode())


def remember(task: Task, run: Run, made_of: str) -> None:
    """Record in the executed notebook its inputs and outputs.

    Parameters
    ----------
    task : Task
        The executed task.
    run : Run
        Its result.
    made_of : str
        Its `inputs` before execution.
    """
    with suppress(OSError, ValueError, KeyError):  # then it is executed again
        document = json.loads(task.target.read_text(encoding="utf-8"))
        document["metadata"]["biaslab"] = document["metadata"].get("biaslab", {}) | {
            "made_of": made_of,
            "replies": count_replies(task),
            "files": {file.name: _digest(file.read_bytes()) for file in run.files},
            "run": {name: getattr(run, name) for name in _COUNTED},
        }
        written = task.target.with_suffix(".writing")
        written.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        written.replace(task.target)


def earlier_run(task: Task, made_of: str) -> Run | None:
    """Return the result of a notebook's last execution, if nothing has changed since.

    Parameters
    ----------
    task : Task
        The task to check.
    made_of : str
        Its `inputs`.

    Returns
    -------
    Run or None
        None if an input changed, a file that it made is missing or modified, or the store has fewer replies than then.
    """
    try:
        notes = json.loads(task.target.read_text(encoding="utf-8"))["metadata"]["biaslab"]
        files = {Path(task.always["out"]) / name: digest for name, digest in notes["files"].items()}
        fresh = made_of and notes["made_of"] == made_of and notes["replies"] <= count_replies(task)
        if not fresh or any(_digest(file.read_bytes()) != digest for file, digest in files.items()):
            return None
        run = Run(task.source.stem, tuple(files), **notes["run"], up_to_date=True)
        return replace(run, ignored=tuple(run.ignored))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stamps(value: Any) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of each file named by a parameter, directly or through its folder."""
    for text in value if isinstance(value, list | tuple) else [value]:
        named = Path(text) if isinstance(text, str | Path) and str(text) not in ("", ".") else None
        if named is None or not _exists(named):
            continue
        for file in sorted(named.rglob("*")) if named.is_dir() else [named]:
            if file.is_file():
                yield str(file), file.stat().st_size, file.stat().st_mtime_ns


def _exists(path: Path) -> bool:
    with suppress(OSError, ValueError):  # a long text is not a file name
        return path.exists()
    return False


@cache
def _package() -> str:
    """Return a digest of biaslab's own files."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*")):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(f"{file.relative_to(root)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


@cache
def _installed() -> list[str]:
    releases = {f"{each.name}=={each.version}" for each in importlib.metadata.distributions()}
    return [sys.version, *sorted(releases)]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
