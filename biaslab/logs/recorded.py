"""Replay recorded judgements, or an export of a store, as a judge."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.checks import pairs, require_dataset
from biaslab.core.errors import InputError, JudgeError, TrialsError
from biaslab.core.interfaces import BaseJudge, require_kinds
from biaslab.core.requests import KINDS, Choice, Completion, Request, request_fields
from biaslab.core.scales import Scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply
from biaslab.datasets._files import text_key
from biaslab.judges.simulated.knowledge import Knowledge, ListQuestion, PairQuestion, Questions, ScoreQuestion
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.documents import first_rows, iter_documents, read_rows
from biaslab.logs.readers.formats import load_spec
from biaslab.logs.readers.rows import Log
from biaslab.store.codec import reply_from_json

_ORDERS = {"none": "s", "after": "sr", "before": "rs"}
_ABOUT = ("context_id", "candidate_id", "opponent_id", "attribute")
_DIFFER = ("judge", "dataset", "template", "configuration", "form")
_READ = (*_ABOUT, "judge", "replicate", "value", "status")

_TrialKey = tuple[str, str, str, str]


class _Judgement(NamedTuple):
    """One recorded judgement."""

    value: float
    status: str
    order: str
    reply: str | None


class RecordedJudge(BaseJudge):
    """Judge that answers requests from a log.

    Parameters
    ----------
    log : path or pandas.DataFrame
        Input or result of `biaslab.read_judgements`.
    dataset : Dataset
        The data set whose texts are in the prompts.
    where : mapping of str to str, optional
        Column of the trials → value to keep, such as ``{"configuration": "rts"}``, to select one of several judges or
        prompts.
    partial : bool
        Return empty replies for missing judgements, which probes count as missing, instead of refusing to start.

    Raises
    ------
    InputError
        If the selection still has several judges, prompts or configurations, or no judgements of this data set.

    Notes
    -----
    A request is answered if the log has a judgement of the same context, candidates in the same order, and attribute.
    Requests of probes and scorers state these (`biaslab.core.About`). Identifiers must be those of the data set; logs
    that identify contexts by their text are matched by it. Candidates of a context with the same text count as one
    candidate, the first.

    The wording of the prompt is *not* compared: the judge answered another prompt, and repeats that answer for every
    template of a probe. A probe that varies the prompt therefore finds no difference unless the log has one. Two things
    are compared: the scale, which must be that of the log, and the order of score and rationale, if the log has both.

    The reply is the recorded verdict in the requested form: label probabilities (all on one label, the shares over
    several replicates, or the recorded probability), or the label as text, from the same replicate. Recorded ties,
    refusals and unreadable replies are reproduced as such. A recorded judge uses no tokens, and its ``id`` changes with
    the judgements.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=4)
    >>> probe = bl.probes.Position(attributes=["fluency"], templates=[1])
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, position=1.0), data, progress=False)
    >>> again = bl.collect(probe, RecordedJudge(trials, data), data, progress=False)
    >>> bool((again["value"] - trials["value"]).abs().max() < 1e-9)
    True
    """

    kinds: frozenset[type] = frozenset({Choice, Completion})
    is_recorded = True

    def __init__(
        self,
        log: str | Path | pd.DataFrame,
        dataset: Dataset,
        where: Mapping[str, str] | None = None,
        partial: bool = False,
    ) -> None:
        require_dataset(dataset)
        trials = log if isinstance(log, pd.DataFrame) else read_judgements(log)
        trials = trials if "opponent_id" in trials else trials.assign(opponent_id=None)
        missing = [name for name in _READ if name not in trials]
        if missing:
            raise TrialsError.plain(f"log lacks {', '.join(missing)}, expected: a frame with {', '.join(_READ)}")
        trials = _chosen(trials, where or {})
        self.partial, self._questions = partial, Questions(Knowledge(dataset), rated=False)
        self._contexts = _contexts(trials, dataset)
        scores = trials[trials["opponent_id"].isna()]
        names = sorted(set(scores["scale"].dropna())) if "scale" in trials else []
        self._scales = {scale_named(name).values: name for name in names}  # noqa: PD011 - not pandas
        self._recorded = _by_key(trials)
        self._orders = {one.order for replicates in self._recorded.values() for one in replicates.values()} - {""}
        name = "+".join(sorted(set(trials["judge"])))
        self.id = f"recorded/{name}/{_digest(trials)}"

    def check(self, requests: Iterable[Request]) -> None:
        """Raise `JudgeError` if a request is not supported or not in the log.

        The message gives the number missing and the first of them; with ``partial``, missing ones are accepted.
        """
        asked = list(requests)
        require_kinds(self, asked)
        absent = [(request, why) for request in asked for why in [self._missing(request)] if why]
        if absent and not self.partial:
            request, why = absent[0]
            lacking = f"{len(absent)} of {len(asked)} requests have no recorded judgement, the first: {why}"
            raise JudgeError(f"{lacking}; use partial=True to count them as missing", request)

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Yield each request with the recorded reply."""
        for request in requests:
            why = self._missing(request)
            if why and not self.partial:
                raise JudgeError(f"no recorded judgement: {why}", request)
            yield request, self._nothing(request) if why else self._reply(request)

    def _missing(self, request: Request) -> str:
        """Return why a request has no recorded judgement; an empty string if it has one."""
        question = self._question(request)
        if isinstance(question, ScoreQuestion) and self._scales and question.scale.values not in self._scales:  # noqa: PD011
            return f"scores on the scale {question.scale.name}; the log has {', '.join(self._scales.values())}"
        replicate = request.replicate if isinstance(request, Completion) else None
        for key in self._keys(question):
            replicates = self._replicates(key, question)
            if not replicates or (replicate is not None and replicate not in replicates):
                of = f", replicate {replicate}" if replicates else ""
                return f"{' / '.join(filter(None, key))}{of}"
        return ""

    def _question(self, request: Request) -> PairQuestion | ScoreQuestion:
        if not isinstance(request, Choice | Completion):
            raise JudgeError("a recorded judge answers choices and completions only", request)
        question = self._questions.of(request)
        if isinstance(question, ListQuestion):
            raise JudgeError("the log has judgements of pairs or scores, not of lists", request)
        return question

    def _keys(self, question: PairQuestion | ScoreQuestion) -> list[_TrialKey]:
        if isinstance(question, ScoreQuestion):
            shown, opponent, attributes = question.shown, "", question.attributes
        else:
            shown, opponent, attributes = question.first, question.second.candidate_id, (question.attribute,)
        context = self._contexts.get(shown.context_id, shown.context_id)
        return [(context, shown.candidate_id, opponent, attribute) for attribute in attributes]

    def _replicates(self, key: _TrialKey, question: PairQuestion | ScoreQuestion) -> dict[int, _Judgement]:
        recorded = self._recorded.get(key, {})
        if isinstance(question, PairQuestion) or len(self._orders) < 2:
            return {replicate: judgement for (replicate, _), judgement in recorded.items()}
        wanted = _ORDERS[question.reasons]
        return {replicate: judgement for (replicate, order), judgement in recorded.items() if order == wanted}

    def _reply(self, request: Request) -> Reply:
        question = self._question(request)
        recorded = [self._replicates(key, question) for key in self._keys(question)]
        if isinstance(request, Choice):
            return Reply(logprobs=_logprobs(list(recorded[0].values()), question, request.labels))
        judgements = [replicates[request.replicate] for replicates in recorded]  # type: ignore[union-attr]
        if len(judgements) == 1:
            return _text(judgements[0], question)
        names = question.attributes  # type: ignore[union-attr]
        lines = [f"{name}: {_text(one, question).text}" for name, one in zip(names, judgements, strict=True)]
        return Reply(text="\n".join(lines), finish_reason="stop")

    def _nothing(self, request: Request) -> Reply:
        if isinstance(request, Choice):
            return Reply(logprobs=(-math.inf,) * len(request.labels))
        return Reply(text="", finish_reason="stop")


