"""Words in figures: the headline, and the names of conditions, rows and judges."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from string import Formatter
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from biaslab.core.metrics import Metric, Says, find_metric
from biaslab.core.output import WAYS, count, number, with_interval, written
from biaslab.report.plots import style
from biaslab.report.verdicts import side_words, with_findings
from biaslab.report.wording import WORDS, fair, span, varying
from biaslab.stats.frame import LEADING, TRAILING

_METRICS = 2  # maximum number of metrics in a headline
_CONDITIONS = 2  # maximum number of conditions that name a row
_LONG = 40  # maximum number of characters that name a row
_FEW = 20  # contexts: smaller samples are named in the headline
_DRAWN: WeakKeyDictionary[Axes, list[pd.DataFrame]] = WeakKeyDictionary()


def headline(estimates: pd.DataFrame, says: Says | str | None = None) -> str:
    """Summarise the estimates of a figure in one sentence; empty if the frame does not hold estimates.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Estimates that the figure shows. If the column ``headline`` holds a single sentence, that is returned. Findings
        are read from the column ``finding``, if there is one; otherwise rows are tested as in their study.
    says : Says or str, optional
        The sentence for each outcome, as a figure declares it, or for any. Default: for each of the first two
        metrics, the words of the findings and how many rows have them, and the range of the estimates.

    Returns
    -------
    str

    Examples
    --------
    >>> import pandas as pd
    >>> row = {"probe": "position", "judge": "j", "metric": "first_position_rate", "n_contexts": 24, "p_value": 0.001}
    >>> rows = [row | {"estimate": x, "ci_low": x - 0.05, "ci_high": x + 0.05} for x in (0.7, 0.8)]
    >>> headline(pd.DataFrame(rows))
    'j: prefers the candidate shown first in both (P(A) 0.70 to 0.80)'
    """
    sentences = list(estimates["headline"].dropna().unique()) if "headline" in estimates else []
    if len(sentences) == 1:
        return str(sentences[0])
    if not {"metric", "estimate", "ci_low", "ci_high", "n_contexts"} <= set(estimates.columns):
        return ""
    defined = with_findings(estimates[estimates["estimate"].notna()])
    if defined.empty:
        return ""
    defined = defined.assign(**{name: "" for name in ("judge", "probe") if name not in defined})
    groups = defined.groupby(["probe", "metric"], sort=False, dropna=False)
    metrics = [(_drawn(rows, find_metric(str(metric), str(probe))), rows) for (probe, metric), rows in groups]
    first, rows = metrics[0]
    who = _judges(defined, first)
    small = f"; n = {span(rows['n_contexts'])} contexts" if 0 < rows["n_contexts"].min() < _FEW else ""
    sentence = getattr(says, _outcome(rows["finding"])) if isinstance(says, Says) else says
    fields = {"judge": who} | {metric.name: _reach(part, plain=True) for metric, part in metrics}
    if sentence and {name for _, name, _, _ in Formatter().parse(sentence) if name} <= set(fields):
        return sentence.format_map(fields).removeprefix(": ") + small
    parts = [_of_metric(part, metric) for metric, part in metrics[:_METRICS]]
    whole = ": ".join(filter(None, [who, "; ".join(parts)])) + small
    return whole if who else whole[:1].upper() + whole[1:]


def remember_rows(ax: Axes, rows: pd.DataFrame, label: str | None = None) -> None:
    """Remember the estimates drawn in Axes, with the label drawn in place of the metric's own."""
    own = label is not None and len(rows["metric"].unique()) == 1
    _DRAWN.setdefault(ax, []).append(rows.assign(drawn_label=label) if own else rows)


def headline_of(figure: Figure, estimates: pd.DataFrame, says: Says | str | None = None) -> str:
    """Return the headline of the estimates drawn; of the given ones if none were remembered, or if they have one."""
    rows = [part for ax in figure.axes for part in _DRAWN.get(ax, [])]
    if "headline" in estimates or not rows:
        return headline(estimates, says)
    return headline(pd.concat(rows, ignore_index=True).drop_duplicates(), says)


