"""All biases at once: each alone beside each jointly, and what judgements would be without them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.core.checks import require_fits, require_some_of, unknown
from biaslab.core.errors import InputError
from biaslab.core.metrics import Metric, declare_metrics
from biaslab.core.output import PrintedText, count, number, with_interval
from biaslab.core.schema import Dataset, count_words
from biaslab.correct.estimators import logit_interval
from biaslab.correct.labels import AnyLabels, with_labels
from biaslab.logs.audit.pair_measures import why_order_follows
from biaslab.logs.audit.run import columns_to_keep, prepared, readable_judges, recorded_trials, with_clusters
from biaslab.logs.readers.documents import LogInput
from biaslab.logs.readers.human_scores import with_humans
from biaslab.probes.base.feature_probe import add_perplexities, as_verdicts, bounded_scale, level_of, seen_from
from biaslab.probes.base.joint_model import JointPairs, JointScores, at_each_share, confounded
from biaslab.probes.base.probe import paired, rated
from biaslab.stats.blocks import ITEM, each_cell, has_value
from biaslab.stats.estimate import Estimate, Note, because, notes_of, significant, undefined, without_interval
from biaslab.stats.frame import corrected, estimate_rows, estimates_frame
from biaslab.stats.regression import LEAST_BESIDE, JointLogOdds, demeaned, small_sample_error, sums_of_products
from biaslab.stats.reliability import LEAST_RELIABILITY, depends_on_reliability
from biaslab.stats.resample import Resampling, grouped_codes, without_each
from biaslab.stats.sequential import require_fixed
from biaslab.stats.t_inference import estimate_by_t

#: Value of the column ``probe`` in its estimates.
NAME = "joint"
_FAVOURS: dict[str, Any] = {
    "above": "favours texts with more of it at equal human label", "use": "comparing texts that differ in it",
    "below": "favours texts with less of it at equal human label", "matters": 0.2,
    "advice": "adjust for it, or compare texts that are alike in it", "null": 0.0, "primary": True,
}  # fmt: skip
_GAIN: dict[str, Any] = {
    "above": "would agree with people more without it", "below": "would agree with people less without it",
    "null": 0.0, "primary": True,
}  # fmt: skip
METRICS = (
    Metric("bias_log_odds", "effect at equal human label", "log odds", **_FAVOURS),
    Metric("bias_points", "effect at equal human label", "points", **_FAVOURS),
    Metric("shared_log_odds", "bias alone that is due to other terms", "log odds", 0.0, primary=True),
    Metric("shared_points", "bias alone that is due to other terms", "points", 0.0, primary=True),
    Metric("agreement_gain", "agreement with people without a bias minus with it", **_GAIN),
    Metric("correlation_gain", "correlation with people without a bias minus with it", **_GAIN),
    Metric("agreement", "verdicts on pairs that agree with people", "share", quality=True),
    Metric("cohen_kappa", "agreement with people beyond chance", quality=True),
    Metric("correlation", "correlation with people's scores", quality=True),
    Metric("win_rate", "share of decided pairs won", "share", subject="system"),
)
declare_metrics(NAME, METRICS)
_TESTED = tuple(metric.name for metric in METRICS if metric.primary)
_BIASES = ("bias_log_odds", "bias_points")
_CELL = ("judge", "dataset", "attribute", "template", "configuration", "scale")
_CONDITIONS = (*_CELL[2:], "term", "given", "per", "other", "without", "system")
_ALONE, _JOINTLY = "alone", "jointly"
_LENGTH, _FAMILIARITY, _LISTS, _MARKDOWN, _POSITION, _OWN = (
    "length", "familiarity", "lists", "markdown", "position", "own",
)  # fmt: skip
_PER = {_LENGTH: "doubling", _POSITION: "", _OWN: ""}  # of others, a standard deviation
_LIST_ITEM = re.compile(r"(?m)^\s*(?:[-*+•]|\d+[.)])\s")
_MARKUP = re.compile(r"(?m)^#{1,6}\s|\*\*[^*\n]+\*\*")
_COUNTED: Mapping[str, Callable[[str], float]] = {
    _LENGTH: count_words, _LISTS: lambda text: len(_LIST_ITEM.findall(text)),
    _MARKDOWN: lambda text: len(_MARKUP.findall(text)),
}  # fmt: skip
_LEAST_KNOWN = 0.5  # of the judgements, for which a term must be known
_FEWEST_OF_SYSTEM, _MOST_SYSTEMS, _MOST_TOLD = 10, 24, 4
_MOSTLY = 0.5
_RARELY_KNOWN = because("rarely_known", "{term} is known of {known} of {all} judgements")
_NO_LABELS = "no judgement has people's label; pass labels: a data set, a table or a file"

_NO_TERMS = "neither order nor lengths nor another term of the judgements is known; name covariates"


@dataclass(frozen=True, eq=False)
class JointBiases(PrintedText):
    """Biases alone and jointly, and agreement with people without them; prints as sentences.

    Attributes
    ----------
    estimates : pandas.DataFrame
        An estimates frame, ``probe`` "joint"; see `biaslab.joint`.
    """

    estimates: pd.DataFrame

    def __str__(self) -> str:
        return "\n".join(line for _, cell in each_cell(self.estimates, _CELL) for line in _sentences(cell))


def joint(
    judged: LogInput,
    labels: AnyLabels | None = None,
    *,
    covariates: Sequence[str] = (),
    own: Mapping[str, str] | None = None,
    without: Sequence[str] | None = None,
    reliability: float | None = None,
    cluster: str | None = None,
    resampling: Resampling | None = None,
) -> JointBiases:
    """Estimate all biases of judges at once, at equal human label, and what judgements would be without them.

    Parameters
    ----------
    judged : DataFrame, path, or a table of another package
        Judgements of pairs or scores, as in `biaslab.audit`, with people's labels.
    labels : Dataset, DataFrame or path, optional
        People's labels, if judgements lack them, as in `biaslab.correct`. Texts of a data set give length, lists and
        Markdown.
    covariates : sequence of str
        Further terms, ``"COLUMN"`` or ``"TERM=COLUMN"`` of scores, ``"TERM=FIRST,SECOND"`` of pairs, the columns of the
        candidate named first and of its opponent (by default COLUMN and ``opponent_COLUMN``); columns may be added,
        ``a+b``. The terms *length*, *familiarity*, *lists* and *markdown* are read from words, log perplexities and
        counts, or from texts; others are numbers as they are.
    own : mapping of str to str, optional
        The own system of each judge; by default the column ``judge_system`` or the system of the judge's name.
    without : sequence of str, optional
        Terms to leave out together; by default each by itself and all.
    reliability : float, optional
        Reliability of people's labels, as in `biaslab.audit`.
    cluster : str, optional
        Column by which contexts are related, as in `biaslab.audit`.
    resampling : Resampling, optional
        Confidence level and clusters.

    Returns
    -------
    JointBiases
        Its estimates have, for each ``term``, ``bias_log_odds`` of pairs or ``bias_points`` of scores with ``given``
        "alone" (only this term and the label) and "jointly" (all terms); ``shared_log_odds`` or ``shared_points``, the
        part of the bias alone that is due to the others, and to each ``other``; and for each set ``without``, ""
        being none, ``agreement``, ``cohen_kappa`` and the ``win_rate`` of each ``system``, or ``correlation``; and
        ``agreement_gain`` or ``correlation_gain``, the change of these, tested against 0.

    Raises
    ------
    InputError
        If a term, column or option is unknown, or no judgement has a label.

    Notes
    -----
    **Pairs.** Logistic regression of verdicts, or of their probabilities (ties excluded), on *position* (the log odds
    that the first wins), *own* (own against another system), *length* (per doubling of the ratio of words), and per
    standard deviation of the difference *familiarity* (minus log perplexity), *lists* and *markdown* (log of one plus a
    count) and covariates. **Scores.** Linear regression on the same features, with an intercept for each context;
    across contexts if each has one item. Human labels have errors, which are handled as everywhere
    (`biaslab.probes.base.FeatureProbe`).

    **Shared.** A bias alone counts what comes with it. The part that is due to another term is its joint bias times how
    much it differs per unit of the term, at equal label; this is on the scale of the joint model, because log odds
    given fewer terms are closer to 0 (Karlson, Holm & Breen 2012).

    **Without.** What the same judge would decide if the removed terms had no effect at equal human label. Pairs: what
    is observed plus the mean change of predicted probabilities. Scores: minus the terms. Coefficients are always those
    of other contexts. Intervals: cluster jackknife (CR3), t, on the logit scale.

    **Not identified.** Terms that others determine are refused by name: all of them, not the last.

    References
    ----------
    Karlson, Holm & Breen 2012, *Comparing regression coefficients between same-sample nested models using logit and
    probit*, Sociological Methodology 42; Carroll, Ruppert, Stefanski & Crainiceanu 2006, *Measurement Error in
    Nonlinear Models*, §4.2; Cameron & Miller 2015 for CR3.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> words = rng.integers(50, 200, (80, 2))
    >>> better = rng.random(80) < 0.5
    >>> odds = 2 * better - 1 + 2 * np.log2(words[:, 0] / words[:, 1])
    >>> won = rng.random(80) < expit(odds)
    >>> log = {"question": range(80), "answer_a": [*"xy"] * 40, "answer_b": [*"yx"] * 40}
    >>> table = pd.DataFrame(log).assign(winner=np.where(won, "A", "B"))
    >>> table = table.assign(human_winner=np.where(better, "A", "B"), w1=words[:, 0], w2=words[:, 1])
    >>> found = joint(table, covariates=["length=w1,w2"], reliability=1).estimates
    >>> found.loc[found["given"] == "jointly", ["term", "per"]].to_numpy().tolist()
    [['position', ''], ['length', 'doubling']]
    """
    require_fits("covariates", covariates, Sequence[str])
    require_fits("own", own, Mapping[str, str] | None)
    require_fits("reliability", reliability, float | None)
    require_fits("resampling", resampling, Resampling | None)
    asked = [_Covariate.read(each) for each in covariates]
    if repeated := [each.term for each in asked if [other.term for other in asked].count(each.term) > 1]:
        raise InputError("covariates", repeated[0], "each term once")
    if reliability is not None and not LEAST_RELIABILITY <= reliability <= 1:
        raise InputError("reliability", reliability, f"a number from {LEAST_RELIABILITY} to 1")
    trials = recorded_trials(judged, columns_of(covariates, cluster))
    require_fixed(trials, "a joint model")
    swapped = _names_sides_by_order(trials)
    trials = trials if "human_scale" in trials else prepared(trials)  # of a study
    if labels is not None:
        trials = with_humans(trials, labels) if isinstance(labels, Dataset) else with_labels(trials, labels)
    texts = labels.candidates if isinstance(labels, Dataset) else None
    trials, how = with_clusters(readable_judges(trials)[0], cluster, resampling)
    trials, how = prepared(trials), how or Resampling()
    for judge, system in (own or {}).items():
        _require_known(trials, judge, system)
    missing = {name: trials[name].fillna("") for name in ("template", "configuration", "scale")}
    options = _Options(asked, own or {}, without, reliability, how, texts, swapped)
    cells = (_Cell.of(cell, values, options) for values, cell in each_cell(trials.assign(**missing), _CELL))
    rows = [row for cell in cells if cell is not None for row in cell.rows()]
    if not rows:
        raise InputError.plain(_NO_LABELS)
    frame = estimates_frame(rows, NAME, _BIASES, _CONDITIONS)
    others = corrected(frame, frame["metric"].isin(_TESTED) & ~frame["metric"].isin(_BIASES))["q_value"]
    return JointBiases(frame.assign(q_value=frame["q_value"].fillna(others)))  # what follows is a question of its own


def _require_known(trials: pd.DataFrame, judge: str, system: str) -> None:
    """Raise `InputError` if there is no such judge, or it judged no text of the system."""
    judges = list(map(str, trials["judge"].unique()))
    if judge not in judges:
        raise unknown("own", judge, judges)
    of = trials[trials["judge"].astype(str) == judge]
    names = [name for name in ("system", "opponent_system") if name in of and of[name].notna().any()]
    columns = [of[name].dropna() for name in names or ("candidate_id", "opponent_id")]
    systems = list(map(str, dict.fromkeys(value for column in columns for value in column if value != "")))
    if system.casefold() not in map(str.casefold, systems):
        raise unknown("own", system, systems)


def columns_of(covariates: Sequence[str], cluster: str | None = None) -> list[str]:
    """Return the columns of a log to keep for covariates and clusters.

    Examples
    --------
    >>> columns_of(["markdown=bold_a+headers_a,bold_b+headers_b", "words"])
    ['bold_a', 'headers_a', 'bold_b', 'headers_b']
    """
    named = [name for each in covariates for name in _Covariate.read(each).columns]
    return columns_to_keep((), named, cluster)


@dataclass(frozen=True)
class _Covariate:
    """A term and the columns of both texts, or of one text and its counterpart, whose sum it is."""

    term: str
    one: tuple[str, ...]
    other: tuple[str, ...]
    is_given: bool

    @classmethod
    def read(cls, written: str) -> _Covariate:
        """Read ``COLUMN``, ``TERM=COLUMN`` or ``TERM=FIRST,SECOND``."""
        term, equals, columns = (each.strip() for each in str(written).partition("="))
        sides = [tuple(name.strip() for name in side.split("+")) for side in (columns if equals else term).split(",")]
        if len(sides) > 2 or not all(name for side in sides for name in (term, *side)) or term in (_POSITION, _OWN):
            form = "COLUMN, TERM=COLUMN or TERM=FIRST,SECOND, where TERM is not position or own"
            raise InputError("covariates", written, form)
        other = sides[1] if len(sides) > 1 else tuple(f"opponent_{name}" for name in sides[0])
        return cls(term if equals else term.partition(",")[0], sides[0], other, len(sides) > 1)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are named."""
        return (*self.one, *(self.other if self.is_given else ()))

    def of(self, trials: pd.DataFrame, names: Sequence[str]) -> Floats:
        """Return the feature of one side."""
        return _feature(self.term, sum(_column(trials, name, self.term) for name in names))


