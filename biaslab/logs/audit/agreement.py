"""Agreement of recorded judgements with people's labels: pass or fail, scores, and verdicts on pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Floats
from biaslab.core.output import count
from biaslab.logs.audit.measures import AuditMeasure
from biaslab.measures.scoring.agreement import agreement
from biaslab.probes.base.feature_probe import bounded_scale
from biaslab.probes.base.probe import Accepted, paired, rated, scored
from biaslab.stats.blocks import each_cell, has_value, usable
from biaslab.stats.correlation import CorrelationMethod, Level
from biaslab.stats.estimate import Estimate, Note, because, undefined
from biaslab.stats.frame import MISSING_SHARE, estimate_rows, estimates_frame, warn_missing
from biaslab.stats.rater_agreement import Labelled, ScoreAgreement, VerdictAgreement, contrast, differences, rater_pairs
from biaslab.stats.ratio import Ratio
from biaslab.stats.reliability import read_ratings
from biaslab.stats.resample import Resampling

_CELL = ("judge", "dataset", "attribute", "template", "configuration", "scale")
_ITEM = ["context_id", "candidate_id", "opponent_id"]
_SLOW = 20_000  # items above which Kendall's tau over the whole data set is skipped
_MANY_VERDICTS = 11  # scores with more levels have no table of their use
_MANY_PEOPLE = 12  # people above which they are not left out one by one
_VARIES = 3  # candidates a context from which on correlations within contexts say more than an order of two
_OF_GROUPS = ("exact_agreement", "true_positive_rate", "true_negative_rate", "leniency", "mean_difference")
_LEAST = 10  # items of a group, and of all others, from which on their difference is tested
_MANY_GROUPS = 24
#: What is compared between groups: agreement on pass and fail depends on how much people pass, its two rates do not.
_GAPS = ("exact_agreement", "true_positive_rate", "true_negative_rate")
_MANY_JUDGES = 12  # judges above which they are not compared in pairs
_RATER, _PEOPLE = "judge", "people"
_KAPPAS, _DIFFERENCE = ("cohen_kappa", "quadratic_kappa"), "_difference"
_OF_CEILING = ("exact_agreement", "agreement_within_1", "cohen_kappa", "gwet_ac1", "quadratic_kappa", "icc_agreement")
_WORDS = {"pass": {0.0: "fail", 1.0: "pass"}, "pair": {-1.0: "second", 0.0: "tie", 1.0: "first"}}
_OTHER_SCALE = because("other_scale", "people scored on {people}, the judge on {judge}: compared by correlation only")
_NOT_WHOLE = because("scores_not_whole", "scores are finer than half points, so exact agreement says little")


@dataclass(frozen=True)
class HumanAgreement(AuditMeasure):
    """Agreement with people, of verdicts on one output, of scores and of verdicts on pairs.

    Parameters
    ----------
    by : tuple of str
        Columns of the trials by which to split items, besides system, subset and length.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template × configuration × scale. Each judgement is compared with
    each person's label; those of an item count as one, so a share is that of a person drawn at random. ``n_trials``
    counts judgements, with ``rater`` = "people" or a ``label`` labels: of both together, each with each; of people with
    each other, pairs of labels. A verdict on a pair is first, second or tie, by which candidate was shown first.

    ``exact_agreement`` (0–1)
        Share of items with the same verdict, or the same score if all are whole or half points.
        ``agreement_without_ties``: among pairs that both decide. ``agreement_within_1``: scores at most one point
        apart.
    ``true_positive_rate``, ``true_negative_rate``, ``precision_of_pass``, ``precision_of_fail`` (0–1)
        Share of what people pass that the judge passes, of what people fail that it fails, and of what the judge passes
        (fails) that people pass (fail).
    ``leniency`` (primary; −1 to 1, null 0), ``mean_difference`` (points)
        The judge's mean minus people's, paired by item: in widths of the scale, so that it is the difference of pass
        rates on a 0–1 scale, and in points.
    ``pass_rate``, ``mean_score`` (column ``rater``: judge, people)
        The two themselves.
    ``cohen_kappa``, ``gwet_ac1``, ``quadratic_kappa``, ``icc_agreement``, ``krippendorff_alpha`` (−1 to 1)
        Agreement beyond chance: Cohen (1960), Gwet (2008); of scores, with quadratic weights (1968), ICC(A,1) of
        McGraw and Wong (1996) and Krippendorff's alpha with the interval metric. ``balanced_accuracy`` (0–1): mean of
        the shares of each label that the judge gives too.
    ``limit_of_agreement_low``, ``limit_of_agreement_high`` (points)
        Mean difference ± 1.96 standard deviations of the differences (Bland and Altman 1999).
    ``correlation`` (−1 to 1, null 0; columns ``level``, ``coefficient``)
        Of mean scores with mean human scores: over all items (dataset), within contexts of at least three candidates
        (context), and of systems' means.
    ``verdict_share`` (0–1; columns ``verdict``, ``label``)
        Share of items with this verdict of the judge and this label of people; of scores, the shares of each.
    ``true_positive_rate_gap``, ``true_negative_rate_gap``, ``exact_agreement_gap`` (primary; null 0; columns ``group``,
    ``member``)
        The rate among the items of one group minus that among all others, from 10 items each; one for two groups. Of
        pass and fail the two rates, which unlike agreement do not depend on how much people pass; else agreement.
        Groups are systems, subsets, thirds of length, and the columns of `by`. ``exact_agreement``,
        ``true_positive_rate``, ``true_negative_rate``, ``leniency`` and ``mean_difference`` have rows for each group
        too, without a test: they also depend on what people say of the group. For leniency at equal label, see
        `biaslab.probes.Verbosity` and the measure "covariate".

    ``<metric>_difference`` (null 0; column ``other_judge``)
        The judge's agreement, κ, rates or leniency minus another's, on the items of both, for up to twelve judges; with
        bounds, or a note, for items on which both were asked and one gave no verdict.
        ``exact_agreement`` and κ with a value of ``other_judge`` are agreement of the two judges with each other.

    With several people an item, rows with ``rater`` = "people" compare each person with every other on the same item,
    and rows with ``left_out`` = a person compare that person (``rater`` "people") and the judge with the others.

    Rates have score intervals over contexts, differences Student's t, coefficients jackknife intervals on Fisher's
    scale.
    """

    name: ClassVar[str] = "agreement"
    leading: ClassVar[tuple[str, ...]] = ("exact_agreement",)
    conditions: ClassVar[tuple[str, ...]] = (
        *_CELL[2:],
        *("rater", "other_judge", "left_out", "level", "coefficient", "verdict", "label", "group", "member"),
    )

    by: tuple[str, ...] = field(default=())

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements of items or pairs that people labelled too."""
        pairs, scores = paired(trials), scored(trials)
        known = pd.concat([pairs[pairs["human_gap"].notna()], rated(trials)])
        if known.empty:
            return Accepted(known, "needs people's labels of the same items or pairs: in the log, or from a data set")
        parts = (pd.concat([pairs, scores]), known)
        items, labelled = (len(part.drop_duplicates(["dataset", *_ITEM])) for part in parts)
        return Accepted(known, f"people labelled {labelled:,} of {count(items, 'item')}" if labelled < items else "")

    def estimate(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates frame."""
        frame = trials.assign(scale=trials["scale"].fillna(""), template=trials["template"].fillna(""))
        cells: dict[tuple[Any, ...], list[_Cell]] = {}
        for values, cell in each_cell(frame, _CELL):
            where = dict(zip(_CELL, values, strict=True))
            cells.setdefault(values[1:], []).append(_Cell(cell, where, self.resampling))
        rows = [row for alike in cells.values() for cell in alike for row in cell.rows(self.by)]
        for alike in cells.values():
            for one, other in combinations(alike, 2) if len(alike) <= _MANY_JUDGES else ():
                rows += one.against(other)
        tested = (*self.primary, *(row["metric"] for row in rows if row["metric"].endswith(_DIFFERENCE)))
        return estimates_frame(rows, self.name, tested, self.conditions)


class _Cell:
    """The labelled judgements of one cell, one row per judgement and person."""

    def __init__(self, trials: pd.DataFrame, where: Mapping[str, Any], resampling: Resampling) -> None:
        self.read, self.where, self.resampling = usable(trials), where, resampling
        self.lost = trials[~has_value(trials)]
        self.dropped = len(self.lost)
        self.is_pair = where["scale"] == ""
        self.frame = _verdicts(self.read) if self.is_pair else _with_people(self.read)
        both = self.frame[["judged", "labelled"]].to_numpy(float)
        passes = where["scale"] == "0-1" and np.isin(both, (0, 1)).all()
        self.kind: Literal["pair", "pass", ""] = "pair" if self.is_pair else "pass" if passes else ""
        names = self.read.get("human_scale", pd.Series(dtype=object)).replace("", np.nan).dropna().unique()
        self.other_scale = "" if self.is_pair or set(names) <= {where["scale"]} else ", ".join(map(str, names))

    @cached_property
    def keys(self) -> pd.DataFrame:
        """What each judgement is about."""
        return self.read[_ITEM].fillna("").reset_index(drop=True)

    @cached_property
    def asked(self) -> pd.MultiIndex:
        """What each judgement is about, also of those that could not be read."""
        return pd.MultiIndex.from_frame(pd.concat([self.read, self.lost])[_ITEM].fillna(""))

    @cached_property
    def labels(self) -> pd.DataFrame:
        """Every label once, of scores and of pass and fail."""
        return self.frame.drop_duplicates(["item", "person"])

    @property
    def has_ties(self) -> bool:
        """Whether a pair is tied, by the judge or by people."""
        return bool((self.frame[["judged", "labelled"]] == 0).any(axis=None))

    def compare(self, frame: pd.DataFrame, other: _Cell | None = None) -> VerdictAgreement | ScoreAgreement:
        """Return what to estimate from some rows of this cell, with the verdicts that it or another judge gives."""
        rows = Labelled.of(frame)
        if not self.kind:
            scale = bounded_scale(self.where["scale"])
            return ScoreAgreement(rows, None if scale is None else scale.high - scale.low)
        ties = self.has_ties or (other is not None and other.has_ties)
        classes = (0.0, 1.0) if self.kind == "pass" else (-1.0, 0.0, 1.0) if ties else (-1.0, 1.0)
        return VerdictAgreement(rows, classes, self.kind)

    def rows(self, by: Sequence[str]) -> list[dict[str, Any]]:
        """Return all rows of estimates."""
        if self.other_scale:
            reason = _OTHER_SCALE.with_values(people=self.other_scale, judge=self.where["scale"])
            missing = undefined(reason, self.frame["context_id"].nunique())
            return [*self.row({"exact_agreement": missing}, self.frame, self.dropped), *self.correlations()]
        compared = self.compare(self.frame)
        found = compared.estimates(self.resampling)
        for name, ratio in compared.ratios().items():
            found[name] = ratio.with_missing(found[name], len(self.read), self.dropped)
        where = " ".join(filter(None, (str(self.where[name]) for name in ("attribute", "template", "scale"))))
        what, planned = f"{HumanAgreement.name} ({where})", len(self.read) + self.dropped
        warn_missing(what, self.dropped, planned, "no verdict could be read")
        if not self.kind and "exact_agreement" not in found:
            found["exact_agreement"] = undefined(_NOT_WHOLE, self.frame["context_id"].nunique())
        rows = self.row(found, self.frame, self.dropped)
        rows += [*self.levels(), *self.tables(), *self.people(), *self.groups(by)]
        return rows if self.kind else [*rows, *self.correlations()]

    def row(
        self, found: Mapping[str, Estimate], frame: pd.DataFrame, dropped: int, **where: str
    ) -> list[dict[str, Any]]:
        """Return rows of estimates from some rows of this cell."""
        is_labels = where.get("rater") == _PEOPLE or "label" in where or "trial" not in frame
        n = len(frame) if is_labels else frame["trial"].nunique()
        return estimate_rows(found, {**self.where, "rater": _RATER, **where}, self.resampling, n, dropped)

    def against(self, other: _Cell) -> Iterator[dict[str, Any]]:
        """Yield the differences between two judges who were asked the same, on the items of both."""
        if self.kind != other.kind or self.other_scale or other.other_scale:
            return
        own, others = (pd.MultiIndex.from_frame(cell.keys) for cell in (self, other))
        frames = [
            cell.frame[pd.Series(mine.isin(theirs))[cell.frame["trial"]].to_numpy()]
            for cell, mine, theirs in ((self, own, others), (other, others, own))
        ]
        if not min(map(len, frames)):
            return
        with_judge = {"other_judge": str(other.where["judge"])}
        compared, against = self.compare(frames[0], other), self.compare(frames[1], other)
        n, asked = len(own.intersection(others)), self.asked.intersection(other.asked)
        found = _within_bounds(differences(compared, against, self.resampling), compared.ratios(), n, len(asked) - n)
        yield from self.row(found, frames[0], len(asked) - n, **with_judge)
        given = [cell.keys.assign(verdict=cell.frame.groupby("trial")["judged"].first()) for cell in (self, other)]
        both = given[0].merge(given[1], on=_ITEM, suffixes=("", "_other")).dropna()
        both = both.rename(columns={"verdict": "judged", "verdict_other": "labelled"})
        both = both.assign(item=both.groupby(_ITEM, sort=False).ngroup())
        found = self.compare(both, other).estimates(self.resampling, ("exact_agreement", *_KAPPAS))
        yield from self.row(found, both, 0, **with_judge)

    def levels(self) -> Iterator[dict[str, Any]]:
        """Yield pass rates or mean scores of the judge and of people."""
        if self.is_pair:
            return
        rows, name = Labelled.of(self.frame), "pass_rate" if self.kind else "mean_score"
        for rater, values in ((_RATER, rows.judged), (_PEOPLE, rows.labelled)):
            level = rows.rate(values == 1) if self.kind else rows.mean(values)
            counted = self.frame if rater == _RATER else self.labels
            yield from self.row({name: level.estimate(self.resampling)}, counted, 0, rater=rater)

    def tables(self) -> Iterator[dict[str, Any]]:
        """Yield the shares of verdicts and labels."""
        compared = self.compare(self.frame)
        if isinstance(compared, VerdictAgreement):
            for verdict, label, each, n in compared.table():
                words = {"verdict": _WORDS[self.kind][verdict], "label": _WORDS[self.kind][label]}
                yield from self.row({"verdict_share": each.estimate(self.resampling)}, self.frame[:n], 0, **words)
            return
        levels = np.unique(self.frame[["judged", "labelled"]])
        if len(levels) > _MANY_VERDICTS:
            return
        for level in levels.tolist():
            for column, name in (("judged", "verdict"), ("labelled", "label")):
                hit = self.frame[column].to_numpy(float) == level
                share = compared.rows.rate(hit).estimate(self.resampling)
                shown = self.frame[hit] if name == "verdict" else self.labels[self.labels["labelled"] == level]
                yield from self.row({"verdict_share": share}, shown, 0, **{name: f"{level:g}"})

    def people(self) -> Iterator[dict[str, Any]]:
        """Yield people's agreement with each other, and each person left out beside the judge, on the same labels."""
        if "person" not in self.frame or self.frame.groupby("item")["person"].nunique().max() < 2:
            return
        labels = self.labels
        each = rater_pairs(labels)
        several = self.frame[self.frame["item"].isin(each["item"])]
        yield from self.beside(each, several, "each")
        named = "annotators" in self.read and self.read["annotators"].fillna("").ne("").any()
        people = labels["person"].unique()
        for person in people if named and len(people) <= _MANY_PEOPLE else ():
            own = labels[labels["person"] == person][["item", "labelled"]].rename(columns={"labelled": "judged"})
            others = labels[labels["person"] != person].drop(columns="judged").merge(own, on="item")
            rest = several[(several["person"] != person) & several["item"].isin(others["item"])]
            if len(others):
                yield from self.beside(others, rest, str(person))

    def beside(self, people: pd.DataFrame, judge: pd.DataFrame, left_out: str) -> Iterator[dict[str, Any]]:
        """Yield the agreement of people and of the judge with the same labels."""
        for rater, frame in ((_PEOPLE, people), (_RATER, judge)):
            found = self.compare(frame).estimates(self.resampling, _OF_CEILING)
            yield from self.row(found, frame, 0, rater=rater, left_out=left_out)

    def groups(self, by: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield agreement and leniency of each group, and their differences from all others."""
        for name, member in _groupings(pd.concat([self.read, self.lost]), self.is_pair, by):
            of_row, of_lost = self.frame["trial"].map(member), member[len(self.read) :]
            members = of_row.value_counts().index
            for place, value in enumerate(members):
                redundant = len(members) == 2 and place == 1 and of_row.notna().all()
                lost = int((of_lost == value).sum())
                yield from self.group((of_row == value).to_numpy(), lost, not redundant, group=name, member=str(value))

    def group(self, inside: Bools, lost: int, with_gap: bool, **where: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of one group, of which some judgements are missing."""
        own, others = (self.compare(self.frame[part]).ratios() for part in (inside, ~inside))
        shown = {name: replace(own[name], null=None).estimate(self.resampling) for name in _OF_GROUPS if name in own}
        compared = [name for name in _GAPS if (name == "exact_agreement") != (self.kind == "pass") and with_gap]
        read = [self.frame.loc[part, "trial"].nunique() for part in (inside, ~inside)]
        for name in (name for name in compared if name in own and name in others):
            if min(np.count_nonzero(rates[name].denominator) for rates in (own, others)) >= _LEAST:
                gap = contrast(own[name], others[name], self.resampling)
                sides = (own[name], read[0], lost), (others[name], read[1], self.dropped - lost)
                shown[f"{name}_gap"] = _with_missing(gap, sides) if self.dropped else gap
        yield from self.row(shown, self.frame[inside], lost, **where)

    def correlations(self) -> Iterator[dict[str, Any]]:
        """Yield correlations of mean scores with mean human scores."""
        items = self.read.groupby(_ITEM[:2], sort=False)[["value", "human"]].mean().reset_index()
        items = items.assign(score=items["value"], system=items["candidate_id"], judge="", dataset="", attribute="")
        several = items.groupby("context_id").size().median() >= _VARIES
        possible = {"dataset": True, "context": several, "system": _are_systems(items)}
        levels = [level for level in get_args(Level) if possible[level]]
        for level in levels:
            slow = ("kendall",) if level == "dataset" and len(items) > _SLOW else ()
            methods = [method for method in get_args(CorrelationMethod) if method not in slow]
            found = agreement(items, levels=[level], coefficients=methods, resampling=self.resampling, by=())
            for row in found.to_dict("records"):
                own = {str(name): value for name, value in row.items()}
                yield {**own, **self.where, "rater": _RATER, "metric": "correlation"}


def _within_bounds(found: Mapping[str, Estimate], rates: Mapping[str, Ratio], n: int, lost: int) -> dict[str, Estimate]:
    """Return differences between judges with bounds, given how many items both judged, and how many lack a verdict."""
    of = {f"{name}{_DIFFERENCE}": replace(rate, bounds=(-1.0, 1.0)) for name, rate in rates.items() if rate.bounds}
    unbounded = [Note("unbounded")] if lost > MISSING_SHARE * (n + lost) else []
    return {
        name: of[name].with_missing(each, n, lost) if name in of else each.noted(*unbounded)
        for name, each in found.items()
    }


def _with_missing(gap: Estimate, sides: Sequence[tuple[Ratio, int, int]]) -> Estimate:
    """Return a difference of two rates with bounds, given the judgements read and missing of each, at 0 or at 1."""
    one, other = (float(np.nansum(side.numerator) / np.nansum(side.denominator)) for side, _, _ in sides)
    lost, missing = (side.missing_share(read, dropped) for side, read, dropped in sides)
    low = gap.ci_low - lost * one - missing * (1 - other)
    high = gap.ci_high + lost * (1 - one) + missing * other
    return replace(gap, bound_low=low, bound_high=high)


def _are_systems(items: pd.DataFrame) -> bool:
    """Return whether most candidates occur in several contexts, so that they are systems and not texts."""
    contexts = items["candidate_id"].value_counts()
    return len(contexts) > 1 and bool((contexts > 1).mean() > 0.5)


def _verdicts(read: pd.DataFrame) -> pd.DataFrame:
    """Return one row per judgement of a pair: the sign of the verdict and of people's preference."""
    value = read["value"].to_numpy(float)
    judged = np.where(read["status"] == "tie", 0.0, np.sign(np.round(value - 0.5, 12)))
    labelled = np.sign(read["human_gap"].to_numpy(float))
    one, two = read["candidate_id"], read["opponent_id"]
    ahead = one < two
    pair = pd.DataFrame({"context": read["context_id"], "one": one.where(ahead, two), "two": two.where(ahead, one)})
    item = pair.groupby(["context", "one", "two"], sort=False).ngroup()
    return pd.DataFrame({"context_id": read["context_id"].to_numpy(), "item": item.to_numpy(), "judged": judged,
                         "labelled": labelled, "trial": np.arange(len(read))})  # fmt: skip


def _with_people(read: pd.DataFrame) -> pd.DataFrame:
    """Return one row per score and person; an item without single ratings has one row with its mean human score."""
    item = read.groupby(_ITEM[:2], sort=False).ngroup().to_numpy()
    human = read["human"].to_numpy(float)
    ratings = read_ratings(read, human)
    single = np.setdiff1d(np.arange(len(read)), ratings["item"])
    trial = np.concatenate([ratings["item"].to_numpy(int), single])
    labels: Floats = np.concatenate([ratings["score"].to_numpy(float), human[single]])
    person = np.concatenate([ratings["annotator"].to_numpy(object), np.full(len(single), "0", object)])
    frame = pd.DataFrame({"context_id": read["context_id"].to_numpy()[trial], "item": item[trial],
                          "judged": read["value"].to_numpy(float)[trial], "labelled": labels,
                          "person": person, "trial": trial})  # fmt: skip
    return frame.sort_values("trial", kind="stable", ignore_index=True)


def _groupings(read: pd.DataFrame, is_pair: bool, by: Sequence[str]) -> Iterator[tuple[str, pd.Series]]:
    """Yield each grouping of judgements by name, as the member of each judgement's place."""
    columns: dict[str, pd.Series] = {name: read[name] for name in by}
    columns |= {"subset": read["subset"]} if "subset" not in columns else {}
    if not is_pair:
        if _are_systems(read.drop_duplicates(_ITEM[:2])):
            columns["system"] = read["candidate_id"]
        words = read["words"]
        if words.notna().all() and words.nunique() >= _VARIES:
            third = pd.qcut(words.rank(method="first"), 3, labels=["short", "middle", "long"])
            columns["length"] = third.astype(str)
    for name, values in columns.items():
        known = values.astype("str").where(values.notna() & (values.astype("str") != "")).reset_index(drop=True)
        if 1 < known.nunique() <= _MANY_GROUPS:
            yield name, known
