"""Save and load evaluators in folders: safetensors and JSON, written atomically and checked when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from biaslab.core.errors import InputError, ModelLoadError
from biaslab.core.output import replacing
from biaslab.core.written import fits
from biaslab.distill.settings import AnyPath, Settings

WEIGHTS, CARD = "evaluator.safetensors", "evaluator.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib")
Read = TypeVar("Read")


class Card(TypedDict):
    """Content of ``evaluator.json``: attribute, encoder, settings and training of an evaluator."""

    format: Literal["biaslab evaluator 1"]
    attribute: str
    revision: str
    layer: int
    weights: str
    settings: dict[str, Any]
    training: dict[str, str | float | list[list[str | float]]]


def write_files(folder: AnyPath, weights: Mapping[str, torch.Tensor], **card: Any) -> Path:
    """Write weights and their card (all fields except ``format`` and ``weights``); return the folder."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / CARD) as described, replacing(path / WEIGHTS) as tensors:
        save_file(dict(weights), tensors)
        whole = {"format": "biaslab evaluator 1", "weights": _digest(tensors), **card}
        described.write_text(json.dumps(whole, indent=1), encoding="utf-8")
    return path


def read_files(folder: AnyPath) -> tuple[Settings, dict[str, torch.Tensor], Card]:
    """Return the settings, weights and card written by `write_files`.

    Raises
    ------
    ModelLoadError
        If there is none, it is not in safetensors, or a file is damaged or was modified.
    """
    path = Path(folder)
    if not (path / CARD).is_file() or not (path / WEIGHTS).is_file():
        pickles = sorted(file.name for file in path.glob("*") if file.suffix in _PICKLES)
        why = f"; {', '.join(pickles)} may run code when loaded and is refused" if pickles else ""
        raise ModelLoadError(
            f"the folder {str(path)!r} has no {CARD} with {WEIGHTS}{why}; save evaluators with .save()"
        )
    card = read_json(path / CARD, Card)
    try:
        settings = Settings.from_json(card["settings"])
        if _digest(path / WEIGHTS) != card["weights"]:
            raise ModelLoadError(f"{WEIGHTS} in {str(folder)!r} is not the file that {CARD} describes")
        return settings, load_file(path / WEIGHTS), card
    except (OSError, SafetensorError, InputError) as error:
        raise ModelLoadError(f"the evaluator in {str(folder)!r} cannot be read: {error}") from error


def read_json(path: Path, kind: type[Read]) -> Read:
    """Return the content of a JSON file that must have exactly the fields of a typed dictionary.

    Raises
    ------
    ModelLoadError
        If it cannot be read, or a field is missing, unknown, of another type or not finite.
    """
    try:
        content: Read = json.loads(path.read_text(encoding="utf-8"), parse_constant=int)  # int refuses NaN, Infinity
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{path.name} in {str(path.parent)!r} cannot be read: {error}") from error
    hints = get_type_hints(kind)
    same = isinstance(content, dict) and content.keys() == hints.keys()
    if not same or not all(fits(content[name], hint) for name, hint in hints.items()):  # type: ignore[index]
        fields = ", ".join(hints)
        raise ModelLoadError(f"{path.name} in {str(path.parent)!r} lacks the fields that biaslab writes: {fields}")
    return content


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
