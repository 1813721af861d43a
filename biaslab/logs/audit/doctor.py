"""Diagnose a log: its content, unreadable replies, and the biases that can be estimated from it."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core import find_metric
from biaslab.core.errors import BiaslabError, UnreadableLogError
from biaslab.logs.audit.additions import addition_for
from biaslab.logs.audit.diagnosis import Diagnosis
from biaslab.logs.audit.holdings import Holdings, holdings
from biaslab.logs.audit.measure import Measure
from biaslab.logs.audit.run import interesting, measures, prepared, readable_judges
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.arrow_tables import ArrowTable, InterchangeTable
from biaslab.logs.readers.refusing import map_line
from biaslab.logs.readers.summary import reading_summary
from biaslab.logs.readers.unread import HALF, describe_unread, explain_unread, shortened, unread_share
from biaslab.probes.base import Probe
from biaslab.stats import Resampling

_SAMPLE = 100  # contexts per judge to try first
_EXAMPLES = 5
_LONGEST = 100  # characters of an example
_READ = ("ok", "tie")
_UNREAD_LOG = "more than half of the log could not be read"


def doctor(
    log: pd.DataFrame | str | Path | ArrowTable | InterchangeTable,
    format: str | None = None,  # noqa: A002 - as of `biaslab.read_judgements`
    mapping: Mapping[str, Any] | str | Path | Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> Diagnosis:
    r"""Diagnose a log: its content, which biases can be estimated from it, and what would allow the others.

    Takes seconds, asks no judge and computes no intervals: it tries every probe and measure of `biaslab.audit` on some
    contexts, and on all of them if these are not enough.

    Parameters
    ----------
    log : pandas.DataFrame, str, Path or a table of another package
        Input or result of `biaslab.read_judgements`.
    format, mapping
        As in `biaslab.read_judgements`.

    Returns
    -------
    Diagnosis
        Prints as text. ``biases`` is a table of what can be estimated, ``unread`` a table of unreadable replies,
        ``holdings`` has counts, and ``command`` is the next command to run.

    Raises
    ------
    InputError
        If the format of the log is unknown; the message suggests a mapping.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [(f"q{i}", "x", "y", "x" if i % 3 else "y") for i in range(40)]
    >>> log = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "winner"])
    >>> diagnosis = doctor(log)
    >>> position = diagnosis.biases.set_index("probe").loc["position"]
    >>> bool(position["estimable"]), position["addition"]
    (False, 'judge 40 pairs in the other order')
    """
    if isinstance(log, pd.DataFrame) and {"probe", "status"} <= set(log.columns):
        trials = log
    else:
        trials = read_judgements(log, format, mapping)
    name = str(log) if isinstance(log, str | Path) else "the table"
    lines = reading_summary(name, trials) if "files" in trials.attrs else [f"{name}: {len(trials):,} judgements"]
    biases = _biases(trials)
    return Diagnosis(
        reading=tuple(lines),
        holdings=holdings(prepared(trials)),
        unread=_unread(trials),
        advice=tuple(explain_unread(trials)) if unread_share(trials) > HALF else (),
        biases=biases,
        command=_command(log, format, mapping, trials, biases),
    )


def _biases(trials: pd.DataFrame) -> pd.DataFrame:
    """Return, for each judge and metric with a verdict, whether it can be estimated or what would allow it."""
    judges = list(dict.fromkeys(trials["judge"].astype(str)))
    try:
        readable, unread = readable_judges(trials)
    except UnreadableLogError:
        readable, unread = trials.iloc[:0], dict.fromkeys(judges, f"{_UNREAD_LOG} ({describe_unread(trials)})")
    usable = prepared(readable)
    contents = {str(judge): holdings(own) for judge, own in usable.groupby("judge", sort=False, observed=True)}
    rows: list[dict[str, Any]] = []
    for name, measure in measures(Resampling(n=100, values_only=True)).items():
        metrics = interesting(measure)
        if not metrics:
            continue
        contexts, reasons = _tried(measure, metrics, usable, list(contents))
        for judge in judges:
            for metric in metrics:
                n = contexts.get((judge, metric), 0)
                why = "" if n else unread.get(judge) or reasons.get((judge, metric), "") or "no trials left"
                rows.append(_row(judge, name, metric, n, why, contents.get(judge)))
    columns = ["judge", "probe", "metric", "label", "estimable", "n_contexts", "why", "addition"]
    return pd.DataFrame(rows, columns=columns)


def _row(judge: str, probe: str, metric: str, contexts: int, why: str, contents: Holdings | None) -> dict[str, Any]:
    label = find_metric(metric, probe).label
    lacking = "readable replies" if contents is None else addition_for(metric, probe, contents)
    return {"judge": judge, "probe": probe, "metric": metric, "label": label, "estimable": contexts > 0,
            "n_contexts": contexts, "why": why, "addition": "" if contexts else lacking}  # fmt: skip


_Tried = tuple[dict[tuple[str, str], int], dict[tuple[str, str], str]]


def _tried(measure: Measure | Probe, metrics: tuple[str, ...], usable: pd.DataFrame, judges: list[str]) -> _Tried:
    """Return the number of contexts in which each judge's metrics can be estimated, or the reason why not."""
    if usable.empty:
        return {}, {}
    accepted = measure.accepts(usable)
    if accepted.trials.empty:
        return {}, {(judge, metric): accepted.note for judge in judges for metric in metrics}
    kept, runs = accepted.trials, accepted.probe or measure
    contexts = kept[["judge", "dataset", "context_id"]].drop_duplicates()
    counts = contexts["judge"].value_counts().to_dict()
    first = contexts[contexts.groupby("judge", sort=False).cumcount() < _SAMPLE]
    few = kept if len(first) == len(contexts) else kept.merge(first, on=["judge", "dataset", "context_id"])
    known, reasons = _estimable(runs, metrics, few)
    lacking = {str(judge) for judge in counts for metric in metrics if (judge, metric) not in known}
    if len(few) < len(kept) and lacking:
        of_all, reasons = _estimable(runs, metrics, kept[kept["judge"].isin(lacking)])
        known |= of_all
    for judge in judges:
        if judge not in counts:
            why = measure.accepts(usable[usable["judge"] == judge]).note or accepted.note
            reasons |= {(judge, metric): why for metric in metrics}
    return {key: int(counts[key[0]]) for key in known}, reasons


