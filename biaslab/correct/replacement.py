"""Can a judge replace a person, and which of its verdicts may stand? One answer, in sentences with numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import fits, require_one_of, require_share, require_whole
from biaslab.core.errors import InputError
from biaslab.core.metrics import Metric, declare_metrics
from biaslab.core.output import PrintedText, count, number, with_interval
from biaslab.correct.abstention import Selection, contexts_for_people, risk_coverage, select
from biaslab.correct.alternative import (
    ALIGNMENTS,
    FEWEST_ITEMS,
    HALF,
    Alignment,
    Contest,
    Decision,
    ItemPlan,
    decide,
    plan_items,
)
from biaslab.correct.annotations import Annotations, ByAnnotator, read_annotations
from biaslab.correct.confidence import Confidences, Recalibration, recalibrated, share
from biaslab.correct.label_plan import Choosing
from biaslab.stats.estimate import Estimate
from biaslab.stats.frame import estimate_rows, estimates_frame
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

#: Value of the column ``probe`` in its estimates.
NAME = "replace"
METRICS = (
    Metric("winning_rate", "ω, annotators that the judge may replace", "share", quality=True),
    Metric("advantage_probability", "ρ, items on which the judge is as good as an annotator", "share", quality=True),
    Metric("headline_change", "new judge's mean of new items minus old judge's of old ones", "points"),
    Metric("judge_part", "the judge's part: new minus old judge on the same items", "points"),
    Metric("systems_part", "the systems' part: change of the mean less the judge's part", "points"),
    Metric("system_shift", "new minus old judge for one system, less that for all", "points"),
    Metric("agreement_gain", "closeness to people, new minus old judge", "share of the scale"),
    Metric("panel_reliability", "reliability of the panel's mean score, Eρ²", quality=True),
    Metric("panel_validity", "correlation of the panel with what people agree on", quality=True),
    Metric("expert_validity", "correlation of one person with what people agree on"),
    Metric(
        "panel_lead",
        "correlation of the panel less that of one person",
        null=0.0,
        above="is better than one person",
        below="is worse than one person",
    ),
    Metric("annotator_lead", "items won by the annotator minus those won by the judge", "share"),
    Metric("agreement_of_verdicts", "people who agree with a verdict", "share", quality=True),
    Metric("selective_error", "people who disagree with a verdict that stands", "share"),
    Metric("stands", "verdicts that may stand at the promised error", "share"),
    Metric(
        "overconfidence",
        "confidence minus agreement of people",
        "share",
        null=0.0,
        above="is more confident than people agree with it",
        below="is less confident than people agree with it",
        advice="recalibrate its confidence on labelled contexts",
        use="verdicts selected by their stated confidence",
        matters=0.05,
        primary=True,
    ),
    Metric(
        "lean_towards_yes",
        "probability of yes minus people's share of yes",
        "share",
        null=0.0,
        above="leans towards yes",
        below="leans towards no",
        matters=0.05,
        primary=True,
    ),
    Metric("agreement_at_confidence", "people who agree with verdicts of a confidence", "share"),
    Metric("calibration_error", "calibration error (root mean square, debiased)", "share"),
    Metric("brier_score", "Brier score", "share"),
    Metric("brier_reliability", "Brier score, reliability", "share"),
    Metric("brier_resolution", "Brier score, resolution", "share"),
    Metric("brier_uncertainty", "Brier score, uncertainty", "share"),
    Metric("error_auroc", "AUROC of errors: confidence tells right from wrong", "share", null=0.5, quality=True),
)
declare_metrics(NAME, METRICS)
_CONDITIONS = (
    *("attribute", "epsilon", "alignment", "left_out", "other_judge"),
    *("promised_error", "threshold", "coverage", "confidence", "recalibration"),
)
_TESTED = ("overconfidence", "lean_towards_yes", "advantage_probability_difference")
_RECALIBRATED = ("calibration_error", "brier_score")
_WITHIN = 1.0  # points by which people's scores may differ from one that they agree with,
_OF_SCALE = 0.25  # but at most this share of the scale: of codes 1 and 2, both would agree with everything
_DIGITS = 2


@dataclass(frozen=True, eq=False)
class ReplacedJudge:
    """What is known of one judge.

    Attributes
    ----------
    judge, dataset, attribute : str
        Which judgements.
    decision : {"yes", "no", "cannot tell"}
        Whether it may replace one of these annotators; yes only if it may too with missing verdicts counted as lost.
    epsilon : float
        Threshold of the test.
    winning_rate, advantage_probability : Estimate
        ω and ρ.
    annotators : pandas.DataFrame
        One row per annotator left out: ``annotator, items, contexts, judge_wins, annotator_wins, p_value, p_adjusted,
        replaceable``.
    contest : Contest
        The items that judge and annotators won, by context, from which `biaslab.replace.plan_items` plans.
    plan : ItemPlan or None
        If it cannot be told: the number of contexts that would settle it.
    selection : Selection
        Which verdicts may stand.
    confidence : dict of str to Estimate
        Calibration error and others, if the judge's confidence is known.
    items : pandas.DataFrame
        ``context_id, item`` (of trials also ``candidate_id, opponent_id``), ``judged, confidence, labels`` (how many
        people gave one), ``loss, stands`` and, if confidences are known, ``temperature, isotonic``: the confidence
        recalibrated on other contexts. Items that do not stand go to people, and so do those without a verdict.
    source : str
        What confidences are.
    within : float
        Points by which a score may differ from people's without counting as an error.
    ranges : str
        For scores, the smallest and the largest of the judge and of people, in words.
    """

    judge: str
    dataset: str
    attribute: str
    decision: Decision
    epsilon: float
    winning_rate: Estimate
    advantage_probability: Estimate
    annotators: pd.DataFrame
    contest: Contest
    plan: ItemPlan | None
    selection: Selection
    confidence: dict[str, Estimate]
    items: pd.DataFrame
    source: str
    within: float
    ranges: str

    def contexts_for_people(self, budget: int, how: Choosing = "uncertain", seed: int = 0) -> pd.DataFrame:
        """Choose contexts for people to label among those with verdicts that may not stand.

        Parameters and result are those of `biaslab.correct.choose_contexts`.
        """
        return contexts_for_people(self.items, self.selection, budget, how, seed)

    def sentences(self) -> Iterator[str]:
        """Yield the answer, one sentence at a time."""
        people = f"may replace one of these {count(len(self.annotators), 'annotator')} at ε = {self.epsilon:g}"
        if math.isnan(self.winning_rate.estimate):
            yield f"may replace a person: cannot tell ({self.winning_rate.note})"
        else:
            omega, rho = (
                with_interval(each.row(), _DIGITS) for each in (self.winning_rate, self.advantage_probability)
            )
            yield f"{people}: {self.decision} (ω {omega}, ρ {rho})"
            if self.decision == "cannot tell" and self.winning_rate.estimate >= HALF:
                missing = count(int(self.items["judged"].isna().sum()), "item")
                yield f"yes, but for {missing} without a verdict: counted as lost, they would turn it"
        if self.plan is not None:
            yield f"what would settle it, if annotators are ahead by as much as here: {self.plan}"
        yield f"which verdicts may stand: {self.selection}{self._of_scores()}"
        error = self.confidence.get("calibration_error")
        if error is not None and not math.isnan(error.estimate):
            over = with_interval(self.confidence["overconfidence"].row(), _DIGITS)
            shown = with_interval(error.row(), _DIGITS)
            yield f"confidence ({self.source}): calibration error {shown}, confidence minus agreement {over}"
        auroc = self.confidence.get("error_auroc")
        if auroc is not None and not math.isnan(auroc.estimate):
            yield f"confidence tells right from wrong with AUROC {with_interval(auroc.row(), _DIGITS)}"
        rest, unlabelled = int((~self.selection.stands).sum()), len(self.for_people)
        yield f"for people: {count(rest, 'verdict')} of {len(self.items):,}, {unlabelled:,} still to label"

    @property
    def for_people(self) -> pd.DataFrame:
        """The items that people must still label, without the verdict: as `Replacement.for_people`."""
        left = self.items[~self.items["stands"] & (self.items["labels"] == 0)]
        names = [name for name in ("context_id", "candidate_id", "opponent_id") if name in left]
        if len(names) > 1:
            return left[names].assign(attribute=self.attribute, annotator="", score="")
        return left[["item", *names]].assign(annotator="", label="")

    def _of_scores(self) -> str:
        error = f"; an error is a difference above {self.within:g}" if self.within else ""
        return f"{error}{self.ranges}"


@dataclass(frozen=True, eq=False)
class Replacement(PrintedText):
    """Whether judges may replace a person, and which of their verdicts may stand; prints as sentences.

    Attributes
    ----------
    estimates : pandas.DataFrame
        An estimates frame, ``probe`` "replace", for tables, macros, cards and methods (`biaslab.report`); see
        `biaslab.replace`.
    judges : tuple of ReplacedJudge
        One per judge, data set and attribute.
    """

    estimates: pd.DataFrame
    judges: tuple[ReplacedJudge, ...]

    @property
    def for_people(self) -> pd.DataFrame:
        """The items that people must still label: a verdict may not stand, and nobody has labelled them.

        A table without verdicts, which would anchor people; with empty columns for their names and labels, as
        `biaslab.correct` (of trials) and `biaslab.replace` read them.
        """
        return pd.concat([each.for_people for each in self.judges]).drop_duplicates(ignore_index=True)

    def __getitem__(self, judge: str) -> ReplacedJudge:
        """Return the first entry of a judge."""
        require_one_of("judge", judge, [each.judge for each in self.judges])
        return next(each for each in self.judges if each.judge == judge)

    def __str__(self) -> str:
        return "\n".join(line for head, lines in self._parts() for line in (head, *(f"  {one}" for one in lines)))

    def to_html(self) -> str:
        """Return the sentences as HTML."""
        lists = ((escape(head), "".join(f"<li>{escape(one)}</li>" for one in lines)) for head, lines in self._parts())
        return "".join(f"<p><b>{head}</b></p><ul>{lines}</ul>" for head, lines in lists)

    _repr_html_ = to_html

    def _parts(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the judge, with data set and attribute if they vary, and its sentences; last the judges compared."""
        varying = [name for name in ("dataset", "attribute") if len({getattr(each, name) for each in self.judges}) > 1]
        for each in self.judges:
            yield ", ".join([each.judge, *(getattr(each, name) for name in varying)]), list(each.sentences())
        rows = self.estimates[self.estimates["metric"] == "advantage_probability_difference"].dropna(subset="estimate")
        if len(rows):
            lines = [
                f"{row['judge']} − {row['other_judge']}: ρ {with_interval(row, _DIGITS)}, q {number(row['q_value'])}"
                for row in rows.to_dict("records")
            ]
            yield "judges compared", lines


