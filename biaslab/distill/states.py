"""Vectors of texts by frozen encoders, kept in a folder: another run does not compute them again."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from biaslab.core.output import replacing

_MOST = 50_000  # texts remembered at most


class States:
    """The vectors of one encoder, remembered and, where there is a folder, kept in it.

    Each `add` writes a file of its own, so that several processes may, and a file is whole or not there. What cannot be
    written or read is computed again: nothing is raised.

    Parameters
    ----------
    folder : Path, optional
        Made when there is something to keep; without one, vectors are remembered only.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     States(Path(folder)).add({"It rained.": torch.ones(3, 2)})
    ...     sorted(States(Path(folder)).find(["It rained.", "It shone."]))
    ['It rained.']
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._read: set[Path] = set()
        self._known: dict[str, torch.Tensor] = {}

    def find(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """Return the vectors of the texts that are known, shape (3, width) each."""
        new = any(_mark(text) not in self._known for text in texts)
        for file in set(self.folder.glob("*.safetensors")) - self._read if self.folder and new else ():
            self._read.add(file)
            with suppress(OSError, SafetensorError), safe_open(file, "pt") as opened:
                marks = (opened.metadata() or {}).get("texts", "").split()
                self._known.update(zip(marks, opened.get_tensor("vectors"), strict=True))
        return {text: self._known[mark] for text in texts if (mark := _mark(text)) in self._known}

    def add(self, fresh: Mapping[str, torch.Tensor]) -> None:
        """Keep vectors of texts."""
        if len(self._known) + len(fresh) > _MOST:
            self._known, self._read = {}, set()
        self._known |= {_mark(text): vector for text, vector in fresh.items()}
        if self.folder is None or not fresh:
            return
        marks = " ".join(map(_mark, fresh))
        with suppress(OSError, SafetensorError):
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.folder / f"{uuid.uuid4().hex}.safetensors") as partial:
                save_file({"vectors": torch.stack(list(fresh.values())).cpu().contiguous()}, partial, {"texts": marks})


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
