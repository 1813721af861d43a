"""A simulated judge's knowledge of a data set, the questions that requests ask about it, and its random numbers."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError, JudgeError, UnsupportedRequestError
from biaslab.core.requests import About, Choice, Completion, Reasons, ReplyFormat
from biaslab.core.scales import Scale, scale_named
from biaslab.core.schema import Dataset, count_words

LOG_PERPLEXITY = NormalDist(3.0, 0.35)
"""Distribution of the default log perplexity; positive for every 52-bit uniform number."""

_CACHED = 100_000  # maximum number of cached questions, so that judges of the same data set extract each only once
_WORD = re.compile(r"\w")
_UNPACK = struct.Struct(">4Q").unpack
#: Maps a uniform number to a standard normal one.
normal = NormalDist().inv_cdf


class ShownCandidate(NamedTuple):
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
        The data set; no reference to it is kept.
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
        self.questions: dict[object, Any] = {}  # filled by `Questions`, and shared by all judges of the data set

    @cached_property
    def digest(self) -> str:
        """Eight hex digits that change with any text, system or score."""
        scored = [(a, k, f"{v:.9g}") for a, values in self.scores.items() for k, v in values.items()]
        known = (self.noun, self.scale, self.attributes, self.sources, self.texts, self.systems, scored)
        return hashlib.sha256(repr(known).encode()).hexdigest()[:8]

    def shown(self, about: About) -> tuple[ShownCandidate, ...]:
        """Return the candidates as shown; candidates with equal texts, which prompts cannot distinguish, count as one.

        Raises
        ------
        JudgeError
            If the data set does not contain these candidates.
        """
        try:
            texts = [self.texts[about.context_id, name] for name in about.candidate_ids]
            source = self.sources[about.context_id]
        except KeyError as error:
            raise JudgeError(f"the data set that the judge knows has no candidate {error}") from None
        alike = [c for c in self.owners[texts[0]] if all(c in self.owners[text] for text in texts)]
        seen = (c for c in alike if self.sources[c] in (("", source) if about.source else ("",)))
        context_id = next(seen, alike[0])
        ids = [self.owners[text][context_id] for text in texts]
        rows = zip(ids, about.texts, about.edits or [""] * len(texts), strict=True)
        return tuple(ShownCandidate(context_id, own, shown.strip(), edit) for own, shown, edit in rows)

    def score(self, shown: ShownCandidate | tuple[str, str], attribute: str) -> float:
        """Return a candidate's mean human score; NaN if unrated; the lowest score for an empty text."""
        if len(shown) > 2 and not _WORD.search(shown[2]):
            return self.scale[0]
        return self.scores[attribute][shown[0], shown[1]]

    @staticmethod
    def log_perplexity(text: str) -> float:
        """Return the default log perplexity of a text: normally distributed, and a function of the text alone."""
        return LOG_PERPLEXITY.inv_cdf(uniforms(0, digest_of("perplexity", text))[0])


def doublings(text: str) -> float:
    """Return the length of a text in words, as a base-2 logarithm."""
    return math.log2(count_words(text))


def knowledge_of(dataset: Dataset) -> Knowledge:
    """Return the knowledge of a data set, cached as long as the data set exists."""
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
    # 52 bits plus a half keep every number exact and off 0 and 1, where the normal quantile is infinite
    return tuple(((whole >> 12) + 0.5) * 2**-52 for whole in bits)


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """Which of two candidates is better; ``labels`` are the answers as text, including "Tie" if offered."""

    digest: bytes
    first: ShownCandidate
    second: ShownCandidate
    attribute: str
    source: bool
    labels: tuple[str, ...]
    template: str = ""
    reasons: Reasons = "none"


