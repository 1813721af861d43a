"""A simulated judge's knowledge of a data set: its texts, their authors and human scores; and its random numbers."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from biaslab.core import About
from biaslab.core.errors import JudgeError
from biaslab.core.schema import Dataset, count_words

LOG_PERPLEXITY = NormalDist(3.0, 0.35)
"""Of texts whose log perplexity nobody gave; every 52-bit uniform keeps it above 0."""

_WORD = re.compile(r"\w")
_UNPACK = struct.Struct(">4Q").unpack
#: Turns a uniform number into a standard normal one.
normal = NormalDist().inv_cdf


class Shown(NamedTuple):
    """A candidate as shown in a prompt: its id, its text (possibly padded), and the name of its edit."""

    context_id: str
    candidate_id: str
    text: str
    edit: str = ""


class Knowledge:
    """The texts and human scores of a data set, shared by all judges of the data set.

    Parameters
    ----------
    dataset : Dataset
        What is known. It is not kept.
    """

    def __init__(self, dataset: Dataset) -> None:
        frame = dataset.candidates
        self.attributes, self.noun, self.scale = tuple(dataset.attributes), dataset.noun, dataset.scale
        self.texts: dict[tuple[str, str], str] = {}
        self.systems: dict[tuple[str, str], str] = {}
        self.owners: dict[str, dict[str, str]] = {}
        self.sources: dict[str, str] = {}
        rows: Any = frame[["context_id", "context", "candidate_id", "system", "text"]].itertuples(index=False)
        for context_id, context, candidate_id, system, text in rows:
            self.sources[context_id] = context.strip()
            self.texts[context_id, candidate_id] = text = text.strip()
            self.systems[context_id, candidate_id] = system
            self.owners.setdefault(text, {}).setdefault(context_id, candidate_id)
        self.scores: dict[str, dict[tuple[str, str], float]] = dataset.human_means.to_dict()  # type: ignore[assignment]
        self.mean_doublings = math.fsum(map(doublings, self.texts.values())) / len(self.texts)
        self.questions: dict[object, Any] = {}  # completed by `Questions`, and shared by all judges of the data set

    @cached_property
    def digest(self) -> str:
        """Eight hex digits that change with any text, system or score."""
        scored = [(a, k, f"{v:.9g}") for a, values in self.scores.items() for k, v in values.items()]
        known = (self.noun, self.scale, self.attributes, self.sources, self.texts, self.systems, scored)
        return hashlib.sha256(repr(known).encode()).hexdigest()[:8]

    def shown(self, about: About) -> tuple[Shown, ...]:
        """Return the candidates as shown; those with equal texts, which no prompt tells apart, count as one.

        Raises
        ------
        JudgeError
            If the data set has no such candidates.
        """
        try:
            texts = [self.texts[about.context_id, name] for name in about.candidate_ids]
            source = self.sources[about.context_id]
        except KeyError as error:
            raise JudgeError(f"the data set that the judge knows has no candidate {error}") from None
        alike = [c for c in self.owners[texts[0]] if all(c in self.owners[text] for text in texts)]
        seen = (c for c in alike if self.sources[c] in (("", source) if about.source else ("",)))
        context_id = next(seen, alike[0])
        return tuple(
            Shown(context_id, self.owners[text][context_id], shown.strip(), edit)
            for text, shown, edit in zip(texts, about.texts, about.edits or [""] * len(texts), strict=True)
        )

    def score(self, shown: Shown | tuple[str, str], attribute: str) -> float:
        """Return the mean human score of a candidate, NaN where nobody rated it; of one without words the lowest."""
        if len(shown) > 2 and not _WORD.search(shown[2]):
            return self.scale[0]
        return self.scores[attribute][shown[0], shown[1]]

    @staticmethod
    def log_perplexity(text: str) -> float:
        """Return the default log perplexity planted in a text: normal, and determined by the text alone."""
        return LOG_PERPLEXITY.inv_cdf(uniforms(0, digest_of("perplexity", text))[0])


def doublings(text: str) -> float:
    """Return the length of a text in doublings of one word."""
    return math.log2(count_words(text))


def knowledge_of(dataset: Dataset) -> Knowledge:
    """Return the knowledge of a data set, made once for as long as the data set lives."""
    if dataset not in _KNOWN:
        _KNOWN[dataset] = Knowledge(dataset)
    return _KNOWN[dataset]


_KNOWN: WeakKeyDictionary[Dataset, Knowledge] = WeakKeyDictionary()


def digest_of(*parts: object) -> bytes:
    """Return a 32-byte digest of some strings and numbers."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()


def uniforms(seed: int, key: bytes, detail: object = "") -> tuple[float, ...]:
    """Return four independent numbers, uniform on the open interval from 0 to 1.

    Examples
    --------
    >>> first, again = uniforms(0, digest_of("a prompt")), uniforms(0, digest_of("a prompt"))
    >>> first == again != uniforms(1, digest_of("a prompt"))
    True
    """
    bits = _UNPACK(hashlib.sha256(f"{seed}:{detail}:".encode() + key).digest())
    # 52 bits and a half keep every number exact and off 0 and 1, where the normal quantile is infinite
    return tuple(((whole >> 12) + 0.5) * 2**-52 for whole in bits)
