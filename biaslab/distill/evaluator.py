"""Define `Evaluator`: an encoder with a feed-forward head that scores texts (Wang et al. 2023, after COMET)."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, get_args, get_type_hints

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from biaslab.core.arrays import Floats
from biaslab.core.checks import fits
from biaslab.core.errors import InputError, ModelLoadError
from biaslab.core.output import AnyPath, replacing
from biaslab.distill.settings import BLOCKS, Pooling, ScorePoint, Settings, Texts
from biaslab.judges.loading import ModelSource, choose_device, find_model, load_headless
from biaslab.measures.scoring.encoder import TokenEmbedder, batches, choose_layer, is_causal

_CHUNK = 1024


class Evaluator:
    """Score texts from 0 (the teacher's worst label) to 1 (the best); a regression may slightly exceed this range.

    Made by `biaslab.distill.train` or `load_evaluator`.

    Parameters
    ----------
    attribute : str
        The attribute that it judges.
    settings : Settings
        How it was built and trained.
    device : str, optional
        As in torch: by default CUDA, MPS or the CPU.
    training : mapping, optional
        Information about the training: numbers and short texts.

    Raises
    ------
    ModelLoadError
        If the encoder cannot be loaded.
    """

    def __init__(
        self, attribute: str, settings: Settings, device: str | None = None, training: Mapping[str, Any] | None = None
    ) -> None:
        self.attribute, self.settings, self.training = attribute, settings, dict(training or {})
        last = settings.trainable == "all" and settings.layer is None
        where, trains = choose_device(device), settings.trainable != 0
        self.encoder = find_encoder(settings.encoder, "last" if last else settings.layer, where, trains)
        if settings.trainable:
            self.encoder.unfreeze(settings.trainable)

    def __repr__(self) -> str:
        return f"Evaluator({self.id!r})"

    @cached_property
    def head(self) -> torch.nn.Sequential:
        """Feed-forward layers, with initial weights until some are loaded."""
        return _head(self.settings, self.encoder.width).to(self.encoder.device).eval()

    @property
    def needs(self) -> tuple[str, ...]:
        """Inputs required besides the text: any of "source" and "reference"."""
        inputs = {"output": (), "reference-free": ("source",), "reference-based": ("source", "reference")}
        return inputs[self.settings.inputs]

    @property
    def id(self) -> str:
        """Attribute, encoder, inputs and a digest of the weights and of everything else that a score depends on."""
        named = (self.attribute, self.encoder.source.name, self.settings.inputs, self.digest)
        return "evaluator:{}:{}:{}@{}".format(*named)

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with the weights, the encoder and the way it is used."""
        read = {name: getattr(self.settings, name) for name in ("inputs", "loss", "pooling", "stars", "hidden")}
        read |= {"score": self.settings.score} if self._is_likeliest else {}
        pinned = [self.attribute, self.encoder.source.revision, self.encoder.layer, read]
        hasher = hashlib.blake2b(json.dumps(pinned, sort_keys=True).encode())
        for name, tensor in sorted(self.weights().items()):
            hasher.update(name.encode() + tensor.numpy().tobytes())
        return hasher.hexdigest()[:16]

    def weights(self) -> dict[str, torch.Tensor]:
        """Return head and trained layers by name, on the CPU, without frozen layers."""
        return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in self._learning().items()}

    def load_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Load weights returned by `weights`.

        Raises
        ------
        ModelLoadError
            If names, shapes or types do not match this evaluator, or a number is not finite.
        """
        own = self._learning()
        for name in {*own, *weights}:
            fits = name in own and name in weights and own[name].shape == weights[name].shape
            if not fits or weights[name].dtype != own[name].dtype or not bool(torch.isfinite(weights[name]).all()):
                raise ModelLoadError(f"the evaluator's weights do not fit its settings: {name}")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(weights[name])
        self.encoder.learn(False)
        self.__dict__.pop("digest", None)

    def score(self, texts: Texts, sources: Texts | None = None, references: Texts | None = None) -> Floats:
        """Return the score of each text, shape (texts,).

        Raises
        ------
        InputError
            If required sources or references are missing or blank, or their number differs from that of the texts.

        Warns
        -----
        UserWarning
            If texts are truncated to the encoder's window, with their number.
        """
        inputs = self._inputs(texts, sources, references)
        if not inputs[0]:
            return np.empty(0)
        with torch.no_grad():
            chunks = zip(*(torch.split(part, _CHUNK) for part in self.vectors(inputs)), strict=True)
            scores = [self.worth(self.head(features(*chunk))).double().cpu().numpy() for chunk in chunks]
        return np.concatenate(scores)

    def vectors(self, inputs: Sequence[Sequence[str]]) -> tuple[torch.Tensor, ...]:
        """Return the vectors of texts and, if given, their sources and references, encoding all together."""
        texts = [text for part in inputs for text in part]
        return torch.split(self.encoder.vectors(texts, self.settings.pooling), len(inputs[0]))

    def worth(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return scores from the head's outputs: the number itself, or the star on a scale from 0 to 1."""
        if self.settings.loss == "regression":
            return outputs.squeeze(1)
        stars = torch.linspace(0, 1, self.settings.stars, device=outputs.device)
        if self._is_likeliest:
            return stars[outputs.argmax(dim=1)]
        return torch.softmax(outputs, dim=1) @ stars

    def taking(self, score: ScorePoint) -> Evaluator:
        """Return an evaluator with the same weights whose score is the expected star, or the most likely one.

        Examples
        --------
        >>> discrete = evaluator.taking("likeliest")  # doctest: +SKIP
        """
        settings = replace(self.settings, score=score)
        other = Evaluator(self.attribute, settings, str(self.encoder.device), self.training)
        other.load_weights(self.weights())
        return other

    def start_at(self, mean: torch.Tensor) -> None:
        """Initialise the head's last bias to the mean label, or to the shares of the stars."""
        start = mean if self.settings.loss == "regression" else mean.clamp(min=1e-3).log()
        with torch.no_grad():
            self.head[-1].bias.copy_(start)  # type: ignore[operator]

    def save(self, folder: AnyPath) -> Path:
        """Write ``evaluator.safetensors`` and ``evaluator.json``; of the encoder, only what was trained.

        Returns
        -------
        Path
            The folder.
        """
        encoder, settings = self.encoder, self.settings.as_json()
        about = {"attribute": self.attribute, "revision": encoder.source.revision, "layer": encoder.layer}
        return write_files(folder, self.weights(), **about, settings=settings, training=self.training)

    @property
    def _is_likeliest(self) -> bool:
        """Whether the score is the most likely star."""
        return self.settings.loss == "classification" and self.settings.score == "likeliest"

    def _learning(self) -> dict[str, torch.Tensor]:
        weights: dict[str, torch.Tensor] = {f"encoder.{name}": p for name, p in self.encoder.trained().items()}
        return weights | {f"head.{name}": p for name, p in self.head.named_parameters()}

    def _inputs(self, texts: Texts, sources: Texts | None, references: Texts | None) -> list[list[str]]:
        inputs = [list(texts)]
        for name, values in (("source", sources), ("reference", references)):
            if name in self.needs:
                if values is None or len(values) != len(texts) or any(not value.strip() for value in values):
                    raise InputError(f"{name}s", values, f"a {name} for each text: the evaluator was trained with it")
                inputs.append(list(values))
        return inputs


