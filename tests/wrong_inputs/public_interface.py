"""What is public, found anew each time: `biaslab`, its submodules, and the methods of their classes."""

import importlib
import inspect
from functools import cache

import biaslab as bl

SUBMODULES = (
    *("atlas", "distill", "edits", "mitigation", "plots", "probes", "published", "ranking", "report", "scoring"),
    "stats",
)


def room_of(path):
    """Return the submodule of a name, or "biaslab" for what stands at the top."""
    room = path.partition(".")[0]
    return room if room in SUBMODULES else "biaslab"


@cache
def public(room):
    """Return every public function, class and method of a submodule that takes an argument, by its name.

    Each is a pair: the class on which it is found, or None, and the function or class itself. What `biaslab` offers
    itself is not told again of a submodule. Only the submodule is imported: `distill` brings torch.
    """
    if room == "biaslab":
        return _public_at_the_top()
    found, seen = {}, {id(made) for _, made in _public_at_the_top().values()}
    module = importlib.import_module(f"biaslab.{room}")
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    for name in names:
        made = getattr(module, name)
        if hasattr(module, "__all__") or getattr(made, "__module__", "").startswith(f"biaslab.{room}"):
            _add(found, seen, f"{room}.{name}", made)
    for kind in bl.probes.available().values() if room == "probes" else ():
        _add(found, seen, f"probes.{kind.__name__}", kind)
    return found


@cache
def _public_at_the_top():
    found, seen = {}, set()
    for name in bl.__all__:
        if name not in SUBMODULES:
            _add(found, seen, name, getattr(bl, name))
    return found


def _of_biaslab(made):
    return str(getattr(inspect.unwrap(made) if callable(made) else made, "__module__", "")).startswith("biaslab")


def _add(found, seen, name, made):
    if not callable(made) or id(made) in seen or not _of_biaslab(made):
        return
    seen.add(id(made))
    if not inspect.isclass(made):
        if parameters(made):
            found[name] = (None, made)
        return
    if issubclass(made, BaseException) or getattr(made, "_is_protocol", False):
        return
    if parameters(made):
        found[name] = (None, made)
    for method in dir(made):
        held = inspect.getattr_static(made, method)
        if not method.startswith("_") and (inspect.isfunction(held) or isinstance(held, classmethod | staticmethod)):
            taken = parameters(getattr(made, method), bound=not inspect.isfunction(held))
            if taken:
                found[f"{name}.{method}"] = (made, held)


def parameters(function, bound=True):
    """Return the parameters that have a name, or take any number of values; without self."""
    found = [each for each in inspect.signature(function).parameters.values() if each.kind is not each.VAR_KEYWORD]
    return found if bound else found[1:]
