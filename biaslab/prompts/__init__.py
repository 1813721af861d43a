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
from collections import Counter
from functools import cache
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, get_args

import jinja2
from jinja2 import nodes

from biaslab.checks import require_one_of
from biaslab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from biaslab.datasets.schema import Dataset
    from biaslab.scales import Scale

Reasons = Literal["none", "before", "after"]
Form = Literal["ex", "json"]
Order = Literal["s", "sr", "rs"]

#: What is not in a prompt unless it is asked for.
_ABSENT: dict[str, Any] = {"ties": False, "heading": "", "headings": ("", ""), "note": "", "cue": "", "steps": ()}
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
    return _filled(name, variables).strip()


def _filled(name: str, variables: Mapping[str, Any]) -> str:
    adjective = adjectives().get(str(variables.get("attribute")))
    try:
        return _template(name).render({"adjective": adjective, **_ABSENT, **variables})
    except jinja2.UndefinedError as error:
        raise InputError(f"template {name}", str(error), "all variables that its comment lists") from error


def prepare(name: str, texts: tuple[str, ...], **variables: Any) -> tuple[str, ...]:
    r"""Fill a template but for its texts: many prompts of one form, put together from it, cost a fraction of `render`.

    Parameters
    ----------
    name : str
        One of `available`.
    texts : tuple of str
        Variables that the template prints as they are, once each, in this order, and uses for nothing else.
    **variables
        The others.

    Returns
    -------
    tuple of str
        What stands before the first text, between one and the next, and behind the last; with white space at its ends,
        which `render` takes off.

    Raises
    ------
    InputError
        As `render` does; or if the template does something else with the texts.

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


def rate(
    dataset: Dataset,
    attributes: Sequence[str],
    scale: Scale,
    candidate: str,
    context: str = "",
    reasons: Reasons = "none",
    heading: str = "",
    note: str = "",
    steps: Sequence[str] = (),
) -> str:
    """Ask for the rating of one candidate (template ``rate``; Stureborg et al. 2024, §2.1.4).

    Parameters
    ----------
    dataset : Dataset
        Where noun and definitions come from.
    attributes : sequence of str
        What to rate, in the order in which to answer.
    scale : Scale
        On which to rate.
    candidate : str
        The text to rate.
    context : str
        Its source; without one the prompt has no source.
    reasons : {"none", "before", "after"}
        Whether reasons are asked for, before or after the score.
    heading : str
        Words in brackets behind the candidate's name.
    note : str
        A sentence before the question.
    steps : sequence of str
        Evaluation steps to follow, behind the definition.

    Returns
    -------
    str
        With one attribute and no reasons it asks for the score alone, else for lines ``<attribute>: <score>``.

    Raises
    ------
    InputError
        If an attribute is unknown or stands twice, or ``reasons`` is none of the three.

    Examples
    --------
    >>> import biaslab as bl
    >>> from biaslab.scales import find_scale
    >>> print(rate(bl.load_dataset("dialogues", limit=1), ["variety"], find_scale("1-5"), "Ann: Hi!"))
    Dialogue: Ann: Hi!
    <BLANKLINE>
    Rate the dialogue in one respect only.
    <BLANKLINE>
    The respect is variety: No speaker of the dialogue says the same thing again.
    Consider: does a turn come back word for word; does a turn repeat an earlier one in other words.
    <BLANKLINE>
    The rating must be a whole number from 1 (worst) to 5 (best).
    Answer with the rating of variety alone.
    """
    require_one_of("reasons", reasons, get_args(Reasons))
    if isinstance(attributes, str) or len(set(attributes)) < len(attributes):
        raise InputError("attributes", attributes, "a list of different names")
    described = [describe(dataset, name) for name in attributes]
    given = {"noun": dataset.noun, "attributes": described, "scale": scale, "reasons": reasons}
    told = {"heading": heading, "note": note, "steps": list(steps)}
    return render("rate", **given, **told, candidate=candidate, context=context)


def order_output(
    dataset: Dataset,
    attribute: str,
    scale: Scale,
    candidate: str,
    context: str = "",
    form: Form = "ex",
    order: Order = "sr",
    rules: bool = False,
) -> str:
    """Ask for a score in one of six output formats (template ``output_order``; Chen et al. 2024, Table 1).

    Parameters
    ----------
    dataset, attribute, scale, candidate, context
        As in `rate`, with one attribute.
    form : {"ex", "json"}
        Lines of text or a JSON object.
    order : {"s", "sr", "rs"}
        The score alone, then reasons, or after reasons.
    rules : bool
        Whether the special rules stand in the prompt.

    Raises
    ------
    InputError
        If the attribute is unknown, or ``form`` or ``order`` is none of those.

    Examples
    --------
    >>> import biaslab as bl
    >>> from biaslab.scales import find_scale
    >>> data = bl.load_dataset("dialogues", limit=1)
    >>> print(order_output(data, "variety", find_scale("1-10"), "Ann: Hi!", form="json", order="rs")[-81:])
    {"reasons": "<point out the faults and say why you score so>", "score": <number>}
    """
    require_one_of("form", form, get_args(Form))
    require_one_of("order", order, get_args(Order))
    about = describe(dataset, attribute)
    given = {"noun": dataset.noun, "attribute": attribute, "definition": about["definition"], "scale": scale}
    return render("output_order", **given, candidate=candidate, context=context, format=form, order=order, rules=rules)


def rate_severity(
    dataset: Dataset,
    scale: Scale,
    candidate: str,
    context: str = "",
    form: Form = "ex",
    order: Order = "sr",
    rules: bool = False,
    aspects: Sequence[str] = ("repetitiveness", "factual accuracy", "coherence"),
) -> str:
    """Ask for one score of how severe all problems are (template ``severity``; Chen et al. 2024, as printed).

    Parameters
    ----------
    dataset : Dataset
        Where the noun comes from.
    scale, candidate, context
        As in `rate`; the lowest score means no issues.
    form : {"ex", "json"}
        An example in JSON with a score of 5, or the format of a JSON object.
    order : {"s", "sr", "rs"}
        The score alone, then reasons, or after reasons.
    rules : bool
        Whether the special rules stand in the prompt, those two that the paper tells.
    aspects : sequence of str
        What to look at.

    Raises
    ------
    InputError
        If ``form`` or ``order`` is none of those, or there is no aspect.

    Examples
    --------
    >>> import biaslab as bl
    >>> from biaslab.scales import find_scale
    >>> data = bl.load_dataset("dialogue_sets", limit=1)
    >>> print(rate_severity(data, find_scale("1-10"), "Ann: Hi!", order="s").splitlines()[-1])
    {"score": 5}
    """
    require_one_of("form", form, get_args(Form))
    require_one_of("order", order, get_args(Order))
    if isinstance(aspects, str) or not aspects:
        raise InputError("aspects", aspects, "a list of at least one name")
    given = {"noun": dataset.noun, "aspects": list(aspects), "scale": scale, "format": form, "order": order}
    return render("severity", **given, candidate=candidate, context=context, rules=rules)


def describe(dataset: Dataset, attribute: str) -> dict[str, Any]:
    """Return an attribute's name, its definition and its aspects (empty where only the data set describes it).

    Raises
    ------
    InputError
        If the data set has no such attribute.
    """
    dataset.require_attributes([attribute])
    known = _known_attributes().get(dataset.name.split(" ")[0], {})
    own = {"definition": dataset.attributes[attribute], "aspects": []}
    return {"name": attribute, **known.get(attribute, own)}


def protocol_steps(dataset: Dataset, attributes: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Return the steps by which a data set's annotators judged, of those attributes whose steps are known.

    Parameters
    ----------
    dataset : Dataset
        What was annotated.
    attributes : sequence of str, optional
        All by default.

    Raises
    ------
    InputError
        If the data set has no such attribute, or none has known steps.
    """
    listed = json.loads(_folder().joinpath("protocol_steps.json").read_text(encoding="utf-8"))
    known = listed.get(dataset.name.split(" ")[0], {})
    found = {name: list(known[name]) for name in dataset.require_attributes(attributes) if name in known}
    if not found:
        names = ", ".join(name for name in listed if name != "about")
        raise InputError("dataset", dataset.name, f"one whose annotators' steps are known: {names}", "give steps")
    return found


