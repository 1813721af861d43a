"""Rebuild trials from a store: plan the probes again, and look up their replies."""

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

#: Pairs in both orders first: of what several probes ask in the same words, the first one's trials are shown.
_FIRST = "position"
_Manner = tuple[object, ...]
_Left = dict[str, dict[str, _Manner]]  # by judge, how the requests were put whose replies no probe has planned yet
_COLUMNS = (
    "probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute", "replicate", "value",
    "status", "label_mass", "samples", "tokens", "key",
)  # fmt: skip


def trials_of_store(
    store: Store | str | PathLike[str], dataset: Dataset | None = None, probes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the trials of every reply in a store.

    Parameters
    ----------
    store : Store or path
        Where replies are kept.
    dataset : Dataset, optional
        What was judged: the prompts that probes plan for it are looked for in the store. Without it, or for prompts
        that no probe plans with its default parameters, a row has prompt and reply alone: the probe is "unknown", there
        is no value, and the status is "not read".
    probes : sequence of str, optional
        Only these; then prompts that they do not plan are left out.

    Returns
    -------
    pandas.DataFrame
        Trials as `biaslab.collect` returns them. A reply that several probes share is that of the first of them.

    Raises
    ------
    InputError
        If there is no such probe.
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
    find_probe(name)  # raises where there is none
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
    """Return everything about a request but its prompt: kind, labels, temperature and token limit."""
    return request.kind, *(getattr(request, name, None) for name in ("labels", "temperature", "max_tokens"))


def _replayed(store: Store, dataset: Dataset, designs: Sequence[Design], left: _Left) -> Iterator[pd.DataFrame]:
    """Yield the trials of each judge and probe that the store holds, and take their keys out of those that are left."""
    some = dataset.of_contexts([dataset.candidates["context_id"].mode().iloc[0]])
    planned = [(design, _manners(design, some)) for design in designs]
    for judge, keys in left.items():
        answers = _Answers(store, judge)
        for design, manners in planned:
            if manners and manners.isdisjoint(keys.values()):
                continue
            planned_here = _Planned(design, dataset, answers, keys)
            if planned_here.trials:
                trials = collect(planned_here, answers, dataset, progress=False)  # type: ignore[call-overload] # a name of its own
                for key in trials["key"].unique():
                    del keys[key]
                yield trials


def _manners(design: Design, some: Dataset) -> set[_Manner]:
    """Return how a design puts its requests, seen in a context of many candidates; nothing if it plans none there."""
    try:
        return {_manner(trial.request) for trial in design.design(some)}
    except InputError:
        return set()


class _Answers:
    """A judge that answers from a store alone."""

    kinds = frozenset(KINDS)

    def __init__(self, store: Store, judge_id: str) -> None:
        self.store, self.id = store, judge_id

    def check(self, requests: Iterable[Request]) -> None:
        """Nothing: what is planned is in the store."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Yield the stored replies."""
        keyed = {request_key(request, self.id): request for request in requests}
        for key, reply in self.store.get(keyed).items():
            yield keyed[key], reply


class _Planned:
    """A probe limited to the requests whose replies a store has, and that no earlier probe took."""

    def __init__(self, design: Design, dataset: Dataset, answers: _Answers, keys: Mapping[str, _Manner]) -> None:
        self.name, self._probe = design.name, design
        try:
            self.trials = [trial for key, trial in keyed_trials(design, dataset, answers.id) if key in keys]
        except InputError:  # it wants what this data set does not have, such as a second attribute
            self.trials = []

    def design(self, _dataset: Dataset) -> list[Trial]:
        """Plan what is stored."""
        return self.trials

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Read as the probe does."""
        return self._probe.read(trial, reply)


def _unknown(store: Store, left: _Left) -> pd.DataFrame:
    """Return a row for each reply that no probe planned: nobody read it."""
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
