"""Train on an evaluator's scores: settings, and losses of sampled sequences (Wang et al. 2023, Eqs. 2 to 4, 9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from biaslab.core.checks import is_whole, require_whole
from biaslab.core.errors import InputError

Objective = Literal["mrt", "reinforce"]
Baseline = Literal["others", "start", "none"]


@dataclass(frozen=True)
class MinimumRisk:
    """Settings of `reinforce`.

    Parameters
    ----------
    steps : int
        Number of weight updates.
    sources_per_step : int
        Number of sources whose gradients are accumulated for an update.
    samples : int
        Number of texts sampled per source (5 in the paper); duplicates count once.
    balance : float
        λ of Eq. 9, the weight of the risk; 1 − λ is that of the references' likelihood. The paper uses .7.
    smoothness : float
        α of Eq. 4. The paper gives no value; near 1 the most likely sample has almost all of the probability, because
        log-probabilities of whole texts differ by many nats.
    reward_unit : float, optional
        Unit of reward in the risk, so that λ has the same meaning whatever the scale of the rewards. By default the
        standard deviation of the rewards within sources before training; 1 leaves rewards unscaled (the paper).
    learning_rate : float
        Learning rate of AdamW, constant and without weight decay.
    clip : float
        Maximum norm of the gradient.
    max_tokens : int
        Maximum length of a sample; references are not truncated.
    temperature : float
        Sampling temperature.
    trainable : "all" or int
        Train all weights, as in the paper, or only this many of the last blocks and the layers after them.
    evaluate_every : int
        Number of steps between measurements on held-out sources; there is always one before training and one at the
        end.
    save_every : int
        Number of steps between checkpoints.
    rows : int
        Maximum number of texts sampled, or scored with gradient, at once (more if a single source has more).
    seed : int
        Seed of the order and the samples.
    objective : {"mrt", "reinforce"}
        Minimum-risk training (Eqs. 3 and 4, used by the paper), or REINFORCE (Eq. 2, Williams 1992), in which
        duplicate samples count separately and ``smoothness`` has no effect.
    baseline : {"others", "start", "none"}
        For REINFORCE: what is subtracted from a sample's reward, which reduces the variance of the gradient without
        changing its expectation: the mean reward of the source's other samples, the mean over all sources before
        training, or nothing, as in the printed Eq. 2. MRT needs none, because its gradient already subtracts the
        posterior mean reward.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    steps: int = 100
    sources_per_step: int = 4
    samples: int = 5
    balance: float = 0.7
    smoothness: float = 0.1
    reward_unit: float | None = None
    learning_rate: float = 1e-5
    clip: float = 1.0
    max_tokens: int = 64
    temperature: float = 1.0
    trainable: int | str = "all"
    evaluate_every: int = 10
    save_every: int = 10
    rows: int = 32
    seed: int = 0
    objective: Objective = "mrt"
    baseline: Baseline = "others"

    def __post_init__(self) -> None:
        for name in ("steps", "sources_per_step", "max_tokens", "evaluate_every", "save_every", "rows"):
            require_whole(name, getattr(self, name), 1)
        if not is_whole(self.samples, 2):
            raise InputError("samples", self.samples, "at least 2: one sample has no other to compare with")
        if not 0 <= self.balance <= 1:
            raise InputError("balance", self.balance, "a number from 0 (likelihood only) to 1 (risk only)")
        for name in ("smoothness", "learning_rate", "clip", "temperature"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(name, getattr(self, name), "a number above 0")
        if self.reward_unit is not None and not 0 < self.reward_unit < math.inf:
            raise InputError("reward_unit", self.reward_unit, "a number above 0, or None to measure it")
        if self.trainable != "all" and not is_whole(self.trainable, 1):
            raise InputError("trainable", self.trainable, '"all", or a number of blocks of at least 1')


def posterior(log_probs: torch.Tensor, smoothness: float) -> torch.Tensor:
    """Return Eq. 4: the probabilities of sampled sequences to the power of α, renormalised over them.

    Parameters
    ----------
    log_probs : torch.Tensor, shape (sequences,)
        log P(sequence | source) in nats, for *distinct* sequences of one source.
    smoothness : float
        α: 1 is the model's own distribution over them, towards 0 they become equal.

    Examples
    --------
    >>> posterior(torch.tensor([0.25, 0.5]).log(), 1.0).tolist()
    [0.3333333432674408, 0.6666666865348816]
    """
    return (smoothness * log_probs).softmax(-1)


def risk(log_probs: torch.Tensor, rewards: torch.Tensor, smoothness: float) -> torch.Tensor:
    """Return Eq. 3 for one source: the expected loss −r under the posterior of its sampled sequences.

    Parameters
    ----------
    log_probs : torch.Tensor, shape (sequences,)
        As in `posterior`, with gradient.
    rewards : torch.Tensor, shape (sequences,)
        Reward r of each; adding a constant to all does not change the gradient.
    smoothness : float
        α.

    Returns
    -------
    torch.Tensor, shape ()

    Examples
    --------
    >>> risk(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.0, 1.0]), 1.0).item()
    -0.5
    """
    return -(posterior(log_probs, smoothness) * rewards).sum()


def policy_gradient(
    log_probs: torch.Tensor, rewards: torch.Tensor, counts: torch.Tensor, baseline: float | None = None
) -> torch.Tensor:
    """Return Eq. 2 for one source: REINFORCE over its sampled sequences.

    Parameters
    ----------
    log_probs : torch.Tensor, shape (sequences,)
        log P(sequence | source) in nats for *distinct* sequences, with gradient.
    rewards : torch.Tensor, shape (sequences,)
        Reward r of each.
    counts : torch.Tensor, shape (sequences,)
        How often each was sampled.
    baseline : float, optional
        Subtracted from each reward; by default the mean reward of the source's other samples (Kool et al. 2019). With
        a single sample there are no others, and the gradient is 0.

    Returns
    -------
    torch.Tensor, shape ()
        Its value is −(mean reward of the samples), comparable with `risk`; its gradient that of −mean((r − b) log P),
        with the baseline b.

    Examples
    --------
    >>> logs = torch.tensor([0.5, 0.5]).log().requires_grad_()
    >>> loss = policy_gradient(logs, torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]))
    >>> loss.backward()
    >>> round(loss.item(), 2), [round(x, 2) for x in logs.grad.tolist()]
    (-0.75, [0.25, -0.25])
    """
    n = counts.sum()
    mean = (counts * rewards).sum() / n
    # r − (Σ r − r) / (n − 1) = n (r − mean) / (n − 1)
    gains = (rewards - mean) * n / (n - 1).clamp(min=1) if baseline is None else rewards - baseline
    shares = counts / n
    return -mean - (shares * gains * (log_probs - log_probs.detach())).sum()
