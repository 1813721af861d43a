"""Run a study: design → ask → read → trials, window by window and round by round."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, pairwise
from operator import attrgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, cast, overload
from warnings import catch_warnings, simplefilter

import pandas as pd
import pyarrow as pa

from biaslab.core.checks import require_study
from biaslab.core.errors import (
    InputError,
    JudgeError,
    ModelChangedWarning,
    NearestDesignWarning,
    RepeatedTextsWarning,
    UnlabelledRepliesError,
    UnreachableError,
    UnsupportedRequestError,
    warn,
)
from biaslab.core.interfaces import Adaptable, BaseJudge, Continuable, Design, Judge, as_judge, is_sequential, short
from biaslab.core.metrics import find_metric
from biaslab.core.output import Postfix, count, progress_bar
from biaslab.core.requests import EACH_ALONE, Choice, Compare, Rank, Request, Score, request_key, thinking_of
from biaslab.core.trials import DECLINED, UNUSABLE, Reply, Status, Trial, uncollected
from biaslab.judges.function import judge_of
from biaslab.prompts.parsing.thoughts import answered, is_cut_off
from biaslab.stats.blocks import linked_contexts
from biaslab.stats.frame import choose_metrics
from biaslab.stats.sequential import UNTIL, Stopping, Until
from biaslab.store import Store, open_store
from biaslab.store.stored_judge import StoredJudge
from biaslab.store.tables import OF_THOUGHTS, TablePart, TrialColumns, TrialsFile, require_target, writing
from biaslab.study.spending import Budget, Ledger, announcement_of, budget_of, unanswered
from biaslab.study.windows import Survey, TrialSource, look_ends, survey_design, units_of, window_size, windows

if TYPE_CHECKING:
    from tqdm import tqdm

    from biaslab.datasets import Dataset


@overload
def collect(
    probe: Design,
    judge: Judge | Callable[..., Any],
    dataset: Dataset,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
    budget: Budget | None = None,
    announce: bool | None = None,
    nearest: bool = True,
    out: None = None,
    until: Until | None = None,
) -> pd.DataFrame: ...


@overload
def collect(
    probe: Design,
    judge: Judge | Callable[..., Any],
    dataset: Dataset,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
    budget: Budget | None = None,
    announce: bool | None = None,
    nearest: bool = True,
    *,
    out: str | PathLike[str],
    until: Until | None = None,
) -> TrialsFile: ...


def collect(
    probe: Design,
    judge: Judge | Callable[..., Any],
    dataset: Dataset,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
    budget: Budget | None = None,
    announce: bool | None = None,
    nearest: bool = True,
    out: str | PathLike[str] | None = None,
    until: Until | None = None,
) -> pd.DataFrame | TrialsFile:
    """Run a study: ask a judge all requests that a probe plans for a data set.

    Parameters
    ----------
    probe : Design
        What to ask and how to parse it: a `Probe`, or a scorer of `biaslab.scoring`. If its ``design`` has a second
        parameter ``trials``, it is called again with the trials so far until it yields nothing. If its
        ``keeps_replies`` is true, trials have a column ``reply`` with the text of each reply, for later rounds.
    judge : Judge or function
        The judge. A function becomes a `biaslab.FunctionJudge`.
    dataset : Dataset
        The data to judge.
    store : Store or path, optional
        Store of replies. With a store, a stopped run can be resumed, and a repeated run asks nothing.
    progress : bool
        Show a progress bar with rate and remaining time.
    budget : Budget, optional
        Limits for requests that the store does not answer. The run does not start if the budget does not cover it,
        unless the budget is ``partial``. Default: the judge's own limits and prices, if any (`biaslab.ApiJudge`).
    announce : bool, optional
        Print one line before the first request with the number of requests, their tokens, and cost and time if known.
        Default: if a progress bar is shown. Silent if the store holds all replies.
    nearest : bool
        If the judge or its server refuses the design's requests, ask the nearest design that it can answer
        (`biaslab.core.Nearest`), such as text instead of label probabilities; the same probe estimates from it. What
        was changed, and why, is in ``attrs["otherwise"]``. False: raise the error.
    out : path, optional
        A ``.parquet`` file for the trials, for studies of any size. Trials are written in chunks of about 100,000 rows,
        and the file appears once the run is complete. A stopped run leaves the previous file, if any, unchanged; with a
        store, the next run resumes. A file of the same study is replaced. Designs in rounds need all trials so far in
        memory.
    until : Until, optional
        Ask contexts in random order, and stop once the rule holds. Trials then have a column ``until``, from which
        probes take their inference: a confidence sequence, or planned looks. Contexts that share requests or are one
        cluster of the probe's resampling are asked together. The design and all trials are kept in memory.

    Returns
    -------
    pandas.DataFrame or biaslab.store.tables.TrialsFile
        With ``out``, a `biaslab.store.tables.TrialsFile`, which reads columns on demand (``trials["value"]``,
        ``trials.to_pandas()``) and which a probe's ``estimate`` accepts, like its path; else a frame. One row per
        judgement in the order of the design: ``probe, judge, dataset, context_id, candidate_id, opponent_id, attribute,
        <conditions>, replicate, value, status, label_mass, samples, tokens, key``. ``value`` is NaN unless ``status``
        is "ok" or "tie". ``label_mass`` is the total probability of all labels, NaN for text. ``samples`` is the number
        of samples behind value and label mass, NaN if they are exact. ``attrs`` has the number of new replies
        (``asked``), their ``tokens`` and ``dollars`` at the budget's prices, the number of replies from the store
        (``stored``), the store's path (``store``), and with `until` the number of
        requests saved (``saved``) and why it stopped (``stopped``).

    Raises
    ------
    InputError
        If the probe plans nothing, an argument has the wrong type, or the file ``out`` has other columns or belongs to
        another study. Raised before asking.
    JudgeError
        Before asking, if the judge can answer neither a request nor that of a nearest design; the message names context
        and candidate. `UnsupportedRequestError` after one request of each kind if only the server can tell, and
        `UnreachableError` within seconds if there is no server. `UnlabelledRepliesError` if none of the first 20
        replies of a kind holds a label, or after 50 more than half are refused or unparsable; it shows three of them.
    BudgetExceededError
        Before asking, if the budget does not cover the run; the message says what it needs and how many contexts fit.
        Later, if a budget that is partial, relies on estimates of tokens or time, or belongs to a sequential design is
        spent; all replies so far are in the store.

    Notes
    -----
    The design is generated twice: first to check it against the judge and the budget, then to ask it, in windows of
    whole contexts with one window in memory at a time. Prompts and replies are discarded once parsed. A design must
    generate the same trials both times.

    Warns
    -----
    NearestDesignWarning
        If the nearest design is asked instead.
    RepeatedTextsWarning
        If contexts have the same text, and the probe's resampling does not cluster them.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(bl.probes.Position(), bl.SimulatedJudge(data), data, progress=False)
    >>> len(trials)
    480
    """
    judge = cast("Judge", judge) if hasattr(judge, "ask") else judge_of(judge)
    require_study(probe, judge, dataset)
    until = None if until is None else rule_of(until, probe)
    asked = as_judge(judge)
    _warn_repeated(probe, dataset)
    next(iter(probe.design(dataset)), None)  # raises errors of the design before a store is created
    try:
        with (
            nullcontext() if store is None else open_store(store) as kept,
            progress_bar(desc=probe.name, unit="reply", total=0, disable=not progress) as bar,
            asked.watched((postfix := Postfix(bar)).retried),
        ):
            tells = progress if announce is None else announce
            limits = budget if budget is not None else budget_of(asked)
            walk = Walk(asked, dataset, kept, limits, bar, postfix, tells, out, until)
            trials = _ask_nearest(walk, probe, probe.name) if nearest else walk.trials(probe)
    except UnsupportedRequestError as error:
        if asked.reads_prompts or not nearest:
            raise
        raise UnsupportedRequestError(_why_not(probe, asked), error.request) from error
    if walk.otherwise:
        warn(walk.otherwise, NearestDesignWarning)
    if len(walk.models) > 1:
        shares = ", ".join(f"{count:,} from {name!r}" for name, count in walk.models.most_common())
        words = f"replies of {asked.id!r} come from several models, according to its server: {shares}"
        warn(words, ModelChangedWarning)
    return trials


def rule_of(until: Until, probe: Any) -> Until:
    """Return a rule with its metric; raise `InputError` unless it fits a probe that asks everything at once."""
    if not isinstance(until, Until):
        raise InputError("until", until, "a rule, such as biaslab.Until(half_width=0.05)")
    if not hasattr(probe, "estimate") or is_sequential(probe):
        raise InputError("until", until, f"None for {probe.name}", "a rule needs a probe that asks everything at once")
    nulls = {metric.name: metric.null for metric in probe.metrics}
    name = choose_metrics(list(nulls), [until.metric or probe.primary[0]])[0]
    if until.half_width is None and nulls[name] is None:
        raise InputError("until.metric", name, "a metric with a null", "or use Until(half_width=…)")
    return replace(until, metric=name)


def _warn_repeated(probe: Design, dataset: Dataset) -> None:
    """Warn if contexts have the same text and the probe's resampling does not cluster them."""
    repeated = linked_contexts(dataset.candidates, "context")
    texts = len(set(repeated.values()))
    one = texts == 1 and len(repeated) == dataset.n_contexts  # such as the prompt of all essays
    if repeated and not one and not getattr(getattr(probe, "resampling", None), "clusters", None):
        words = f"{len(repeated)} contexts have only {count(texts, 'text')}, so they are not independent"
        remedy = "Resampling(clusters=biaslab.stats.blocks.linked_contexts(data.candidates, 'context'))"
        warn(f"{dataset.name}: {words}; give the probe resampling={remedy}", RepeatedTextsWarning)


