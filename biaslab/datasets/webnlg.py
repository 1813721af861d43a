"""WebNLG 2020: English texts by 16 systems from RDF triples, crowd ratings of 5 attributes (path needed)."""

from __future__ import annotations

import json
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.errors import DatasetError, InputError
from biaslab.core.files import Allowance
from biaslab.core.schema import CANDIDATE_COLUMNS, HUMAN_COLUMNS, Dataset
from biaslab.datasets._files import DECLARED

ATTRIBUTES: dict[str, str] = DECLARED["webnlg"]
KEYS = dict(zip(("Correctness", "DataCoverage", "Fluency", "Relevance", "TextStructure"), ATTRIBUTES, strict=True))
SCALE = (0.0, 100.0)
UNPUBLISHED = "WebNLG-2020-reference"
REMEDY = "clone github.com/WebNLG/challenge-2020: the ratings are in evaluation/human-evaluation/results/en"


def load(
    path: str | Path | None = None,
    texts: str | Path | None = None,
    triples: str | Path | None = None,
    systems: Sequence[str] | None = None,
) -> Dataset:
    """Load the human evaluation of WebNLG 2020 (English), joined with the texts and the triples.

    The ratings contain neither, so both are required; `read_ratings` reads the ratings alone.

    Parameters
    ----------
    path : str or Path
        Ratings: the folder ``evaluation/human-evaluation/results/en`` of the official repository, or a tar archive.
    texts : str or Path
        Submissions: the folder ``submissions/rdf2text/en``, with ``<system>/primary.en``, one text per line. Sample 3
        is line 3.
    triples : str or Path
        Test set: ``rdf-to-text-generation-test-data-with-refs-en.xml``. Sample 3 is the entry ``Id3``.
    systems : sequence of str, optional
        Systems to keep; by default all that were rated. The human texts, rated as ``WebNLG-2020-reference``, are not
        among the submissions and are dropped, unless ``texts`` has a folder of that name.

    Returns
    -------
    Dataset
        Noun ``"text"``, scale 0-100; ``context`` has one triple per line, ``subject | predicate | object``, and
        ``reference`` is the first of the entry's texts, if any. Blank texts are dropped, and ``provenance`` gives
        their number.

    Raises
    ------
    InputError
        If a path is missing.
    DatasetError
        If a system has no texts, a file has too few lines, or an entry is missing.

    References
    ----------
    Castro Ferreira et al. 2020, *The 2020 Bilingual, Bi-Directional WebNLG+ Shared Task*, aclanthology 2020.webnlg-1.7.

    Examples
    --------
    >>> data = load("results/en", texts="rdf2text/en", triples="test-with-refs.xml")  # doctest: +SKIP
    """
    ratings = read_ratings(path)
    if texts is None or triples is None:
        lacking = "texts" if texts is None else "triples"
        where = "submissions/rdf2text/en" if texts is None else "data/en/test/rdf-to-text-…-with-refs-en.xml"
        remedy = f"clone github.com/WebNLG/challenge-2020 and pass {where}, or use webnlg.read_ratings(path)"
        raise InputError.plain(f"{lacking} is missing, and the ratings contain none, expected: a path; {remedy}")
    chosen = _choose(ratings, Path(texts), systems)
    samples = sorted(ratings["context_id"].unique(), key=int)
    entries = _read_entries(Path(triples), samples)
    rows = []
    for system in chosen:
        file, needed = Path(texts) / system / "primary.en", int(samples[-1])
        lines = file.read_text(encoding="utf-8").split("\n")
        if len(lines) < needed:
            raise DatasetError.plain(f"{file} has {len(lines)} lines, expected: at least {needed}, one text per sample")
        for sample in samples:
            meaning, reference = entries[sample]
            rows.append((sample, meaning, system, system, lines[int(sample) - 1].strip(), reference))
    every = pd.DataFrame(rows, columns=list(CANDIDATE_COLUMNS))
    candidates = every[every["text"] != ""]
    known = pd.MultiIndex.from_frame(candidates[["context_id", "candidate_id"]])
    human = ratings[pd.MultiIndex.from_frame(ratings[["context_id", "candidate_id"]]).isin(known)]
    paper = "WebNLG 2020 human evaluation, English (Castro Ferreira et al., 2020), CC BY-NC-SA 4.0"
    note = f"{paper}. {len(chosen)} systems; {len(every) - len(candidates)} blank texts left out."
    return Dataset("webnlg", candidates, human, ATTRIBUTES, SCALE, "text", note)


