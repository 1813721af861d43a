"""10 constructed situations with four to six dialogues each, with planted repetitions and contradictions.

After the sets of Chen et al. 2024 (LLM as a Scorer: The Impact of Output Order on Dialogue Evaluation), whose problems
are repetition and contradiction. Their data are not bundled; these dialogues were written for biaslab, in
``dialogues.json``, and nobody rated them. Chen et al. rate a whole set, from 1 (no issue) to 10 (severe problems);
here each dialogue is a candidate, and 10 is the best score.

`tools.constructed` degrades one clean dialogue of eight turns, partly with stock replies; a score is 10 minus the
documented losses.
"""

from __future__ import annotations

from pathlib import Path

from biaslab.core.schema import Dataset
from biaslab.datasets._constructed import read_built

ATTRIBUTES = {
    "coherence": "The turns of the dialogue fit together, and no speaker contradicts what was said before.",
    "variety": "No speaker of the dialogue says the same thing again.",
    "engagingness": "The turns of the dialogue are specific and move the conversation on.",
}

PROVENANCE = (
    "Constructed for biaslab in the manner of Chen et al. 2024: original dialogues with repetitions, "
    "contradictions and stock replies planted by a script, scores derived from them. "
    "Not human ratings. Licence: Apache-2.0."
)


def load(path: Path | None = None) -> Dataset:
    """Load the constructed dialogues.

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
    >>> load()
    Dataset('dialogues (constructed)': 10 contexts, 51 candidates, 3 attributes, 153 human scores)
    """
    return read_built("dialogues", ATTRIBUTES, path, scale=(1.0, 10.0), noun="dialogue", provenance=PROVENANCE)
