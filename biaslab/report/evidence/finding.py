"""Look up prompts and replies of trials: in the store by key, or planned again from the data set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING

from biaslab import datasets
from biaslab.core import Design, Reply, Request, Trial, request_key
from biaslab.core.output import count
from biaslab.probes import find_probe, names
from biaslab.store import Store
from biaslab.store.codec import Record

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.datasets import Dataset

_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Evidence:
    """Prompts and replies of some trials.

    Parameters
    ----------
    requests, replies : mapping
        By key.
    dataset : Dataset, optional
        Where texts and human scores are.
    missing : tuple of str
        What could not be found, and how to get it, a line each.
    """

    requests: Mapping[str, Request] = field(default_factory=dict)
    replies: Mapping[str, Reply] = field(default_factory=dict)
    dataset: Dataset | None = None
    missing: tuple[str, ...] = ()


def find(
    trials: pd.DataFrame,
    store: Store | str | PathLike[str] | None = None,
    dataset: Dataset | None = None,
    probe: Design | None = None,
) -> Evidence:
    """Look up prompts and replies of trials.

    Parameters
    ----------
    trials : pandas.DataFrame
        Some judgements.
    store : Store or path, optional
        Where the replies of the study are kept.
    dataset : Dataset, optional
        What was judged; a bundled one is found by the name in the trials.
    probe : Design, optional
        Plans prompts again that no store holds; by default the probe that the trials name, with its default parameters.
        A prompt counts as found where its key is that of the trial.

    Raises
    ------
    StoreError
        If the store is missing or cannot be read.
    """
    known = trials["key"].dropna().unique() if "key" in trials else ()
    keys = [key for key in map(str, known) if _KEY.fullmatch(key)]
    requests: dict[str, Request] = {}
    replies: dict[str, Reply] = {}
    if store is not None:
        for record in _records(store, keys):
            requests[record.key], replies[record.key] = record.request, record.reply
    data = dataset or bundled(trials)
    left = set(keys) - set(requests)
    if data is not None and left:
        requests |= _planned(trials[trials["key"].isin(left)], data, probe)
    evidence = Evidence(requests, replies, data)
    return replace(evidence, missing=tuple(_missing(trials, keys, store, evidence)))


def bundled(trials: pd.DataFrame) -> Dataset | None:
    """Return the data set that comes with the package and that trials name; None where they name another."""
    dataset_names = set(trials["dataset"].dropna()) if "dataset" in trials else set()
    name = str(next(iter(dataset_names), ""))
    if (
        len(dataset_names) != 1
        or not name.endswith("(constructed)")
        or name.partition(" ")[0] not in datasets.available()
    ):
        return None
    dataset = datasets.load_dataset(name.partition(" ")[0])
    return dataset if dataset.name == name else None


def _records(store: Store | str | PathLike[str], keys: Sequence[str]) -> Iterator[Record]:
    if isinstance(store, Store):
        yield from store.records(keys)
    else:
        with Store(store, create=False) as opened:
            yield from opened.records(keys)


def default_designs(name: str) -> list[Design]:
    """Return the probe of a name with its default parameters, and the one that reads texts, if it has such a way."""
    if name not in names():
        return []
    kind = find_probe(name)
    texts = [kind(answer="text")] if "answer" in kind.__dataclass_fields__ else []  # type: ignore[call-arg]
    return [kind(), *texts]


def keyed_trials(design: Design, dataset: Dataset, judge_id: str) -> Iterator[tuple[str, Trial]]:
    """Yield what is planned, each with its key; a request that many trials share in a row is hashed once."""
    asked, key = None, ""
    for trial in design.design(dataset):
        if trial.request is not asked:
            asked, key = trial.request, request_key(trial.request, judge_id)
        yield key, trial


def _planned(trials: pd.DataFrame, dataset: Dataset, probe: Design | None) -> dict[str, Request]:
    """Plan the contexts of trials again and return the requests whose keys are theirs."""
    keys, requests = set(trials["key"]), dict[str, Request]()
    part = dataset.of_contexts(trials["context_id"].unique())
    if part.candidates.empty:
        return requests
    probes = trials["probe"] if "probe" in trials else trials["judge"].map(lambda _: "")
    for name, judge in dict.fromkeys(zip(probes, trials["judge"], strict=True)):
        for design in default_designs(str(name)) if probe is None else [probe]:
            planned = keyed_trials(design, part, str(judge))
            requests |= {key: trial.request for key, trial in planned if key in keys}
    return requests


def _missing(
    trials: pd.DataFrame,
    keys: Sequence[str],
    store: object,
    evidence: Evidence,
) -> Iterator[str]:
    """Yield a line for each thing that is missing, with the remedy."""
    of = f" of {count(len(keys), 'judgement')}"
    unasked, unheard = (len(set(keys) - set(known)) for known in (evidence.requests, evidence.replies))
    if not keys:
        reason = "a log has none" if "reply" in trials else "trials have no column key by which to look them up"
        yield f"Prompts are missing: {reason}; dataset= shows source and candidates, if its identifiers are the same."
    elif store is None and unheard:
        what = "Prompts and replies" if unasked else "Replies"
        yield f'{what} are missing: they are in the store of the study, show(…, store="judgements.sqlite").'
    elif unheard:
        yield f"{unheard}{of} are not in the store {store}: it is that of another study, or they were pruned."
    lacking = set(trials["context_id"])
    if evidence.dataset is None and keys and evidence.requests:
        yield "Candidates are not marked: dataset= tells where they stand in the prompts."
    elif evidence.dataset is not None and not lacking & set(evidence.dataset.candidates["context_id"]):
        yield f"The data set {evidence.dataset.name} has none of these contexts: candidates are not marked."