_TRANSFORMS: Mapping[str, Callable[[Any], Any]] = {
    _LENGTH: np.log2, _LISTS: np.log1p, _MARKDOWN: np.log1p, _FAMILIARITY: np.negative,
}  # fmt: skip


def _feature(term: str, values: Any) -> Floats:
    """Return the feature of a term from words, counts, log perplexities or other numbers; NaN if there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        feature = np.asarray(_TRANSFORMS.get(term, np.asarray)(np.asarray(values, float)), float)
    return np.where(np.isfinite(feature), feature, np.nan)


def _column(trials: pd.DataFrame, name: str, term: str) -> Floats:
    """Return a column of numbers, or what is counted in one of texts."""
    if name not in trials:
        remedy = "keep it: read_judgements(log, keep=[...]); of pairs, name both: TERM=FIRST,SECOND"
        raise unknown("covariates", name, trials.columns, remedy)
    values = trials[name]
    if not pd.api.types.is_numeric_dtype(values):
        if term not in _COUNTED:
            raise InputError("covariates", name, "a column of numbers", f"texts have {', '.join(_COUNTED)}")
        values = values.map(_COUNTED[term], na_action="ignore")
    return values.to_numpy(float)


@dataclass(frozen=True)
class _Options:
    asked: Sequence[_Covariate]
    own: Mapping[str, str]
    without: Sequence[str] | None
    reliability: float | None
    resampling: Resampling
    texts: pd.DataFrame | None
    swapped: bool


def _names_sides_by_order(trials: pd.DataFrame) -> bool:
    """Return whether a log says which of its two candidates was shown first, so that it is not always the first."""
    layouts = trials.attrs.get("reading", {}).get("readings", [])
    return any(role["role"] == "shown" and role["sources"] for each in layouts for role in each.get("roles", ()))


@dataclass(frozen=True)
class _Cell:
    """The judgements of one judge, with their terms."""

    where: Mapping[str, Any]
    model: JointPairs | JointScores
    refused: Mapping[str, Note]
    options: _Options
    left_out: int

    @classmethod
    def of(cls, cell: pd.DataFrame, values: tuple[Any, ...], options: _Options) -> _Cell | None:
        """Return the cell; None if no judgement has a label."""
        where = dict(zip(_CELL, values, strict=True))
        cell = add_perplexities(add_perplexities(cell, "candidate"), "likelihood")
        read = _read_pairs if len(paired(cell)) else _read_scores
        frame, judged, features = read(cell, options)
        labelled = frame["human"].notna().to_numpy()
        if not labelled.any():
            return None
        if not features[_OWN].any() and where["judge"] not in options.own:
            del features[_OWN]
        if not features:
            raise InputError.plain(_NO_TERMS)
        refused: dict[str, Note] = {}
        if _POSITION in features and (why := why_order_follows(judged[labelled & has_value(judged)])):
            refused[_POSITION] = why
        for term, feature in features.items():
            known = int(np.isfinite(feature[labelled]).sum())
            if known < _LEAST_KNOWN * labelled.sum():
                refused[term] = _RARELY_KNOWN.with_values(term=term, known=known, all=int(labelled.sum()))
        features = {term: values for term, values in features.items() if term == _POSITION or term not in refused}
        whole = labelled & np.all([np.isfinite(values) for values in features.values()], axis=0)
        frame = frame[whole].assign(**{term: values[whole] for term, values in features.items()})
        is_pair = "won" in frame
        within = not is_pair and level_of(judged[whole], None) == "context"
        decided = frame[frame["won" if is_pair else "score"].notna()]
        x = decided[[*features, "human"]]
        refused |= confounded(x if is_pair or within else x - x.mean(), decided["context_id"] if within else None)
        for term in features:
            if _PER.get(term) is None and term not in refused:
                frame[term] = frame[term] / float(decided[term].std())
        frame, judged, how = frame.reset_index(drop=True), judged[whole].reset_index(drop=True), options.resampling
        model: JointPairs | JointScores = JointPairs(frame, judged, how, options.reliability)
        if not is_pair:
            scale = bounded_scale(where["scale"])
            ends = (-math.inf, math.inf) if scale is None else (scale.low, scale.high)
            model = JointScores(frame, how, options.reliability, within, ends)
        return cls(where, model, refused, options, int(labelled.sum() - whole.sum()))

    @property
    def terms(self) -> list[str]:
        """The terms that can be told apart."""
        return [name for name in self._given if name not in self.refused]

    @property
    def _given(self) -> list[str]:
        fixed = ("context_id", "won", "score", "first", "human", "ratings", "annotators")
        return [str(name) for name in self.model.frame if name not in fixed]

    @cached_property
    def _fitted(self) -> list[str]:
        """The terms of the joint model: with those that stand for what cannot be told apart."""
        fitted = self.terms
        for name in self._given:
            decided = self.model.frame[self.model.frame[self.model.outcome].notna()]
            if name not in fitted and not {name, "human"} & {*confounded(decided[[*fitted, name, "human"]])}:
                fitted = [name, *fitted]
        return fitted

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the estimates frame."""
        less = (PairsWithout if isinstance(self.model, JointPairs) else ScoresWithout)(self.model, self._fitted)
        unit = "log_odds" if isinstance(less, PairsWithout) else "points"
        for term, reason in self.refused.items():
            yield from self._row({f"bias_{unit}": undefined(reason)}, term=term, given=_JOINTLY)
        for term in self.terms:
            at = {"term": term, "per": _PER.get(term, "standard deviation")}
            others = [name for name in self._fitted if name != term]
            model = self._model_of(term)
            yield from self._row({f"bias_{unit}": model.effect([term])}, **at, given=_ALONE)
            jointly = model.effect([*others, term])
            note = f"leaves out {count(self.left_out, 'judgement')} without a term" if self.left_out else ""
            yield from self._row({f"bias_{unit}": jointly.noted(note)}, **at, given=_JOINTLY)
        if len(self._fitted) > 1:
            for term in self.terms:
                others = [name for name in self.terms if name != term]
                for other, shared in less.shared(term, others).items():
                    at = {"term": term, "per": _PER.get(term, "standard deviation"), "other": other}
                    yield from self._row({f"shared_{unit}": shared}, **at)
        for removed in self._sets():
            name = ", ".join(removed)
            yield from self._row(less.agreement(removed), without=name)
            for system, rate in less.win_rates(removed) if isinstance(less, PairsWithout) else ():
                yield from self._row({"win_rate": rate}, without=name, system=system)

    def _model_of(self, term: str) -> JointPairs | JointScores:
        """Return the model, with the effective number of contexts if fewer than half of them can inform the term."""
        frame = self.model.frame
        informing = frame.loc[frame[term] != 0, "context_id"].nunique()
        if isinstance(self.model, JointPairs) and informing < _MOSTLY * frame["context_id"].nunique():
            return replace(self.model, effective=True)
        return self.model

    def _sets(self) -> list[tuple[str, ...]]:
        """Return the sets of terms to leave out: none, each, all, or those asked for."""
        asked = self.options.without
        if asked is None:
            return list(dict.fromkeys([(), *((term,) for term in self.terms), tuple(self.terms)]))
        require_some_of("without", asked, self.terms)
        return [(), tuple(asked)]

    def _row(self, estimates: Mapping[str, Estimate], **at: str) -> list[dict[str, Any]]:
        read = int(self.model.frame[self.model.outcome].notna().sum())
        where = {**dict.fromkeys(_CONDITIONS[4:], ""), **self.where, **at}
        return estimate_rows(estimates, where, self.model.resampling, read, len(self.model.frame) - read)


