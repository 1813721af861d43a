"""Rebuild trials from a store: plan the probes again and look up their replies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

import pandas as pd

from biaslab.core import KINDS, Design, Reply, Request, Status, Trial, request_key
from biaslab.core.errors import InputError
from biaslab.probes import find_probe, names
from biaslab.report.evidence.finding import default_designs, keyed_trials
from biaslab.report.evidence.grouping import NOT_READ
from biaslab.store import Store
from biaslab.study.collect import collect

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

#: Order of probes, pairs in both orders first: a reply shared by several probes is shown as a trial of the first.
_FIRST = "position"
_Manner = tuple[object, ...]
_Left = dict[str, dict[str, _Manner]]  # by judge: keys and request formats of replies that no probe has claimed yet
_COLUMNS = (
    "probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute", "replicate", "value",
    "status", "label_mass", "samples", "tokens", "key",
)  # fmt: skip


def trials_of_store(
    store: Store | str | PathLike[str], dataset: Dataset | None = None, probes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return a trial for every reply in a store.

    Parameters
    ----------
    store : Store or path
        The store.
    dataset : Dataset, optional
        The data that was judged, used to rebuild the probes' prompts and match them to the store. Without it, or for
        prompts that no probe with default parameters builds, a row has only prompt and reply: the probe is "unknown",
        there is no value, and the status is "not read".
    probes : sequence of str, optional
        Use only these probes, and leave out replies to other prompts.

    Returns
    -------
    pandas.DataFrame
        Trials as returned by `biaslab.collect`. A reply shared by several probes counts for the first of them.

    Raises
    ------
    InputError
        If a probe is unknown.
    StoreError
        If the store is missing or cannot be read.
    """
    probe_names = list(probes or sorted(names(), key=lambda name: name != _FIRST))
    designs = [design for name in probe_names for design in _required(name)]
    if isinstance(store, Store):
        return _trials(store, dataset, designs, everything=not probes)
    with Store(store, create=False) as opened:
        return _trials(opened, dataset, designs, everything=not probes)


def _required(name: str) -> list[Design]:
    find_probe(name)  # raises if unknown
    return default_designs(name)


def _trials(store: Store, dataset: Dataset | None, designs: Sequence[Design], everything: bool) -> pd.DataFrame:
    left: _Left = {}
    for record in store.records():
        left.setdefault(record.judge, {})[record.key] = _manner(record.request)
    parts = [] if dataset is None else list(_replayed(store, dataset, designs, left))
    if everything:
        parts.append(_unknown(store, left))
    whole = [part for part in parts if len(part)]
    return pd.concat(whole, ignore_index=True) if whole else pd.DataFrame(columns=list(_COLUMNS))


def _manner(request: Request) -> _Manner:
    """Return all fields of a request except the prompt: kind, labels, temperature and token limit."""
    return request.kind, *(getattr(request, name, None) for name in ("labels", "temperature", "max_tokens"))


def _replayed(store: Store, dataset: Dataset, designs: Sequence[Design], left: _Left) -> Iterator[pd.DataFrame]:
    """Yield the stored trials of each judge and probe, and remove their keys from `left`."""
    some = dataset.of_contexts([dataset.candidates["context_id"].mode().iloc[0]])
    planned = [(design, _manners(design, some)) for design in designs]
    for judge, keys in left.items():
        answers = _Answers(store, judge)
        for design, manners in planned:
            if manners and manners.isdisjoint(keys.values()):
                continue
            planned_here = _Planned(design, dataset, answers, keys)
            if planned_here.trials:
                trials = collect(planned_here, answers, dataset, progress=False)  # type: ignore[call-overload]
                for key in trials["key"].unique():
                    del keys[key]
                yield trials


def _manners(design: Design, some: Dataset) -> set[_Manner]:
    """Return the request formats that a design uses, seen in one context with many candidates."""
    try:
        return {_manner(trial.request) for trial in design.design(some)}
    except InputError:
        return set()


class _Answers:
    """A judge that answers only from a store."""

    kinds = frozenset(KINDS)

    def __init__(self, store: Store, judge_id: str) -> None:
        self.store, self.id = store, judge_id

    def check(self, requests: Iterable[Request]) -> None:
        """Do nothing: all planned requests are in the store."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Yield the stored replies."""
        keyed = {request_key(request, self.id): request for request in requests}
        for key, reply in self.store.get(keyed).items():
            yield keyed[key], reply


class _Planned:
    """A probe restricted to requests that the store answers and that no earlier probe claimed."""

    def __init__(self, design: Design, dataset: Dataset, answers: _Answers, keys: Mapping[str, _Manner]) -> None:
        self.name, self._probe = design.name, design
        try:
            self.trials = [trial for key, trial in keyed_trials(design, dataset, answers.id) if key in keys]
        except InputError:  # it needs something this data set lacks, such as a second attribute
            self.trials = []

    def design(self, _dataset: Dataset) -> list[Trial]:
        """Return the trials whose replies are stored."""
        return self.trials

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Parse like the probe."""
        return self._probe.read(trial, reply)


def _unknown(store: Store, left: _Left) -> pd.DataFrame:
    """Return a row for each reply that no probe claimed, without a value."""
    rows = [
        {
            "probe": "unknown",
            "judge": record.judge,
            "dataset": "unknown",
            "context_id": record.key[:12],
            "candidate_id": "",
            "opponent_id": None,
            "attribute": "unknown",
            "replicate": getattr(record.request, "replicate", 0),
            "value": math.nan,
            "status": NOT_READ,
            "label_mass": math.nan,
            "samples": math.nan,
            "tokens": record.reply.usage.tokens,
            "key": record.key,
        }
        for record in store.records()
        if record.key in left.get(record.judge, {})
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))
