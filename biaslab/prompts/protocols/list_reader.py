"""Parse from a reply which of several candidates is the best, or how they are ranked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from string import ascii_uppercase
from typing import Any, Literal, get_args

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.core.trials import Status
from biaslab.prompts.protocols.readers import VerdictReader, as_text, documents

#: Formats of replies to a list: the name of the best candidate; names from best to worst, as text or as a JSON list;
#: or a JSON list of objects, each with a name and a rank.
ListReply = Literal["best", "order", "json", "ranks"]
#: Candidates named, best first, by position from 1, and whether the reply is a ranking at all.
Named = tuple[tuple[int, ...], Status]
SHORTEST_LIST, LONGEST_LIST = 2, 20
_SLOT = re.compile(r"\{([nA])\}")
_BETWEEN = r"\s*(?:>{1,3}|≻|＞|&gt;|→|->|,|;)\s*"
_KIND = r"(?:model|response|candidate|answer|passage|document|option|text|output|summary|item)"
_NUMBERED = re.compile(
    rf"^[^\w\n]*(?:rank\s*|#)?(\d+)\s*[.):\]][\s*_\"'`]*((?:{_KIND}\s+)?)", re.IGNORECASE | re.MULTILINE
)
#: Texts of bare numbers or letters, with only separators between them.
_BARE = {"{n}": re.compile(r"[\d\W_]+"), "{A}": re.compile(r"(?:(?<!\w)[A-Z](?!\w)|[^\w]|_)+")}
_ALONE = r"(?:\A|\n)(?:[^\n]*:)?[ \t*_`\"'(]*(?:{})[ \t*_`\"').]*\Z"


@dataclass(frozen=True)
class Places(VerdictReader):
    """Positions of the candidates named in a reply.

    Parameters
    ----------
    replies : {"best", "order", "json", "ranks"}
        ``[2]``; ``[2] > [1] > [3]``, or with commas; ``["[2]", "[1]", "[3]"]``; or a list of objects like
        ``{"model": "[2]", "rank": 1}``.
    names : str
        Names of candidates in prompt and reply: ``{n}`` is the position from 1, ``{A}`` its letter. A bare name counts
        if it is alone on a line, or after a colon, at the end of the reply.

    Raises
    ------
    InputError
        If the format is unknown, or names have no number or letter.

    Examples
    --------
    >>> Places("order").named("[1] is short. So: [2] > [1] > [3]")
    [((2, 1, 3), 'ok')]
    >>> Places("best", "Response {A}").named("Response B is the best.")
    [((2,), 'ok')]
    """

    replies: ListReply = "best"
    names: str = "[{n}]"

    def __post_init__(self) -> None:
        require_one_of("replies", self.replies, get_args(ListReply))
        if len(_SLOT.findall(self.names)) != 1:
            raise InputError("names", self.names, "one {n} for a number or {A} for a letter", 'such as "[{n}]"')

    @property
    def ranks(self) -> bool:
        """Whether a reply ranks all candidates, rather than naming the best."""
        return self.replies != "best"

    def name(self, place: int) -> str:
        """Return the name of the candidate at a position, from 1."""
        return _SLOT.sub(str(place) if "{n}" in self.names else ascii_uppercase[place - 1], self.names)

    @cached_property
    def _name(self) -> str:
        """Pattern of any candidate's name, with its number or letter in a group."""
        before, behind = (re.escape(piece) for piece in _SLOT.sub("\0", self.names).split("\0"))
        start = "" if before and not self.names[0].isalnum() else r"(?<![\w.])"
        end = "" if behind and not self.names[-1].isalnum() else r"(?!\w|\.\d)"
        return rf"{start}{before}({'[0-9]+' if '{n}' in self.names else '[A-Z]'}){behind}{end}"

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
        """Patterns of a name, of several in a row, and of one alone at the end of the reply."""
        inner = self._name.replace("([", "(?:[")
        row = rf"{inner}(?:{_BETWEEN}{inner})+"
        return re.compile(self._name), re.compile(row), re.compile(_ALONE.format(self._name))

    def _place(self, name: object) -> int:
        """Return the position that a name refers to, 0 if none; also for a bare number or letter."""
        text = as_text(name).strip()
        if match := self._patterns[0].fullmatch(text):
            return _number(match[1])
        plain, (before, behind) = _plain(text), map(_plain, _SLOT.sub("\0", self.names).split("\0"))
        if before and plain.startswith(before) and plain.endswith(behind):
            return _number(plain[len(before) : len(plain) - len(behind)].strip().upper())
        return _number(text)

    def named(self, text: str) -> list[Named]:
        """Return every answer in a text, in order: the candidates named, best first, by position."""
        if self.replies == "json":
            lists = (entries for document in documents(text) if (entries := _list_in(document)))
            return [(tuple(map(self._place, names)), "ok") for names in lists if not isinstance(names[0], Mapping)]
        if self.replies == "ranks":
            return [read for answers in self._tables(text) if (read := self._ranked(answers)) is not None]
        if self.replies == "best":
            answers: list[tuple[int, ...]] = [(place,) for place in self._single(text)]
        else:
            rows = [tuple(map(_number, self._patterns[0].findall(row[0]))) for row in self._patterns[1].finditer(text)]
            answers = rows or self._numbered(text) or [(place,) for place in self._single(text)]
        slot = _SLOT.search(self.names)
        if not answers and not self._is_bare and slot is not None and _BARE[slot[0]].fullmatch(text):
            return replace(self, names=slot[0]).named(text.strip(" \t\n[]"))
        return [(places, "ok") for places in answers]

    @property
    def _is_bare(self) -> bool:
        return not _SLOT.sub("", self.names).strip()

    def _numbered(self, text: str) -> list[tuple[int, ...]]:
        """Return the candidates listed one per line, numbered from 1, as "2. Response A"; no other format counts."""
        marks = list(_NUMBERED.finditer(text))
        name = self._patterns[0].match
        names = [name(text, mark.start(2)) or name(text, mark.end()) for mark in marks]
        numbers = [_number(mark[1]) for mark, name in zip(marks, names, strict=True) if name]
        if len(numbers) < SHORTEST_LIST or numbers != list(range(1, len(numbers) + 1)):
            return []
        return [tuple(_number(name[1]) for name in names if name)]

    def _tables(self, text: str) -> Iterator[list[Mapping[str, Any]]]:
        """Yield lists of objects; an object that maps each name to its rank is converted to such a list."""
        for document in documents(text):
            if isinstance(document, Mapping) and document and all(map(self._place, document)):
                yield [{"model": name, "rank": rank} for name, rank in document.items()]
            elif (entries := _list_in(document)) and all(isinstance(entry, Mapping) for entry in entries):
                yield entries

    def is_alone(self, text: str) -> bool:
        """Return whether a text is a single name, or ends with one alone."""
        return self._patterns[2].search(text.strip()) is not None

    def _single(self, text: str) -> Iterator[int]:
        """Yield the candidates that are named one by one."""
        if self._is_bare:
            alone = self._patterns[2].search(text.strip())
            matches = [alone] if alone else []
        else:
            matches = list(self._patterns[0].finditer(text))
        return (_number(match[1]) for match in matches)

    def _ranked(self, entries: Sequence[Mapping[str, Any]]) -> Named | None:
        """Return the candidates named by objects with ranks, best first; a status unless ranks are 1 to n."""
        ranks = [next((_number(as_text(each)) for key, each in entry.items() if _is_rank(key)), 0) for entry in entries]
        if not any(ranks):
            return None
        named = [[self._place(each) for key, each in entry.items() if not _is_rank(key)] for entry in entries]
        ordered = sorted(range(len(ranks)), key=ranks.__getitem__)
        places = tuple(next(filter(None, named[at]), 0) for at in ordered)
        if len(set(ranks)) < len(ranks):
            return places, "repeated"
        return places, "ok" if sorted(ranks) == list(range(1, len(ranks) + 1)) else "out_of_range"

    def find(self, text: str) -> list[float]:
        """Return the position of the best candidate according to each answer in a text."""
        return [float(places[0]) for places, _ in self.named(text)]

    def write(self, value: float) -> str:
        """Return the name of the candidate at a position."""
        return self.name(int(value))

    def write_order(self, places: Sequence[int]) -> str:
        """Return a reply that names candidates, best first, by their positions."""
        names = [self.name(place) for place in places]
        if self.replies == "best":
            return names[0]
        if self.replies == "order":
            return " > ".join(names)
        values = [json.loads(name) if name.isdigit() else name for name in names]
        if self.replies == "json":
            return json.dumps(values)
        return json.dumps([{"model": value, "rank": rank} for rank, value in enumerate(values, 1)])


def _plain(name: str) -> str:
    """Return a name in lower case, with one space for each run of white space, underscores and hyphens."""
    return " ".join(re.split(r"[\s_-]+", name.casefold().strip()))


def _is_rank(key: object) -> bool:
    return str(key).casefold() in ("rank", "ranking", "position", "place")


def _list_in(document: Any) -> list[Any]:
    """Return a JSON list, alone or as the only list of an object; an empty one if there is none."""
    if isinstance(document, list):
        return document
    lists = [value for value in document.values() if isinstance(value, list)]
    return lists[0] if len(lists) == 1 else []


def _number(text: str) -> int:
    """Return the position given by a number or a capital letter; 0 if it is neither."""
    if text.isascii() and text.isdigit():
        return int(text[:9])
    return ascii_uppercase.index(text) + 1 if len(text) == 1 and text in ascii_uppercase else 0