def rows_where(trials: pd.DataFrame, where: Mapping[str, str]) -> pd.DataFrame:
    """Select the rows of a log with the given column values.

    Raises
    ------
    InputError
        If there is no such column or row; the message lists what exists.
    """
    for name, value in where.items():
        if name not in trials:
            raise InputError("where", name, f"a column of the log: {', '.join(trials.columns)}")
        kept = trials[trials[name].astype(str) == str(value)]
        if kept.empty:
            raise InputError(f"where[{name!r}]", value, f"one of {', '.join(map(str, trials[name].unique()))}")
        trials = kept
    return trials


def _chosen(trials: pd.DataFrame, where: Mapping[str, str]) -> pd.DataFrame:
    trials = rows_where(trials, where)
    if "label" in trials and trials["label"].notna().any():
        raise InputError.plain("log has several rows per judgement, one per label; collect it with answer='text'")
    about = [name for name in _ABOUT if name in trials] + ["replicate"] + [n for n in ("scale", "order") if n in trials]
    repeated = trials[trials.duplicated(about, keep=False)]
    distinct = repeated.groupby(about, dropna=False)[["value", "status"]].nunique(dropna=False).max(axis=1)
    if len(repeated) and (distinct > 1).any():
        names = [name for name in _DIFFER if name in repeated and len(repeated[name].unique()) > 1]
        listed = "; ".join(f"{name}: {', '.join(map(str, repeated[name].unique()[:8]))}" for name in names)
        raise InputError("where", dict(where), "a selection with one judgement of each kind", f"choose one of {listed}")
    return trials.drop_duplicates(about)


