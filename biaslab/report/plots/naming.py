"""Name conditions, rows and judges in figures."""

from __future__ import annotations

import re

from biaslab.core.names import WAYS, written

#: Orders of a judge's answer, by their abbreviations in papers and configurations.
_ORDERS = {"s": "score alone", "sr": "score first", "rs": "reasons first"}
_AT_THE_END = re.compile(r"(?<=, )(s|sr|rs)$")
_KINDS = frozenset(["api", "ray", "reward", "local", "function", "python", "sampled"])  # prefixes of judge names
_PLURALS = tuple(
    (re.compile(rf"\b{one}\b"), several)
    for one, several in (
        ("its", "their"), ("itself", "themselves"), ("it wins", "they win"), ("it loses", "they lose"),
        ("it sees", "they see"), ("it thinks", "they think"),
    )
)  # fmt: skip
#: Conditions whose values need no column name.
_SPEAKING = frozenset(
    [
        "answer", "attribute", "compared", "comparison", "component", "configuration", "correction", "cot", "data",
        "dataset", "debiasing", "decoding", "defence", "edit", "form", "judge", "kind", "level", "log", "naming",
        "nothing", "order", "panel", "remedy", "role", "scorer", "source", "state", "strategy", "subset", "variant",
        "who",
    ]
)  # fmt: skip
_CODES = frozenset(["configuration", "decoding", "defence", "edit", "system"])  # whose values are identifiers
_DATA = frozenset(["data", "dataset", "source"])
_TOY = re.compile("smollm", re.IGNORECASE)  # the embedded judge, part of the installation
#: Conditions with hollow marks: noise floors.
HOLLOW = frozenset([("variant", "null edit")])
#: Axis labels of numeric conditions.
AXES = {
    "human_gap": "absolute human score gap (points)",
    "place": "place in the list",
    "position": "position in the output (0: asked alone)",
    "score": "score (points)",
}
#: Names of values that tables abbreviate.
_WORDS = {
    ("remedy", "none"): "no remedy",
    ("remedy", "position-term"): "position term",
    ("remedy", "swap-average"): "both orders averaged",
    ("remedy", "threshold"): "threshold (α, τ)",
    ("remedy", "uniform-prior"): "uniform prior",
    ("defence", "none"): "no defence",
    ("defence", "two_step"): "two steps",
    ("source", "with"): "with the source",
    ("source", "without"): "without the source",
    **{("order", short): text for short, text in _ORDERS.items()},
    ("level", "dataset"): "over the data set",
    ("level", "context"): "within contexts",
    ("order", "rs-sr"): "reasons first − score first",
    ("order", "sr-s"): "score first − score alone",
    ("rules", "True"): "with special rules",
    ("rules", "False"): "without special rules",
    ("form", "ex"): "a worked example",
    ("form", "json"): "JSON",
    ("form", "score"): "scores",
    ("form", "pair"): "pairs",
    ("edited", "better"): "the better one is edited",
    ("edited", "worse"): "the worse one is edited",
    ("edited", "equal"): "one of two as good is edited",
    ("quality", "left"): "quality is left",
    ("quality", "lowered"): "quality is lowered",
    ("between", "template"): "base and this template",
    ("between", "order"): "both orders",
    ("between", "resampling"): "samples of one request",
    ("adjusted", ""): "at equal human score",
    ("adjusted", "log perplexity"): "at equal perplexity too",
    ("scorer", "judge"): "judge",
    ("scorer", "human"): "humans",
    ("correction", "judge"): "judge as it is",
    ("correction", "human"): "labels alone",
    ("correction", "ppi"): "corrected (PPI)",
    ("correction", "rogan_gladen"): "Rogan–Gladen",
    ("correction", "regression"): "judge, adjusted",
    ("cot", "CoT"): "with CoT",
    ("cot", "no CoT"): "without CoT",
}


def named(column: str, value: object) -> str:
    """Return the name of a condition's value in a figure.

    Examples
    --------
    >>> named("remedy", "none"), named("order", "rs"), named("template", 2), named("attribute", "fluency")
    ('no remedy', 'reasons first', 'template 2', 'fluency')
    """
    words = _WORDS.get((column, str(value)))
    if words is not None:
        return words
    text = _in_words(column, f"{value:g}" if isinstance(value, float) else str(value))
    if column == "k":  # candidates of a list
        return f"lists of {text}"
    return text if column in _SPEAKING else f"{column.replace('_', ' ').strip(':')} {text}"


def marked(judge: str) -> str:
    """Return how a figure marks a judge that is simulated or a toy; empty for others.

    Examples
    --------
    >>> marked("simulated:position=0.5"), marked("local:smollm2-135m@70cc:float32"), marked("gpt-4")
    ('simulated judge', 'toy judge (SmolLM2-135M)', '')
    """
    if judge.partition(":")[0] == "simulated":
        return "simulated judge"
    return "toy judge (SmolLM2-135M)" if _TOY.search(judge) else ""


def judge_words(judge: str) -> str:
    """Name a judge as the subject of a sentence, without its prefix, address and settings.

    Examples
    --------
    >>> [judge_words(judge) for judge in ("ray:2:api:gpt-5@host/v1", "local:m@70cc:float32", "simulated:position=0.5")]
    ['gpt-5', 'm', 'the simulated judge']
    >>> judge_words("multiple=evaluator:0a1b")
    'the evaluator'
    """
    kind, colon, rest = judge.partition(":")
    if kind == "simulated":
        return "the simulated judge"
    if kind.endswith("=evaluator"):
        return "the evaluator"
    if judge in ("student", "teacher"):  # roles of judges in distillation
        return f"the {judge}"
    if colon and (kind in _KINDS or kind.isdigit()):
        return judge_words(rest)
    return kind.partition("@")[0].rstrip("/").rpartition("/")[2] or judge


def plural(verb_phrase: str) -> str:
    """Put a verb phrase into the plural.

    Examples
    --------
    >>> plural("prefers its own texts"), plural("has a higher value"), plural("loses more often than it wins")
    ('prefer their own texts', 'have a higher value', 'lose more often than they win')
    >>> plural("distinguishes attributes more than humans do")
    'distinguish attributes more than humans do'
    """
    verb, space, rest = verb_phrase.partition(" ")
    ending = "es" if verb.endswith(("shes", "ches", "sses", "xes")) else "s"
    verb = {"has": "have", "is": "are"}.get(verb, verb.removesuffix(ending))
    for one, several in _PLURALS:
        rest = one.sub(several, rest)
    return f"{verb}{space}{rest}"


def row_name(column: str, value: object) -> str:
    """Name a row on an axis that already names the condition: the value in words, without the column's name.

    Examples
    --------
    >>> row_name("order", "s"), row_name("configuration", "auto-CoT, rs"), row_name("template", 2)
    ('score alone', 'auto-CoT, reasons first', '2')
    """
    text = _WORDS.get((column, str(value)), _in_words(column, str(value)))
    return _AT_THE_END.sub(lambda match: _ORDERS[match[0]], text)


def _in_words(column: str, text: str) -> str:
    """Return a condition's value in words instead of identifiers."""
    text = WAYS.get(text, text) if column == "configuration" else written(text) if column in _DATA else text
    return text.replace("_", " ") if column in _CODES else text
