"""10 constructed situations with four to six dialogues each: planted repetitions and contradictions.

After the sets of Chen et al. 2024 (LLM as a Scorer: The Impact of Output Order on Dialogue Evaluation), whose
problems are repetition and contradiction. Their data are not bundled; these dialogues were written for
biaslab, stand in ``dialogues.json``, and nobody rated them. Chen et al. rate a whole set, from 1 (no issue)
to 10 (severe problems); here each dialogue is a candidate, and 10 is the best score.

`build` degrades one clean dialogue of eight turns by the recipes of `PLANS`, which also plant stock replies;
a score is 10 less the documented losses (see ``_degrade.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from biaslab.core.schema import Dataset
from biaslab.datasets._degrade import Source, build as build_set, degrade, read_built

ATTRIBUTES = {
    "coherence": "The turns of the dialogue fit together, and no speaker contradicts what was said before.",
    "variety": "No speaker of the dialogue says the same thing again.",
    "engagingness": "The turns of the dialogue are specific and move the conversation on.",
}

PLANS: tuple[Mapping[str, Mapping[str, int]], ...] = (
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
)
"""Sets of six, five and four recipes (degradation → level); situations take them in turn."""

PROVENANCE = (
    "Constructed for biaslab in the manner of Chen et al. 2024: original dialogues with repetitions, "
    "contradictions and stock replies planted by a script, scores derived from them. "
    "Not human ratings. Licence: Apache-2.0."
)


def build() -> pd.DataFrame:
    """Degrade the clean dialogues anew.

    Returns
    -------
    pandas.DataFrame
        51 rows, one per situation × candidate: ``context_id, candidate_id, system`` (the recipe), ``text``
        and one score from 1 to 10 per attribute.
    """

    def write(source: Source, recipe: Mapping[str, int]) -> str:
        turns = degrade(source["turns"], source, recipe)
        return "\n".join(f"{source['speakers'][place % 2]}: {text}" for place, text in enumerate(turns))

    return build_set("dialogues", PLANS, 3, write, ATTRIBUTES, best=10.0)


def load(path: Path | None = None) -> Dataset:
    """Load the constructed dialogues.

    Parameters
    ----------
    path : Path, optional
        Another folder with ``dialogues.json`` and ``dialogues_built.csv``; None reads the bundled files.

    Returns
    -------
    Dataset
        10 contexts (a situation in one sentence) with 4 to 6 dialogues each and 153 scores on a scale from 1
        to 10, by the annotator ``"construction"``. There is no reference.

    Raises
    ------
    InputError
        If the folder lacks one of the files.

    Examples
    --------
    >>> load()
    Dataset('dialogues (constructed)': 10 contexts, 51 candidates, 3 attributes, 153 human scores)
    """
    return read_built("dialogues", ATTRIBUTES, path, scale=(1.0, 10.0), noun="dialogue", provenance=PROVENANCE)
