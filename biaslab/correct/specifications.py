"""Does a conclusion hang on one choice? Specification curves (Simonsohn, Simmons & Nelson 2020), and total error."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_fits, require_one_of, unknown
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.metrics import Metric, declare_metrics
from biaslab.core.output import PrintedText, count, number, percent, with_interval
from biaslab.correct.generalizability import Costs, TotalError, total_error
from biaslab.correct.labels import AnyLabels, HumanLabels, with_labels
from biaslab.logs.audit.run import prepared, recorded_trials
from biaslab.logs.readers.documents import LogInput
from biaslab.stats.blocks import has_value
from biaslab.stats.estimate import ALPHA, Estimate, settled, without_rounding
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns
from biaslab.stats.reliability import read_ratings
from biaslab.stats.resample import Resampling, cluster_statistic, patterns
from biaslab.stats.sequential import require_fixed
from biaslab.stats.t_inference import student
from biaslab.store.tables import TrialsFile

NAME = "robustness"
Conclusion = Literal["win_rate", "score_difference", "comparative_accuracy", "first_position_rate", "longer_wins"]
METRICS = (
    Metric("win_rate", "P(the system wins)", "share", null=0.5, subject="system"),
    Metric("score_difference", "score of the system minus that of the other", "points", null=0.0, subject="system"),
    Metric("comparative_accuracy", "verdicts that agree with people", "share", null=0.5, quality=True),
    Metric("first_position_rate", "P(A), verdicts for the first", "share", null=0.5),
    Metric("longer_wins", "P(the longer wins)", "share", null=0.5),
)
declare_metrics(NAME, METRICS)
_NULL = {metric.name: float(metric.null or 0.0) for metric in METRICS}
#: Columns whose values are choices of how the judge was asked, and by which judge.
ASKED = ("judge", "template", "configuration", "scale", "answer", "form", "order", "attribute")
_NAMED = ("judge", "template", "configuration", "scale", "attribute")  # also if they do not vary
_NEVER = ("asked", "source", "naming", "edit", "edited", "defence", "remedy", "scorer", "temperature")
#: Choices of how verdicts are counted. What is done if a choice is not varied stands first.
RULES: dict[str, tuple[str, ...]] = {
    "labels": (),
    "values": ("probability", "verdict"),
    "replicates": ("mean", "majority", "first"),
    "orders": ("each", "consistent"),
    "ties": ("half", "dropped", "loss"),
    "missing": ("dropped", "half", "loss"),
    "weights": ("judgements", "contexts"),
    "length": ("any", "equal"),
}
_OF_ITEMS, _COUNTED = tuple(RULES)[:4], tuple(RULES)[4:]
_CHOICE = ("choice", "levels", "varied", "why", "share", "shift", "ci_low", "ci_high", "lowest", "highest")
_MOST = 3000  # specifications
_NEEDS = {
    "win_rate": "comparisons of the systems",
    "score_difference": "scores of both systems in one context",
    "comparative_accuracy": "two candidates of a context, of which people prefer one",
    "first_position_rate": "a known order",
    "longer_wins": "the lengths of both texts (columns words, opponent_words)",
}
_EVEN = 0.5
_SIDES = ("candidate_id", "opponent_id")


@dataclass(frozen=True, eq=False)
class Robustness(PrintedText):
    """A conclusion under every specification; prints as sentences.

    Attributes
    ----------
    conclusion : str
        The metric of the conclusion.
    specifications : pandas.DataFrame
        An estimates frame, a row for each specification, with a column for each choice that varies; sorted.
    estimates : pandas.DataFrame
        An estimates frame with the column ``role``: the *median* of the specifications, with the permutation test, and
        the *naive* and the *total* error of the mean; see `biaslab.robustness`.
    choices : pandas.DataFrame
        A row for each choice: ``choice, levels, varied, why`` (why it is not varied), ``share`` (of the variance of the
        specifications that only this choice explains), ``shift`` (highest minus lowest mean of a level), its interval
        ``ci_low, ci_high``, and the levels ``lowest, highest``.
    same_sign, significant : float
        Shares of the specifications on the side of the median, and of those whose interval is on that side, too.
    expected : float
        Median if the sides of each context were exchanged at random; the null, unless ties or missing verdicts count as
        losses.
    undefined : int
        Number of specifications without an estimate.
    total : TotalError
        Error over contexts, judges, prompts and samples.
    about : str
        The systems, for a conclusion about them.
    """

    conclusion: str
    specifications: pd.DataFrame
    estimates: pd.DataFrame
    choices: pd.DataFrame
    same_sign: float
    significant: float
    expected: float
    undefined: int
    total: TotalError
    about: str = ""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        median, rows = self.estimates.iloc[0].to_dict(), self.specifications
        varied = self.choices[self.choices["varied"]]
        ends = " to ".join(number(value) for value in rows["estimate"].iloc[[0, -1]])
        what = " of ".join(filter(None, (self.conclusion, self.about)))
        yield f"{count(len(rows), 'specification')}: {what} from {ends}, median {with_interval(median)}"
        if self.undefined:
            yield f"without an estimate: {count(self.undefined, 'specification')}"
        signs = f"on the side of the median: {percent(self.same_sign, 3)}"
        yield f"{signs}; with an interval on that side, too: {percent(self.significant, 3)}"
        null = f"; {number(self.expected)} is expected if sides are exchanged" if self.expected != self.null else ""
        p_value = median["p_value"]
        yield f"permutation test of the median: p {'< .001' if p_value < 0.001 else number(p_value)}{null}"
        for row in varied.sort_values("share", ascending=False).to_dict("records"):
            shift = with_interval({"estimate": row["shift"], **{name: row[name] for name in ("ci_low", "ci_high")}})
            moves = f"{row['lowest']} to {row['highest']} moves it by {shift}" if row["shift"] else "does not move it"
            yield f"  {row['choice']} ({', '.join(row['levels'])}): {percent(row['share'], 2)} of the variance; {moves}"
        fixed = self.choices[~self.choices["varied"]]
        yield "not varied: " + "; ".join(f"{row['choice']} ({row['why']})" for row in fixed.to_dict("records"))
        yield str(self.total)

    @property
    def headline(self) -> str:
        """Whether the conclusion stands, by the permutation test and the interval of the median, in a sentence."""
        median = self.estimates.iloc[0].to_dict()
        apart = median["ci_low"] > self.null or median["ci_high"] < self.null
        shown = "different from" if median["q_value"] < ALPHA and apart else "no difference shown from"
        label = next(metric.label for metric in METRICS if metric.name == self.conclusion)
        shares = f"{percent(self.same_sign, 3)} are on that side, {percent(self.significant, 3)} with their interval"
        of = count(len(self.specifications), "specification")
        label = ", ".join(filter(None, (f"{label[:1].upper()}{label[1:]}", self.about)))
        value = f"{label}: {with_interval(median, 2)} in the median of {of}"
        return f"{value}, {shown} {self.null:g}; {shares}"

    @property
    def null(self) -> float:
        """The value of the metric without an effect."""
        return _NULL[self.conclusion]


def robustness(
    study: LogInput | TrialsFile | Sequence[pd.DataFrame],
    conclusion: Conclusion = "win_rate",
    *,
    system: str | None = None,
    other: str | None = None,
    labels: AnyLabels | None = None,
    choices: Mapping[str, Sequence[object]] | None = None,
    half_width: float | None = None,
    costs: Costs | None = None,
    resampling: Resampling | None = None,
) -> Robustness:
    """Estimate a conclusion under every defensible choice that the judgements allow, and its total error.

    Parameters
    ----------
    study : log or sequence of frames
        Judgements: trials, or input of `biaslab.read_judgements`; or several frames. Data sets are pooled.
    conclusion : str
        *win_rate*: how often `system` beats `other`, or all others. *score_difference*: its mean score less that of
        `other`. *comparative_accuracy*: agreement of verdicts with people, where people prefer one. *longer_wins* and
        *first_position_rate*: length and position bias. Scores are compared within contexts.
    system : str, optional
        The system that the conclusion is about.
    other : str, optional
        The system that it is compared with; for a win rate by default all others.
    labels : optional
        People's labels, as in `biaslab.correct`; several people's make the label a choice.
    choices : mapping of str to sequence, optional
        Levels of a choice, by its name, to restrict it; or of any other column that is a choice, such as temperature.
    half_width : float, optional
        Half width of the total interval that would settle the conclusion; by default what detects the estimate's
        distance from the null with 80 % power.
    costs : Costs, optional
        Price of a context and of a judgement, by default 0 and 1.
    resampling : Resampling, optional
        Confidence level, seed and related contexts.

    Returns
    -------
    Robustness

    Raises
    ------
    InputError, TrialsError
        If a choice, level or system is unknown, judgements differ in a condition that is no choice, they do not allow
        the conclusion, or there are more than 3,000 specifications.

    Notes
    -----
    **Choices.** The judge, and how it was asked: columns that vary. How it is counted: *labels* (mean, strict majority,
    one annotator, the log's own if others are passed); *values* (probabilities or verdicts); *replicates* (mean,
    majority, the first); *orders* (each judgement counts, or a pair whose winner changes with the order is a tie);
    *ties* and *missing* verdicts (½, dropped, or a loss of the side that the conclusion is about); *weights* (of
    judgements or contexts); *length* (any, or at equal length: the intercept of a linear regression of verdicts on the
    log ratio of words).

    **Permutation test.** Under the null the two sides of a context are exchangeable: system and other, right and wrong,
    first and second. They are exchanged in whole contexts, at random or, up to 12 contexts, in every pattern, and in
    all specifications together, so that their dependence is kept. Lost ties and missing verdicts stay lost.

    References
    ----------
    Simonsohn, Simmons & Nelson 2020, *Specification curve analysis*, Nature Human Behaviour 4.

    Examples
    --------
    >>> import biaslab as bl
    >>> log = bl.atlas.trials("llmbar", judge="gpt-4")
    >>> found = robustness(log[log["opponent_id"].notna()], "comparative_accuracy", choices={"weights": ["contexts"]})
    >>> found.choices.loc[found.choices["varied"], "choice"].tolist()
    ['template', 'orders', 'ties', 'missing', 'length']
    >>> bool(found.same_sign == 1)
    True
    """
    require_one_of("conclusion", conclusion, get_args(Conclusion))
    require_fits("choices", choices, Mapping[str, Any] | None)
    require_fits("half_width", half_width, float | None)
    require_fits("costs", costs, Costs | None)
    require_fits("resampling", resampling, Resampling | None)
    if half_width is not None and not half_width > 0:
        raise InputError("half_width", half_width, "a number above 0")
    how = resampling or Resampling()
    require_fixed(judged := _judgements(study), "a specification curve")
    compared = _Comparisons.of(judged, conclusion, (system, other), labels, dict(choices or {}), how)
    if len(compared.units) < 2:
        raise TrialsError.plain(f"{conclusion} needs comparisons in at least two contexts")
    rules, fixed = compared.rules()
    cells = list(compared.cells())
    if (size := len(cells) * math.prod(map(len, rules.values()))) > _MOST:
        raise InputError("choices", f"{size:,} specifications", f"at most {_MOST:,}", "restrict some with choices=")
    names, sums, trials = [], [], []
    for asked, rows in cells:
        for of_items in product(*(rules[name] for name in _OF_ITEMS)):
            items = compared.items(rows, *of_items)
            for counted in product(*(rules[name] for name in _COUNTED)):
                names.append(asked | dict(zip([*_OF_ITEMS, *_COUNTED], [*of_items, *counted], strict=True)))
                sums.append(compared.sums(items, *counted))
                trials.append(len(rows))
    bounds = (-math.inf, math.inf) if conclusion == "score_difference" else (0.0, 1.0)
    curve = _Curve(np.stack(sums, axis=-1), compared.units.to_numpy(object), _NULL[conclusion], bounds, how)
    levels = {name: list(dict.fromkeys(each[name] for each in names)) for name in names[0]}
    varied = {name: own for name, own in levels.items() if len(own) > 1}
    where = {"dataset": _joined(compared.rows["dataset"]), "judge": _joined(compared.rows["judge"])}
    of_each = [
        {**where, **{name: each[name] for name in varied}, **row}
        for each, row in zip(names, curve.rows(conclusion, trials), strict=True)
    ]
    specifications = estimates_frame(of_each, NAME, (), list(varied)).sort_values("estimate", kind="stable")
    total = compared.total_error(bounds, half_width, costs, how)
    roles = {"median": curve.median(), "naive": total.naive, "total": total.total}
    of_roles = [
        row | where | {"role": role}
        for role, found in roles.items()
        for row in estimate_rows({conclusion: found}, {}, how, len(compared.rows), 0)
    ]
    estimates = estimates_frame(of_roles, NAME, [conclusion], ["role"])
    rest = [(name, why) for name, why in fixed.items() if name not in varied]
    constant = [{"choice": n, "levels": levels.get(n, []), "varied": False, "why": why} for n, why in rest]
    table = pd.DataFrame([*curve.moves(names, varied), *constant], columns=_CHOICE)
    known = specifications.dropna(subset="estimate").reset_index(drop=True)
    undefined, about = len(of_each) - len(known), " against ".join(filter(None, (system, other)))
    agreement = curve.agreement(known)
    return Robustness(conclusion, known, estimates, table, *agreement, curve.expected, undefined, total, about)


def _judgements(study: Any) -> pd.DataFrame:
    """Return judgements as one frame."""
    if not isinstance(study, list | tuple):
        return recorded_trials(study.to_pandas() if isinstance(study, TrialsFile) else study)
    if not study or not all(isinstance(each, pd.DataFrame) for each in study):
        raise InputError("study", study, "a log, or a list of frames of judgements")
    return pd.concat(study)


def _joined(names: pd.Series) -> str:
    return " + ".join(map(str, names.unique()))


_EACH_ORDER = "each order counts"


@dataclass(frozen=True, eq=False)
class _Comparisons:
    """Judgements that compare two sides.

    ``rows`` have ``context_id, unit, item, turned, replicate``; ``value`` of the side that comes first by name, NaN if
    missing; ``words``, its log ratio of words; by label rule which side people prefer, and ``side`` of the conclusion.
    """

    rows: pd.DataFrame
    conclusion: str
    asked: list[str]
    labels: list[str]
    chosen: dict[str, list[str]]
    units: pd.Index

    @classmethod
    def of(
        cls, frame: pd.DataFrame, conclusion: str, names: tuple[str | None, str | None], labels: AnyLabels | None,
        choices: dict[str, Sequence[object]], how: Resampling,
    ) -> _Comparisons:  # fmt: skip
        needed = ("judge", "dataset", "attribute", "context_id", "candidate_id", "value", "status")
        require_columns(frame, needed, "study")
        frame, chosen = _chosen(frame.reset_index(drop=True), choices)
        paired = "opponent_id" in frame and frame["opponent_id"].notna().any() and conclusion != "score_difference"
        frame = frame[frame["opponent_id"].notna() == paired] if "opponent_id" in frame else frame
        if frame.empty or (conclusion == "first_position_rate" and not paired):
            what = "scores" if conclusion == "score_difference" else "comparisons of two candidates"
            raise TrialsError.plain(f"{conclusion} needs {what}, and the study has none")
        asked = [name for name in dict.fromkeys([*ASKED, *chosen]) if name in frame and name not in RULES]
        asked = [name for name in asked if len(frame[name].astype(str).unique()) > 1]
        unit = pd.Series(how.cluster_of(frame["context_id"].to_numpy(object)), frame.index).astype(str)
        several = frame["dataset"].astype(str) + ": " if len(frame["dataset"].unique()) > 1 else ""
        frame = frame.assign(
            context_id=several + frame["context_id"].astype(str), unit=several + unit,
            replicate=frame.get("replicate", 0),
            value=pd.Series(without_rounding(frame["value"]), frame.index).where(has_value(frame)),
            **frame[asked].astype(str),
        )  # fmt: skip
        people = _people(frame, bool(paired), labels) if conclusion == "comparative_accuracy" else {}
        frame = frame.assign(**people)
        who = list(people)
        rows = _sides_of_pairs(frame, who) if paired else _sides_of_scores(frame, who, asked, conclusion)
        rules = _label_rules(rows, who)
        rows = rows.assign(**rules)
        side = _side(rows, conclusion, *names)
        if rules:  # people prefer a side by one of the rules
            side = side * rows[list(rules)].sub(_EVEN).fillna(0).ne(0).any(axis=1)
        rows = rows.assign(side=side)[side != 0].reset_index(drop=True)
        if rows["value"].isna().all():
            raise TrialsError.plain(f"no judgement enters {conclusion}, which needs {_NEEDS[conclusion]}")
        return cls(rows, conclusion, asked, list(rules), chosen, pd.Index(rows["unit"].unique()))

    def rules(self) -> tuple[dict[str, list[str]], dict[str, str]]:
        """Return the levels of each rule, and for each choice that does not vary, why."""
        value, scores = self.rows["value"], self.conclusion == "score_difference"
        both = self.rows.groupby([*self.asked, "context_id", "item"], dropna=False)["turned"].nunique().max() > 1
        sizes = self.rows[value.notna()].groupby([*self.asked, "context_id"], dropna=False).size()
        several, words, unread = len(self.labels) > 1, self.rows["words"], bool(value.isna().any())
        both = both and self.conclusion != "first_position_rate"
        tied, uneven = not scores and bool((value == _EVEN).any() or both), len(sizes.unique()) > 1
        known = {
            "labels": ("one label of each item" if self.labels else "people's labels do not enter", several),
            "values": ("no probabilities", not scores and not value.dropna().isin([0, _EVEN, 1]).all()),
            "replicates": ("asked once", len(self.rows["replicate"].unique()) > 1),
            "orders": (
                "each order counts" if self.conclusion == "first_position_rate" else "no pair in both orders",
                both,
            ),
            "ties": ("no tie", tied),
            "missing": ("no missing verdict", not scores and unread),
            "weights": ("contexts have the same number", sizes.max() > 1 and (uneven or tied or unread)),
            "length": ("lengths are unknown", self.conclusion != "longer_wins" and bool(words.notna().all())),
        }
        every = RULES | {"labels": tuple(self.labels) or ("",)}
        levels, fixed = {}, {}
        for name, (why, possible) in known.items():
            wanted = self.chosen.get(name)
            if strangers := [level for level in wanted or () if level not in every[name]]:
                raise unknown(f"choices[{name!r}]", strangers[0], every[name])
            levels[name] = list(wanted or every[name]) if possible or wanted else [every[name][0]]
            if not possible or len(levels[name]) == 1:
                fixed[name] = f"chosen: {levels[name][0]}" if wanted else why
        for name in _NAMED:
            if name not in self.asked:
                level = self.rows[name].iloc[0] if name in self.rows else math.nan
                fixed[name] = f"one: {level}" if pd.notna(level) else "not recorded"
        if len(data := self.rows["dataset"].unique()) > 1:
            fixed["dataset"] = f"{len(data)} pooled; see biaslab.synthesis"
        return levels, fixed

    def cells(self) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
        """Yield the judgements by how the judge was asked."""
        for values, rows in self.rows.groupby(self.asked or ["judge"], sort=False):
            yield dict(zip(self.asked, map(str, values), strict=bool(self.asked))), rows

    def items(self, rows: pd.DataFrame, label: str, values: str, replicates: str, orders: str) -> pd.DataFrame:
        """Return ``unit, context_id, value`` and ``words`` of the side of the conclusion for each item."""
        side = rows["side"] if not self.labels else 2 * rows[label] - 1
        rows = rows.assign(side=side)[side.fillna(0) != 0]
        if values == "verdict" or replicates == "majority":
            rows = rows.assign(value=_verdict(rows["value"]))
        if replicates == "first":
            rows = rows[rows["replicate"] == rows["replicate"].min()]
        key = ["unit", "context_id", "item", "side", "turned"]
        table = rows.groupby(key, sort=False)[["value", "words"]].mean().reset_index()
        if replicates == "majority":
            table["value"] = _verdict(table["value"])
        if orders == "consistent":
            verdict = _verdict(table["value"])
            both = table.assign(low=verdict, high=verdict, unread=verdict.isna()).groupby(key[:-1], sort=False)
            table = both.agg({"low": "min", "high": "max", "unread": "any", "words": "first"}).reset_index()
            table["value"] = table["low"].where(table["low"] == table["high"], _EVEN).where(~table["unread"])
        away, value = table["side"] < 0, table["value"]
        turned = -value if self.conclusion == "score_difference" else 1 - value
        return table.assign(value=value.mask(away, turned), words=table["words"].mask(away, -table["words"]))

    def sums(self, items: pd.DataFrame, ties: str, missing: str, weights: str, length: str) -> Floats:
        """Return sums over the items of each unit, shape (units, 7), for `_effects`."""
        value, null = items["value"].to_numpy(float), _NULL[self.conclusion]
        unread = np.isnan(value)
        tied = (value == _EVEN) & (null != 0)
        kept = ~((unread & (missing == "dropped")) | (tied & (ties == "dropped")))
        lost = (unread & (missing == "loss")) | (tied & (ties == "loss"))
        n, odd, even = kept.astype(float), np.where(unread | tied, 0.0, value - null) * kept, -_EVEN * lost * kept
        x = items["words"].to_numpy(float) * kept if length == "equal" else np.zeros(len(n))
        columns = np.column_stack([n, odd, even, x, x * odd, x * even, x * x if length == "equal" else n])
        if weights == "contexts":
            codes = pd.factorize(items["context_id"])[0]
            columns /= np.maximum(np.bincount(codes, n)[codes], 1)[:, None]
        at = self.units.get_indexer(pd.Index(items["unit"]))
        return np.column_stack([np.bincount(at, column, len(self.units)) for column in columns.T])

    def total_error(
        self, bounds: tuple[float, float], half_width: float | None, costs: Costs | None, how: Resampling
    ) -> TotalError:
        """Return the error of the mean of contexts over judges, prompts and samples, ties as ½, missing dropped."""
        facets = [name for name in ("judge", "template", "configuration") if name in self.rows]
        facets = [name for name in facets if name in self.asked or name != "configuration"]
        rules = [self.labels[0] if self.labels else "", *(RULES[name][0] for name in _OF_ITEMS[1:])]
        parts, keys = [], [*facets, "replicate"]
        for _, rows in self.rows.groupby(keys, sort=False):
            parts.append(self.items(rows, *rules).assign(**{name: rows[name].iloc[0] for name in keys}))
        means = pd.concat(parts).pivot_table("value", ["unit", *facets], "replicate")
        wide = means.mean(axis=1).rename("value").reset_index().pivot_table("value", "unit", facets, dropna=False)
        shape = [len(self.rows[name].unique()) for name in facets]
        values = wide.dropna().to_numpy(float)
        values = values.reshape(len(values) if wide.shape[1] == math.prod(shape) else 0, *shape)
        sampling = float(np.nan_to_num(means.var(axis=1).mean())), float(means.notna().sum(axis=1).mean())
        return total_error(values, facets, how, _NULL[self.conclusion], bounds, sampling, half_width, costs)


def _chosen(frame: pd.DataFrame, choices: Mapping[str, Sequence[object]]) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return the judgements of the chosen levels, and these by choice; raise an error if others are mixed up."""
    chosen: dict[str, list[str]] = {}
    for name, levels in choices.items():
        if name not in RULES and name not in frame:
            raise unknown("choices", name, [*RULES, *ASKED])
        if isinstance(levels, str) or not len(list(levels)):
            raise InputError(f"choices[{name!r}]", levels, "a list of levels")
        chosen[name] = list(dict.fromkeys(map(str, levels)))
        if name not in RULES:
            known = list(dict.fromkeys(frame[name].astype(str)))
            if strangers := set(chosen[name]) - set(known):
                raise unknown(f"choices[{name!r}]", sorted(strangers)[0], known)
            frame = frame[frame[name].astype(str).isin(chosen[name])]
    for name in _NEVER:
        if name in frame and name not in chosen and len(frame[name].unique()) > 1:
            values = ", ".join(map(str, frame[name].unique()[:4]))
            raise InputError(name, values, "one, or a choice that you name", f"pass choices={{{name!r}: [...]}}")
    return frame, chosen


