"""Names for the values of conditions in figures."""

from __future__ import annotations

import re

#: What a judge writes, in order, as papers and configurations shorten it.
_ORDERS = {"s": "score alone", "sr": "score first", "rs": "reasons first"}
_AT_THE_END = re.compile(r"(?<=, )(s|sr|rs)$")
#: Conditions whose values name themselves, without the name of the column.
_SPEAKING = frozenset(
    [
        "answer", "attribute", "compared", "comparison", "component", "configuration", "correction", "cot", "data",
        "dataset", "debiasing", "decoding", "defence", "edit", "form", "judge", "kind", "level", "log", "naming",
        "nothing", "order", "remedy", "role", "scorer", "source", "state", "strategy", "variant", "who",
    ]
)  # fmt: skip
#: Conditions whose marks are hollow: noise floors beside what is measured.
HOLLOW = frozenset([("variant", "null edit")])
#: Values that are short in a table.
_WORDS = {
    ("remedy", "none"): "no remedy",
    ("defence", "none"): "no defence",
    ("defence", "two_step"): "two steps",
    ("source", "with"): "with the source",
    ("source", "without"): "without the source",
    **{("order", short): text for short, text in _ORDERS.items()},
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
    """Name the value of a condition for a reader of a figure.

    Examples
    --------
    >>> named("remedy", "none"), named("order", "rs"), named("template", 2), named("attribute", "fluency")
    ('no remedy', 'reasons first', 'template 2', 'fluency')
    """
    words = _WORDS.get((column, str(value)))
    if words is not None:
        return words
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if column in _SPEAKING else f"{column.replace('_', ' ').strip(':')} {text}"


def row_name(column: str, value: object) -> str:
    """Name a row of a figure, whose axis shows a condition: as in a legend where its values are short, else as it is.

    Examples
    --------
    >>> row_name("order", "s"), row_name("configuration", "auto-CoT, rs"), row_name("template", 2)
    ('score alone', 'auto-CoT, reasons first', '2')
    """
    text = _WORDS.get((column, str(value)), str(value))
    return _AT_THE_END.sub(lambda found: _ORDERS[found[0]], text)
