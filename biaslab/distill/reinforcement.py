"""Train a generation model with an evaluator as reward: MRT or REINFORCE (Wang et al. 2023, Eqs. 2 to 4, 9)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from biaslab.core.arrays import Floats
from biaslab.core.checks import is_whole, require_fields, require_whole
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Judge
from biaslab.core.output import AnyPath
from biaslab.core.requests import Score
from biaslab.core.schema import Dataset
from biaslab.distill.checkpoints import Tensors, TrainingRun
from biaslab.distill.policy import Ids, Policy, load_policy
from biaslab.distill.sampling import Output, Truncation, in_batches, random_numbers, sample, source_frame


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
        raise InputError.plain(f"sources has no reference for context {where!r}; add it, or set balance to 1")
    both = set() if others is None else set(trained["context"]) & set(others["context"])
    if both:
        raise InputError.plain(f"held_out has {len(both)} of the training sources")
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
        require_fields(self)
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


#: Maps texts, their sources and their references to one number each, higher for better.
RewardFunction = Callable[[Sequence[str], Sequence[str], Sequence[str]], ArrayLike]


class SourceTask(NamedTuple):
    """Source with its reference, as texts and as token ids."""

    context_id: str
    context: str
    reference: str
    prompt: Ids
    target: Ids


class RiskRun(TrainingRun):
    """Training run of a generation model on rewards; one step is one weight update.

    Attributes
    ----------
    history : list of dict
        The row before training, if it has begun, and one row per step.
    """

    def __init__(
        self,
        policy: Policy,
        sources: pd.DataFrame,
        held_out: pd.DataFrame | None,
        reward: RewardFunction,
        settings: MinimumRisk,
        reward_id: str = "",
    ) -> None:
        self.policy, self.reward, self.settings = policy, reward, settings
        self.tasks = self._tasks(sources)
        self.held_out = [] if held_out is None else self._tasks(held_out)
        self.identity = self._identity(reward_id)
        self.weights = trainable_weights(policy.model, settings.trainable)
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=settings.learning_rate, weight_decay=0.0)
        self.history: list[dict[str, float]] = []
        self.unit, self.centre = settings.reward_unit or 1.0, 0.0  # measured by `_begin`

    @property
    def step(self) -> int:
        """The last completed step, 0 before the first."""
        return max(0, len(self.history) - 1)

    @property
    def is_over(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self.settings.steps

    def advance(self) -> dict[str, float]:
        """Take one step; return the mean reward of its samples."""
        if not self.history:
            self._begin()
        step, settings = len(self.history), self.settings
        tasks = self._chosen(step)
        drawn = self._draw(tasks, step) if settings.balance > 0 else [[] for _ in tasks]
        rewards = self._judge(tasks, drawn)
        self.optimizer.zero_grad(set_to_none=True)
        sums = np.zeros(3)
        for batch in in_batches([task.prompt for task in tasks], settings.samples + 1, settings.rows):
            sums += self._backward([tasks[i] for i in batch], [drawn[i] for i in batch], [rewards[i] for i in batch])
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), settings.clip, error_if_nonfinite=True)
        self.optimizer.step()
        loss, lost, likelihood = (sums / len(tasks)).tolist()
        is_due = step % settings.evaluate_every == 0 or step == settings.steps
        row = {
            "step": float(step),
            "loss": loss,
            "risk": lost,
            "likelihood": likelihood,
            "reward_train": _mean_of_means(rewards),
            "distinct": float(np.mean([len({o.ids for o in outputs}) or math.nan for outputs in drawn])),
            "gradient": float(norm),
            "reward_held_out": self._held_out_reward() if is_due else math.nan,
        }
        self.history.append(row)
        return {"reward": row["reward_train"]}

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Return the weights, the reward unit and the history."""
        weights = {f"weight.{name}": weight for name, weight in self.weights.items()}
        return weights, {"unit": self.unit, "centre": self.centre, "history": self.history}

    def restore(self, tensors: Tensors, record: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(tensors[f"weight.{name}"])
        self.unit, self.centre, self.history = record["unit"], record["centre"], record["history"]

    def _begin(self) -> None:
        """Measure the unit of reward and the reward before training."""
        rewards: list[Floats] = []
        if self.settings.balance > 0:
            rewards = self._judge(self.tasks, self._draw(self.tasks, 0))
            spread = math.sqrt(float(np.mean([r.var() for r in rewards])))
            self.unit, self.centre = self.settings.reward_unit or spread or 1.0, _mean_of_means(rewards)
        unknown = dict.fromkeys(("loss", "risk", "likelihood", "reward_train", "distinct", "gradient"), math.nan)
        known = {"reward_train": _mean_of_means(rewards), "reward_held_out": self._held_out_reward()}
        self.history.append({"step": 0.0, **unknown, **known})

    def _tasks(self, frame: pd.DataFrame) -> list[SourceTask]:
        policy, most = self.policy, self.settings.max_tokens
        return [
            SourceTask(name, text, reference, policy.read(text, most), policy.target(reference))
            for name, text, reference in frame[["context_id", "context", "reference"]].to_numpy(object).tolist()
        ]

    def _chosen(self, step: int) -> list[SourceTask]:
        """Return the sources of a step, reshuffled after each pass."""
        size, total = self.settings.sources_per_step, len(self.tasks)
        start = (step - 1) * size
        epochs = range(start // total, (start + size - 1) // total + 1)
        order = np.concatenate([np.random.default_rng([self.settings.seed, e]).permutation(total) for e in epochs])
        return [self.tasks[i] for i in order[start % total :][:size]]

    def _draw(self, tasks: Sequence[SourceTask], step: int) -> list[list[Output]]:
        """Sample texts of every source, without gradient."""
        settings, outputs = self.settings, dict[int, list[Output]]()
        n = settings.samples
        for batch in in_batches([task.prompt for task in tasks], n, settings.rows):
            some = [tasks[i] for i in batch]
            seeds = [(settings.seed, step, task.context_id, task.prompt) for task in some]
            numbers = np.array([random_numbers(n, settings.max_tokens, *seed) for seed in seeds])
            truncation = Truncation(temperature=settings.temperature)
            outputs |= zip(batch, sample(self.policy, [task.prompt for task in some], numbers, truncation), strict=True)
        return [outputs[i] for i in range(len(tasks))]

    def _judge(self, tasks: Sequence[SourceTask], drawn: Sequence[Sequence[Output]]) -> list[Floats]:
        """Return the rewards of the texts of every source."""
        rows = [(self.policy.decode(o.ids), task) for task, outputs in zip(tasks, drawn, strict=True) for o in outputs]
        shown = [(text, task) for text, task in rows if text]
        values = np.zeros(len(rows))
        if shown:
            arguments = zip(*((text, task.context, task.reference) for text, task in shown), strict=True)
            values[[bool(text) for text, _ in rows]] = np.asarray(self.reward(*arguments), float)
        if not np.isfinite(values).all():
            raise InputError.plain("reward must return a finite number for each text")
        return list(np.split(values, np.cumsum([len(outputs) for outputs in drawn])[:-1]))

    def _backward(
        self, tasks: Sequence[SourceTask], drawn: Sequence[Sequence[Output]], rewards: Sequence[Floats]
    ) -> Floats:
        """Add the gradient of some sources of a step; return the sums of their loss, risk and likelihood."""
        settings, share = self.settings, 1 / self.settings.sources_per_step
        unlike = [{o.ids: r for o, r in zip(*pair, strict=True)} for pair in zip(drawn, rewards, strict=True)]
        targets = [[task.target] if settings.balance < 1 else [] for task in tasks]
        rows = [[*sampled, *target] for sampled, target in zip(unlike, targets, strict=True)]
        every = self.policy.log_likelihood([task.prompt for task in tasks], rows)
        sums, losses = np.zeros(3), []
        for likelihoods, sampled, outputs, task in zip(every, unlike, drawn, tasks, strict=True):
            lost = self._lost(likelihoods[: len(sampled)], sampled, outputs) if sampled else likelihoods.new_zeros(())
            spent = -likelihoods[-1] / len(task.target) if settings.balance < 1 else lost.new_zeros(())
            losses.append(settings.balance * lost + (1 - settings.balance) * spent)
            sums += [float(losses[-1].detach()), float(lost.detach()), float(spent.detach())]
        (share * torch.stack(losses).sum()).backward()  # type: ignore[no-untyped-call]
        return sums

    def _lost(self, likelihoods: torch.Tensor, sampled: Mapping[Ids, float], outputs: Sequence[Output]) -> torch.Tensor:
        """Return the loss of a source's distinct samples: Eq. 3 or 2, in units of reward relative to the start."""
        settings, like = self.settings, {"dtype": likelihoods.dtype, "device": likelihoods.device}
        gains = (
            np.array(list(sampled.values())) - self.centre
        ) / self.unit  # the gradient of Eq. 3 does not depend on the centre
        worth = torch.tensor(gains, **like)  # type: ignore[arg-type]
        if settings.objective == "mrt":
            return risk(likelihoods, worth, settings.smoothness)
        drawn = Counter(output.ids for output in outputs)
        counts = torch.tensor([drawn[ids] for ids in sampled], **like)  # type: ignore[arg-type]
        taken = {"others": None, "start": 0.0, "none": -self.centre / self.unit}[settings.baseline]
        return policy_gradient(likelihoods, worth, counts, taken)

    def _held_out_reward(self) -> float:
        if not self.held_out:
            return math.nan
        return _mean_of_means(self._judge(self.held_out, self._draw(self.held_out, 0)))

    def _identity(self, reward_id: str) -> dict[str, Any]:
        """Return everything that must be unchanged to resume a run."""
        # measuring, saving and batching frequencies do not affect a step
        kept = {k: v for k, v in asdict(self.settings).items() if k not in ("evaluate_every", "save_every", "rows")}
        shown = repr([[tuple(task) for task in tasks] for tasks in (self.tasks, self.held_out)])
        digest = hashlib.sha256(shown.encode()).hexdigest()[:16]
        about = {"model": self.policy.name, "prompt": self.policy.prompt, "reward": reward_id}
        return {**about, "settings": kept, "sources": digest}


def trainable_weights(model: Any, trainable: int | str) -> dict[str, torch.nn.Parameter]:
    """Freeze parameters that are not trained, and return the others by name: all, or the last blocks and later layers.

    Word embeddings, even if tied to the output layer, are trained with "all" only.

    Raises
    ------
    InputError
        If the model has fewer blocks.
    """
    every: dict[str, torch.nn.Parameter] = dict(model.named_parameters())
    chosen = set(every)
    if trainable != "all":
        root = model.get_decoder() if model.config.is_encoder_decoder else model
        lists = {name: part for name, part in root.named_modules() if isinstance(part, torch.nn.ModuleList)}
        outer = [part for name, part in lists.items() if not any(name.startswith(f"{other}.") for other in lists)]
        blocks = max(outer, key=len)
        if int(trainable) > len(blocks):
            raise InputError("trainable", trainable, f'at most {len(blocks)} blocks, or "all"')
        owned = {id(weight) for weight in blocks.parameters()}
        last = {id(weight) for block in list(blocks)[-int(trainable) :] for weight in block.parameters()}
        names = list(every)
        start = max(i for i, name in enumerate(names) if id(every[name]) in owned)
        tied = {id(part.weight) for part in (model.get_input_embeddings(), model.get_output_embeddings()) if part}
        after = {name for name in names[start + 1 :] if id(every[name]) not in tied}
        chosen = {name for name in names if id(every[name]) in last} | after
    for name, weight in every.items():
        weight.requires_grad_(name in chosen)
    return {name: weight for name, weight in every.items() if name in chosen}


def _mean_of_means(rewards: Sequence[Floats]) -> float:
    """Return the mean over sources of the mean reward; NaN if nothing was sampled."""
    return float(np.mean([r.mean() for r in rewards if r.size] or [math.nan]))
