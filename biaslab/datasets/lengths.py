"""Constructed texts with summaries of three lengths, each in a version without errors and one with two.

Candidates of `graded` have similar lengths, so they carry almost no information about a length preference. Here each
clean summary of ``graded.json`` is cut to its first two sentences, left unchanged, or extended by two sentences that
the text supports; and each of these three occurs once unchanged and once with two facts replaced. Length and quality
are thus independent by construction: a judge that gives longer texts higher scores prefers length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from biaslab.core.schema import Dataset
from biaslab.datasets._constructed import Source, arrange, draft_of, read_sources, substitute

ATTRIBUTES = {"consistency": "Every fact that the summary states is supported by the text."}
LENGTHS: Mapping[str, Callable[[Source], list[str]]] = {
    "short": lambda source: list(source["summary"][:2]),
    "whole": lambda source: list(source["summary"]),
    "long": lambda source: [*source["summary"], source["aside"], source["reference"]],
}
#: Suffix of a length's name → number of facts replaced, each of which costs a point.
ERRORS = {"": 0, ", misreported": 2}

PROVENANCE = (
    "Constructed for biaslab from the texts of `graded`: summaries of three lengths, half of them with two facts "
    "exchanged by a script, scores derived from that alone. Not human ratings. Licence: Apache-2.0."
)


def load(path: Path | None = None) -> Dataset:
    """Load the constructed summaries of three lengths.

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
    >>> data = load()
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
    return Dataset("lengths (constructed)", frame, human, ATTRIBUTES, (1.0, 5.0), noun="summary", provenance=PROVENANCE)
