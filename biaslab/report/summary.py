"""Summarise the verdicts on a judge: per metric, with the remedy that helps, and what it is fit for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import special

from biaslab.core.metrics import find_metric, is_primary
from biaslab.core.output import MISSING, interval, number, wrapped
from biaslab.logs.audit.measures import Covariates
from biaslab.report.verdicts import Finding, by_metric, classify, detectable, side_words
from biaslab.report.wording import WORDS, condition_text, evidence, probability, size
from biaslab.stats.estimate import ALPHA, is_above, is_rounding, side_of
from biaslab.stats.frame import require_columns
from biaslab.stats.t_inference import p_by_t

_FEW = 4  # cells of agreement that a page lists
_ENOUGH = 30  # contexts with labels from which on agreement below chance speaks against a judge
_TORN = ("contains", "leaves out")  # test and interval disagree: see `biaslab.report.verdicts.Doubt`
_AT_ENDS = 0.45  # distance of a rate from ½ from which on averaging leaves hardly any verdict
_NOTHING = {"none": "nothing", "slight": "nothing"}
#: Mark (distinguishable without colour) and words for each status on a card.
STATUS: dict[str, list[str]] = WORDS["statuses"]


def is_bias(metric: str, probe: str) -> bool:
    """Return whether a card gives a verdict on a metric: it is primary, about the judge, and not a quality metric."""
    declared = find_metric(metric, probe)
    return is_primary(metric, probe) and not declared.quality and declared.subject == "judge"


def sum_up(found: Sequence[Finding], remedies: pd.DataFrame | None = None) -> dict[str, Any]:
    """Summarise the findings on one metric of one judge; cells without a test count only if there are no others.

    Parameters
    ----------
    found : sequence of Finding
        From `biaslab.report.verdicts.classify`.
    remedies : pandas.DataFrame, optional
        See `biaslab.report.summary.best_remedy`.
    """
    cells = [each for each in found if each.kind != "untested"] or list(found)
    shown = [each for each in cells if each.is_bias]
    status, strongest = strongest_of(found)
    metric = strongest.metric
    estimate, bounds = evidence(strongest.row, metric.null)
    advice = metric.advice if isinstance(metric.advice, tuple) else (metric.advice, metric.advice)
    ways = list(dict.fromkeys(each.kind for each in (strongest, *shown) if shown))
    advised = "; ".join(dict.fromkeys(filter(None, (advice[way == "below"] for way in ways if status == "bias"))))
    if metric.advice_at_ends and shown and all(abs(each.estimate - 0.5) >= _AT_ENDS for each in cells):
        advised = metric.advice_at_ends
    to_do = WORDS["decides"].get(strongest.doubt, "") if status == "unclear" else _NOTHING.get(status, "")
    clauses = _clauses(cells, shown, status, strongest)
    hedges = dict.fromkeys(filter(None, (each.hedge for each in shown or (cells if status == "none" else ()))))
    return {
        "judge": strongest.row["judge"],
        "probe": strongest.row["probe"],
        "metric": metric.name,
        "label": metric.label,
        "status": status,
        "brief": " and ".join(clauses) if shown else clauses[0],
        "opposite": (opposite := _opposite(cells, ways) if shown else ""),
        "verdict": "; ".join([*clauses, *hedges]) + opposite,
        "standing": strongest.standing.words if strongest.standing else "",
        "rank": strongest.standing.brief if strongest.standing else "",
        "strongest": strongest.where,
        "estimate": estimate,
        "interval": bounds,
        "share": _as_share(strongest),
        "q": probability(strongest.row["q_value"]),
        "mde": size(strongest.mde),
        "detectable": detectable(strongest.mde, strongest.detectable, strongest.over),
        "remedy": best_remedy(cells, remedies).words if remedies is not None else "",
        "advice": advised,
        "to_do": advised or to_do,
        "sides": tuple(ways),
        "n_open": sum(each.kind == "open" for each in cells),
        "n_cells": len(cells),
    }


def _as_share(finding: Finding) -> str:
    """Return log odds as the probability that they belong to, in words; an empty text for other metrics."""
    if not finding.metric.odds_of:
        return ""
    ends = [finding.estimate, finding.low, finding.high]
    value, low, high = (1 / (1 + math.exp(-end)) for end in ends)
    bounds = "" if math.isnan(low) else f" {interval(low, high, 2)}"
    return f", or {finding.metric.odds_of} {number(value, 2)}{bounds}"


def strongest_of(found: Sequence[Finding]) -> tuple[str, Finding]:
    """Return the status of a metric, and the cell that decides it.

    A bias in one cell is enough, and the one farthest from the null is returned; without a bias, the least conclusive
    one. Cells without a test count only if there are no others.
    """
    cells = [each for each in found if each.kind != "untested"] or list(found)
    if shown := [each for each in cells if each.is_bias]:
        status = "slight" if all(each.slight for each in shown) else "bias"
        return status, max(shown, key=lambda each: abs(each.estimate - each.null))
    kinds = {each.kind for each in cells}
    status = "unclear" if "open" in kinds else "none" if "none" in kinds else "untested"
    torn = next((doubt for doubt in _TORN if any(each.doubt == doubt for each in cells)), None)
    doubtful = [each for each in cells if (each.doubt == torn if torn else each.doubt)]
    return status, max(doubtful or cells, key=_reach)


def _reach(finding: Finding) -> float:
    """Return how far the interval reaches from the null; -1 if unknown."""
    low, high = finding.null - finding.low, finding.high - finding.null
    return -1.0 if math.isnan(low) or math.isnan(high) else max(low, high)


def _clauses(cells: Sequence[Finding], shown: Sequence[Finding], status: str, strongest: Finding) -> list[str]:
    """Return one verdict on all cells of a metric, clause by clause."""
    of = f" of {len(cells)}" if len(cells) > 1 else ""
    if shown:
        slight = sum(each.slight for each in shown)
        aside = f", {slight} of them too small to matter" if slight and status == "bias" else ""
        aside = ", too small to matter" if status == "slight" else aside
        counts = Counter(each.kind for each in shown)
        sides = sorted(counts.items(), key=lambda side: side[0] != strongest.kind)  # first that of the estimate shown
        ways = [f"{side_words(strongest.metric, way)}{of and f' (in {n}{of})'}" for way, n in sides]
        return [*ways[:-1], ways[-1] + aside]
    if status == "untested":
        return ["; ".join(dict.fromkeys(filter(None, (each.note for each in cells)))) or "no interval"]
    alike = sum(each.doubt == strongest.doubt for each in cells)
    return [*strongest.clauses[:-1], strongest.clauses[-1] + (f" (in {alike}{of})" if of else "")]


def _opposite(cells: Sequence[Finding], sides: Sequence[str]) -> str:
    """Say which cells lie on the other side, by their tests, although what else is plausible leaves them open."""
    doubtful = [each for each in cells if each.kind == "open" and each.doubt != "leaves out"]
    other = [each for each in doubtful if side_of(each.row, each.null) not in (None, *sides)]
    values = [f"{each.where} {number(each.estimate)} {interval(each.low, each.high)}" for each in other]
    words = dict.fromkeys(side_words(each.metric, str(side_of(each.row, each.null))) for each in other)
    return f"; inconclusive: {' and '.join(words)} ({', '.join(values)})" if other else ""


def agreements(rows: pd.DataFrame, most: int = _FEW) -> pd.DataFrame:
    """List the agreement of judges with reference scores: every cell if there are at most `most`, else their range."""
    groups = by_metric(classify(rows[rows["estimate"].notna()]) if len(rows) else [])
    lines = []
    for (judge, _, _), group in groups.items():
        named = {"judge": judge, "label": group[0].metric.axis}
        known, above = (not math.isnan(group[0].null)), [each.low > each.null for each in group]
        below = [_is_below_chance(each) for each in group]
        if len(group) > most:
            values = [each.estimate for each in group]
            shown = f", shown above chance in {sum(above)} of" if known else " in"
            reach = f"{number(min(values))} to {number(max(values))}{shown} {len(group)} cells"
            text = {"cell": "", "estimate": reach, "interval": ""}
            counts = {"with_chance": known * len(group), "above_chance": sum(above), "below_chance": sum(below)}
            lines.append(named | text | counts)
            continue
        for each, above_chance, below_chance in zip(group, above, below, strict=True):
            chance = " (chance is not ruled out)" if each.low <= each.null <= each.high else ""
            bounds = interval(each.low, each.high) + chance
            text = {"cell": each.where, "estimate": number(each.estimate), "interval": bounds}
            counts = {"with_chance": int(known), "above_chance": int(above_chance), "below_chance": int(below_chance)}
            lines.append(named | text | counts)
    columns = ["judge", "label", "cell", "estimate", "interval", "with_chance", "above_chance", "below_chance"]
    return pd.DataFrame(lines, columns=columns)


def _is_below_chance(agreement: Finding) -> bool:
    """Return whether agreement is shown to be below chance: after correction for other tests, in enough contexts."""
    shown = agreement.kind in ("below", "untested") and agreement.high < agreement.null
    return shown and agreement.row["n_contexts"] >= _ENOUGH


Light = Literal["bias", "none", "unclear", "untested"]
#: Status of a bias → fitness for the uses that the bias would spoil. Earlier entries take precedence.
_SAYS: dict[str, Literal["unfit", "unknown", "fit"]] = {
    "bias": "unfit",
    "unclear": "unknown",
    "slight": "fit",  # unless inconclusive in another cell
    "none": "fit",
}
NO_AGREEMENT = "agreement with the reference scores was not measured, so this covers biases only"
_BY_CHANCE = "agreement with the reference scores is not shown to be above chance"
ANY_JUDGEMENT = "any judgement"
_BELOW_CHANCE = "it agrees with the reference scores less often than chance"


@dataclass(frozen=True)
class Fitness:
    """What a judge may be used for, judging by its biases.

    Attributes
    ----------
    unfit, fit, unknown : tuple of str
        Uses that a bias spoils, uses for which every bias that matters is excluded, and uses for which the study is
        inconclusive.
    hedges : tuple of str
        Reservations.
    """

    unfit: tuple[str, ...] = ()
    fit: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    hedges: tuple[str, ...] = ()

    @property
    def light(self) -> Light:
        """The worst status among the uses, which sets colour and mark."""
        return "bias" if self.unfit else "unclear" if self.unknown else "none" if self.fit else "untested"

    @property
    def parts(self) -> list[tuple[Light, str, str]]:
        """The sentences: status, opening words, and uses."""
        words: tuple[tuple[Light, str], ...] = (("bias", "Do not use"), ("none", "Fine"), ("unclear", "Cannot tell"))
        uses = (self.unfit, self.fit, self.unknown)
        return [(of, f"{text} for", _joined(own)) for (of, text), own in zip(words, uses, strict=True) if own]

    def __str__(self) -> str:
        lines = [f"{words} {uses}." for _, words, uses in self.parts] or ["No use could be tested."]
        return " ".join([*lines, *(f"{hedge[:1].upper()}{hedge[1:]}." for hedge in self.hedges)])


def fitness(biases: Iterable[Mapping[Any, Any]], quality: Iterable[Mapping[Any, Any]]) -> Fitness:
    """Summarise what a judge may be used for.

    Parameters
    ----------
    biases : iterable of mapping
        Results of `biaslab.report.summary.sum_up` for each metric of one judge.
    quality : iterable of mapping
        Result of `biaslab.report.summary.agreements` for this judge.

    Returns
    -------
    Fitness
        A use is unfit if any bias that would spoil it is found, unknown if any is inconclusive, and fit if all are
        excluded or slight in all cells. Untested biases are ignored. A judge whose agreement with the reference scores
        is below chance is fit for nothing; if it is not shown to be above chance, no use is fit.

    Examples
    --------
    >>> position = {"probe": "position", "metric": "first_position_rate", "status": "bias"}
    >>> fitness([position | {"sides": ("above",), "n_open": 0}], []).parts
    [('bias', 'Do not use for', 'pairs shown in one order only')]
    """
    claims: dict[str, set[str]] = {}
    for row in biases:
        for use, says in _claims(row):
            claims.setdefault(use, set()).add(says)
    order = ("unfit", "unknown", "fit")
    worst = {use: next(kind for kind in order if kind in claimed) for use, claimed in claims.items()}
    uses = {kind: tuple(use for use, of in worst.items() if of == kind) for kind in ("unfit", "fit", "unknown")}
    agreeing = list(quality)
    if not agreeing:
        return Fitness(**uses, hedges=(NO_AGREEMENT,))
    names = ("with_chance", "above_chance", "below_chance")
    known, above, below = (sum(int(row[name]) for row in agreeing) for name in names)
    if known and not above:
        if below:
            return Fitness(unfit=(ANY_JUDGEMENT,), hedges=(_BELOW_CHANCE,))
        return Fitness(uses["unfit"], (), (*uses["unknown"], *uses["fit"]), (_BY_CHANCE,))
    return Fitness(**uses)


def _claims(row: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """Return the uses that a bias affects, each with its fitness."""
    if row["status"] not in _SAYS:
        return []
    says = "unknown" if row["status"] == "slight" and row["n_open"] else _SAYS[row["status"]]
    use = find_metric(row["metric"], row["probe"]).use
    sides = dict(zip(("above", "below"), use if isinstance(use, tuple) else (use, use), strict=True))
    spoilt = [sides[side] for side in row["sides"]] if row["status"] == "bias" else list(sides.values())
    if row["status"] == "bias" and not any(spoilt):  # a bias in the direction that spoils no use
        return [(use, "fit") for use in sides.values() if use]
    return [(use, says) for use in dict.fromkeys(spoilt) if use]


def _joined(uses: tuple[str, ...]) -> str:
    """Join uses with commas and "and", or with semicolons if one of them contains a comma."""
    comma = ";" if any("," in use for use in uses) else ","
    comma = "" if comma == "," and len(uses) == 2 else comma
    return uses[0] if len(uses) == 1 else f"{f'{comma} '.join(uses[:-1])}{comma} and {uses[-1]}"


_MEASURED = (
    *("before", "before_se", "before_low", "before_high", "after", "after_se"),
    *("difference", "se", "p_value", "n_contexts", "ci_level"),
)
_ESTIMATED = ("judge", "metric", "remedy", "estimate", "se", "ci_low", "ci_high", "p_value", "n_contexts", "ci_level")
_PART = ("attribute", "template", "orders")


@dataclass(frozen=True)
class RemedyChoice:
    """The remedy that is shown to reduce a bias most, "" if none is; and what the study shows in words."""

    name: str = ""
    words: str = ""


def best_remedy(cells: Sequence[Finding], remedies: pd.DataFrame) -> RemedyChoice:
    """Return which remedy is shown to reduce a bias, and by how much, or that none is.

    Parameters
    ----------
    cells : sequence of Finding
        The findings on one judge and metric, from `biaslab.report.verdicts.classify`.
    remedies : pandas.DataFrame
        Result of `biaslab.mitigation.remedies`, or an estimates frame such as from `biaslab.ranking.compare_remedies`
        with the columns ``remedy`` ("none" or empty without a remedy) and ``against`` ("none" if the estimate is the
        paired difference to no remedy).

    Returns
    -------
    RemedyChoice
        Without words if no remedy was measured for this judge and metric.

    Raises
    ------
    TrialsError
        If a column is missing.

    Notes
    -----
    A remedy helps if it brings the estimate nearer to the null: the estimate moves towards the null, and does not end
    up as far beyond it. Both are tested by Student's t, paired over contexts, and the larger p-value counts (Berger
    1982). The direction is that of the bias, so tests are one-sided if the interval without a remedy excludes the null.
    p-values are corrected over the remedies by Holm's procedure: if no remedy works, one is named in at most 5 % of
    studies. Several cells of one metric share contexts; they are averaged, using the mean of their standard errors,
    which is conservative whatever their correlation.

    **Selection.** The best of several remedies is also the luckiest. Its estimate is shrunk towards the one without a
    remedy by the share of the variance of effects that noise explains (Efron & Morris 1973), and its interval is
    simultaneous over all remedies tried.

    References
    ----------
    Berger 1982, *Multiparameter hypothesis testing and acceptance sampling*, Technometrics 24; Efron & Morris 1973,
    *Stein's estimation rule and its competitors*, JASA 68; Holm 1979, *A simple sequentially rejective multiple test
    procedure*, Scand. J. Statistics 6.
    """
    rows = _measured(cells, remedies)
    if rows.empty:
        return RemedyChoice()
    tried = [_Tried.of(str(name), part, cells[0].null) for name, part in rows.groupby("remedy", sort=False)]
    names = ", ".join(one.name for one in tried)
    from statsmodels.stats.multitest import multipletests

    tested = [one for one in tried if not math.isnan(one.p_value)]
    if not tested:
        return RemedyChoice(words=f"not tested: {names} (no paired differences; see biaslab.mitigation.remedies)")
    helpful = multipletests([one.p_value for one in tested], ALPHA, "holm")[0]
    if helpful.any():
        best = min((one for one, helps in zip(tested, helpful, strict=True) if helps), key=lambda one: one.left)
        return RemedyChoice(best.name, best.words(tested))
    least = max(one.detectable(len(tested)) for one in tested)
    can = f"can detect an improvement ≥ {size(least)} (80 % power)" if least > 0 else "too few contexts"
    return RemedyChoice(words=f"none of {names} is shown to help; {can}")


def _measured(cells: Sequence[Finding], remedies: pd.DataFrame) -> pd.DataFrame:
    """Return one row per remedy and cell: estimates without and with it and the paired difference (NaN if missing)."""
    first = cells[0].row
    if "difference" in remedies:
        require_columns(remedies, ("judge", "metric", "remedy", *_MEASURED), "remedies")
        own = remedies[(remedies["judge"] == first["judge"]) & (remedies["metric"] == first["metric"])]
        return pd.DataFrame(own[own["after"].notna()])
    require_columns(remedies, _ESTIMATED, "remedies")
    own = remedies[(remedies["judge"] == first["judge"]) & (remedies["metric"] == first["metric"])]
    own = own[own["estimate"].notna()]
    against = own["against"].fillna("") if "against" in own else pd.Series("", own.index)
    without = own["remedy"].fillna("").isin(["", "none"])
    part = [name for name in _PART if name in own and own[name].notna().any()]
    own = own.assign(**{name: own[name].map(condition_text) for name in part})
    before = own[without & (against == "")]
    before = pd.DataFrame([each.row for each in cells]) if before.empty else before
    after = own[~without & (against == "")]
    gap = own[~without & (against == "none")]
    gap_columns = {"estimate": "difference", "p_value": "p_value", "se": "se"}
    before_columns = {"estimate": "before", "se": "before_se", "ci_low": "before_low", "ci_high": "before_high"}
    by = [name for name in part if name in before]
    before = before.assign(**{name: before[name].map(condition_text) for name in by})
    left = after[["remedy", *part, "estimate", "se", "n_contexts", "ci_level"]]
    left = left.rename(columns={"estimate": "after", "se": "after_se"})
    states = before[[*by, *before_columns]].rename(columns=before_columns)
    paired = left.merge(states, on=by, how="inner") if by else left.merge(states, how="cross")
    gaps = gap[["remedy", *part, *gap_columns]].rename(columns=gap_columns)
    return pd.DataFrame(paired.merge(gaps, on=["remedy", *part], how="left"))


@dataclass(frozen=True)
class _Tried:
    """A remedy over all cells of a metric: how much nearer to the null it brings the estimate."""

    name: str
    before: float
    after: float
    after_se: float
    left: float
    se: float
    p_value: float
    one_sided: bool
    contexts: int
    cells: int
    level: float

    @classmethod
    def of(cls, name: str, rows: pd.DataFrame, null: float) -> _Tried:
        """Test whether a remedy helps in these cells, on average."""
        contexts, cells = int(rows["n_contexts"].min()), len(rows)
        before, after = rows["before"].mean(), rows["after"].mean()
        errors = {column: rows[column].fillna(0.0).to_numpy(float) for column in ("before_se", "after_se", "se")}
        direction = np.sign(rows["before"].to_numpy(float) - null)
        gain = float((direction * -rows["difference"].to_numpy(float)).mean())
        on_this_side = float((direction * (rows["before"] + rows["after"] - 2 * null)).mean())
        of_sum = np.sqrt(np.maximum(2 * errors["before_se"] ** 2 + 2 * errors["after_se"] ** 2 - errors["se"] ** 2, 0))
        ends = zip(rows["before_low"], rows["before_high"], strict=True)
        biased = [is_above(low, null) or is_above(null, high) for low, high in ends]
        moved = float(rows["p_value"].iloc[0]) if cells == 1 else _two_sided(gain, errors["se"].mean(), contexts)
        nearer = moved / (2 if all(biased) else 1) if gain > 0 else 1.0
        within = _two_sided(on_this_side, float(of_sum.mean()), contexts) / 2 if on_this_side > 0 else 1.0
        return cls(
            name=name,
            before=float(before),
            after=float(after),
            after_se=float(errors["after_se"].mean()),
            left=float((rows["after"] - null).abs().mean()),
            se=float(errors["se"].mean()),
            p_value=math.nan if math.isnan(gain) or math.isnan(moved) else max(nearer, within),
            one_sided=all(biased),
            contexts=contexts,
            cells=cells,
            level=float(rows["ci_level"].iloc[0]),
        )

    def detectable(self, tried: int) -> float:
        """Return the smallest improvement detectable with 80 % power, corrected for the number of remedies tried."""
        level = ALPHA / tried / (1 if self.one_sided else 2)
        if self.contexts < 2 or 2.0**-self.contexts > level:
            return math.nan
        return float(np.sum(special.stdtrit(self.contexts - 1, [1 - level, 0.8]))) * self.se

    def words(self, tried: Sequence[_Tried]) -> str:
        """Return a sentence on this remedy, the best of those tried."""
        if len(tried) > 1:
            after_squared = [one.after_se**2 for one in tried]
            spread = max(float(np.mean([(one.before - one.after) ** 2 for one in tried]) - np.mean(after_squared)), 0.0)
            kept = spread / (spread + self.after_se**2) if spread else 0.0
        else:
            kept = 1.0
        after = self.before - kept * (self.before - self.after)
        reach = float(special.stdtrit(self.contexts - 1, 1 - (1 - self.level) / 2 / len(tried))) * self.after_se
        low, high = min(self.after - reach, after), max(self.after + reach, after)
        shown = f"{self.name}: {number(self.before)} becomes {number(after)} {interval(low, high)}"
        about = [f"means of {self.cells} cells"] * (self.cells > 1)
        about += [f"best of {len(tried)}: shrunk, simultaneous interval"] * (len(tried) > 1)
        return f"{shown} ({'; '.join(about)})" if about else shown


def _two_sided(distance: float, error: float, contexts: int) -> float:
    """Return the two-sided p-value of a mean over contexts; without variation, that of a sign-flip test."""
    if math.isnan(distance) or contexts < 2:
        return math.nan
    if is_rounding(distance):
        return 1.0
    return 2.0 ** (1 - contexts) if is_rounding(error, distance) else p_by_t(distance, error, contexts)


#: Headings and the verdicts below them.
_VERDICTS = {"found": ("bias", "slight"), "not found": ("none",), "cannot tell": ("unclear", "untested")}
_SLIGHT = {"slight": "slight: "}


def verdict_lines(rows: Iterable[Mapping[Any, Any]], width: int) -> list[str]:
    """Return the verdicts by what they say, with their numbers; none for metrics without an estimate.

    Parameters
    ----------
    rows : iterable of mapping
        One per metric of one judge, from `biaslab.report.summary.sum_up`.
    width : int
        Characters per line.
    """
    shown = [row for row in rows if row["estimate"] != MISSING]
    lines: list[str] = []
    for words, statuses in _VERDICTS.items():
        of = [row for status in statuses for row in shown if row["status"] == status]
        lines += [f"  {words}:"] if of else []
        for row in of:
            where = f" ({row['strongest']})" if _names_cell(row) else ""
            bounds = "" if row["interval"] == MISSING else f" {row['interval']}"
            test = "" if row["q"] == MISSING else f", q {row['q']}"
            numbers = f": {row['estimate']}{bounds}{row['share']}{test}{where}"
            verdict = "; ".join(filter(None, (row["verdict"], row["standing"])))
            mark = f"{STATUS[row['status']][0]} {_SLIGHT.get(row['status'], '')}"
            lines += item(f"{mark}{_named(row)}{numbers}: {verdict}", width)
    return lines


def item(text: str, width: int) -> Sequence[str]:
    """Return the lines of a text with a mark, indented."""
    return wrapped(f"  {text}", width)


def spaced(name: object) -> str:
    """Return the name of a probe in words."""
    return str(name).replace("_", " ")


def _names_cell(row: Mapping[Any, Any]) -> bool:
    """Return whether a line names the cell of its estimate: one of several, or of a column that the user named."""
    return bool(row["strongest"]) and (row["n_cells"] > 1 or row["probe"] == Covariates.name)


def _named(row: Mapping[Any, Any]) -> str:
    return f"{spaced(row['probe'])}, {find_metric(row['metric'], row['probe']).axis}"


def advice_lines(rows: Iterable[Mapping[Any, Any]], width: int) -> list[str]:
    """Return the advice on the biases found, each once."""
    advice: dict[str, list[str]] = {}
    for row in rows:
        if row["advice"]:
            advice.setdefault(row["advice"], []).append(spaced(row["probe"]))
    lines = ["  what to do:"] if advice else []
    for sentence, probes in advice.items():
        lines += item(f"→ {sentence} ({', '.join(dict.fromkeys(probes))})", width)
    return lines
