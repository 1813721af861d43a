"""Prompt templates: list, fill and prepare them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import count
from typing import Any

import jinja2
from jinja2 import nodes

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError

#: Optional parts, omitted by default.
_ABSENT: dict[str, Any] = {"ties": False, "heading": "", "headings": ("", ""), "note": "", "cue": "", "steps": ()}
_COMMENT = re.compile(r"\{#(.*?)#\}", re.DOTALL)


def available() -> dict[str, str]:
    """Return every template's name and its provenance."""
    sources = sorted(f for f in folder().iterdir() if f.name.endswith(".j2"))
    return {f.name.removesuffix(".j2"): _provenance(f.read_text(encoding="utf-8")) for f in sources}


def render(name: str, **variables: Any) -> str:
    """Fill a template.

    Parameters
    ----------
    name : str
        A name from `available`.
    **variables
        The variables in the template's comment. ``adjective`` defaults to that of ``attribute``.

    Returns
    -------
    str
        The prompt, stripped of surrounding white space.

    Raises
    ------
    InputError
        If the template is unknown or a variable is missing.
    """
    return _filled(name, variables).strip()


def _filled(name: str, variables: Mapping[str, Any]) -> str:
    adjective = adjectives().get(str(variables.get("attribute")))
    try:
        return _template(name).render({"adjective": adjective, **_ABSENT, **variables})
    except jinja2.UndefinedError as error:
        raise InputError(f"template {name}", str(error), "all variables listed in its comment") from error


def prepare(name: str, texts: tuple[str, ...], **variables: Any) -> tuple[str, ...]:
    r"""Fill a template except for its texts; assembling prompts from the parts is far cheaper than `render`.

    Parameters
    ----------
    name : str
        A name from `available`.
    texts : tuple of str
        Variables that the template prints unchanged, once each, in this order, and does not use otherwise.
    **variables
        The other variables.

    Returns
    -------
    tuple of str
        The text before the first variable, between consecutive ones, and after the last, including the surrounding
        white space that `render` strips.

    Raises
    ------
    InputError
        As in `render`; or if the template uses the texts in another way.

    Examples
    --------
    >>> prepare("scoring_1", ("context", "candidate"), noun="summary", attribute="fluency", low=1, high=5)[:2]
    ('', '\n\nSummary: ')
    """
    if _printed_once(name, texts) != texts:
        raise InputError("texts", texts, f"variables that template {name} only prints, once each and in this order")
    marks = (f"\0{number}\0" for number in count())
    mark = next(mark for mark in marks if repr(mark)[1:-1] not in repr(variables))
    return tuple(_filled(name, variables | dict.fromkeys(texts, mark)).split(mark))


@cache
def adjectives() -> dict[str, str]:
    """Return the adjective that prompts use for an attribute ("coherence" → "coherent")."""
    return dict(json.loads(folder().joinpath("adjectives.json").read_text(encoding="utf-8")))


@cache
def _template(name: str) -> jinja2.Template:
    require_one_of("template", name, tuple(available()))
    return _environment().from_string(_source(name))


def _printed_once(name: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables that a template prints unchanged and does not use otherwise, in its order."""
    require_one_of("template", name, tuple(available()))
    tree = _environment().parse(_source(name))
    printed = [each for shown in tree.find_all(nodes.Output) for each in shown.nodes if isinstance(each, nodes.Name)]
    times = Counter(each.name for each in tree.find_all(nodes.Name))
    return tuple(each.name for each in printed if each.name in texts and times[each.name] == 1)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701 - plain text
    environment.filters["plural"] = lambda noun: noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return environment


def _source(name: str) -> str:
    return str(folder().joinpath(f"{name}.j2").read_text(encoding="utf-8"))


def _provenance(source: str) -> str:
    match = _COMMENT.search(source)
    return " ".join(match[1].split()) if match else ""


def folder() -> Any:
    """Return the folder of templates and lists."""
    return files("biaslab.prompts")