def replace(
    judged: pd.DataFrame | ByAnnotator,
    labels: pd.DataFrame | ByAnnotator | Dataset | str | Path | None = None,
    *,
    judges: Sequence[str] | None = None,
    epsilon: float = 0.1,
    alignment: Alignment | None = None,
    error: float = 0.1,
    within: float | None = None,
    least: int = FEWEST_ITEMS,
    confidence: str | None = None,
    resampling: Resampling | None = None,
) -> Replacement:
    """Answer whether a judge may replace a person who labels, and which of its verdicts may stand.

    Parameters
    ----------
    judged : pandas.DataFrame or mapping
        Trials of pairs, scores or pass and fail (`biaslab.collect`, `biaslab.read_judgements`); a table of labels,
        ``annotator, item, label`` and optionally ``context``, ``confidence`` (0 to 1); or a mapping of judge to item to
        label. Labels of a table or mapping are words or numbers.
    labels : DataFrame, mapping, Dataset, or path, optional
        People's labels: for trials as in `biaslab.correct`, with a column ``annotator`` to tell people apart; otherwise
        a table or mapping like `judged`. By default those that `judged` holds.
    judges : sequence of str, optional
        Which annotators are judges, in a table that holds people's labels too; otherwise by default all.
    epsilon : float
        How much worse than an annotator the judge may be, as a share of items, because it costs less: .2 for experts,
        .15 for skilled people, .1 for crowd workers (Calderon et al. 2025).
    alignment : {"accuracy", "neg_rmse"} or callable, optional
        How well a label agrees with the others': the share that are equal, minus the root mean squared difference, or a
        function of a label and the list of the others'. By default "neg_rmse" for numbers other than 0 and 1.
    error : float
        Promised share of people who disagree with a verdict that stands.
    within : float, optional
        Points by which a score may differ from a person's who agrees with it; by default 1 for scores, but at most a
        quarter of the range of labels and verdicts, else 0.
    least : int
        Items that an annotator must have labelled together with others, 30 as published.
    confidence : str, optional
        Column of the judge's confidence in its verdict, from 0 to 1; by default ``confidence`` of a table of labels,
        and for trials what label probabilities, samples or both orders show.
    resampling : Resampling, optional
        Confidence level of intervals and of the promised error, and related contexts.

    Returns
    -------
    Replacement
        Its estimates have the metrics ``winning_rate`` (ω), ``advantage_probability`` (ρ), ``annotator_lead`` (column
        ``left_out``; p is one-sided against epsilon, not corrected), ``advantage_probability_difference`` (column
        ``other_judge``); ``stands``, ``agreement_of_verdicts`` and ``selective_error`` (columns ``threshold``,
        ``coverage``); and, if confidences are known, ``calibration_error``, ``overconfidence``, ``lean_towards_yes``,
        ``brier_score`` and its parts, ``error_auroc`` (column ``recalibration``: none, temperature, isotonic, the last
        two fitted on other contexts).

    Raises
    ------
    InputError, TrialsError
        If an option is out of range, columns are missing, an annotator labelled an item twice, no item has both a
        verdict and a label, or labels are on another scale than verdicts.

    Notes
    -----
    With one annotator, annotators without names, too few items, or constant labels, ω and ρ are NaN with the reason,
    and the rest is estimated. Confidence is the larger label probability of the mean over both orders; the share of
    samples that agree; or whether both orders do. Contexts are the sampling unit throughout.

    References
    ----------
    Calderon, Reichart & Dror 2025, *The alternative annotator test for LLM-as-a-judge*, ACL, arXiv 2501.10970.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(2, size=80)
    >>> people = {name: dict(enumerate(np.where(rng.random(80) < 0.2, 1 - truth, truth))) for name in "abc"}
    >>> found = replace({"judge": dict(enumerate(truth))}, people, error=0.3)
    >>> found["judge"].decision, found["judge"].winning_rate.estimate
    ('yes', 1.0)
    """
    how = resampling or Resampling()
    if not (fits(epsilon, float) and 0 <= epsilon < 1):
        raise InputError("epsilon", epsilon, "a number from 0 to below 1", "such as 0.2 for experts")
    if not (alignment is None or callable(alignment)):
        require_one_of("alignment", alignment, ALIGNMENTS)
    require_share("error", error, "use 0.1 for 10 %")
    require_whole("least", least, 2)
    if within is not None and not (fits(within, float) and 0 <= within < math.inf):
        raise InputError("within", within, "a number of points from 0", "0 if labels must be equal")
    rows: list[dict[str, Any]] = []
    found: list[ReplacedJudge] = []
    for each in read_annotations(judged, labels, judges, confidence):
        judge = _Judge(each, alignment, within, least, how)
        replaced = judge.replaced(epsilon, error)
        rows += judge.rows(replaced)
        found.append(replaced)
    for one, other in combinations(found, 2):
        own, theirs = one.contest, other.contest
        if (one.dataset, one.attribute) == (other.dataset, other.attribute) and own.names and theirs.names:
            where = {"judge": one.judge, "dataset": one.dataset, "attribute": one.attribute, "other_judge": other.judge}
            difference = {"advantage_probability_difference": own.against(theirs, how)}
            rows += estimate_rows(difference, where, how, int(own.items.sum()), 0)
    frame = estimates_frame(rows, NAME, _TESTED, _CONDITIONS)
    return Replacement(frame, tuple(found))


