"""Words in figures: the headline, and the names of conditions, rows and judges."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pandas as pd

from biaslab.core.metrics import Metric, find_metric
from biaslab.core.output import WAYS, number, with_interval, written
from biaslab.report.verdicts import found_side, side_words
from biaslab.report.wording import fair, varying
from biaslab.stats.estimate import side_of
from biaslab.stats.frame import LEADING, TRAILING, corrected

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_METRICS = 2  # maximum number of metrics in a headline
_CONDITIONS = 2  # maximum number of conditions that name a row
_NEEDED = ("probe", "metric", "estimate", "ci_low", "ci_high")
_BEGINS = ("the ", "humans")  # beginnings of a subject that is not a name and is therefore capitalised
_NOUNS = {"attribute": " attributes", "template": " templates", "dataset": " data sets", "edit": " edits"}
_NOUNS |= {"scale": " scales", "configuration": " configurations", "order": " orders", "own": " systems"}
_LONG = 40  # maximum number of characters that name a row
_DRAWN: WeakKeyDictionary[Axes, list[pd.DataFrame]] = WeakKeyDictionary()


def headline(estimates: pd.DataFrame) -> str:
    """Summarise the estimates of a figure in one sentence; empty if the frame does not hold estimates.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Estimates that the figure shows. If the column ``headline`` holds a single sentence, that is returned.

    Returns
    -------
    str
        For each of the first two metrics, with the judge's name if there is only one: how many estimates are found
        above or below the null, as their verdicts say, with q over these rows (without any test, by the interval
        alone), and their range; if none is found, that no interval excludes the null, or that none is conclusive. For
        metrics without a null, the range.

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"probe": "position", "judge": "j", "metric": "first_position_rate", "p_value": 0.001}
    >>> rows = [row | {"estimate": x, "ci_low": x - 0.05, "ci_high": x + 0.05} for x in (0.7, 0.8)]
    >>> headline(pd.DataFrame(rows))
    'j prefers the candidate shown first in both (0.70 to 0.80)'
    """
    sentences = list(estimates["headline"].dropna().unique()) if "headline" in estimates else []
    if len(sentences) == 1:
        return str(sentences[0])
    if not set(_NEEDED) <= set(estimates.columns):
        return ""
    defined = estimates[estimates["estimate"].notna()]
    defined = defined if "judge" in defined else defined.assign(judge="")  # some tables do not name rows by judge
    several = len(defined["judge"].unique()) > 1
    parts = [
        _of_metric(rows, _read(rows, find_metric(str(metric), str(probe))), place == 0 or several)
        for place, ((probe, metric), rows) in enumerate(defined.groupby(["probe", "metric"], sort=False))
    ]
    whole = "; ".join(parts[:_METRICS]).replace("; Judges ", "; judges ")
    judges = tuple(judge_words(str(judge)) for judge in defined["judge"].unique() if judge)
    is_name = whole.startswith(judges) and not whole.startswith(_BEGINS)
    return whole if is_name or not whole[:2].islower() else whole[:1].upper() + whole[1:]


def remember_rows(ax: Axes, rows: pd.DataFrame, label: str | None = None, null: float | None = None) -> None:
    """Remember the estimates drawn in Axes, with the label and null drawn in place of the metric's own."""
    label = label if len(rows["metric"].unique()) == 1 else None
    drawn = {name: value for name, value in (("drawn_label", label), ("drawn_null", null)) if value is not None}
    _DRAWN.setdefault(ax, []).append(rows.assign(**drawn))


def headline_of(figure: Figure, estimates: pd.DataFrame) -> str:
    """Return the headline of the estimates drawn; of the given ones if none were remembered, or if they have one."""
    rows = [part for ax in figure.axes for part in _DRAWN.get(ax, [])]
    if "headline" in estimates or not rows:
        return headline(estimates)
    return headline(pd.concat(rows, ignore_index=True).drop_duplicates())


def _read(rows: pd.DataFrame, metric: Metric) -> Metric:
    """Return the metric with the label and null used in the figure."""
    label, null = (rows[name].iloc[0] if name in rows else None for name in ("drawn_label", "drawn_null"))
    text = metric.label if label is None or label != label else " ".join(str(label).split())
    text = text.removesuffix(f" ({metric.unit})")
    return replace(metric, label=text, null=metric.null if null is None or null != null else float(null))


