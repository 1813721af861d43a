"""The one walk of every study: design → ask → read → trials."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd
from tqdm.auto import tqdm

from biaslab.budget import Budget
from biaslab.core import Choice, Judge, Probe, Reply, Request, Trial, request_key
from biaslab.cost import unanswered
from biaslab.errors import BudgetExceededError, InputError, JudgeError
from biaslab.store import Store

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

IDENTITY = ("probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute")
OUTCOME = ("replicate", "value", "status", "label_mass", "tokens", "key")


def collect(
    probe: Probe,
    judge: Judge,
    dataset: Dataset,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
    budget: Budget | None = None,
) -> pd.DataFrame:
    """Ask a judge everything that a probe plans for a data set.

    Parameters
    ----------
    probe : Probe
        What to ask and how to read it.
    judge : Judge
        Who is asked.
    dataset : Dataset
        What is judged.
    store : Store or path, optional
        Where replies are kept. With a store, a run that was stopped goes on where it was, and a repeated run asks
        nothing.
    progress : bool
        Show a progress bar with rate and remaining time.
    budget : Budget, optional
        What replies that the store does not hold may cost. A run that it does not cover is not started, unless the
        budget is ``partial``.

    Returns
    -------
    pandas.DataFrame
        Trials, one row per judgement in the order of the design: ``probe, judge, dataset, context_id, candidate_id,
        opponent_id, attribute, <conditions>, replicate, value, status, label_mass, tokens, key``. ``value`` is NaN
        unless ``status`` is "ok" or "tie". ``label_mass`` is the probability that all labels have together, NaN for
        text. The number of replies that the judge gave now is in ``attrs["asked"]``, those from the store in
        ``attrs["stored"]``.

    Raises
    ------
    InputError
        If the probe plans nothing.
    JudgeError
        Before anything is asked, if a request cannot be answered; the message names context and candidate.
    BudgetExceededError
        Before anything is asked, if the budget does not cover the run; the message says what it needs and how many
        contexts fit. Later, when a partial budget, or one whose tokens or minutes could only be estimated, is spent:
        everything answered so far is in the store.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(bl.probes.Position(), bl.SimulatedJudge(data), data, progress=False)
    >>> len(trials)
    480
    """
    trials = list(probe.design(dataset))
    if not trials:
        raise InputError("probe", probe, "a design of at least one judgement", "give more contexts or candidates")
    kept = store if store is None or isinstance(store, Store) else Store(store)
    asked = _Counted(judge)
    source: Judge = asked if kept is None else kept.wrap(asked)
    try:
        places = _places(trials)
        _check(source, trials)
        if budget is not None:
            budget.require(judge, unanswered(judge, list(places), kept), trials)
        replies = _ask(source, places, trials, asked, probe.name if progress else None, budget or Budget())
        frame = _frame(probe, judge, dataset, trials, replies)
    finally:
        if kept is not None and kept is not store:
            kept.close()
    frame.attrs["asked"], frame.attrs["stored"] = asked.replies, len(places) - asked.replies
    return frame


class _Counted:
    """The judge, with a count of what it was really asked."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.replies, self.tokens = judge, 0, 0
        self.id, self.kinds, self.check = judge.id, judge.kinds, judge.check

    def ask(self, requests: Iterable[Request]) -> Any:
        for request, reply in self.judge.ask(requests):
            self.replies += 1
            self.tokens += _tokens(reply)
            yield request, reply


def _places(trials: Sequence[Trial]) -> dict[Request, list[int]]:
    places: dict[Request, list[int]] = {}
    for index, trial in enumerate(trials):
        places.setdefault(trial.request, []).append(index)
    return places


def _check(judge: Judge, trials: Sequence[Trial]) -> None:
    try:
        judge.check(list(dict.fromkeys(trial.request for trial in trials)))
    except JudgeError as error:
        trial = next((t for t in trials if t.request == error.request), None)
        if trial is None:
            raise
        shown = " and ".join(filter(None, (trial.candidate_id, trial.opponent_id)))
        raise type(error)(f"context {trial.context_id!r}, candidate {shown}: {error}", error.request) from error


def _ask(
    judge: Judge,
    places: dict[Request, list[int]],
    trials: Sequence[Trial],
    asked: _Counted,
    label: str | None,
    budget: Budget,
) -> list[Reply]:
    replies: list[Reply | None] = [None] * len(trials)
    started = time.monotonic()
    answers = judge.ask(list(places))
    with (
        closing(answers),  # type: ignore[type-var]
        tqdm(total=len(places), desc=label, unit="reply", disable=label is None) as bar,
    ):
        for done, (request, reply) in enumerate(answers, start=1):
            for index in places[request]:
                replies[index] = reply
            bar.update()
            spent = budget.exceeded(asked.replies, asked.tokens, time.monotonic() - started) if asked.replies else ""
            if spent and done < len(places):
                raise BudgetExceededError(
                    f"the budget is spent: {spent}; {done} of {len(places)} requests are answered, and kept if "
                    "a store was given; run again with a larger budget to go on"
                )
    if any(reply is None for reply in replies):
        raise JudgeError(f"the judge {judge.id!r} left requests unanswered")
    return replies  # type: ignore[return-value]


def _frame(
    probe: Probe, judge: Judge, dataset: Dataset, trials: Sequence[Trial], replies: Sequence[Reply]
) -> pd.DataFrame:
    rows = []
    for trial, reply in zip(trials, replies, strict=True):
        value, status = probe.read(trial, reply)
        identity = (
            probe.name,
            judge.id,
            dataset.name,
            trial.context_id,
            trial.candidate_id,
            trial.opponent_id,
        )
        key = request_key(trial.request, judge.id)
        outcome = (trial.replicate, value, status, _label_mass(trial.request, reply), _tokens(reply), key)
        rows.append(
            dict(zip(IDENTITY, (*identity, trial.attribute), strict=True))
            | dict(trial.condition)
            | dict(zip(OUTCOME, outcome, strict=True))
        )
    return pd.DataFrame(rows)


def _label_mass(request: Request, reply: Reply) -> float:
    if not isinstance(request, Choice) or reply.logprobs is None:
        return math.nan
    return math.fsum(map(math.exp, reply.logprobs))


def _tokens(reply: Reply) -> int:
    return reply.usage.prompt_tokens + reply.usage.completion_tokens
