"""Scripted degradations of the two constructed sets.

Every degradation is a deterministic function of a draft, the annotations of its source and a level; `LOSSES`
says what each level costs on each attribute. After a change here `biaslab.datasets._build` builds both sets anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.csv_files import read_csv
from biaslab.core.errors import DatasetError, InputError
from biaslab.core.schema import Dataset

FOLDER = Path(__file__).parent
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


@dataclass(frozen=True)
class Piece:
    """A sentence or turn of a draft, and its place in the written original; None where it was put in."""

    text: str
    origin: int | None


Draft = tuple[Piece, ...]
Source = Mapping[str, Any]


def sidetrack(draft: Draft, source: Source, level: int) -> Draft:
    """Put a minor detail of the text in the place of a lesser sentence (1) or of the key fact (2).

    Level 3 does so with the key fact, and puts a remark that has nothing to do with the text in the place of
    the lesser sentence. The detail stands in the text, so only the remark, which nothing supports, touches
    consistency. From level 2 on the thread breaks where the key fact stood, which costs coherence.
    """
    put = {source["lesser"]: source["aside"]} if level == 1 else {source["key"]: source["aside"]}
    if level == 3:
        put[source["lesser"]] = source["off_topic"]
    return tuple(Piece(put[piece.origin], None) if piece.origin in put else piece for piece in draft)


def repeat(draft: Draft, source: Source, level: int) -> Draft:  # noqa: ARG001
    """Say the first sentence again instead of the last (1), or the first two instead of the last two (2)."""
    return (*draft[:-level], *draft[:level])


def swap_facts(draft: Draft, source: Source, level: int) -> Draft:
    """Exchange as many names, numbers or facts, as the level says, for ones that the text contradicts."""
    return _substitute(draft, source, "swaps", level)


def break_grammar(draft: Draft, source: Source, level: int) -> Draft:
    """Make two slips of agreement or verb form (1), or one in every sentence (2).

    Level 3 also drops the articles, and exchanges two pairs of neighbouring words in every sentence.
    """
    slipped = _substitute(draft, source, "slips", 2 if level == 1 else 4)
    if level < 3:
        return slipped
    return tuple(replace(piece, text=_jumble(re.sub(r"\b(?:the|an|a) ", "", piece.text))) for piece in slipped)


def shuffle(draft: Draft, source: Source, level: int) -> Draft:  # noqa: ARG001
    """Exchange the last two sentences (1), put half of all pairs out of order (2), or reverse all (3)."""
    return tuple(draft[place] for place in SHUFFLES[level - 1])


def contradict(draft: Draft, source: Source, level: int) -> Draft:
    """Let a speaker deny what the same speaker has said before, in as many turns as the level says."""
    turns = list(draft)
    for stated, place, text in source["contradictions"][:level]:
        if stated >= place or (place - stated) % 2 or draft[stated].origin != stated:
            raise DatasetError(f"{source['context_id']} contradictions", place, "a later turn of the same speaker")
        turns[place] = Piece(text, None)
    return tuple(turns)


def echo(draft: Draft, source: Source, level: int) -> Draft:
    """Let a speaker say a turn again, word for word, in the next one to three turns of that speaker.

    The turns that go missing leave questions unanswered and answers unasked, which costs coherence.
    """
    first = source["repeat"]
    copies = range(first + 2, first + 2 * level + 1, 2)
    return tuple(draft[first] if place in copies else turn for place, turn in enumerate(draft))


def dull(draft: Draft, source: Source, level: int) -> Draft:
    """Let the speaker of `echo` end in one to three stock replies, which costs as much coherence."""
    last = source["repeat"] + 6
    put = {last - 2 * step: STOCK_REPLIES[step] for step in range(level)}
    return tuple(Piece(put[place], None) if place in put else turn for place, turn in enumerate(draft))


STEPS: tuple[Callable[[Draft, Source, int], Draft], ...] = (
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


def degrade(pieces: Sequence[str], source: Source, recipe: Mapping[str, int]) -> list[str]:
    """Apply a recipe, a mapping of degradation to level, to the sentences or turns of a written original."""
    draft: Draft = tuple(Piece(text, place) for place, text in enumerate(pieces))
    for step in STEPS:
        if step.__name__ in recipe:
            draft = step(draft, source, recipe[step.__name__])
    return [piece.text for piece in draft]


def score(recipe: Mapping[str, int], attribute: str, best: float) -> float:
    """Return the best score less what the recipe's degradations cost on an attribute."""
    return best - sum(LOSSES[name][level - 1].get(attribute, 0.0) for name, level in recipe.items())


