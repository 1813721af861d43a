"""Judges: everything that answers requests, and their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from biaslab.core.checks import did_you_mean, is_there, is_whole, pairs, read
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Judge
from biaslab.core.project import SETTINGS, named_tables
from biaslab.core.schema import Dataset

__all__ = ["available", "described", "load_judge", "make_named", "named_judges"]

_ANNOUNCED = "biaslab.judges"  # entry points: name = kind before the colon, value = factory that takes the whole name


def available() -> dict[str, str]:
    """Return the forms of judge names for the command line and notebooks, with descriptions."""
    own = {
        "smollm2-135m": "the embedded judge, SmolLM2-135M-Instruct: small, real, runs anywhere",
        "<folder>": "a model saved by transformers",
        "<file>.gguf": "a GGUF file",
        "<organisation>/<model>": "a model of the Hugging Face hub",
        "<model>?thinking=<tokens>": "a local model that thinks before it answers: 1024, low, auto or off",
        "thoughts:<k>:<judge>": "the mean of a judge's label distributions over k thoughts",
        "api:<model>[@<address>][?<option>=<value>&…]": "a model behind an OpenAI-compatible server, such as "
        "api:qwen3@http://localhost:8000/v1?prefill=vllm, or several with addresses separated by commas; "
        "?thinking=4096 (or low, medium, high, auto, off) sets the thinking budget of a reasoning model",
        "sampled:<k>:<judge>": "label probabilities from a text judge, by counting k samples",
        "panel:<judge>+<judge>": "several judges as one: mean of distributions, majority of texts",
        "ray:<n>:<judge>": "n replicas of a judge, on this machine or on the Ray cluster at RAY_ADDRESS",
        "reward:<folder or model>": "a reward model: a sequence classifier with one output",
        "python:<module>:<function>": "your own function, such as fn(context, first, second)",
        "evaluator:<folder>": "an evaluator distilled from a judge with `biaslab.distill`; gives scores only",
        "recorded:<file>[,column=value…]": "recorded judgements: a log that `biaslab audit` can read",
        "atlas:<judge>@<source>[?column=value&…]": "a recorded judge of the atlas; see `biaslab atlas list`",
        "simulated[:name=value,…]": f"a judge with planted biases: {', '.join(_planted_defaults())}, edits.EDIT",
        **{name: described(table) for name, table in named_judges().items()},
    }
    prefixes = {way.partition(":")[0] for way in own}
    others = {name: entry.value for name, entry in _announced().items() if name not in prefixes}
    return own | {f"{name}:…": f"a judge of another package, {value}" for name, value in others.items()}


def load_judge(name: str, dataset: Dataset | None = None) -> Judge:
    """Make a judge from its name, as the command line and the notebooks do.

    Parameters
    ----------
    name : str
        A form listed by `available`, or a name in ``biaslab.toml`` of the working folder or a parent.
    dataset : Dataset, optional
        Source of the true scores of a simulated judge.

    Raises
    ------
    InputError
        If a planted value is unknown or not a number, a simulated judge has no data set, or a server's address or
        option or a number of samples or replicas is invalid.
    ModelLoadError
        If the model does not exist.

    Examples
    --------
    >>> import biaslab as bl
    >>> load_judge("simulated:position=0.5", bl.load_dataset("graded", limit=2)).position
    0.5
    """
    _require_name(name)
    if name.split(":")[0] == "simulated":
        from biaslab.judges.simulated import SimulatedJudge

        if dataset is None:
            raise InputError("dataset", dataset, "the data set whose scores a simulated judge knows")
        return SimulatedJudge(dataset, **_planted(name.partition(":")[2]))
    if name.startswith("api:"):
        from biaslab.judges.api import make_judge, split_address

        return make_judge(*split_address(name.removeprefix("api:")))
    wrappers: tuple[tuple[str, Callable[[str, Dataset | None], Judge]], ...] = (
        ("sampled:", _repeated),
        ("thoughts:", _repeated),
        ("panel:", _panel),
        ("ray:", _on_ray),
    )
    for kind, make in wrappers:
        if name.startswith(kind):
            return make(name, dataset)
    if name.startswith("reward:"):
        from biaslab.judges.reward import RewardJudge

        return RewardJudge(name.removeprefix("reward:"))
    if name.startswith("python:"):
        from biaslab.judges.function import load_named

        return load_named(name)
    if ":" in name and name.partition(":")[0] in (announced := _announced()):
        judge: Judge = announced[name.partition(":")[0]].load()(name, dataset)
        return judge
    named = named_judges()
    if name in named:
        return make_named(name, named[name], partial(_load_other, dataset=dataset, names=tuple(named)))
    _refuse_unknown_kind(name)
    return _local(name)


def _local(name: str) -> Judge:
    """Make a judge of a local model; ``?thinking=`` may follow its name."""
    from biaslab.judges.local import LocalJudge

    model, mark, query = name.partition("?")
    if not mark or is_there(name):
        return LocalJudge(name)
    option, _, value = query.partition("=")
    if option != "thinking" or not value:
        raise InputError("judge", name, "model?thinking=tokens, such as Qwen/Qwen3-8B?thinking=1024, or low, auto, off")
    return LocalJudge(model, thinking=int(value) if value.isdecimal() else value)


def _repeated(name: str, dataset: Dataset | None) -> Judge:
    from biaslab.judges.repetition import MeanOverThoughts, Sampled

    kind, k, inner = (*name.split(":", 2), "", "")[:3]
    if not k.isdecimal() or not inner:
        raise InputError("judge", name, f"{kind}:k:judge, such as {_REPEATED[kind]}")
    return (Sampled if kind == "sampled" else MeanOverThoughts)(load_judge(inner, dataset), int(k))


def _panel(name: str, dataset: Dataset | None) -> Judge:
    from biaslab.judges.panel import Panel

    names = name.removeprefix("panel:").split("+")
    if len(names) < 2 or not all(names):
        raise InputError("judge", name, "panel:judge+judge, such as panel:smollm2-135m+api:gpt-4o")
    return Panel([load_judge(one, dataset) for one in names])


def _on_ray(name: str, dataset: Dataset | None) -> Judge:
    """Make replicas of a judge; judges that delegate wrap the replicas, so that each is stored under its own id."""
    from biaslab.judges.ray_judge import RayJudge

    replicas, _, inner = name.removeprefix("ray:").partition(":")
    if not replicas.isdecimal() or not inner:
        raise InputError("judge", name, "ray:replicas:judge, such as ray:8:organisation/model")
    if inner.startswith("panel:"):
        members = inner.removeprefix("panel:").split("+")
        return load_judge(f"panel:{'+'.join(f'ray:{replicas}:{one}' for one in members)}", dataset)
    kind, _, rest = inner.partition(":")
    if kind in ("sampled", "thoughts"):
        k, _, asked = rest.partition(":")
        return load_judge(f"{kind}:{k}:ray:{replicas}:{asked}", dataset)
    return RayJudge(inner, int(replicas), dataset=dataset)


def _require_name(name: object) -> None:
    if not isinstance(name, str):
        remedy = "a judge itself needs no loading"
        raise InputError("judge", name, "the name of a judge, such as 'smollm2-135m'", remedy)


def _refuse_unknown_kind(name: str) -> None:
    """Raise `InputError` for a name with an unknown kind before the colon, unless it is a path."""
    kind, colon, rest = name.partition(":")
    prefixes = sorted({way.partition(":")[0].partition("[")[0] for way in available() if ":" in way})
    close = did_you_mean(kind, [*prefixes, "smollm2-135m"])
    if colon and not is_there(name) and "/" not in kind and "\\" not in rest:
        raise InputError("judge", name, f"a kind before the colon, one of {', '.join(prefixes)}, or a model", close)


def _load_other(name: str, dataset: Dataset | None, names: Sequence[str]) -> Judge:
    """Make the judge that a table refers to; this must not be another table of the file."""
    if name.split(":")[-1] in names:
        raise InputError("judge", name, "a judge that is not itself named in this file")
    return load_judge(name, dataset)


@cache
def _announced() -> dict[str, EntryPoint]:
    """Return the kinds of judges that installed packages announce, including biaslab's own packages above this one."""
    return {entry.name: entry for entry in entry_points(group=_ANNOUNCED)}


