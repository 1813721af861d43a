"""From trials and replies to columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.core import DECLINED, Choice, Design, Reply, Request, Trial, request_key
from biaslab.core.many import uncollected
from biaslab.store.trials.column_types import Columns, Part

_NOTHING = math.nan, "refused"


def judged(
    probe: Design,
    columns: Columns,
    study: Mapping[str, str],
    trials: Sequence[Trial],
    replies: Mapping[Request, Reply],
) -> Part:
    """Read the replies to some trials, and put both into columns.

    Parameters
    ----------
    probe : Design
        Reads a reply.
    columns : Columns
        Of the design.
    study : mapping of str to str
        ``probe``, ``judge`` and ``dataset``, the same in all rows.
    trials : sequence of Trial
        In the order of the rows.
    replies : mapping of Request to Reply
        To all their requests.
    """
    with uncollected():
        answers = [replies[trial.request] for trial in trials]
        # a server that says it declined needs no reading
        read = [
            _NOTHING if reply.finish_reason in DECLINED else probe.read(trial, reply)
            for trial, reply in zip(trials, answers, strict=True)
        ]
        given: dict[str, Sequence[Any]] = {name: [text] for name, text in study.items()}
        for name in ("context_id", "candidate_id", "opponent_id", "attribute", "replicate"):
            given[name] = [getattr(trial, name) for trial in trials]
        conditions = [trial.condition for trial in trials]
        for name in columns.conditions:
            given.setdefault(name, [condition.get(name, math.nan) for condition in conditions])
        given["value"], given["status"] = [value for value, _ in read], [status for _, status in read]
        given |= _of_replies(trials, answers, study["judge"])
        given["reply"] = [reply.text for reply in answers] if "reply" in columns.names else ()
        return columns.pack(given, len(trials))


def _of_replies(trials: Sequence[Trial], answers: Sequence[Reply], judge_id: str) -> dict[str, Sequence[Any]]:
    """Return what is the same for all trials that one reply serves, such as those of all labels of a distribution."""
    told: list[tuple[float, float, int, str]] = []
    before: Reply | None = None
    asked: Request | None = None
    for trial, reply in zip(trials, answers, strict=True):
        request = trial.request
        if reply is before and request is asked:
            told.append(told[-1])
            continue
        before, asked = reply, request
        samples = math.nan if reply.samples is None else reply.samples
        told.append((_label_mass(request, reply), samples, reply.usage.tokens, request_key(request, judge_id)))
    return dict(zip(("label_mass", "samples", "tokens", "key"), zip(*told, strict=True), strict=True))


def _label_mass(request: Request, reply: Reply) -> float:
    if not isinstance(request, Choice) or reply.logprobs is None:
        return math.nan
    return math.fsum(map(math.exp, reply.logprobs))
