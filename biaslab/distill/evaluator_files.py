"""Evaluators in folders: safetensors and JSON, written whole; read from nothing else, and checked."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from biaslab.core.checks import is_whole
from biaslab.core.errors import InputError, ModelLoadError
from biaslab.core.output import replacing
from biaslab.distill.settings import Settings

WEIGHTS, CARD = "evaluator.safetensors", "evaluator.json"
_FORMAT = "biaslab evaluator 1"
_FIELDS = {"format", "attribute", "revision", "layer", "weights", "settings", "training"}
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib")


def write_files(folder: str | PathLike[str], weights: Mapping[str, torch.Tensor], card: Mapping[str, Any]) -> Path:
    """Write weights and what describes them, all fields but ``format`` and ``weights``; return the folder."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / CARD) as described, replacing(path / WEIGHTS) as tensors:
        save_file(dict(weights), tensors)
        whole = {"format": _FORMAT, "weights": _digest(tensors), **card}
        described.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    return path


def read_files(folder: str | PathLike[str]) -> tuple[Settings, dict[str, torch.Tensor], dict[str, Any]]:
    """Return settings, weights and the whole card of what `write_files` wrote.

    Raises
    ------
    ModelLoadError
        If there is none, one in another form than safetensors, or a file is damaged or was changed.
    """
    path = Path(folder)
    card = _read_card(path)
    try:
        settings = Settings.from_json(card["settings"])
        if _digest(path / WEIGHTS) != card["weights"]:
            raise ModelLoadError(f"{WEIGHTS} in {str(folder)!r} is not the file that {CARD} describes")
        return settings, load_file(path / WEIGHTS), card
    except (OSError, SafetensorError, InputError) as error:
        raise ModelLoadError(f"the evaluator in {str(folder)!r} cannot be read: {error}") from error


def _read_card(path: Path) -> dict[str, Any]:
    """Return what the JSON file says, checked but for the settings."""
    if not (path / CARD).is_file() or not (path / WEIGHTS).is_file():
        pickles = sorted(file.name for file in path.glob("*") if file.suffix in _PICKLES)
        why = f"; {', '.join(pickles)} may run code when loaded and is refused" if pickles else ""
        raise ModelLoadError(
            f"the folder {str(path)!r} has no {CARD} with {WEIGHTS}{why}; save evaluators with .save()"
        )
    try:
        card = json.loads((path / CARD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{CARD} in {str(path)!r} is not JSON: {error}") from error
    if not isinstance(card, dict) or set(card) != _FIELDS or card["format"] != _FORMAT:
        raise ModelLoadError(f"{CARD} in {str(path)!r} does not describe an evaluator of the format {_FORMAT!r}")
    strings = all(isinstance(card[name], str) for name in ("attribute", "revision", "weights"))
    if not (
        strings and is_whole(card["layer"]) and isinstance(card["training"], dict) and all(_plain(card["training"]))
    ):
        raise ModelLoadError(f"{CARD} in {str(path)!r} has a field of another type than an evaluator's")
    return card


def _plain(values: Mapping[str, object]) -> Iterator[bool]:
    """Yield whether each value is a text, a finite number, or a list of rows of numbers."""
    for value in values.values():
        rows = value if isinstance(value, list) else [[value]]
        for row in rows:
            cells = row if isinstance(row, list) else [None]
            yield all(isinstance(c, str) or (isinstance(c, int | float) and math.isfinite(c)) for c in cells)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
