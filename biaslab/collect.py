"""The one walk of every study: design → ask → read → trials."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, nullcontext
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd

from biaslab.checks import require_study
from biaslab.core import DECLINED, Choice, Closable, Design, Judge, Reply, Request, Trial, Usage, request_key
from biaslab.errors import BudgetExceededError, InputError, JudgeError, ModelChangedWarning
from biaslab.progress import progress_bar
from biaslab.spending.announcement import foresee
from biaslab.spending.budget import Budget
from biaslab.spending.cost import dollars, unanswered
from biaslab.store import Store
from biaslab.store.stored import StoredJudge

if TYPE_CHECKING:
    from tqdm import tqdm

    from biaslab.datasets import Dataset


def collect(
    probe: Design,
    judge: Judge,
    dataset: Dataset,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
    budget: Budget | None = None,
    announce: bool | None = None,
) -> pd.DataFrame:
    """Ask a judge everything that a probe plans for a data set.

    Parameters
    ----------
    probe : Design
        What to ask and how to read it: a `Probe`, or a scorer of `biaslab.scoring`. Where its ``design`` takes a second
        parameter ``trials``, it is called again with the trials so far until it yields nothing. Where it has
        ``keeps_replies`` and that is true, trials have a column ``reply``, the text of each reply, for a later round.
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
    announce : bool, optional
        Say in one line, before the first request, how many there are, their tokens, and cost and time where these are
        known. By default where a progress bar is shown. Nothing is said where the store holds every reply.

    Returns
    -------
    pandas.DataFrame
        Trials, one row per judgement in the order of the design: ``probe, judge, dataset, context_id, candidate_id,
        opponent_id, attribute, <conditions>, replicate, value, status, label_mass, samples, tokens, key``. ``value`` is
        NaN unless ``status`` is "ok" or "tie". ``label_mass`` is the probability that all labels have together, NaN for
        text. ``samples`` says of how many samples that and the value are shares, NaN where they are exact. The number
        of replies that the judge gave now is in ``attrs["asked"]``, those from the store in ``attrs["stored"]``.

    Raises
    ------
    InputError
        If the probe plans nothing, or probe, judge or data set are something else.
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
    require_study(probe, judge, dataset)
    trials = list(probe.design(dataset))
    if not trials:
        raise InputError("probe", probe, "a design of at least one judgement", "give more contexts or candidates")
    kept = store if store is None or isinstance(store, Store) else Store(store)
    source = judge if kept is None else kept.wrap(judge)
    spent = _Spent(budget or Budget(), source)
    frames: list[pd.DataFrame] = []
    requests = 0
    models = Counter[str]()
    try:
        with progress_bar(desc=probe.name, unit="reply", total=0, disable=not progress) as bar:
            while trials:
                places: dict[Request, list[int]] = {}
                for index, trial in enumerate(trials):
                    places.setdefault(trial.request, []).append(index)
                _check(source, list(places), trials)
                tells = not frames and (progress if announce is None else announce)
                missing = unanswered(judge, list(places), kept) if tells or budget is not None else []
                if budget is not None:
                    spent.require(judge, missing, trials)
                if tells and missing:
                    planned = foresee(judge, missing, len(places) - len(missing), budget, _goes_on(probe))
                    bar.write(f"{probe.name}: {planned}")
                replies = _ask(source, places, spent, bar)
                requests += len(places)
                models.update(reply.model for reply in replies if reply.model is not None)
                frames.append(_frame(probe, judge, dataset, trials, replies))
                trials = _next_trials(probe, dataset, frames)
    finally:
        if kept is not None and kept is not store:
            kept.close()
    _warn_of_several_models(models, judge.id)
    frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    frame.attrs["asked"], frame.attrs["stored"] = spent.requests, requests - spent.requests
    return frame


class _Spent:
    """What a run has asked of its judge so far, since when, and how much of it the budget allows."""

    def __init__(self, budget: Budget, source: Judge) -> None:
        self.budget, self.source, self.started = budget, source, time.monotonic()
        self.requests, self.usage = 0, Usage()

    def count(self, reply: Reply) -> None:
        """Count a reply, unless it came from the store."""
        if not isinstance(self.source, StoredJudge) or self.source.asked > self.requests:
            self.requests, self.usage = self.requests + 1, self.usage + reply.usage

    def dollars(self) -> float:
        return 0.0 if self.budget.prices is None else dollars(self.usage, self.budget.prices)

    def require(self, judge: Judge, missing: Sequence[Request], trials: Sequence[Trial]) -> None:
        """Refuse what the budget does not cover: the first part of a design before it, a later one if all is spent."""
        if not self.requests:
            self.budget.require(judge, missing, trials)
        elif missing:
            self.stop_at_limit("the design has more to ask, what was answered is kept if a store was given")

    def stop_at_limit(self, progress: str) -> None:
        """Raise `BudgetExceededError` if a limit is reached; nothing is spent on replies that were stored."""
        seconds = time.monotonic() - self.started
        reached = self.budget.exceeded(self.requests, self.usage.tokens, seconds, self.dollars())
        if self.requests and reached:
            again = "run again with a larger budget to go on"
            raise BudgetExceededError(f"the budget is spent: {reached}; {progress}; {again}")


