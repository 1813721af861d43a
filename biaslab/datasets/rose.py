"""RoSE: summaries with human-annotated content units (ACU), and three rating protocols (path needed)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from biaslab.core.errors import DatasetError
from biaslab.core.schema import Dataset
from biaslab.datasets import _files
from biaslab.datasets._files import DECLARED, FileRecord, from_rows, need_path, read_jsonl, take, take_number

#: Each attribute's scale and definition.
ATTRIBUTES = {name: ((low, high), about) for name, (low, high, about) in DECLARED["rose"].items()}
NOT_RATED = -1
PROVENANCE = "RoSE (Liu et al., ACL 2023), for research purposes only; articles of CNN/DailyMail, XSum or SAMSum."
REMEDY = (
    "unpack rose_data.tar.gz of huggingface.co/datasets/Salesforce/rose and give one of its .jsonl files, or "
    "load_dataset('hub', name='Salesforce/rose', config='cnndm_test')"
)


def load(path: str | Path | None = None, attributes: Sequence[str] = ("acu",)) -> Dataset:
    """Load one part of the RoSE benchmark from its JSON Lines file, plain or gzipped.

    Parameters
    ----------
    path : str or Path
        For example ``rose_data/cnndm.test.acus.aggregated.jsonl``.
    attributes : sequence of str
        ``acu`` and ``normalized_acu`` (0-1: the share of the reference's atomic content units in the summary, without
        and with a length penalty) in every part; ``prior``, ``ref_free`` and ``ref_based`` (1-5) in the two protocol
        parts. One call returns attributes with a common scale; nothing is rescaled.

    Returns
    -------
    Dataset
        Noun ``"summary"``; ``annotator`` is ``aggregated``, because the release has no individual annotators.

    Raises
    ------
    InputError
        If no path is given, or the attributes do not share a scale.
    DatasetError
        If a record lacks a field; early releases lack ``source``, which only the Hub's loader provides.

    References
    ----------
    Liu et al. 2023, *Revisiting the Gold Standard*, arXiv 2212.07981.

    Examples
    --------
    >>> data = load("cnndm.test.acus.aggregated.jsonl", attributes=["normalized_acu"])  # doctest: +SKIP
    """
    file = need_path(path, REMEDY)
    return from_records(read_jsonl(file), attributes, str(file))


def from_records(records: Iterable[FileRecord], attributes: Sequence[str] = ("acu",), where: str = "rose") -> Dataset:
    """Convert RoSE records, from a file or the Hub, into a data set.

    Parameters
    ----------
    records : iterable of mapping
        One per article: ``source, reference, example_id`` (or ``count_id``), ``annotations`` (system → ``acu``,
        ``normalized_acu`` and, in the protocol parts, ``prior``, ``ref_free``, ``ref_based``) and ``system_outputs``
        (system → summary). A value of None or -1 means unrated. The annotated system ``reference`` of the GPT-3 part
        is the reference summary.
    attributes : sequence of str
        As in `load`.
    where : str
        Name of the records in messages.
    """
    definitions, scale = _files.choose_by_scale(tuple(attributes), ATTRIBUTES)
    names = tuple(definitions)
    candidates: list[tuple[str, ...]] = []
    human: list[tuple[object, ...]] = []
    for row, record in enumerate(records, start=1):
        place = f"{where}, row {row}"
        key = record.get("example_id") or record.get("count_id")
        if key is None:
            raise DatasetError.plain(f"{place}, column 'example_id' is missing, expected: an identifier")
        source, reference = take(record, "source", str, place), take(record, "reference", str, place)
        texts = dict(take(record, "system_outputs", dict, place))
        annotations = take(record, "annotations", dict, place)
        if annotations.get("reference"):
            texts.setdefault("reference", reference)
        for system, text in texts.items():
            if text is not None:
                candidates.append((str(key), source, system, system, text, reference))
                human += [(str(key), system, *rating) for rating in _ratings(annotations, system, names, place)]
    if not human:
        raise DatasetError.plain(f"{where}, column 'annotations' has no ratings of {', '.join(names)}; {REMEDY}")
    return from_rows("rose", candidates, human, definitions, scale, "summary", PROVENANCE)


def _ratings(annotations: FileRecord, system: str, names: tuple[str, ...], place: str) -> list[tuple[str, str, float]]:
    ratings = annotations.get(system) or {}
    rated = [name for name in names if ratings.get(name) not in (None, NOT_RATED)]
    where = f"{place}, system {system!r}"
    return [(name, "aggregated", take_number(ratings, name, where)) for name in rated]
