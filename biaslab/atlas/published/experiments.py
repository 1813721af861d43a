"""Experiments of the papers, as parameters of biaslab's notebooks (``experiments.toml``)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError


@dataclass(frozen=True)
class Experiment:
    """A run of a notebook with the settings of a paper, on one data set.

    Attributes
    ----------
    paper : str
        For example ``"liusie2024"``.
    items : tuple of str
        The tables, figures and appendices that it reproduces.
    notebook : str
        Name of the notebook.
    dataset : str
        Name of the data set, with its options.
    settings : dict of str to str
        Every parameter of the notebook that affects a result, as written on the command line.
    not_stated : tuple of str
        Parameters that the paper does not state; their values are biaslab's choice.
    """

    paper: str
    items: tuple[str, ...]
    notebook: str
    dataset: str
    settings: dict[str, str]
    not_stated: tuple[str, ...] = ()


def experiments(paper: str, item: str | None = None, dataset: str | None = None) -> list[Experiment]:
    """Return the experiments of a paper with its own settings.

    Parameters
    ----------
    paper : str
        A name from ``biaslab.atlas.published.PAPERS``.
    item : str, optional
        A table, figure or appendix as named in ``docs/papers.md``, for example ``"Table 5"``; case and hyphens do not
        matter. By default all.
    dataset : str, optional
        Only those on this data set; options after its name, such as ``?words=2500``, may be omitted. If an item has a
        single data set, it is replaced by the given one.

    Returns
    -------
    list of Experiment
        One per notebook, data set and choice of settings.

    Raises
    ------
    InputError
        If the paper is unknown, no experiment reproduces the item, or none of several is on the data set.

    Examples
    --------
    >>> [first, *_] = experiments("stureborg2024", "Table 4")
    >>> first.notebook, first.settings["replicates"], first.settings["n_contexts"]
    ('consistency', '10', 'none')
    """
    known = list(dict.fromkeys(each.paper for each in _all()))
    if paper not in known:
        raise InputError("paper", paper, ", ".join(known), did_you_mean(paper, known))
    chosen = [each for each in _all() if each.paper == paper]
    if item is not None:
        names = list(dict.fromkeys(name for each in chosen for name in each.items))
        wanted = {_plain(name): name for name in names}.get(_plain(item))
        if wanted is None:
            raise InputError("item", item, ", ".join(names), did_you_mean(item, names))
        chosen = [each for each in chosen if wanted in each.items]
    return chosen if dataset is None else _on(dataset, chosen)


def _on(dataset: str, chosen: list[Experiment]) -> list[Experiment]:
    sets = list(dict.fromkeys(each.dataset for each in chosen))
    names = {each.partition("?")[0]: each for each in reversed(sets)} | {each: each for each in sets}
    if dataset in names:
        return [each for each in chosen if each.dataset == names[dataset]]
    if len(sets) > 1:
        raise InputError("dataset", dataset, " or ".join(sets), did_you_mean(dataset, sets))
    return [replace(each, dataset=dataset) for each in chosen]


def _plain(item: str) -> str:
    return item.lower().replace("-", " ").replace(".", "").replace(" ", "")


@cache
def _all() -> tuple[Experiment, ...]:
    runs = tomllib.loads(files("biaslab.atlas.published").joinpath("experiments.toml").read_text(encoding="utf-8"))
    return tuple(
        Experiment(
            run["paper"],
            tuple(items),
            run["notebook"],
            dataset,
            {name: _as_text(value) for name, value in run["settings"].items()},
            tuple(run.get("not_stated", ())),
        )
        for run in runs["run"]
        for dataset, items in run["data"].items()
    )


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
