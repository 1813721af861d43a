"""Stop a study whose first replies hold no label: a wrong form of answer shows after 20 replies, not after 20,000."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from biaslab.core.errors import UnlabelledRepliesError
from biaslab.core.interfaces import Design, short
from biaslab.core.requests import Choice, Completion, Request
from biaslab.core.trials import DECLINED, Reply, Status, Trial

FIRST, FEW = 20, 50  # replies after which none, or at most half, may be without a label
_WATCHED = 1000  # replies of a kind, after which those of a study are no longer watched
_SHOWN = 3
_LOST = ("refused", "unparsable")


@dataclass
class _Kind:
    """The replies to one kind of request."""

    statuses: Counter[Status] = field(default_factory=Counter)
    without: list[tuple[Request, Reply]] = field(default_factory=list)  # the first replies without a label


class FirstReplies:
    """The first replies of a study, by kind of request, for pairs and single texts separately.

    Examples
    --------
    >>> import biaslab as bl
    >>> [trial, *_] = bl.probes.Position(answer="text").design(bl.load_dataset("graded", limit=1))
    >>> first = FirstReplies()
    >>> for _ in range(20):
    ...     first.note(trial, Reply(text="I like both."), "unparsable")
    >>> str(first.error(bl.probes.Position())).partition(";")[0]
    'position: none of the first 20 replies holds a label (20 unparsable)'
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[type, bool], _Kind] = {}

    def watches(self, trial: Trial) -> bool:
        """Return whether a reply to a trial is among the first of its kind."""
        kind = self._kinds.get(_kind_of(trial))
        return kind is None or kind.statuses.total() < _WATCHED

    def note(self, trial: Trial, reply: Reply, status: Status) -> None:
        """Record the status of a reply."""
        kind = self._kinds.setdefault(_kind_of(trial), _Kind())
        kind.statuses[status] += 1
        if status not in ("ok", "tie") and len(kind.without) < _SHOWN:
            kind.without.append((trial.request, reply))

    def error(self, design: Design) -> UnlabelledRepliesError | None:
        """Return the error that ends a study, with three of the replies and what to change; None if there is none."""
        for kind in self._kinds.values():
            seen, lost = kind.statuses.total(), sum(kind.statuses[status] for status in _LOST)
            if seen >= FIRST and not kind.statuses["ok"] + kind.statuses["tie"]:
                share = f"none of the first {seen} replies holds a label"
            elif seen >= FEW and 2 * lost > seen:
                share = f"{lost} of the first {seen} replies hold no label"
            else:
                continue
            counts = ", ".join(f"{n} {status}" for status, n in kind.statuses.most_common() if status != "ok")
            request, replies = kind.without[0][0], tuple(reply for _, reply in kind.without)
            shown, remedy = ", ".join(map(_shown, replies)), _remedy(request, replies[0])
            words = f"{design.name}: {share} ({counts}); the first of these: {shown}; {remedy}"
            return UnlabelledRepliesError(words, request, replies)
        return None


def _kind_of(trial: Trial) -> tuple[type, bool]:
    return type(trial.request), trial.opponent_id is not None


def _shown(reply: Reply) -> str:
    if reply.text is None or (not reply.text and reply.finish_reason):
        return f"no text ({reply.finish_reason or 'and no label among the likeliest tokens'})"
    return short(reply.text)


def _remedy(request: Request, reply: Reply) -> str:
    if reply.finish_reason in DECLINED:
        return "the judge declines this prompt or data: use another judge, or a protocol with another prompt"
    if isinstance(request, Choice):
        labels = ", ".join(map(repr, request.labels))
        return f'the labels are {labels}: use answer="text", which reads more forms, or a protocol with your own'
    if isinstance(request, Completion):
        return "give the probe a protocol whose prompt states the form of the answer and whose parser reads it"
    return "return a value for each request; None counts as a refusal"
