"""SummEval: news summaries by 16 systems, expert and crowd ratings of four attributes, 1-5 (path needed)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from biaslab.core.checks import require_one_of
from biaslab.core.errors import DatasetError, InputError
from biaslab.core.schema import Dataset
from biaslab.datasets._files import DECLARED, FileRecord, from_rows, need_path, read_json, read_jsonl, read_text, take

Annotators = Literal["expert", "turker", "all"]
ATTRIBUTES: dict[str, str] = DECLARED["summeval"]
SCALE = (1.0, 5.0)
PROVENANCE = (
    "SummEval (Fabbri et al., TACL 2021), MIT licence; CNN/DailyMail articles. "
    "Each article has 11 references; the first is the article's own highlights."
)
REMEDY = (
    "get model_annotations.aligned.paired.jsonl by following the README of github.com/Yale-LILY/SummEval, "
    "then load_dataset('summeval', path=...); or load_dataset('hub', name='mteb/summeval')"
)


def load(path: str | Path | None = None, annotators: Annotators = "expert") -> Dataset:
    """Load SummEval from its official JSON Lines file, or from BARTScore's file of expert means.

    The format is detected from the content; both may be gzipped.

    Parameters
    ----------
    path : str or Path
        Official file: one record per article × system with
        ``id, model_id, text, decoded, references, expert_annotations`` (3) and ``turker_annotations`` (5). Means file:
        a dictionary by article with ``src``, ``sys_summs`` (system → ``sys_summ``, ``scores``) and ``ref_summs``; its
        texts are tokenised differently.
    annotators : {"expert", "turker", "all"}
        Whose scores to keep. Annotators are named by their position in the record, ``expert_0`` … ``turker_4``, so the
        same name may be different people. The means file only has ``expert_mean``.

    Returns
    -------
    Dataset
        Noun ``"summary"``, scale 1-5. ``reference`` is the first of the 11 references, the article's own highlights;
        the 10 written later are the variables ``reference_2`` … ``reference_11``. ROUGE averages over all.

    Raises
    ------
    InputError
        If no path is given, or ``annotators`` is unknown or not in the file.
    DatasetError
        If a record lacks a field; the message names file, row and field.

    References
    ----------
    Fabbri et al. 2021, *SummEval: Re-evaluating Summarization Evaluation*, arXiv 2007.12626. Means: Yuan et al. 2021,
    *BARTScore*, arXiv 2106.11520.

    Examples
    --------
    >>> data = load("model_annotations.aligned.paired.jsonl", annotators="all")  # doctest: +SKIP
    """
    require_one_of("annotators", annotators, get_args(Annotators))
    file = need_path(path, REMEDY)
    if _is_official(file):
        return _from_annotations(read_jsonl(file), annotators, str(file))
    if annotators != "expert":
        raise InputError("annotators", annotators, "'expert' (this file has only expert means)", REMEDY)
    return _from_means(read_json(file), str(file))


def from_hub_records(records: Iterable[FileRecord], where: str = "mteb/summeval") -> Dataset:
    """Convert records of the Hub's ``mteb/summeval`` into a data set.

    Parameters
    ----------
    records : iterable of mapping
        One per article: ``id, text, machine_summaries`` (16), ``human_summaries`` (11) and for each attribute a list
        of 16 expert means. Systems have no names, so ``system`` is empty and ``candidate_id`` is the position.
    where : str
        Name of the records in messages.
    """
    candidates, human = [], []
    for row, record in enumerate(records, start=1):
        place = f"{where}, row {row}"
        key, text = take(record, "id", str, place), take(record, "text", str, place)
        references = take(record, "human_summaries", list, place)
        summaries = take(record, "machine_summaries", list, place)
        scores = {attribute: take(record, attribute, list, place) for attribute in ATTRIBUTES}
        for attribute, values in scores.items():
            if len(values) != len(summaries):
                raise DatasetError.plain(f"{place} has {len(values)} scores of {attribute}, not {len(summaries)}")
        for position, summary in enumerate(summaries):
            candidates.append((key, text, str(position), "", summary, references))
            human += [(key, str(position), a, "expert_mean", scores[a][position]) for a in ATTRIBUTES]
    return _dataset(candidates, human, "Expert means from the hub's mteb/summeval.")


def _is_official(file: Path) -> bool:
    """Return whether the first line is a complete record rather than the start of a dictionary by article."""
    try:
        first = json.loads(read_text(file).lstrip().split("\n", 1)[0])
    except json.JSONDecodeError:
        return False
    return isinstance(first, dict) and "model_id" in first


def _from_annotations(records: list[dict[str, Any]], annotators: Annotators, where: str) -> Dataset:
    candidates, human = [], []
    for row, record in enumerate(records, start=1):
        place = f"{where}, row {row}"
        if "text" not in record:
            raise DatasetError.plain(f"{place} has no column 'text' with the article; pair the file first: {REMEDY}")
        key, system = take(record, "id", str, place), take(record, "model_id", str, place)
        article, summary = take(record, "text", str, place), take(record, "decoded", str, place)
        candidates.append((key, article, system, system, summary, take(record, "references", list, place)))
        human += [(key, system, *rating) for rating in _ratings(record, annotators, place)]
    return _dataset(candidates, human, f"Annotators: {annotators}.")


def _ratings(record: FileRecord, annotators: Annotators, place: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (attribute, annotator, score) of one record."""
    for group in ("expert", "turker") if annotators == "all" else (annotators,):
        for position, scores in enumerate(take(record, f"{group}_annotations", list, place)):
            for attribute in ATTRIBUTES:
                if scores.get(attribute) is not None:
                    yield attribute, f"{group}_{position}", scores[attribute]


def _from_means(document: Any, where: str) -> Dataset:
    if not isinstance(document, Mapping):
        raise DatasetError.plain(f"{where} has neither SummEval records nor a dictionary by article; {REMEDY}")
    candidates, human = [], []
    for key, record in document.items():
        place = f"{where}, article {key!r}"
        if not isinstance(record, Mapping):
            raise DatasetError(place, record, "SummEval records or a dictionary by article", REMEDY)
        source = take(record, "src", str, place)
        references = take(record, "ref_summs", list, place)
        for system, output in take(record, "sys_summs", dict, place).items():
            at = f"{place}, system {system!r}"
            candidates.append((key, source, system, system, take(output, "sys_summ", str, at), references))
            scores = take(output, "scores", dict, at)
            human += [(key, system, a, "expert_mean", scores[a]) for a in ATTRIBUTES if a in scores]
    return _dataset(candidates, human, "Expert means from BARTScore's file (Apache-2.0).")


def _dataset(candidates: list[tuple[Any, ...]], human: list[tuple[Any, ...]], note: str) -> Dataset:
    """Return the data set of rows that end with their list of references."""
    most = max((len(row[-1]) for row in candidates), default=0)
    names = [f"reference_{number}" for number in range(2, most + 1)]
    rows = [(*row[:-1], *(str(text) for text in row[-1]), *[""] * (max(most, 1) - len(row[-1]))) for row in candidates]
    return from_rows("summeval", rows, human, ATTRIBUTES, SCALE, "summary", f"{PROVENANCE} {note}", names)
