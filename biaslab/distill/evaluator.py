"""Define `Evaluator`: an encoder with a feed-forward head that scores texts (Wang et al. 2023, after COMET)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError, ModelLoadError
from biaslab.distill.embedding import features, find_encoder
from biaslab.distill.evaluator_files import read_files, write_files
from biaslab.distill.settings import BLOCKS, AnyPath, Score, Settings, Texts
from biaslab.judges.placement import choose_device

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
        self,
        attribute: str,
        settings: Settings,
        device: str | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        self.attribute, self.settings, self.training = attribute, settings, dict(training or {})
        last = settings.trainable == "all" and settings.layer is None
        self.encoder = find_encoder(
            settings.encoder, "last" if last else settings.layer, choose_device(device), settings.trainable != 0
        )
        if settings.trainable:
            self.encoder.unfreeze(settings.trainable)
        self.head = _head(settings, self.encoder.width).to(self.encoder.device).eval()

    def __repr__(self) -> str:
        return f"Evaluator({self.id!r})"

    @property
    def needs(self) -> tuple[str, ...]:
        """Inputs required besides the text: any of "source" and "reference"."""
        return {"output": (), "reference-free": ("source",), "reference-based": ("source", "reference")}[
            self.settings.inputs
        ]

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

    def taking(self, score: Score) -> Evaluator:
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
        raise ModelLoadError(
            f"the encoder {settings.encoder!r} is not the one that the evaluator in {str(folder)!r} was trained "
            "on; pass the right one as encoder"
        )
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
