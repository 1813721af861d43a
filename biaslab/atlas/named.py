"""Load recorded judges by name: ``atlas:gpt-4-0613@mt_bench``, ``atlas:gpt-4@llmbar?template=Vanilla``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from biaslab.atlas.carried import WAYS, names, trials, ways
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.logs.recorded import RecordedJudge, rows_where

PREFIX = "atlas:"
#: Columns that describe how a judge was asked; one value of each must be chosen.
_WAYS = ("dataset", "template", "configuration")
_ACROSS = {"template": WAYS, "subsets": ("subset",)}  # columns whose values a probe compares, so that it reads all
_NONE = "recorded"  # value of a column that does not apply


def rows_named(name: str, one_way: bool = False) -> pd.DataFrame:
    """Return the rows that a judge's name refers to.

    Parameters
    ----------
    name : str
        ``atlas:JUDGE@SOURCE``, followed after a question mark by columns with the value to select, for example
        ``?template=CoT&subset=GPTOut``. If a source has several data sets, the one with the name of the source is
        used, unless ``dataset`` is given.
    one_way : bool
        Reject rows with several prompts or configurations.

    Raises
    ------
    InputError
        If the judge, source, column or value is unknown, or there are several ways of asking and only one is allowed;
        the message lists the existing ones.

    Examples
    --------
    >>> rows = rows_named("atlas:gpt-4@llmbar?template=Vanilla")
    >>> len(rows), rows["template"].unique().tolist()
    (838, ['Vanilla'])
    """
    judge, source, where = _parts(name)
    rows = trials(source, judge)
    if "dataset" not in where and (rows["dataset"] == source).any():
        rows = rows[rows["dataset"] == source]
    rows = rows_where(rows, where).reset_index(drop=True)
    if one_way:
        _require_one_way(name, rows)
    return rows


class JudgementNames:
    """Names of judges whose judgements are in the package, which `biaslab audit` can estimate again."""

    def __init__(self) -> None:
        self._named, self._ways = names(), ways()

    def name(self, record: Mapping[Any, Any]) -> str:
        """Return ``atlas:JUDGE@SOURCE?template=…``, or "" where the package has no such rows."""
        name = self._named.get((record["source"], record["dataset"], record["judge"]), "")
        across = _ACROSS.get(record["probe"], ())
        for way in (each for each in WAYS if name and each not in across):
            value = str(record.get(way))
            asked = (record["source"], record["dataset"], record["judge"], way, value)
            if value != "recorded" and asked in self._ways:
                name += f"{'&' if '?' in name else '?'}{way}={value}"
        return name


def load_judge(name: str, dataset: Dataset | None) -> RecordedJudge:
    """Return the judge of that name, which replays the recorded judgements of a data set's texts.

    Raises
    ------
    InputError
        As in `rows_named`, and if no data set is given or the rows have none of its contexts.
    """
    rows = rows_named(name, one_way=True)
    if dataset is None:
        remedy = f"`bl.audit` of `bl.atlas.trials` and `biaslab audit {name}` need none"
        raise InputError(
            "dataset", dataset, "the data set whose texts were judged (the atlas contains no texts)", remedy
        )
    return RecordedJudge(rows, dataset)


def _parts(name: str) -> tuple[str, str, dict[str, str]]:
    """Return judge, source and columns of a name."""
    who, _, conditions = name.removeprefix(PREFIX).partition("?")
    judge, at, source = who.rpartition("@")
    pairs = [part.partition("=") for part in conditions.split("&") if part]
    if not (name.startswith(PREFIX) and judge and at and source) or not all(all(pair) for pair in pairs):
        allowed = "atlas:JUDGE@SOURCE or atlas:JUDGE@SOURCE?column=value&column=value"
        raise InputError("judge", name, allowed, "such as atlas:gpt-4-0613@mt_bench; see `bl.atlas.judges()`")
    return judge, source, {column: value for column, _, value in pairs}


def _require_one_way(name: str, rows: pd.DataFrame) -> None:
    values = {column: sorted(rows[column].unique()) for column in _WAYS}
    several = {column: [one for one in ways if one != _NONE] for column, ways in values.items() if len(ways) > 1}
    if several:
        listed = "; ".join(f"{column}: {', '.join(ways)}" for column, ways in several.items())
        column, ways = next(iter(several.items()))
        joint = "&" if "?" in name else "?"
        raise InputError("judge", name, f"one way to ask, of {listed}", f"such as {name}{joint}{column}={ways[-1]}")