@dataclass(frozen=True, slots=True)
class ScoreQuestion:
    """Score one candidate, on one attribute or on several in one output.

    Parameters
    ----------
    digest : bytes
        Identifies the messages.
    shown : Shown
        The candidate.
    attributes : tuple of str
        Attributes still to be scored, in order.
    source : bool
        Whether the prompt shows the source; true if there is none.
    scale : Scale
        The scale's labels and values.
    units, heaps : ndarray, shape (labels,)
        The values on the unit scale; 1 for multiples of 10, ½ for other multiples of 5, if the scale is subject to
        heaping.
    reasons : {"none", "before", "after"}
        Where reasons are requested.
    layout : {"bare", "lines", "text", "json"}
        Format of the answer, as in `biaslab.core.About`.
    previous : float or None
        The preceding score, on the unit scale.
    opened : bool
        Whether the prompt already contains the first line up to its score.
    template : str
        Name of the prompt variant.
    replies : tuple of str
        How a reply writes each label, if not as the label in the layout.
    """

    digest: bytes
    shown: ShownCandidate
    attributes: tuple[str, ...]
    source: bool
    scale: Scale
    units: Floats
    heaps: Floats
    reasons: Reasons
    layout: ReplyFormat
    previous: float | None
    opened: bool
    template: str = ""
    replies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListQuestion:
    """Which of several candidates is best, or how they rank; ``protocol`` says which, and formats replies."""

    digest: bytes
    shown: tuple[ShownCandidate, ...]
    attribute: str
    source: bool
    protocol: Any
    template: str = ""


SimulatedQuestion = PairQuestion | ScoreQuestion | ListQuestion


class Questions:
    """Extracts questions from the `about` of requests on one data set, shared by all judges of it.

    Parameters
    ----------
    known : Knowledge
        The data set.
    rated : bool
        Whether to refuse unrated candidates.
    """

    def __init__(self, known: Knowledge, rated: bool = True) -> None:
        self.known, self.rated = known, rated

    def of(self, request: Choice | Completion) -> SimulatedQuestion:
        """Return the question of a request.

        Raises
        ------
        UnsupportedRequestError
            If the request has no `about`.
        JudgeError
            If it is not about one candidate on a scale, a pair or a list from the data set, or they are unrated.
        """
        about = request.about
        if about is None:
            remedy = "give it the field about, a biaslab.core.About, as probes and scorers do"
            problem = "the request does not say what it is about, and this judge reads no prompts"
            raise UnsupportedRequestError(problem, request, remedy=remedy)
        key = (request.messages, about)
        question = self.known.questions.get(key)
        if question is None:
            try:
                question = self._of(request, about)
            except (InputError, JudgeError) as error:
                raise JudgeError(str(error), request) from None
            if len(self.known.questions) >= _CACHED:
                self.known.questions.clear()
            self.known.questions[key] = question
        return question

    def _of(self, request: Choice | Completion, about: About) -> SimulatedQuestion:
        listed = getattr(about.protocol, "form", "") == "list"
        if not about.attributes or not (listed or len(about.candidate_ids) in (1, 2)):
            raise JudgeError(f"the judge scores one candidate, or compares two or a list on an attribute, not {about}")
        shown = self.known.shown(about)
        source, digest = about.source or not self.known.sources[shown[0].context_id], digest_of(request.messages)
        for one, attribute in product(shown, about.attributes) if self.rated else ():
            if attribute not in self.known.scores or math.isnan(self.known.score(one, attribute)):
                where = f"context {one.context_id!r}, candidate {one.candidate_id!r} on {attribute}"
                raise JudgeError(f"nobody rated {where}, so the simulated judge has no score for it")
        if listed:
            return ListQuestion(digest, shown, about.attributes[0], source, about.protocol, about.template)
        if len(shown) == 2:
            first = about.attributes[0]
            return PairQuestion(digest, *shown, first, source, about.labels, about.template, about.reasons)
        scale = scale_named(about.scale)
        units, heaps = levels(scale)
        previous = None if about.previous is None else scale.unit(about.previous)
        # an answer begun by the prompt continues after any reasons that come first
        opened = request.messages[-1].role == "assistant" and about.reasons != "before"
        how = (about.reasons, about.form, previous, opened, about.template, about.labels)
        return ScoreQuestion(digest, shown[0], about.attributes, source, scale, units, heaps, *how)


@cache
def levels(scale: Scale) -> tuple[Floats, Floats]:
    """Return the values on the unit scale, and the heaping weights: 1 at multiples of 10, ½ at other multiples of 5.

    Only scales with more than 10 whole numbers are subject to heaping.
    """
    values = np.array(scale.values)
    heaps = np.where(values % 10 == 0, 1.0, np.where(values % 5 == 0, 0.5, 0.0))
    if len(values) <= 10 or (values % 1).any():
        heaps = np.zeros(len(values))
    return (values - scale.low) / (scale.high - scale.low), heaps