def _read_pairs(cell: pd.DataFrame, options: _Options) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Floats]]:
    """Return verdicts, the comparisons and the terms: differences of the first from the second."""
    judged = paired(cell)
    judged = judged[(judged["status"] != "tie").to_numpy()].reset_index(drop=True)
    seen = seen_from(judged, np.ones(len(judged), bool))
    frame = as_verdicts(seen, []).assign(won=seen["value"].where(has_value(judged)))
    frame["human"] = frame["human"].where(judged["human_gap"].notna())
    shown: Floats = judged["order_known"].to_numpy(float)
    terms: dict[str, Floats] = {_POSITION: shown} if shown.any() else {}
    sides = [_of_texts(judged, who, options) for who in ("candidate_id", "opponent_id")]
    terms |= {term: values - sides[1][term] for term, values in sides[0].items() if term in sides[1]}
    if options.swapped and any(each.is_given for each in options.asked):
        remedy = "name columns of the text shown first and of the other as COLUMN and opponent_COLUMN"
        raise InputError.plain(f"the log shows its candidates in either order, so sides of covariates vary; {remedy}")
    for each in options.asked:
        terms[each.term] = each.of(judged, each.one) - each.of(judged, each.other)
    return frame, seen, terms


def _read_scores(cell: pd.DataFrame, options: _Options) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Floats]]:
    """Return items with their mean score, the same again, and the terms."""
    judged = rated(cell)
    terms = pd.DataFrame(_of_texts(judged, "candidate_id", options), judged.index)
    for each in options.asked:
        terms[each.term] = each.of(judged, each.one)
    score = judged["value"].where(has_value(judged))
    whole = pd.concat([judged[[*ITEM, "human"]].assign(score=score), terms.add_prefix("term ")], axis=1)
    items = whole.groupby(list(ITEM), sort=False).mean().reset_index()
    first = judged.drop_duplicates(list(ITEM)).reset_index(drop=True)
    kept = {name: first[name] for name in ("ratings", "annotators") if first[name].fillna("").ne("").any()}
    frame = items[["context_id", "score", "human"]].assign(**kept)
    return frame, items, {str(name): items[f"term {name}"].to_numpy(float) for name in terms}