def _verdict(value: pd.Series) -> pd.Series:
    """Return 1, ½ or 0 for probabilities."""
    return pd.Series((np.sign(value - _EVEN) + 1) / 2)


def _people(frame: pd.DataFrame, paired: bool, labels: AnyLabels | None) -> dict[str, Any]:
    """Return people's labels of each row, by who gave them: the preference for the first, or the score."""
    if paired:
        own = (np.sign(frame["human_gap"]) + 1) / 2 if "human_gap" in frame else pd.Series(math.nan, frame.index)
        if labels is None:
            return {"label": own}
        known = HumanLabels.read(labels, frame)
        table = pd.DataFrame() if known.table is None else known.table
        named = table.groupby("annotator", sort=False) if "annotator" in table else [("label", table)]
        items = frame.assign(own=math.nan, **{name: frame[name].astype(str) for name in ("context_id", *_SIDES)})
        columns = {
            str(name): pd.concat([
                pd.Series(replace(known, table=part).of_items(rows, str(attribute), paired=True), rows.index)
                for attribute, rows in items.groupby("attribute", sort=False)
            ]) for name, part in named
        }  # fmt: skip
        return columns | ({"adjudicated": own} if own.notna().any() else {})
    frame = frame if labels is None else with_labels(prepared(frame).set_index(frame.index), labels)
    if "human" not in frame or frame["human"].isna().all():
        raise TrialsError.plain("no judgement has a label of people; pass labels (--labels FILE)")
    rated = frame[frame["human"].notna()]
    long = read_ratings(rated, rated["human"].to_numpy(float))
    if long["annotator"].nunique() < 2:
        return {"label": frame["human"]}
    wide = long.pivot_table("score", "item", "annotator", sort=False)
    wide.index = rated.index[wide.index]
    return {str(name): column.reindex(frame.index) for name, column in wide.items()}


