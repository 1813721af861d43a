"""Train a generation model with an evaluator as reward: MRT or REINFORCE (Wang et al. 2023, Eqs. 2 to 4, 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core import Judge, Score
from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.distill.policy import Policy, load_policy
from biaslab.distill.risk import MinimumRisk
from biaslab.distill.risk_run import RewardFunction, RiskRun
from biaslab.distill.sampling import source_frame
from biaslab.distill.settings import AnyPath, Floats


class Reinforced(NamedTuple):
    """Result of `reinforce`.

    Parameters
    ----------
    policy : Policy
        The trained model; ``policy.save(folder)`` writes it for transformers, `biaslab.load_judge` and
        `collect_samples`.
    history : pandas.DataFrame
        One row per step, from 0 (before training): ``step``; ``loss`` (Eq. 9), ``risk`` (Eq. 3, or minus the mean
        reward of the samples; in units of reward, 0 at the mean before training) and ``likelihood`` (−log P of the
        references a token, in nats), means over the sources of the step; ``reward_train``, the mean reward of its
        samples; ``distinct``, how many different ones a source had; ``gradient``, its norm before clipping;
        ``reward_held_out``, the mean reward of samples of held-out sources, NaN where it was not measured. Its random
        numbers are the same each time. With ``balance=0`` nothing is sampled, and what is said of samples is NaN.
    """

    policy: Policy
    history: pd.DataFrame


@checked
def reinforce(
    model: str | Policy,
    sources: Dataset | pd.DataFrame,
    reward: RewardFunction | Judge | Any,
    settings: MinimumRisk | None = None,
    *,
    held_out: Dataset | pd.DataFrame | None = None,
    attribute: str = "",
    prompt: str | None = None,
    folder: AnyPath | None = None,
    device: str | None = None,
    progress: bool = True,
    **changes: Any,
) -> Reinforced:
    """Train a generation model to write texts that an evaluator scores highly.

    Loss of a source: λ × risk of its samples (Eqs. 3, 4; with ``objective="reinforce"`` Eq. 2) + (1 − λ) × −log P of
    its reference a token (Eq. 9). The samples of an update are drawn first, in batches and without gradient; then their
    likelihood is computed with gradient, each prompt read once for all of its samples and its reference (the paper's
    two stages).

    Parameters
    ----------
    model : str or Policy
        Causal or encoder–decoder model as for `collect_samples`, loaded in float32. A policy is trained in place.
    sources : Dataset or pandas.DataFrame
        What to write about; with ``balance`` below 1 each with a reference.
    reward : callable, Judge or evaluator
        From (texts, sources, references) to one number each; a judge that answers `biaslab.core.Score` requests, such
        as an `EvaluatorJudge`; or anything with such a method ``score``, such as an `Evaluator`. A blank text is not
        shown to it and gets 0, the worst.
    settings : MinimumRisk, optional
        How to train; by default as the paper does where it says so.
    held_out : Dataset or pandas.DataFrame, optional
        Other sources, on which the reward is measured from time to time.
    attribute : str
        What a judge is asked about; quality as a whole by default.
    prompt : str, optional
        As for `collect_samples`.
    folder : path, optional
        Where checkpoints are kept. A run that was killed goes on from the last one and ends with the same weights.
    device : str, optional
        By default CUDA, else MPS, else the CPU.
    progress : bool
        Show a progress bar with the reward.
    **changes
        Settings that differ, by name, such as ``steps=10, trainable=4, objective="reinforce"``.

    Returns
    -------
    Reinforced
        ``policy`` and ``history``.

    Raises
    ------
    InputError
        If a reference is missing, a source is both trained and held out, a reward is not finite, or the folder holds
        another run.
    PromptTooLongError
        Before training, if a source does not fit the context window.

    Notes
    -----
    Dropout is off, so that the weights that write are those that are trained. That λ weighs the risk is how the paper's
    "balance factor" of a mean of both is read here. Only a policy that writes different texts learns: see ``distinct``.

    Examples
    --------
    >>> policy, history = reinforce("smollm2-135m", data, evaluator, steps=10, trainable=4)  # doctest: +SKIP
    """
    settings = replace(settings or MinimumRisk(), **changes)
    trained, others = source_frame(sources), None if held_out is None else source_frame(held_out)
    blank = trained.loc[trained["reference"].str.strip() == "", "context_id"]
    if settings.balance < 1 and len(blank):
        where = blank.iloc[0]
        raise InputError("sources", f"context {where!r} without a reference", "references", "or set balance to 1")
    both = set() if others is None else set(trained["context"]) & set(others["context"])
    if both:
        raise InputError("held_out", f"{len(both)} training sources", "other sources")
    policy = load_policy(model, prompt, "float32", device)
    run = RiskRun(policy, trained, others, _as_function(reward, attribute), settings, str(getattr(reward, "id", "")))
    bar = {"desc": "minimum-risk training" if settings.objective == "mrt" else "REINFORCE", "unit": "step"}
    run.finish(folder, settings.save_every, settings.steps, progress, **bar)
    policy.name = f"{policy.name.split(', reinforced')[0]}, reinforced {settings.steps} steps"
    return Reinforced(policy, pd.DataFrame(run.history))


def _as_function(reward: Any, attribute: str) -> RewardFunction:
    """Return the reward as a function of texts, sources and references."""
    function = partial(_ask, reward, attribute) if hasattr(reward, "ask") else getattr(reward, "score", reward)
    if not callable(function):
        raise InputError("reward", reward, "a function of texts, sources and references, an evaluator, or a judge")
    return function


def _ask(
    judge: Judge, attribute: str, texts: Sequence[str], sources: Sequence[str], references: Sequence[str]
) -> Floats:
    requests = [Score(*parts, attribute) for parts in zip(texts, sources, references, strict=True)]
    judge.check(requests)
    replies = dict(judge.ask(dict.fromkeys(requests)))
    scores = [replies[request].score for request in requests]
    return np.array([math.nan if score is None else score for score in scores])
