"""Agreement with people, the first lines of an audit: how good the judge is, how lenient, and where it errs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.core.metrics import find_metric
from biaslab.core.output import MISSING, count, number, with_interval
from biaslab.report.summary import STATUS
from biaslab.report.wording import condition_text, probability
from biaslab.stats.estimate import ALPHA

PROBE = "agreement"
_CELL = ["dataset", "attribute", "template", "configuration", "scale"]
#: Columns of the table of several judges or criteria: heading, and the metric of a verdict or of a score.
_TABLE = {
    "agreement": ("exact_agreement",),
    "κ": ("cohen_kappa",),
    "quadratic κ": ("quadratic_kappa",),
    "TPR": ("true_positive_rate",),
    "TNR": ("true_negative_rate",),
    "leniency": ("leniency",),
    "ρ": ("correlation",),
}
_KAPPAS = ("κ", "quadratic κ")  # of verdicts, and of scores in their order
_SHOWN_GROUPS = 6
_SHOWN_PAIRS = 3
_SHOWN_JUDGES = 8


def agreement_lines(own: pd.DataFrame, findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines on one judge's agreement with people, most important first.

    Parameters
    ----------
    own : pandas.DataFrame
        Estimates of one judge; those of other probes are ignored.
    findings : sequence of mapping
        Results of `biaslab.report.summary.sum_up` for this judge, with the verdicts on leniency and on groups.
    """
    cells = _cells(own, findings)
    if len(cells) == 1:
        yield from cells[0].lines()
    if len(cells) < 2:
        return
    varying = [name for name in _CELL if len({cell.rows[name].iloc[0] for cell in cells}) > 1]
    yield "agreement with people:"
    yield from table([(cell.name(varying), cell) for cell in cells])
    for each in findings:
        if each["probe"] == PROBE:
            where = f" ({each['strongest']})" if each["strongest"] else ""
            numbers = f"{each['estimate']} {each['interval']}, q {each['q']}{where}"
            yield f"{STATUS[each['status']][0]} {each['label']}: {numbers}: {each['verdict']}"
    known = [f"{cell.name(varying)}: {cell.ceiling()}" for cell in cells if cell.of_people is not None]
    yield from (f"· {line}" for line in known or [cells[0].ceiling()])


def agreement_table(estimates: pd.DataFrame) -> list[str]:
    """Return a table of several judges: agreement, κ, true-positive and true-negative rate, leniency, correlation.

    Empty unless at least two judges were asked the same, in one cell each.

    Examples
    --------
    >>> agreement_table(pd.DataFrame({"probe": ["position"], "judge": ["a"], "n_contexts": [3]}))
    []
    """
    of = {str(judge): _cells(own, ()) for judge, own in estimates.groupby("judge", sort=False)}
    named = [(judge, cells[0]) for judge, cells in of.items() if len(cells) == 1]
    if len(named) < 2 or len({block.where for _, block in named}) > 1:
        return []
    return ["agreement with people:", *table(named), *_differences(estimates), *_matrix(estimates, dict(named))]


def _differences(estimates: pd.DataFrame) -> Iterator[str]:
    """Yield the differences between judges that were found."""
    rows = estimates[estimates["other_judge"].notna() & (estimates["probe"] == PROBE)]
    rows = rows[rows["metric"].str.endswith("_difference")]
    found = rows[rows["q_value"] < ALPHA]
    for metric, part in found.groupby("metric", sort=False):
        label = find_metric(str(metric).removesuffix("_difference"), PROBE).label
        pairs = [f"{row['judge']} − {row['other_judge']} {_bounded(row)}" for row in part.to_dict("records")]
        more = f"; {len(pairs) - _SHOWN_PAIRS} more" if len(pairs) > _SHOWN_PAIRS else ""
        yield f"● {label}: {'; '.join(pairs[:_SHOWN_PAIRS])}{more} (q < .05)"
    if len(rows) and found.empty:
        yield f"· no difference between judges was found ({count(len(rows), 'test')}, q ≥ .05)"


