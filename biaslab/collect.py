"""The one walk of every study: design → ask → read → trials."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd

from biaslab.checks import require_study
from biaslab.core import (
    DECLINED,
    Adaptable,
    Choice,
    Closable,
    Design,
    Given,
    Judge,
    Reply,
    Request,
    Trial,
    goes_on,
    request_key,
)
from biaslab.errors import (
    InputError,
    JudgeError,
    ModelChangedWarning,
    NearestDesignWarning,
    UnreachableError,
    UnsupportedRequestError,
)
from biaslab.progress import progress_bar
from biaslab.spending.announcement import foresee
from biaslab.spending.budget import Budget, budget_of
from biaslab.spending.cost import unanswered
from biaslab.spending.spent import Postfix, Spent, postfix_of
from biaslab.store import Store

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
    nearest: bool = True,
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
        budget is ``partial``. By default the limits and prices of the judge, where it has any (`biaslab.ApiJudge`).
    announce : bool, optional
        Say in one line, before the first request, how many there are, their tokens, and cost and time where these are
        known. By default where a progress bar is shown. Nothing is said where the store holds every reply.
    nearest : bool
        Where the judge, or its server, refuses requests of the design, ask the nearest design that it can answer
        (`biaslab.core.Nearest`), such as text instead of label probabilities; the same probe estimates from that. What
        is asked otherwise, and why, is in ``attrs["otherwise"]``. False raises the error.

    Returns
    -------
    pandas.DataFrame
        Trials, one row per judgement in the order of the design: ``probe, judge, dataset, context_id, candidate_id,
        opponent_id, attribute, <conditions>, replicate, value, status, label_mass, samples, tokens, key``. ``value`` is
        NaN unless ``status`` is "ok" or "tie". ``label_mass`` is the probability that all labels have together, NaN for
        text. ``samples`` says of how many samples that and the value are shares, NaN where they are exact. The number
        of replies that the judge gave now is in ``attrs["asked"]``, those from the store in ``attrs["stored"]``,
        the store's file in ``attrs["store"]``.

    Raises
    ------
    InputError
        If the probe plans nothing, or probe, judge or data set are something else.
    JudgeError
        Before anything is asked, if a request cannot be answered, nor those of a near design; the message names context
        and candidate. `UnsupportedRequestError` after one request of a kind where only the server can tell, and
        `UnreachableError` within seconds where there is none.
    BudgetExceededError
        Before anything is asked, if the budget does not cover the run; the message says what it needs and how many
        contexts fit. Later, when a partial budget, or one whose tokens or minutes could only be estimated, or one of a
        design that goes on with what was answered, is spent: everything answered so far is in the store.

    Warns
    -----
    NearestDesignWarning
        If the nearest design is asked.

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
    try:
        with (
            progress_bar(desc=probe.name, unit="reply", total=0, disable=not progress) as bar,
            postfix_of(judge, bar) as postfix,
        ):
            tells = progress if announce is None else announce
            limits = budget if budget is not None else budget_of(judge)
            run = _Run(judge, dataset, kept, limits, bar, postfix, tells)
            frame = run.nearest(probe, trials) if nearest else run.whole(probe, trials)
    finally:
        if kept is not None and kept is not store:
            kept.close()
    if kept is not None:
        frame.attrs["store"] = str(kept.path.resolve())
    if run.otherwise:
        frame.attrs["otherwise"] = f"{probe.name} {' and '.join(run.otherwise)}"
        warnings.warn(frame.attrs["otherwise"], NearestDesignWarning, stacklevel=2)
    _warn_of_several_models(run.models, judge.id)
    return frame


@dataclass
class _Run:
    """One run: who is asked about what, what it has spent so far, and what is asked otherwise than it was planned."""

    judge: Judge
    dataset: Dataset
    kept: Store | None
    budget: Budget | None
    bar: tqdm[Any]
    postfix: Postfix
    tells: bool = False
    otherwise: list[str] = field(default_factory=list)
    models: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.source = self.judge if self.kept is None else self.kept.wrap(self.judge)
        self.spent = Spent(self.budget or Budget(), self.source)

    def whole(self, probe: Design, trials: list[Trial]) -> pd.DataFrame:
        """Ask what a design plans, round by round, given its first one."""
        frames: list[pd.DataFrame] = []
        requests = 0
        self.bar.reset(total=0)
        while trials:
            places: dict[Request, list[int]] = {}
            for index, trial in enumerate(trials):
                places.setdefault(trial.request, []).append(index)
            _check(self.source, list(places), trials)
            tells = self.tells and not frames
            missing = unanswered(self.judge, list(places), self.kept) if tells or self.budget is not None else []
            if self.budget is not None:
                self.spent.require(self.judge, missing, trials, begins=not frames)
            if tells and missing:
                stored = len(places) - len(missing)
                planned = foresee(self.judge, missing, stored, self.budget, goes_on(probe))
                self.bar.write(f"{probe.name}: {planned}")
            replies = _ask(self.source, places, self.spent, self.bar, self.postfix)
            requests += len(places)
            self.models.update(reply.model for reply in replies if reply.model is not None)
            frames.append(_frame(probe, self.judge, self.dataset, trials, replies))
            trials = _next_trials(probe, self.dataset, frames)
        frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
        frame.attrs["asked"], frame.attrs["stored"] = self.spent.requests, max(requests - self.spent.requests, 0)
        return frame

    def nearest(self, probe: Design, trials: list[Trial]) -> pd.DataFrame:
        """Ask what a design plans or, where the judge refuses that, the nearest one that it answers."""
        try:
            return self.whole(probe, trials)
        except (UnsupportedRequestError, UnreachableError) as error:
            other = self._other(probe, error)
            if other is None:
                raise
            try:
                return self.nearest(other, list(other.design(self.dataset)))
            except UnsupportedRequestError as last:
                raise error from last  # the first one says what was wanted

    def _other(self, probe: Design, error: JudgeError) -> Design | None:
        """Return the nearest design without what was refused; where no server answers only one that is stored."""
        found = probe.nearest(error.request) if isinstance(probe, Adaptable) and error.request is not None else None
        if found is None:
            return None
        self.otherwise.append(f"{found.words} ({_reason(error)})")
        other = found.design
        if found.reads is not None:
            read = collect(found.reads, _reader(), self.dataset, self.kept, not self.bar.disable)
            other = other.given(read, self.dataset) if isinstance(other, Given) else other
        if isinstance(error, UnreachableError):
            requests = [trial.request for trial in other.design(self.dataset)]
            left = requests if self.kept is None else unanswered(self.judge, requests, self.kept)
            return self._other(other, UnreachableError(str(error), left[0])) if left else other
        return other


@cache
def _reader() -> Judge:
    """Return the embedded model, which reads texts for judges that give no probabilities of them."""
    from biaslab.judges import load_judge

    return load_judge("smollm2-135m")


def _reason(error: JudgeError) -> str:
    """Return why a judge refuses, without remedy and without the candidate at which that turned out."""
    said = error.__cause__ if isinstance(error.__cause__, JudgeError) else error
    return str(said).partition("; ")[0]


def _next_trials(probe: Design, dataset: Dataset, frames: Sequence[pd.DataFrame]) -> list[Trial]:
    """Return what a design asks after the trials so far; nothing where it takes no trials."""
    if not goes_on(probe):
        return []
    return list(probe.design(dataset, pd.concat(frames, ignore_index=True)))  # type: ignore[call-arg]


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


def _ask(judge: Judge, places: dict[Request, list[int]], spent: Spent, bar: tqdm[Any], postfix: Postfix) -> list[Reply]:
    """Return the reply of each trial, given the trials of each request."""
    replies: dict[int, Reply] = {}
    bar.total = (bar.total or 0) + len(places)
    answers = judge.ask(list(places))
    with closing(answers) if isinstance(answers, Closable) else nullcontext():
        for done, (request, reply) in enumerate(answers, start=1):
            spent.count(reply)
            replies.update(dict.fromkeys(places[request], reply))
            if spent.budget.prices is not None:
                postfix.spent(spent.dollars())
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