_SIDES = ("above", "below")


def _drawn(rows: pd.DataFrame, metric: Metric) -> Metric:
    """Return the metric with the label used in the figure."""
    label = rows["drawn_label"].iloc[0] if "drawn_label" in rows else None
    if label is None or label != label:
        return metric
    return replace(metric, label=" ".join(str(label).split()).removesuffix(f" ({metric.unit})"))


def _outcome(findings: pd.Series) -> str:
    """Return the outcome of a figure's tests: the field of `Says` that has the sentence for it."""
    kinds = set(findings)
    if kinds & set(_SIDES):
        return "found" if len(kinds) == 1 else "mixed"
    return "open" if "open" in kinds else "none" if "none" in kinds else "plain"


def _judges(rows: pd.DataFrame, metric: Metric) -> str:
    """Name whom a figure is about: a judge, its systems, or the number of judges; empty for scorers such as ROUGE."""
    names = [str(name) for name in rows["judge"].unique() if name]
    if not names or (len(names) > 1 and "scorer" in rows and rows["scorer"].notna().any()):
        kinds = list({marked(name) for name in names} - {""})
        return kinds[0][:1].upper() + kinds[0][1:] if len(kinds) == 1 else ""
    if len(names) == 1:
        words = marked(names[0]) or style.shortened(judge_words(names[0]))
        words = words if words in names[0] and words != "humans" else words[:1].upper() + words[1:]
    else:
        people = sum(style.family_of(name) == "people" for name in names)
        kind = "simulated judge" if {marked(name) for name in names} == {"simulated judge"} else "judge"
        judges = [count(len(names) - people, kind)] if len(names) > people else []
        words = " and ".join([*judges, *(["1 person" if people == 1 else f"{people} people"] if people else [])])
    if metric.subject == "judge":
        return words
    pairs = rows[[name for name in ("system", "other") if name in rows]].drop_duplicates().to_numpy(str).tolist()
    return f"{' against '.join(pairs[0]) if len(pairs) == 1 and pairs[0] else 'Systems'} judged by {words}"


def _of_metric(rows: pd.DataFrame, metric: Metric) -> str:
    """Write the findings on one metric, how many rows have them, and the range of the estimates."""
    undetected = (rows["finding"] == "none") & rows["matters"].isna()
    findings = rows["finding"].mask(undetected, "undetected").replace("plain", "untested")
    kinds, label = Counter(findings), short_label(metric)
    label = f"{metric.unit} {label}" if metric.unit.startswith("correlation of ") else label
    people = rows["judge"].map(style.family_of) == "people"
    if people.any() and not people.all():
        values = f"{label} {_reach(rows[~people], plain=True)}, of people {_reach(rows[people], plain=True)}"
    else:
        values = f"{label} {_reach(rows, plain=not set(kinds) <= {'untested'})}"
    if set(kinds) <= {"untested"}:
        known = rows["ci_low"].notna()
        if metric.null is None or not known.any():
            return values
        beyond = ((rows["ci_low"] > metric.null) | (rows["ci_high"] < metric.null)).sum()
        which = f"{beyond or 'none'} of {count(int(known.sum()), 'interval')} exclude{'' if beyond > 1 else 's'}"
        return f"{values}; {which} {fair(metric.null)}"
    words = {side: side_words(metric, side) for side in _SIDES}
    words |= {"none": "none that matters", "undetected": "none detected"}
    words |= {"open": "inconclusive", "untested": "not tested"}
    slight = Counter(rows.loc[rows["slight"].astype(bool), "finding"])
    of, clauses = f" of {len(rows)}", []
    for kind, text in words.items():
        few = f", {'too small to matter' if slight[kind] == kinds[kind] else f'{slight[kind]} of them slight'}"
        few = few if slight[kind] else ""
        if kinds[kind] == len(rows):
            every = "" if len(rows) == 1 else " in both" if len(rows) == 2 else f" in all {len(rows)}"
            clauses.append(f"{text}{every}{few}")
        elif kinds[kind]:
            clauses.append(f"{text} in {kinds[kind]}{of if not clauses else ''}{few}")
    in_words = any(kinds[side] and getattr(metric, side) for side in _SIDES)
    return f"{', '.join(clauses)} ({values})" if in_words else ", ".join([values, *clauses])