def _contexts(trials: pd.DataFrame, dataset: Dataset) -> dict[str, str]:
    """Map contexts of the data set to those of the log, for contexts that the log identifies by their text."""
    known = set(trials["context_id"])
    texts = dataset.candidates.drop_duplicates("context_id")
    keyed = {str(row.context_id): text_key(str(row.context).strip()) for row in texts.itertuples()}
    by_source: dict[str, str] = {}
    if "source_key" in trials:
        pairs = trials[["source_key", "context_id"]].drop_duplicates()
        single = pairs[~pairs["source_key"].duplicated(keep=False)].astype(object)
        by_source = dict(zip(single["source_key"], single["context_id"], strict=True))
    named = {context_id: by_source.get(key, key) for context_id, key in keyed.items() if context_id not in known}
    if not known & {*keyed, *named.values()}:
        raise InputError("dataset", dataset.name, "the data set that was judged; the log has none of its contexts",
                         f"the log has, for example, {sorted(known)[:3]}")  # fmt: skip
    return named


def _by_key(trials: pd.DataFrame) -> dict[_TrialKey, dict[tuple[int, str], _Judgement]]:
    orders = trials["order"].fillna("") if "order" in trials else [""] * len(trials)
    replies = trials["reply"] if "reply" in trials else [None] * len(trials)
    columns = [trials[name].fillna("") if name == "opponent_id" else trials[name] for name in _ABOUT]
    judgements: dict[_TrialKey, dict[tuple[int, str], _Judgement]] = {}
    rest = zip(trials["replicate"], orders, trials["value"], trials["status"], replies, strict=True)
    for key, (replicate, order, value, status, reply) in zip(zip(*columns, strict=True), rest, strict=True):
        judgement = _Judgement(float(value), str(status), str(order), reply if isinstance(reply, str) else None)
        judgements.setdefault(tuple(map(str, key)), {})[int(replicate), str(order)] = judgement  # type: ignore[arg-type]
    return judgements


def _logprobs(
    judgements: Sequence[_Judgement], question: PairQuestion | ScoreQuestion, labels: tuple[str, ...]
) -> tuple[float, ...]:
    """Return log-probabilities of the labels from shares over replicates with a value; -inf if none has one."""
    usable = [one for one in judgements if one.status in ("ok", "tie") and not math.isnan(one.value)]
    weights = np.zeros(len(labels))
    for one in usable:
        weights += _of_pair(one, len(labels)) if isinstance(question, PairQuestion) else _of_score(one, question.scale)
    total = weights.sum()
    with np.errstate(divide="ignore"):
        return tuple(np.log(weights / total).tolist()) if total > 0 else (-math.inf,) * len(labels)


