"""Compute the key of a stored reply from the canonical JSON of its request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted

from biaslab.core.errors import InputError
from biaslab.core.requests import KINDS, Choice, Compare, Completion, Likelihood, Rank, Request, Score

_BEGINNING = 3  # number of leading prompt parts that most requests about a context share: words, the context, words


def request_fields(request: Request) -> dict[str, object]:
    """Return the fields of a request that determine its reply, ready for JSON.

    The list is explicit so that stored replies are still found when a class gains a field: a new field enters only if
    it differs from its default.
    """
    if isinstance(request, Choice):
        asked: dict[str, object] = {"messages": [list(m) for m in request.messages], "labels": list(request.labels)}
        return asked | ({"replicate": request.replicate} if request.replicate else {}) | _thought(request)
    if isinstance(request, Likelihood):
        return {"text": request.text, "given": request.given}
    if isinstance(request, Score):
        return {name: getattr(request, name) for name in ("text", "source", "reference", "attribute")}
    if isinstance(request, Compare):
        return {name: getattr(request, name) for name in ("first", "second", "source", "reference", "attribute")}
    if isinstance(request, Rank):
        shown = {name: getattr(request, name) for name in ("source", "reference", "attribute")}
        return {"texts": list(request.texts), **shown}
    listed: dict[str, object] = {
        "messages": [list(m) for m in request.messages],
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "replicate": request.replicate,
    }
    if request.seed:
        listed["seed"] = request.seed
    return listed | _thought(request)


def _thought(request: Choice | Completion) -> dict[str, object]:
    return {} if request.thinking is None else {"thinking": request.thinking}


def request_from_fields(kind: str, fields: Mapping[str, object]) -> Request:
    """Rebuild a request from `request_fields`; its `about` is lost.

    Parameters
    ----------
    kind : {"choice", "completion", "likelihood", "score", "compare", "rank"}
        Kind of the request.
    fields : mapping
        As made by `request_fields`, or parsed from its JSON.

    Raises
    ------
    InputError
        If the kind is unknown or the fields do not belong to it.

    Examples
    --------
    >>> request = Completion("Name a colour.", temperature=1.0, replicate=2)
    >>> request_from_fields("completion", request_fields(request)) == request
    True
    """
    known = {each.kind: each for each in KINDS}
    if kind not in known:
        raise InputError("kind", kind, f"one of {', '.join(known)}")
    try:
        return known[kind](**fields)  # type: ignore[arg-type]
    except TypeError as error:
        names = sorted(fields) if isinstance(fields, Mapping) else fields
        raise InputError("fields", names, f"those of a {kind} request ({error})") from error


def request_key(request: Request, judge_id: str) -> str:
    """Return the content address of a judge's reply to a request: SHA-256 over canonical JSON, 64 hex digits.

    The request caches its last key, since store and trials both need it.
    """
    known: tuple[str, str] | None = request.__dict__.get("_key")
    if known is not None and known[0] == judge_id:
        return known[1]
    key = _digest(request, judge_id).hexdigest()
    request.__dict__["_key"] = (judge_id, key)
    return key


def request_json(request: Request) -> str:
    """Return the fields of a request as canonical JSON: see `request_fields`.

    Examples
    --------
    >>> request_json(Choice("A or B?", ("A", "B")))
    '{"labels":["A","B"],"messages":[["user","A or B?"]]}'
    """
    if isinstance(request, Choice):  # by hand: makes collecting 25 % faster (benchmarks/scale.py)
        labels, which = ",".join(map(_quoted, request.labels)), _budget(request)
        which = f',"replicate":{request.replicate}{which}' if request.replicate else which
        return f'{{"labels":[{labels}],"messages":[{_turns(request)}]{which}}}'
    if isinstance(request, Completion):
        seed = f'"seed":{request.seed},' if request.seed else ""
        tail = f'"replicate":{request.replicate},{seed}"temperature":{request.temperature!r}{_budget(request)}'
        return f'{{"max_tokens":{request.max_tokens},"messages":[{_turns(request)}],{tail}}}'
    return canonical_json(request_fields(request))


def _budget(request: Choice | Completion) -> str:
    """Return the thinking budget as the last field of a request's JSON; empty if not set."""
    return "" if request.thinking is None else f',"thinking":{json.dumps(request.thinking)}'


def _turns(request: Choice | Completion) -> str:
    """Return the messages of a request as JSON."""
    if parts := request.__dict__.get("_parts"):
        return f'["user","{"".join(map(_escaped_part, parts))}"]'
    return ",".join([f"[{_quoted(role)},{_quoted(content)}]" for role, content in request.messages])


def _digest(request: Request, judge_id: str) -> hashlib._Hash:
    """Return the hash of a request's `_key_document`; the shared prefix of a context's requests is hashed once."""
    parts: tuple[str, ...] = request.__dict__.get("_parts", ())
    if not isinstance(request, Choice) or request.replicate or request.thinking is not None or len(parts) <= _BEGINNING:
        return hashlib.sha256(_key_document(request, judge_id).encode("ascii"))  # some fields sort after the messages
    digest = _begun(judge_id, request.labels, parts[:_BEGINNING]).copy()
    digest.update(f'{"".join(map(_escaped_part, parts[_BEGINNING:]))}"]]}}'.encode("ascii"))
    return digest


@lru_cache(maxsize=256)
def _begun(judge_id: str, labels: tuple[str, ...], parts: tuple[str, ...]) -> hashlib._Hash:
    """Return the hash of the prefix of `_key_document` for a choice with these labels and first parts."""
    document = _key_document(Choice("".join(parts), labels, parts=parts), judge_id)
    return hashlib.sha256(document.removesuffix('"]]}').encode("ascii"))


def _key_document(request: Request, judge_id: str) -> str:
    """Return judge, kind and fields of a request in canonical JSON."""
    if isinstance(request, Choice | Completion):
        return f'{{"judge":{_quoted(judge_id)},"kind":"{request.kind}",{request_json(request)[1:]}'
    return canonical_json({"judge": judge_id, "kind": request.kind, **request_fields(request)})


@lru_cache(maxsize=1024)
def _escaped_part(text: str) -> str:
    return _quoted(text)[1:-1]


def canonical_json(document: Mapping[str, object]) -> str:
    """Return the canonical JSON of a document: sorted keys, no white space, ASCII only.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
