"""What judges with a memory were asked, and what came from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from biaslab.core import Reply, Usage


@dataclass
class Tally:
    """Replies and their tokens, read and written: those that a judge gave now, and those that were stored.

    Parameters
    ----------
    asked, stored : int
        Replies that the judge gave, and that came from the store or as a repetition of another request.
    asked_tokens, stored_tokens : int
        Their tokens.
    usage : Usage
        Of the replies that the judge gave, by kind of token.

    Examples
    --------
    >>> import biaslab as bl
    >>> tally = Tally()
    >>> tally.count([bl.Reply(text="yes", usage=bl.Usage(10, 0, 1))], asked=True)
    >>> tally
    Tally(asked=1, stored=0, asked_tokens=11, stored_tokens=0)
    """

    asked: int = 0
    stored: int = 0
    asked_tokens: int = 0
    stored_tokens: int = 0
    usage: Usage = field(default_factory=Usage, repr=False, compare=False)

    @property
    def counts(self) -> dict[str, int]:
        """What is asked and stored, by name."""
        names = ("asked", "stored", "asked_tokens", "stored_tokens")
        return {name: getattr(self, name) for name in names}

    def count(self, replies: Collection[Reply], asked: bool) -> None:
        """Count replies, which the judge gave now or not."""
        usage = Usage.total([reply.usage for reply in replies])
        if asked:
            self.asked, self.asked_tokens = self.asked + len(replies), self.asked_tokens + usage.tokens
            self.usage += usage
        else:
            self.stored, self.stored_tokens = self.stored + len(replies), self.stored_tokens + usage.tokens


#: What all judges with a memory were asked since the process began.
PROCESS = Tally()