def _ask_nearest(walk: Walk, probe: Design, name: str, changes: tuple[str, ...] = ()) -> pd.DataFrame | TrialsFile:
    """Ask a design or, if the judge refuses it, the nearest design that it can answer."""
    if changes:
        walk.otherwise = f"{name} {' and '.join(changes)}"
    try:
        return walk.trials(probe)
    except (UnsupportedRequestError, UnreachableError) as error:
        other, further = _nearest(walk, probe, error)
        if other is None:
            raise
        refused = error
    try:  # outside of the handler, so that a later error has a traceback of its own
        return _ask_nearest(walk, other, name, (*changes, *further))
    except UnsupportedRequestError as last:
        raise refused from last  # the first error describes the original design


def _why_not(probe: Design, judge: BaseJudge) -> str:
    """Explain why a judge without prompts cannot answer a design."""
    if Rank in probe.unprompted:
        return f"{probe.name} shows several texts at once, but {judge.id!r} takes only one or two"
    if Compare in probe.unprompted and Compare not in judge.kinds:
        return f"{probe.name} compares two texts, but {judge.id!r} only scores single texts"
    if Score in probe.unprompted and Score not in judge.kinds:
        return f"{probe.name} scores single texts, but {judge.id!r} only compares two"
    return f"{probe.name} needs prompts and text replies, but {judge.id!r} takes no prompt"


