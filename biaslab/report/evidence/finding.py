"""Find the prompts and replies of trials: in the store by key, or by rebuilding prompts from the data set."""

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
    """Prompts and replies of a set of trials.

    Parameters
    ----------
    requests, replies : mapping
        Mappings by key.
    dataset : Dataset, optional
        Source of texts and human scores.
    missing : tuple of str
        One line for each thing that was not found, with the remedy.
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
    """Find the prompts and replies of trials.

    Parameters
    ----------
    trials : pandas.DataFrame
        The judgements.
    store : Store or path, optional
        Store of the study's replies.
    dataset : Dataset, optional
        The data that was judged; bundled data sets are found by their name in the trials.
    probe : Design, optional
        Rebuilds prompts that are not in a store; by default the probe named in the trials, with default parameters. A
        prompt is accepted if its key equals the trial's.

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
    """Return the bundled data set that the trials name, or None."""
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
    """Return the named probe with default parameters, and its variant that parses text, if it has one."""
    if name not in names():
        return []
    kind = find_probe(name)
    texts = [kind(answer="text")] if "answer" in kind.__dataclass_fields__ else []  # type: ignore[call-arg]
    return [kind(), *texts]


def keyed_trials(design: Design, dataset: Dataset, judge_id: str) -> Iterator[tuple[str, Trial]]:
    """Yield planned trials with their keys; consecutive trials with the same request share one hash."""
    asked, key = None, ""
    for trial in design.design(dataset):
        if trial.request is not asked:
            asked, key = trial.request, request_key(trial.request, judge_id)
        yield key, trial


def _planned(trials: pd.DataFrame, dataset: Dataset, probe: Design | None) -> dict[str, Request]:
    """Rebuild the requests for the trials' contexts and return those whose keys match."""
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
    """Yield one line per missing thing, with the remedy."""
    of = f" of {count(len(keys), 'judgement')}"
    unasked, unheard = (len(set(keys) - set(known)) for known in (evidence.requests, evidence.replies))
    if not keys:
        reason = "a log has none" if "reply" in trials else "the trials have no key column to look them up by"
        yield f"Prompts are missing: {reason}; pass dataset= with the same identifiers to show source and candidates."
    elif store is None and unheard:
        unavailable = "Prompts and replies" if unasked else "Replies"
        yield f'{unavailable} are missing: pass the store of the study, as in show(…, store="judgements.sqlite").'
    elif unheard:
        yield f"{unheard}{of} are not in the store {store}: it belongs to another study, or they were pruned."
    lacking = set(trials["context_id"])
    if evidence.dataset is None and keys and evidence.requests:
        yield "Candidates are not marked: pass dataset= to find them in the prompts."
    elif evidence.dataset is not None and not lacking & set(evidence.dataset.candidates["context_id"]):
        yield f"Candidates are not marked: the data set {evidence.dataset.name} has none of these contexts."
