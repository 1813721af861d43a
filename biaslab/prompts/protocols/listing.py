"""Lists of candidates: what a prompt shows of them, and how replies refer to positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from biaslab.core import AT_LIMIT, Reply, Status
from biaslab.core.errors import InputError
from biaslab.prompts.parsing.settled import settled
from biaslab.prompts.protocols.answering import Choose
from biaslab.prompts.protocols.list_reader import LONGEST_LIST, SHORTEST_LIST, Places
from biaslab.prompts.protocols.readers import Reader


@dataclass(frozen=True)
class Entry:
    """A candidate of a list, as a template shows it; prints as its text.

    Parameters
    ----------
    name : str
        Name in prompt and reply, for example "[2]".
    number : int
        Its position, from 1.
    letter : str
        The letter of its position.
    text : str
        The text.
    """

    name: str
    number: int
    letter: str
    text: str

    def __str__(self) -> str:
        return self.text


class Candidates(tuple[Entry, ...]):
    """Candidates of a list in the order shown; prints each name before its text."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n\n".join(f"{entry.name} {entry.text}" for entry in self)


class Listing:
    """The part of `Protocol` that parses and writes replies to lists; the fields are those of `Protocol`.

    A value has a number for each position, in the order shown: if the protocol asks for the best, the probability that
    this candidate is best (0 or 1 for text); if it asks for a ranking, its rank, with 1 for the best.
    """

    reader: Reader
    choose: Choose

    @property
    def places(self) -> Places:
        """The reader of a list.

        Raises
        ------
        InputError
            If the protocol does not show a list.
        """
        if not isinstance(self.reader, Places):
            raise InputError("protocol", type(self.reader).__name__, "one of the form list", 'choose form="list"')
        return self.reader

    def list_labels(self, k: int) -> tuple[str, ...]:
        """Return the names of k candidates in the order shown."""
        return tuple(map(self.places.name, range(1, k + 1)))

    def candidates(self, texts: Sequence[str]) -> Candidates:
        """Return the template variable that lists some texts.

        Raises
        ------
        InputError
            Unless there are 2 to 20.

        Examples
        --------
        >>> import biaslab as bl
        >>> mine = bl.Protocol.from_template("{candidates}", "list")
        >>> print(mine.candidates(["It rained.", "Rain fell."]))
        [1] It rained.
        <BLANKLINE>
        [2] Rain fell.
        """
        if not SHORTEST_LIST <= len(texts) <= LONGEST_LIST:
            allowed = f"{SHORTEST_LIST} to {LONGEST_LIST} in one prompt"
            raise InputError("candidates", len(texts), allowed, "use biaslab.ranking.sliding_windows for longer lists")
        return Candidates(
            Entry(self.places.name(place), place, ascii_uppercase[place - 1], text)
            for place, text in enumerate(texts, 1)
        )

    def parse_list(self, text: str | None, k: int) -> tuple[tuple[float, ...], Status]:
        r"""Parse a reply about k candidates.

        Parameters
        ----------
        text : str or None
            The judge's reply.
        k : int
            Number of candidates shown.

        Returns
        -------
        tuple of (tuple of float, shape (k,)) and str
            The value, NaN unless the status is "ok". A ranking that omits a candidate is "incomplete", one that
            repeats a candidate "repeated"; a name that does not exist is "invented".

        Examples
        --------
        >>> import biaslab as bl
        >>> mine = bl.Protocol.from_template("Rank them:\n{candidates}", "list", replies="order")
        >>> mine.parse_list("[2] > [1] > [3]", 3)
        ((2.0, 1.0, 3.0), 'ok')
        >>> [mine.parse_list(text, 3)[1] for text in ("[2] > [1]", "[2] > [2] > [1]", "[2] > [4] > [1]")]
        ['incomplete', 'repeated', 'invented']
        """
        unread = (math.nan,) * k
        answers = self.places.named(text or "")
        if not answers:
            return unread, self.places.unread(text or "")
        if len(answers if self.choose == "single" else set(answers)) > 1 and self.choose in ("single", "only"):
            return unread, "ambiguous"
        order, status = answers[0] if self.choose == "first" else answers[-1]
        if self.choose == "last" and not self.places.ranks and not self.places.is_alone(text or ""):
            place, why = settled(text or "", self.list_labels(k), {named[0] - 1 for named, _ in answers})
            if place is None:
                return unread, why
            order = (place + 1,)
        status = _status(order, k, self.places.ranks) if status == "ok" else status
        if status != "ok":
            return unread, status
        if self.places.ranks:
            return tuple(float(order.index(place) + 1) for place in range(1, k + 1)), "ok"
        return tuple(float(place == order[0]) for place in range(1, k + 1)), "ok"

    def read_list(self, reply: Reply, k: int) -> tuple[tuple[float, ...], Status]:
        """Parse a reply about k candidates that is a text, or a distribution over their names; like `parse_list`."""
        if reply.logprobs is None:
            goes_on = reply.finish_reason == AT_LIMIT and self.choose == "last"
            if goes_on and len(set(self.places.named(reply.text or ""))) > 1:
                return (math.nan,) * k, "cut_off"
            return self.parse_list(reply.text, k)
        return shares_of(reply, k)

    def write_list(self, value: Sequence[float]) -> str:
        r"""Return the reply of a perfectly compliant judge.

        Parameters
        ----------
        value : sequence of float, shape (k,)
            By position: 1 for the best and 0 for others; or, for a ranking, the ranks.

        Raises
        ------
        InputError
            If no reply means the value.

        Examples
        --------
        >>> import biaslab as bl
        >>> mine = bl.Protocol.from_template("Rank them:\n{candidates}", "list", replies="order")
        >>> mine.write_list((2, 1, 3))
        '[2] > [1] > [3]'
        """
        k, numbers = len(value), [float(each) for each in value]
        wanted = list(range(1, k + 1)) if self.places.ranks else [0] * (k - 1) + [1]
        if sorted(numbers) != [float(each) for each in wanted]:
            allowed = (
                f"the ranks 1 to {k}, one per position" if self.places.ranks else "1 for one position, 0 for others"
            )
            raise InputError("value", tuple(value), allowed)
        ordered = sorted(range(k), key=lambda at: numbers[at], reverse=not self.places.ranks)
        return self.places.write_order([at + 1 for at in ordered])

    def require_list_round_trip(self) -> None:
        """Raise `InputError` unless replies that are written are parsed correctly."""
        for k in (SHORTEST_LIST, 3, LONGEST_LIST):
            value = tuple(float(rank) for rank in range(k, 0, -1)) if self.places.ranks else (0.0,) * (k - 1) + (1.0,)
            text = self.write_list(value)
            if self.parse_list(text, k) != (value, "ok"):
                remedy = 'put delimiters around names: names="[{n}]"'
                raise InputError("names", f"{text!r}", "names that are read back as written", remedy)


def shares_of(reply: Reply, k: int) -> tuple[tuple[float, ...], Status]:
    """Return the probability that each of k candidates is best, from a distribution over their names."""
    masses = [math.exp(each) for each in reply.logprobs or ()]
    total = math.fsum(masses)
    if not total:
        return (math.nan,) * k, "refused"
    return tuple(mass / total for mass in masses), "ok"


def _status(order: Sequence[int], k: int, ranks: bool) -> Status:
    if not all(1 <= place <= k for place in order):
        return "invented"
    if len(set(order)) < len(order):
        return "repeated"
    return "incomplete" if ranks and len(order) < k else "ok"