def _of_texts(judged: pd.DataFrame, who: str, options: _Options) -> dict[str, Floats]:
    """Return the terms that judgements or a data set know of one text, but for those that are asked for."""
    side = "" if who == "candidate_id" else "opponent_"
    terms: dict[str, Floats] = {}
    if options.texts is not None:
        of = options.texts.set_index(list(ITEM))["text"]
        texts = of.reindex(pd.MultiIndex.from_frame(judged[["context_id", who]])).reset_index(drop=True)
        terms = {term: _feature(term, texts.map(counts, na_action="ignore")) for term, counts in _COUNTED.items()}
    for term, name in ((_LENGTH, f"{side}words"), (_FAMILIARITY, f"{side}log_perplexity")):
        if name in judged and judged[name].notna().any():
            terms[term] = _feature(term, judged[name])
    stated = judged["judge_system"].fillna("")
    named = judged["judge"].map(lambda judge: options.own.get(judge, judge)).astype(str)
    named = named.where(judged["judge"].isin(options.own) | (stated == ""), stated.astype(str))
    system = judged[f"{side}system"] if f"{side}system" in judged else judged[who]
    terms[_OWN] = np.array(system.astype(str).str.casefold() == named.astype(str).str.casefold(), float)
    asked = {each.term for each in options.asked}
    return {term: values for term, values in terms.items() if term not in asked}


