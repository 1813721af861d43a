"""96 constructed texts with six summaries each, whose order on four attributes is known by construction.

Texts, clean summaries and annotations were written for biaslab and stand in ``graded.json``; nothing is
copied and nobody rated anything. `build` degrades each clean summary by the recipes of `PLANS`; a score is 5
less the documented losses of the degradations applied (see ``_degrade.py``). Row order carries no
information: within a plan, every recipe stands equally often in each of the six places.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from biaslab.core.schema import Dataset
from biaslab.datasets._degrade import Source, build as build_set, degrade, read_built

ATTRIBUTES = {
    "coherence": "The sentences of the summary follow from one another and build a well-organised whole.",
    "consistency": "Every fact that the summary states is supported by the text.",
    "fluency": "The sentences of the summary are grammatical, well worded and not needlessly repeated.",
    "relevance": "The summary tells the most important content of the text and nothing beside the point.",
}

PLANS: tuple[Mapping[str, Mapping[str, int]], ...] = (
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
)
"""The two sets of six recipes (degradation → level); texts take them in turn."""

PROVENANCE = (
    "Constructed for biaslab: original texts with invented facts, summaries degraded by a script, scores "
    "derived from the degradations applied. Not human ratings. Licence: Apache-2.0."
)


def build() -> pd.DataFrame:
    """Degrade the clean summaries anew.

    Returns
    -------
    pandas.DataFrame
        576 rows, one per text × candidate: ``context_id, candidate_id, system`` (the recipe), ``text`` and
        one score from 1 to 5 per attribute.
    """

    def write(source: Source, recipe: Mapping[str, int]) -> str:
        return " ".join(degrade(source["summary"], source, recipe))

    return build_set("graded", PLANS, 0, write, ATTRIBUTES, best=5.0)


def load(path: Path | None = None) -> Dataset:
    """Load the constructed summaries.

    Parameters
    ----------
    path : Path, optional
        Another folder with ``graded.json`` and ``graded_built.csv``; None reads the bundled files.

    Returns
    -------
    Dataset
        96 contexts with 6 summaries each and 2,304 scores on a scale from 1 to 5, by the annotator
        ``"construction"``. The reference is a further summary in one sentence, which is no candidate.

    Raises
    ------
    InputError
        If the folder lacks one of the files.

    Examples
    --------
    >>> load()
    Dataset('graded (constructed)': 96 contexts, 576 candidates, 4 attributes, 2304 human scores)
    """
    return read_built("graded", ATTRIBUTES, path, scale=(1.0, 5.0), noun="summary", provenance=PROVENANCE)