def _label_rules(rows: pd.DataFrame, people: list[str]) -> dict[str, pd.Series]:
    """Return by rule which side is preferred: 1, ½ or 0 for the side that comes first by name."""
    single = [name for name in people if name != "adjudicated"]
    if len(single) < 2:
        return {name: rows[name] for name in people}
    votes = rows[single]
    share = votes.eq(1).sum(axis=1) / votes.notna().sum(axis=1), votes.eq(0).sum(axis=1) / votes.notna().sum(axis=1)
    majority = pd.Series(np.where(share[0] > _EVEN, 1.0, np.where(share[1] > _EVEN, 0.0, math.nan)), rows.index)
    often = [name for name in single if votes[name].notna().mean() >= _EVEN]
    rest = [*often, *(name for name in people if name == "adjudicated")]
    return {"mean": _verdict(votes.mean(axis=1)), "majority": majority} | {name: rows[name] for name in rest}


def _sides_of_pairs(frame: pd.DataFrame, people: list[str]) -> pd.DataFrame:
    """Turn every pair so that the candidate that comes first by name is its first side."""
    one, two = (frame[name].astype(str) for name in _SIDES)
    turned = one > two
    words = _log_words(frame["words"], frame["opponent_words"]) if "opponent_words" in frame else math.nan
    table = frame.assign(turned=turned, words=words, low=one.where(~turned, two), high=two.where(~turned, one))
    table["item"] = table["low"] + "\t" + table["high"]
    for name in ("value", *people):
        table[name] = table[name].mask(turned, 1 - table[name])
    return table.assign(words=table["words"].mask(turned, -table["words"]))