_SHARE, _CORRELATION = (0.0, 1.0), (-1.0, 1.0)
_METHOD = "cluster jackknife (CR3), logit scale, t"
_OBSERVED = "observed"


_Values = Callable[[float], Floats]
_Bounds = tuple[float, float] | None


class _Without:
    """What a fit says of judgements without some terms, and of what terms share."""

    def __init__(self, model: JointPairs | JointScores, terms: Sequence[str]) -> None:
        self.model, self.terms = model, list(terms)
        fit, self.shares, self.why = model.fit(terms)
        self.fit: Any = fit
        self.undefined = fit if isinstance(fit, Estimate) else None
        self.level = model.resampling.level
        frame = model.frame
        self.frame = frame[frame[model.outcome].notna()]
        clusters = pd.factorize(model.resampling.cluster_of(self.frame["context_id"]))[0]
        self.codes: Codes = grouped_codes(clusters, model.resampling.seed)

    def effect(self, shared: float, term: str) -> Floats:
        """Return a term's joint effect for all contexts, and without each; on the scale of predictions."""
        ratio, factor = self.fit.corrected(shared, term)
        known = np.where(ratio.reliability > LEAST_BESIDE, ratio.reliability, np.nan)
        return np.asarray(ratio.product / known / factor, float)

    def each(self, values: _Values, bounds: _Bounds, null: float | None = None, is_observed: bool = False) -> Estimate:
        """Return the estimate that holds for every error of labels to allow for; what is observed needs no fit."""
        if is_observed:
            return by_jackknife(values(0.0), self.level, bounds, null)
        if self.undefined is not None:
            return self.undefined
        estimate = at_each_share(lambda s: by_jackknife(values(s), self.level, bounds, null), self.shares, self.why)
        return estimate if null is not None else replace(estimate, p_value=math.nan)

    def gain(
        self, name: str, values: Callable[[Sequence[str], float], Floats], removed: Sequence[str]
    ) -> dict[str, Estimate]:
        """Return how much agreement without some terms is above that with them."""
        change = {f"{name}_gain": self.each(lambda s: values(removed, s) - values((), s), None, 0.0)}
        return change if removed else {}

    def shared(self, term: str, others: Sequence[str]) -> dict[str, Estimate]:
        """Return the part of a bias alone that is due to all others, named "", and to each."""

        def part(shared: float, names: Sequence[str]) -> Floats:
            gram = self._true_moments(shared)
            last = gram.shape[1] - 1
            free = [place for place in range(last) if place < last - len(self.terms)]  # an intercept
            base = [*free, last - len(self.terms) + self.terms.index(term), last]
            total = np.zeros(len(gram))
            for name in names:
                place = last - len(self.terms) + self.terms.index(name)
                differ = np.linalg.solve(gram[:, base][:, :, base], gram[:, base, place][:, :, None])[:, len(free), 0]
                total += differ * self.effect(shared, name) * self.fit.corrected(shared, name)[1]
            return total

        found = {"": self.each(lambda s: part(s, others), None, 0.0)}
        return found | {name: self.each(partial(part, names=[name]), None) for name in others}

    def _true_moments(self, shared: float) -> Floats:
        """Return sums of products of terms and true quality, for all contexts and without each."""
        fit = self.fit
        if isinstance(fit, JointLogOdds):
            gram, error = fit.gram.copy(), fit.error
        else:
            gram, error = fit.equations.gram * np.outer(fit.equations.scale, fit.equations.scale), fit.equations.error
        gram[:, -1, -1] -= small_sample_error(error, shared)
        return gram


