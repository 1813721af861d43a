"""Train a generation model on rewards: samples, their rewards and likelihoods, and weight updates."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.distill.candidates import Output, Truncation, sample
from biaslab.distill.checkpoints import Tensors, TrainingRun
from biaslab.distill.policy import Ids, Policy
from biaslab.distill.risk import MinimumRisk, policy_gradient, risk
from biaslab.distill.sampling import in_batches, random_numbers

#: Maps texts, their sources and their references to one number each, higher for better.
RewardFunction = Callable[[Sequence[str], Sequence[str], Sequence[str]], ArrayLike]


class Task(NamedTuple):
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

    def _tasks(self, frame: pd.DataFrame) -> list[Task]:
        policy, most = self.policy, self.settings.max_tokens
        return [
            Task(name, text, reference, policy.read(text, most), policy.target(reference))
            for name, text, reference in frame[["context_id", "context", "reference"]].to_numpy(object).tolist()
        ]

    def _chosen(self, step: int) -> list[Task]:
        """Return the sources of a step, reshuffled after each pass."""
        size, total = self.settings.sources_per_step, len(self.tasks)
        start = (step - 1) * size
        epochs = range(start // total, (start + size - 1) // total + 1)
        order = np.concatenate([np.random.default_rng([self.settings.seed, e]).permutation(total) for e in epochs])
        return [self.tasks[i] for i in order[start % total :][:size]]

    def _draw(self, tasks: Sequence[Task], step: int) -> list[list[Output]]:
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

    def _judge(self, tasks: Sequence[Task], drawn: Sequence[Sequence[Output]]) -> list[Floats]:
        """Return the rewards of the texts of every source."""
        rows = [(self.policy.decode(o.ids), task) for task, outputs in zip(tasks, drawn, strict=True) for o in outputs]
        shown = [(text, task) for text, task in rows if text]
        values = np.zeros(len(rows))
        if shown:
            arguments = zip(*((text, task.context, task.reference) for text, task in shown), strict=True)
            values[[bool(text) for text, _ in rows]] = np.asarray(self.reward(*arguments), float)
        if not np.isfinite(values).all():
            raise InputError("reward", "a non-finite value", "a finite number for each text")
        return list(np.split(values, np.cumsum([len(outputs) for outputs in drawn])[:-1]))

    def _backward(self, tasks: Sequence[Task], drawn: Sequence[Sequence[Output]], rewards: Sequence[Floats]) -> Floats:
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
