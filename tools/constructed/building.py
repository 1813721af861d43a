"""Build the constructed sets `graded` and `dialogues`: degrade their written originals, and write the built files.

Run ``python -m tools.constructed.building`` from a checkout after a change of a source file or of
`tools.constructed.degrading`: it rewrites ``graded_built.csv`` and ``dialogues_built.csv``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from biaslab.core.files import write_csv
from biaslab.datasets import construction
from biaslab.datasets.construction import FOLDER, WrittenOriginal, arrange, read_sources
from tools.constructed.degrading import degrade, score

#: Set -> plans, each a mapping of system to recipe (degradation -> level); contexts take the plans in turn.
PLANS: dict[str, tuple[Mapping[str, Mapping[str, int]], ...]] = {
    "graded": (
        {
            "clean": {},
            "disordered": {"shuffle": 3, "swap_facts": 1, "sidetrack": 1},
            "misreported": {"swap_facts": 3, "break_grammar": 1},
            "ungrammatical": {"break_grammar": 3, "shuffle": 1},
            "sidetracked": {"sidetrack": 3},
            "repetitive": {"repeat": 2, "swap_facts": 2, "break_grammar": 1},
        },
        {
            "clean": {},
            "scrambled": {"shuffle": 2, "break_grammar": 2},
            "misquoted": {"swap_facts": 2, "sidetrack": 1},
            "garbled": {"break_grammar": 3, "swap_facts": 1, "shuffle": 1},
            "rambling": {"sidetrack": 2, "repeat": 1},
            "muddled": {"shuffle": 3, "swap_facts": 3, "sidetrack": 1},
        },
    ),
    "dialogues": (
        {
            "clean": {},
            "echo_once": {"echo": 1},
            "echo_thrice": {"echo": 3},
            "contradictory": {"contradict": 2},
            "dull": {"dull": 3},
            "echo_and_contradiction": {"echo": 2, "contradict": 1},
        },
        {
            "clean": {},
            "echo_once": {"echo": 1},
            "echo_thrice": {"echo": 3},
            "contradictory": {"contradict": 2},
            "dull_and_contradiction": {"dull": 2, "contradict": 1},
        },
        {
            "clean": {},
            "echo_thrice": {"echo": 3},
            "dull": {"dull": 3},
            "echo_and_contradictions": {"echo": 1, "contradict": 2},
        },
    ),
}
ATTRIBUTES = {"graded": construction.GRADED_ATTRIBUTES, "dialogues": construction.DIALOGUE_ATTRIBUTES}
#: Set -> score of a text that is not degraded.
BEST = {"graded": 5.0, "dialogues": 10.0}
#: Set -> rows of the Latin square by which the order of each plan lies behind that of the plan before.
SHIFTS = {"graded": 0, "dialogues": 3}


def build(name: str) -> pd.DataFrame:
    """Degrade the written originals of a set.

    Parameters
    ----------
    name : {"graded", "dialogues"}
        Of the set.

    Returns
    -------
    pandas.DataFrame
        One row per context and candidate: ``context_id, candidate_id, system`` (the recipe), ``text`` and one score per
        attribute.
    """
    rows, plans = [], PLANS[name]
    for number, source in enumerate(read_sources(name)):
        turn, which = divmod(number, len(plans))
        for place, system in enumerate(arrange(list(plans[which]), row=turn + SHIFTS[name] * which), start=1):
            recipe = plans[which][system]
            identity = {"context_id": source["context_id"], "candidate_id": f"c{place}", "system": system}
            scores = {attribute: score(recipe, attribute, BEST[name]) for attribute in ATTRIBUTES[name]}
            rows.append({**identity, "text": write(source, recipe), **scores})
    return pd.DataFrame(rows)


def write(source: WrittenOriginal, recipe: Mapping[str, int]) -> str:
    """Return the degraded text of a source: a dialogue with its speakers, or a summary."""
    if "turns" not in source:
        return " ".join(degrade(source["summary"], source, recipe))
    turns = degrade(source["turns"], source, recipe)
    return "\n".join(f"{source['speakers'][place % 2]}: {text}" for place, text in enumerate(turns))


def main(folder: Path = FOLDER) -> None:
    """Write the built files of both sets."""
    for name in PLANS:
        write_csv(build(name), folder / f"{name}_built.csv")


if __name__ == "__main__":
    main()