def read_ratings(path: str | Path | None) -> pd.DataFrame:
    """Read only the ratings, from a folder ``<system>/primary.json`` or a tar archive (plain, gz, bz2, xz).

    Parameters
    ----------
    path : str or Path
        Folder or archive. ``primary.json`` maps sample → worker → the five ratings and, in some cases, ``feedback``,
        which is ignored. So are other files.

    Returns
    -------
    pandas.DataFrame
        One row per sample × system × attribute × worker, sorted: ``context_id`` (the sample), ``candidate_id`` (the
        system), ``attribute``, ``annotator`` (the worker), ``score`` (0-100). Texts without ratings have no rows.

    Raises
    ------
    InputError
        If the path is missing or neither a folder nor an archive.
    DatasetError
        If a file is malformed; the message names file, sample, worker and attribute.

    Examples
    --------
    >>> ratings = read_ratings("en.tar.xz")  # doctest: +SKIP
    """
    if path is None or not Path(path).exists():
        raise InputError("path", path if path is None else str(path), "a folder or archive of ratings", REMEDY)
    rows: list[tuple[str, str, str, str, float]] = []
    for system, name, content in _rating_files(Path(path)):
        rows += _parse_ratings(system, name, content)
    if not rows:
        raise DatasetError.plain(f"{path} holds no ratings, expected: <system>/primary.json, at least one; {REMEDY}")
    rows.sort(key=lambda row: (int(row[0]), *row[1:4]))
    return pd.DataFrame(rows, columns=list(HUMAN_COLUMNS))


def _rating_files(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield (system, file name, content) of every ``<system>/primary.json``, without unpacking to disk."""
    if path.is_dir():
        for file in sorted(path.rglob("primary.json")):
            yield file.parent.name, str(file), file.read_bytes()
        return
    try:
        allowance = Allowance(str(path), path.stat().st_size)
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.name.endswith("/primary.json") else None
                if content is not None:
                    yield member.name.split("/")[-2], f"{path}:{member.name}", allowance.read(content)
    except tarfile.TarError as error:
        raise InputError("path", str(path), f"a folder or a tar archive ({error})", REMEDY) from error


def _parse_ratings(system: str, name: str, content: bytes) -> Iterator[tuple[str, str, str, str, float]]:
    try:
        document: Mapping[str, Mapping[str, Mapping[str, Any]]] = json.loads(content)
    except ValueError as error:
        raise DatasetError.plain(f"{name} is not valid ({error}), expected: one JSON document") from error
    for sample, workers in document.items():
        if not sample.isdecimal():
            raise DatasetError(name, sample, "numeric sample ids")
        for worker, ratings in workers.items():
            for key, attribute in KEYS.items():
                score = ratings.get(key)
                if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 100:
                    place = f"{name}, sample {sample}, worker {worker}, {key}"
                    raise DatasetError(place, score, "a number from 0 to 100")
                yield sample, system, attribute, worker, float(score)


def _choose(ratings: pd.DataFrame, texts: Path, systems: Sequence[str] | None) -> list[str]:
    rated = sorted(ratings["candidate_id"].unique())
    having = {system for system in rated if (texts / system / "primary.en").is_file()}
    chosen = list(systems) if systems is not None else [s for s in rated if s in having or s != UNPUBLISHED]
    unknown = [system for system in chosen if system not in rated]
    if unknown or not chosen:
        raise InputError("systems", unknown or chosen, f"some of {', '.join(rated)}")
    lacking = [system for system in chosen if system not in having]
    if lacking:
        remedy = f"complete the folder, or use only its systems: systems={sorted(having)}"
        raise DatasetError.plain(f"{texts} lacks primary.en of {', '.join(lacking)}; {remedy}")
    return chosen


def _read_entries(file: Path, samples: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the triples and the reference of each entry of the test set."""
    if not file.is_file():
        raise InputError("triples", str(file), "the XML file of the test set", REMEDY)
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314 - expat bounds entity expansion; a file of the user's own
    except ElementTree.ParseError as error:
        raise DatasetError.plain(f"{file} is not valid ({error}), expected: the XML file of the test set") from error
    entries = {}
    for entry in root.iter("entry"):
        triples = [triple.text or "" for triple in entry.iterfind("modifiedtripleset/mtriple")]
        first = entry.find("lex")
        reference = "" if first is None else (first.text or "").strip()
        entries[entry.get("eid", "").removeprefix("Id")] = ("\n".join(triples), reference)
    lacking = [sample for sample in samples if not entries.get(sample, ("", ""))[0]]
    if lacking:
        raise DatasetError.plain(f"{file} has no triples of Id{lacking[0]}, expected: an <entry> for each rated sample")
    return entries
