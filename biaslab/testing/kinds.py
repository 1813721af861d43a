"""Kinds of server faults, and how a study handles each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from biaslab.core.trials import Status
from biaslab.testing.plays import (
    Document,
    Play,
    body,
    bomb,
    changed,
    drip,
    endless,
    hang,
    raw,
    redirect,
    reset,
    status,
    truncated,
)

#: What happens to a request: it is retried, it ends the run with an error, or its reply gets a status.
Outcome = Literal["asked again", "ends the run"] | Status


class Kind(NamedTuple):
    """A kind of fault.

    Attributes
    ----------
    about : str
        What the server does.
    text : str
        How biaslab handles it if text was requested: "asked again", "ends the run", or the status of its trial.
    distribution : str
        The same if a label distribution was requested.
    words : str
        Its name in `biaslab.ApiJudge.faults`, or the message of the error; empty if it is a reply.
    play : callable
        Answers the request; see `biaslab.testing.plays`.
    """

    about: str
    text: Outcome
    distribution: Outcome
    words: str
    play: Play


def _again(about: str, words: str, play: Play) -> Kind:
    return Kind(about, "asked again", "asked again", words, play)


def _ends(about: str, words: str, play: Play) -> Kind:
    return Kind(about, "ends the run", "ends the run", words, play)


def _document(
    about: str, text: Outcome, distribution: Outcome, words: str, change: Callable[[Document], object]
) -> Kind:
    return Kind(about, text, distribution, words, changed(change))


def _set(**fields: Any) -> Callable[[Document], object]:
    """Change fields of the document."""
    return lambda document: document.update(fields)


def _choice(**fields: Any) -> Callable[[Document], object]:
    """Change fields of the first choice."""
    return lambda document: document["choices"][0].update(fields)


def _message(content: Any, reason: str = "stop", **fields: Any) -> Callable[[Document], object]:
    """Change the message, and the finish reason."""
    return _choice(message={"role": "assistant", "content": content, **fields}, finish_reason=reason)


def _shows(*shown: tuple[str, float]) -> Callable[[Document], object]:
    """Show other tokens, with their probabilities or a substitute; only if probabilities were requested."""
    tokens = [{"token": token, "logprob": math.log(p) if 0 < p <= 1 else p} for token, p in shown]

    def change(document: Document) -> None:
        choice = document["choices"][0]
        if choice.get("logprobs"):
            choice["logprobs"] = {"content": [{**tokens[0], "top_logprobs": tokens}]}

    return change


def _only_logprobs(logprobs: Any) -> Callable[[Document], object]:
    def change(document: Document) -> None:
        if "logprobs" in document["choices"][0]:
            document["choices"][0]["logprobs"] = logprobs

    return change


def _twice(document: Document) -> None:
    document["choices"] = [{"index": 1, "message": {"role": "assistant", "content": "other"}}, *document["choices"]]


def _error_alone(document: Document) -> None:
    document.clear()
    document["error"] = {"message": "the engine died"}


def _longer(document: Document) -> None:
    document["choices"][0]["message"]["content"] += " " + "word " * 200_000


def _surrogate(document: Document) -> None:
    document["choices"][0]["message"]["content"] += " \ud800\x00"


def _two_values(good: bytes) -> bytes:
    return good.replace(b'"finish_reason"', b'"message": {"content": "Summary B"}, "finish_reason"', 1)


_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
_NO_HTTP = "is not valid HTTP"
_NO_JSON = "sent invalid JSON"
_SHAPE = "a malformed response"
_NO_CHOICES = "sent no choices"
_UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
_KEY = "Incorrect API key provided: {key}"
_CALL = {"id": "c", "type": "function", "function": {"name": "judge", "arguments": "{}"}}
_HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"

#: Faults of the connection, of HTTP, and refusals: no model has worked.
REFUSALS: Mapping[str, Kind] = {
    "drop": _again("closes the connection without a byte", "closed the connection", raw(b"")),
    "reset": _again("resets the connection", "closed the connection", reset),
    "status line": _again("a status that is no number", _NO_HTTP, raw(b"HTTP/1.1 abc OK\r\n\r\n{}")),
    "no HTTP": _again("speaks another protocol", _NO_HTTP, raw(b"SSH-2.0-OpenSSH_9.6\r\n")),
    "two lengths": _again(
        "two different lengths", _NO_HTTP, raw(_OK + b"Content-Length: 2\r\nContent-Length: 20\r\n\r\n{}")
    ),
    "long header": _again(
        "a header of 20 kB", _NO_HTTP, raw(_OK + b"X-Long: " + b"x" * 20_000 + b"\r\nContent-Length: 2\r\n\r\n{}")
    ),
    "header without colon": _again(
        "a header without a colon", _NO_HTTP, raw(_OK + b"no colon here\r\nContent-Length: 2\r\n\r\n{}")
    ),
    "chunk size": _again(
        "a chunk whose size is no number",
        _NO_HTTP,
        raw(_OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
    ),
    "short chunk": _again(
        "a chunk that is shorter than it says", _NO_HTTP, raw(_OK + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{}")
    ),
    "no gzip": _again(
        "says gzip and sends none", _NO_HTTP, raw(_OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}")
    ),
    "switch": _again("switches to another protocol", "an empty response", raw(_UPGRADE)),
    "429": _again("is asked too much", "HTTP 429", status(429, "slow down", Retry_After="0")),
    "429 long": _again("wants to be asked again later", "HTTP 429", status(429, "slow down", Retry_After="0.4")),
    "429 plain": _again("does not say when", "HTTP 429", status(429, "slow down")),
    "429 for years": _again("in 32 years", "HTTP 429", status(429, "slow down", Retry_After="999999999")),
    "429 for ever": _again("never", "HTTP 429", status(429, "slow down", Retry_After="inf")),
    "429 nan": _again("at a time that is no number", "HTTP 429", status(429, "slow down", Retry_After="nan")),
    "500": _again("fails", "HTTP 500", status(500, "oh")),
    "503": _again("is overloaded", "HTTP 503", status(503, "overloaded")),
    "502 page": _again("a proxy's page of HTML", "HTTP 502", body(_HTML, 502, "text/html")),
    "204": _again("says that there is no content", "an empty response", status(204)),
    "400": _ends("does not understand a field", "HTTP 400", status(400, "no such field")),
    "401": _ends("does not know the key, and repeats it", "does not accept the key", status(401, _KEY)),
    "403": _ends("forbids the model", "has no access to this model", status(403, "not yours")),
    "404": _ends("does not know the model", "does not exist", status(404, "The model `judge` does not exist")),
    "quota": _ends("has no credit left", "no credit left", status(429, "You exceeded your current quota")),
    "too long": _ends(
        "finds the prompt too long", "too long", status(400, "This model's maximum context length is 10 tokens")
    ),
    "no logprobs here": _ends(
        "takes no log-probabilities", "HTTP 422", status(422, "Unexpected fields: {{'logprobs'}}")
    ),
    **{
        f"redirect {code}": _ends(
            f"sends the prompt elsewhere ({code})", "redirects to", redirect(code, "http://elsewhere.invalid/v1")
        )
        for code in (301, 302, 303, 307, 308)
    },
    "filtered prompt": Kind(
        "does not let the model see the prompt",
        "refused",
        "refused",
        "",
        status(400, "blocked by our content management policy"),
    ),
}

#: Faults of an answer that was paid for.
ANSWERS: Mapping[str, Kind] = {
    "hang": _again("answers after a minute", "timed out", hang),
    "drip": _again("a byte now and then", "timed out", drip),
    "endless": _again("megabytes without end", "is larger than", endless),
    "bomb": _again("gzip that unpacks to 128 MB", "is larger than", body(lambda _: _bomb(), Content_Encoding="gzip")),
    "truncated": _again("half of the answer, then the connection ends", _NO_HTTP, truncated),
    "cut": _again("half of the JSON", _NO_JSON, body(lambda good: good[: len(good) // 2])),
    "invalid": _again("no JSON", _NO_JSON, body(b"{'no json'")),
    "html": _again("a page of HTML with status 200", _NO_JSON, body(_HTML)),
    "events": _again("a stream of events", _NO_JSON, body(lambda good: b"data: " + good + b"\n\ndata: [DONE]\n\n")),
    "two answers": _again("two documents in one", _NO_JSON, body(lambda good: good + good)),
    "invalid UTF-8": _again("bytes that are no UTF-8", _NO_JSON, body(lambda good: good.replace(b"stop", b"\xff\xfe"))),
    "two values": _again("two values of one key", "duplicate key", body(_two_values)),
    "deep": _again("JSON in 200,000 levels", "cannot be read", body(b"[" * 200_000)),
    "nothing": _again("an empty body", "an empty response", body(b"")),
    "null": _again("null", "did not send a JSON object", body(b"null")),
    "list": _again("a list", "did not send a JSON object", body(b"[]")),
    "plain text": Kind("says that JSON is plain text", "ok", "ok", "", body(lambda good: good, kind="text/plain")),
    "empty": _document("no choices", "asked again", "asked again", _NO_CHOICES, _set(choices=[])),
    "error in 200": _document("an error with status 200", "asked again", "asked again", _NO_CHOICES, _error_alone),
    "two choices": _document("two choices, that of index 0 last", "ok", "ok", "", _twice),
    "no message": _document("a choice without a message", "asked again", "asked again", _SHAPE, _choice(message=None)),
    "number": _document("a number for a text", "asked again", "asked again", _SHAPE, _message(4)),
    "null content": _document("null for a text", "unparsable", "ok", "", _message(None)),
    "tool calls": _document(
        "calls a tool instead of writing",
        "unparsable",
        "asked again",
        "no log-probabilities",
        _choice(
            message={"role": "assistant", "content": None, "tool_calls": [_CALL]},
            finish_reason="tool_calls",
            logprobs=None,
        ),
    ),
    "no text": _document("ends at its limit before the first word", "cut_off", "ok", "", _message("", "length")),
    "filter": _document("filters the answer", "refused", "refused", "", _message(None, "content_filter")),
    "refusal": _document("refuses in a field", "refused", "refused", "", _message(None, refusal="I will not.")),
    "megabyte": _document("a text of 1 MB", "unparsable", "ok", "", _longer),
    "surrogate": _document("half of a character, and NUL", "ok", "ok", "", _surrogate),
    "usage": _document(
        "2⁶³ tokens read", "asked again", "asked again", "number of tokens", _set(usage={"prompt_tokens": 2**63})
    ),
    "negative usage": _document("−5 tokens read", "ok", "ok", "", _set(usage={"prompt_tokens": -5})),
    "no usage": _document("tokens are not counted", "ok", "ok", "", _set(usage=None)),
    "changed": _document("another fingerprint", "ok", "ok", "", _set(system_fingerprint="fp_two")),
    "other model": _document("another model", "ok", "ok", "", _set(model="stranger")),
    "no logprobs": _document(
        "no log-probabilities this time", "ok", "asked again", "no log-probabilities", _only_logprobs(None)
    ),
    "bad logprobs": _document(
        "a word for a log-probability",
        "ok",
        "asked again",
        _SHAPE,
        _only_logprobs({"content": [{"token": "A", "logprob": "high"}]}),
    ),
    "positive logprobs": _document("a log-probability of 3", "ok", "asked again", _SHAPE, _shows(("Summary A", 3.0))),
    "NaN": _document("NaN for a log-probability", "ok", "asked again", _SHAPE, _shows(("Summary A", math.nan))),
    "infinity": _document("infinity for one", "ok", "asked again", _SHAPE, _shows(("Summary A", math.inf))),
    "mass of 2": _document(
        "probabilities that sum to 2",
        "ok",
        "unusable",
        "",
        _shows(("Summary A", 0.99), ("Summary B", 0.98), ("The", 0.03)),
    ),
    "mass of 20": _document(
        "probabilities that sum to 20", "ok", "unusable", "", _shows(("Summary A", 1.0), *[("Summary B", 0.95)] * 20)
    ),
    "a token twice": _document(
        "one token twice", "ok", "unusable", "", _shows(("Summary A", 0.4), ("Summary B", 0.2), ("Summary A", 0.4))
    ),
    "one token": _document("the written token alone", "ok", "unusable", "", _shows(("Summary A", 0.6))),
    "one label alone": _document(
        "one label alone", "ok", "unusable", "", _shows(("Summary A", 0.5), ("Summary A ", 0.2))
    ),
    "no label": _document("no label among the tokens", "ok", "refused", "", _shows(("Both", 0.6), ("The", 0.3))),
}
#: Every kind, by name.
FAULTS: Mapping[str, Kind] = {**REFUSALS, **ANSWERS}


def _bomb(_made: list[bytes] = []) -> bytes:  # noqa: B006 - made once, when it is first played
    if not _made:
        _made.append(bomb(128))
    return _made[0]
