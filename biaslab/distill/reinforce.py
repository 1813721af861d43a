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
from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.distill.policy import Policy, load_policy
from biaslab.distill.risk import MinimumRisk
from biaslab.distill.risk_run import RewardFunction, RiskRun
from biaslab.distill.sampling import source_frame
from biaslab.distill.settings import AnyPath


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
        references per token, in nats), averaged over the step's sources; ``reward_train``, the mean reward of its
        samples; ``distinct``, the number of distinct samples per source; ``gradient``, its norm before clipping;
        ``reward_held_out``, the mean reward of samples for held-out sources, with the same random numbers each time,
        NaN if not measured. With ``balance=0`` nothing is sampled, and columns about samples are NaN.
    """

    policy: Policy
    history: pd.DataFrame


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
    its reference per token (Eq. 9). The samples of an update are drawn first, in batches and without gradient; then
    their likelihood is computed with gradient, reading each prompt once for all of its samples and its reference (the
    paper's two stages).

    Parameters
    ----------
    model : str or Policy
        Causal or encoder–decoder model as in `collect_samples`, loaded in float32. A policy is trained in place.
    sources : Dataset or pandas.DataFrame
        The sources; with ``balance`` below 1 each needs a reference.
    reward : callable, Judge or evaluator
        Maps (texts, sources, references) to one number each; or a judge that answers `biaslab.core.Score` requests,
        such as an `EvaluatorJudge`; or an object with a method ``score`` of this kind, such as an `Evaluator`. Blank
        texts are not passed to it and get 0, the worst reward.
    settings : MinimumRisk, optional
        Training settings; by default those of the paper, where stated.
    held_out : Dataset or pandas.DataFrame, optional
        Other sources, on which the reward is measured periodically.
    attribute : str
        Attribute to ask a judge about; by default overall quality.
    prompt : str, optional
        As in `collect_samples`.
    folder : path, optional
        Folder of the checkpoints. A killed run resumes from the last one and ends with the same weights.
    device : str, optional
        By default CUDA, else MPS, else the CPU.
    progress : bool
        Show a progress bar with the reward.
    **changes
        Individual settings to change, for example ``steps=10, trainable=4, objective="reinforce"``.

    Returns
    -------
    Reinforced
        ``policy`` and ``history``.

    Raises
    ------
    InputError
        If a reference is missing, a source is both trained and held out, a reward is not finite, or the folder
        contains another run.
    PromptTooLongError
        Before training, if a source does not fit the context window.

    Notes
    -----
    Dropout is off, so that samples come from the same weights that are trained. The paper's "balance factor" is taken
    to be the weight of the risk. Only a policy that writes different texts can learn: see ``distinct``.

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
