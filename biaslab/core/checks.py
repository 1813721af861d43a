"""Check user input: raise an `InputError` that names the value and the allowed ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from math import inf, isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path

from biaslab.core.errors import InputError, MissingDependencyError

#: Extras of pyproject.toml (`pip install 'biaslab[NAME]'`) and the packages that each adds.
EXTRAS = {
    "local": ("accelerate", "gguf", "psutil", "torch", "transformers"),
    "notebooks": ("ipywidgets", "jupyterlab", "papermill"),
    "widgets": ("anywidget",),
    "hub": ("datasets",),
    "ray": ("ray",),
}


def is_there(path: str | PathLike[str]) -> bool:
    r"""Return whether a file or folder exists; False also for an invalid path, such as one with a 300-letter name.

    Examples
    --------
    >>> is_there("."), is_there("x" * 300), is_there("a\0b")
    (True, False, False)
    """
    try:
        return Path(path).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def is_whole(value: object, least: int = 0, most: float = float("inf")) -> bool:
    """Return whether a value is an int in a range; not a bool or a numpy integer, which JSON cannot write."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def require_whole(name: str, value: object, least: int, optional: bool = False) -> None:
    """Raise `InputError` unless a value is an int of at least ``least``; an optional one may be None."""
    if not (is_whole(value, least) or (optional and value is None)):
        raise InputError(name, value, f"a whole number of at least {least}")


def require_count(name: str, value: object, least: int) -> None:
    """Raise `InputError` unless a value is a whole number of at least ``least``, also of numpy.

    Examples
    --------
    >>> import numpy as np
    >>> require_count("seed", np.int64(3), 0)
    """
    require_whole(name, int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value, least)


def require_share(name: str, value: float, remedy: str = "") -> None:
    """Raise `InputError` unless a number lies between 0 and 1, both excluded."""
    if not 0 < value < 1:
        raise InputError(name, value, "a number between 0 and 1", remedy)


def shares_of(weights: Sequence[float], size: int) -> tuple[float, ...]:
    """Return the weights of a panel's members divided by their sum.

    Raises
    ------
    InputError
        Unless there is one number per member, at least 0, and not all are 0.
    """
    values = [float(weight) for weight in weights]
    if len(values) != size or not all(isfinite(value) and value >= 0 for value in values) or not any(values):
        raise InputError("weights", list(weights), f"{size} numbers, one per member, at least 0 and not all 0")
    return tuple(value / sum(values) for value in values)


def require_temperature(value: object) -> None:
    """Raise `InputError` unless a value is a temperature: a number from 0 (greedy) to 10."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 10:
        raise InputError("temperature", value, "a number from 0 to 10", "0 is greedy, 1 the model's own distribution")


def require_sampling(answer: str, replicates: int, temperature: float) -> None:
    """Raise `InputError` unless replicates and temperature fit the answer: label probabilities are asked for once."""
    require_whole("replicates", replicates, 1)
    require_temperature(temperature)
    if answer != "text" and replicates > 1:
        raise InputError("replicates", replicates, f'1 with answer="{answer}"', 'use answer="text"')


def require_one_of(name: str, value: object, allowed: Sequence[object], remedy: str = "") -> None:
    """Raise `InputError` unless a value is one of those allowed; the message suggests close matches."""
    if value not in allowed:
        raise unknown(name, value, allowed, remedy)


def require_some_of(name: str, values: object, allowed: Sequence[object]) -> None:
    """Raise `InputError` unless the values are a list of allowed ones without repetition."""
    listed = [] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if not listed or any(value not in allowed or listed.count(value) > 1 for value in listed):
        strangers = [value for value in listed or [values] if value not in allowed]
        words = f"a list of values among {_listed(allowed)}, each once"
        raise InputError(name, values, words, did_you_mean(strangers[0], allowed) if strangers else "")


def unknown(name: str, value: object, allowed: Iterable[object], remedy: str = "") -> InputError:
    """Return the error for an unknown value, suggesting close matches.

    Examples
    --------
    >>> str(unknown("probe", "positon", ["position", "verbosity"]))
    "probe is 'positon', allowed: one of position, verbosity; did you mean position?"
    """
    known = list(allowed)
    remedies = filter(None, (did_you_mean(value, known), remedy))
    return InputError(name, value, f"one of {_listed(known)}", "; ".join(remedies))


_AS_CLOSE = 0.15  # a name whose similarity is this much below the best match is not suggested


def did_you_mean(value: object, known: Iterable[object]) -> str:
    """Suggest known names that are close to a value; empty if none is.

    Examples
    --------
    >>> did_you_mean("n_contxts", ["n_contexts", "seed"]), did_you_mean("wit", ["coherence"])
    ('did you mean n_contexts?', '')
    """
    from difflib import SequenceMatcher, get_close_matches  # imported only when something is wrong

    names, wanted = {str(name).lower(): str(name) for name in known}, str(value).lower()
    likely = get_close_matches(wanted, names, n=3)
    ratios = [SequenceMatcher(None, name, wanted).ratio() for name in likely]
    close = [names[name] for name, ratio in zip(likely, ratios, strict=True) if ratio > ratios[0] - _AS_CLOSE]
    return f"did you mean {' or '.join(close)}?" if close else ""


def check_spending(name: str, amounts: Mapping[str, float], known: Sequence[str]) -> None:
    """Raise `InputError` unless prices or limits are numbers by known names."""
    for key, value in amounts.items():
        if key not in known:
            raise InputError(name, key, f"names among {', '.join(known)}", did_you_mean(key, known))
        if not 0 <= value < inf or (name == "limits" and not value):
            allowed = "a number above 0" if name == "limits" else "a number of at least 0"
            raise InputError(f"{name}.{key}", value, allowed)
    if name == "prices" and "input" not in amounts:
        raise InputError(name, sorted(amounts), "dollars per million input tokens, and optionally others")


_A_JUDGE = "load one by name, biaslab.load_judge(name, data), or write a class with ask"


def require_study(probe: object, judge: object, dataset: object) -> None:
    """Raise `InputError` unless these are a design, a judge and a data set."""
    if isinstance(probe, type) or not callable(getattr(probe, "design", None)):
        raise InputError("probe", probe, "a probe, such as biaslab.probes.Position()", "create one: Position()")
    if isinstance(judge, type) or not callable(getattr(judge, "ask", None)):
        named = f"load one: biaslab.load_judge({judge!r}, data)" if isinstance(judge, str) else _A_JUDGE
        named = f"create one: {judge.__name__}()" if isinstance(judge, type) else named
        raise InputError("judge", judge, "a judge: an object with id, kinds, check and ask", named)
    if not hasattr(dataset, "candidates"):
        name = dataset if isinstance(dataset, str) else "graded"
        called = dataset if isinstance(dataset, str) else type(dataset).__name__
        raise InputError("dataset", called, "a data set", f"load one: biaslab.load_dataset({name!r})")


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def require_extra(extra: str, what: str) -> None:
    """Raise `MissingDependencyError` unless the packages of an extra are installed, without importing them.

    Parameters
    ----------
    extra : str
        One of `EXTRAS`.
    what : str
        What needs the packages; the message begins with it.
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(f"{what} needs {', '.join(missing)}: pip install 'biaslab[{extra}]'")
