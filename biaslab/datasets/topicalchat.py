"""TopicalChat-USR: 6 responses to each of 60 dialogues, human means of six attributes (path needed)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.datasets._files import DECLARED, choose_by_scale, from_rows, need_path, read_list, take, take_number

#: Each attribute's scale and definition.
ATTRIBUTES = {name: ((low, high), about) for name, (low, high, about) in DECLARED["topicalchat"].items()}
REMEDY = "get the Topical-Chat file of github.com/maszhongming/UniEval, then load_dataset('topicalchat', path=...)"


def load(
    path: str | Path | None = None,
    attributes: Sequence[str] = ("naturalness", "coherence", "engagingness"),
    fact: bool = False,
) -> Dataset:
    """Load TopicalChat-USR from UniEval's JSON, plain or gzipped.

    The attributes were rated on three scales: naturalness, coherence and engagingness 1-3, groundedness and
    understandability 0-1, overall 1-5 (Mehri & Eskenazi). A data set has a single scale and nothing is rescaled, so
    one call returns attributes with a common scale: by default those rated 1-3.

    Parameters
    ----------
    path : str or Path
        A list of records with ``source`` (the dialogue, one turn per line), ``context`` (the fact), ``system_id``,
        ``system_output`` and ``scores``.
    attributes : sequence of str
        Attributes with a common scale.
    fact : bool
        Append the fact to the dialogue as ``Fact: …``. Groundedness cannot be judged without it.

    Returns
    -------
    Dataset
        Noun ``"response"``; 60 contexts × 6 candidates, named after their system, of which two are human: "Original
        Ground Truth" and "New Human Generated". ``annotator`` is ``human_mean``, the mean of three people; the file
        has no individual ratings. There is no ``reference``: the original response is itself a candidate. Surrounding
        white space is stripped from texts. ``context_id`` numbers the dialogues in the order of the file.

    Raises
    ------
    InputError
        If no path is given, the attributes do not share a scale, or groundedness is requested without the fact.
    DatasetError
        If a record lacks a field; the message names file, row and field.

    References
    ----------
    Mehri & Eskenazi 2020, *USR*, arXiv 2005.00456; Zhong et al. 2022, *UniEval*, arXiv 2210.07197.

    Examples
    --------
    >>> data = load("topical_chat.json", attributes=["overall"])  # doctest: +SKIP
    """
    definitions, scale = choose_by_scale(tuple(attributes), ATTRIBUTES)
    if "groundedness" in definitions and not fact:
        raise InputError("fact", fact, "True with groundedness, which is about the fact", "pass fact=True")
    file = need_path(path, REMEDY)
    candidates, human = [], []
    contexts: dict[tuple[str, str], str] = {}
    for row, record in enumerate(read_list(file, REMEDY), start=1):
        place = f"{file}, row {row}"
        source, about = take(record, "source", str, place), take(record, "context", str, place)
        key = contexts.setdefault((source, about), f"dialogue_{len(contexts):02d}")
        context = source.strip() + (f"\n\nFact: {about.strip()}" if fact else "")
        system, text = take(record, "system_id", str, place), take(record, "system_output", str, place)
        candidates.append((key, context, system, system, text.strip(), ""))
        scores = take(record, "scores", dict, place)
        human += [(key, system, name, "human_mean", take_number(scores, name, place)) for name in definitions]
    provenance = "TopicalChat-USR (Mehri & Eskenazi, ACL 2020) as distributed with UniEval (MIT licence)."
    return from_rows("topicalchat", candidates, human, definitions, scale, "response", provenance)