def _planted_defaults() -> dict[str, float | bool | str]:
    """Return the planted values that a name can set, with their defaults: those expressible in one word."""
    from biaslab.judges.simulated import Planted

    return {f.name: f.default for f in fields(Planted) if isinstance(f.default, int | float | str)}


def _planted(text: str) -> dict[str, Any]:
    """Parse planted values from a name; ``edits.NAME=POINTS`` are the points that an edit adds."""
    defaults = _planted_defaults()
    flags = ", ".join(name for name, default in defaults.items() if isinstance(default, bool))
    allowed = f"name=number (true or false for {flags}), the name one of {', '.join(defaults)}, edits.EDIT"
    values: dict[str, Any] = {}
    for key, value in pairs(filter(None, text.split(",")), "judge", allowed).items():
        kind, _, edit = key.partition(".")
        if kind == "edits" and edit:
            values.setdefault("edits", {})[edit] = read(key, value, float)
        elif key in defaults:
            values[key] = read(key, value, type(defaults[key]))
        else:
            raise InputError("judge", f"{key}={value}", allowed, did_you_mean(key, defaults))
    return values


_REPEATED = {
    "sampled": "sampled:20:api:qwen3@http://localhost:8000/v1",
    "thoughts": "thoughts:8:Qwen/Qwen3-8B?thinking=1024",
}
_TAKEN = ("smollm2-135m", "simulated")
_OWN = ("judge", "model", "address", "samples")


