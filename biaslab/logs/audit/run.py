"""Audit recorded judgements: run every probe that accepts them, and give the reason for each that does not."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pandas as pd

from biaslab import probes
from biaslab.core.checks import require_some_of, unknown
from biaslab.core.errors import BiaslabError, InputError, MissingDataWarning
from biaslab.core.schema import Dataset
from biaslab.logs.audit.agreement import HumanAgreement
from biaslab.logs.audit.holdings import addition_for, holdings
from biaslab.logs.audit.measures import AuditMeasure, Covariates, Halo, OneList
from biaslab.logs.audit.pair_measures import OneOrder, PairLength, Replies, Subsets
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.card import HALF, describe_unread, is_by_people, require_readable, unread_share
from biaslab.logs.readers.documents import LogInput
from biaslab.logs.readers.human_scores import with_humans
from biaslab.logs.readers.trials import COLUMNS, trials_of
from biaslab.probes.base.feature_probe import FeatureProbe
from biaslab.probes.base.probe import Probe
from biaslab.stats.blocks import ITEM, joined, linked_contexts
from biaslab.stats.frame import (
    LEADING,
    TRAILING,
    corrected,
    estimate_rows,
    estimates_frame,
    require_columns,
    without_breakdowns,
)
from biaslab.stats.reliability import Measurement, estimate_alpha, read_ratings
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import require_fixed

#: Measures that apply to judgements of any design, in addition to the probes.
_OTHERS: tuple[type[AuditMeasure], ...] = (Replies, Halo, PairLength, OneOrder, OneList, Subsets)
_CELL = Replies.cell
_READ = ("judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute", "replicate", "value", "status")


def audit(
    trials: LogInput,
    human: Dataset | None = None,
    only: Sequence[str] | None = None,
    resampling: Resampling | None = None,
    breakdowns: bool = True,
    by: Sequence[str] = (),
    cluster: str | None = None,
    covariates: Sequence[str] = (),
    reliability: float | None = None,
) -> pd.DataFrame:
    r"""Run every probe that recorded judgements support.

    Parameters
    ----------
    trials : pandas.DataFrame, str, Path or a table of another package
        From `biaslab.read_judgements`, or several such frames concatenated by `pandas.concat`; or its input: a file, a
        folder or a plain table.
    human : Dataset, optional
        Human scores to join by context, candidate and attribute.
    only : sequence of str, optional
        Names of the probes and measures to run; default: all. Besides the probes, there are "replies",
        "agreement", "halo", "pair_length", "one_order", "one_list" and "subsets", and "covariate" if some are named.
    resampling : Resampling, optional
        Confidence level and resampling of the estimates.
    breakdowns : bool
        Keep the rows for each bin of the human score gap (column ``human_gap``).
    by : sequence of str
        Columns by which to split agreement with people, such as a language: ``read_judgements(log, keep=["language"])``
        keeps them.
    cluster : str, optional
        Column by which contexts are related, such as a document that several questions are about. Contexts that share
        a value are one cluster: resampled, left out and tested together. In 24 contexts of 6 documents, tests that took
        them for independent rejected a true null in .24 of simulated studies.
    covariates : sequence of str
        Columns whose effect on scores at the same human label to estimate, in addition: columns of the trials, or of a
        file that is read; see `biaslab.logs.audit.measures.Covariates`.
    reliability : float, optional
        Reliability of people's labels that you know or assume: the share of their variance that is not error, .3 to 1,
        where 1 takes them as exact. By default it is estimated from several ratings of an item; if there is one,
        verdicts that depend on it are inconclusive. Labels by the annotator ``"construction"`` (column ``annotators``)
        are exact without it.

    Returns
    -------
    pandas.DataFrame
        The estimates of all probes that could run, concatenated; conditions that a probe does not have are NaN.
        q-values are computed over all tests together. P(A) and accuracy of a cell have a single row: that of
        "position", over pairs judged in both orders, if defined, else that of "replies", over all replies.
        ``attrs["not_run"]`` gives the reason, in one line, for each probe that did not run; ``attrs["notes"]`` the
        assumptions and omissions of those with an estimate; ``attrs["additions"]`` the addition to the log that would
        allow each missing estimate; ``attrs["contexts"]`` the number of contexts of each judge; ``attrs["reading"]``
        how a file was read; ``attrs["declared_reliability"]`` that of people's labels, if given; ``attrs["missing"]``
        the number of missing judgements and the reasons, if more than 5 % of an
        estimate's judgements are missing. Judges with more than half of their replies unreadable are excluded and
        listed in ``not_run``.

    Raises
    ------
    InputError
        If a probe, covariate, or column of `by` or `cluster` is unknown, a number is out of range, or the data set has
        no human scores for what was judged.
    TrialsError
        If a column is missing.
    UnreadableLogError
        If more than half of the log could not be read; the rest may be a biased selection.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the judgements of an estimate are missing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> pairs = [f"{c},{a},{b},{a}" for c in range(20) for a, b in ("xy", "yx")]
    >>> _ = file.write_text("\n".join(["context_id,candidate_id,opponent_id,winner", *pairs]))
    >>> result = audit(file, only=["position", "source"])
    >>> float(result.set_index("metric").loc["order_consistency", "estimate"]), result.attrs["not_run"]
    (0.0, {'source': 'needs scores with and without the source in the prompt'})
    """
    every = measures(resampling, by, covariates, reliability)
    if only is not None:
        require_some_of("only", only, list(every))
    if human is not None and not isinstance(human, Dataset):
        raise InputError("human", human, "a data set", "load one: biaslab.load_dataset('graded')")
    recorded = recorded_trials(trials, columns_to_keep(by, covariates, cluster))
    _require_named(recorded, {"by": by, "covariates": covariates, "cluster": [] if cluster is None else [cluster]})
    if is_by_people(recorded):
        return _of_people(*with_clusters(recorded, cluster, resampling))
    readable, not_run = readable_judges(recorded)
    labelled = readable if human is None else with_humans(readable, human)
    labelled, resampling = with_clusters(labelled, cluster, resampling)
    every = every if cluster is None else measures(resampling, by, covariates, reliability)
    audited = prepared(labelled)
    frames: list[pd.DataFrame] = []
    notes: dict[str, str] = {}
    missing: dict[str, None] = {}
    for name in every if only is None else [name for name in every if name in only]:
        try:
            frame, note = _run(every[name], audited, missing)
        except BiaslabError as error:
            not_run[name] = str(error).partition("\n")[0]
            continue
        if frame.empty:
            not_run[name] = note or "no trials left"
            continue
        frames.append(frame)
        if note:
            notes[name] = note
    stacked = _without_repeated_rates(_stacked(frames))
    estimates = stacked if breakdowns else without_breakdowns(stacked)
    additions = _additions(every, not_run, estimates, audited)
    estimated = set(estimates.loc[estimates["estimate"].notna(), "probe"])
    notes = {name: note for name, note in notes.items() if name in estimated}
    judged = audited[["judge", "dataset", "context_id"]].drop_duplicates()
    contexts = {str(judge): int(n) for judge, n in judged["judge"].value_counts(sort=False).items()}
    estimates.attrs = {"not_run": not_run, "notes": notes, "additions": additions, "contexts": contexts}
    estimates.attrs |= {} if recorded is trials else {"reading": recorded.attrs["reading"]}
    estimates.attrs |= {"missing": list(missing)} if missing else {}
    estimates.attrs |= {} if reliability is None else {"declared_reliability": reliability}
    return estimates


def with_clusters(
    trials: pd.DataFrame, cluster: str | None, resampling: Resampling | None = None
) -> tuple[pd.DataFrame, Resampling | None]:
    """Return trials and a resampling that keeps contexts together that share a value of a column of the trials.

    Contexts that several data sets name alike are renamed, so that they are not kept together.

    Raises
    ------
    InputError
        If trials do not have the column.

    Examples
    --------
    >>> trials = pd.DataFrame({"dataset": [*"aab"], "context_id": [*"121"], "document": [*"xxy"]})
    >>> with_clusters(trials, "document")[1].clusters
    {'a: 1': 'a: 1', 'a: 2': 'a: 1'}
    """
    if cluster is None:
        return trials, resampling
    _require_named(trials, {"cluster": [cluster]})
    contexts = trials[["dataset", "context_id"]].drop_duplicates()
    if contexts["context_id"].duplicated().any():
        trials = trials.assign(context_id=_named(trials))
        if resampling is not None and resampling.clusters:
            of = contexts.assign(cluster=resampling.cluster_of(contexts["context_id"]))
            resampling = replace(resampling, clusters=dict(zip(_named(of), _named(of, "cluster"), strict=True)))
    return trials, joined(resampling or Resampling(), linked_contexts(trials, cluster))


def _named(trials: pd.DataFrame, context: str = "context_id") -> pd.Series:
    return trials["dataset"].astype(str) + ": " + trials[context].astype(str)


def _require_named(trials: pd.DataFrame, named: Mapping[str, Sequence[str]]) -> None:
    """Raise `InputError` if a parameter names a column that trials do not have."""
    for parameter, names in named.items():
        for name in names:
            if name not in trials:
                remedy = "keep a column of the log: read_judgements(log, keep=[...])"
                raise unknown(parameter, name, trials.columns, remedy)


def columns_to_keep(by: Sequence[str], covariates: Sequence[str], cluster: str | None = None) -> list[str]:
    """Return the columns of a log to keep for an audit: those named that trials do not have anyway."""
    named = dict.fromkeys([*by, *covariates, *([] if cluster is None else [cluster])])
    return [name for name in named if name not in COLUMNS]


def _of_people(trials: pd.DataFrame, resampling: Resampling | None) -> pd.DataFrame:
    """Return the agreement of people, for a log without a judge."""
    estimates = audit_humans(trials, resampling)
    notes = {"humans": "the log has people's scores and no judge's: their agreement is all that it shows"}
    estimates.attrs = {"not_run": {}, "notes": notes, "additions": {}, "reading": trials.attrs["reading"]}
    return estimates


def interesting(measure: AuditMeasure | Probe) -> tuple[str, ...]:
    """Return the metrics that stand for a measure: primary ones or, if it has none, those of a judge's quality."""
    leading = measure.leading if isinstance(measure, AuditMeasure) else ()
    return leading or measure.primary or tuple(metric.name for metric in measure.metrics if metric.quality)