def _estimable(
    runs: Measure | Probe, metrics: tuple[str, ...], trials: pd.DataFrame
) -> tuple[set[tuple[str, str]], dict[tuple[str, str], str]]:
    """Return judges and metrics with an estimate, and for the others the notes of the estimates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if isinstance(runs, Probe):
                estimates = runs.estimate(trials, list(metrics), breakdowns=False)
            else:
                estimates = runs.estimate(trials)
        except BiaslabError as error:
            why = str(error).partition("\n")[0]
            return set(), {(str(judge), metric): why for judge in trials["judge"].unique() for metric in metrics}
    rows = estimates[estimates["metric"].isin(metrics)]
    known = rows[rows["estimate"].notna()]
    undefined = rows[rows["estimate"].isna()].drop_duplicates(["judge", "metric"])
    reasons = zip(undefined["judge"].astype(str), undefined["metric"], undefined["note"], strict=True)
    never = {
        (str(judge), metric): "these trials give no estimate"
        for judge in trials["judge"].unique()
        for metric in metrics
    }
    return (
        set(zip(known["judge"].astype(str), known["metric"], strict=True)),
        never | {(judge, metric): str(note) for judge, metric, note in reasons},
    )


def _unread(trials: pd.DataFrame) -> pd.DataFrame:
    """Return each kind of unreadable reply, with counts and examples."""
    unread = trials[~trials["status"].isin(_READ)]
    rows = []
    for status, part in unread.groupby("status", sort=False, observed=True):
        replies = part["reply"].dropna() if "reply" in part else pd.Series(dtype=object)
        replies = replies[replies.astype(str).str.strip() != ""].drop_duplicates().head(_EXAMPLES)
        rows.append(
            {"status": str(status), "n": len(part), "examples": [shortened(str(reply), _LONGEST) for reply in replies]}
        )
    return pd.DataFrame(rows, columns=["status", "n", "examples"])


def _command(log: object, format_: str | None, mapping: object, trials: pd.DataFrame, biases: pd.DataFrame) -> str:
    """Return the command that computes the possible estimates."""
    people = not biases["estimable"].any() and bool(trials["ratings"].fillna("").ne("").all())
    if not isinstance(log, str | Path) or callable(mapping):
        return "biaslab.audit(trials)"
    words = ["biaslab audit", shlex.quote(str(log)), *(["--format", format_] if format_ else [])]
    if isinstance(mapping, Mapping):
        words += [map_line(mapping)] if mapping else []
    elif mapping is not None:
        words += ["--mapping", shlex.quote(str(mapping))]
    return " ".join([*words, *(["--humans"] if people else [])])
