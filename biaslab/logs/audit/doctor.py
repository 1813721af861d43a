"""Diagnose a log: its content, unreadable replies, and the biases that can be estimated from it."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.errors import BiaslabError, UnreadableLogError
from biaslab.core.metrics import find_metric
from biaslab.core.output import count, wrapped
from biaslab.logs.audit.holdings import PAIRS, SCORES, STUDY, addition_for, holdings
from biaslab.logs.audit.measures import AuditMeasure
from biaslab.logs.audit.run import interesting, measures, prepared, readable_judges
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.card import HALF, ReadingCard, describe_unread, explain_unread, unread_share
from biaslab.logs.readers.documents import LogInput
from biaslab.logs.readers.mapping import map_line
from biaslab.probes.base.probe import Accepted, Probe
from biaslab.stats.resample import Resampling

_SAMPLE = 100  # contexts per judge to try first
_READ = ("ok", "tie")
_CONTEXT = ["dataset", "context_id"]
_UNREAD_LOG = "more than half of the log could not be read"
_NO_TRIALS = "no trials left"


def doctor(
    log: LogInput,
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
        Prints as text. ``biases`` is a table of what can be estimated, ``unread`` lists what could not be
        read, ``holdings`` has counts, and ``command`` is the next command to run.

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
    biases = _biases(trials)
    return Diagnosis(
        n_judgements=len(trials),
        reading=trials.attrs.get("reading"),
        holdings=holdings(prepared(trials)),
        unread=tuple(_unread(trials)),
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
        contexts, reasons = _tried(measure, interesting(measure), usable, list(contents))
        counts = contexts["judge"].value_counts()
        for metric in interesting(measure):
            able = [judge for judge in judges if reasons.get((judge, metric)) == ""]
            of_all = len(contexts.loc[contexts["judge"].isin(able), _CONTEXT].drop_duplicates())
            for judge in judges:
                n = int(counts[judge]) if judge in able else 0
                why = "" if n else unread.get(judge) or reasons.get((judge, metric), _NO_TRIALS)
                lacking = addition_for(metric, name, contents[judge]) if judge in contents else "readable replies"
                label = find_metric(metric, name).label
                rows.append({"judge": judge, "probe": name, "metric": metric, "label": label, "estimable": n > 0,
                             "n_contexts": n, "contexts_of_all": of_all, "why": why,
                             "addition": "" if n else lacking})  # fmt: skip
    columns = ["judge", "probe", "metric", "label", "estimable", "n_contexts", "contexts_of_all", "why", "addition"]
    return pd.DataFrame(rows, columns=columns)


_Reasons = dict[tuple[str, str], str]  # why a judge's metric cannot be estimated; empty if it can be


def _tried(
    measure: AuditMeasure | Probe, metrics: tuple[str, ...], usable: pd.DataFrame, judges: list[str]
) -> tuple[pd.DataFrame, _Reasons]:
    """Return the contexts that each judge offers, and for each of its metrics why it cannot be estimated."""
    accepted = measure.accepts(usable) if metrics and len(usable) else Accepted(usable.iloc[:0])
    if accepted.trials.empty:
        return usable.iloc[:0], dict.fromkeys(product(judges, metrics), accepted.note or _NO_TRIALS)
    kept, runs = accepted.trials, accepted.probe or measure
    contexts = kept[["judge", *_CONTEXT]].drop_duplicates()
    first = contexts[contexts.groupby("judge", sort=False).cumcount() < _SAMPLE]
    few = kept if len(first) == len(contexts) else kept.merge(first, on=["judge", *_CONTEXT])
    reasons = _estimable(runs, metrics, few)
    lacking = {judge for (judge, _), why in reasons.items() if why}
    if len(few) < len(kept) and lacking:
        of_all = _estimable(runs, metrics, kept[kept["judge"].isin(lacking)])
        reasons = of_all | {of: "" for of, why in reasons.items() if not why}
    for judge in set(judges).difference(contexts["judge"]):
        why = measure.accepts(usable[usable["judge"] == judge]).note or accepted.note or _NO_TRIALS
        reasons |= {(judge, metric): why for metric in metrics}
    return contexts.astype({"judge": str}), reasons


def _estimable(runs: AuditMeasure | Probe, metrics: tuple[str, ...], trials: pd.DataFrame) -> _Reasons:
    """Return why metrics of judges have no estimate from trials."""
    reasons = dict.fromkeys(product(trials["judge"].unique().astype(str), metrics), "these trials give no estimate")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if isinstance(runs, Probe):
                estimates = runs.estimate(trials, list(metrics), breakdowns=False)
            else:
                estimates = runs.estimate(trials)
        except BiaslabError as error:
            return dict.fromkeys(reasons, str(error).partition("\n")[0])
    rows = estimates[estimates["metric"].isin(metrics)].astype({"judge": str})
    known = rows["estimate"].notna()
    undefined = rows[~known].drop_duplicates(["judge", "metric"])
    notes = [note or _NO_TRIALS for note in undefined["note"]]
    reasons |= dict(zip(zip(undefined["judge"], undefined["metric"], strict=True), notes, strict=True))
    return reasons | dict.fromkeys(zip(rows["judge"][known], rows["metric"][known], strict=True), "")


def _unread(trials: pd.DataFrame) -> Iterator[str]:
    """Yield the number of each kind of unreadable reply; if these are most, how to have them read."""
    for status, n in trials["status"].value_counts(sort=False).items():
        if status not in _READ:
            yield f"{status}: {n:,}"
    yield from explain_unread(trials) if unread_share(trials) > HALF else ()


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


_WIDTH = 100
_NEEDS = "needs "


@dataclass(frozen=True)
class Diagnosis:
    """Result of `biaslab.doctor`: the format of a log and what can be estimated from it.

    Parameters
    ----------
    n_judgements : int
        Number of judgements.
    reading : dict, optional
        How the log was read; see `biaslab.read_judgements`.
    holdings : mapping of str to int
        Counts of the log's content; see `biaslab.logs.audit.holdings.holdings`.
    unread : tuple of str
        How many replies of each kind are unreadable, and if these are most, how to have them read.
    biases : pandas.DataFrame
        One row per judge and metric: ``judge, probe, metric, label, estimable``; ``n_contexts`` of the judge, and
        ``contexts_of_all``, the different ones of all judges; and, if it cannot be estimated, ``why`` and
        ``addition``, the smallest addition to the log that would allow it.
    command : str
        The next command to run.
    """

    n_judgements: int
    reading: Mapping[str, Any] | None
    holdings: Mapping[str, int]
    unread: tuple[str, ...]
    biases: pd.DataFrame
    command: str

    def __str__(self) -> str:
        """Return the diagnosis as text: what was read, what can or cannot be estimated and why, and the next step."""
        return "\n".join([self.estimable_text, *self._next()])

    @property
    def estimable_text(self) -> str:
        """What was read and what can be estimated, as text."""
        return "\n".join([*self._read(), "", *self._held()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rest = "\n".join([*self._held(), *self._next()])
        if self.reading is None:
            return f"<pre>{escape(str(self))}</pre>"
        return f"{ReadingCard(self.reading)._repr_html_()}<pre>{escape(rest)}</pre>"

    def _read(self) -> Iterator[str]:
        if self.reading is None:
            yield f"{self.n_judgements:,} judgements"
            return
        yield from ReadingCard(self.reading).lines()
        if self.n_judgements != self.reading["counts"]["judgements"]:
            yield f"of these, {self.n_judgements:,} judgements"

    def _held(self) -> list[str]:
        unread = ["", "not read:", *(f"  {line}" for line in self.unread)] if self.unread else []
        return [*_holdings(self.holdings), *unread, *self._estimable()]

    def _next(self) -> list[str]:
        return [*self._lacking(), "", f"next: {self.command}"]

    def _estimable(self) -> Iterator[str]:
        known = self.biases[self.biases["estimable"]]
        yield from ("", "can be estimated:" if len(known) else "no bias can be estimated")
        for (probe, label), part in known.groupby(["probe", "label"], sort=False):
            of = _of_judges(part["judge"], self.biases["judge"])
            contexts = count(part["contexts_of_all"].max(), "context")
            yield from wrapped(f"  + {_name(probe)}: {label}, {contexts}{of}", _WIDTH)

    def _lacking(self) -> Iterator[str]:
        lacking = self.biases[~self.biases["estimable"] & (self.biases["addition"] != "")]
        if lacking.empty:
            return
        yield from ("", "cannot be estimated, grouped by what would allow it:")
        whole, named = self.biases["judge"], []
        for (addition, probe, why), part in lacking.groupby(["addition", "probe", "why"], sort=False):
            named.append((str(addition), f"{_name(probe)}{_of_judges(part['judge'], whole)}", str(why)))
        yield from lacking_lines(named)


def lacking_lines(named: Sequence[tuple[str, str, str]], width: int = _WIDTH) -> Iterator[str]:
    r"""Yield lines that list each addition to a log and the estimates it would allow.

    Parameters
    ----------
    named : sequence of (str, str, str)
        The addition, the estimate that it would allow, and why the log does not allow this estimate yet. Additions with
        the same text before a colon are one step. Reasons that start with "needs" repeat the addition and are omitted.
    width : int
        Characters per line.

    Examples
    --------
    >>> named = [("judge 9 pairs again", "a", "too few"), ("score items: 9", "b", "needs scores"),
    ...     ("score items: 12", "c", "needs scores"), ("judge 9 pairs again", "d", "needs more pairs")]
    >>> print("\n".join(lacking_lines(named)))
      – judge 9 pairs again: d
        a: too few
      – score items
        b: 9
        c: 12
    """
    steps: dict[str, list[tuple[str, str]]] = {}
    for addition, name, why in named:
        step, _, detail = (addition, "", "") if addition == STUDY else addition.partition(": ")
        steps.setdefault(step, []).append((name, detail or ("" if why.startswith(_NEEDS) or step == STUDY else why)))
    last = (SCORES, PAIRS, STUDY)  # more work than additions to existing judgements, so listed last
    for step in sorted(steps, key=lambda step: last.index(step) if step in last else -1):
        parts = steps[step]
        plain = ", ".join(dict.fromkeys(name for name, reason in parts if not reason))
        yield from wrapped(f"  – {step}{plain and ': '}{plain}", width)
        reasons: dict[str, list[str]] = {}
        for name, reason in parts:
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield from wrapped(f"    {', '.join(dict.fromkeys(names))}: {reason}", width) if reason else ()


def _holdings(counts: Mapping[str, int]) -> list[str]:
    nouns = ("judge", "context", "candidate", "attribute", "prompt", "replicate")
    lines = ["  " + ", ".join(count(counts[f"{noun}s"], noun) for noun in nouns)]
    if counts["pairs"]:
        orders = ("both_orders", "one_order", "unknown_order")
        shown = ", ".join(f"{counts[order]:,} in {order.replace('_', ' ')}" for order in orders if counts[order])
        known = f"with human preference {counts['rated_pairs']:,}, with lengths {counts['long_pairs']:,}"
        lines.append(f"  {count(counts['pairs'], 'pair')}: {shown}; {known}")
    if counts["scores"]:
        known = f"with human scores {counts['rated_items']:,}, with lengths {counts['long_items']:,}"
        lines.append(f"  {counts['scores']:,} scores of {count(counts['items'], 'item')}: {known}")
    if counts["annotators"]:
        lines.append(f"  at most {count(counts['annotators'], 'annotator')} per item")
    return lines


def _name(probe: object) -> str:
    return str(probe).replace("_", " ")


def _of_judges(some: pd.Series, whole: pd.Series) -> str:
    """Name the judges of some rows in brackets, or count them if more than three; empty if these are all judges."""
    judges = some.drop_duplicates()
    total = whole.nunique()
    if len(judges) == total:
        return ""
    return f" ({', '.join(map(str, judges))})" if len(judges) <= 3 else f" ({len(judges)} of {total} judges)"