class PairsWithout(_Without):
    """Verdicts on pairs as they are, and as they would be without some biases at equal human label.

    A verdict for the first has the probability p = expit(x'γ), with γ from the logistic regression on terms and labels
    as they are: a prediction needs no correction for errors. Without some terms it is expit(x'γ − x_R'β_R / s), where
    β_R are their log odds at equal true quality, and s is the attenuation of log odds by what labels leave unknown of
    quality. A mean over pairs changes by the mean change of these probabilities, of each context by the coefficients of
    the others.
    """

    model: JointPairs

    def agreement(self, removed: Sequence[str]) -> dict[str, Estimate]:
        """Return agreement with people without some terms, also beyond chance."""
        label, won = self.frame["human"].to_numpy(float), self.frame["won"].to_numpy(float)
        sign, known = np.sign(label), label != 0
        agrees = np.where(sign > 0, won, 1 - won)
        if not known.any():
            return {}
        prefers = _mean(self.codes[known], (sign[known] + 1) / 2, int(self.codes.max()) + 1)

        share = partial(self._mean, agrees, known, sign, removed)

        def kappa(shared: float) -> Floats:
            first = self._mean(won, known, np.ones(len(won)), removed, shared)
            chance = first * prefers + (1 - first) * (1 - prefers)
            return np.asarray((share(shared) - chance) / (1 - chance), float)

        found = {
            "agreement": self.each(share, _SHARE, is_observed=not removed),
            "cohen_kappa": self.each(kappa, _CORRELATION, is_observed=not removed),
        }
        return found | self.gain("agreement", partial(self._mean, agrees, known, sign), removed)

    def win_rates(self, removed: Sequence[str]) -> Iterator[tuple[str, Estimate]]:
        """Yield the share of decided pairs that each system wins without some terms."""
        one, two = (self.model.seen.loc[self.frame.index, name].astype(str) for name in ("candidate_id", "opponent_id"))
        counts = one.value_counts().add(two.value_counts(), fill_value=0)
        systems = sorted(counts.index[counts >= _FEWEST_OF_SYSTEM])
        won = self.frame["won"].to_numpy(float)
        for system in systems if len(systems) <= _MOST_SYSTEMS else ():
            sign = ((one == system).astype(float) - (two == system)).to_numpy(float)
            wins, chosen = np.where(sign > 0, won, 1 - won), sign != 0
            yield system, self.each(partial(self._mean, wins, chosen, sign, removed), _SHARE, None, not removed)

    def _mean(self, observed: Floats, chosen: Bools, sign: Floats, removed: Sequence[str], shared: float) -> Floats:
        """Return the mean over chosen pairs of what is observed and its change, for all contexts and without each."""
        codes, contexts = self.codes[chosen], int(self.codes.max()) + 1
        if not removed:
            return _mean(codes, observed[chosen], contexts)
        key = tuple(removed), shared
        if key not in self._changes:  # of agreement, and of each system's wins
            self._changes[key] = self._change(*key)
        change, moved, shifts = self._changes[key]
        values = _mean(codes, (observed + sign * change)[chosen], contexts)
        values[1:] += shifts @ (sign[chosen] @ moved[chosen] / chosen.sum())
        return values

    @cached_property
    def _changes(self) -> dict[tuple[tuple[str, ...], float], tuple[Floats, Floats, Floats]]:
        return {}

    def _change(self, removed: tuple[str, ...], shared: float) -> tuple[Floats, Floats, Floats]:
        """Return each pair's change of probability, its derivatives by coefficients, and these without each context."""
        x, own = self.frame[[*self.terms, "human"]].to_numpy(float), self.codes + 1
        places = [self.terms.index(name) for name in removed]
        gamma, beta = self.fit.fits[0], np.column_stack([self.effect(shared, name) for name in removed])
        whole, less = np.sum(x * gamma[own], axis=1), np.sum(x[:, places] * beta[own], axis=1)
        p, q = expit(x @ gamma[0]), expit(x @ gamma[0] - x[:, places] @ beta[0])
        moved = np.column_stack([x * (q * (1 - q) - p * (1 - p))[:, None], -x[:, places] * (q * (1 - q))[:, None]])
        shifts = np.column_stack([gamma[1:] - gamma[0], beta[1:] - beta[0]])
        return expit(whole - less) - expit(whole), moved, shifts


