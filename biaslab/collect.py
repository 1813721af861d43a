"""The one walk of every study: design → ask → read → trials."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self

import pandas as pd
from tqdm.auto import tqdm

from biaslab.core import (
    DECLINED,
    Choice,
    Closable,
    Design,
    Judge,
    Reply,
    Request,
    Status,
    Stoppable,
    Trial,
    Usage,
    request_key,
)
from biaslab.errors import BudgetExceededError, InputError, JudgeError, ModelChangedWarning
from biaslab.spending.budget import Budget
from biaslab.spending.cost import dollars, unanswered
from biaslab.store import Store

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

IDENTITY = ("probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute")
OUTCOME = ("replicate", "value", "status", "label_mass", "tokens", "key")


def collect(
    probe: Design,
    judge: Judge,
    dataset: Dataset,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
    budget: Budget | None = None,
) -> pd.DataFrame:
    """Ask a judge everything that a probe plans for a data set.

    Parameters
    ----------
    probe : Design
        What to ask and how to read it: a `Probe`, or a scorer of `biaslab.scoring`. Where its ``design`` takes a second
        parameter ``trials``, it is called again with the trials so far until it yields nothing.
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
        contexts fit. Later, when a partial budget, or one whose tokens or minutes could only be estimated, or one of a
        design that goes on with what was answered, is spent: everything answered so far is in the store.

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
    frames: list[pd.DataFrame] = []
    requests = 0
    models = Counter[str]()
    try:
        with tqdm(desc=probe.name, unit="reply", total=0, disable=not progress) as bar:
            while trials:
                places = _places(trials)
                _check(source, trials)
                if budget is not None:
                    missing = unanswered(judge, list(places), kept)
                    _require(budget, judge, missing, trials, asked)
                replies = _ask(source, places, trials, asked, bar, budget or Budget())
                requests += len(places)
                models.update(reply.model for reply in replies if reply.model is not None)
                frames.append(_frame(probe, judge, dataset, trials, replies))
                trials = _next_trials(probe, dataset, frames)
    finally:
        if kept is not None and kept is not store:
            kept.close()
    _warn_of(models, judge.id)
    frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    frame.attrs["asked"], frame.attrs["stored"] = asked.replies, requests - asked.replies
    return frame


class _Counted:
    """The judge, with a count of what it was really asked, and since when."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.replies, self.tokens, self.started = judge, 0, 0, time.monotonic()
        self.usage = Usage()
        self.id, self.kinds, self.check = judge.id, judge.kinds, judge.check

    def ask(self, requests: Iterable[Request]) -> _Counting:
        answers = self.judge.ask(requests)
        return _Paid(self, answers) if isinstance(answers, Stoppable) else _Counting(self, answers)

    def count(self, reply: Reply) -> None:
        self.replies += 1
        self.tokens += _tokens(reply)
        was, now = self.usage, reply.usage
        self.usage = Usage(
            was.prompt_tokens + now.prompt_tokens,
            was.cached_tokens + now.cached_tokens,
            was.completion_tokens + now.completion_tokens,
        )


class _Counting:
    """What it answers, counted; the judge's own iterator can be closed through it."""

    def __init__(self, counted: _Counted, answers: Iterator[tuple[Request, Reply]]) -> None:
        self._counted, self._answers = counted, answers

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Request, Reply]:
        request, reply = next(self._answers)
        self._counted.count(reply)
        return request, reply

    def close(self) -> None:
        if isinstance(self._answers, Closable):
            self._answers.close()


class _Paid(_Counting):
    """Answers of which several may be on their way: they can be stopped too."""

    _answers: Any

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        coming: Iterator[tuple[Request, Reply]] = self._answers.stop()
        return coming


def _next_trials(probe: Design, dataset: Dataset, frames: Sequence[pd.DataFrame]) -> list[Trial]:
    """Return what a design asks after the trials so far; nothing where it takes no trials."""
    if "trials" not in signature(probe.design).parameters:
        return []
    return list(probe.design(dataset, pd.concat(frames, ignore_index=True)))  # type: ignore[call-arg]


def _require(
    budget: Budget, judge: Judge, missing: Sequence[Request], trials: Sequence[Trial], asked: _Counted
) -> None:
    """Refuse what the budget does not cover: the first part of a design before it, a later one when all is spent."""
    if not asked.replies:
        budget.require(judge, missing, trials)
    elif missing and (spent := _spent(budget, asked)):
        raise BudgetExceededError(
            f"the budget is spent: {spent}; the design has more to ask, what was answered is kept if a store was "
            "given; run again with a larger budget to go on"
        )


def _spent(budget: Budget, asked: _Counted) -> str:
    if not asked.replies:
        return ""
    seconds = time.monotonic() - asked.started
    return budget.exceeded(asked.replies, asked.tokens, seconds, _paid(budget, asked))


def _paid(budget: Budget, asked: _Counted) -> float:
    return dollars(asked.usage, budget.prices) if budget.prices is not None else 0.0


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
    bar: tqdm[NoReturn],
    budget: Budget,
) -> list[Reply]:
    replies: list[Reply | None] = [None] * len(trials)
    bar.total = (bar.total or 0) + len(places)
    answers = judge.ask(list(places))
    with closing(answers):  # type: ignore[type-var]
        for done, (request, reply) in enumerate(answers, start=1):
            for index in places[request]:
                replies[index] = reply
            if budget.prices is not None:
                bar.set_postfix_str(f"${_paid(budget, asked):,.2f}", refresh=False)
            bar.update()
            spent = _spent(budget, asked)
            if spent and done < len(places):
                raise BudgetExceededError(
                    f"the budget is spent: {spent}; {done} of {len(places)} requests are answered, and kept if "
                    "a store was given; run again with a larger budget to go on"
                )
    if any(reply is None for reply in replies):
        raise JudgeError(f"the judge {judge.id!r} left requests unanswered")
    return replies  # type: ignore[return-value]


def _frame(
    probe: Design, judge: Judge, dataset: Dataset, trials: Sequence[Trial], replies: Sequence[Reply]
) -> pd.DataFrame:
    rows = []
    for trial, reply in zip(trials, replies, strict=True):
        value, status = _read(probe, trial, reply)
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


def _read(probe: Design, trial: Trial, reply: Reply) -> tuple[float, Status]:
    """Let the probe read a reply; a server that says it declined needs no reading."""
    if reply.finish_reason in DECLINED:
        return math.nan, "refused"
    return probe.read(trial, reply)


def _warn_of(models: Counter[str], judge_id: str) -> None:
    """Warn if the judgements of one study, new and stored, come from several models."""
    if len(models) > 1:
        shares = ", ".join(f"{count:,} from {name!r}" for name, count in models.most_common())
        words = f"the judgements of {judge_id!r} come from several models, as its server names them: {shares}"
        warnings.warn(words, ModelChangedWarning, stacklevel=3)


def _label_mass(request: Request, reply: Reply) -> float:
    if not isinstance(request, Choice) or reply.logprobs is None:
        return math.nan
    return math.fsum(map(math.exp, reply.logprobs))


def _tokens(reply: Reply) -> int:
    return reply.usage.prompt_tokens + reply.usage.completion_tokens