def short_label(metric: Metric) -> str:
    """Return the label that a probe declares, up to the first comma or parenthesis.

    Examples
    --------
    >>> short_label(find_metric("first_position_rate", "position"))
    'P(A)'
    """
    return re.split(r",| \(", metric.label)[0]


def _digits(rows: pd.DataFrame) -> int:
    """Return the number of decimals of the estimates in a headline."""
    largest = float(rows["estimate"].abs().max())
    return 0 if largest >= 100 else 3 if 0 < largest < 0.1 else 2


def _reach(rows: pd.DataFrame, plain: bool = False) -> str:
    """Format one estimate with its interval, or the range of several; unless `plain`, name the rows at both ends."""
    ordered, digits = rows.sort_values("estimate", kind="stable"), _digits(rows)
    least, most = ordered.iloc[0].to_dict(), ordered.iloc[-1].to_dict()
    if len(rows) == 1:
        return with_interval(least, digits)
    low, high = (number(row["estimate"], digits) for row in (least, most))
    if low == high:
        return f"{low} in {'both' if len(rows) == 2 else f'all {len(rows)}'}"
    ends = ["", ""] if plain else [_where(row, _differing(rows)) for row in (least, most)]
    return f"{low}{ends[0]} to {high}{ends[1]}"


def _differing(rows: pd.DataFrame) -> list[str]:
    drawn = ("drawn_label", "finding", "slight", "matters", "planted")
    fixed = {*LEADING, *TRAILING, *drawn, "source", "repository", "version"} - {"judge", "dataset"}
    return varying(rows, [name for name in rows.columns if name not in fixed])


def _where(row: dict[Any, Any], differ: list[str]) -> str:
    """Name a row by the conditions that vary, in parentheses; empty if there are more than two or the text is long."""
    if not 0 < len(differ) <= _CONDITIONS:
        return ""
    text = ", ".join(named(name, row[name]) for name in differ if row[name] == row[name])
    return f" ({text})" if text and len(text) <= _LONG else ""


_AT_THE_END = re.compile(r"(?<=, )(s|sr|rs)$")
_KINDS = frozenset(["api", "ray", "reward", "local", "function", "python", "sampled"])  # prefixes of judge names
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
#: Conditions that are noise floors, drawn in grey.
FLOORS = frozenset([("variant", "null edit")])
_WORDS: dict[str, dict[str, str]] = WORDS["values"]


def named(column: str, value: object) -> str:
    """Return the name of a condition's value in a figure.

    Examples
    --------
    >>> named("remedy", "none"), named("order", "rs"), named("template", 2), named("attribute", "fluency")
    ('no remedy', 'reasons first', 'template 2', 'fluency')
    """
    words = _WORDS.get(column, {}).get(str(value))
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


def row_name(column: str, value: object) -> str:
    """Name a row on an axis that already names the condition: the value in words, without the column's name.

    Examples
    --------
    >>> row_name("order", "s"), row_name("configuration", "auto-CoT, rs"), row_name("template", 2)
    ('score alone', 'auto-CoT, reasons first', '2')
    """
    text = _WORDS.get(column, {}).get(str(value), _in_words(column, str(value)))
    return _AT_THE_END.sub(lambda match: _WORDS["order"][match[0]], text)


def _in_words(column: str, text: str) -> str:
    """Return a condition's value in words instead of identifiers."""
    text = WAYS.get(text, text) if column == "configuration" else written(text) if column in _DATA else text
    return text.replace("_", " ") if column in _CODES else text