def _nearest(walk: Walk, probe: Design, error: JudgeError) -> tuple[Design | None, list[str]]:
    """Return the nearest design without the refused requests, and the changes; if no server answers, a stored one."""
    nearest = probe.nearest(error.request) if isinstance(probe, Adaptable) and error.request is not None else None
    if nearest is None:
        return None, []
    changes = []
    if walk.judge.reads_prompts:
        cause = error.__cause__ if isinstance(error.__cause__, JudgeError) else error
        changes.append(f"{nearest.words} ({cause.reason})")
    elif nearest.omits:
        changes.append(nearest.omits)
    elif probe.protocol is not None and nearest.design.protocol is None:
        changes.append(f"does not use the protocol, because {walk.judge.id!r} takes no prompt")
    design = nearest.design
    if nearest.reads is not None:
        read = collect(nearest.reads, _embedded_judge(), walk.dataset, walk.store, not walk.bar.disable)
        design = design.given(read, walk.dataset) if isinstance(design, Continuable) else design
    if isinstance(error, UnreachableError):
        for window in windows(design.design(walk.dataset), window_size(walk.judge)):
            if missing := unanswered(walk.judge, [trial.request for trial in window], walk.store):
                there = UnreachableError(error.reason, missing[0], remedy=error.remedy)
                stored, further = _nearest(walk, design, there)
                return stored, changes + further
    return design, changes


