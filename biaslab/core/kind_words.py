"""Describe the type that an annotation allows, and how to get such a value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from functools import cache
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy.typing as npt

from biaslab.core.checks import did_you_mean


class Frame(NamedTuple):
    """Describe a frame of biaslab: words, remedy and required columns."""

    words: str
    remedy: str
    columns: tuple[str, ...] = ()


_TRIALS = Frame(
    "a frame of trials, as from biaslab.collect",
    "pass the result of biaslab.collect(probe, judge, data)",
    ("context_id", "value", "status"),
)
_ESTIMATES = Frame(
    "a frame of estimates, as from probe.estimate",
    "pass the result of probe.estimate(trials)",
    ("metric", "estimate"),
)
#: Frames by the parameter that takes them.
FRAMES = {
    **dict.fromkeys(("trials", "pilot", "empty", "judgements", "judged", "teacher", "student", "control"), _TRIALS),
    **dict.fromkeys(("estimates", "found", "remedies", "quality", "cells", "biases"), _ESTIMATES),
    "scores": Frame(
        "a frame of scores, as from biaslab.scoring.scores",
        "pass the result of biaslab.scoring.scores(trials)",
        ("context_id", "score"),
    ),
    "examples": Frame(
        "a frame of examples, as from biaslab.distill.examples",
        "pass the result of biaslab.distill.examples(trials, data)",
        ("text", "score"),
    ),
    "human": Frame(
        "a frame of human scores, like Dataset.human",
        "pass data.human of a data set",
        ("context_id", "candidate_id", "score"),
    ),
    "texts": Frame("a frame of texts, as from biaslab.distill.collect_samples", "pass candidates with their texts"),
    "printed": Frame(
        "a frame of printed numbers, as from biaslab.published.load",
        "pass the result of published.load()",
        ("paper", "table"),
    ),
}
#: Frame parameters for which these columns are optional.
_OTHER_FRAMES = frozenset({"found", "judgements", "judged", "texts", "remedies"})

#: What to call an object of a class, and how to get one, by class name.
_CLASSES = {
    "Dataset": ("a data set, as from biaslab.load_dataset", "load one: biaslab.load_dataset('graded')"),
    "Judge": (
        "a judge: an object with id, kinds, check and ask",
        "load one by name, biaslab.load_judge(name, data), or write a class with ask",
    ),
    "Design": ("a probe or a scorer: an object with name, design and read", "create one: biaslab.probes.Position()"),
    "Probe": ("a probe", "create one: biaslab.probes.Position()"),
    "Estimator": ("a probe", "create one: biaslab.probes.Position()"),
    "Remedy": (
        "a remedy of biaslab.measures.ranking or a function of trials",
        "create one: biaslab.ranking.SwapAverage()",
    ),
    "Resampling": ("a Resampling", "create one: biaslab.Resampling(level=0.95)"),
    "Budget": ("a Budget", "create one: biaslab.Budget(requests=1000)"),
    "Store": ("a Store or the path of its file", "open one: biaslab.Store('judgements.sqlite')"),
    **dict.fromkeys(
        ("Request", "Choice", "Completion", "Likelihood"),
        ("a request", "create one: biaslab.Completion('Is it good?')"),
    ),
    "Score": ("a request for a score", "create one: biaslab.core.Score('It rained.')"),
    "Reply": ("a reply", "create one: biaslab.Reply(text='4')"),
    "Trial": ("a trial", "take one of probe.design(data)"),
    "Usage": ("a count of tokens", "create one: biaslab.Usage(100, 0, 5)"),
    "TrialsFile": ("a file of trials", "pass the result of biaslab.collect(…, out=path)"),
    "Comparisons": ("comparisons", "make them: biaslab.ranking.comparisons_of(trials)"),
    "Conditionals": (
        "conditional probabilities of better and worse candidates",
        "fit them: biaslab.ranking.fit_conditionals(…)",
    ),
    "Edit": ("an edit", "name one of biaslab.edits.available()"),
    "Encoder": ("an encoder", "load one: biaslab.scoring.load_encoder()"),
    "Evaluator": ("an evaluator", "train one: biaslab.distill.train(examples)"),
    "Evaluators": ("evaluators", "train them: biaslab.distill.cross_fit(examples)"),
    "Policy": ("a text-generating model", "load one: biaslab.distill.load_policy(name)"),
    "Settings": ("training settings", "make them: biaslab.distill.Settings()"),
    "MinimumRisk": ("training settings", "make them: biaslab.distill.MinimumRisk()"),
    "Scale": ("a scale of scores", "take one of biaslab.core.scales"),
    "Metric": ("a metric", "find one: biaslab.probes.find_metric(name)"),
    "Cell": ("a cell of trials", "call estimate(trials), which makes its cells"),
    "Ratio": ("a ratio", "create one: biaslab.stats.Ratio(context, numerator, denominator)"),
    "Estimate": ("an estimate", "take one that biaslab.stats returned"),
    "Case": ("a case of a remedy", "create one: biaslab.mitigation.Case(probe, metric, remedy, before, after)"),
    "Aspect": ("an aspect", "find one: biaslab.distill.find_aspect(task, name)"),
    "Limit": ("a limit", "parse one: biaslab.report.Limit.read(metric, '0.4..0.6')"),
    "Axes": ("Axes of matplotlib", "pass the result of a function of biaslab.report.plots"),
    "Generator": ("a random number generator", "create one: numpy.random.default_rng(0)"),
    "Tensor": ("a tensor of torch", "create one: torch.tensor([…])"),
    "DataFrame": ("a data frame of pandas", "create one: pandas.DataFrame(…)"),
    "ArrowTable": ("a table of polars or Arrow", "create one: pyarrow.table(…)"),
    "InterchangeTable": ("another table with the interchange protocol", "create one: pandas.DataFrame(…)"),
    "Series": ("a series of pandas", "create one: pandas.Series(…)"),
    "ndarray": ("an array of numbers", "create one: numpy.asarray([…])"),
    "Path": ("a path", "write it in quotes"),
    "PathLike": ("a path", "write it in quotes"),
    "date": ("a date", "such as 2026-01-31"),
    "Patience": ("a Patience", "create one: biaslab.judges.api.Patience()"),
}
#: How to get one, by the words above.
_LOADERS = {
    "Judge": "create one: biaslab.load_judge({!r}, data)",
    "Dataset": "load one: biaslab.load_dataset({!r})",
}
_PLAIN = {
    int: ("a whole number", "write it without quotes and decimal point"),
    float: ("a number", "write it without quotes"),
    bool: ("true or false", "write True or False"),
    str: ("a string", "write it in quotes"),
    type(None): ("None", "omit it"),
    object: ("any value", "give one"),
}
_ARRAY_LIKE = frozenset(get_args(npt.ArrayLike))
_LISTS = (Sequence, Iterable, Collection, list, tuple, AbstractSet, set, frozenset)
_PLURALS = {int: "whole numbers", float: "numbers", str: "names", bool: "true or false"}


def columns_of(name: str) -> tuple[str, ...]:
    """Return the required columns of a frame parameter with this name; empty if unknown."""
    return FRAMES[name].columns if name in FRAMES.keys() - _OTHER_FRAMES else ()


def words_for(annotation: Any, name: str = "") -> str:
    """Describe the type that an annotation allows.

    Examples
    --------
    >>> words_for(int | None), words_for(Sequence[str]), words_for(Literal["a", "b"])
    ('a whole number or None', 'a list of names', "one of 'a', 'b'")
    """
    members, is_array_like = parts_of(annotation)
    arrays = ["a list of numbers"] if is_array_like else []
    ordered = sorted(members, key=lambda kind: kind is type(None))
    return " or ".join(dict.fromkeys([*arrays, *(_one(kind, name)[0] for kind in ordered)]))


def remedy_for(annotation: Any, name: str, value: object) -> str:
    """Return the remedy for a value that does not fit an annotation."""
    members = [kind for kind in parts_of(annotation)[0] if kind is not type(None)]
    if isinstance(value, str) and any(_origin(kind) in _LISTS and str in get_args(kind) for kind in members):
        return f"write [{value!r}]"
    loaders = [_LOADERS[kind.__name__] for kind in members if getattr(kind, "__name__", "") in _LOADERS]
    if isinstance(value, str) and loaders:
        return loaders[0].format(value)
    choices = [choice for kind in members if get_origin(kind) is Literal for choice in get_args(kind)]
    if meant := did_you_mean(value, choices):
        return meant
    if inspect.isclass(value) and value.__module__.startswith("biaslab"):
        return f"create one: {value.__name__}()"
    if not members:
        return "pass a list, an array or a column of a frame"
    return _one(members[0], name)[1]


def _one(kind: Any, name: str) -> tuple[str, str]:
    origin = _origin(kind)
    if origin is Literal:
        words = ", ".join(map(repr, get_args(kind)))
        return f"one of {words}", f"such as {get_args(kind)[0]!r}"
    if origin is type:
        return "a class", "pass the class itself, not an instance"
    if getattr(origin, "__name__", "") == "DataFrame" and name in FRAMES:
        return FRAMES[name][:2]
    if origin in _PLAIN:
        return _PLAIN[origin]
    if origin is Callable:
        return "a function", "pass it by name, without parentheses"
    if origin in _LISTS:
        return _of_items(kind, origin, name)
    if origin in (Mapping, dict):
        return _of_mapping(kind, name)
    called = getattr(origin, "__name__", str(origin))
    return _CLASSES.get(called, (f"a {called}", f"create one: {called}(…)"))


def _of_items(kind: Any, origin: Any, name: str) -> tuple[str, str]:
    items = [each for each in get_args(kind) if each is not Ellipsis]
    if not items:
        return "a list", "write it in square brackets"
    if origin is tuple and len(items) > 1 and Ellipsis not in get_args(kind):
        return f"{len(items)} values: {', '.join(words_for(each, name) for each in items)}", "write them in parentheses"
    item = items[0]
    words = f"a list of {_PLURALS[item]}" if item in _PLURALS else f"a list whose items are {words_for(item, name)}"
    return words, "write it in square brackets"


def _of_mapping(kind: Any, name: str) -> tuple[str, str]:
    of = get_args(kind)
    words = f"a dictionary from {words_for(of[0])} to {words_for(of[1], name)}" if len(of) == 2 else "a dictionary"
    return words, "write it in curly braces, {name: value}"


@cache
def parts_of(annotation: Any) -> tuple[tuple[Any, ...], bool]:
    """Return the members of a union except those of `numpy.typing.ArrayLike`, and whether the latter are included."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if not set(parts) >= _ARRAY_LIKE:
        return parts, False
    return tuple(part for part in parts if part not in _ARRAY_LIKE), True


def _origin(kind: Any) -> Any:
    return get_origin(kind) or kind
