"""Degrade written originals by script, as the constructed sets `graded` and `dialogues` need it.

Every degradation is a deterministic function of a draft, the annotations of its source and a level; `LOSSES`
states what each level costs on each attribute. After a change here `tools.constructed.building` rebuilds both sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from biaslab.core.errors import DatasetError
from biaslab.datasets.construction import (
    Draft,
    Piece,
    WrittenOriginal,
    draft_of,
    substitute,
)

STOCK_REPLIES = (
    "Well, that is just how it is, I suppose.",
    "Right, okay. I do not really have an opinion on that.",
    "I see. That is good to know, thank you.",
)
SHUFFLES = ((0, 1, 3, 2), (2, 0, 3, 1), (3, 2, 1, 0))

LOSSES: Mapping[str, tuple[Mapping[str, float], ...]] = {
    "sidetrack": (
        {"relevance": 1},
        {"relevance": 2, "coherence": 0.5},
        {"relevance": 3, "coherence": 1, "consistency": 0.5},
    ),
    "repeat": (
        {"coherence": 1, "fluency": 0.5, "relevance": 1},
        {"coherence": 1.5, "fluency": 1, "relevance": 2},
    ),
    "swap_facts": ({"consistency": 1}, {"consistency": 2}, {"consistency": 3}),
    "break_grammar": ({"fluency": 1}, {"fluency": 2}, {"fluency": 3}),
    "shuffle": ({"coherence": 1}, {"coherence": 2}, {"coherence": 3}),
    "contradict": ({"coherence": 3}, {"coherence": 6}),
    "echo": (
        {"variety": 2, "engagingness": 1, "coherence": 1},
        {"variety": 4, "engagingness": 2, "coherence": 2},
        {"variety": 6, "engagingness": 3, "coherence": 3},
    ),
    "dull": (
        {"engagingness": 2, "coherence": 1},
        {"engagingness": 4, "coherence": 2},
        {"engagingness": 6, "coherence": 3},
    ),
}
"""Points that each level of a degradation, from 1 up, takes off the best score of each attribute."""


def sidetrack(draft: Draft, source: WrittenOriginal, level: int) -> Draft:
    """Put a minor detail of the text in the place of a lesser sentence (1) or of the key fact (2).

    Level 3 does so with the key fact, and puts a remark that has nothing to do with the text in the place of
    the lesser sentence. The detail stands in the text, so only the remark, which nothing supports, touches
    consistency. From level 2 on the thread breaks where the key fact stood, which costs coherence.
    """
    put = {source["lesser"]: source["aside"]} if level == 1 else {source["key"]: source["aside"]}
    if level == 3:
        put[source["lesser"]] = source["off_topic"]
    return tuple(Piece(put[piece.origin], None) if piece.origin in put else piece for piece in draft)


def repeat(draft: Draft, source: WrittenOriginal, level: int) -> Draft:  # noqa: ARG001
    """Say the first sentence again instead of the last (1), or the first two instead of the last two (2)."""
    return (*draft[:-level], *draft[:level])


def swap_facts(draft: Draft, source: WrittenOriginal, level: int) -> Draft:
    """Exchange as many names, numbers or facts, as the level says, for ones that the text contradicts."""
    return substitute(draft, source, "swaps", level)


def break_grammar(draft: Draft, source: WrittenOriginal, level: int) -> Draft:
    """Make two slips of agreement or verb form (1), or one in every sentence (2).

    Level 3 also drops the articles, and exchanges two pairs of neighbouring words in every sentence.
    """
    slipped = substitute(draft, source, "slips", 2 if level == 1 else 4)
    if level < 3:
        return slipped
    return tuple(replace(piece, text=_jumble(re.sub(r"\b(?:the|an|a) ", "", piece.text))) for piece in slipped)


def shuffle(draft: Draft, source: WrittenOriginal, level: int) -> Draft:  # noqa: ARG001
    """Exchange the last two sentences (1), put half of all pairs out of order (2), or reverse all (3)."""
    return tuple(draft[place] for place in SHUFFLES[level - 1])


def contradict(draft: Draft, source: WrittenOriginal, level: int) -> Draft:
    """Let a speaker deny what the same speaker has said before, in as many turns as the level says."""
    turns = list(draft)
    for stated, place, text in source["contradictions"][:level]:
        if stated >= place or (place - stated) % 2 or draft[stated].origin != stated:
            raise DatasetError(f"{source['context_id']} contradictions", place, "a later turn of the same speaker")
        turns[place] = Piece(text, None)
    return tuple(turns)


def echo(draft: Draft, source: WrittenOriginal, level: int) -> Draft:
    """Let a speaker say a turn again, word for word, in the next one to three turns of that speaker.

    The turns that go missing leave questions unanswered and answers unasked, which costs coherence.
    """
    first = source["repeat"]
    copies = range(first + 2, first + 2 * level + 1, 2)
    return tuple(draft[first] if place in copies else turn for place, turn in enumerate(draft))


def dull(draft: Draft, source: WrittenOriginal, level: int) -> Draft:
    """Let the speaker of `echo` end in one to three stock replies, which costs as much coherence."""
    last = source["repeat"] + 6
    put = {last - 2 * step: STOCK_REPLIES[step] for step in range(level)}
    return tuple(Piece(put[place], None) if place in put else turn for place, turn in enumerate(draft))


STEPS: tuple[Callable[[Draft, WrittenOriginal, int], Draft], ...] = (
    sidetrack,
    repeat,
    swap_facts,
    break_grammar,
    shuffle,
    echo,
    dull,
    contradict,
)
"""The degradations in the order in which a recipe applies them."""


def degrade(pieces: Sequence[str], source: WrittenOriginal, recipe: Mapping[str, int]) -> list[str]:
    """Apply a recipe, a mapping of degradation to level, to the sentences or turns of a written original."""
    draft = draft_of(pieces)
    for step in STEPS:
        if step.__name__ in recipe:
            draft = step(draft, source, recipe[step.__name__])
    return [piece.text for piece in draft]


def score(recipe: Mapping[str, int], attribute: str, best: float) -> float:
    """Return the best score less what the recipe's degradations cost on an attribute."""
    return best - sum(LOSSES[name][level - 1].get(attribute, 0.0) for name, level in recipe.items())


def _jumble(sentence: str) -> str:
    """Exchange the second word with the third, and the third last with the second last."""
    words = sentence.split()
    for left, right in ((1, 2), (len(words) - 3, len(words) - 2)):
        words[left], words[right] = words[right], words[left]
    return " ".join(words)