def _matrix(estimates: pd.DataFrame, named: Mapping[str, _Block]) -> Iterator[str]:
    """Yield the matrix of κ between judges, and of each with people, for up to eight judges."""
    kappa = next((head for head in _KAPPAS if any(block.first(_TABLE[head]) for block in named.values())), "κ")
    rows = estimates[estimates["other_judge"].notna() & estimates["metric"].isin(_TABLE[kappa])]
    known = {(str(row["judge"]), row["other_judge"]): row["estimate"] for row in rows.to_dict("records")}
    if not known or len(named) > _SHOWN_JUDGES:
        return
    lines = [["", "people", *list(named)[:-1]]]
    for judge, block in named.items():
        people = block.first(_TABLE[kappa])
        values = [math.nan if people is None else people["estimate"]]
        values += [known.get((other, judge), known.get((judge, other), math.nan)) for other in list(named)[:-1]]
        values = values[: len(lines)]
        lines.append([judge, *("" if math.isnan(value) else number(value, 2) for value in values)])
    yield f"{kappa} of each judge with people and with other judges:"
    yield from _aligned(lines)


def _cells(own: pd.DataFrame, findings: Sequence[Mapping[str, Any]]) -> list[_Block]:
    """Return the cells of one judge's agreement with people."""
    if not {*_CELL, "left_out", "other_judge", "group"} <= set(own.columns):
        return []
    rows = own[(own["probe"] == PROBE) & (own["n_contexts"] > 0)]
    return [_Block(part, findings) for _, part in rows.groupby(_CELL, sort=False, dropna=False)]


def table(named: Sequence[tuple[str, _Block]]) -> Iterator[str]:
    """Yield a table with a line for each block, in aligned columns."""
    heads = [head for head, metrics in _TABLE.items() if any(block.first(metrics) for _, block in named)]
    lines = [["", *heads, "n"]]
    for name, block in named:
        shown = [block.first(_TABLE[head]) for head in heads]
        lines.append([name, *(_bounded(row) for row in shown), f"{block.n_judgements:,}"])
    yield from _aligned(lines)


