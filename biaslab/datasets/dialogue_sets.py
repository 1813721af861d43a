"""25 constructed sets of four to six dialogues each: repetitions and contradictions between the dialogues of a set.

After the sets of Chen et al. 2024 (LLM as a Scorer: The Impact of Output Order on Dialogue Evaluation), which are
judged as a whole: "each set contains four to six dialogues and exhibits one or more problems, such as repetition or
contradictions between dialogues". Theirs, made from the agents of Park et al. 2023, are not published; these were
written for biaslab. A set is one candidate, its dialogues stand in chronological order, and a high score is a bad one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset

ATTRIBUTE = "severity"
N_SETS = 25
#: Repeated exchanges and contradicted facts of a set; the sets take them in turn. None is without a problem.
PLANS = ((1, 0), (0, 1), (2, 0), (1, 1), (2, 2))
#: What one of them adds to the severity, which is 1 without any.
COSTS = (2.0, 2.5)
FIRST = ("Ada", "Cleo", "Eva", "Gita", "Ida", "Kim", "Mia")
SECOND = ("Ben", "Dan", "Finn", "Hugo", "Jon", "Leo", "Ned")
#: What can be true of the first speaker. Dialogue k tells fact k, and tells fact k − 2 once more.
FACTS = (
    ("Bergen", "Lyon", "Turin", "Porto", "Ghent"),
    ("my cat Pip", "my old dog Rex", "my parrot Coco", "my tortoise Zeno", "my rabbit Olive"),
    ("cello", "trumpet", "clarinet", "viola", "accordion"),
    ("a baker", "a postman", "a tram driver", "a nurse", "a florist"),
    ("Oslo", "Dublin", "Vienna", "Split", "Riga"),
    ("mint tea", "cold milk", "black coffee", "apple juice", "hot chocolate"),
    ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Saturdays"),
    ("nuts", "eggs", "celery", "mustard", "sesame"),
)
#: The turns of dialogue k, the first and third by the first speaker; {own} is fact k, {earlier} fact k − 2.
THEMES = (
    (
        "I grew up in {own}, every year of it.",
        "Then the streets here must look wide to you.",
        "They do, and I know but one way: to the hall, where we train on {earlier} and on no other day.",
        "That is a start. I will show you the rest.",
    ),
    (
        "I have to go home early, for {own} is waiting, the only animal I have.",
        "Take something along for dinner, then.",
        "Gladly, if it is without {earlier}; there is nothing else that I may not eat.",
        "I will ask in the kitchen what is in it.",
    ),
    (
        "In this case is my {own}, the one instrument that I play.",
        "Did you carry it all the way?",
        "From {earlier}, where I grew up from the first day to the last.",
        "No wonder that your shoulder hurts.",
    ),
    (
        "I work as {own} now, which is the first job I ever had.",
        "Who looks after things at home while you are out?",
        "Nobody but {earlier}, and I have no other animal.",
        "That is company enough.",
    ),
    (
        "For the holidays I go to my only sister, who has always lived in {own}.",
        "What will you bring her?",
        "A tune on the {earlier}, since I play nothing else.",
        "She will like that better than flowers.",
    ),
    (
        "Let us sit down; I take {own}, the only thing I ever drink.",
        "Have you the time?",
        "Until four. As {earlier}, which I have been since school, I start early tomorrow.",
        "Then I will call the waiter at once.",
    ),
    (
        "We train on {own}, and never on another day.",
        "So you could come to the cinema on Sunday?",
        "If my only sister may come along; she is here from {earlier}, where she has always lived.",
        "The more the merrier.",
    ),
    (
        "How kind of you to bake! I may eat anything but {own}.",
        "There is none in it, I made sure of that.",
        "A large piece, please, and {earlier} with it, since I drink nothing else.",
        "Both are on the table in a minute.",
    ),
)
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
        Not used: the sets are made from what stands in this module.

    Returns
    -------
    Dataset
        25 contexts without a source, one candidate each: a set of 4 to 6 dialogues of four turns, or six where an
        exchange is repeated. The one attribute, "severity", goes from 1 (no problem) to 10 (severe), by the annotator
        ``"construction"``.

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
        raise InputError("path", str(path), "None: these sets are bundled", "leave it out")
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
    """Write the dialogues of a set, and say how severe its problems are.

    Repeated is the beginning of the first and of the third dialogue, at the end of the one that follows; contradicted
    is what the first and what the second dialogue tell, in the one after the next.
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
    """Return what is true of the first speaker of a set; of another number something else is."""
    values = FACTS[theme % len(FACTS)]
    return values[(number // len(values) + number) % len(values)]


def _text(dialogues: Sequence[Sequence[str]], people: tuple[str, str]) -> str:
    """Write the dialogues below one another; speakers take turns."""
    blocks = (
        [f"Dialogue {count}", *(f"{people[turn % 2]}: {words}" for turn, words in enumerate(turns)), ""]
        for count, turns in enumerate(dialogues, start=1)
    )
    return "\n".join(chain.from_iterable(blocks)).strip()