class ScoresWithout(_Without):
    """Scores as they are, and minus some terms at equal human score."""

    def agreement(self, removed: Sequence[str]) -> dict[str, Estimate]:
        """Return the correlation with people's scores, within contexts if these have several items."""
        names, sums = ["score", *self.terms, "human"], self._moments

        def correlations(removed: Sequence[str], shared: float) -> Floats:
            weights = np.zeros((len(sums) + 1, len(names), 2))
            weights[:, 0, 0] = weights[:, -1, 1] = 1.0
            for name in removed:
                weights[:, names.index(name), 0] = -self.effect(shared, name)
            plain = _correlation(np.einsum("gai,gab,gbj->gij", weights, without_each(sums), weights))
            crossed = _correlation(np.einsum("gai,gab,gbj->ij", weights[1:], sums, weights[1:])[None])
            return np.asarray(plain + (crossed[0] - plain[0]), float)

        found = {"correlation": self.each(partial(correlations, removed), _CORRELATION, None, not removed)}
        return found | self.gain("correlation", correlations, removed)

    @cached_property
    def _moments(self) -> Floats:
        """Sums of products of score, terms and human score by context."""
        values = self.frame[["score", *self.terms, "human"]].to_numpy(float)
        within = isinstance(self.model, JointScores) and self.model.within
        codes = pd.factorize(self.frame["context_id"])[0]
        return sums_of_products(demeaned(values, codes if within else np.zeros_like(codes)), self.codes)


def _correlation(moments: Floats) -> Floats:
    return np.asarray(moments[:, 0, 1] / np.sqrt(moments[:, 0, 0] * moments[:, 1, 1]), float)


def _mean(codes: Codes, values: Floats, contexts: int) -> Floats:
    """Return a mean over all contexts, and without each."""
    sums = np.column_stack([np.bincount(codes, each, contexts) for each in (values, np.ones(len(values)))])
    total, size = without_each(np.asarray(sums, float)).T
    return np.asarray(total / size, float)


