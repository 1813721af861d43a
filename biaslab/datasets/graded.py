"""96 constructed texts with six summaries each; their order on four attributes is known by construction.

Texts, clean summaries and annotations were written for biaslab, in ``graded.json``; nothing is copied, and
nobody rated anything. `tools.constructed` degrades each clean summary; a score is 5 minus the documented losses of the
degradations applied. Row order carries no information: within a plan, every recipe occurs equally often in each of the
six positions.
"""

from __future__ import annotations

from pathlib import Path

from biaslab.core.schema import Dataset
from biaslab.datasets._constructed import read_built

ATTRIBUTES = {
    "coherence": "The sentences of the summary follow from one another and build a well-organised whole.",
    "consistency": "Every fact that the summary states is supported by the text.",
    "fluency": "The sentences of the summary are grammatical, well worded and not needlessly repeated.",
    "relevance": "The summary tells the most important content of the text and nothing beside the point.",
}

PROVENANCE = (
    "Constructed for biaslab: original texts with invented facts, summaries degraded by a script, scores "
    "derived from the degradations applied. Not human ratings. Licence: Apache-2.0."
)


def load(path: Path | None = None) -> Dataset:
    """Load the constructed summaries.

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
    >>> load()
    Dataset('graded (constructed)': 96 contexts, 576 candidates, 4 attributes, 2304 human scores)
    """
    return read_built("graded", ATTRIBUTES, path, scale=(1.0, 5.0), noun="summary", provenance=PROVENANCE)
