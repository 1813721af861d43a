"""Prompt templates, one Jinja2 file each, with their provenance in a comment at the top.

Data enters a template as a variable and is never interpreted as a template.

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
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, get_args

import jinja2
import lazy_loader
from jinja2 import nodes

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.core.requests import Reasons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biaslab.core.scales import Scale
    from biaslab.core.schema import Dataset

__all__ = [
    "adjectives",
    "available",
    "describe",
    "order_output",
    "prepare",
    "protocol_steps",
    "rate",
    "rate_severity",
    "render",
]

SeverityForm = Literal["ex", "json"]
Order = Literal["s", "sr", "rs"]

__getattr__ = lazy_loader.attach(__name__, submodules=["edits"])[0]


def __dir__() -> list[str]:
    return [*__all__, "edits"]


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
        Source of the noun and the definitions.
    attributes : sequence of str
        Attributes to rate, in the order of the answers.
    scale : Scale
        The scale of the ratings.
    candidate : str
        The text to rate.
    context : str
        Its source; if empty, the prompt has no source.
    reasons : {"none", "before", "after"}
        Whether reasons are requested, before or after the score.
    heading : str
        Words in brackets after the candidate's name.
    note : str
        A sentence before the question.
    steps : sequence of str
        Evaluation steps to follow, placed after the definition.

    Returns
    -------
    str
        With one attribute and no reasons it asks for the score alone, else for lines ``<attribute>: <score>``.

    Raises
    ------
    InputError
        If an attribute is unknown or repeated, or ``reasons`` is invalid.

    Examples
    --------
    >>> import biaslab as bl
    >>> from biaslab.core.scales import find_scale
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
    variables = {"noun": dataset.noun, "attributes": described, "scale": scale, "reasons": reasons}
    options = {"heading": heading, "note": note, "steps": list(steps)}
    return render("rate", **variables, **options, candidate=candidate, context=context)


def order_output(
    dataset: Dataset,
    attribute: str,
    scale: Scale,
    candidate: str,
    context: str = "",
    form: SeverityForm = "ex",
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
        The score alone, followed by reasons, or after reasons.
    rules : bool
        Whether the prompt contains the special rules.

    Raises
    ------
    InputError
        If the attribute is unknown, or ``form`` or ``order`` is invalid.

    Examples
    --------
    >>> import biaslab as bl
    >>> from biaslab.core.scales import find_scale
    >>> data = bl.load_dataset("dialogues", limit=1)
    >>> print(order_output(data, "variety", find_scale("1-10"), "Ann: Hi!", form="json", order="rs")[-81:])
    {"reasons": "<point out the faults and say why you score so>", "score": <number>}
    """
    require_one_of("form", form, get_args(SeverityForm))
    require_one_of("order", order, get_args(Order))
    about = describe(dataset, attribute)
    variables = {"noun": dataset.noun, "attribute": attribute, "definition": about["definition"], "scale": scale}
    options = {"format": form, "order": order, "rules": rules}
    return render("output_order", **variables, **options, candidate=candidate, context=context)


def rate_severity(
    dataset: Dataset,
    scale: Scale,
    candidate: str,
    context: str = "",
    form: SeverityForm = "ex",
    order: Order = "sr",
    rules: bool = False,
    aspects: Sequence[str] = ("repetitiveness", "factual accuracy", "coherence"),
) -> str:
    """Ask for a single score of the severity of all problems (template ``severity``; Chen et al. 2024, as printed).

    Parameters
    ----------
    dataset : Dataset
        Source of the noun.
    scale, candidate, context
        As in `rate`; the lowest score means no issues.
    form : {"ex", "json"}
        An example in JSON with a score of 5, or the format of a JSON object.
    order : {"s", "sr", "rs"}
        The score alone, followed by reasons, or after reasons.
    rules : bool
        Whether the prompt contains the special rules, the two that the paper gives.
    aspects : sequence of str
        Aspects to consider.

    Raises
    ------
    InputError
        If ``form`` or ``order`` is invalid, or there are no aspects.

    Examples
    --------
    >>> import biaslab as bl
    >>> from biaslab.core.scales import find_scale
    >>> data = bl.load_dataset("dialogue_sets", limit=1)
    >>> print(rate_severity(data, find_scale("1-10"), "Ann: Hi!", order="s").splitlines()[-1])
    {"score": 5}
    """
    require_one_of("form", form, get_args(SeverityForm))
    require_one_of("order", order, get_args(Order))
    if isinstance(aspects, str) or not aspects:
        raise InputError("aspects", aspects, "a list of at least one name")
    variables = {"noun": dataset.noun, "aspects": list(aspects), "scale": scale, "format": form, "order": order}
    return render("severity", **variables, candidate=candidate, context=context, rules=rules)


def describe(dataset: Dataset, attribute: str) -> dict[str, Any]:
    """Return an attribute's name, its definition and its aspects (empty if only the data set describes it).

    Raises
    ------
    InputError
        If the data set does not have the attribute.
    """
    dataset.require_attributes([attribute])
    described = _known_attributes().get(dataset.name.split(" ")[0], {})
    own = {"definition": dataset.attributes[attribute], "aspects": []}
    return {"name": attribute, **described.get(attribute, own)}


def protocol_steps(dataset: Dataset, attributes: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Return the evaluation steps of a data set's annotators, for the attributes for which they are known.

    Parameters
    ----------
    dataset : Dataset
        The data set that was annotated.
    attributes : sequence of str, optional
        By default all attributes.

    Raises
    ------
    InputError
        If the data set does not have the attribute, or no steps are known.
    """
    listed = _listed("protocol_steps.json")
    by_attribute = listed.get(dataset.name.split(" ")[0], {})
    steps = {name: list(by_attribute[name]) for name in dataset.require_attributes(attributes) if name in by_attribute}
    if not steps:
        names = ", ".join(name for name in listed if name != "about")
        raise InputError("dataset", dataset.name, f"a data set with known annotator steps: {names}", "pass steps")
    return steps


@cache
def _known_attributes() -> dict[str, dict[str, Any]]:
    listed = _listed("attributes.json")
    return {name: known for names, known in listed.items() if names != "about" for name in names.split(", ")}


#: Optional parts, omitted by default.
_ABSENT: dict[str, Any] = {"ties": False, "heading": "", "headings": ("", ""), "note": "", "cue": "", "steps": ()}
_COMMENT = re.compile(r"\{#(.*?)#\}", re.DOTALL)


def available() -> dict[str, str]:
    """Return every template's name and its provenance."""
    templates = sorted(file for file in folder().iterdir() if file.name.endswith(".j2"))
    comments = {file.name.removesuffix(".j2"): _COMMENT.search(file.read_text(encoding="utf-8")) for file in templates}
    return {name: " ".join(comment[1].split()) if comment else "" for name, comment in comments.items()}


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
        raise InputError.plain(f"template {name} needs all variables in its comment: {error}") from error


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
    return _listed("adjectives.json")


def _listed(name: str) -> dict[str, Any]:
    listed: dict[str, Any] = json.loads(folder().joinpath(name).read_text(encoding="utf-8"))
    return listed


@cache
def _template(name: str) -> jinja2.Template:
    return _environment().from_string(_source(name))


def _printed_once(name: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the variables that a template prints unchanged and does not use otherwise, in its order."""
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
    require_one_of("template", name, tuple(available()))
    return str(folder().joinpath(f"{name}.j2").read_text(encoding="utf-8"))


def folder() -> Any:
    """Return the folder of templates and lists."""
    return files("biaslab.prompts")