def _aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines of cells in aligned columns."""
    widths = [max(len(line[place]) for line in lines if place < len(line)) for place in range(len(lines[0]))]
    for line in lines:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()


class _Block:
    """The agreement of one judge in one cell."""

    def __init__(self, rows: pd.DataFrame, findings: Sequence[Mapping[str, Any]]) -> None:
        self.rows, self.findings = rows, findings
        plain = rows["left_out"].isna() & rows["group"].isna() & rows["verdict"].isna() & rows["label"].isna()
        plain &= rows["level"].isna() & rows["other_judge"].isna()
        self.of = {(row["metric"], row["rater"]): row for row in rows[plain].to_dict("records")}

    @property
    def where(self) -> tuple[str, ...]:
        """What the judge was asked."""
        return tuple(map(str, self.rows[_CELL].iloc[0]))

    @property
    def n_judgements(self) -> int:
        """Number of judgements with labels."""
        return int(next(row["n_trials"] for (_, rater), row in self.of.items() if rater == "judge"))

    def name(self, varying: Sequence[str]) -> str:
        """Return the values of the columns that differ between cells."""
        row = self.rows.iloc[0]
        return " · ".join(condition_text(row[name]) for name in varying if row[name] and not pd.isna(row[name]))

    def get(self, metric: str, rater: str = "judge") -> Mapping[Any, Any] | None:
        """Return the row of a metric over all items, if it has an estimate."""
        row = self.of.get((metric, rater))
        return None if row is None or math.isnan(row["estimate"]) else row

    def first(self, metrics: Sequence[str]) -> Mapping[Any, Any] | None:
        """Return the row of the first metric that has an estimate."""
        found = (self.correlation() if name == "correlation" else self.get(name) for name in metrics)
        return next((row for row in found if row is not None), None)

    def correlation(self, coefficient: str = "spearman", level: str = "dataset") -> Mapping[Any, Any] | None:
        """Return the row of a correlation."""
        rows = self.rows[(self.rows["metric"] == "correlation") & self.rows["estimate"].notna()]
        rows = rows[(rows["level"] == level) & (rows["coefficient"] == coefficient)]
        return None if rows.empty else rows.iloc[0].to_dict()

    def lines(self) -> Iterator[str]:
        """Yield all lines of the block."""
        agreed = self.of.get(("exact_agreement", "judge"))
        contexts = max(int(row["n_contexts"]) for row in self.of.values())
        yield f"agreement with people ({count(self.n_judgements, 'labelled judgement')}, {count(contexts, 'context')}):"
        parts = {"agrees in": "exact_agreement", "within one point": "agreement_within_1",
                 "where both decide": "agreement_without_ties", "Cohen's κ": "cohen_kappa",
                 "Gwet's AC1": "gwet_ac1"}  # fmt: skip
        yield from self.listed(parts)
        kappa = self.first([name for head in _KAPPAS for name in _TABLE[head]])
        if kappa is not None and kappa["ci_high"] < 0:
            yield "! κ is below 0: do the judge's and people's labels have opposite meanings?"
        if agreed is not None and math.isnan(agreed["estimate"]) and agreed["note"]:
            yield f"· {agreed['note']}"
        yield from self.listed({"true-positive rate": "true_positive_rate", "true-negative rate": "true_negative_rate"})
        yield from self.leniency()
        yield from self.listed({"precision of “pass”": "precision_of_pass", "of “fail”": "precision_of_fail",
                                "balanced accuracy": "balanced_accuracy"})  # fmt: skip
        yield from self.listed({"quadratic κ": "quadratic_kappa", "ICC(A,1)": "icc_agreement",
                                "Krippendorff's α": "krippendorff_alpha"})  # fmt: skip
        yield from self.correlations()
        yield from self.counts()
        yield f"· {self.ceiling()}"
        yield from self.groups()

    def listed(self, parts: Mapping[str, str]) -> Iterator[str]:
        """Yield a line of several numbers, those that have an estimate."""
        known = [f"{words} {_bounded(row)}" for words, name in parts.items() if (row := self.get(name)) is not None]
        if known:
            yield f"· {'; '.join(known)}"

    def leniency(self) -> Iterator[str]:
        """Yield the line on leniency, with its verdict."""
        own = next((each for each in self.findings if each["metric"] == "leniency"), None)
        mark, q = (STATUS[own["status"]][0], f", q {own['q']}") if own and own["q"] != MISSING else ("·", "")
        verdict = f": {own['verdict']}" if own else ""
        row, points = self.first(("leniency", "mean_difference")), self.get("mean_difference")
        for level, words in (("pass_rate", "passes"), ("mean_score", "mean score")):
            judge, people = self.get(level), self.get(level, "people")
            if row is None or judge is None or people is None:
                continue
            limits = [self.get(f"limit_of_agreement_{side}") for side in ("low", "high")]
            apart = [number(each["estimate"], 2) for each in limits if each is not None]
            reach = f"; 95 % of differences within {apart[0]} to {apart[1]} points" if len(apart) == 2 else ""
            size = "" if points is None else f" widths of the scale ({number(points['estimate'], 2)} points)"
            size = " points" if row["metric"] == "mean_difference" else size
            means = f"{words} {number(judge['estimate'], 2)}, people {number(people['estimate'], 2)}"
            yield f"{mark} leniency {with_interval(row, 2 if points is None else 3)}{size}{q}{verdict}; {means}{reach}"

    def correlations(self) -> Iterator[str]:
        """Yield a line of correlations over all items, one within contexts and one of systems, with their notes."""
        names = {"pearson": "Pearson's r", "spearman": "Spearman's ρ", "kendall": "Kendall's τ-b"}
        for level, words in (("dataset", "over all items"), ("context", "within contexts"), ("system", "of systems")):
            known = {name: self.correlation(method, level) for method, name in names.items()}
            shown = {f"{name} {_bounded(row)}": row["note"] for name, row in known.items() if row is not None}
            if shown:
                yield f"· {words}: {'; '.join([*shown, *dict.fromkeys(filter(None, shown.values()))])}"

    def counts(self) -> Iterator[str]:
        """Yield the counts of verdicts and labels."""
        rows = self.rows[self.rows["metric"] == "verdict_share"].to_dict("records")
        joint = [row for row in rows if isinstance(row["verdict"], str) and isinstance(row["label"], str)]
        if joint:
            cells = (f"{row['verdict']}/{row['label']} {row['n_trials']:,}" for row in reversed(joint))
            yield f"· judge/people: {', '.join(cells)}"
        elif rows:
            use = {
                who: ", ".join(f"{row[name]}: {row['n_trials']:,}" for row in rows if isinstance(row[name], str))
                for who, name in (("judge", "verdict"), ("people", "label"))
            }
            yield f"· scores of the judge {use['judge']}; of people {use['people']}"

    @property
    def of_people(self) -> tuple[str, Mapping[Any, Any], Mapping[Any, Any] | None] | None:
        """Which κ is known of two people, its row, and that of the judge with one of them."""
        each = self.rows[(self.rows["left_out"] == "each") & self.rows["estimate"].notna()]
        values = {(row["metric"], row["rater"]): row for row in each.to_dict("records")}
        for metric, words in (("cohen_kappa", "Cohen's κ"), ("quadratic_kappa", "quadratic κ")):
            if (metric, "people") in values:
                return words, values[metric, "people"], values.get((metric, "judge"))
        return None

    def ceiling(self) -> str:
        """Return what is known of people's agreement with each other."""
        if self.of_people is None:
            return "one label an item: people's agreement with each other, the ceiling, is not known"
        words, people, judge = self.of_people
        return f"two people agree in {words} {_bounded(people)}, the judge with one of them in {_bounded(judge)}"

    def groups(self) -> Iterator[str]:
        """Yield the groups in which the judge agrees with people less or more often than elsewhere."""
        gaps = self.rows[self.rows["metric"].str.endswith("_gap") & self.rows["p_value"].notna()]
        if gaps.empty:
            return
        rates = self.rows[self.rows["group"].notna() & (self.rows["metric"] == "exact_agreement")]
        small = rates.sort_values("n_trials").iloc[0]
        fewest = f"fewest judgements: {small['n_trials']:,}, {small['group']} {small['member']}"
        names = ", ".join(dict.fromkeys(map(str, gaps["group"])))
        found = gaps[gaps["q_value"] < ALPHA].sort_values("estimate")
        if found.empty:
            farthest = max(gaps.to_dict("records"), key=lambda row: abs(float(row["estimate"])))
            largest = f"largest gap: {_gap(farthest)}, q {probability(farthest['q_value'])}"
            yield f"? by {names}: no group is shown to differ from all others; {largest} ({fewest})"
            return
        shown = [_gap(row) for row in found.head(_SHOWN_GROUPS).to_dict("records")]
        yield f"● by {names}, minus that of all others: {'; '.join(shown)} (q < .05; {fewest})"


def _gap(row: Mapping[Any, Any]) -> str:
    """Return a group's rate minus that of all others."""
    label = find_metric(row["metric"].removesuffix("_gap"), PROBE).label
    return f"{label} of {row['group']} {row['member']} {_bounded(row)}"


def _bounded(row: Mapping[Any, Any] | None) -> str:
    """Return an estimate with its interval."""
    return MISSING if row is None else with_interval(row, 2)
