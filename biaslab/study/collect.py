"""The only orchestrator: design → ask → read → trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any, cast, overload

from biaslab.core import Adaptable, BaseJudge, Compare, Design, Given, Judge, Request, Score, as_judge
from biaslab.core.checked import checked
from biaslab.core.checks import require_study
from biaslab.core.errors import (
    JudgeError,
    ModelChangedWarning,
    NearestDesignWarning,
    UnreachableError,
    UnsupportedRequestError,
    warn,
)
from biaslab.core.progress import Postfix, progress_bar
from biaslab.judges.function import judge_of
from biaslab.store import Store, open_store
from biaslab.study.collecting.walk import Walk
from biaslab.study.collecting.windows import window_size, windows
from biaslab.study.spending.budget import Budget, budget_of
from biaslab.study.spending.cost import unanswered

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.datasets import Dataset
    from biaslab.store.trials import TrialsFile


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
) -> TrialsFile: ...


@checked(eager=True)
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
) -> pd.DataFrame | TrialsFile:
    """Ask a judge everything that a probe plans for a data set.

    Parameters
    ----------
    probe : Design
        What to ask and how to read it: a `Probe`, or a scorer of `biaslab.scoring`. Where its ``design`` takes a second
        parameter ``trials``, it is called again with the trials so far until it yields nothing. Where it has
        ``keeps_replies`` and that is true, trials have a column ``reply``, the text of each reply, for a later round.
    judge : Judge or function
        Who is asked. A function becomes a `biaslab.FunctionJudge`.
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
    out : path, optional
        A ``.parquet`` file for the trials, for studies of any size: they are written as they come, some 100,000 rows at
        a time, and are there as a whole once the run is through. A run that is stopped leaves what was there before, or
        nothing, and with a store the next one goes on where it was. A file of the same study is replaced. A design in
        rounds is given all trials so far, so that they are in memory too.

    Returns
    -------
    pandas.DataFrame or biaslab.store.trials.TrialsFile
        With ``out`` a `biaslab.store.trials.TrialsFile`, of which columns are read when they are asked for
        (``trials["value"]``, ``trials.to_pandas()``); ``estimate`` of a probe takes it, or its path. Else a frame. Both
        have one row per judgement in the order of the design: ``probe, judge, dataset, context_id, candidate_id,
        opponent_id, attribute, <conditions>, replicate, value, status, label_mass, samples, tokens, key``. ``value`` is
        NaN unless ``status`` is "ok" or "tie". ``label_mass`` is the probability that all labels have together, NaN for
        text. ``samples`` says of how many samples that and the value are shares, NaN where they are exact. The number
        of replies that the judge gave now is in ``attrs["asked"]``, their tokens in ``attrs["tokens"]`` and what they
        cost at the prices of the budget in ``attrs["dollars"]``; the number of those from the store is in
        ``attrs["stored"]``, the store's file in ``attrs["store"]``.

    Raises
    ------
    InputError
        If the probe plans nothing, or probe, judge or data set are something else; or if ``out`` has other columns, or
        is of another study. Nothing is asked then.
    JudgeError
        Before anything is asked, if a request cannot be answered, nor those of a near design; the message names context
        and candidate. `UnsupportedRequestError` after one request of a kind where only the server can tell, and
        `UnreachableError` within seconds where there is none.
    BudgetExceededError
        Before anything is asked, if the budget does not cover the run; the message says what it needs and how many
        contexts fit. Later, when a partial budget, or one whose tokens or minutes could only be estimated, or one of a
        design that goes on with what was answered, is spent: everything answered so far is in the store.

    Notes
    -----
    The design is walked twice: first the judge checks it and a budget is held against it, then it is asked, in windows
    of whole contexts, of which one is in memory at a time. Prompts and replies are dropped once they are read. A design
    has to plan the same trials both times.

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
    judge = cast("Judge", judge) if hasattr(judge, "ask") else judge_of(judge)
    require_study(probe, judge, dataset)
    asked = as_judge(judge)
    next(iter(probe.design(dataset)), None)  # says what is wrong with it before there is a store
    try:
        with (
            open_store(store) as kept,
            progress_bar(desc=probe.name, unit="reply", total=0, disable=not progress) as bar,
            asked.watched((postfix := Postfix(bar)).retried),
        ):
            tells = progress if announce is None else announce
            limits = budget if budget is not None else budget_of(asked)
            walk = Walk(asked, dataset, kept, limits, bar, postfix, tells, out)
            if kept is not None:
                walk.attrs["store"] = str(kept.path.resolve())
            trials = _ask_nearest(walk, probe, probe.name, []) if nearest else walk.trials(probe)
    except UnsupportedRequestError as error:
        if asked.reads_prompts or not nearest:
            raise
        raise UnsupportedRequestError(_why_not(probe, asked), error.request) from error
    if "otherwise" in walk.attrs:
        warn(walk.attrs["otherwise"], NearestDesignWarning)
    _warn_of_several_models(walk.models, asked.id)
    return trials