def _of_metric(rows: pd.DataFrame, metric: Metric, names: bool) -> str:
    """Describe one metric: the number of estimates found on each side of the null, or else their range."""
    judges = [str(judge) for judge in rows["judge"].unique() if judge]
    label = short_label(metric)
    name = f"{metric.unit} {label}" if metric.unit.startswith("correlation of ") else label
    are_judges = len(judges) > 1 and ("scorer" not in rows or rows["scorer"].isna().all())  # not ROUGE and the like
    who = judge_words(judges[0]) if len(judges) == 1 else "the judges" if are_judges else ""
    owner = f"{who}'" if who in ("the judges", "humans") else f"{who}'s"
    subject = f"{owner} {name}" if who and names else name
    several, reach = len(rows) > 1, _reach(rows, plain=True)
    if metric.null is None:
        reach = _reach(rows)
        return f"{subject} {'ranged' if reach.startswith('from') else 'came to'} {reach}"
    ways = Counter(_sides(rows, metric.null))
    if any(ways):
        values = f" ({reach})" if several else f": {reach}"
        if metric.above or metric.below:
            return _with_subject(judges if names else [], metric, ways, rows) + values
        lies = {"above": f"exceeded {fair(metric.null)}", "below": f"fell below {fair(metric.null)}"}
        counts = ", ".join(f"{lies[way]}{_in_how_many(n, rows)}" for way, n in sorted(ways.items()) if way)
        return f"{subject} {counts}{values}"
    if all(side_of(row, metric.null) is None for row in rows.to_dict("records")):
        verdict = f"no interval of {subject} excludes" if several else f"the interval of {subject} includes"
        return f"{verdict} {fair(metric.null)} ({reach})"
    if several:
        return f"none of {len(rows)} estimates of {subject} is conclusive ({reach})"
    return f"{subject} is inconclusive: {reach}"


def short_label(metric: Metric) -> str:
    """Return the label that a probe declares, up to the first comma.

    Examples
    --------
    >>> short_label(find_metric("first_position_rate", "position"))
    'P(A)'
    """
    return metric.label.partition(",")[0]


def _with_subject(judges: list[str], metric: Metric, ways: Counter[str], shown: pd.DataFrame) -> str:
    """Describe the findings as behaviour of the judges, with the number of rows."""
    rows = len(shown)
    sides = [(side_words(metric, way), n) for way, n in sorted(ways.items()) if way]
    if len(judges) > 1 and len(judges) == rows:
        first = [f"{n} of {rows} judges {words if n == 1 else plural(words)}" for words, n in sides[:1]]
        return ", ".join([*first, *(f"{n} {words if n == 1 else plural(words)}" for words, n in sides[1:])])
    subject = "Judges" if len(judges) > 1 else judge_words(judges[0]) if judges else ""
    does = [(plural(words) if len(judges) > 1 else words, n) for words, n in sides]
    return f"{subject} {', '.join(f'{words}{_in_how_many(n, shown)}' for words, n in does)}".strip()


def _in_how_many(count: int, rows: pd.DataFrame) -> str:
    """Return the number of rows in which something is found, as in " in 2 of 3 templates"; empty for a single row."""
    if len(rows) < 2:
        return ""
    differ = _differing(rows)
    noun = _NOUNS.get(differ[0], "") if len(differ) == 1 else ""
    if count < len(rows):
        return f" in {count} of {len(rows)}{noun}"
    return f" in both{noun}" if len(rows) == 2 else f" in all {len(rows)}{noun}"


def _sides(rows: pd.DataFrame, null: float) -> list[str]:
    """Return the side of the null on which each row is found, or ""; by the interval if no row has a test."""
    if "p_value" not in rows or rows["p_value"].isna().all():
        return [side_of(row, null) or "" for row in rows.to_dict("records")]
    return [found_side(row, null) for row in corrected(rows, rows["p_value"].notna()).to_dict("records")]


def _reach(rows: pd.DataFrame, plain: bool = False) -> str:
    """Format one estimate with its interval, or the range of several; unless `plain`, name the rows at both ends."""
    ordered = rows.sort_values("estimate", kind="stable")
    least, most = ordered.iloc[0].to_dict(), ordered.iloc[-1].to_dict()
    largest = max(abs(least["estimate"]), abs(most["estimate"]))
    digits = 0 if largest >= 100 else 3 if 0 < largest < 0.1 else 2
    if len(rows) == 1:
        return with_interval(least, digits)
    low, high = (number(row["estimate"], digits) for row in (least, most))
    if plain:
        return f"{low} each" if low == high else f"{low} to {high}"
    if low == high:
        return f"{low} in {'both' if len(rows) == 2 else f'all {len(rows)}'}"
    differ = _differing(rows)
    return f"from {low}{_where(least, differ)} to {high}{_where(most, differ)}"


def _differing(rows: pd.DataFrame) -> list[str]:
    drawn = ("drawn_label", "drawn_null")
    fixed = {*LEADING, *TRAILING, *drawn, "source", "repository", "version"} - {"judge", "dataset"}
    return varying(rows, [name for name in rows.columns if name not in fixed])


def _where(row: dict[Any, Any], differ: list[str]) -> str:
    """Name a row by the conditions that vary, in parentheses; empty if there are more than two or the text is long."""
    if not 0 < len(differ) <= _CONDITIONS:
        return ""
    text = ", ".join(named(name, row[name]) for name in differ if row[name] == row[name])
    return f" ({text})" if text and len(text) <= _LONG else ""


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
        "dataset", "debiasing", "decoding", "defence", "edit", "form", "judge", "kind", "level", "log", "member",
        "naming", "nothing", "order", "panel", "rater", "remedy", "role", "scorer", "source", "state", "strategy",
        "subset", "variant", "who",
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
    ("rater", "judge"): "the judge and a person",
    ("rater", "people"): "two people",
    ("scorer", "judge"): "judge",
    ("scorer", "human"): "humans",
    ("correction", "judge"): "judge as it is",
    ("correction", "human"): "labels alone",
    ("correction", "ppi"): "corrected (PPI)",
    ("correction", "rogan_gladen"): "Rogan–Gladen",
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
