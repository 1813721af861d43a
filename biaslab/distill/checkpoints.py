"""Checkpoints of a training run: numbered folders of safetensors and JSON, whole or not there at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from biaslab.errors import InputError

_TENSORS, _RECORD = "state.safetensors", "state.json"


def save_checkpoint(folder: Path, step: int, tensors: Mapping[str, torch.Tensor], record: Mapping[str, Any]) -> None:
    """Write the state after a step, then remove older ones; a run killed meanwhile leaves the older one whole."""
    target, made = folder / f"step-{step:08d}", folder / f"writing-{step:08d}"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, made / _TENSORS)
    (made / _RECORD).write_text(json.dumps({**record, "step": step}), encoding="utf-8")
    for file in (_TENSORS, _RECORD):
        _to_disk(made / file)
    shutil.rmtree(target, ignore_errors=True)
    made.replace(target)
    _to_disk(folder)
    for old in [path for path in folder.glob("step-*") if path.name < target.name] + list(folder.glob("writing-*")):
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """Return the tensors and the record of the last step, None where there is none.

    Raises
    ------
    InputError
        If it is damaged.
    """
    found = sorted(folder.glob("step-*"))
    if not found:
        return None
    try:
        record = json.loads((found[-1] / _RECORD).read_text(encoding="utf-8"))
        tensors = load_file(found[-1] / _TENSORS)
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError("folder", str(found[-1]), "a whole checkpoint", "remove it") from error
    if not isinstance(record, dict) or not isinstance(record.get("step"), int):
        raise InputError("folder", str(found[-1]), "a checkpoint that biaslab wrote", "remove it")
    return tensors, record


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


def _to_disk(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