def _additions(
    every: Mapping[str, AuditMeasure | Probe], not_run: Mapping[str, str], estimates: pd.DataFrame, trials: pd.DataFrame
) -> dict[str, str]:
    """Return the addition that would allow each measure that did not run, or has no estimate of `interesting`."""
    known = estimates[estimates["estimate"].notna()]
    of = {name: set(rows["metric"]) for name, rows in known.groupby("probe", sort=False)}
    tried = {*not_run, *estimates["probe"]}
    lacking = {name: interesting(every[name]) for name in every if name in tried}
    lacking = {name: metrics for name, metrics in lacking.items() if metrics and not of.get(name, set()) & {*metrics}}
    if not lacking:
        return {}
    by_judge = [holdings(own) for _, own in trials.groupby("judge", sort=False, observed=True)]
    each = {
        name: [addition_for(metric, name, of_judge) for metric in metrics for of_judge in by_judge]
        for name, metrics in lacking.items()
    }
    return {name: next(filter(None, additions), "") for name, additions in each.items()}


def recorded_trials(log: LogInput, keep: Sequence[str] = ()) -> pd.DataFrame:
    """Return a frame of trials unchanged; read anything else as a file or a plain table, keeping some columns."""
    if isinstance(log, pd.DataFrame) and {"probe", "status"} & set(log.columns):
        require_columns(log, _READ, "trials")
        return log
    return read_judgements(log, keep=keep)


