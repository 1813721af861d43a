"""Stop a study whose first replies hold no label: a wrong form of answer shows after 20 replies, not after 20,000."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from biaslab.core.errors import UnlabelledRepliesError
from biaslab.core.interfaces import short
from biaslab.core.requests import Choice, Completion, Request
from biaslab.core.trials import DECLINED, UNUSABLE, Reply, Status, Trial
from biaslab.prompts.parsing.thoughts import answered

FIRST, FEW = 20, 50  # replies after which none, or at most half, may be without a label
_WATCHED = 1000  # replies of a kind, after which those of a study are no longer watched
_SHOWN = 3


class FirstReplies:
    """The first replies of a study, by kind of request, for pairs and single texts separately.

    Parameters
    ----------
    name : str
        Name of the design.
    read : callable
        Returns value and status of the reply to a trial.
    skips_texts : bool
        Whether texts need no label, because a later round asks for it.

    Examples
    --------
    >>> import biaslab as bl
    >>> probe = bl.probes.Position(answer="text")
    >>> [trial, *_] = probe.design(bl.load_dataset("graded", limit=1))
    >>> first = FirstReplies(probe.name, probe.read)
    >>> for _ in range(20):
    ...     first.note([trial], Reply(text="I like both."))
    >>> str(first.error()).partition(";")[0]
    'position: none of the first 20 replies holds a label (20 unparsable)'
    """

    def __init__(self, name: str, read: Callable[..., tuple[float, Status]], skips_texts: bool = False) -> None:
        self._name, self._read, self._skips_texts = name, read, skips_texts
        self._statuses: defaultdict[tuple[type, bool], Counter[Status]] = defaultdict(Counter)
        self._without: defaultdict[tuple[type, bool], list[tuple[Request, Reply]]] = defaultdict(list)

    def note(self, trials: Sequence[Trial], reply: Reply) -> None:
        """Record the status of a reply to the request of some trials, if it is among the first of its kind."""
        request, kind = trials[0].request, (type(trials[0].request), trials[0].opponent_id is not None)
        if self._statuses[kind].total() >= _WATCHED or (self._skips_texts and isinstance(request, Completion)):
            return
        answer = answered(reply) if reply.text else reply
        has_label = isinstance(request, Choice) and reply.finish_reason != UNUSABLE
        has_label &= any(map(math.isfinite, reply.logprobs or ()))
        statuses: list[Status] = ["ok"] if has_label else [self._read(trial, answer)[1] for trial in trials]
        status = next((each for each in statuses if each in ("ok", "tie")), statuses[0])
        self._statuses[kind][status] += 1
        if status not in ("ok", "tie") and len(self._without[kind]) < _SHOWN:
            self._without[kind].append((request, answer))

    def error(self) -> UnlabelledRepliesError | None:
        """Return the error that ends a study, with three of the replies and what to change; None if there is none."""
        for kind, statuses in self._statuses.items():
            seen, lost = statuses.total(), statuses["refused"] + statuses["unparsable"]
            if seen >= FIRST and not statuses["ok"] + statuses["tie"]:
                share = f"none of the first {seen} replies holds a label"
            elif seen >= FEW and 2 * lost > seen:
                share = f"{lost} of the first {seen} replies hold no label"
            else:
                continue
            counts = ", ".join(f"{n} {status}" for status, n in statuses.most_common() if status not in ("ok", "tie"))
            request, reply = self._without[kind][0]
            shown = ", ".join(_shown(each) for _, each in self._without[kind])
            words = f"{self._name}: {share} ({counts}); the first of these: {shown}; {_remedy(request, reply)}"
            return UnlabelledRepliesError(words, request)
        return None


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
    return "return a value that answers each request; None counts as a refusal"