def _of_pair(judgement: _Judgement, labels: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    if judgement.status == "tie" and labels > 2:
        return np.array([0.0, 0.0, 1.0])
    return np.array([judgement.value, 1 - judgement.value, *[0.0] * (labels - 2)])


def _of_score(judgement: _Judgement, scale: Scale) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return label weights whose mean is the score: 3.5 is half 3 and half 4."""
    values = np.array(scale.values)
    right = int(np.searchsorted(values, judgement.value).clip(1, len(values) - 1))
    share = (judgement.value - values[right - 1]) / (values[right] - values[right - 1])
    weights = np.zeros(len(values))
    weights[right - 1 : right + 1] = 1 - share, share
    return weights


def _text(judgement: _Judgement, question: PairQuestion | ScoreQuestion) -> Reply:
    """Return the recorded verdict as text in the requested form."""
    if judgement.status == "refused":
        return Reply(text=judgement.reply or "", finish_reason="refusal")
    if judgement.status not in ("ok", "tie") or math.isnan(judgement.value):
        shown = judgement.reply if judgement.status == "out_of_range" else ""
        return Reply(text=shown or "", finish_reason="stop")
    if isinstance(question, PairQuestion):
        first, second, *tie = question.labels
        if judgement.value == 0.5 or judgement.status == "tie":
            return Reply(text=tie[0] if tie else "Tie", finish_reason="stop")
        return Reply(text=first if judgement.value > 0.5 else second, finish_reason="stop")
    labels = dict(zip(question.scale.values, question.scale.labels, strict=True))
    return Reply(text=labels.get(judgement.value, f"{judgement.value:.12g}").strip(), finish_reason="stop")


def _digest(trials: pd.DataFrame) -> str:
    """Return eight hex digits that identify the judgements, independent of their order."""
    lines = Counter("\x1f".join(map(str, row)) for row in trials[list(_READ)].itertuples(index=False, name=None))
    return hashlib.sha256(repr(sorted(lines.items())).encode("utf-8", "surrogatepass")).hexdigest()[:8]


_KINDS: dict[str, type] = {kind.kind: kind for kind in KINDS}


class ExportedJudge(BaseJudge):
    """Judge that answers from an exported store; a request must be identical in every field to a stored one.

    Parameters
    ----------
    path : str or Path
        A file written by `biaslab.Store.export`.
    judge : str, optional
        Judge to replay; required if the export contains several.

    Raises
    ------
    InputError
        If the file is not an export, lacks the chosen judge, or contains several judges and none is chosen.

    Examples
    --------
    >>> import biaslab as bl, pathlib, tempfile
    >>> data, folder = bl.load_dataset("graded", limit=2), pathlib.Path(tempfile.mkdtemp())
    >>> probe = bl.probes.Position(attributes=["fluency"], n_pairs=2)
    >>> with bl.Store(folder / "store.sqlite") as store:
    ...     trials = bl.collect(probe, bl.SimulatedJudge(data), data, store=store, progress=False)
    ...     _ = store.export(folder / "export.jsonl")
    >>> again = bl.collect(probe, ExportedJudge(folder / "export.jsonl"), data, progress=False)
    >>> bool((again["value"] == trials["value"]).all())
    True
    """

    is_recorded = True

    def __init__(self, path: str | Path, judge: str | None = None) -> None:
        by_judge = _replies(path)
        if not by_judge or (judge is None and len(by_judge) > 1) or (judge is not None and judge not in by_judge):
            allowed = f"one of {', '.join(by_judge)}" if by_judge else "a judge in an exported biaslab store"
            raise InputError("judge", judge, allowed, "choose one" if by_judge else "export it with store.export(path)")
        name = judge or next(iter(by_judge))
        self._replies = by_judge[name]
        self.kinds = frozenset(_KINDS[key.partition(" ")[0]] for key in self._replies)
        entries = sorted((key, repr(reply)) for key, reply in self._replies.items())
        self.id = f"recorded/{name}/{hashlib.sha256(repr(entries).encode()).hexdigest()[:8]}"

    def check(self, requests: Iterable[Request]) -> None:
        """Raise `JudgeError` if any request has no stored reply, with the number of these and the first one."""
        asked = list(requests)
        require_kinds(self, asked)
        absent = [request for request in asked if _key(request.kind, request_fields(request)) not in self._replies]
        if absent:
            raise JudgeError(f"{len(absent)} of {len(asked)} requests have no reply in the export", absent[0])

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Yield each request with its stored reply."""
        for request in requests:
            reply = self._replies.get(_key(request.kind, request_fields(request)))
            if reply is None:
                raise JudgeError("the request has no reply in the export", request)
            yield request, reply


def is_export(path: str | Path) -> bool:
    """Return whether a file is an export of a store."""
    rows = first_rows(path)
    return rows is not None and set(rows.records[0]) >= load_spec("store_export").fields[0]


def _replies(path: str | Path) -> dict[str, dict[str, Reply]]:
    """Return the replies by judge and request key, skipping damaged records."""
    replies: dict[str, dict[str, Reply]] = {}
    for document in iter_documents(path):
        for rows in read_rows(document, Log(document.name)):
            for record in rows.records:
                entry = _entry(record)
                if entry:
                    replies.setdefault(entry[0], {})[entry[1]] = entry[2]
    return replies


def _entry(record: dict[str, Any]) -> tuple[str, str, Reply] | None:
    """Return judge, request key and reply of a record; None if it is damaged."""
    try:
        request, reply = (v if isinstance(v := record[name], str) else json.dumps(v) for name in ("request", "reply"))
        kind, judge = record["kind"], str(record["judge"])
        return (judge, _key(kind, json.loads(request)), reply_from_json(reply)) if kind in _KINDS else None
    except (InputError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _key(kind: str, fields: dict[str, Any]) -> str:
    return f"{kind} {json.dumps(fields, sort_keys=True, ensure_ascii=True)}"


def load_named(name: str, dataset: Dataset | None) -> ExportedJudge | RecordedJudge:
    """Load a recorded judge from a name such as ``"recorded:log.jsonl,configuration=rts"``.

    Raises
    ------
    InputError
        If a log is named without the data set that was judged.
    """
    file, where = log_named(name)
    if is_export(file):
        return ExportedJudge(file, where.get("judge"))
    if dataset is None:
        raise InputError("dataset", dataset, "the data set that was judged")
    return RecordedJudge(file, dataset, where)


def log_named(name: str) -> tuple[str, dict[str, str]]:
    """Split the name of a recorded judge into the file and the column values that select its rows.

    Examples
    --------
    >>> log_named("recorded:log.jsonl,configuration=rts")
    ('log.jsonl', {'configuration': 'rts'})
    """
    file, *parts = name.removeprefix("recorded:").split(",")
    return file, pairs(parts, "judge", "column=value, such as configuration=rts")