def readable_judges(trials: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the trials of judges with at least half of their replies readable, and a reason for each other judge."""
    require_readable(trials)
    unread: dict[str, str] = {}
    for judge, own in trials.groupby("judge", sort=False, observed=True):
        own.attrs = trials.attrs
        if unread_share(own) > HALF:
            unread[str(judge)] = f"more than half of its replies could not be read ({describe_unread(own)})"
    return trials[~trials["judge"].astype(str).isin(unread)], unread


def measures(
    resampling: Resampling | None,
    by: Sequence[str] = (),
    covariates: Sequence[str] = (),
    reliability: float | None = None,
) -> dict[str, AuditMeasure | Probe]:
    """Return all probes and measures by name, with the parameters of `audit`."""
    resampling = Resampling() if resampling is None else resampling
    if not isinstance(resampling, Resampling):
        raise InputError("resampling", resampling, "a biaslab.Resampling", "such as biaslab.Resampling(n=1000)")
    every: dict[str, AuditMeasure | Probe] = {}
    for name, kind in probes.available().items():
        probe = kind(resampling=resampling)
        every[name] = replace(probe, reliability=reliability) if isinstance(probe, FeatureProbe) else probe
    every[HumanAgreement.name] = HumanAgreement(resampling, tuple(by))
    if covariates:
        every[Covariates.name] = Covariates(resampling, tuple(covariates), reliability=reliability)
    return every | {other.name: other(resampling, reliability=reliability) for other in _OTHERS}


def _run(measure: AuditMeasure | Probe, trials: pd.DataFrame, missing: dict[str, None]) -> tuple[pd.DataFrame, str]:
    """Return the estimates and a note; re-issue all warnings, and collect those of missing judgements in `missing`."""
    accepted = measure.accepts(trials)
    if accepted.trials.empty:
        return accepted.trials, accepted.note
    if isinstance(measure, AuditMeasure) and accepted.probe is None:
        require_fixed(accepted.trials, measure.name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimates = (accepted.probe or measure).estimate(accepted.trials)
    for warning in caught:
        if isinstance(warning.message, MissingDataWarning):
            missing[warning.message.facts] = None
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return estimates, accepted.note


def prepared(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with all columns that probes need, without replies, and without attrs, which pandas copies."""
    frame = trials.drop(columns="reply", errors="ignore").reset_index(drop=True)
    frame.attrs = {}
    missing = trials_of({name: frame[name] for name in _READ}, frame.index)
    wanted = {str(name): column for name, column in missing.items() if name not in frame and name != "reply"}
    return frame.assign(**wanted)


def _stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    fixed = (*LEADING, *TRAILING)
    conditions = dict.fromkeys(name for frame in frames for name in frame.columns if name not in fixed)
    columns = [*LEADING, *conditions, *TRAILING]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        parts = [frame.reindex(columns=columns) for frame in frames if len(frame)]
        whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    if not parts:
        return whole
    tested, of_pairs = whole["q_value"].notna(), whole.get("other_judge", pd.Series(index=whole.index)).notna()
    alone, compared = (corrected(whole, tested & chosen)["q_value"] for chosen in (~of_pairs, of_pairs))
    return whole.assign(q_value=alone.fillna(compared))  # differences between judges are a question of their own


def _without_repeated_rates(estimates: pd.DataFrame) -> pd.DataFrame:
    """Drop rates over all replies from cells that also have the balanced rates, over pairs judged in both orders.

    Probes share these metrics; one row per cell (judge, data set, attribute, template) is kept.
    """
    if not {"human_gap", "system"} <= set(estimates.columns):
        return estimates
    cell = pd.MultiIndex.from_frame(estimates[[*_CELL, "metric"]])
    balanced = (estimates["probe"] == "position") & estimates["human_gap"].isna() & estimates["estimate"].notna()
    of_all = (estimates["probe"] == Replies.name) & (estimates["system"] == "")
    return estimates[~(of_all & cell.isin(cell[balanced]))].reset_index(drop=True)


_HUMAN_CELL = ("dataset", "attribute")


def audit_humans(trials: pd.DataFrame, resampling: Resampling | None = None) -> pd.DataFrame:
    """Estimate Krippendorff's alpha between the annotators of a table of human ratings.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`: either all ratings of an item in one row (``ratings``), or one rating per row
        with the annotator as ``judge``.
    resampling : Resampling, optional
        Confidence level and resampling of the estimates.

    Returns
    -------
    pandas.DataFrame
        The estimates frame: ``human_alpha`` by data set, attribute and ``level`` (interval, ordinal, nominal).
        ``n_trials`` counts ratings, ``n_dropped`` those that could not be read.

    Raises
    ------
    InputError
        If there are fewer than two annotators.

    Examples
    --------
    >>> from biaslab.logs.readers.trials import trials_of
    >>> items = {"context_id": [*"abcdefgh"], "candidate_id": "x", "ratings": ["1 2", "2 2", "4 5", "5 5"] * 2}
    >>> index = pd.RangeIndex(8)
    >>> given = {name: pd.Series(values, index=index) for name, values in items.items()}
    >>> estimates = audit_humans(trials_of(given, index))
    >>> round(float(estimates.set_index("level").loc["interval", "estimate"]), 3)
    0.904
    """
    drawn = resampling or Resampling()
    in_rows = trials.assign(score=trials["value"], annotator=trials["judge"])
    scores = _of_lists(trials) if trials["ratings"].fillna("").ne("").any() else in_rows
    if scores["annotator"].nunique() < 2:
        remedy = "map ratings=FIELD,FIELD,… or, with one rating per row, judge=FIELD"
        raise InputError.plain(f"ratings by at least two people are needed; {remedy}")
    rows: list[dict[str, Any]] = []
    for names, cell in scores.groupby(list(_HUMAN_CELL), sort=False):
        where = dict(zip(_HUMAN_CELL, names, strict=True)) | {"judge": "humans"}
        known = cell.dropna(subset="score").drop_duplicates([*ITEM, "annotator"])
        for level in get_args(Measurement):
            alpha = estimate_alpha(known[[*ITEM, "annotator", "score"]], drawn, level, ["candidate_id"])
            at = where | {"level": level}
            rows += estimate_rows({"human_alpha": alpha}, at, drawn, len(known), len(cell) - len(known))
    return estimates_frame(rows, "humans", (), ("attribute", "level"))


def _of_lists(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rating of items with all ratings in one row; unnamed annotators are numbered by position."""
    items = trials[trials["ratings"].fillna("").ne("")].drop_duplicates([*_HUMAN_CELL, *ITEM])
    ratings = read_ratings(items, np.full(len(items), np.nan))
    return items[[*_HUMAN_CELL, *ITEM]].iloc[ratings["item"]].reset_index(drop=True).join(ratings)
