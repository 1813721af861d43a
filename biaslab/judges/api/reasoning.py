"""Manage thinking budgets: what to request, what replies show, and when to stop a study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from biaslab.core import AT_LIMIT, Completion, Reply, Request, ThinkingBudget, thinking_of
from biaslab.core.errors import CutOffError
from biaslab.core.output import count
from biaslab.judges.thinking import LEAST, MOST, Thinking
from biaslab.judges.votes import read_verdict
from biaslab.prompts.parsing.thoughts import answered, begins_inside, is_cut_off, split_thought

FIRST = 4  # replies of a reasoning model that are read before more is asked
_SHORT = 64  # a limit up to this many tokens leaves no room for reasons, so a reply without a verdict is a thought


class ThoughtsByBudget:
    """Track the thinking of one judge for each budget set by requests.

    Parameters
    ----------
    thinking_at : callable
        Maps a request's budget, or None, to what to ask for.
    """

    def __init__(self, thinking_at: Callable[[ThinkingBudget | None], Thinking | None]) -> None:
        self._thinking_at = thinking_at
        self._by_budget: dict[ThinkingBudget | None, Thoughts] = {None: Thoughts(thinking_at(None))}

    def of(self, request: Request) -> Thoughts:
        """Return the tracker for the request's budget."""
        budget = thinking_of(request)
        if budget not in self._by_budget:
            self._by_budget[budget] = Thoughts(self._thinking_at(budget))
        return self._by_budget[budget]

    @property
    def room(self) -> int:
        """Tokens added to the answer limit if a request sets no budget."""
        return self._by_budget[None].room

    def holds(self, in_flight: int) -> bool:
        """Return whether to wait for the first replies at some budget before asking more."""
        return any(each.holds(in_flight) for each in list(self._by_budget.values()))

    def error(self, request: Request) -> CutOffError | None:
        """Return a message if most replies at the request's budget were cut off."""
        return self.of(request).error(request)


class Thoughts:
    """Track the thinking of one judge, and the tokens reserved for it.

    Parameters
    ----------
    thinking : Thinking, optional
        What is requested.

    Attributes
    ----------
    room : int
        Tokens currently added to the limit of an answer.
    longest : int
        Length of the longest thought so far, in tokens.
    """

    def __init__(self, thinking: Thinking | None) -> None:
        self._thinking = thinking
        self.room = 0 if thinking is None else thinking.tokens
        self.longest = 0
        self._inside = self._plain = 0  # counts of texts that begin inside a thought, and that end without any tag
        self._seen = self._cut = self._limit = 0
        self._reasons = self._declared = thinking is not None and thinking.is_on
        self._suspected = 0  # replies without readable content that do not show why

    def read(self, reply: Reply) -> Reply:
        """Return a reply with its thinking separated from the text and counted in the usage."""
        if reply.text and reply.thought is not None:
            reply = answered(reply)  # some servers send the thought twice
        elif reply.text:
            thought, answer = split_thought(reply.text, opened=self._begins_inside(reply.text, reply.finish_reason))
            if thought is not None:
                reply = replace(reply, text=answer, thought=thought)
        usage = reply.usage
        if not reply.thought or usage.reasoning_tokens:
            return reply
        share = len(reply.thought) / (len(reply.thought) + len(reply.text or ""))  # if the server does not
        return replace(reply, usage=replace(usage, reasoning_tokens=round(share * usage.completion_tokens)))

    def _begins_inside(self, text: str, reason: str | None) -> bool:
        """Return whether a text begins inside thinking opened by the prompt, judging by it and earlier texts."""
        self._inside += begins_inside(text)
        if reason == AT_LIMIT:
            return self._inside > 0 or (self._reasons and self._declared and not self.longest)
        self._plain += split_thought(text).thought is None
        return self._inside > self._plain

    def is_cut(self, request: Completion, reply: Reply) -> bool:
        """Return whether a reply reached its limit because of its thinking."""
        if not is_cut_off(reply):
            return False
        usage = reply.usage
        crowded = usage.reasoning_tokens > 0 and usage.completion_tokens - usage.reasoning_tokens < request.max_tokens
        return not reply.text or crowded

    def more_room(self, request: Request, reply: Reply, room: int) -> int | None:
        """Return the larger budget to try after a cut-off reply; None if it was not cut off or no more is allowed."""
        is_auto = self._thinking is not None and self._thinking.mode == "auto"
        if not is_auto or room >= MOST or not isinstance(request, Completion) or not self.is_cut(request, reply):
            return None
        return min(max(LEAST, 2 * room), MOST)

    def note(self, request: Request, reply: Reply, limit: int, room: int) -> None:
        """Record a reply to a `Completion`, its limit and the thinking budget in it."""
        if not isinstance(request, Completion):
            return
        self._seen += 1
        cut = self.is_cut(request, reply)
        self.longest = max(self.longest, reply.usage.reasoning_tokens)
        self._reasons |= cut or reply.thought is not None or reply.usage.reasoning_tokens > 0
        if cut:
            self._cut, self._limit = self._cut + 1, max(self._limit, limit)
        else:
            self.room = max(self.room, room)
            self._suspected += _says_nothing(request, reply)

    def holds(self, in_flight: int) -> bool:
        """Return whether to wait for the first replies before asking more."""
        wary = self._reasons or self._suspected > 0
        return wary and 0 < self._seen < FIRST and in_flight >= FIRST - self._seen

    def error(self, request: Request) -> CutOffError | None:
        """Return a message if most replies were cut off, else None."""
        if self._seen < FIRST or (2 * self._cut <= self._seen and self._suspected < self._seen):
            return None
        if not self._cut:
            self._limit = request.max_tokens if isinstance(request, Completion) else 0
        took = f"thinking took up to {self.longest:,} tokens" if self.longest else "none reports its thinking tokens"
        tokens = max(4096, 4 * max(self.room, self.longest))
        room = "a thinking budget" if self._thinking is None else "a larger thinking budget"
        remedy = (
            f'set {room} with thinking={{"tokens": {tokens}}}, or ?thinking={tokens} in the judge\'s name; '
            'thinking="auto" determines how much it needs'
        )
        if (budget := thinking_of(request)) is not None:
            remedy = (
                f"set a larger budget than {budget}" if budget else "omit the budget 0, because the model thinks anyway"
            )
        shown = f"{self._cut or self._suspected} of the first {count(self._seen, 'reply')}"
        return CutOffError(
            f"{shown} reached the limit of {self._limit:,} tokens before an answer; {took}; {remedy}", request
        )


def _says_nothing(request: Completion, reply: Reply) -> bool:
    """Return whether a short reply reached its limit before a verdict, as during thinking."""
    about = request.about
    if reply.finish_reason != AT_LIMIT or request.max_tokens > _SHORT or about is None or about.reasons != "none":
        return False
    return read_verdict(about, reply) is None
