"""25 constructed sets of four to six dialogues each, with repetitions and contradictions between dialogues.

After the sets of Chen et al. 2024 (LLM as a Scorer: The Impact of Output Order on Dialogue Evaluation), which are
judged as a whole: "each set contains four to six dialogues and exhibits one or more problems, such as repetition or
contradictions between dialogues". Their sets, made from the agents of Park et al. 2023, are not published; these were
written for biaslab, in ``dialogue_sets.json``. A set is one candidate, its dialogues are in chronological order, and a
high score is a bad one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset

ATTRIBUTE = "severity"
N_SETS = 25
#: Numbers of repeated exchanges and contradicted facts, which the sets take in turn. Every set has a problem.
PLANS = ((1, 0), (0, 1), (2, 0), (1, 1), (2, 2))
#: What each adds to the severity, which is 1 without any.
COSTS = (2.0, 2.5)
FIRST = ("Ada", "Cleo", "Eva", "Gita", "Ida", "Kim", "Mia")
SECOND = ("Ben", "Dan", "Finn", "Hugo", "Jon", "Leo", "Ned")
_WRITTEN = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: Facts about the first speaker. Dialogue k states fact k, and repeats fact k − 2.
FACTS: list[list[str]] = _WRITTEN["facts"]
#: The turns of dialogue k, the first and third by the first speaker; {own} is fact k, {earlier} fact k − 2.
THEMES: list[list[str]] = _WRITTEN["themes"]
PROVENANCE = (
    "Constructed for biaslab in the manner of Chen et al. 2024: sets of original dialogues with exchanges repeated and "
    "facts contradicted by a script, the severity derived from how many there are. Not human ratings. "
    "Licence: Apache-2.0."
)


def load(path: Path | None = None) -> Dataset:
    """Load the constructed sets of dialogues.

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
    >>> data = load()
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
    human = frame.assign(candidate_id="set", attribute=ATTRIBUTE, annotator="construction")
    definition = "the problems of the set of dialogues are many and severe"
    return Dataset(
        "dialogue_sets (constructed)",
        candidates,
        human,
        {ATTRIBUTE: definition},
        scale=(1.0, 10.0),
        noun="set of dialogues",
        provenance=PROVENANCE,
    )


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
    blocks = (
        [f"Dialogue {count}", *(f"{people[turn % 2]}: {words}" for turn, words in enumerate(turns)), ""]
        for count, turns in enumerate(dialogues, start=1)
    )
    return "\n".join(chain.from_iterable(blocks)).strip()
