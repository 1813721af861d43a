"""Prompt templates, one Jinja2 file each, with their provenance in a comment at the top.

Data enters a template as a variable and is never read as a template itself.

Examples
--------
>>> print(render("scoring_1", context="It rained.", candidate="Rain fell.", noun="summary",
...              attribute="fluency", low=1, high=5))
It rained.
<BLANKLINE>
Summary: Rain fell.
<BLANKLINE>
How fluent is the summary, from 1 to 5? Answer with one whole number.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from biaslab.errors import InputError

_COMMENT = re.compile(r"\{#(.*?)#\}", re.DOTALL)


def available() -> dict[str, str]:
    """Return every template's name and its provenance."""
    sources = sorted(f for f in _folder().iterdir() if f.name.endswith(".j2"))
    return {f.name.removesuffix(".j2"): _provenance(f.read_text(encoding="utf-8")) for f in sources}


def render(name: str, **variables: Any) -> str:
    """Fill a template.

    Parameters
    ----------
    name : str
        One of `available`.
    **variables
        What the template's comment lists. ``adjective`` is looked up from ``attribute`` where it is not given.

    Returns
    -------
    str
        The prompt, without white space at its ends.

    Raises
    ------
    InputError
        If the template is unknown or one of its variables is missing.
    """
    adjective = adjectives().get(str(variables.get("attribute")))
    try:
        return _template(name).render({"adjective": adjective, "ties": False, **variables}).strip()
    except jinja2.UndefinedError as error:
        raise InputError(f"template {name}", str(error), "all variables that its comment lists") from error


@cache
def adjectives() -> dict[str, str]:
    """Return the adjective that prompts use for an attribute ("coherence" → "coherent")."""
    return dict(json.loads(_folder().joinpath("adjectives.json").read_text(encoding="utf-8")))


@cache
def _template(name: str) -> jinja2.Template:
    if name not in available():
        raise InputError("template", name, f"one of {', '.join(available())}")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - prompts are plain text
    environment.filters["plural"] = lambda noun: noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return environment.from_string(_folder().joinpath(f"{name}.j2").read_text(encoding="utf-8"))


def _provenance(source: str) -> str:
    found = _COMMENT.search(source)
    return " ".join(found[1].split()) if found else ""


def _folder() -> Any:
    return files(__name__)
