"""Screen a judge for the most common biases in one call, with the cost announced first."""

from __future__ import annotations

import math
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core import errors
from biaslab.core.checks import require_one_of, require_study, require_whole
from biaslab.core.interfaces import Judge, as_judge
from biaslab.core.metrics import find_metric
from biaslab.core.output import AnyPath, PrintedText, count, number
from biaslab.core.requests import Choice, Compare, Completion, Request, Score
from biaslab.core.schema import Dataset
from biaslab.judges.function import judge_of
from biaslab.probes.base.probe import Probe
from biaslab.probes.base.questions import draw
from biaslab.probes.consistency import Consistency
from biaslab.probes.position import Position
from biaslab.probes.score_distribution import ScoreDistribution
from biaslab.probes.self_preference import SelfPreference
from biaslab.probes.verbosity import Verbosity
from biaslab.prompts.protocols import Protocol
from biaslab.report.card import Card, card
from biaslab.report.summary import spaced
from biaslab.report.wording import size
from biaslab.stats.frame import corrected
from biaslab.stats.resample import Resampling
from biaslab.store import Store, open_store
from biaslab.study import planning
from biaslab.study.collect import collect
from biaslab.study.spending import Announcement, Budget, announcement_of_all, answerable, budget_of, unanswered

#: Metrics printed below the biases: stability and decisiveness of the answers.
_ALSO_PRINTED = ("order_consistency", "resampling_consistency", "tie_rate", "sample_alpha")