def _sides_of_scores(frame: pd.DataFrame, people: list[str], asked: list[str], conclusion: str) -> pd.DataFrame:
    """Compare the scores of every two candidates of a context."""
    name = "system" if "system" in frame and frame["system"].fillna("").ne("").all() else "candidate_id"
    key = [*asked, "dataset", "context_id", "unit", "replicate"]
    rest = [each for each in _NAMED if each in frame and each not in key]
    table = frame[[*key, *rest, "value", *people]]
    table = table.assign(low=frame[name].astype(str), words=frame.get("words", math.nan))
    both = table.merge(table.drop(columns=rest), on=key, suffixes=("", " 2"))
    both = both[both["low"] < both["low 2"]].rename(columns={"low 2": "high"})
    gap = both["value"] - both["value 2"]
    both["value"] = gap if conclusion == "score_difference" else (np.sign(gap.round(9)) + 1) / 2
    for each in people:
        both[each] = (np.sign((both[each] - both[f"{each} 2"]).round(9)) + 1) / 2
    words = _log_words(both["words"], both["words 2"])
    return both.assign(item=both["low"] + "\t" + both["high"], turned=False, words=words).reset_index(drop=True)


def _log_words(one: pd.Series, two: pd.Series) -> pd.Series:
    known = (one > 0) & (two > 0)
    return pd.Series(np.log(np.where(known, one, 1.0) / np.where(known, two, 1.0)), one.index).where(known)


