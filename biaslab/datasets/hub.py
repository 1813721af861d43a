"""Data sets on the Hugging Face Hub: SummEval and RoSE by name, others by columns (needs the extra hub)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.checks import require_extra
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.datasets import rose, summeval, tabular
from biaslab.datasets._files import FileRecord

Fetch = Callable[[str, str | None, str, str | None], Iterable[FileRecord]]


class _Source(NamedTuple):
    convert: Callable[..., Dataset]
    config: str | None
    split: str
    revision: str | None


#: RoSE's own revision is a script, which ``datasets`` no longer runs; the Hub keeps a Parquet copy of it.
SOURCES: dict[str, _Source] = {
    "Salesforce/rose": _Source(rose.from_records, "cnndm_test", "data", "refs/convert/parquet"),
    "mteb/summeval": _Source(summeval.from_hub_records, None, "test", None),
}


def load(
    path: str | Path | None = None,
    name: str = "mteb/summeval",
    config: str | None = None,
    split: str | None = None,
    revision: str | None = None,
    fetch: Fetch | None = None,
    columns: Mapping[str, str] | None = None,
    **options: Any,
) -> Dataset:
    """Load a data set from the Hub through ``datasets``.

    Parameters
    ----------
    path : None
        Not used: downloaded files are loaded by the loader of their data set.
    name : str
        Name on the Hub: ``"mteb/summeval"``, ``"Salesforce/rose"`` or, with ``columns``, any other.
    config : str, optional
        RoSE's part: ``cnndm_test`` (default), ``cnndm_validation``, ``xsum``, ``samsum``, ``cnndm_protocol``,
        ``cnndm_protocol_gpt3``.
    split, revision : str, optional
        Override the defaults, which for other data sets are ``"test"`` and the newest revision. Set ``revision`` to a
        commit for reproducibility.
    fetch : callable, optional
        ``fetch(name, config, split, revision) -> records``, for example for a mirror; by default
        ``datasets.load_dataset``.
    columns : mapping of str to str, optional
        Name in the schema → column of the data set, as in `biaslab.datasets.tabular.load`; may be empty if columns
        have the schema's names.
    **options
        Options of the conversion, for example ``attributes=["normalized_acu"]`` for RoSE; with ``columns`` those of
        `biaslab.datasets.tabular.load`: ``attributes``, ``scale``, ``noun``, ``provenance``.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If the name is unknown and there are no ``columns``, a path is given, or the Hub does not serve the data set.
    DatasetError
        If the mapped data set violates the schema; the message names row and column.
    MissingDependencyError
        If ``datasets`` is not installed.

    Examples
    --------
    >>> data = load(name="Salesforce/rose", config="xsum", attributes=["acu"])  # doctest: +SKIP

    Any other, here from a mirror that holds one record:

    >>> columns = {"context": "article", "text": "summary"}
    >>> mirror = lambda *_: [{"article": "It rained all day.", "summary": "Rain.", "quality": 4}]
    >>> load(name="somebody/summaries", columns=columns, attributes=["quality"], noun="summary", fetch=mirror)
    Dataset('somebody/summaries': 1 contexts, 1 candidates, 1 attributes, 1 human scores)
    """
    if path is not None:
        raise InputError("path", str(path), "None with 'hub'", "use load_dataset('summeval' or 'rose', path=...)")
    if columns is not None:
        source = _Source(_from_table, None, "test", None)
        options["columns"] = columns
    elif name in SOURCES:
        source = SOURCES[name]
    else:
        remedy = "for other data sets, name the columns to read: columns={'context': 'article', 'text': 'summary'}"
        raise InputError("name", name, f"one of {', '.join(SOURCES)}", remedy)
    records = (fetch or _fetch)(name, config or source.config, split or source.split, revision or source.revision)
    return source.convert(records, where=name, **options)


def _from_table(records: Iterable[FileRecord], where: str, **options: Any) -> Dataset:
    """Convert the records of any data set with a column mapping."""
    table = pd.DataFrame([dict(record) for record in records])
    known = {"name": where, "provenance": f"The data set {where} of the Hugging Face Hub, under its own licence."}
    return tabular.load(data=table, **(known | options))


def _fetch(name: str, config: str | None, split: str, revision: str | None) -> Iterable[FileRecord]:
    require_extra("hub", f"the data set {name!r}")
    import datasets

    try:
        records: Iterable[FileRecord] = datasets.load_dataset(name, config, split=split, revision=revision)
    except (OSError, ValueError, RuntimeError) as error:
        asked = f"{name}, config {config!r}, split {split!r}, revision {revision!r}"
        remedy = "check name and connection, or download the files and load them as 'summeval', 'rose' or 'tabular'"
        raise InputError.plain(f"the Hub has no {asked} ({error}); {remedy}") from error
    return records
