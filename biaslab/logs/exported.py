"""Replay an export of a `biaslab.Store` as a judge."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from biaslab.core import KINDS, BaseJudge, Reply, Request, request_fields, require_kinds
from biaslab.core.errors import InputError, JudgeError
from biaslab.logs.readers.documents import documents, read_rows
from biaslab.logs.readers.rows import Log
from biaslab.logs.readers.store_export import FIELDS

_KINDS: dict[str, type] = {kind.kind: kind for kind in KINDS}


class ExportedJudge(BaseJudge):
    """Judge that answers from an exported store; a request must be identical in every field to a stored one.

    Parameters
    ----------
    path : str or Path
        A file written by `biaslab.Store.export`.
    judge : str, optional
        Judge to replay; required if the export contains several.

    Raises
    ------
    InputError
        If the file is not an export, lacks the chosen judge, or contains several judges and none is chosen.

    Examples
    --------
    >>> import biaslab as bl, pathlib, tempfile
    >>> data, folder = bl.load_dataset("graded", limit=2), pathlib.Path(tempfile.mkdtemp())
    >>> probe = bl.probes.Position(attributes=["fluency"], n_pairs=2)
    >>> with bl.Store(folder / "store.sqlite") as store:
    ...     trials = bl.collect(probe, bl.SimulatedJudge(data), data, store=store, progress=False)
    ...     _ = store.export(folder / "export.jsonl")
    >>> again = bl.collect(probe, ExportedJudge(folder / "export.jsonl"), data, progress=False)
    >>> bool((again["value"] == trials["value"]).all())
    True
    """

    def __init__(self, path: str | Path, judge: str | None = None) -> None:
        by_judge = _replies(path)
        if not by_judge or (judge is None and len(by_judge) > 1) or (judge is not None and judge not in by_judge):
            allowed = f"one of {', '.join(by_judge)}" if by_judge else "a judge in an exported biaslab store"
            raise InputError("judge", judge, allowed, "choose one" if by_judge else "export it with store.export(path)")
        name = judge or next(iter(by_judge))
        self._replies = by_judge[name]
        self.kinds = frozenset(_KINDS[key.partition(" ")[0]] for key in self._replies)
        entries = sorted((key, repr(reply)) for key, reply in self._replies.items())
        self.id = f"recorded/{name}/{hashlib.sha256(repr(entries).encode()).hexdigest()[:8]}"

    def check(self, requests: Iterable[Request]) -> None:
        """Raise `JudgeError` if any request has no stored reply, with the number of these and the first one."""
        asked = list(requests)
        require_kinds(self, asked)
        absent = [request for request in asked if _key(request.kind, request_fields(request)) not in self._replies]
        if absent:
            raise JudgeError(f"{len(absent)} of {len(asked)} requests have no reply in the export", absent[0])

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Yield each request with its stored reply."""
        for request in requests:
            reply = self._replies.get(_key(request.kind, request_fields(request)))
            if reply is None:
                raise JudgeError("the request has no reply in the export", request)
            yield request, reply


def is_export(path: str | Path) -> bool:
    """Return whether a file is an export of a store."""
    document = next(documents(path), None)
    rows = next(read_rows(document, Log("")), None) if document else None
    return rows is not None and set(rows.records[0]) >= FIELDS


def _replies(path: str | Path) -> dict[str, dict[str, Reply]]:
    """Return the replies by judge and request key, skipping damaged records."""
    replies: dict[str, dict[str, Reply]] = {}
    for document in documents(path):
        for rows in read_rows(document, Log(document.name)):
            for record in rows.records:
                entry = _entry(record)
                if entry:
                    replies.setdefault(entry[0], {})[entry[1]] = entry[2]
    return replies


def _entry(record: dict[str, Any]) -> tuple[str, str, Reply] | None:
    """Return judge, request key and reply of a record; None if it is damaged."""
    try:
        request, reply = (_document(record[name]) for name in ("request", "reply"))
        levels, text, reason = reply.get("logprobs"), reply.get("text"), reply.get("finish_reason")
        logprobs = None if levels is None else tuple(-math.inf if v is None else float(v) for v in levels)
        score = None if reply.get("score") is None else float(reply["score"])
        if record["kind"] not in _KINDS or not isinstance(text, str | None) or not isinstance(reason, str | None):
            return None
        return str(record["judge"]), _key(record["kind"], request), Reply(logprobs, text, reason, score)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _document(value: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return document


def _key(kind: str, fields: dict[str, Any]) -> str:
    return f"{kind} {json.dumps(fields, sort_keys=True, ensure_ascii=True)}"