@cache
def _embedded_judge() -> Judge:
    """Return the embedded model, used for likelihoods if a judge gives none."""
    from biaslab.judges import load_judge

    return load_judge("smollm2-135m")


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
    until : Until, optional
        When to stop.

    Attributes
    ----------
    otherwise : str
        What was asked differently than planned; empty if nothing.
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
    until: Until | None = None

    def __post_init__(self) -> None:
        self.saved, self.stopped = 0, ""
        self.otherwise, self.models = "", Counter[str]()
        self.source = self.judge if self.store is None else self.store.wrap(self.judge)
        if isinstance(self.source, StoredJudge):
            self.source.groups = self.budget is None
        self.ledger = Ledger(self.judge, self.budget, self.source, self.announces)

    def trials(self, probe: Design) -> pd.DataFrame | TrialsFile:
        """Ask a design, round by round, and return its trials."""
        self.bar.reset(total=0)
        self.ledger.begin_plan()
        self._requests, self._looks = 0, list[list[Trial]]()
        self._first, self._watches = FirstReplies(probe), not self.judge.is_recorded
        study = {"probe": probe.name, "judge": self.judge.id, "dataset": self.dataset.name}
        sequential, plan = is_sequential(probe), self._plan(probe.design)
        units = None
        if self.until is not None:
            units = units_of(plan(), self.until, getattr(getattr(probe, "resampling", None), "clusters", None))
            plan = partial(chain.from_iterable, units)
        survey = self._survey(probe, plan, begins=True)
        if not survey.trials:
            raise InputError("probe", probe.name, "one that plans at least one judgement", "add contexts or candidates")
        replies = probe.keeps_replies
        if units is not None:
            survey.types[UNTIL] = {str}
        columns = TrialColumns(survey.types, replies, survey.first)
        target = None if self.out is None else require_target(self.out, columns, study, grows=sequential)
        self._begin(survey)
        if units is not None:
            frames = [self._stopped(probe, columns, study, survey, units)]
        elif target is not None and not sequential:
            attrs: dict[str, Any] = {}
            with writing(target, columns, attrs) as file:
                for part in self._judge(probe, columns, study, survey, plan):
                    file.write(part)
                attrs |= self._attrs()
            return TrialsFile(target)
        else:
            frames = [columns.frame(list(self._judge(probe, columns, study, survey, plan)))]
        types = survey.types
        while sequential:
            so_far = pd.concat(frames, ignore_index=True)
            plan = self._plan(probe.design, so_far)
            survey = self._survey(probe, plan, begins=False)
            if not survey.trials:
                break
            self._begin(survey)
            columns = TrialColumns(survey.types, replies, survey.first)
            frames.append(columns.frame(list(self._judge(probe, columns, study, survey, plan))))
            names = {**types, **survey.types}
            types = {name: types.get(name, set()) | survey.types.get(name, set()) for name in names}
        frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
        attrs = self._attrs()
        frame.attrs.update(attrs)
        if target is None:
            return frame
        whole = TrialColumns(types, replies, [str(name) for name in frame.loc[:, :"replicate"]])
        with writing(target, whole, attrs) as file:
            file.write((pa.Table.from_pandas(frame[list(whole.names)], preserve_index=False), {}))
        return TrialsFile(target)

    def _stopped(
        self, probe: Any, columns: TrialColumns, study: Mapping[str, str], survey: Survey, units: list[list[Trial]]
    ) -> pd.DataFrame:
        """Ask unit after unit until the rule holds in all rows of its metric, and return the trials."""
        until, sizes, parts = cast("Until", self.until), list(map(len, units)), list[TablePart]()
        ends, null = look_ends(units, until, self.judge.breadth), find_metric(str(until.metric), probe.name).null
        self._looks = [list(chain.from_iterable(units[start:end])) for start, end in pairwise([0, *ends])]
        for end, part in zip(ends, self._judge(probe, columns, study, survey, list), strict=False):
            parts.append(part)
            stopping = Stopping(until, end, len(units), growth=max(sizes) / max(sizes[:end]))
            frame = columns.frame(parts).assign(**{UNTIL: str(stopping)})
            with catch_warnings():
                simplefilter("ignore", UserWarning)  # what is missing is said of the whole study
                rows = probe.estimate(frame, [until.metric]).to_dict("records")
            if reason := until.reason(rows, null) or ("contexts" if end == len(units) else ""):
                break
        self.saved, self.stopped = survey.requests - self._answered, until.words(reason)
        self._requests -= self.saved
        self.bar.total = self._answered
        if self.announces:
            saved = f"{self.saved:,} of {survey.requests:,} requests saved"
            self.bar.write(f"{probe.name}: stopped after {end:,} of {len(units):,} contexts, {self.stopped}; {saved}")
        return frame.assign(**{UNTIL: str(replace(stopping, reason=reason))})

    def _plan(self, design: Callable[..., Iterable[Trial]], *so_far: pd.DataFrame) -> TrialSource:
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

    def _attrs(self) -> dict[str, Any]:
        """Return the attributes of the trials: new and stored replies, their cost, the store, and what was changed."""
        asked, ledger = self.ledger.requests, self.ledger
        attrs: dict[str, Any] = {"asked": asked, "stored": max(self._requests - asked, 0)}
        attrs |= {"tokens": ledger.usage.tokens, "dollars": ledger.dollars}
        where = {} if self.store is None else {"store": str(self.store.path.resolve())}
        attrs |= {} if self.until is None else {"saved": self.saved, "stopped": self.stopped}
        return attrs | where | ({"otherwise": self.otherwise} if self.otherwise else {})

    def _survey(self, probe: Design, plan: TrialSource, begins: bool) -> Survey:
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
        self, probe: Design, columns: TrialColumns, study: Mapping[str, str], survey: Survey, plan: TrialSource
    ) -> Iterator[TablePart]:
        """Ask and parse a round, window by window."""
        known: dict[str, Reply] = {}
        whole = self._looks if survey.whole is None or self._looks else [survey.whole]
        for window in whole or windows(plan(), window_size(self.judge)):
            requests = list(dict.fromkeys([trial.request for trial in window]))
            shared = [request for request in requests if hash(request) in survey.shared] if survey.shared else []
            keys = {request: request_key(request, study["judge"]) for request in shared}
            replies = {request: known[key] for request, key in keys.items() if key in known}
            trials: defaultdict[Request, list[Trial]] = defaultdict(list)
            for trial in window if self._first.watches(requests) else ():
                trials[trial.request].append(trial)
            for part in self._affordable([each for each in requests if each not in replies] if replies else requests):
                self._ask(part, replies, trials)
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

    def _ask(
        self, requests: list[Request], replies: dict[Request, Reply], trials: Mapping[Request, list[Trial]]
    ) -> None:
        """Ask requests and add their replies; stop if the first ones hold no label, unless an earlier run did so."""
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
                for request, reply in pack if trials else ():
                    self._first.note(trials[request], reply)
                if self._watches and (error := self._first.error()):
                    if self.ledger.requests:
                        raise UnlabelledRepliesError(f"{error}; {_ANYWAY}", error.request)
                    self._watches = False  # an earlier run stopped here, and its user goes on
                if self._answered < self._planned:
                    answered = f"{self._answered} of {self._planned} requests were answered"
                    self.ledger.stop_at_limit(f"{answered} (and stored, if a store was given)")