def named_judges() -> dict[str, dict[str, Any]]:
    """Return the tables of the judges in the file; empty if there is no file.

    Raises
    ------
    InputError
        If the file is not valid TOML, or a name is that of a built-in judge.
    """
    tables = named_tables("judges")
    taken = next((name for name in tables if name in _TAKEN), None)
    if taken is not None:
        allowed = f"a name of letters, digits, dots and hyphens, other than {' and '.join(_TAKEN)}"
        raise InputError(SETTINGS, taken, allowed)
    return tables


def make_named(name: str, table: Mapping[str, Any], load: Callable[[str], Judge]) -> Judge:
    """Create the judge described by a table.

    Parameters
    ----------
    name : str
        Name of the table, for messages.
    table : mapping
        ``model``, optionally ``address`` and options of `biaslab.ApiJudge`; or ``judge``, any other judge name. With
        ``samples``, label probabilities are shares of that many texts (`biaslab.Sampled`).
    load : callable
        Creates a judge from another name.

    Raises
    ------
    InputError
        If a value in the table is invalid. Values that may be keys are not displayed.
    """
    where = f"{SETTINGS}: judges.{name}"
    if ("judge" in table) == ("model" in table):
        raise InputError(where, sorted(table), "either model or judge")
    for key in ("judge", "model", "address"):
        if not isinstance(table.get(key, ""), str):
            raise InputError(f"{where}.{key}", table[key], "a quoted string")
    options = {key: value for key, value in table.items() if key not in _OWN}
    judge: Judge
    if "model" in table:
        from biaslab.judges.api import make_judge

        judge = make_judge(table["model"], table.get("address"), options, where, _OWN)
    elif options or "address" in table:
        first = next(iter([*options, "address"]))
        raise InputError(where, first, "only judge and samples, because judge refers to another judge", "use model =")
    else:
        judge = load(table["judge"])
    samples = table.get("samples")
    if samples is None:
        return judge
    if not is_whole(samples, 1):
        raise InputError(f"{where}.samples", samples, "a whole number of at least 1")
    from biaslab.judges.repetition import Sampled

    return Sampled(judge, samples)


def described(table: Mapping[str, Any]) -> str:
    """Describe the judge of a table briefly, for a list."""
    if "judge" in table:
        return f"{table['judge']}, in {SETTINGS}"
    return f"{table.get('model')} at {str(table.get('address') or 'OpenAI').rpartition('@')[2]}, in {SETTINGS}"


def __dir__() -> list[str]:
    return __all__
