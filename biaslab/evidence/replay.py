"""A store as trials again: judgements that probes would plan, and what no probe knows as prompt and reply alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from os import PathLike
from typing import TYPE_CHECKING

import pandas as pd

from biaslab.collect import collect
from biaslab.core import KINDS, Design, Reply, Request, Status, Trial, request_key
from biaslab.evidence.finding import default_designs, keyed_trials
from biaslab.evidence.grouping import NOT_READ
from biaslab.probes import find_probe, names
from biaslab.store import Store

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

#: Pairs in both orders first: of what several probes ask in the same words, the first one's trials are shown.
_FIRST = "position"
_COLUMNS = (
    "probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute", "replicate", "value",
    "status", "label_mass", "samples", "tokens", "key",
)  # fmt: skip


def trials_of_store(
    store: Store | str | PathLike[str], dataset: Dataset | None = None, probes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the trials of every reply in a store, as far as it is known what was judged.

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
    known = list(probes or sorted(names(), key=lambda name: name != _FIRST))
    designs = [design for name in known for design in _required(name)]
    if isinstance(store, Store):
        return _trials(store, dataset, designs, everything=not probes)
    with Store(store, create=False) as opened:
        return _trials(opened, dataset, designs, everything=not probes)


def _required(name: str) -> list[Design]:
    find_probe(name)  # raises where there is none
    return default_designs(name)


def _trials(store: Store, dataset: Dataset | None, designs: Sequence[Design], everything: bool) -> pd.DataFrame:
    seen: set[str] = set()
    parts = [] if dataset is None else list(_replayed(store, dataset, designs, seen))
    if everything:
        parts.append(_unknown(store, seen))
    whole = [part for part in parts if len(part)]
    return pd.concat(whole, ignore_index=True) if whole else pd.DataFrame(columns=list(_COLUMNS))


def _replayed(store: Store, dataset: Dataset, designs: Sequence[Design], seen: set[str]) -> Iterator[pd.DataFrame]:
    """Yield the trials of each judge and probe that the store holds, and add their keys to those seen."""
    for judge, design in product(map(str, store.info()["judge"].unique()), designs):
        answers = _Answers(store, judge)
        planned = _Planned(design, dataset, answers, seen)
        if planned.trials:
            found = collect(planned, answers, dataset, progress=False)  # type: ignore[call-overload] # a name of its own
            seen |= set(found["key"])
            yield found


class _Answers:
    """What a store holds of a judge, as a judge that nobody asks."""

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
    """A probe that plans only what a store holds of one judge, and no reply twice for different probes."""

    def __init__(self, design: Design, dataset: Dataset, answers: _Answers, seen: set[str]) -> None:
        self.name, self._probe = design.name, design
        keyed = list(keyed_trials(design, dataset, answers.id))
        stored = answers.store.get({key for key, _ in keyed} - seen).keys()
        self.trials = [trial for key, trial in keyed if key in stored]

    def design(self, _dataset: Dataset) -> list[Trial]:
        """Plan what is stored."""
        return self.trials

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Read as the probe does."""
        return self._probe.read(trial, reply)


def _unknown(store: Store, seen: set[str]) -> pd.DataFrame:
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
        if record.key not in seen
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS))