def arrange(names: Sequence[str], row: int) -> list[str]:
    """Return the names in the order of one row of a Latin square, in which each takes every place once."""
    n = len(names)
    zigzag = [step // 2 if step % 2 == 0 else n - 1 - step // 2 for step in range(n)]
    return [names[(place + row) % n] for place in zigzag]


def read_sources(name: str, folder: Path = FOLDER) -> list[Source]:
    """Return the written originals and annotations of a constructed set."""
    document = json.loads(_file(folder, f"{name}.json").read_text(encoding="utf-8"))
    return list(document["contexts"])


def build(
    name: str,
    plans: Sequence[Mapping[str, Mapping[str, int]]],
    shift: int,
    write: Callable[[Source, Mapping[str, int]], str],
    attributes: Mapping[str, str],
    best: float,
) -> pd.DataFrame:
    """Degrade the written originals of a constructed set anew.

    Parameters
    ----------
    name : str
        Of the set.
    plans : sequence of mapping
        System → recipe (degradation → level); contexts take the plans in turn.
    shift : int
        Rows of the Latin square by which each plan's order lies behind that of the plan before.
    write : callable
        From a source and a recipe to the text of the candidate.
    attributes : mapping of str to str
        What is scored.
    best : float
        Score of a text that is not degraded.
    """
    rows = []
    for number, source in enumerate(read_sources(name)):
        turn, which = divmod(number, len(plans))
        for place, system in enumerate(arrange(list(plans[which]), row=turn + shift * which), start=1):
            recipe = plans[which][system]
            identity = {"context_id": source["context_id"], "candidate_id": f"c{place}", "system": system}
            scores = {attribute: score(recipe, attribute, best) for attribute in attributes}
            rows.append({**identity, "text": write(source, recipe), **scores})
    return pd.DataFrame(rows)


def read_built(name: str, attributes: Mapping[str, str], folder: Path | None, **fields: Any) -> Dataset:
    """Read a built set, and its contexts and references from the file that it was built from."""
    folder = FOLDER if folder is None else folder
    built = read_csv(_file(folder, f"{name}_built.csv"), keep_default_na=False)
    missing = [column for column in ("context_id", *attributes) if column not in built.columns]
    if missing:
        raise DatasetError(f"{name}_built.csv column", missing, f"the columns context_id, {', '.join(attributes)}")
    sources = {source["context_id"]: source for source in read_sources(name, folder)}
    unknown = ~built["context_id"].isin(list(sources))
    if unknown.any():
        raise DatasetError("built context_id", built.loc[unknown, "context_id"].iloc[0], f"one of {name}.json")
    built["context"] = [sources[context]["text"] for context in built["context_id"]]
    built["reference"] = [sources[context].get("reference", "") for context in built["context_id"]]
    wide = built.reset_index().melt(["index", "context_id", "candidate_id"], list(attributes), "attribute", "score")
    human = wide.sort_values("index", kind="stable").assign(annotator="construction")
    return Dataset(f"{name} (constructed)", built, human, attributes, **fields)


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise InputError("path", str(folder), f"a folder with the file {name}", "leave it out for the bundled set")
    return folder / name


def _substitute(draft: Draft, source: Source, which: str, count: int) -> Draft:
    """Apply the first ``count`` annotated substitutions whose sentence is still there, in all its copies."""
    present = {piece.origin for piece in draft}
    chosen = [(place, old, new) for place, old, new in source[which] if place in present][:count]
    if len(chosen) < count:
        raise DatasetError(f"{source['context_id']} {which}", len(chosen), f"{count} in the sentences that are left")
    for place, old, new in chosen:
        pattern = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
        if not all(pattern.search(piece.text) for piece in draft if piece.origin == place):
            raise DatasetError(f"{source['context_id']} {which}", old, f"words of sentence {place}")
        draft = tuple(
            replace(piece, text=pattern.sub(new, piece.text, count=1)) if piece.origin == place else piece
            for piece in draft
        )
    return draft


def _jumble(sentence: str) -> str:
    """Exchange the second word with the third, and the third last with the second last."""
    words = sentence.split()
    for left, right in ((1, 2), (len(words) - 3, len(words) - 2)):
        words[left], words[right] = words[right], words[left]
    return " ".join(words)
