"""Run a study: design → ask → read → trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any, cast, overload

from biaslab.core import Adaptable, BaseJudge, Compare, Design, Given, Judge, Request, Score, as_judge
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

    Returns
    -------
    pandas.DataFrame or biaslab.store.trials.TrialsFile
        With ``out``, a `biaslab.store.trials.TrialsFile`, which reads columns on demand (``trials["value"]``,
        ``trials.to_pandas()``) and which a probe's ``estimate`` accepts, like its path; else a frame. One row per
        judgement in the order of the design: ``probe, judge, dataset, context_id, candidate_id, opponent_id, attribute,
        <conditions>, replicate, value, status, label_mass, samples, tokens, key``. ``value`` is NaN unless ``status``
        is "ok" or "tie". ``label_mass`` is the total probability of all labels, NaN for text. ``samples`` is the number
        of samples behind value and label mass, NaN if they are exact. ``attrs`` has the number of new replies
        (``asked``), their ``tokens`` and ``dollars`` at the budget's prices, the number of replies from the store
        (``stored``), and the store's path (``store``).

    Raises
    ------
    InputError
        If the probe plans nothing, an argument has the wrong type, or the file ``out`` has other columns or belongs to
        another study. Raised before asking.
    JudgeError
        Before asking, if the judge can answer neither a request nor that of a nearest design; the message names context
        and candidate. `UnsupportedRequestError` after one request of each kind if only the server can tell, and
        `UnreachableError` within seconds if there is no server.
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
    next(iter(probe.design(dataset)), None)  # raises errors of the design before a store is created
    try:
        with (
            nullcontext() if store is None else open_store(store) as kept,
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
    """Ask a design or, if the judge refuses it, the nearest design that it can answer."""
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
            raise error from last  # the first error describes the original design


def _why_not(probe: Design, judge: BaseJudge) -> str:
    """Explain why a judge without prompts cannot answer a design."""
    if getattr(probe, "lists", False):
        return f"{probe.name} shows several texts at once, but {judge.id!r} takes only one or two"
    if getattr(probe, "verdicts", False) and Compare not in judge.kinds:
        return f"{probe.name} compares two texts, but {judge.id!r} only scores single texts"
    if getattr(probe, "evaluators", False) and Score not in judge.kinds:
        return f"{probe.name} scores single texts, but {judge.id!r} only compares two"
    return f"{probe.name} needs prompts and text replies, but {judge.id!r} takes no prompt"


def _nearest(walk: Walk, probe: Design, error: JudgeError, changes: list[str]) -> Design | None:
    """Return the nearest design without the refused requests; if no server answers, only a stored one."""
    nearest = probe.nearest(error.request) if isinstance(probe, Adaptable) and error.request is not None else None
    if nearest is None:
        return None
    cause = error.__cause__ if isinstance(error.__cause__, JudgeError) else error
    reason = str(cause).partition("; ")[0]  # without the remedy and the candidate
    if walk.judge.reads_prompts:
        changes.append(f"{nearest.words} ({reason})")
    elif nearest.omits:
        changes.append(nearest.omits)
    elif getattr(probe, "protocol", None) is not None and getattr(nearest.design, "protocol", None) is None:
        changes.append(f"does not use the protocol, because {walk.judge.id!r} takes no prompt")
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
    """Return the embedded model, used for likelihoods if a judge gives none."""
    from biaslab.judges import load_judge

    return load_judge("smollm2-135m")


def _warn_of_several_models(models: Counter[str], judge_id: str) -> None:
    """Warn if the replies of one study, new and stored, come from several models."""
    if len(models) > 1:
        shares = ", ".join(f"{count:,} from {name!r}" for name, count in models.most_common())
        words = f"replies of {judge_id!r} come from several models, according to its server: {shares}"
        warn(words, ModelChangedWarning)
