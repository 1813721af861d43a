"""What happens in an epoch of training, and what must be kept so that the next one can follow a kill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from biaslab.core.errors import InputError
from biaslab.distill.checkpoints import flattened, load_checkpoint, restore, save_checkpoint
from biaslab.distill.embedding import features
from biaslab.distill.evaluator import Evaluator
from biaslab.distill.settings import Settings

Ints = NDArray[np.int64]


@dataclass
class State:
    """How far a training run is."""

    epoch: int = 0
    waited: int = 0
    lowest: float = float("inf")
    best_epoch: int = 0
    best: dict[str, torch.Tensor] = field(default_factory=dict)
    history: list[list[float]] = field(default_factory=list)


class Learning:
    """An evaluator that learns from some examples."""

    def __init__(self, evaluator: Evaluator, frame: pd.DataFrame, settings: Settings) -> None:
        self.evaluator, self.settings = evaluator, settings
        columns = ["text", *evaluator.needs]
        self._texts = [frame[name].tolist() for name in columns]
        for name, values in zip(columns, self._texts, strict=True):
            if any(not value.strip() for value in values):
                raise InputError(name, "", f'a {name} for each example, or other inputs than "{settings.inputs}"')
        self._labels = torch.tensor(frame["label"].to_numpy(np.float32), device=evaluator.encoder.device)
        self._fit, self._held = _split(frame, settings)
        evaluator.start_at(self._wanted(self._fit).mean(0))
        encoder = evaluator.encoder
        layers = {"params": list(encoder.trained().values()), "lr": settings.encoder_rate}
        head = {"params": list(evaluator.head.parameters()), "lr": settings.learning_rate}
        parts = [head, layers] if layers["params"] else [head]
        self._optimizer = torch.optim.AdamW(parts, weight_decay=settings.weight_decay)
        self._cuda = encoder.device.startswith("cuda")
        self._vectors = None if encoder.trained() else evaluator.vectors(self._texts)

    def epoch(self, state: State) -> None:
        """Learn for one epoch, then see how well the contexts that are held out are judged."""
        with torch.random.fork_rng(devices=[torch.cuda.current_device()] if self._cuda else []):
            torch.manual_seed(_mixed(self.settings.seed, state.epoch))
            trained = self._learn(torch.randperm(len(self._fit)).numpy())
        state.epoch += 1
        held = self._loss_of(self._held) if len(self._held) else float("nan")
        state.history.append([state.epoch, trained, *([held] if len(self._held) else [])])
        state.waited += 1
        if not len(self._held) or held < state.lowest:
            state.lowest, state.best_epoch, state.waited = held, state.epoch, 0
            state.best = self.evaluator.weights()

    def resume(self, folder: Path, run: str) -> State:
        """Return the state in which a run was left, and take up its weights.

        Raises
        ------
        InputError
            If the folder holds another run.
        """
        found = load_checkpoint(folder)
        if found is None:
            return State()
        tensors, record = found
        if record.get("run") != run:
            raise InputError("folder", str(folder), "an empty folder", "it holds another run, not yet at its end")
        now, best = (
            {name.removeprefix(part): tensor for name, tensor in tensors.items() if name.startswith(part)}
            for part in ("now:", "best:")
        )
        self.evaluator.load_weights(now)
        restore(self._optimizer, tensors)
        kept = {name: record[name] for name in ("waited", "best_epoch", "history")}
        lowest = min((row[2] for row in record["history"] if len(row) > 2), default=float("nan"))
        return State(epoch=record["step"], lowest=lowest, best=best, **kept)

    def keep(self, folder: Path, state: State, run: str) -> None:
        """Write all that the next epoch depends on."""
        tensors = {f"now:{name}": tensor for name, tensor in self.evaluator.weights().items()}
        tensors |= {f"best:{name}": tensor for name, tensor in state.best.items()} | flattened(self._optimizer)
        record = {"run": run, "waited": state.waited, "best_epoch": state.best_epoch, "history": state.history}
        save_checkpoint(folder, state.epoch, tensors, record)

    def _learn(self, order: Ints) -> float:
        """Go once through the examples in an order; return the mean loss."""
        evaluator, size = self.evaluator, self.settings.batch_size
        evaluator.encoder.learn(True)
        evaluator.head.train()
        total = 0.0
        for start in range(0, len(order), size):
            batch = self._fit[order[start : start + size]]
            self._optimizer.zero_grad()
            for part in np.array_split(batch, min(self.settings.accumulate, len(batch))):
                loss = self._losses(part).sum()
                (loss / len(batch)).backward()  # type: ignore[no-untyped-call]
                total += float(loss.detach())
            self._optimizer.step()
        evaluator.encoder.learn(False)
        evaluator.head.eval()
        return total / len(order)

    @torch.no_grad()
    def _loss_of(self, rows: Ints) -> float:
        parts = np.array_split(rows, -(-len(rows) // 512))
        return float(sum(float(self._losses(part).sum()) for part in parts) / len(rows))

    def _losses(self, rows: Ints) -> torch.Tensor:
        """Return the loss of each example."""
        with torch.autocast("cuda", torch.bfloat16, enabled=self._cuda and self._vectors is None):
            outputs = self.evaluator.head(features(*self._shown(rows))).float()
        wanted = self._wanted(rows)
        if self.settings.loss == "regression":
            return torch.square(outputs - wanted).squeeze(1)
        return torch.nn.functional.cross_entropy(outputs, wanted, reduction="none")

    def _wanted(self, rows: Ints) -> torch.Tensor:
        """Return what the head is to put out for some examples, shape (rows, 1) or (rows, stars)."""
        labels = self._labels[torch.tensor(rows, device=self._labels.device)]
        if self.settings.loss == "regression":
            return labels.unsqueeze(1)
        return shared_between_stars(labels, self.settings.stars)

    def _shown(self, rows: Ints) -> Sequence[torch.Tensor]:
        """Return the vectors of outputs, sources and references of some examples; each text is encoded once."""
        if self._vectors is None:
            return self.evaluator.vectors([[part[i] for i in rows] for part in self._texts])
        return [known[torch.tensor(rows, device=known.device)] for known in self._vectors]


def shared_between_stars(labels: torch.Tensor, stars: int) -> torch.Tensor:
    """Return a distribution over stars with a label as its mean, shape (labels, stars): on the two stars beside it.

    Examples
    --------
    >>> shared_between_stars(torch.tensor([1.0, 0.625]), 5).tolist()
    [[0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.5, 0.5, 0.0]]
    """
    place = (labels * (stars - 1)).unsqueeze(1)
    return (1 - (torch.arange(stars, device=labels.device) - place).abs()).clamp(min=0)


def groups(examples: pd.DataFrame) -> pd.Series:
    """Return what must not stand on both sides of a split: the source's text or, without one, the context."""
    return examples["source"].where(examples["source"].str.strip() != "", "context " + examples["context_id"])


def _split(frame: pd.DataFrame, settings: Settings) -> tuple[Ints, Ints]:
    """Return the rows to learn from and those on which to stop, whole contexts each."""
    names = groups(frame)
    contexts = names.drop_duplicates().to_numpy(object)
    held = round(settings.validation * len(contexts))
    held = max(held, 1) if settings.validation else 0
    if held >= len(contexts):
        allowed = "at least two contexts, or validation=0"
        raise InputError("examples", f"{len(contexts)} contexts", allowed, "annotate more sources")
    drawn = np.random.default_rng(settings.seed).permutation(contexts)[:held]
    out = names.isin(drawn).to_numpy()
    return np.flatnonzero(~out), np.flatnonzero(out)


def _mixed(seed: int, epoch: int) -> int:
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))
