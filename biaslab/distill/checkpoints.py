"""Checkpoints of a training run: numbered files of safetensors, whole or not there at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from biaslab.core.errors import InputError
from biaslab.core.output import replacing


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, torch.Tensor], record: Mapping[str, Any]) -> None:
    """Write the state after a step, then remove older ones; a run killed meanwhile leaves the older one whole."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step-{step:08d}.safetensors"
    plain = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    with replacing(target) as partial:
        save_file(plain, partial, {"record": json.dumps({**record, "step": step})})
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
    remove_checkpoints(folder, but=target)


def remove_checkpoints(folder: Path, but: Path | None = None) -> None:
    """Remove the checkpoints of a folder, whole and half-written ones."""
    for old in {*folder.glob("step-*"), *folder.glob(".step-*")} - {but}:
        old.unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """Return the tensors and the record of the last step, None where there is none.

    Raises
    ------
    InputError
        If it is damaged.
    """
    found = max(folder.glob("step-*.safetensors"), default=None)
    if found is None:
        return None
    try:
        with safe_open(found, "pt") as opened:
            return load_file(found), json.loads(opened.metadata()["record"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise InputError("folder", str(found), "a whole checkpoint", "remove it") from error


def flattened(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Return the tensors of an optimizer's state by ``"optimizer:<weight>:<name>"``."""
    every = optimizer.state_dict()["state"].items()
    return {f"optimizer:{index}:{name}": tensor for index, kept in every for name, tensor in kept.items()}


def restore(optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]) -> None:
    """Give an optimizer the state that `flattened` returned; other tensors are passed over."""
    whole = optimizer.state_dict() | {"state": {}}
    for key, tensor in tensors.items():
        part, _, rest = key.partition(":")
        if part == "optimizer":
            index, _, name = rest.partition(":")
            whole["state"].setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict(whole)
