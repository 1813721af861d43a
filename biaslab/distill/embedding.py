"""Embed texts, one vector each, with a frozen or trainable encoder; combine them for the head (Eqs. 7 and 8)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from biaslab.core.errors import InputError, ModelLoadError
from biaslab.core.output import replacing
from biaslab.distill.settings import Pooling
from biaslab.judges.loading import ModelSource, find_model, load_headless
from biaslab.measures.scoring.encoder import Encoder, batches, choose_layer, is_causal

Layer = int | Literal["last"] | None
_BATCH_TOKENS = 4096
_MOST = 50_000  # maximum number of cached texts
_POOLINGS = get_args(Pooling)


def features(h: torch.Tensor, s: torch.Tensor | None = None, r: torch.Tensor | None = None) -> torch.Tensor:
    """Combine the vectors of output, source and reference into the head's input.

    Parameters
    ----------
    h, s, r : torch.Tensor, shape (texts, width)
        Vectors of outputs, sources and references.

    Returns
    -------
    torch.Tensor, shape (texts, width × 1, 4 or 6)
        ``h`` alone; ``[h; s; h⊙s; |h−s|]`` (Eq. 8); or ``[h; r; h⊙s; h⊙r; |h−s|; |h−r|]`` (Eq. 7).

    Raises
    ------
    InputError
        If there is a reference but no source.

    Notes
    -----
    The available text of the paper lacks its formulas. These are those of COMET, which it claims to follow (Rei et al.
    2020): ``RegressionMetric`` and ``ReferencelessRegression`` of its code concatenate the same vectors, the former in
    another order, which does not matter to a linear layer.

    Examples
    --------
    >>> h, s = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 0.0]])
    >>> features(h, s)
    tensor([[1., 2., 3., 0., 3., 0., 2., 2.]])
    """
    if s is None:
        if r is not None:
            raise InputError("s", s, "a source if there is a reference")
        return h
    if r is None:
        return torch.cat([h, s, h * s, (h - s).abs()], dim=1)
    return torch.cat([h, r, h * s, h * r, (h - s).abs(), (h - r).abs()], dim=1)


class TextEncoder:
    """Encoder truncated after one of its layers; caches the vectors of texts while frozen.

    Parameters
    ----------
    source : ModelSource
        Location of the model (`biaslab.judges.loading.find_model`).
    layer : int or "last", optional
        The layer whose output is used; layers above it are dropped. By default as in `biaslab.scoring.load_encoder`.
    device : str
        As in torch.

    Raises
    ------
    ModelLoadError
        If it cannot be loaded, or is not in safetensors.
    InputError
        If it has no such layer.

    Notes
    -----
    A literal "[CLS]" in a text is plain characters. Texts longer than the window are truncated, with a warning that
    counts them, so the end of a long source is not seen. all-MiniLM-L6-v2 has 512 positions; sentence-transformers
    uses 256 of them.
    """

    def __init__(self, source: ModelSource, layer: Layer = None, device: str = "cpu") -> None:
        model, tokenizer = load_headless(source, device=device, safe=source.gguf_file is None)
        depth = int(model.config.get_text_config(encoder=True).num_hidden_layers)
        self.source = source
        self.layer = choose_layer(model.config, depth if layer == "last" else layer, source.name)
        if self.layer == 0:
            raise InputError("layer", layer, "at least 1")
        self.causal = is_causal(model.config)
        if getattr(model, "pooler", None) is not None:
            model.pooler = None  # not used
        self._blocks = _cut(model, depth, self.layer)
        self._reading = Encoder(source.name, model, tokenizer, self.layer)
        self.states = States()
        self.model = model.requires_grad_(False)
        self.width = int(model.config.get_text_config().hidden_size)

    @property
    def device(self) -> str:
        """Device of the encoder."""
        return str(self.model.device)

    def keep(self, folder: Path) -> None:
        """Cache vectors in a folder and reuse them; only for a frozen encoder."""
        version = f"{self.source.revision} {self.layer} {self.model.dtype} {self.device.partition(':')[0]}"
        below = folder / f"states-{hashlib.sha256(version.encode()).hexdigest()[:16]}"
        if self.states.folder != below:
            self.states = States(below)

    def vectors(self, texts: Sequence[str], pooling: Pooling) -> torch.Tensor:
        """Return one vector per text, shape (texts, width); with gradients if requested and some layers are trainable.

        Raises
        ------
        InputError
            If the first token of a causal model is requested, which has not seen the text.

        Warns
        -----
        UserWarning
            If texts are truncated, with the number of new ones.
        """
        if pooling == "cls" and self.causal:
            raise InputError("pooling", pooling, "last or mean for a causal model (its first token has no context)")
        distinct = list(dict.fromkeys(texts))
        if torch.is_grad_enabled() and self.trained():
            vectors = dict(self._computed(distinct))
        else:
            vectors = {text: vector.to(self.device) for text, vector in self.states.find(distinct).items()}
            with torch.no_grad():
                fresh = dict(self._computed([text for text in distinct if text not in vectors]))
            self.states.add(fresh)
            vectors |= fresh
        places = {text: i for i, text in enumerate(distinct)}
        every = torch.stack([vectors[text][_POOLINGS.index(pooling)] for text in distinct])
        return every[torch.tensor([places[text] for text in texts], device=every.device)]

    def unfreeze(self, layers: int | Literal["all"]) -> None:
        """Make the top layers trainable, or all layers and the embeddings.

        Raises
        ------
        InputError
            If there are fewer layers.
        """
        if layers != "all" and layers > len(self._blocks):
            raise InputError("trainable", layers, f"0 to {len(self._blocks)} layers of {self.source.name}, or all")
        chosen = [self.model] if layers == "all" else list(self._blocks)[len(self._blocks) - layers :]
        for part in chosen:
            part.requires_grad_(True)
        self.states = States()

    def trained(self) -> dict[str, torch.nn.Parameter]:
        """Return the trainable parameters by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def learn(self, on: bool) -> None:
        """Switch dropout of trainable layers on or off, and discard cached vectors that training invalidates."""
        self.model.eval()
        if not self.trained():
            return
        self.states = States()
        for part in self.model.modules():
            own = list(part.parameters())
            if own and all(p.requires_grad for p in own):
                part.train(on)

    def _computed(self, texts: Sequence[str]) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield a text with its first, its mean and its last vector, shape (3, width)."""
        rows = [ids for ids, _ in self._reading.tokens(texts)]
        # On a CPU one by one, which is equally fast and makes the last bits of a vector independent of the other
        # texts.
        in_one_batch = torch.is_grad_enabled() or not self.device.startswith("cpu")
        for batch in batches([len(ids) for ids in rows], _BATCH_TOKENS if in_one_batch else 0):
            ids, mask = self._reading.padded([rows[i] for i in batch])
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
            shown = mask.unsqueeze(-1).to(states.dtype)
            means = (states * shown).sum(1) / shown.sum(1)
            lasts = states[torch.arange(len(batch), device=states.device), mask.sum(1) - 1]
            for index, *pooled in zip(batch, states[:, 0], means, lasts, strict=True):
                yield texts[index], torch.stack(pooled)


class States:
    """Cache of one encoder's vectors, in memory and optionally in a folder.

    Each `add` writes a separate file, atomically, so that several processes may write. What cannot be written or read
    is recomputed; nothing is raised.

    Parameters
    ----------
    folder : Path, optional
        Created when needed; without one, vectors are cached in memory only.

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
        """Return the cached vectors of texts, shape (3, width) each."""
        new = any(_mark(text) not in self._known for text in texts)
        for file in set(self.folder.glob("*.safetensors")) - self._read if self.folder and new else ():
            self._read.add(file)
            with suppress(OSError, SafetensorError), safe_open(file, "pt") as opened:
                marks = (opened.metadata() or {}).get("texts", "").split()
                self._known.update(zip(marks, opened.get_tensor("vectors"), strict=True))
        return {text: self._known[mark] for text in texts if (mark := _mark(text)) in self._known}

    def add(self, fresh: Mapping[str, torch.Tensor]) -> None:
        """Cache vectors of texts."""
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


def find_encoder(name: str, layer: Layer, device: str, trainable: bool) -> TextEncoder:
    """Return an encoder: a separate one if it will be trained, else one shared by all evaluators in this process."""
    source = find_model(name)
    return TextEncoder(source, layer, device) if trainable else _shared(source, layer, device)


@lru_cache(maxsize=4)
def _shared(source: ModelSource, layer: Layer, device: str) -> TextEncoder:
    return TextEncoder(source, layer, device)


def _cut(model: Any, depth: int, layer: int) -> torch.nn.ModuleList:
    """Drop the layers above one, and return the remaining layers."""
    for name, part in model.named_modules():
        if isinstance(part, torch.nn.ModuleList) and len(part) == depth:
            above, _, own = name.rpartition(".")
            kept = part[:layer]
            setattr(model.get_submodule(above), own, kept)
            return kept
    raise ModelLoadError(f"cannot find the layers of {type(model).__name__}; choose another encoder")