def _side(rows: pd.DataFrame, conclusion: str, system: str | None, other: str | None) -> Any:
    """Return the side that the conclusion is about: 1, the first by name, −1, the other one, or 0, neither."""
    if conclusion in ("comparative_accuracy", "first_position_rate", "longer_wins"):
        if system is not None or other is not None:
            raise InputError("system", system or other, f"none for {conclusion}")
        known = rows["order_known"].astype(bool) if "order_known" in rows else True
        first = np.where(rows["turned"], -1, 1) * known
        return {"longer_wins": np.sign(rows["words"]).fillna(0), "first_position_rate": first}.get(conclusion, 1)
    systems = list(dict.fromkeys([*rows["low"], *rows["high"]]))
    for parameter, name in (("system", system), ("other", other)):
        if name not in systems and not (parameter == "other" and name is None and conclusion == "win_rate"):
            raise unknown(parameter, name, systems)
    one, two = (
        ((rows[own] == system) & ((rows[against] == other) | (other is None))).astype(int)
        for own, against in (("low", "high"), ("high", "low"))
    )
    return one - two


def _effects(n: Any, odd: Any, even: Any, x: Any, x_odd: Any, x_even: Any, xx: Any) -> Any:
    """Return the distance from the null: the mean, or the intercept of a regression on x, from sums over units."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((odd + even) * xx - x * (x_odd + x_even)) / (n * xx - x * x)


def _median(values: Floats) -> Floats:
    """Return the median of each row over the specifications that are defined; NaN if none is."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return np.asarray(np.nanmedian(values, axis=1), float)


