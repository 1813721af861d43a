"""What is public, found anew each time: `biaslab`, its submodules, and the methods of their classes."""

import importlib
import inspect

import biaslab as bl

SUBMODULES = (
    *("atlas", "distill", "edits", "mitigation", "plots", "probes", "published", "ranking", "report", "scoring"),
    "stats",
)


def public():
    """Return every public function, class and method that takes an argument, by its name: how it is found on a class.

    Each is a pair: the class, or None, and the function or class itself. What is public under several names has the
    first of them.
    """
    found, seen = {}, set()
    for name in bl.__all__:
        _add(found, seen, name, getattr(bl, name))
    for module in SUBMODULES:
        room = importlib.import_module(f"biaslab.{module}")
        names = getattr(room, "__all__", None) or [name for name in vars(room) if not name.startswith("_")]
        for name in names:
            made = getattr(room, name)
            if hasattr(room, "__all__") or getattr(made, "__module__", "").startswith(f"biaslab.{module}"):
                _add(found, seen, f"{module}.{name}", made)
    for kind in bl.probes.available().values():
        _add(found, seen, f"probes.{kind.__name__}", kind)
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