class _Judge:
    """The labels of one judge, and how they are compared."""

    def __init__(
        self, given: Annotations, alignment: Alignment | None, within: float | None, least: int, how: Resampling
    ) -> None:
        self.given, self.how, self.least = given, how, least
        self.alignment: Alignment = alignment or ("neg_rmse" if given.kind == "score" else "accuracy")
        if given.kind == "word" and self.alignment == "neg_rmse":
            raise InputError("alignment", "neg_rmse", "accuracy or a function for labels that are words")
        low, high = given.scale
        default = min(_WITHIN, _OF_SCALE * (high - low)) if given.kind == "score" else 0.0
        self.within = default if within is None else within
        self.context = np.asarray(how.cluster_of(given.items["context_id"]), object)
        named = given.names if given.told_apart else []
        people = given.people if named else given.people[:, :0]
        self.verdict = given.items["judged"].to_numpy(float)
        compare = partial(Contest.of, self.verdict, people, self.context, named, self.alignment, given.words, least)
        self.contest = compare()
        self.worst = compare(missing_lose=True) if np.isnan(self.verdict).any() else self.contest
        self.loss = given.loss(self.within)
        self.labelled = ~np.isnan(self.loss)
        sure = given.items["confidence"].to_numpy(float)
        self.sure = np.full_like(sure, np.nan) if given.source == "none" else sure
        seen = (self.sure, 1 - self.loss, self.context)
        known = bool((~np.isnan(self.sure) & self.labelled).any())
        self.recalibrated = {name: recalibrated(*seen, name, how.seed) for name in get_args(Recalibration) if known}

    def replaced(self, epsilon: float, error: float) -> ReplacedJudge:
        """Return what is known of the judge."""
        given, contest = self.given, self.contest
        omega = contest.winning_rate(epsilon, self.how)
        decision = decide(omega)
        if decision == "yes" and decide(self.worst.winning_rate(epsilon, self.how)) != "yes":
            decision = "cannot tell"
        undecided = decision == "cannot tell" and omega.estimate < HALF and int(contest.shortfall[2].min()) > 1
        plan = plan_items(contest, epsilon) if undecided else None
        sure = given.items["confidence"].to_numpy(float)
        alike = np.where(np.isnan(self.verdict), math.nan, 1.0)  # without confidences, all may stand or none
        every = alike if np.isnan(sure).all() else sure
        selection = select(every, self.loss, self.context, error, self.how)
        items = given.items.drop(columns="yes", errors="ignore")
        if given.words:
            items = items.assign(judged=items["judged"].map(dict(enumerate(given.words))))
        items = items.assign(
            labels=(~np.isnan(given.people)).sum(axis=1), loss=self.loss, stands=selection.stands, **self.recalibrated
        )
        where = {name: str(given.where[name]) for name in ("judge", "dataset", "attribute")}
        rho, table = contest.advantage_probability(self.how), contest.table(epsilon)
        return ReplacedJudge(
            **where, decision=decision, epsilon=epsilon, winning_rate=omega, advantage_probability=rho,
            annotators=table, contest=contest, plan=plan, selection=selection, confidence=self.confidences(),
            items=items, source=given.source, within=self.within, ranges=self._ranges(),
        )  # fmt: skip

    def _ranges(self) -> str:
        if self.given.kind != "score":
            return ""
        ends = (f"{np.nanmin(part):g} to {np.nanmax(part):g}" for part in (self.verdict, self.given.people))
        return "; the judge gives {}, people {}".format(*ends)

    def confidences(self) -> dict[str, Estimate]:
        """Return what is known of confidences, if the judge has any."""
        known = self._known()
        if known is None:
            return {}
        found = known.estimates(self.how)
        if self.given.kind == "pass":
            lean = self.given.items["yes"].to_numpy(float) - np.nan_to_num(self.given.people).sum(axis=1) / np.maximum(
                (~np.isnan(self.given.people)).sum(axis=1), 1
            )
            known_yes = self.labelled & ~np.isnan(lean)
            lean, context = lean[known_yes], self.context[known_yes]
            mean = Ratio(context, lean, np.ones(len(lean)), 0.0, (-1.0, 1.0), inference="t")
            found["lean_towards_yes"] = mean.estimate(self.how)
        return found

    def _known(self, confidence: Floats | None = None) -> Confidences | None:
        """Return the labelled verdicts with a confidence, or with another in its place; None if there is none."""
        known = ~np.isnan(self.sure) & self.labelled
        if not known.any():
            return None
        shown = self.sure if confidence is None else confidence
        return Confidences(shown[known], 1 - self.loss[known], self.context[known])

    def rows(self, found: ReplacedJudge) -> Iterator[dict[str, Any]]:
        """Yield the rows of the estimates frame."""
        where = {**self.given.where, "alignment": self.alignment if isinstance(self.alignment, str) else "function"}
        tested, contest = {**where, "epsilon": found.epsilon}, self.contest
        both = {"winning_rate": found.winning_rate, "advantage_probability": found.advantage_probability}
        yield from estimate_rows(both, tested, self.how, int(contest.items.sum()), self.given.dropped)
        for name, lead, n in contest.leads(found.epsilon, self.how):
            yield from estimate_rows({"annotator_lead": lead}, {**tested, "left_out": name}, self.how, n, 0)
        n, seen = int(self.labelled.sum()), self.context[self.labelled]
        right = share(seen, 1 - self.loss[self.labelled], self.how)
        yield from estimate_rows({"agreement_of_verdicts": right}, self.given.where, self.how, n, self.given.dropped)
        stands, selection = found.selection.stands, found.selection
        promised = {**self.given.where, "promised_error": selection.error, "threshold": selection.threshold}
        stood = share(self.context, stands.astype(float), self.how)
        yield from estimate_rows({"stands": stood}, promised, self.how, len(stands), self.given.dropped)
        every = self.given.items["confidence"].to_numpy(float)
        for at, loss in risk_coverage(every, self.loss, self.context, self.how):
            yield from estimate_rows({"selective_error": loss}, {**self.given.where, **at}, self.how, n, 0)
        yield from estimate_rows(found.confidence, {**self.given.where, "recalibration": "none"}, self.how, n, 0)
        if (known := self._known()) is None:
            return
        for sure, agreed in known.diagram(self.how):
            yield from estimate_rows(
                {"agreement_at_confidence": agreed}, {**self.given.where, "confidence": sure}, self.how, n, 0
            )
        for name, confidence in self.recalibrated.items():
            if (again := self._known(confidence)) is not None:
                values = {metric: each for metric, each in again.estimates(self.how).items() if metric in _RECALIBRATED}
                yield from estimate_rows(values, {**self.given.where, "recalibration": name}, self.how, n, 0)