def load_evaluator(folder: AnyPath, encoder: str | None = None, device: str | None = None) -> Evaluator:
    """Load an evaluator from safetensors and JSON, without unpickling or running foreign code.

    Parameters
    ----------
    folder : path
        Folder written by `Evaluator.save` or `biaslab.distill.train`.
    encoder : str, optional
        Location of the encoder on this machine, if it differs from the recorded one.
    device : str, optional
        As in torch.

    Raises
    ------
    ModelLoadError
        If the folder has no evaluator, or not in safetensors; if a file is damaged or was modified; or if the encoder
        is not the one it was trained on.

    Examples
    --------
    >>> load_evaluator("evaluators/coherence").attribute  # doctest: +SKIP
    'coherence'
    """
    settings, weights, card = read_files(folder)
    if encoder is not None:
        settings = replace(settings, encoder=encoder)
    evaluator = Evaluator(card["attribute"], settings, device, card["training"])
    if (evaluator.encoder.source.revision, evaluator.encoder.layer) != (card["revision"], card["layer"]):
        problem = f"is not the one that the evaluator in {str(folder)!r} was trained on"
        raise ModelLoadError(f"the encoder {settings.encoder!r} {problem}; pass the right one as encoder")
    with torch.device("meta"):  # a card may declare layers that do not fit into memory
        few = len(weights) <= 2 * len(settings.hidden)
        shapes = {} if few else dict(_head(settings, evaluator.encoder.width).named_parameters())
    if few or any(getattr(weights.get(f"head.{name}"), "shape", None) != each.shape for name, each in shapes.items()):
        raise ModelLoadError(f"the evaluator's weights in {str(folder)!r} do not fit its settings")
    evaluator.load_weights(weights)
    return evaluator


def _head(settings: Settings, width: int) -> torch.nn.Sequential:
    """Return the feed-forward head, with initial weights that depend only on the seed."""
    sizes = [BLOCKS[settings.inputs] * width, *settings.hidden]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        layers: list[torch.nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [torch.nn.Linear(before, after), torch.nn.Tanh(), torch.nn.Dropout(settings.dropout)]
        layers.append(torch.nn.Linear(sizes[-1], 1 if settings.loss == "regression" else settings.stars))
    return torch.nn.Sequential(*layers)


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
        self._reading = TokenEmbedder(source.name, model, tokenizer, self.layer)
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


WEIGHTS, CARD = "evaluator.safetensors", "evaluator.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib")
_MOST_BYTES = 1 << 26  # of a JSON file
_Read = TypeVar("_Read")


class EvaluatorCard(TypedDict):
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


def read_files(folder: AnyPath) -> tuple[Settings, dict[str, torch.Tensor], EvaluatorCard]:
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
        raise ModelLoadError(f"the folder {str(path)!r} has no {CARD} with {WEIGHTS}{why}; save evaluators by .save()")
    card = read_json(path / CARD, EvaluatorCard)
    try:
        settings = Settings.from_json(card["settings"])
        if _digest(path / WEIGHTS) != card["weights"]:
            raise ModelLoadError(f"{WEIGHTS} in {str(folder)!r} is not the file that {CARD} describes")
        return settings, load_file(path / WEIGHTS), card
    except (OSError, SafetensorError, InputError) as error:
        raise ModelLoadError(f"the evaluator in {str(folder)!r} cannot be read: {error}") from error


def read_json(path: Path, kind: type[_Read]) -> _Read:
    """Return the content of a JSON file that must have exactly the fields of a typed dictionary.

    Raises
    ------
    ModelLoadError
        If it cannot be read, or a field is missing, unknown, of another type or not finite.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MB")
        content: _Read = json.loads(path.read_text(encoding="utf-8"), parse_constant=int)  # int refuses NaN, Infinity
    except (OSError, ValueError, RecursionError) as error:
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
