"""The bundled data sets, constructed for biaslab: originals degraded in documented ways, with the resulting scores.

The candidates of `graded` and `dialogues` are degraded by `tools.constructed`, which writes the files read here. Those
of `lengths` and `dialogue_sets` are made on loading. Nobody rated anything: scores follow from the construction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.errors import DatasetError, InputError
from biaslab.core.files import read_csv
from biaslab.core.schema import Dataset
from biaslab.datasets._files import DECLARED

FOLDER = Path(__file__).parent
WrittenOriginal = Mapping[str, Any]
GRADED_ATTRIBUTES: dict[str, str] = DECLARED["graded"]


def load_graded(path: Path | None = None) -> Dataset:
    """96 constructed texts with six summaries each; their order on four attributes is known by construction.

    Texts, clean summaries and annotations were written for biaslab, in ``graded.json``; nothing is copied, and
    nobody rated anything. `tools.constructed` degrades each clean summary; a score is 5 minus the documented losses
    of the degradations applied. Row order carries no information: within a plan, every recipe occurs equally often
    in each of the six positions.

    Parameters
    ----------
    path : Path, optional
        Another folder with ``graded.json`` and ``graded_built.csv``; None for the bundled files.

    Returns
    -------
    Dataset
        96 contexts with 6 summaries each and 2,304 scores on a scale from 1 to 5, by the annotator ``"construction"``.
        The reference is an additional one-sentence summary, which is not a candidate.

    Raises
    ------
    InputError
        If the folder lacks one of the files.

    Examples
    --------
    >>> load_graded()
    Dataset('graded (constructed)': 96 contexts, 576 candidates, 4 attributes, 2304 human scores)
    """
    provenance = DECLARED["provenance"]["graded"]
    return read_built("graded", GRADED_ATTRIBUTES, path, scale=(1.0, 5.0), noun="summary", provenance=provenance)


LENGTH_ATTRIBUTES: dict[str, str] = DECLARED["lengths"]
LENGTHS: Mapping[str, Callable[[WrittenOriginal], list[str]]] = {
    "short": lambda source: list(source["summary"][:2]),
    "whole": lambda source: list(source["summary"]),
    "long": lambda source: [*source["summary"], source["aside"], source["reference"]],
}
#: Suffix of a length's name → number of facts replaced, each of which costs a point.
ERRORS = {"": 0, ", misreported": 2}


def load_lengths(path: Path | None = None) -> Dataset:
    """96 constructed texts with summaries of three lengths, each in a version without errors and one with two.

    Candidates of `graded` have similar lengths, so they carry almost no information about a length preference. Here
    each clean summary of ``graded.json`` is cut to its first two sentences, left unchanged, or extended by two
    sentences that the text supports; and each of these three occurs once unchanged and once with two facts
    replaced. Length and quality are thus independent by construction: a judge that gives longer texts higher scores
    prefers length.

    Parameters
    ----------
    path : Path, optional
        Another folder with ``graded.json``; None for the bundled file.

    Returns
    -------
    Dataset
        96 contexts with 6 summaries each and 576 scores of consistency on a scale from 1 to 5, by the annotator
        ``"construction"``: 5 without errors and 3 with two. There is no reference, because it is the end of the long
        summaries.

    Raises
    ------
    InputError
        If the folder lacks the file.

    Examples
    --------
    >>> data = load_lengths()
    >>> data
    Dataset('lengths (constructed)': 96 contexts, 576 candidates, 1 attributes, 576 human scores)
    >>> lengths = data.candidates["system"].str.partition(",")[0]
    >>> data.candidates["text"].str.split().str.len().groupby(lengths).mean().round().to_dict()
    {'long': 93.0, 'short': 33.0, 'whole': 63.0}
    """
    systems = {f"{length}{suffix}": (length, errors) for length in LENGTHS for suffix, errors in ERRORS.items()}
    rows = []
    for number, source in enumerate(read_sources("graded", path)):
        for place, system in enumerate(arrange(list(systems), number % len(systems)), start=1):
            length, errors = systems[system]
            sentences = substitute(draft_of(LENGTHS[length](source)), source, "swaps", errors)
            row = {"context_id": source["context_id"], "context": source["text"], "candidate_id": f"c{place}"}
            row |= {"system": system, "text": " ".join(piece.text for piece in sentences), "reference": ""}
            rows.append(row | {"score": 5.0 - errors})
    frame = pd.DataFrame(rows)
    human = frame.assign(attribute="consistency", annotator="construction")
    provenance = DECLARED["provenance"]["lengths"]
    return Dataset("lengths (constructed)", frame, human, LENGTH_ATTRIBUTES, (1.0, 5.0), "summary", provenance)


DIALOGUE_ATTRIBUTES: dict[str, str] = DECLARED["dialogues"]


def load_dialogues(path: Path | None = None) -> Dataset:
    """10 constructed situations with four to six dialogues each, with planted repetitions and contradictions.

    After the sets of Chen et al. 2024 (LLM as a Scorer: The Impact of Output Order on Dialogue Evaluation), whose
    problems are repetition and contradiction. Their data are not bundled; these dialogues were written for biaslab,
    in ``dialogues.json``, and nobody rated them. Chen et al. rate a whole set, from 1 (no issue) to 10 (severe
    problems); here each dialogue is a candidate, and 10 is the best score.

    `tools.constructed` degrades one clean dialogue of eight turns, partly with stock replies; a score is 10 minus the
    documented losses.

    Parameters
    ----------
    path : Path, optional
        Another folder with ``dialogues.json`` and ``dialogues_built.csv``; None for the bundled files.

    Returns
    -------
    Dataset
        10 contexts (a situation in one sentence) with 4 to 6 dialogues each and 153 scores on a scale from 1 to 10, by
        the annotator ``"construction"``. There is no reference.

    Raises
    ------
    InputError
        If the folder lacks one of the files.

    Examples
    --------
    >>> load_dialogues()
    Dataset('dialogues (constructed)': 10 contexts, 51 candidates, 3 attributes, 153 human scores)
    """
    provenance = DECLARED["provenance"]["dialogues"]
    return read_built("dialogues", DIALOGUE_ATTRIBUTES, path, scale=(1.0, 10.0), noun="dialogue", provenance=provenance)


SEVERITY = "severity"
N_SETS = 25
#: Numbers of repeated exchanges and contradicted facts, which the sets take in turn. Every set has a problem.
PLANS = ((1, 0), (0, 1), (2, 0), (1, 1), (2, 2))
#: What each adds to the severity, which is 1 without any.
COSTS = (2.0, 2.5)
FIRST = ("Ada", "Cleo", "Eva", "Gita", "Ida", "Kim", "Mia")
SECOND = ("Ben", "Dan", "Finn", "Hugo", "Jon", "Leo", "Ned")
_DIALOGUE_PARTS = json.loads((FOLDER / "dialogue_sets.json").read_text(encoding="utf-8"))
#: Facts about the first speaker. Dialogue k states fact k, and repeats fact k − 2.
FACTS: list[list[str]] = _DIALOGUE_PARTS["facts"]
#: The turns of dialogue k, the first and third by the first speaker; {own} is fact k, {earlier} fact k − 2.
THEMES: list[list[str]] = _DIALOGUE_PARTS["themes"]


def load_dialogue_sets(path: Path | None = None) -> Dataset:
    """25 constructed sets of four to six dialogues each, with repetitions and contradictions between dialogues.

    After the sets of Chen et al. 2024 (LLM as a Scorer: The Impact of Output Order on Dialogue Evaluation), which
    are judged as a whole: "each set contains four to six dialogues and exhibits one or more problems, such as
    repetition or contradictions between dialogues". Their sets, made from the agents of Park et al. 2023, are not
    published; these were written for biaslab, in ``dialogue_sets.json``. A set is one candidate, its dialogues are
    in chronological order, and a high score is a bad one.

    Parameters
    ----------
    path : None
        Not used: the sets are generated from the facts and themes in ``dialogue_sets.json``.

    Returns
    -------
    Dataset
        25 contexts without a source, one candidate each: a set of 4 to 6 dialogues with four turns, or six if an
        exchange is repeated. The only attribute, "severity", ranges from 1 (no problem) to 10 (severe), by the
        annotator ``"construction"``.

    Raises
    ------
    InputError
        If a path is given.

    Examples
    --------
    >>> data = load_dialogue_sets()
    >>> data
    Dataset('dialogue_sets (constructed)': 25 contexts, 25 candidates, 1 attributes, 25 human scores)
    >>> data.candidates["text"].iloc[0].splitlines()[:2]
    ['Dialogue 1', 'Ada: I grew up in Bergen, every year of it.']
    """
    if path is not None:
        raise InputError("path", str(path), "None: these sets are bundled", "omit it")
    rows = [(f"set_{number:02d}", *write_set(number)) for number in range(N_SETS)]
    frame = pd.DataFrame(rows, columns=["context_id", "text", "score"])
    candidates = frame.assign(context="", candidate_id="set", system="constructed", reference="")
    human = frame.assign(candidate_id="set", attribute=SEVERITY, annotator="construction")
    attributes = {SEVERITY: "the problems of the set of dialogues are many and severe"}
    provenance = DECLARED["provenance"]["dialogue_sets"]
    name, noun = "dialogue_sets (constructed)", "set of dialogues"
    return Dataset(name, candidates, human, attributes, (1.0, 10.0), noun, provenance)


def read_sources(name: str, folder: Path | None = None) -> list[WrittenOriginal]:
    """Return the written originals and annotations of a constructed set; None reads the bundled file."""
    document = json.loads(_file(folder or FOLDER, f"{name}.json").read_text(encoding="utf-8"))
    return list(document["contexts"])


def read_built(name: str, attributes: Mapping[str, str], folder: Path | None, **fields: Any) -> Dataset:
    """Read a built set, with contexts and references from its source file."""
    built = read_csv(_file(folder or FOLDER, f"{name}_built.csv"), keep_default_na=False)
    missing = [column for column in ("context_id", *attributes) if column not in built.columns]
    if missing:
        raise DatasetError.plain(f"{name}_built.csv lacks the columns {', '.join(missing)}")
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
        raise InputError("path", str(folder), f"a folder with the file {name}", "omit it for the bundled set")
    return folder / name


@dataclass(frozen=True)
class Piece:
    """A sentence or turn of a draft, and its position in the written original; None if it was inserted."""

    text: str
    origin: int | None


Draft = tuple[Piece, ...]


def draft_of(pieces: Sequence[str]) -> Draft:
    """Return the sentences or turns of a written original as a draft."""
    return tuple(Piece(text, place) for place, text in enumerate(pieces))


def substitute(draft: Draft, source: WrittenOriginal, which: str, count: int) -> Draft:
    """Apply the first annotated substitutions whose sentence is still present, to all its copies.

    Parameters
    ----------
    draft : tuple of Piece
        The sentences.
    source : mapping
        The original with its annotations.
    which : {"swaps", "slips"}
        Facts to replace by wrong ones, or grammatical errors: ``[place, old words, new words]`` each.
    count : int
        Number of substitutions.

    Raises
    ------
    DatasetError
        If fewer can be applied, or a sentence lacks the old words.
    """
    present = {piece.origin for piece in draft}
    chosen = [(place, old, new) for place, old, new in source[which] if place in present][:count]
    if len(chosen) < count:
        raise DatasetError.plain(f"{source['context_id']} {which}: {len(chosen)} can be applied, not {count}")
    for place, old, new in chosen:
        pattern = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
        if not all(pattern.search(piece.text) for piece in draft if piece.origin == place):
            raise DatasetError.plain(f"{source['context_id']} {which}: sentence {place} lacks {old!r}")
        draft = tuple(
            replace(piece, text=pattern.sub(new, piece.text, count=1)) if piece.origin == place else piece
            for piece in draft
        )
    return draft


def arrange(names: Sequence[str], row: int) -> list[str]:
    """Return the names in the order of one row of a Latin square, in which each takes every position once."""
    n = len(names)
    zigzag = [step // 2 if step % 2 == 0 else n - 1 - step // 2 for step in range(n)]
    return [names[(place + row) % n] for place in zigzag]


def write_set(number: int) -> tuple[str, float]:
    """Write the dialogues of a set, and return the severity of its problems.

    Repetition: the beginning of the first and of the third dialogue recurs at the end of the next one. Contradiction:
    the facts of the first and of the second dialogue are contradicted in the one after the next.
    """
    repeats, contradictions = PLANS[number % len(PLANS)]
    start, size = number % len(THEMES), 4 + number % 3
    themes = [(start + place) % len(THEMES) for place in range(size)]
    dialogues: list[list[str]] = []
    for place, theme in enumerate(themes):
        wrong = 2 <= place < 2 + contradictions
        own, earlier = _fact(theme, number), _fact(theme - 2, number + wrong)
        dialogues.append([turn.format(own=own, earlier=earlier) for turn in THEMES[theme]])
    whole = [list(turns) for turns in dialogues]
    for place in (1, 3)[:repeats]:
        whole[place] += dialogues[place - 1][:2]
    severity = 1 + sum(count * cost for count, cost in zip((repeats, contradictions), COSTS, strict=True))
    return _text(whole, (FIRST[number % len(FIRST)], SECOND[number % len(SECOND)])), severity


def _fact(theme: int, number: int) -> str:
    """Return a fact about the first speaker of a set; other numbers give other facts."""
    values = FACTS[theme % len(FACTS)]
    return values[(number // len(values) + number) % len(values)]


def _text(dialogues: Sequence[Sequence[str]], people: tuple[str, str]) -> str:
    """Write the dialogues one after another, with alternating speakers."""
    spoken = [[f"{people[turn % 2]}: {words}" for turn, words in enumerate(turns)] for turns in dialogues]
    blocks = ([f"Dialogue {count}", *lines, ""] for count, lines in enumerate(spoken, start=1))
    return "\n".join(chain.from_iterable(blocks)).strip()
