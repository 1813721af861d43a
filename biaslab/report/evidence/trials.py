"""Find the trials behind an estimate, with their prompts and replies, and group them."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab import datasets
from biaslab.core.arrays import Bools, Floats, Ints
from biaslab.core.errors import BiaslabError, InputError, TrialsError
from biaslab.core.interfaces import Design
from biaslab.core.output import AnyPath, count
from biaslab.core.requests import KINDS, Request, request_key
from biaslab.core.scales import scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Status, Trial
from biaslab.logs.readers.trials import COLUMNS
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.pairs import decisions, is_pair
from biaslab.probes import find_probe, names
from biaslab.stats.frame import BINS, LEADING, TRAILING, require_columns
from biaslab.store import Store
from biaslab.store.codec import StoredReply
from biaslab.study.collect import collect


def is_estimates(frame: pd.DataFrame) -> bool:
    """Return whether a frame holds estimates, not trials."""
    return {"metric", "estimate"} <= set(frame.columns)


def behind(estimates: pd.DataFrame, trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the trials behind rows of estimates, with notes on conditions that could not be separated.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Rows of an estimates frame, from a probe or from `biaslab.audit`.
    trials : pandas.DataFrame
        The trials they were estimated from.

    Raises
    ------
    TrialsError
        If there is no row, or a row has no trials.

    Notes
    -----
    Trials are matched by probe, judge, data set and every condition that is a column of the trials. A bin of the human
    gap is matched by the pairs whose gap lies in the bin, for the default number of bins. From a log, only trials that
    the probe accepts are used. A condition that the probe computes itself cannot be matched; a note says so.
    """
    if estimates.empty:
        raise TrialsError.plain("estimates are empty; select at least one")
    parts, notes = [], dict[str, None]()
    for row in estimates.to_dict("records"):
        cell, unused = _of_row({str(name): value for name, value in row.items()}, trials)
        if cell.empty:
            labels = ", ".join(str(row[name]) for name in (*LEADING, "attribute") if name in row)
            remedy = "pass the trials that the estimates were computed from"
            raise TrialsError.plain(f"trials contain none behind {labels}; {remedy}")
        parts.append(cell)
        if unused:
            notes[f"Trials have no {' and '.join(unused)}: showing the whole cell of {row['metric']}."] = None
    whole = pd.concat(parts)
    return whole[~whole.index.duplicated()].sort_index(), list(notes)