@dataclass(frozen=True, eq=False)
class _Curve:
    """Sums over the items of each unit under each specification, shape (units, 7, specifications)."""

    sums: Floats
    names: Any
    null: float
    bounds: tuple[float, float]
    how: Resampling

    @cached_property
    def values(self) -> Floats:
        """The estimates."""
        return np.asarray(self.null + _effects(*self.sums.sum(axis=0)), float)

    @cached_property
    def left_out(self) -> Floats:
        """The estimates without each unit, shape (units, specifications)."""
        rest = self.sums.sum(axis=0) - self.sums
        return np.asarray(self.null + _effects(*np.moveaxis(rest, 1, 0)), float)

    def rows(self, metric: str, trials: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the row of each specification."""
        for at, size in enumerate(trials):
            own = np.ascontiguousarray(self.sums[self.sums[:, 0, at] > 0, :, at])
            equal = bool(np.any(own[:, 3]))
            bounds = None if equal or math.isinf(self.bounds[0]) else self.bounds
            statistic = partial(self._statistic, own)
            found = cluster_statistic(statistic, len(own), self.how, self.null, bounds, inference="t")
            yield from estimate_rows({metric: found}, {}, self.how, size, 0)

    def _statistic(self, sums: Floats, weights: Floats) -> Floats:
        return np.asarray(self.null + _effects(*(weights @ sums).T), float)

    @cached_property
    def exchanged(self) -> tuple[Floats, bool]:
        """Medians after sides were exchanged in whole units, and whether these are all patterns."""
        sums, medians = self.sums[:, :, np.isfinite(self.values)], []
        n, _, even, _, x_odd, _, xx = sums.sum(axis=0)
        turned = [np.ascontiguousarray(sums[:, at]) for at in (1, 3, 5)]
        for flips in patterns(len(sums), self.how.seed):
            odd, x, x_even = ((1 - 2 * flips) @ each if each.any() else np.zeros((len(flips), 1)) for each in turned)
            medians.append(_median(self.null + _effects(n, odd, even, x, x_odd, x_even, xx)))
        every = np.concatenate(medians)
        return every, len(every) == 2 ** len(sums)

    @cached_property
    def expected(self) -> float:
        """The expected median if sides are exchanged."""
        return float(self.exchanged[0].mean()) if self.sums[:, [2, 5]].any() else self.null

    def median(self) -> Estimate:
        """Return the median of the specifications, with a bootstrap interval and the permutation test."""
        sums = self.sums[:, :, np.isfinite(self.values)]
        flat = sums.reshape(len(sums), -1)

        def statistic(weights: Floats) -> Floats:
            totals = (weights @ flat).reshape(len(weights), *sums.shape[1:])
            return _median(self.null + _effects(*np.moveaxis(totals, 1, 0)))

        bounds = None if math.isinf(self.bounds[0]) else self.bounds
        found = cluster_statistic(statistic, len(sums), replace(self.how, method="percentile"), None, bounds)
        if math.isnan(found.ci_low):
            return found
        medians, exact = self.exchanged
        distance = abs(found.estimate - self.expected) - 1e-12
        extreme = int((np.abs(medians - self.expected) >= distance).sum())
        p_value = (extreme + (not exact)) / (len(medians) + (not exact))
        low, high, p_value = settled((found.ci_low, found.ci_high), self.expected, p_value, self.how.level)
        method = f"{found.method}; sides exchanged in all specifications"
        return replace(found, ci_low=low, ci_high=high, p_value=p_value, method=method)

    def agreement(self, rows: pd.DataFrame) -> tuple[float, float]:
        """Return the shares of specifications on the side of the median, and with their interval there, too."""
        side = np.sign(rows["estimate"].median() - self.null)
        same = np.sign(rows["estimate"] - self.null) == side
        ends = rows["ci_low"] if side > 0 else rows["ci_high"]
        return float(same.mean()), float((same & (np.sign(ends - self.null) == side)).mean())

    def moves(self, names: Sequence[Mapping[str, str]], varied: Mapping[str, list[str]]) -> Iterator[dict[str, Any]]:
        """Yield for each choice the share of the variance that only it explains, and the shift between its levels."""
        known = np.isfinite(self.values) & np.isfinite(self.left_out).all(axis=0)
        values, left_out, units = self.values[known], self.left_out[:, known], len(self.sums)
        table = pd.DataFrame(names)[known]
        of = {name: pd.get_dummies(table[name], dtype=float).to_numpy() for name in varied}

        def unexplained(without: str = "") -> float:
            columns = np.column_stack([np.ones(len(values)), *(own for name, own in of.items() if name != without)])
            return float(((values - columns @ np.linalg.lstsq(columns, values)[0]) ** 2).sum())

        total, least = float(((values - values.mean()) ** 2).sum()), unexplained()
        for name, levels in varied.items():
            means = table.assign(value=values).groupby(name)["value"].mean()
            low, high = str(means.idxmin()), str(means.idxmax())
            one, two = ((table[name] == level).to_numpy(float) for level in (high, low))
            weights = one / one.sum() - two / two.sum()
            shift, without = float(values @ weights), left_out @ weights
            error = math.sqrt((units - 1) / units * float(((without - without.mean()) ** 2).sum()))
            ends = dict(zip(("ci_low", "ci_high"), student(shift, error, units, self.how.level), strict=True))
            share = max(unexplained(name) - least, 0.0) / total if total else 0.0
            facts = {"choice": name, "levels": levels, "varied": True, "why": "", "share": share, "shift": shift}
            yield facts | ends | {"lowest": low, "highest": high}