_FIRST, _FEW = 20, 50  # replies after which none, or at most half, may be without a label
_WATCHED = 1000  # replies of a kind, after which those of a study are no longer watched
_SHOWN = 3
_ANYWAY = "or go on all the same: run again with a store, which has these replies"


class FirstReplies:
    """The first replies of a study, by kind of request, for pairs and single texts separately.

    A wrong form of answer shows after 20 replies rather than after 20,000. Texts of designs that keep replies need no
    label, because a later round asks for it.

    Parameters
    ----------
    design : Design
        Parses the replies.
    """

    def __init__(self, design: Design) -> None:
        self._design = design
        self._statuses: defaultdict[tuple[type, bool], Counter[Status]] = defaultdict(Counter)
        self._counted = Counter[type]()
        self._without: defaultdict[tuple[type, bool], list[tuple[Request, Reply]]] = defaultdict(list)

    def watches(self, requests: Iterable[Request]) -> bool:
        """Return whether few replies to requests of one of these kinds were noted before."""
        return any(self._counted[kind] < 5 * _WATCHED for kind in set(map(type, requests)))

    def note(self, trials: Sequence[Trial], reply: Reply) -> None:
        """Record the status of a reply to the request of some trials, if it is among the first of its kind."""
        request, kind = trials[0].request, (type(trials[0].request), trials[0].opponent_id is not None)
        self._counted[type(request)] += 1
        if (
            self._counted[type(request)] > 5 * _WATCHED
            or self._statuses[kind].total() >= _WATCHED
            or (self._design.keeps_replies and not isinstance(request, Choice))
        ):
            return
        answer = answered(reply) if reply.text else reply
        has_label = isinstance(request, Choice) and reply.finish_reason != UNUSABLE
        has_label &= any(map(math.isfinite, reply.logprobs or ()))
        statuses: list[Status] = ["ok"] if has_label else [_read(self._design, each, answer)[1] for each in trials]
        status = next((each for each in statuses if each in ("ok", "tie")), statuses[0])
        self._statuses[kind][status] += 1
        if status not in ("ok", "tie") and len(self._without[kind]) < _SHOWN:
            self._without[kind].append((request, answer))

    def error(self) -> UnlabelledRepliesError | None:
        """Return the error that ends a study, with three of the replies and what to change; None if there is none."""
        for kind, statuses in self._statuses.items():
            seen, lost = statuses.total(), statuses["refused"] + statuses["unparsable"]
            if seen >= _FIRST and not statuses["ok"] + statuses["tie"]:
                share = f"none of the first {seen} replies holds a label"
            elif seen >= _FEW and 2 * lost > seen:
                share = f"{lost} of the first {seen} replies hold no label"
            else:
                continue
            counts = ", ".join(f"{n} {status}" for status, n in statuses.most_common() if status not in ("ok", "tie"))
            request, reply = self._without[kind][0]
            shown = ", ".join(_shown(each) for _, each in self._without[kind])
            words = f"{self._design.name}: {share} ({counts}); the first of these: {shown}; {_remedy(request, reply)}"
            return UnlabelledRepliesError(words, request)
        return None


def _shown(reply: Reply) -> str:
    if reply.text is None or (not reply.text and reply.finish_reason):
        return f"no text ({reply.finish_reason or 'and no label among the likeliest tokens'})"
    return short(reply.text)


def _remedy(request: Request, reply: Reply) -> str:
    if reply.finish_reason in DECLINED:
        return "the judge declines this prompt or data: use another judge, or a protocol with another prompt"
    if isinstance(request, Choice):
        labels = ", ".join(map(repr, request.labels))
        return f'the labels are {labels}: use answer="text", which reads more forms, or a protocol with your own'
    if isinstance(request, Score | Compare | Rank):
        return "return a value that answers each request; None counts as a refusal"
    return "give the probe a protocol whose prompt states the form of the answer and whose parser reads it"


def judged(
    probe: Design,
    columns: TrialColumns,
    study: Mapping[str, str],
    trials: Sequence[Trial],
    replies: Sequence[Reply],
) -> TablePart:
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
