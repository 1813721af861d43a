"""Data sets of the Hugging Face Hub: RoSE and SummEval by name (needs biaslab[hub] and a connection)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from biaslab.datasets import rose, summeval
from biaslab.datasets._files import Record
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError, MissingDependencyError

Fetch = Callable[[str, str | None, str, str | None], Iterable[Record]]


class _Source(NamedTuple):
    convert: Callable[..., Dataset]
    config: str | None
    split: str
    revision: str | None


#: RoSE's own revision is a script, which ``datasets`` no longer runs; the hub keeps a Parquet copy of it.
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
    **options: Any,
) -> Dataset:
    """Load a data set of the Hub through ``datasets``.

    Parameters
    ----------
    path : None
        Not used: a downloaded file is loaded by the loader of its data set.
    name : {"mteb/summeval", "Salesforce/rose"}
        The hub's name.
    config : str, optional
        RoSE's part: ``cnndm_test`` (default), ``cnndm_validation``, ``xsum``, ``samsum``, ``cnndm_protocol``,
        ``cnndm_protocol_gpt3``.
    split, revision : str, optional
        Other than the usual ones. Pin ``revision`` to a commit to have the same data later.
    fetch : callable, optional
        ``fetch(name, config, split, revision) -> records``; ``datasets.load_dataset`` unless given, such as
        for a mirror.
    **options
        For the conversion, such as ``attributes=["normalized_acu"]`` for RoSE.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If the name is unknown, a path is given, or the Hub does not serve the data set.
    MissingDependencyError
        If ``datasets`` is not installed.

    Examples
    --------
    >>> data = load(name="Salesforce/rose", config="xsum", attributes=["acu"])  # doctest: +SKIP
    """
    if path is not None:
        raise InputError("path", str(path), "None with 'hub'", "use load_dataset('summeval' or 'rose', path=...)")
    if name not in SOURCES:
        raise InputError("name", name, f"one of {', '.join(SOURCES)}", "download others and use 'tabular'")
    source = SOURCES[name]
    records = (fetch or _fetch)(name, config or source.config, split or source.split, revision or source.revision)
    return source.convert(records, where=name, **options)


def _fetch(name: str, config: str | None, split: str, revision: str | None) -> Iterable[Record]:
    try:
        import datasets
    except ImportError as error:
        message = f"{name} needs the package 'datasets': pip install 'biaslab[hub]'"
        raise MissingDependencyError(message) from error
    try:
        records: Iterable[Record] = datasets.load_dataset(name, config, split=split, revision=revision)
    except (OSError, ValueError, RuntimeError) as error:
        asked = f"{name}, config {config!r}, split {split!r}, revision {revision!r}"
        remedy = "check the connection, or download the files and use load_dataset('summeval' or 'rose', path=...)"
        raise InputError("name", asked, f"what the Hub serves ({error})", remedy) from error
    return records
