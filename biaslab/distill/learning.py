"""Train an evaluator by epochs of regression or classification, validated on held-out contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from biaslab.core.arrays import Ints
from biaslab.core.errors import InputError
from biaslab.distill.checkpoints import Tensors, TrainingRun
from biaslab.distill.embedding import features
from biaslab.distill.evaluator import Evaluator
from biaslab.distill.settings import Settings


class Learning(TrainingRun):
    """Training run of an evaluator; one step is one epoch.

    Attributes
    ----------
    history : list of list of float
        A row ``[epoch, training loss, validation loss]`` per epoch, without the last if nothing is held out.
    best_epoch : int
        Epoch with the smallest validation loss, or the last one; 0 before the first.
    best : mapping of str to torch.Tensor
        The weights after that epoch.
    """

    def __init__(self, evaluator: Evaluator, frame: pd.DataFrame, settings: Settings, identity: str) -> None:
        self.evaluator, self.settings, self.identity = evaluator, settings, identity
        self.history: list[list[float]] = []
        self.best_epoch = 0
        self.best: Tensors = {}
        columns = ["text", *evaluator.needs]
        self._texts = [frame[name].tolist() for name in columns]
        for name, values in zip(columns, self._texts, strict=True):
            if any(not value.strip() for value in values):
                raise InputError(name, "", f'a {name} for each example, or inputs other than "{settings.inputs}"')
        self._labels = torch.tensor(frame["label"].to_numpy(np.float32), device=evaluator.encoder.device)
        self._train, self._validation = _split(frame, settings)
        evaluator.start_at(self._targets(self._train).mean(0))
        encoder = evaluator.encoder
        layers = {"params": list(encoder.trained().values()), "lr": settings.encoder_rate}
        head = {"params": list(evaluator.head.parameters()), "lr": settings.learning_rate}
        parts = [head, layers] if layers["params"] else [head]
        self.optimizer = torch.optim.AdamW(parts, weight_decay=settings.weight_decay)
        self._cuda = encoder.device.startswith("cuda")
        self._vectors = None if encoder.trained() else evaluator.vectors(self._texts)

    @property
    def step(self) -> int:
        """The last completed epoch, 0 before the first."""
        return len(self.history)

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or too many in a row brought no improvement."""
        return self.step >= self.settings.most_epochs or self.step - self.best_epoch >= self.settings.most_waits

    def advance(self) -> dict[str, float]:
        """Train for one epoch, then validate."""
        with torch.random.fork_rng(devices=[torch.cuda.current_device()] if self._cuda else []):
            torch.manual_seed(_mixed(self.settings.seed, self.step))
            losses = [self._learn(torch.randperm(len(self._train)).numpy())]
        lowest = self.history[self.best_epoch - 1][-1] if self.best_epoch else float("inf")
        if len(self._validation):
            losses.append(self._mean_loss(self._validation))
        self.history.append([self.step + 1, *losses])
        if not len(self._validation) or losses[-1] < lowest:
            self.best_epoch, self.best = self.step, self.evaluator.weights()
        return {"loss": losses[-1]}

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Return the weights, the best ones and the history."""
        weights = {f"now:{name}": tensor for name, tensor in self.evaluator.weights().items()}
        weights |= {f"best:{name}": tensor for name, tensor in self.best.items()}
        return weights, {"best_epoch": self.best_epoch, "history": self.history}

    def restore(self, tensors: Tensors, record: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        now, self.best = (
            {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
            for part in ("now:", "best:")
        )
        self.evaluator.load_weights(now)
        self.best_epoch, self.history = record["best_epoch"], record["history"]

    def _learn(self, order: Ints) -> float:
        """Pass once through the examples in the given order; return the mean loss."""
        evaluator, size = self.evaluator, self.settings.batch_size
        evaluator.encoder.learn(True)
        evaluator.head.train()
        total = 0.0
        for start in range(0, len(order), size):
            batch = self._train[order[start : start + size]]
            self.optimizer.zero_grad()
            for part in np.array_split(batch, min(self.settings.accumulate, len(batch))):
                loss = self._losses(part).sum()
                (loss / len(batch)).backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach())
            self.optimizer.step()
        evaluator.encoder.learn(False)
        evaluator.head.eval()
        return total / len(order)

    @torch.no_grad()
    def _mean_loss(self, rows: Ints) -> float:
        parts = np.array_split(rows, -(-len(rows) // 512))
        return float(sum(float(self._losses(part).sum()) for part in parts) / len(rows))

    def _losses(self, rows: Ints) -> torch.Tensor:
        """Return the loss of each example."""
        with torch.autocast("cuda", torch.bfloat16, enabled=self._cuda and self._vectors is None):
            outputs = self.evaluator.head(features(*self._inputs(rows))).float()
        targets = self._targets(rows)
        if self.settings.loss == "regression":
            return torch.square(outputs - targets).squeeze(1)
        return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")

    def _targets(self, rows: Ints) -> torch.Tensor:
        """Return the target outputs of the head for some examples, shape (rows, 1) or (rows, stars)."""
        labels = self._labels[torch.tensor(rows, device=self._labels.device)]
        if self.settings.loss == "regression":
            return labels.unsqueeze(1)
        return shared_between_stars(labels, self.settings.stars)

    def _inputs(self, rows: Ints) -> Sequence[torch.Tensor]:
        """Return the vectors of outputs, sources and references of some examples; each text is encoded once."""
        if self._vectors is None:
            return self.evaluator.vectors([[part[i] for i in rows] for part in self._texts])
        return [vectors[torch.tensor(rows, device=vectors.device)] for vectors in self._vectors]


def shared_between_stars(labels: torch.Tensor, stars: int) -> torch.Tensor:
    """Return a distribution over the two nearest stars with the label as its mean, shape (labels, stars).

    Examples
    --------
    >>> shared_between_stars(torch.tensor([1.0, 0.625]), 5).tolist()
    [[0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.5, 0.5, 0.0]]
    """
    place = (labels * (stars - 1)).unsqueeze(1)
    return (1 - (torch.arange(stars, device=labels.device) - place).abs()).clamp(min=0)


def groups(examples: pd.DataFrame) -> pd.Series:
    """Return each example's group, which splits keep together: the source's text or, without one, the context."""
    return examples["source"].where(examples["source"].str.strip() != "", "context " + examples["context_id"])


def _split(frame: pd.DataFrame, settings: Settings) -> tuple[Ints, Ints]:
    """Return the training and validation rows, split by context."""
    names = groups(frame)
    contexts = names.drop_duplicates().to_numpy(object)
    size = max(round(settings.validation * len(contexts)), 1) if settings.validation else 0
    if size >= len(contexts):
        allowed = "at least two contexts, or validation=0"
        raise InputError("examples", f"{len(contexts)} contexts", allowed, "annotate more sources")
    drawn = np.random.default_rng(settings.seed).permutation(contexts)[:size]
    out = names.isin(drawn).to_numpy()
    return np.flatnonzero(~out), np.flatnonzero(out)


def _mixed(seed: int, epoch: int) -> int:
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))
