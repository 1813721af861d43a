"""Place a model on one device, or spread it with accelerate over several devices, main memory and the disk.

accelerate hooks every part of a spread model: inputs are moved to the part's device, offloaded weights are fetched for
each pass, and the model's output is returned to the device of its inputs. Each layer caches keys and values on the
device on which it computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError

if TYPE_CHECKING:
    import torch

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
            raise InputError(
                "device_map", device_map, f"one of {', '.join(SPREADS)}, or the device of each part", close
            )
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
