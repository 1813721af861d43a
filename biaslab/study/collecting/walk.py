"""Walk through a study: design → ask → read → trials, window by window and round by round."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from biaslab.core import (
    DECLINED,
    EACH_ALONE,
    UNUSABLE,
    BaseJudge,
    Choice,
    Compare,
    Design,
    Rank,
    Reply,
    Request,
    Score,
    Status,
    Trial,
    is_sequential,
    request_key,
    thinking_of,
)
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.progress import Postfix
from biaslab.core.trials import uncollected
from biaslab.prompts.parsing.thoughts import answered, is_cut_off
from biaslab.store import Store
from biaslab.store.stored import StoredJudge
from biaslab.store.trials import TrialsFile
from biaslab.store.trials.column_types import OF_THOUGHTS, Columns, Part
from biaslab.store.trials.writing import require_target, writing
from biaslab.study.collecting.windows import Plan, Survey, survey_design, window_size, windows
from biaslab.study.spending.announcement import announcement_of
from biaslab.study.spending.budget import Budget, Ledger
from biaslab.study.spending.cost import unanswered

if TYPE_CHECKING:
    from tqdm import tqdm

    from biaslab.datasets import Dataset

#: Replies that need no parsing: the server reports a refusal, or sent no distribution.
_UNREAD: Mapping[str | None, tuple[float, Status]] = {
    **dict.fromkeys(DECLINED, (math.nan, "refused")),
    UNUSABLE: (math.nan, UNUSABLE),
}
_UNPARSED = ("unparsable", "off_format", "incomplete")
_APART = 10_000  # maximum number of replicates


@dataclass
class Walk:
    """One run of a study: judge, data set, spending, and destination of the trials.

    Parameters
    ----------
    judge : BaseJudge
        The judge.
    dataset : Dataset
        The data to judge.
    store : Store, optional
        Store of replies.
    budget : Budget, optional
        Limits of the run.
    bar, postfix
        The progress bar and the text after it.
    announces : bool
        Announce the plan before the first request.
    out : path, optional
        File for the trials, which are then not kept in memory.
    attrs : dict
        Attributes of the trials; adds ``asked``, ``stored``, ``tokens`` and ``dollars``.
    models : Counter of str
        Number of replies by the model name reported by the server.
    """

    judge: BaseJudge
    dataset: Dataset
    store: Store | None
    budget: Budget | None
    bar: tqdm[Any]
    postfix: Postfix
    announces: bool = False
    out: str | PathLike[str] | None = None
    attrs: dict[str, Any] = field(default_factory=lambda: {"asked": 0, "stored": 0, "tokens": 0, "dollars": 0.0})
    models: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.source = self.judge if self.store is None else self.store.wrap(self.judge)
        if isinstance(self.source, StoredJudge):
            self.source.groups = self.budget is None
        self.ledger = Ledger(self.judge, self.budget, self.source, self.announces)

    def trials(self, probe: Design) -> pd.DataFrame | TrialsFile:
        """Ask a design, round by round, and return its trials."""
        self.bar.reset(total=0)
        self.ledger.begin_plan()
        self._requests = 0
        study = {"probe": probe.name, "judge": self.judge.id, "dataset": self.dataset.name}
        sequential, plan = is_sequential(probe), self._plan(probe.design)
        survey = self._survey(probe, plan, begins=True)
        if not survey.trials:
            raise InputError("probe", probe, "a design with at least one judgement", "use more contexts or candidates")
        replies = getattr(probe, "keeps_replies", False)
        columns = Columns(survey.types, replies, survey.first)
        target = None if self.out is None else require_target(self.out, columns, study, grows=sequential)
        self._begin(survey)
        if target is not None and not sequential:
            with writing(target, columns, self.attrs) as file:
                for part in self._judge(probe, columns, study, survey, plan):
                    file.write(part)
                self._count_replies()
            return TrialsFile(target)
        frames = [columns.frame(list(self._judge(probe, columns, study, survey, plan)))]
        types = survey.types
        while sequential:
            so_far = pd.concat(frames, ignore_index=True)
            plan = self._plan(probe.design, so_far)
            survey = self._survey(probe, plan, begins=False)
            if not survey.trials:
                break
            self._begin(survey)
            columns = Columns(survey.types, replies, survey.first)
            frames.append(columns.frame(list(self._judge(probe, columns, study, survey, plan))))
            names = {**types, **survey.types}
            types = {name: types.get(name, set()) | survey.types.get(name, set()) for name in names}
        frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
        self._count_replies()
        frame.attrs.update(self.attrs)
        if target is None:
            return frame
        whole = Columns(types, replies, [str(name) for name in frame.loc[:, :"replicate"]])
        with writing(target, whole, self.attrs) as file:
            file.write((pa.Table.from_pandas(frame[list(whole.names)], preserve_index=False), {}))
        return TrialsFile(target)

    def _plan(self, design: Callable[..., Iterable[Trial]], *so_far: pd.DataFrame) -> Plan:
        """Return a function that generates the design; marks trials of judges that score texts on their own scale."""
        if not self.judge.score_scale:
            return partial(design, self.dataset, *so_far)
        own = {
            Score: {"scale": self.judge.score_scale},
            Compare: {"template": EACH_ALONE},
            Rank: {"template": EACH_ALONE},
        }
        return lambda: (
            replace(trial, condition={**trial.condition, **own.get(type(trial.request), {})})
            for trial in design(self.dataset, *so_far)
        )

    def _count_replies(self) -> None:
        asked = self.ledger.requests
        self.attrs |= {"asked": asked, "stored": max(self._requests - asked, 0)}
        self.attrs |= {"tokens": self.ledger.usage.tokens, "dollars": self.ledger.dollars}

    def _survey(self, probe: Design, plan: Plan, begins: bool) -> Survey:
        """Walk through a design and check and announce it, without asking."""
        asks = False

        def count(requests: list[Request], trials: list[Trial]) -> None:
            nonlocal asks
            missing = unanswered(self.judge, requests, self.store)
            asks |= bool(missing)
            self.ledger.plan(missing, trials)

        counts = self.budget is not None or (self.announces and begins)
        survey = survey_design(plan, self.source, window_size(self.judge), count if counts else None)
        if counts:
            self.ledger.require(begins, asks)
        if self.announces and begins and self.ledger.planned:
            stored = survey.requests - self.ledger.planned
            self.bar.write(f"{probe.name}: {announcement_of(self.ledger, stored, is_sequential(probe))}")
        return survey

    def _begin(self, survey: Survey) -> None:
        self._requests += survey.requests
        self._answered, self._planned = 0, survey.requests
        self.bar.total = (self.bar.total or 0) + survey.requests

    def _judge(
        self, probe: Design, columns: Columns, study: Mapping[str, str], survey: Survey, plan: Plan
    ) -> Iterator[Part]:
        """Ask and parse a round, window by window."""
        known: dict[str, Reply] = {}
        for window in windows(plan(), window_size(self.judge)) if survey.whole is None else [survey.whole]:
            requests = list(dict.fromkeys([trial.request for trial in window]))
            shared = [request for request in requests if hash(request) in survey.shared] if survey.shared else []
            keys = {request: request_key(request, study["judge"]) for request in shared}
            replies = {request: known[key] for request, key in keys.items() if key in known}
            for part in self._affordable([each for each in requests if each not in replies] if replies else requests):
                self._ask(part, replies)
            try:
                in_order = [replies[trial.request] for trial in window]
            except KeyError:
                raise JudgeError(f"the judge {self.judge.id!r} left requests unanswered") from None
            known |= {key: replies[request] for request, key in keys.items()}
            yield judged(probe, columns, study, window, in_order)

    def _affordable(self, requests: list[Request]) -> Iterator[list[Request]]:
        """Split requests into batches that stay within the budget."""
        start = 0
        while start < len(requests):
            left = self.ledger.affordable or len(requests)
            yield requests[start : start + left]
            start += left

    def _ask(self, requests: list[Request], replies: dict[Request, Reply]) -> None:
        """Ask requests and add their replies."""
        with closing(self.source.packs(requests)) as packs:
            for pack in packs:
                replies.update(pack)
                arrived = [reply for _, reply in pack]
                self.models.update([reply.model for reply in arrived if reply.model is not None])
                self.ledger.count(arrived)
                if self.ledger.budget.prices is not None:
                    self.postfix.spent(self.ledger.dollars)
                self.bar.update(len(pack))
                self._answered += len(pack)
                if self._answered < self._planned:
                    answered = f"{self._answered} of {self._planned} requests were answered"
                    self.ledger.stop_at_limit(f"{answered} (and stored, if a store was given)")


def judged(
    probe: Design,
    columns: Columns,
    study: Mapping[str, str],
    trials: Sequence[Trial],
    replies: Sequence[Reply],
) -> Part:
    """Parse the replies to trials, and put both into columns.

    Parameters
    ----------
    probe : Design
        Parses the replies.
    columns : Columns
        Columns of the design.
    study : mapping of str to str
        ``probe``, ``judge`` and ``dataset``, constant over rows.
    trials : sequence of Trial
        Trials, in the order of the rows.
    replies : sequence of Reply
        Replies to their requests, in the same order.
    """
    with uncollected():
        answers = [answered(reply) if reply.text else reply for reply in replies]
        read = [_read(probe, trial, reply) for trial, reply in zip(trials, answers, strict=True)]
        values: dict[str, Sequence[Any]] = {name: [text] for name, text in study.items()}
        for name in ("context_id", "candidate_id", "opponent_id", "attribute", "replicate"):
            values[name] = list(map(attrgetter(name), trials))
        conditions = [trial.condition for trial in trials]
        for name in columns.conditions:
            values.setdefault(name, [condition.get(name, math.nan) for condition in conditions])
        if "temperature" in values:
            _tell_temperature(values, answers)
        values["value"], values["status"] = [value for value, _ in read], [status for _, status in read]
        values |= _of_replies(trials, answers, study["judge"])
        if "thinking" in columns.conditions:
            values |= _of_thoughts(trials, answers)
        values["reply"] = [reply.text for reply in answers] if "reply" in columns.names else ()
        return columns.pack(values, len(trials))


def _tell_temperature(values: dict[str, Sequence[Any]], answers: Sequence[Reply]) -> None:
    """Record the server's temperature if it accepts no other, and renumber the samples.

    Samples planned at several temperatures then have one temperature and need different replicate numbers.
    """
    planned, replicates = list(values["temperature"]), list(values["replicate"])
    for at, reply in enumerate(answers):
        if reply.temperature is not None and abs(reply.temperature - planned[at]) > 0:  # NaN if none was planned
            replicates[at] += _APART * (1 + round(1000 * planned[at]))
            planned[at] = reply.temperature
    values["temperature"], values["replicate"] = planned, replicates


def _read(probe: Design, trial: Trial, reply: Reply) -> tuple[float, Status]:
    """Parse a reply, unless the server reports a refusal or sent no distribution."""
    if reply.finish_reason in _UNREAD:
        return _UNREAD[reply.finish_reason]
    value, status = probe.read(trial, reply)
    return (value, "cut_off") if status in _UNPARSED and is_cut_off(reply) else (value, status)


def _of_replies(trials: Sequence[Trial], answers: Sequence[Reply], judge_id: str) -> dict[str, Sequence[Any]]:
    """Return the columns shared by all trials of a reply, such as the labels of a distribution."""
    rows: list[tuple[float, float, int, str]] = []
    before: Reply | None = None
    asked: Request | None = None
    for trial, reply in zip(trials, answers, strict=True):
        request = trial.request
        if reply is before and request is asked:
            rows.append(rows[-1])
            continue
        before, asked = reply, request
        samples = math.nan if reply.samples is None else reply.samples
        rows.append((_label_mass(request, reply), samples, reply.usage.tokens, request_key(request, judge_id)))
    return dict(zip(("label_mass", "samples", "tokens", "key"), zip(*rows, strict=True), strict=True))


def _of_thoughts(trials: Sequence[Trial], answers: Sequence[Reply]) -> dict[str, list[float]]:
    """Return output tokens and thinking tokens of each reply; NaN if no thinking budget was set."""
    budgeted = [thinking_of(trial.request) is not None for trial in trials]
    counts = [(reply.usage.completion_tokens, reply.usage.reasoning_tokens) for reply in answers]
    rows = [count if set_ else (math.nan, math.nan) for count, set_ in zip(counts, budgeted, strict=True)]
    return dict(zip(OF_THOUGHTS, map(list, zip(*rows, strict=True)), strict=True))


def _label_mass(request: Request, reply: Reply) -> float:
    if not isinstance(request, Choice) or reply.logprobs is None:
        return math.nan
    return math.fsum(map(math.exp, reply.logprobs))