@cache
def _known_attributes() -> dict[str, dict[str, Any]]:
    listed = json.loads(_folder().joinpath("attributes.json").read_text(encoding="utf-8"))
    return {name: known for names, known in listed.items() if names != "about" for name in names.split(", ")}


@cache
def adjectives() -> dict[str, str]:
    """Return the adjective that prompts use for an attribute ("coherence" → "coherent")."""
    return dict(json.loads(_folder().joinpath("adjectives.json").read_text(encoding="utf-8")))


@cache
def _template(name: str) -> jinja2.Template:
    require_one_of("template", name, tuple(available()))
    return _environment().from_string(_source(name))


def _printed_once(name: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of some variables that a template prints as they are and uses for nothing else, in its order."""
    require_one_of("template", name, tuple(available()))
    tree = _environment().parse(_source(name))
    printed = [each for shown in tree.find_all(nodes.Output) for each in shown.nodes if isinstance(each, nodes.Name)]
    times = Counter(each.name for each in tree.find_all(nodes.Name))
    return tuple(each.name for each in printed if each.name in texts and times[each.name] == 1)


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701 - plain text
    made.filters["plural"] = lambda noun: noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return made


def _source(name: str) -> str:
    return str(_folder().joinpath(f"{name}.j2").read_text(encoding="utf-8"))


def _provenance(source: str) -> str:
    found = _COMMENT.search(source)
    return " ".join(found[1].split()) if found else ""


def _folder() -> Any:
    return files(__name__)