def _of_row(row: Mapping[str, Any], trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the trials behind one row, and the conditions that the trials lack."""
    cell, unused = _accepted(str(row.get("probe", "")), trials), []
    for name in ("judge", "dataset"):
        if name in row and name in cell:
            cell = cell[cell[name] == row[name]]
    conditions = [c for c in row if c not in (*LEADING, *TRAILING, *BINS) and not pd.isna(row[c])]
    for name in conditions:
        if name not in cell:
            unused.append(f"{name} {row[name]}")
            continue
        cell = cell[cell[name].astype(str) == _as_in_column(row[name], cell[name])]
    if not pd.isna(row.get("human_gap")):
        cell = _of_bin(cell, float(row["human_gap"]))
    return trials.loc[trials.index.isin(cell.index)], unused


def _accepted(probe: str, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that a probe accepts, named as in its estimates."""
    own = trials[trials["probe"] == probe] if "probe" in trials else trials
    if len(own) or probe not in names():
        return own if len(own) else trials
    if set(trials.columns) < set(COLUMNS):
        return trials
    try:
        return find_probe(probe)().accepts(trials).trials
    except BiaslabError:
        return trials.iloc[:0]


def _as_in_column(value: Any, column: pd.Series) -> str:
    """Format a value like the column's: integers in a frame with gaps became floats."""
    if isinstance(value, float) and value.is_integer() and not pd.api.types.is_float_dtype(column.dtype):
        return str(int(value))
    return str(float(value)) if pd.api.types.is_float_dtype(column.dtype) else str(value)


def _of_bin(trials: pd.DataFrame, mean: float, bins: int = 4) -> pd.DataFrame:
    """Return the pairs in the human-gap bin whose mean is nearest to `mean`."""
    both = trials[is_pair(trials) & trials["human_gap"].notna().to_numpy()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blocks = pairs.both_orders(both, "pairs")
    binned = list(pairs.in_bins(blocks, bins))
    if not binned:
        return both
    _, chosen = min(binned, key=lambda part: abs(part[0] - mean))
    gaps = set(chosen["human_gap"].abs().round(9))
    return both[both["human_gap"].abs().round(9).isin(gaps)]


_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Evidence:
    """Prompts and replies of a set of trials.

    Parameters
    ----------
    requests, replies : mapping
        Mappings by key.
    dataset : Dataset, optional
        Source of texts and human scores.
    missing : tuple of str
        One line for each thing that was not found, with the remedy.
    """

    requests: Mapping[str, Request] = field(default_factory=dict)
    replies: Mapping[str, Reply] = field(default_factory=dict)
    dataset: Dataset | None = None
    missing: tuple[str, ...] = ()


def find(
    trials: pd.DataFrame,
    store: Store | AnyPath | None = None,
    dataset: Dataset | None = None,
    probe: Design | None = None,
) -> Evidence:
    """Find the prompts and replies of trials.

    Parameters
    ----------
    trials : pandas.DataFrame
        The judgements.
    store : Store or path, optional
        Store of the study's replies.
    dataset : Dataset, optional
        The data that was judged; bundled data sets are found by their name in the trials.
    probe : Design, optional
        Rebuilds prompts that are not in a store; by default the probe named in the trials, with default parameters. A
        prompt is accepted if its key equals the trial's.

    Raises
    ------
    StoreError
        If the store is missing or cannot be read.
    """
    known = trials["key"].dropna().unique() if "key" in trials else ()
    keys = [key for key in map(str, known) if _KEY.fullmatch(key)]
    requests: dict[str, Request] = {}
    replies: dict[str, Reply] = {}
    if store is not None:
        for record in _records(store, keys):
            requests[record.key], replies[record.key] = record.request, record.reply
    data = dataset or bundled(trials)
    left = set(keys) - set(requests)
    if data is not None and left:
        requests |= _planned(trials[trials["key"].isin(left)], data, probe)
    evidence = Evidence(requests, replies, data)
    return replace(evidence, missing=tuple(_missing(trials, keys, store, evidence)))


def bundled(trials: pd.DataFrame) -> Dataset | None:
    """Return the bundled data set that the trials name, or None."""
    dataset_names = set(trials["dataset"].dropna()) if "dataset" in trials else set()
    name = str(next(iter(dataset_names), ""))
    short = name.partition(" ")[0]
    if len(dataset_names) != 1 or not name.endswith("(constructed)") or short not in datasets.available():
        return None
    dataset = datasets.load_dataset(short)
    return dataset if dataset.name == name else None


def _records(store: Store | AnyPath, keys: Sequence[str]) -> Iterator[StoredReply]:
    if isinstance(store, Store):
        yield from store.records(keys)
    else:
        with Store(store, create=False) as opened:
            yield from opened.records(keys)


def default_designs(name: str) -> list[Design]:
    """Return the named probe with default parameters, and its variant that parses text, if it has one."""
    if name not in names():
        return []
    kind = find_probe(name)
    texts = [kind(answer="text")] if "answer" in kind.__dataclass_fields__ else []  # type: ignore[call-arg]
    return [kind(), *texts]


def keyed_trials(design: Design, dataset: Dataset, judge_id: str) -> Iterator[tuple[str, Trial]]:
    """Yield planned trials with their keys; consecutive trials with the same request share one hash."""
    asked, key = None, ""
    for trial in design.design(dataset):
        if trial.request is not asked:
            asked, key = trial.request, request_key(trial.request, judge_id)
        yield key, trial


def _planned(trials: pd.DataFrame, dataset: Dataset, probe: Design | None) -> dict[str, Request]:
    """Rebuild the requests for the trials' contexts and return those whose keys match."""
    keys, requests = set(trials["key"]), dict[str, Request]()
    part = dataset.of_contexts(trials["context_id"].unique())
    if part.candidates.empty:
        return requests
    probes = trials["probe"] if "probe" in trials else trials["judge"].map(lambda _: "")
    for name, judge in dict.fromkeys(zip(probes, trials["judge"], strict=True)):
        for design in default_designs(str(name)) if probe is None else [probe]:
            planned = keyed_trials(design, part, str(judge))
            requests |= {key: trial.request for key, trial in planned if key in keys}
    return requests


def _missing(trials: pd.DataFrame, keys: Sequence[str], store: object, evidence: Evidence) -> Iterator[str]:
    """Yield one line per missing thing, with the remedy."""
    of = f" of {count(len(keys), 'judgement')}"
    unasked, unheard = (len(set(keys) - set(known)) for known in (evidence.requests, evidence.replies))
    if not keys:
        reason = "a log has none" if "reply" in trials else "the trials have no key column to look them up by"
        yield f"Prompts are missing: {reason}; pass dataset= with the same identifiers to show source and candidates."
    elif store is None and unheard:
        unavailable = "Prompts and replies" if unasked else "Replies"
        yield f'{unavailable} are missing: pass the store of the study, as in show(…, store="judgements.sqlite").'
    elif unheard:
        yield f"{unheard}{of} are not in the store {store}: it belongs to another study, or they were pruned."
    lacking = set(trials["context_id"])
    if evidence.dataset is None and keys and evidence.requests:
        yield "Candidates are not marked: pass dataset= to find them in the prompts."
    elif evidence.dataset is not None and not lacking & set(evidence.dataset.candidates["context_id"]):
        yield f"Candidates are not marked: the data set {evidence.dataset.name} has none of these contexts."


#: Sort orders. Cards not singled out by a sort order follow in the order of "flips".
SORTS: Final = ("flips", "ties", "unread", "effects", "trials")
#: Outcomes of a card: the decision changes with the order; a tie; a reply without a value; none of these.
OUTCOMES: Final = ("flip", "tie", "unread", "plain")
#: Status of a stored reply that no probe parsed.
NOT_READ: Final = "not read"
NEEDED = ("judge", "context_id", "candidate_id", "attribute", "value", "status")

_WHOSE = ("probe", "judge", "dataset", "context_id", "attribute")
_FIXED = {*_WHOSE, "candidate_id", "opponent_id", "replicate", "value", "status", "label_mass", "samples", "tokens"}
#: Columns that describe what was judged, not how the judge was asked.
_COVARIATES = {
    "human", "opponent_human", "human_gap", "human_scale", "ratings", "annotators", "system", "opponent_system",
    "words", "opponent_words", "subset", "judge_system", "p_first_label", "p_both_orders", "order_known", "label",
    "reply", "key", "outcome", "effect", "winner", "swapped", "card",
}  # fmt: skip


def condition_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns that describe how the judge was asked, such as ``template`` or ``source``."""
    return [str(c) for c in trials.columns if c not in _FIXED and c not in _COVARIATES]


def single_judgements(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per judgement, merging the labels of a distribution into one row with the expected score.

    Raises
    ------
    TrialsError
        If a column is missing, or the frame is empty.
    """
    require_columns(trials, NEEDED, "trials")
    if trials.empty:
        raise TrialsError.plain("trials are empty; select at least one judgement")
    rows = trials.reset_index(drop=True)
    if "label" not in rows or "key" not in rows or rows["label"].isna().all():
        return rows
    labelled = rows["label"].notna()
    expected = pd.to_numeric(rows["label"], errors="coerce") * rows["value"]
    same = [c for c in ("probe", "judge", "context_id", "candidate_id", "attribute", "replicate", "key") if c in rows]
    sums = expected.groupby([rows[c] for c in same], dropna=False).transform(lambda part: part.sum(min_count=1))
    rows["value"] = rows["value"].where(~labelled, sums)
    return rows[~(labelled & rows.duplicated([*same, *condition_columns(rows)]))].reset_index(drop=True)


def grouped(judgements: pd.DataFrame) -> pd.DataFrame:
    """Assign each judgement to a card, and classify the cards.

    Parameters
    ----------
    judgements : pandas.DataFrame
        From `single_judgements`.

    Returns
    -------
    pandas.DataFrame
        One row per judgement, in order: ``card`` (a number), ``swapped`` (the alphabetically later name is shown
        first), ``winner`` (1: the earlier name, 0: the later one, NaN: none; pairs only), ``outcome`` (of the card, see
        `OUTCOMES`), ``effect`` (of the card, 0 to 1: change of the winning probability with the order; spread of an
        item's scores, or distance of a single score from the human one, as shares of the scale; NaN if unknown).
    """
    pair = is_pair(judgements)
    card = _cards(judgements, pair)
    swapped = np.zeros(len(judgements), bool)
    if pair.any():
        one, two = (_texts(judgements[name]) for name in ("candidate_id", "opponent_id"))
        swapped = pair & (one > two)
    won = np.where(pair, decisions(judgements), np.nan)
    winner = np.where(np.isnan(won) | (won == 0.5), np.nan, (np.where(swapped, 1 - won, won) > 0.5))
    groups = pd.DataFrame({"card": card, "swapped": swapped, "winner": winner})
    status = judgements["status"].to_numpy()
    by_card = groups.groupby("card")
    both = by_card["swapped"].transform("nunique") > 1
    flip = (both & (by_card["winner"].transform("nunique") > 1)).to_numpy()
    tied = pd.Series(pair & ((status == "tie") | ((status == "ok") & np.isnan(won)))).groupby(card).transform("any")
    unread = pd.Series(~np.isin(status, ("ok", "tie", NOT_READ))).groupby(card).transform("any")
    outcome = np.select([flip, tied, unread], OUTCOMES[:3], OUTCOMES[3])
    return groups.assign(outcome=outcome, effect=_effects(judgements, groups, pair))


def in_order(groups: pd.DataFrame, sort: str) -> list[int]:
    """Return the cards in the order named by `sort`; see `SORTS`."""
    cards = groups.drop_duplicates("card")
    if sort == "trials":
        return [int(card) for card in cards["card"]]
    first = {"ties": "tie", "unread": "unread"}.get(sort, "flip")
    ranks = {name: rank for rank, name in enumerate([first, *(name for name in OUTCOMES if name != first)])}
    rank = np.zeros(len(cards)) if sort == "effects" else cards["outcome"].map(ranks).to_numpy()
    order = np.lexsort((-cards["effect"].fillna(-1.0).to_numpy(), rank))
    return [int(card) for card in cards["card"].to_numpy()[order]]


def _cards(judgements: pd.DataFrame, pair: Bools) -> Ints:
    """Return the card number of each judgement, numbered by first appearance."""
    one = _texts(judgements["candidate_id"])
    two = _texts(judgements["opponent_id"]) if pair.any() else one
    columns = [*(name for name in (*_WHOSE, "scale") if name in judgements)]
    names = [_texts(judgements[name]) for name in columns]
    names += [np.where(pair, np.minimum(one, two), one), np.where(pair, np.maximum(one, two), "")]
    asked = [name for name in condition_columns(judgements) if _separates_cards(judgements, name)]
    for name in [*asked, *(["replicate"] if "replicate" in judgements else [])]:
        names.append(np.where(pair, _texts(judgements[name]), ""))
    return pd.factorize(pd.MultiIndex.from_arrays(names))[0].astype(np.int64)


def _texts(column: pd.Series) -> NDArray[np.object_]:
    """Return the values as strings; missing values are empty."""
    return column.astype(object).where(column.notna(), "").map(str).to_numpy(object)


def _separates_cards(judgements: pd.DataFrame, column: str) -> bool:
    """Return whether a condition separates cards; floats may be signed and so differ between orders."""
    return column == "temperature" or not pd.api.types.is_float_dtype(judgements[column].dtype)


def _effects(judgements: pd.DataFrame, groups: pd.DataFrame, pair: Bools) -> Floats:
    """Return the effect of each judgement's card; see `grouped`."""
    values, card = judgements["value"].astype(float), groups["card"]
    first = values.where(~groups["swapped"]).groupby(card).transform("mean")
    second = values.where(groups["swapped"]).groupby(card).transform("mean")
    scaled = _scaled(judgements, values)
    by_card = scaled.groupby(card)
    spread = by_card.transform("max") - by_card.transform("min")
    human = judgements["human"].astype(float) if "human" in judgements else pd.Series(np.nan, judgements.index)
    low, high = human.min(), human.max()
    distance = (scaled - (human - low) / (high - low if high > low else np.nan)).abs()
    scored = spread.where(by_card.transform("count") > 1, distance)
    return np.where(pair, (first + second - 1).abs(), scored).astype(float)


def _scaled(judgements: pd.DataFrame, values: pd.Series) -> pd.Series:
    """Return scores as shares of their scale, if known."""
    if "scale" not in judgements:
        return values
    of_scores = judgements["scale"].where(~is_pair(judgements))
    scales = {name: scale_named(str(name)) for name in of_scores.dropna().unique()}
    low = of_scores.map({name: scale.low for name, scale in scales.items()}).astype(float)
    high = of_scores.map({name: scale.high for name, scale in scales.items()}).astype(float)
    return ((values - low) / (high - low)).where(low.notna(), values)


#: Order of probes, pairs in both orders first: a reply shared by several probes is shown as a trial of the first.
_FIRST = "position"
_Manner = tuple[object, ...]
_Left = dict[str, dict[str, _Manner]]  # by judge: keys and request formats of replies that no probe has claimed yet
_COLUMNS = (
    "probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute", "replicate", "value",
    "status", "label_mass", "samples", "tokens", "key",
)  # fmt: skip


def trials_of_store(
    store: Store | AnyPath, dataset: Dataset | None = None, probes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return a trial for every reply in a store.

    Parameters
    ----------
    store : Store or path
        The store.
    dataset : Dataset, optional
        The data that was judged, used to rebuild the probes' prompts and match them to the store. Without it, or for
        prompts that no probe with default parameters builds, a row has only prompt and reply: the probe is "unknown",
        there is no value, and the status is "not read".
    probes : sequence of str, optional
        Use only these probes, and leave out replies to other prompts.

    Returns
    -------
    pandas.DataFrame
        Trials as returned by `biaslab.collect`. A reply shared by several probes counts for the first of them.

    Raises
    ------
    InputError
        If a probe is unknown.
    StoreError
        If the store is missing or cannot be read.
    """
    probe_names = list(probes or sorted(names(), key=lambda name: name != _FIRST))
    designs = [design for name in probe_names for design in _required(name)]
    if isinstance(store, Store):
        return _trials(store, dataset, designs, everything=not probes)
    with Store(store, create=False) as opened:
        return _trials(opened, dataset, designs, everything=not probes)


def _required(name: str) -> list[Design]:
    find_probe(name)  # raises if unknown
    return default_designs(name)


def _trials(store: Store, dataset: Dataset | None, designs: Sequence[Design], everything: bool) -> pd.DataFrame:
    left: _Left = {}
    for record in store.records():
        left.setdefault(record.judge, {})[record.key] = _manner(record.request)
    parts = [] if dataset is None else list(_replayed(store, dataset, designs, left))
    if everything:
        parts.append(_unknown(store, left))
    whole = [part for part in parts if len(part)]
    return pd.concat(whole, ignore_index=True) if whole else pd.DataFrame(columns=list(_COLUMNS))


def _manner(request: Request) -> _Manner:
    """Return all fields of a request except the prompt: kind, labels, temperature and token limit."""
    return request.kind, *(getattr(request, name, None) for name in ("labels", "temperature", "max_tokens"))


def _replayed(store: Store, dataset: Dataset, designs: Sequence[Design], left: _Left) -> Iterator[pd.DataFrame]:
    """Yield the stored trials of each judge and probe, and remove their keys from `left`."""
    some = dataset.of_contexts([dataset.candidates["context_id"].mode().iloc[0]])
    planned = [(design, _manners(design, some)) for design in designs]
    for judge, keys in left.items():
        answers = _Answers(store, judge)
        for design, manners in planned:
            if manners and manners.isdisjoint(keys.values()):
                continue
            planned_here = _Planned(design, dataset, answers, keys)
            if planned_here.trials:
                trials = collect(planned_here, answers, dataset, progress=False)
                for key in trials["key"].unique():
                    del keys[key]
                yield trials


def _manners(design: Design, some: Dataset) -> set[_Manner]:
    """Return the request formats that a design uses, seen in one context with many candidates."""
    try:
        return {_manner(trial.request) for trial in design.design(some)}
    except InputError:
        return set()


class _Answers:
    """A judge that answers only from a store."""

    kinds = frozenset(KINDS)
    is_recorded = True

    def __init__(self, store: Store, judge_id: str) -> None:
        self.store, self.id = store, judge_id

    def check(self, requests: Iterable[Request]) -> None:
        """Do nothing: all planned requests are in the store."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Yield the stored replies."""
        keyed = {request_key(request, self.id): request for request in requests}
        for key, reply in self.store.get(keyed).items():
            yield keyed[key], reply


class _Planned(Design):
    """A probe restricted to requests that the store answers and that no earlier probe claimed."""

    def __init__(self, design: Design, dataset: Dataset, answers: _Answers, keys: Mapping[str, _Manner]) -> None:
        self.name, self._probe = design.name, design
        try:
            self.trials = [trial for key, trial in keyed_trials(design, dataset, answers.id) if key in keys]
        except InputError:  # it needs something this data set lacks, such as a second attribute
            self.trials = []

    def design(self, _dataset: Dataset) -> list[Trial]:
        """Return the trials whose replies are stored."""
        return self.trials

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Parse like the probe."""
        return self._probe.read(trial, reply)


def _unknown(store: Store, left: _Left) -> pd.DataFrame:
    """Return a row for each reply that no probe claimed, without a value."""
    rows = [
        (record.judge, record.key[:12], getattr(record.request, "replicate", 0), record.reply.usage.tokens, record.key)
        for record in store.records()
        if record.key in left.get(record.judge, {})
    ]
    known = pd.DataFrame(rows, columns=["judge", "context_id", "replicate", "tokens", "key"])
    unknown = dict.fromkeys(("probe", "dataset", "attribute"), "unknown")
    blank = dict.fromkeys(("value", "label_mass", "samples"), math.nan)
    return known.assign(**unknown, **blank, candidate_id="", opponent_id=None, status=NOT_READ)[[*_COLUMNS]]