@dataclass(frozen=True, eq=False, repr=False)
class Screen:
    """Result of `screen`: JupyterLab shows the card, and ``print`` the findings.

    Attributes
    ----------
    estimates : pandas.DataFrame
        Estimates of all probes; q-values are over the tests of this screen.
    card : biaslab.report.Card
        The bias card.
    trials : pandas.DataFrame
        One row per judgement of any probe; columns that a probe lacks are empty. ``attrs`` has the numbers ``asked``
        and ``stored``, ``tokens`` and ``dollars``.
    planned : Announcement or None
        The planned requests; None if the store held all replies.
    """

    estimates: pd.DataFrame
    card: Card
    trials: pd.DataFrame
    planned: Announcement | None

    def __str__(self) -> str:
        return "\n".join([str(self.card), *(f"also: {words}" for words in self._other_metrics())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.card._repr_html_()

    def _other_metrics(self) -> Iterator[str]:
        shown = self.estimates[self.estimates["metric"].isin(_ALSO_PRINTED) & self.estimates["estimate"].notna()]
        for row in shown.drop_duplicates(["probe", "metric", "attribute"]).to_dict("records"):
            metric = find_metric(row["metric"], row["probe"])
            low, value, high = (number(row[name], 2) for name in ("ci_low", "estimate", "ci_high"))
            yield f"{row['probe']}, {metric.axis}, {row['attribute']}: {value} [{low}, {high}]"


def screen(
    judge: Judge | Callable[..., Any],
    dataset: Dataset,
    protocol: Protocols = None,
    *,
    contexts: int = 24,
    candidates: int = 3,
    attributes: Sequence[str] | None = None,
    own: str | None = None,
    store: Store | AnyPath | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    progress: bool = True,
    say: Callable[[str], object] | None = None,
    reference: str | pd.DataFrame | None = "atlas",
) -> Screen:
    """Measure the most common biases: position, length, consistency, round numbers, self-preference.

    The judge determines what is measured. A judge that compares pairs (a pair protocol, a function of two texts) is
    asked about every pair of the drawn candidates in both orders; a judge that scores is asked for each candidate's
    score; a judge that does both is asked for both. Probes with the same request share one reply. The number of
    requests, their tokens and (if prices are known) their price are announced before the first request.

    Parameters
    ----------
    judge : Judge or function
        The judge. A function becomes a `biaslab.FunctionJudge`.
    dataset : Dataset
        The data to judge.
    protocol : Protocol, path, or sequence of them, optional
        Prompt and parser to use instead of biaslab's own: one for pairs, one for scores, or both. Only biases in these
        forms are measured.
    contexts : int
        Maximum number of contexts; uses the first ones.
    candidates : int
        Candidates per context, drawn at random; at least 2.
    attributes : sequence of str, optional
        Attributes to judge; default: the data set's first.
    own : str, optional
        The system of the data set that is the judge itself. Without it, self-preference is not measured.
    store : Store or path, optional
        Store of replies; default: a temporary one.
    budget : Budget, optional
        Budget for all probes together. The screen does not start if the budget does not cover it, unless the budget is
        ``partial``. Default: the judge's own limits and prices, if any.
    seed : int
        Random seed.
    progress : bool
        Show progress bars and announce the requests.
    say : callable, optional
        Receives the announcement and progress, one line at a time; default with ``progress``: standard error.
    reference : {"atlas"}, pandas.DataFrame or None
        Judges to compare with; see `biaslab.report.card`.

    Returns
    -------
    Screen
        With ``estimates``, ``card`` and ``trials``. The card lists what could not be measured, with the reason.

    Raises
    ------
    InputError
        If an argument is out of range, or two protocols have the same form.
    BudgetExceededError
        Before asking, if the budget does not cover the screen.
    BiaslabError
        If nothing could be measured; the message gives the first reason.

    Notes
    -----
    Scores use the scale 1-100, or that of the protocol. If the judge gives no label probabilities, each score is
    sampled three times; verdicts of a protocol are asked twice, unless its temperature is 0. A server is asked one
    question before the announcement, because only its reply shows whether it returns label probabilities.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=20)
    >>> found = bl.screen(bl.SimulatedJudge(data, position=2.0, noise=1.0), data, progress=False)
    >>> found.card.biases.set_index("probe").loc["position", "status"]
    'bias'
    >>> found.planned.requests == found.trials.attrs["asked"]
    True
    """
    asked = judge_of(judge)
    require_study(Position(), asked, dataset)
    data = draw_texts(dataset, contexts, candidates, own, seed)
    probes, missing = choose_probes(asked, data, protocol, attributes, own, seed)
    say = say or (print if progress else _ignore)
    measured = Measured(missing=missing, everything=True, say=say, progress=progress)
    with _store_path(store) as path, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.NearestDesignWarning)  # shown on the card
        _see_how_it_answers(asked, probes, data, path)
        planned = measure_all(asked, probes, data, path, measured, budget_of(asked) if budget is None else budget)
    if not measured.frames:
        nothing = errors.BiaslabError(f"nothing could be measured: {measured.missing[-1][2]}")
        raise next(iter(measured.ended.values()), nothing)
    return _screened(measured, planned, reference)


@dataclass(frozen=True)
class ScreenPlan(PrintedText):
    """What `screen` asks with the same arguments; ``print`` shows it as text.

    Attributes
    ----------
    judge : str
        Id of the judge.
    probes : tuple of str
        The biases that are measured.
    contexts : int
        Number of contexts.
    announced : Announcement or None
        Requests, tokens and price; None if the store holds all replies.
    as_text : Announcement or None
        The same if the server returns no label probabilities, which only its first reply shows; None if it is known
        whether it does, or if that makes no difference.
    detectable : dict of str to float
        For the first metric of each probe, in words: the shift that is detected with 80 % power, by a simulated pilot;
        NaN if there are too few contexts.
    missing : tuple of tuple of str
        Judge, probe and reason of what is not measured.
    """

    judge: str
    probes: tuple[str, ...]
    contexts: int
    announced: Announcement | None
    as_text: Announcement | None
    detectable: dict[str, float]
    missing: tuple[tuple[str, str, str], ...]

    def __str__(self) -> str:
        shifts = "; ".join(f"{name} {size(shift)}" for name, shift in self.detectable.items() if shift == shift)
        lines = [
            str(self.announced) if self.announced else "nothing to ask: all replies are in the store",
            f"or, if the server returns no label probabilities: {self.as_text}" if self.as_text else "",
            f"detected with 80 % power, by a simulated pilot: {shifts}" if shifts else "",
            *(f"not measured: {spaced(probe)} ({why})" for _, probe, why in self.missing),
        ]
        biases = ", ".join(dict.fromkeys(map(spaced, self.probes)))
        head = f"{self.judge}: {biases}; {count(self.contexts, 'context')}"
        return "\n  ".join([head, *filter(None, lines)])


def plan_screen(
    judge: Judge | Callable[..., Any],
    dataset: Dataset,
    protocol: Protocols = None,
    *,
    contexts: int = 24,
    candidates: int = 3,
    attributes: Sequence[str] | None = None,
    own: str | None = None,
    store: Store | AnyPath | None = None,
    budget: Budget | None = None,
    seed: int = 0,
) -> ScreenPlan:
    """Plan a `screen` with the same arguments: count its requests without asking, and say what it can detect.

    Returns
    -------
    ScreenPlan
        Biases, contexts, requests, tokens, price, and detectable shifts.

    Raises
    ------
    InputError, BudgetExceededError
        As in `screen`.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded")
    >>> planned = plan_screen(bl.SimulatedJudge(data), data, contexts=10, budget=bl.Budget(prices={"input": 1.0}))
    >>> planned.announced.requests
    90
    """
    asked = judge_of(judge)
    require_study(Position(), asked, dataset)
    data = draw_texts(dataset, contexts, candidates, own, seed)
    probes, missing = choose_probes(asked, data, protocol, attributes, own, seed)
    limits = budget_of(asked) if budget is None else budget
    refused: list[errors.BiaslabError] = []
    for probe in list(probes):
        try:
            answerable(probe, asked, data)
        except (errors.InputError, errors.JudgeError) as error:
            probes.remove(probe)
            refused.append(error)
            missing.append((asked.id, probe.name, " ".join(str(error).split())))
    if not probes:
        raise refused[0]
    with _store_path(store) as path:
        announced = announcement_of_all(probes, asked, data, path, limits)
        unknown = _first_of_labels(asked, probes, data, path) is not None
        as_text = announcement_of_all(probes, asked, data, path, limits, (Choice,)) if unknown else None
    as_text = None if as_text == announced else as_text
    shifts, names = dict(_detectable(probe, asked, data) for probe in probes), tuple(probe.name for probe in probes)
    return ScreenPlan(asked.id, names, data.n_contexts, announced, as_text, shifts, tuple(missing))


def _detectable(probe: Probe, judge: Judge, data: Dataset) -> tuple[str, float]:
    """Return the first metric of a probe in words, and the shift that the contexts can detect."""
    metrics = [find_metric(name, probe.name) for name in probe.primary]
    forms = {"", *(form.removesuffix("s") for form in getattr(probe, "asks", ()) or probe.asks_for)}
    metric = next((each for each in metrics if each.form in forms), metrics[0])
    words = f"{spaced(probe.name)}, {metric.axis}"
    with suppress(errors.InputError, errors.JudgeError, errors.TrialsError):
        return words, planning.plan(probe, judge, data, metric=metric.name).effect
    return words, math.nan


def _first_of_labels(judge: Judge, probes: Sequence[Probe], data: Dataset, store: Path) -> Request | None:
    """Return a request for label probabilities of a server that has not answered one yet; None if none is needed."""
    server = as_judge(judge)
    if server.prices is None or server.asks:
        return None
    with suppress(errors.InputError, errors.JudgeError), open_store(store, create=False) as kept:
        designs = chain.from_iterable(probe.design(data) for probe in probes)
        first = next((trial.request for trial in designs if isinstance(trial.request, Choice)), None)
        server.check([] if first is None else [first])
        return first if first is not None and unanswered(judge, [first], kept) else None
    return None


def _see_how_it_answers(judge: Judge, probes: Sequence[Probe], data: Dataset, store: Path) -> None:
    """Ask a server one question for label probabilities, so that it is known whether it returns them."""
    if (first := _first_of_labels(judge, probes, data, store)) is not None:
        with suppress(errors.InputError, errors.JudgeError), Store(store) as kept:
            list(kept.wrap(judge).ask([first]))


def _screened(measured: Measured, planned: Announcement | None, reference: str | pd.DataFrame | None) -> Screen:
    """Combine the results into a `Screen`."""
    frames = [frame.dropna(axis=1, how="all") for frame in measured.frames]
    columns = dict.fromkeys(name for frame in measured.frames for name in frame)
    estimates = pd.concat(frames, ignore_index=True).reindex(columns=list(columns))
    trials = pd.concat(measured.trials, ignore_index=True)
    for name in ("asked", "stored", "tokens", "dollars"):
        trials.attrs[name] = sum(each.attrs[name] for each in measured.trials)
    return Screen(corrected(estimates), measured.card(reference), trials, planned)


@contextmanager
def _store_path(store: Store | AnyPath | None) -> Iterator[Path]:
    """Yield the path of the store, or of a temporary one."""
    if store is not None:
        yield Path(store.path if isinstance(store, Store) else store)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "judgements.sqlite"


def _ignore(line: str) -> None:
    """Discard a message."""


#: Errors that end one probe but not the others.
_OF_ONE = (errors.InputError, errors.JudgeError, errors.BudgetExceededError, errors.MissingDependencyError)
_OF_ALL = frozenset({401, 402, 403, 404, 429})  # status codes that a server keeps returning, whatever the request


@dataclass
class Measured:
    """Estimates so far, and reasons for missing ones; saves the card after each probe.

    Parameters
    ----------
    out : Path, optional
        Path of the card's files, without suffix. Default: do not save.
    remedies : pandas.DataFrame, optional
        As in `biaslab.report.card`.
    frames : list of pandas.DataFrame
        Estimates frames.
    missing, otherwise : list of tuple of str
        Judge, probe, and why it was not measured or what was asked differently.
    ended : dict of str to BiaslabError
        Judges that are no longer asked, by id, with the error.
    trials : list of pandas.DataFrame
        Judgements of each measured probe.
    everything : bool
        Estimate all metrics; otherwise only those on a card.
    say : callable
        Receives progress messages, one line at a time.
    progress : bool, optional
        Show progress bars; default: only in a terminal.
    """

    out: Path | None = None
    remedies: pd.DataFrame | None = None
    frames: list[pd.DataFrame] = field(default_factory=list)
    missing: list[tuple[str, str, str]] = field(default_factory=list)
    otherwise: list[tuple[str, str, str]] = field(default_factory=list)
    ended: dict[str, errors.BiaslabError] = field(default_factory=dict)
    trials: list[pd.DataFrame] = field(default_factory=list)
    everything: bool = False
    say: Callable[[str], object] = print
    progress: bool | None = None

    def card(self, reference: str | pd.DataFrame | None = "atlas") -> Card:
        """Return the card of all estimates so far."""
        options = {"unmeasured": self.missing, "otherwise": self.otherwise, "reference": reference}
        return card(self.frames, self.remedies, **options)  # type: ignore[arg-type]

    def save(self) -> None:
        """Save the card so far, without its figure; do nothing if no bias has been measured yet."""
        if self.out is None:
            return
        try:
            self.card().save(self.out, picture=False)
        except errors.TrialsError:
            return


def measure_all(
    judge: Judge, probes: Sequence[Probe], data: Dataset, store: Path, measured: Measured, budget: Budget | None = None
) -> Announcement | None:
    """Measure all probes of one judge, adding and saving estimates probe by probe.

    Parameters
    ----------
    judge, data, store
        As for `biaslab.collect`.
    probes : sequence of Probe
        The probes, in the order to ask.
    measured : Measured
        The results to add to.
    budget : Budget, optional
        Budget for all probes together; default: the judge's own limits, if any, for each run.

    Returns
    -------
    Announcement or None
        The planned requests; None if the store held all replies.

    Raises
    ------
    BudgetExceededError
        Before asking, if the budget does not cover all probes and is not partial.
    """
    planned = announcement_of_all(probes, judge, data, store, budget)
    if planned is not None:
        measured.say(f"{judge.id}, {count(len(probes), 'probe')}: {planned}")
    left = None if budget is None else _Left(budget)
    before = len(measured.frames)
    unread: dict[Request, str] = {}  # requests of probes whose replies hold no label, which others would pay for again
    for place, probe in enumerate(probes):
        if shared := unread and [unread[each] for each in _requests_of(probe, judge, data) if each in unread]:
            measured.missing.append((judge.id, probe.name, f"its replies hold no label, as {shared[0]} showed"))
            continue
        try:
            measured.frames.append(_measure(probe, judge, data, store, measured, left))
        except _OF_ONE as error:
            why = " ".join(str(error).split())
            spent = left is not None and isinstance(error, errors.BudgetExceededError)
            if spent or _ends_all(error, answered=len(measured.frames) > before):
                measured.ended[judge.id] = error
                rest = list(probes[place:])
                if spent:  # what was paid for is estimated
                    rest = [each for each in rest if not _measured_in_part(each, judge, data, store, measured)]
                if rest:
                    measured.missing.append((judge.id, ", ".join(other.name for other in rest), why))
                return planned
            if isinstance(error, errors.UnlabelledRepliesError):
                unread |= dict.fromkeys(_requests_of(probe, judge, data), probe.name)
            measured.missing.append((judge.id, probe.name, why))
            measured.say(f"{probe.name} of {judge.id}: not measured; {why}")
        else:
            measured.save()
    return planned


def _requests_of(probe: Probe, judge: Judge, data: Dataset) -> list[Request]:
    with suppress(errors.InputError, errors.JudgeError):
        return [trial.request for trial in answerable(probe, judge, data)]
    return []


def _measured_in_part(probe: Probe, judge: Judge, data: Dataset, store: Path, measured: Measured) -> bool:
    """Measure a probe on the contexts whose requests the store answers; return whether there are any."""
    with open_store(store, create=False) as kept:
        trials = answerable(probe, judge, data)
        open_ = set(unanswered(judge, [trial.request for trial in trials], kept))
    short = {trial.context_id for trial in trials if trial.request in open_}
    answered = [name for name in dict.fromkeys(trial.context_id for trial in trials) if name not in short]
    if not answered:
        return False
    try:
        estimates = _measure(probe, judge, data.of_contexts(answered), store, measured, None)
    except _OF_ONE:
        return False
    measured.frames.append(estimates)
    part = f"only {len(answered)} of {count(data.n_contexts, 'context')}, because the budget was spent"
    measured.otherwise.append((judge.id, probe.name, f"{probe.name}: {part}"))
    measured.save()
    return True


class _Left:
    """The remainder of a budget shared by several runs."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._began = budget, time.monotonic()
        self._spent = {"requests": 0, "tokens": 0, "dollars": 0.0}

    def spend(self, attrs: dict[Any, Any]) -> None:
        """Subtract what a run has spent."""
        for name, column in (("requests", "asked"), ("tokens", "tokens"), ("dollars", "dollars")):
            self._spent[name] += attrs[column]

    @property
    def budget(self) -> Budget:
        """The budget for the next run; raises `BudgetExceededError` if nothing is left."""
        spent = {**self._spent, "minutes": (time.monotonic() - self._began) / 60}
        left = {name: limit - spent[name] for name in spent if (limit := getattr(self._budget, name)) is not None}
        if over := [name for name, amount in left.items() if amount <= 0]:
            remedy = "run again with a larger budget"
            raise errors.BudgetExceededError(f"the budget is spent: no {over[0]} are left; {remedy}")
        return replace(self._budget, **left)


def _ends_all(error: errors.BiaslabError, answered: bool) -> bool:
    """Return whether all further requests to the judge would fail too."""
    if isinstance(error, errors.UnreachableError | errors.ModelLoadError):
        return True
    if not isinstance(error, errors.ServerError):
        return False
    return error.status in _OF_ALL or (error.status is None and not answered)


def _measure(
    probe: Probe, judge: Judge, data: Dataset, store: Path, measured: Measured, left: _Left | None
) -> pd.DataFrame:
    """Measure the metrics of one probe that a card shows: the primary ones, and agreement with references."""
    bars = sys.stderr.isatty() if measured.progress is None else measured.progress
    limits = None if left is None else left.budget
    how: dict[str, Any] = {"progress": bars, "budget": limits, "announce": False}  # all probes were announced together
    trials = collect(probe, judge, data, store=store, **how)
    if left is not None:
        left.spend(trials.attrs)
    quality = [metric.name for metric in probe.metrics if metric.quality]
    estimates = probe.estimate(trials, None if measured.everything else [*probe.primary, *quality], breakdowns=False)
    asked, stored = trials.attrs["asked"], trials.attrs["stored"]
    sources = f"{count(asked, 'judge call')}, {count(stored, 'reply')} from the store"
    measured.say(f"{probe.name} of {judge.id}: {count(len(estimates), 'estimate')}; {sources}")
    if "otherwise" in trials.attrs:
        otherwise = (judge.id, probe.name, trials.attrs["otherwise"])
        if otherwise not in measured.otherwise:  # verbosity of pairs and of scores give the same message
            measured.otherwise.append(otherwise)
            measured.say(f"  {trials.attrs['otherwise']}")
    measured.trials.append(trials)
    return estimates


ProtocolSource = Protocol | AnyPath
Protocols = ProtocolSource | Sequence[ProtocolSource] | None

#: One scale for all scores, so that probes share requests; wide enough to show round numbers.
SCALE = "1-100"
_SYSTEMS = 3  # names in a message
#: Samples per score if the judge answers with text, and per verdict if a protocol asks for text.
_SCORES, _VERDICTS = 3, 2


def draw_texts(dataset: Dataset, contexts: int, candidates: int, own: str | None, seed: int) -> Dataset:
    """Return the first contexts with a random draw of candidates each, always including the judge's own texts."""
    require_whole("contexts", contexts, 1)
    require_whole("candidates", candidates, 2)
    require_whole("seed", seed, 0)
    data = dataset.head(contexts)
    systems = [name for name in dict.fromkeys(data.candidates["system"]) if name]
    if own is not None:
        require_one_of("own", own, systems or ["none: no candidate has a system"])
    chosen: list[int] = []
    for context_id, rows in data.candidates.groupby("context_id", sort=False):
        places = [int(place) for place in rows.index]
        mine = [place for place in places if own is not None and data.candidates.loc[place, "system"] == own][:1]
        others = [place for place in places if place not in mine]
        chosen += sorted([*mine, *draw(others, candidates - len(mine), seed, str(context_id))])
    kept = data.candidates.loc[chosen].reset_index(drop=True)
    names = pd.MultiIndex.from_frame(kept[["context_id", "candidate_id"]])
    human = data.human[pd.MultiIndex.from_frame(data.human[["context_id", "candidate_id"]]).isin(names)]
    return replace(data, candidates=kept, human=human.reset_index(drop=True))


def choose_probes(
    judge: Judge, data: Dataset, protocol: Protocols, attributes: Sequence[str] | None, own: str | None, seed: int
) -> tuple[list[Probe], list[tuple[str, str, str]]]:
    """Return the probes that fit the judge's forms of answering, and the reasons why others do not."""
    by_form = _by_form(protocol)
    chosen = data.require_attributes(attributes)[: None if attributes else 1]
    makers = {"pair": _of_pairs, "score": _of_scores}
    forms = [form for form in makers if form in (by_form or _forms_of(judge))]
    whole = {form: makers[form](chosen, by_form.get(form), own, seed) for form in makers}
    probes = [probe for form in forms for probe in whole[form]]
    asked, answers = {probe.name for probe in probes}, " and ".join(f"{form}s" for form in forms)
    if not probes:
        raise errors.InputError("judge", judge.id, "a judge that answers pairs or scores, as its `kinds` declares")
    needs = [(form, probe.name) for form in whole.keys() - {*forms} for probe in whole[form]]
    why = "needs {}s, but the judge is asked for " + answers
    missing = [(judge.id, name, why.format(form)) for form, name in needs if name not in asked]
    if own is None:
        systems = [str(name) for name in dict.fromkeys(data.candidates["system"]) if name]
        some = ", ".join(systems[:_SYSTEMS]) + (", …" if len(systems) > _SYSTEMS else "")
        why = f"set own to the judge's own system: {some}"
        why = why if systems else "the data set does not say which system wrote which text"
        missing.append((judge.id, SelfPreference.name, why))
    return probes, missing


def _by_form(protocol: Protocols) -> dict[str, Protocol]:
    """Load protocols, at most one per form."""
    listed = [protocol] if isinstance(protocol, str | PathLike | Protocol) else protocol or ()
    protocols: dict[str, Protocol] = {}
    for loaded in map(Protocol.loaded, listed):
        require_one_of("protocol.form", loaded.form, ("pair", "score"))
        if loaded.form in protocols:
            names = f"{protocols[loaded.form].name} and {loaded.name}"
            allowed = f"one protocol for {loaded.form}s"
            raise errors.InputError("protocol", names, allowed, "screen them one after the other")
        protocols[loaded.form] = loaded
    return protocols


def _forms_of(judge: Judge) -> set[str]:
    """Return the forms (pair, score) that a judge answers without a protocol."""
    if judge.kinds & {Choice, Completion}:
        return {"pair", "score"}
    return {form for form, kind in (("pair", Compare), ("score", Score)) if kind in judge.kinds}


def _of_pairs(attributes: Sequence[str], protocol: Protocol | None, own: str | None, seed: int) -> list[Probe]:
    """Return the probes for a judge that compares pairs."""
    again = protocol is not None and protocol.answer == "text" and protocol.temperature > 0
    how: dict[str, Any] = {"protocol": protocol, "replicates": _VERDICTS if again else 1, **_seeded(seed)}
    mine = SelfPreference(attributes, own=own, asks=("pairs",), **how)
    length = Verbosity(attributes, asks=("pairs",), **how)
    return [Position(attributes, templates=(1,), **how), length, *[mine] * (own is not None)]


def _of_scores(attributes: Sequence[str], protocol: Protocol | None, own: str | None, seed: int) -> list[Probe]:
    """Return the probes for a judge that scores; all ask the same questions."""
    how: dict[str, Any] = {"protocol": protocol, **_seeded(seed)}
    again: dict[str, Any] = {"max_tokens": 16} if protocol is None else {}
    mine = SelfPreference(attributes, own=own, asks=("scores",), scale=SCALE, **how)
    return [
        Verbosity(attributes, scale=SCALE, **how),
        Consistency(attributes, scales=(SCALE,), joint=False, levels=("interval",), replicates=_SCORES, **again, **how),
        ScoreDistribution(attributes, scales=(SCALE,), samples=_SCORES, n_candidates=None, **again, **how),
        *[mine] * (own is not None),
    ]


def _seeded(seed: int) -> dict[str, Any]:
    """Return the seeds for a probe's random draws and its resampling."""
    return {"seed": seed, "resampling": Resampling(seed=seed)}