def _next_trials(probe: Design, dataset: Dataset, frames: Sequence[pd.DataFrame]) -> list[Trial]:
    """Return what a design asks after the trials so far; nothing where it takes no trials."""
    if not _goes_on(probe):
        return []
    return list(probe.design(dataset, pd.concat(frames, ignore_index=True)))  # type: ignore[call-arg]


def _goes_on(probe: Design) -> bool:
    return "trials" in signature(probe.design).parameters


def _check(judge: Judge, requests: Sequence[Request], trials: Sequence[Trial]) -> None:
    """Let the judge check requests; its error names the context and the candidates."""
    try:
        judge.check(requests)
    except JudgeError as error:
        trial = next((t for t in trials if t.request == error.request), None)
        if trial is None:
            raise
        shown = " and ".join(filter(None, (trial.candidate_id, trial.opponent_id)))
        raise type(error)(f"context {trial.context_id!r}, candidate {shown}: {error}", error.request) from error


def _ask(judge: Judge, places: dict[Request, list[int]], spent: _Spent, bar: tqdm[Any]) -> list[Reply]:
    """Return the reply of each trial, given the trials of each request."""
    replies: dict[int, Reply] = {}
    bar.total = (bar.total or 0) + len(places)
    answers = judge.ask(list(places))
    with closing(answers) if isinstance(answers, Closable) else nullcontext():
        for done, (request, reply) in enumerate(answers, start=1):
            spent.count(reply)
            replies.update(dict.fromkeys(places[request], reply))
            if spent.budget.prices is not None:
                bar.set_postfix_str(f"${spent.dollars():,.2f}", refresh=False)
            bar.update()
            if done < len(places):
                spent.stop_at_limit(f"{done} of {len(places)} requests are answered, and kept if a store was given")
    if len(replies) < sum(map(len, places.values())):
        raise JudgeError(f"the judge {judge.id!r} left requests unanswered")
    return [replies[index] for index in range(len(replies))]


def _frame(
    probe: Design, judge: Judge, dataset: Dataset, trials: Sequence[Trial], replies: Sequence[Reply]
) -> pd.DataFrame:
    rows = []
    asked: tuple[Request, Reply] | None = None
    told: dict[str, Any] = {}
    keeps_replies = getattr(probe, "keeps_replies", False)
    for trial, reply in zip(trials, replies, strict=True):
        if asked is None or asked[0] is not trial.request or asked[1] is not reply:
            asked, told = (trial.request, reply), _of_reply(trial.request, reply, judge.id)
        # a server that says it declined needs no reading
        declined = reply.finish_reason in DECLINED
        value, status = (math.nan, "refused") if declined else probe.read(trial, reply)
        rows.append(
            {
                "probe": probe.name,
                "judge": judge.id,
                "dataset": dataset.name,
                "context_id": trial.context_id,
                "candidate_id": trial.candidate_id,
                "opponent_id": trial.opponent_id,
                "attribute": trial.attribute,
                **trial.condition,
                "replicate": trial.replicate,
                "value": value,
                "status": status,
                **told,
                **({"reply": reply.text} if keeps_replies else {}),
            }
        )
    return pd.DataFrame(rows)


def _warn_of_several_models(models: Counter[str], judge_id: str) -> None:
    """Warn if the judgements of one study, new and stored, come from several models."""
    if len(models) > 1:
        shares = ", ".join(f"{count:,} from {name!r}" for name, count in models.most_common())
        words = f"the judgements of {judge_id!r} come from several models, as its server names them: {shares}"
        warnings.warn(words, ModelChangedWarning, stacklevel=3)


def _of_reply(request: Request, reply: Reply, judge_id: str) -> dict[str, Any]:
    """Return what is the same for all trials that one reply serves, such as those of all labels of a distribution."""
    return {
        "label_mass": _label_mass(request, reply),
        "samples": math.nan if reply.samples is None else reply.samples,
        "tokens": reply.usage.tokens,
        "key": request_key(request, judge_id),
    }


def _label_mass(request: Request, reply: Reply) -> float:
    if not isinstance(request, Choice) or reply.logprobs is None:
        return math.nan
    return math.fsum(map(math.exp, reply.logprobs))
