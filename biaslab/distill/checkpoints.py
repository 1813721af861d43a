"""Run training loops that can resume after a kill, with atomic, numbered checkpoints in safetensors.

transformers' `Trainer` is not used, because its checkpoints are folders written file by file, in which the optimizer's
state, random state and arguments are pickled, and because it seeds the random numbers of the whole process.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from biaslab.core.errors import InputError, ModelLoadError
from biaslab.core.output import AnyPath, progress_bar, replacing

Tensors = Mapping[str, torch.Tensor]


class TrainingRun(ABC):
    """Base class of training runs: takes steps, and saves and restores their state.

    Attributes
    ----------
    optimizer : torch.optim.Optimizer
        Saved in checkpoints.
    identity : str or dict
        JSON-serialisable; must be unchanged for a run to resume.
    """

    optimizer: torch.optim.Optimizer
    identity: Any

    @property
    @abstractmethod
    def step(self) -> int:
        """The last completed step, 0 before the first."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether no steps are left."""

    @abstractmethod
    def advance(self) -> dict[str, float]:
        """Take one step; return the text for the progress bar."""

    @abstractmethod
    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Return the state for `restore`: tensors, and values that JSON can store."""

    @abstractmethod
    def restore(self, tensors: Tensors, record: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""

    def finish(self, folder: AnyPath | None, every: int, total: int, progress: bool, **bar_options: Any) -> None:
        """Take all remaining steps, starting from the last checkpoint.

        Parameters
        ----------
        folder : path, optional
            Folder of the checkpoints.
        every : int
            Number of steps between checkpoints; there is always one after the last step.
        total : int
            Maximum number of steps, for the progress bar.
        progress : bool
            Show a progress bar.
        **bar_options
            Options of the progress bar.

        Raises
        ------
        InputError
            If the folder contains a damaged checkpoint, or one of another run.
        """
        path = None if folder is None else Path(folder)
        if path is not None:
            self._resume(path)
        with progress_bar(total=total, initial=self.step, disable=not progress, **bar_options) as bar:
            while not self.is_over:
                bar.set_postfix({name: f"{value:.3f}" for name, value in self.advance().items()})
                bar.update()
                if path is not None and (self.step % every == 0 or self.is_over):
                    self._save(path)

    def _save(self, folder: Path) -> None:
        tensors, record = self.state()
        states = self.optimizer.state_dict()["state"].items()
        optimizer = {f"optimizer:{i}:{name}": tensor for i, state in states for name, tensor in state.items()}
        save_checkpoint(folder, self.step, {**tensors, **optimizer}, {"run": self.identity, **record})

    def _resume(self, folder: Path) -> None:
        if (checkpoint := load_checkpoint(folder)) is None:
            return
        tensors, record = checkpoint
        if not isinstance(record, dict) or record.get("run") != self.identity:
            allowed = "an empty folder, or checkpoints of this model, these texts and settings"
            raise InputError("folder", str(folder), allowed, "it contains another run: use another folder or remove it")
        states: dict[int, dict[str, torch.Tensor]] = {}
        try:
            self.restore(tensors, record)
            for key in tensors:
                if key.startswith("optimizer:"):
                    _, index, name = key.split(":", 2)
                    states.setdefault(int(index), {})[name] = tensors[key]
            self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": states})
        except (ModelLoadError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise InputError("folder", str(folder), "checkpoints that biaslab wrote", "remove them") from error


def save_checkpoint(folder: Path, step: int, tensors: Tensors, record: Mapping[str, Any]) -> None:
    """Write the state after a step, then remove older checkpoints; if killed in between, the older one is intact."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step-{step:08d}.safetensors"
    plain = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    with replacing(target) as partial:
        save_file(plain, partial, {"record": json.dumps({**record, "step": step})})
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
    remove_checkpoints(folder, but=target)


def load_checkpoint(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """Return the tensors and the record of the last step, or None.

    Raises
    ------
    InputError
        If it is damaged.
    """
    file = max(folder.glob("step-*.safetensors"), default=None)
    if file is None:
        return None
    try:
        with safe_open(file, "pt") as opened:
            return load_file(file), json.loads(opened.metadata()["record"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise InputError("folder", str(file), "a complete checkpoint", "remove it") from error


def remove_checkpoints(folder: Path, but: Path | None = None) -> None:
    """Remove the checkpoints of a folder, complete and partial ones."""
    for old in {*folder.glob("step-*"), *folder.glob(".step-*")} - {but}:
        old.unlink(missing_ok=True)