def by_jackknife(values: Floats, level: float, bounds: _Bounds, null: float | None = None) -> Estimate:
    """Return a value with the interval of its jackknife over contexts, on the logit scale between bounds."""
    contexts, value = len(values) - 1, float(values[0])
    error = math.sqrt((contexts - 1) / contexts * float(np.sum((values[1:] - value) ** 2)))
    if math.isnan(error):
        return undefined(_UNREMOVED, contexts)
    if not error > 0:
        return without_interval(value, contexts, "no interval: no variation between contexts")
    if bounds is None:
        return estimate_by_t(value, error, contexts, level, _METHOD.replace("logit scale, ", ""), null)
    estimate = estimate_by_t(value, error, contexts, level, _METHOD, null, bounds)
    low, high, _ = logit_interval(value, error, contexts, level, bounds)
    return estimate if math.isnan(low) else replace(estimate, ci_low=low, ci_high=high)


_UNREMOVED = because("unreliable_for_terms", "labels are too unreliable to tell terms from quality")


_SIDES = {
    _POSITION: ("the first", "the second"), _OWN: ("its own system", "other systems"),
    _LENGTH: ("longer texts", "shorter texts"), _FAMILIARITY: ("familiar texts", "unfamiliar texts"),
}  # fmt: skip
_OTHER_SIDES = ("more of it", "less of it")


_Row = Mapping[Any, Any]


def _sentences(cell: pd.DataFrame) -> Iterator[str]:
    """Yield the answer of one judge, one sentence at a time."""
    rows: list[_Row] = [*cell.to_dict("records")]
    read = int(cell["n_trials"].max())
    told = [str(rows[0][name]) for name in _CELL if rows[0][name] not in ("", "recorded", "unknown")]
    yield f"{', '.join(told)}: {count(read, 'judgement')}"
    for row in rows:
        if row["metric"] in _BIASES and row["given"] == _JOINTLY:
            yield f"  {_of_bias(row, [each for each in rows if each['term'] == row['term']])}"
    for row in rows:
        if row["metric"] in ("agreement", "correlation") and not math.isnan(row["estimate"]):
            same = {each["metric"]: each for each in rows if each["without"] == row["without"]}
            kappa = f" (κ {with_interval(same['cohen_kappa'], 2)})" if "cohen_kappa" in same else ""
            gain = same.get(f"{row['metric']}_gain")
            change = "" if gain is None else f", a change of {with_interval(gain, 2)}"
            name = f"without {row['without']}" if row["without"] else f"{row['metric']} with people"
            yield f"  {name}: {with_interval(row, 2)}{kappa}{change}"
    rates = [row for row in rows if row["metric"] == "win_rate" and not math.isnan(row["estimate"])]
    observed = [row for row in rates if row["without"] == ""]
    for row in observed if len(observed) <= _MOST_TOLD else ():
        *_, less = (each for each in rates if each["system"] == row["system"])
        removed = f"; without {less['without']} {with_interval(less, 2)}" if less["without"] else ""
        yield f"  {row['system']} wins {with_interval(row, 2)}{removed}"


def _of_bias(row: _Row, rows: Sequence[_Row]) -> str:
    """Return what is said of a bias, from its row and all rows of its term."""
    alone = next((each for each in rows if each["given"] == _ALONE), None)
    if alone is None or math.isnan(row["estimate"]):
        return f"{row['term']}: {row['note']}"
    side = row["note"] if math.isnan(row["ci_low"]) else "inconclusive"
    if significant(row["q_value"]):
        side = f"favours {_SIDES.get(row['term'], _OTHER_SIDES)[row['estimate'] < 0]}"
        if depends_on_reliability(row):
            needed = float(notes_of(row)["depends_on_reliability"]["reliability"])
            side = f"inconclusive, {side} if labels have a reliability above {needed:g}"
    per = f" per {row['per']}" if row["per"] else ""
    shown = f"alone {with_interval(alone, 2)}, jointly {with_interval(row, 2)}"
    return f"{row['term']}{per}: {shown}: {side}{_mostly(alone, [each for each in rows if not each['given']])}"


def _mostly(alone: _Row, shared: Sequence[_Row]) -> str:
    """Return what most of a bias alone is due to, if that is shown."""
    whole = next((each for each in shared if not each["other"]), None)
    if whole is None or not significant(whole["q_value"]):
        return ""
    parts = [each for each in shared if each["other"]]
    most = max(parts, key=lambda each: float(each["estimate"] / whole["estimate"]))
    is_most = most["estimate"] / whole["estimate"] > _MOSTLY and most["ci_low"] * most["ci_high"] > 0
    verb = "account for" if whole["estimate"] * alone["estimate"] > 0 else "hide"
    amount = f"{number(abs(whole['estimate']), 2)} of it alone"
    mostly = f", mostly {most['other']}" if is_most else ""
    return f"; other terms {verb} {amount}{mostly}"