def _ask_nearest(walk: Walk, probe: Design, name: str, changes: list[str]) -> pd.DataFrame | TrialsFile:
    """Ask what a design plans or, where the judge refuses that, the nearest design that it answers."""
    if changes:
        walk.attrs["otherwise"] = f"{name} {' and '.join(changes)}"
    try:
        return walk.trials(probe)
    except (UnsupportedRequestError, UnreachableError) as error:
        other = _nearest(walk, probe, error, changes)
        if other is None:
            raise
        try:
            return _ask_nearest(walk, other, name, changes)
        except UnsupportedRequestError as last:
            raise error from last  # the first one says what was wanted


def _why_not(probe: Design, judge: BaseJudge) -> str:
    """Explain why a judge that reads no prompt cannot answer a design."""
    if getattr(probe, "lists", False):
        return f"{probe.name} shows several texts at once, and {judge.id!r} is asked about one or two"
    if getattr(probe, "verdicts", False) and Compare not in judge.kinds:
        return f"{probe.name} compares two texts, and {judge.id!r} only scores single ones"
    if getattr(probe, "evaluators", False) and Score not in judge.kinds:
        return f"{probe.name} scores single texts, and {judge.id!r} only compares two"
    return f"{probe.name} is about prompts and the words of a reply, and {judge.id!r} reads no prompt"


def _nearest(walk: Walk, probe: Design, error: JudgeError, changes: list[str]) -> Design | None:
    """Return the nearest design without what was refused; where no server answers only one that is stored."""
    nearest = probe.nearest(error.request) if isinstance(probe, Adaptable) and error.request is not None else None
    if nearest is None:
        return None
    cause = error.__cause__ if isinstance(error.__cause__, JudgeError) else error
    reason = str(cause).partition("; ")[0]  # without the remedy, and without the candidate where it turned out
    if walk.judge.reads_prompts:
        changes.append(f"{nearest.words} ({reason})")
    elif nearest.omits:
        changes.append(nearest.omits)
    design = nearest.design
    if nearest.reads is not None:
        read = collect(nearest.reads, _embedded_judge(), walk.dataset, walk.store, not walk.bar.disable)
        design = design.given(read, walk.dataset) if isinstance(design, Given) else design
    if isinstance(error, UnreachableError):
        missing = _first_unanswered(walk, design)
        return design if missing is None else _nearest(walk, design, UnreachableError(str(error), missing), changes)
    return design


def _first_unanswered(walk: Walk, design: Design) -> Request | None:
    for window in windows(design.design(walk.dataset), window_size(walk.judge)):
        missing = unanswered(walk.judge, [trial.request for trial in window], walk.store)
        if missing:
            return missing[0]
    return None


@cache
def _embedded_judge() -> Judge:
    """Return the embedded model, which reads texts for judges that give no probabilities of them."""
    from biaslab.judges import load_judge

    return load_judge("smollm2-135m")


def _warn_of_several_models(models: Counter[str], judge_id: str) -> None:
    """Warn if the judgements of one study, new and stored, come from several models."""
    if len(models) > 1:
        shares = ", ".join(f"{count:,} from {name!r}" for name, count in models.most_common())
        words = f"the judgements of {judge_id!r} come from several models, as its server names them: {shares}"
        warn(words, ModelChangedWarning)
