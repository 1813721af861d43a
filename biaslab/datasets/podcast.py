"""Podcast summary assessment: summaries of 179 transcripts by 20 systems, one human score each (path needed)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from biaslab.core.errors import DatasetError
from biaslab.core.schema import Dataset
from biaslab.datasets._files import FileRecord, from_rows, need_path, read_list, take, take_number

REMEDY = "get podcast_summary_assessment.json (github.com/potsawee), then load_dataset('podcast', path=...)"
#: The grades of TREC 2020, given in the file as letters, words or numbers.
GRADES = {"b": 0.0, "bad": 0.0, "f": 1.0, "fair": 1.0, "g": 2.0, "good": 2.0, "e": 3.0, "excellent": 3.0}


def load(path: str | Path | None = None, words: int | None = None) -> Dataset:
    """Load the podcast summary assessment corpus, used by Liusie et al. (2024).

    Parameters
    ----------
    path : str or Path
        A list of records with ``transcript``, ``summary``, ``score``, ``episode_id`` and ``system_id``; other fields
        are ignored.
    words : int, optional
        Truncate each transcript to this many words; they have about 6,000. By default no truncation.

    Returns
    -------
    Dataset
        Noun ``"summary"``, one attribute, "overall", from 0 (bad) to 3 (excellent), by the annotator ``assessor``.
        There is no ``reference``.

    Raises
    ------
    InputError
        If no path is given.
    DatasetError
        If a record lacks a field, or its score is not a grade; the message names file, row and field.

    References
    ----------
    Manakul & Gales 2022, *Podcast Summary Assessment*, arXiv 2208.13265; Liusie et al. 2024, §4.1.

    Examples
    --------
    >>> data = load("podcast_summary_assessment.json", words=1500)  # doctest: +SKIP
    """
    file = need_path(path, REMEDY)
    candidates, human = [], []
    for row, record in enumerate(read_list(file, REMEDY), start=1):
        place = f"{file}, row {row}"
        context, system = _name(record, "episode_id", place), _name(record, "system_id", place)
        transcript = take(record, "transcript", str, place).strip()
        if words is not None:
            transcript = " ".join(transcript.split()[:words])
        candidates.append((context, transcript, system, system, take(record, "summary", str, place).strip(), ""))
        human.append((context, system, "overall", "assessor", _grade(record, place)))
    attributes = {"overall": "the summary conveys the main points of the episode and reads well"}
    provenance = "Podcast Summary Assessment (Manakul & Gales 2022), with the grades of TREC 2020."
    return from_rows("podcast", candidates, human, attributes, (0.0, 3.0), "summary", provenance)


def _name(record: FileRecord, key: str, place: str) -> str:
    """Return an identifier, possibly given as a number."""
    value: Any = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return take(record, key, str, place)


def _grade(record: FileRecord, place: str) -> float:
    value = record.get("score")
    if not isinstance(value, str):
        return take_number(record, "score", place)
    if (grade := GRADES.get(value.strip().lower())) is None:
        raise DatasetError(f"{place}, column 'score'", value, "bad, fair, good, excellent, or 0 to 3")
    return grade
