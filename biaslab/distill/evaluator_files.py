"""Evaluators in folders: safetensors and JSON, written whole; read from nothing else, and checked."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from biaslab.distill.evaluator import Evaluator
from biaslab.distill.settings import Settings
from biaslab.errors import InputError, ModelLoadError
from biaslab.output import replacing

WEIGHTS, CARD = "evaluator.safetensors", "evaluator.json"
_FORMAT = "biaslab evaluator 1"
_FIELDS = {"format", "attribute", "revision", "layer", "weights", "settings", "training"}
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib")


def save_evaluator(evaluator: Evaluator, folder: str | PathLike[str]) -> Path:
    """Write an evaluator; see `Evaluator.save`."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with replacing(path / CARD) as described, replacing(path / WEIGHTS) as weights:
        save_file(evaluator.weights(), weights)
        card = {
            "format": _FORMAT,
            "attribute": evaluator.attribute,
            "revision": evaluator.encoder.source.revision,
            "layer": evaluator.encoder.layer,
            "weights": _digest(weights),
            "settings": evaluator.settings.as_json(),
            "training": evaluator.training,
        }
        described.write_text(json.dumps(card, indent=1), encoding="utf-8")
    return path


def load_evaluator(folder: str | PathLike[str], encoder: str | None = None, device: str | None = None) -> Evaluator:
    """Load an evaluator from safetensors and JSON; nothing is unpickled and no code of others is run.

    Parameters
    ----------
    folder : path
        Where `Evaluator.save` or `biaslab.distill.train` wrote it.
    encoder : str, optional
        Where the encoder lies on this machine, if not where it lay.
    device : str, optional
        Of torch.

    Raises
    ------
    ModelLoadError
        If the folder has no evaluator, or one in another form than safetensors; if a file is damaged or was changed; or
        if the encoder is not the one that it was trained on.

    Examples
    --------
    >>> load_evaluator("evaluators/coherence").attribute  # doctest: +SKIP
    'coherence'
    """
    path = Path(folder)
    card = _read_card(path)
    try:
        settings = Settings.from_json(card["settings"])
        if _digest(path / WEIGHTS) != card["weights"]:
            raise ModelLoadError(f"{WEIGHTS} in {str(folder)!r} is not the file that {CARD} describes")
        weights = load_file(path / WEIGHTS)
    except (OSError, SafetensorError, InputError) as error:
        raise ModelLoadError(f"the evaluator in {str(folder)!r} cannot be read: {error}") from error
    found = Evaluator(card["attribute"], _placed(settings, encoder), device, card["training"])
    if (found.encoder.source.revision, found.encoder.layer) != (card["revision"], card["layer"]):
        raise ModelLoadError(
            f"the encoder {found.settings.encoder!r} is not the one that the evaluator in {str(folder)!r} was trained "
            "on; give the right one as encoder"
        )
    found.load_weights(weights)
    return found


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
    layer = isinstance(card["layer"], int) and not isinstance(card["layer"], bool)
    if not (strings and layer and isinstance(card["training"], dict) and all(_plain(card["training"]))):
        raise ModelLoadError(f"{CARD} in {str(path)!r} has a field of another type than an evaluator's")
    return card


def _plain(values: Mapping[str, object]) -> Iterator[bool]:
    """Yield whether each value is a text, a finite number, or a list of rows of numbers."""
    for value in values.values():
        rows = value if isinstance(value, list) else [[value]]
        for row in rows:
            cells = row if isinstance(row, list) else [None]
            yield all(isinstance(c, str) or (isinstance(c, int | float) and math.isfinite(c)) for c in cells)


def _placed(settings: Settings, encoder: str | None) -> Settings:
    return settings if encoder is None else Settings(**{**settings.as_json(), "encoder": encoder})


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
