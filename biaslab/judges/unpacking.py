"""The embedded judge as safetensors in the user's cache: a second to load, where its GGUF file takes twenty or more."""

from __future__ import annotations

import importlib.metadata
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def unpacked(name: str, revision: str, load: Callable[[], tuple[Any, Any]]) -> Path | None:
    """Return the folder of an unpacked model; write it if it is not there.

    Parameters
    ----------
    name, revision : str
        Of the model; with the version of transformers, which unpacks, they name the folder.
    load : callable
        Returns the model, in float32, and its tokenizer.

    Returns
    -------
    Path or None
        None where nothing can be written. The folder is whole or not there at all, whoever else writes it meanwhile.
    """
    from safetensors import SafetensorError  # is no OSError, whatever the file system said

    try:
        folder = _cache()
        made = folder / f"{name}-{revision}-transformers-{importlib.metadata.version('transformers')}"
        if made.is_dir():
            return made
        part = Path(tempfile.mkdtemp(prefix="writing-", dir=folder))
    except OSError:
        return None
    try:
        model, tokenizer = load()
        with suppress(OSError, SafetensorError):  # a full disk, or another process was first
            model.save_pretrained(part)
            tokenizer.save_pretrained(part)
            part.rename(made)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return made if made.is_dir() else None


def _cache() -> Path:
    from huggingface_hub import cached_assets_path

    return cached_assets_path("biaslab", namespace="models", subfolder="unpacked")
