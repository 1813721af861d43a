"""What a paper says of its estimates: the methods sentences, and the items of published checklists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from biaslab.core.files import declared
from biaslab.core.metrics import Metric, find_metric
from biaslab.core.output import PrintedText, count, markdown, number, with_interval
from biaslab.report.summary import is_bias
from biaslab.report.tables import chosen_rows
from biaslab.report.verdicts import classify
from biaslab.report.wording import (
    ONE_TEST,
    cell,
    condition_text,
    conditions,
    correction,
    levels,
    span,
    tex,
    varying,
    version,
)
from biaslab.stats.frame import require_columns

_CORRECT, _REPLACE = "correct", "replace"
_MOST = 3  # names, or estimates of a metric, that are listed
#: Columns that sentences and items need.
NEEDED = ("n_trials", "n_dropped", "ci_level", "method", "seed")
_PPI = "power-tuned prediction-powered inference (Angelopoulos et al., 2023), which assumes nothing about the judge"
_BY = "with the contexts as clusters and p-values adjusted over annotators (Benjamini and Yekutieli, 2001)"
_LABELLED = "and treats the labelled contexts as a random part of all"


def methods(estimates: pd.DataFrame, metric: str | Sequence[str] | None = None) -> str:
    """Write the methods sentences of a paper from estimates: judge, data, n, unit, intervals, tests, what is missing.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame.
    metric : str or sequence of str, optional
        Which metrics; default: all.

    Returns
    -------
    str
        One paragraph. Every number in it is in the estimates; it does not say how texts and labels were collected.

    Raises
    ------
    TrialsError
        If no row is left, or a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(judge="claude-3-haiku-20240307", source="devbench")
    >>> rows = rows[rows["dataset"] == "devbench"]
    >>> print(methods(rows, "first_position_rate").partition(". ")[0])
    claude-3-haiku-20240307 judged devbench (2,240 judgements, 112 contexts per estimate)
    """
    rows = chosen_rows(estimates, metric)
    require_columns(rows, NEEDED, "estimates")
    return " ".join(_sentences(rows[rows["estimate"].notna()] if rows["estimate"].notna().any() else rows))


def _sentences(rows: pd.DataFrame) -> Iterator[str]:
    judges, data = _listed(rows["judge"], "judges"), _listed(rows["dataset"], "data sets")
    judges, data = ("The judge" if judges == "unknown" else judges), ("texts" if data == "unknown" else data)
    prompts = f", asked with {words}" if (words := _prompts(rows)) else ""
    yield f"{judges} judged {data}{prompts} ({_amount(rows)})."
    corrected = rows[rows["probe"].eq(_CORRECT)]
    if not corrected.empty and "n_labelled" in rows and corrected["correction"].eq("ppi").any():
        per = f"{span(corrected['n_labelled'].dropna())} contexts per estimate"
        yield f"Corrected values combine them with people's labels ({per}) by {_PPI} {_LABELLED}."
    tested = rows[rows["probe"].eq(_REPLACE) & rows["metric"].eq("winning_rate")]
    if not tested.empty:
        epsilon = " and ".join(f"{value:g}" for value in dict.fromkeys(tested["epsilon"]))
        yield f"ω and ρ are those of the alternative annotator test (Calderon et al., 2025) at ε = {epsilon}, {_BY}."
    units = _listed(pd.Series([metric.axis for metric in _metrics(rows)]), "metrics")
    yield f"We report {units} with {levels(rows)} intervals; contexts are the sampling unit ({_ways(rows)})."
    if tests := _tests(rows):
        yield f"{tests}; a bias or a difference counts as found below .05."
    yield f"{_missing(rows)}."
    seeds = " and ".join(f"{seed:.0f}" for seed in rows["seed"].dropna().unique())
    yield f"Estimates are those of biaslab {version()}{f', seed {seeds}' if seeds else ''}."


def _metrics(rows: pd.DataFrame) -> Iterator[Metric]:
    for name, probe in dict.fromkeys(zip(rows["metric"], rows["probe"], strict=True)):
        yield find_metric(name, probe)


def _listed(names: pd.Series, noun: str) -> str:
    different = list(map(str, dict.fromkeys(names)))
    if len(different) > _MOST:
        return f"{len(different)} {noun}"
    return " and ".join(filter(None, (", ".join(different[:-1]), *different[-1:])))


def _amount(rows: pd.DataFrame) -> str:
    return f"{span(rows['n_trials'])} judgements, {span(rows['n_contexts'])} contexts per estimate"


def _prompts(rows: pd.DataFrame) -> str:
    """Return the templates of prompts; empty if they are unknown or many."""
    names = map(condition_text, rows["template"].dropna().unique() if "template" in rows else ())
    known = [name for name in names if name not in ("recorded", "unknown", "")]
    return f"template {' and '.join(known)}" if 0 < len(known) <= _MOST else ""


def _ways(rows: pd.DataFrame) -> str:
    return "; ".join(str(name) for name in dict.fromkeys(rows["method"]) if name != "none")


def _tests(rows: pd.DataFrame) -> str:
    if "q_value" not in rows or rows["q_value"].isna().all():
        return ""
    over = correction(rows)
    return "One test was made" if over == ONE_TEST else f"p-values are corrected over {over} and reported as q"


def _missing(rows: pd.DataFrame) -> str:
    most = rows.sort_values("n_dropped").iloc[-1]
    if not (dropped := int(most["n_dropped"])):
        return "No judgement was left out for want of a usable verdict"
    of = count(dropped + int(most["n_trials"]), "judgement")
    why = "because they, or those that they are compared with, had no usable verdict"
    return f"Up to {dropped:,} of {of} were left out {why}"


@cache
def _published() -> Mapping[str, Any]:
    return declared("biaslab.report", "checklist.toml")


@dataclass(frozen=True, eq=False)
class Checklist(PrintedText):
    """Items of published checklists, answered from estimates; prints as Markdown.

    Attributes
    ----------
    items : pandas.DataFrame
        One row per item: ``item``, ``source`` (of the item), ``answer`` (empty if the estimates have none), and ``how``
        to answer it otherwise.
    """

    items: pd.DataFrame

    def __str__(self) -> str:
        return self.to_markdown()

    _repr_markdown_ = __str__

    def to_markdown(self) -> str:
        """Return a list with a box for each item, ticked if it is answered."""
        lines = [
            f"- [{'x' if row['answer'] else ' '}] **{row['item']}**: {markdown(row['answer'] or row['how'])}"
            for row in self.items.to_dict("records")
        ]
        return "\n".join([*lines, "", f"Items after {'; '.join(dict.fromkeys(self.items['source']))}.", ""])

    def to_latex(self) -> str:
        """Return a table of two columns, for an appendix; open items are in italics."""
        shown = {True: "", False: r"\itshape "}
        rows = (
            (row["item"], row["answer"] or row["how"], bool(row["answer"])) for row in self.items.to_dict("records")
        )
        lines = [rf"{tex(text)} & {shown[known]}{tex(words)} \\" for text, words, known in rows]
        head = r"\begin{tabular}{@{}p{.3\textwidth}p{.65\textwidth}@{}}"
        return "\n".join([head, r"\toprule", *lines, r"\bottomrule", r"\end{tabular}", ""])

    def to_json(self) -> str:
        """Return a list of objects."""
        return json.dumps(self.items.to_dict("records"), ensure_ascii=False, indent=1) + "\n"


def checklist(estimates: pd.DataFrame) -> Checklist:
    """Answer the items of published checklists for LLM judges from estimates.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame of all that a paper reports, also from several commands.

    Returns
    -------
    Checklist
        An item without an answer says what would give one, or that it is for the author.

    Raises
    ------
    TrialsError
        If there is no row, or a column is missing.

    References
    ----------
    Norman, Rivera & Hughes 2026, *Reliability without validity*, arXiv 2606.19544; Usami, Hara, Tsuboi & Matsuda 2026,
    *LLM judges have dark current*, arXiv 2606.15610; Baltes et al. 2026, *Guidelines for empirical studies involving
    LLMs*, arXiv 2508.15503.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(judge="claude-3-haiku-20240307", source="devbench", breakdowns=False)
    >>> found = checklist(rows).items.set_index("item")["answer"]
    >>> found["Model, version and configuration"], found["Preference without content (dark current)"]
    ('claude-3-haiku-20240307', '')
    """
    rows = chosen_rows(estimates, None)
    require_columns(rows, NEEDED, "estimates")
    known = rows[rows["estimate"].notna()]
    facts = _facts(known if len(known) else rows)
    records = []
    for each in _published()["items"]:
        parts = [_of_metric(known[known["metric"] == name]) for name in each.get("metrics", ())]
        answer = "; ".join(filter(None, [facts.get(each.get("fact", ""), ""), *parts]))
        source = _published()["sources"][each["source"]]
        records.append({"item": each["text"], "source": source, "answer": answer, "how": each["how"]})
    return Checklist(pd.DataFrame(records))


def _facts(rows: pd.DataFrame) -> dict[str, str]:
    """Return what an estimates frame says of a study, beside the estimates of metrics."""
    names = {name: [str(one) for one in dict.fromkeys(rows[name]) if one != "unknown"] for name in ("judge", "dataset")}
    data = _listed(pd.Series(names["dataset"], dtype=str), "data sets")
    tests = [f"contexts as clusters ({_ways(rows)})", *([_tests(rows)] if _tests(rows) else [])]
    biases = rows[[is_bias(metric, probe) for metric, probe in zip(rows["metric"], rows["probe"], strict=True)]]
    found = classify(biases) if len(biases) else []
    undecided = [
        f"{each.metric.label}{f' ({each.where})' if each.where else ''}, below {number(each.mde)}"
        for each in found
        if each.kind == "open" and each.mde == each.mde
    ]
    more = [f"and {len(undecided) - _MOST} more"] if len(undecided) > _MOST else []
    more += ["every tested bias was found or excluded"] if found and all(each.kind != "open" for each in found) else []
    return {
        "judges": _listed(pd.Series(names["judge"], dtype=str), "judges"),
        "prompts": _prompts(rows),
        "data": f"{data} ({_amount(rows)})" if data else "",
        "datasets": data if len(names["dataset"]) > 1 else "",
        "inference": f"{levels(rows)} intervals; {'; '.join(tests)}" if rows["ci_low"].notna().any() else "",
        "missing": _missing(rows),
        "undecided": "; ".join([*undecided[:_MOST], *more]),
    }


def _of_metric(rows: pd.DataFrame) -> str:
    """Return the estimates of a metric with their intervals; if there are many, their range."""
    if rows.empty:
        return ""
    [(name, probe), *_] = dict.fromkeys(zip(rows["metric"], rows["probe"], strict=True))
    label, values = find_metric(name, probe).label, rows["estimate"]
    if len(rows) > _MOST:
        return f"{label} {number(values.min())} to {number(values.max())} ({len(rows)} estimates)"
    columns = [*varying(rows, ["judge", "dataset"]), *varying(rows, conditions(rows))]
    parts = [(cell(row, columns), with_interval(row)) for row in rows.to_dict("records")]
    return f"{label} {', '.join(f'{shown} ({where})' if where else shown for where, shown in parts)}"
