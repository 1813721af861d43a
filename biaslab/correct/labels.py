"""Read human labels, and match them with judgements item by item."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Floats
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.output import count
from biaslab.core.scales import SCALES, scale_named
from biaslab.core.schema import Dataset
from biaslab.correct.label_files import LABEL_COLUMNS, is_label, read_label_file, read_labels
from biaslab.datasets._files import text_key
from biaslab.logs.readers.card import are_texts, is_by_people
from biaslab.logs.readers.columns import names_people, tokens
from biaslab.logs.readers.readings import number_of
from biaslab.stats.blocks import CELL, ITEM, has_value
from biaslab.stats.frame import require_columns
from biaslab.stats.sequential import require_fixed

#: Ratio of ranges above which a judge's values and labels are on different scales.
_RANGES = 8.0
_ENOUGH = 10  # minimum number of labels whose range identifies their scale
_SIDES = ("candidate_id", "opponent_id")
_IDS = ("context_id", *_SIDES, "attribute")
#: Roles of columns that hold these identifiers, as in `biaslab.logs.readers.card`.
_ROLES = {
    "context_id": ("question",),
    "candidate_id": ("system", "first", "candidate"),
    "opponent_id": ("second", "opponent"),
    "attribute": ("criterion",),
}
_EQUAL = 1e-9  # largest difference of labels that are the same
_LONGEST = 40  # characters of an identifier in a message
#: Candidate and attribute that `biaslab.read_judgements` fills in if a file names none.
_UNNAMED = {"candidate_id": "answer", "attribute": "overall"}


@dataclass(frozen=True)
class HumanLabels:
    """Labels of items.

    Parameters
    ----------
    table : pandas.DataFrame or None
        ``context_id, candidate_id, score`` and optionally ``attribute, opponent_id, system, annotator, scale``; several
        rows of an item are labels of several people. None if the judgements contain the human labels.
    probability : pandas.Series or None
        Probability that each context was labelled.
    scale : tuple of float or None
        Scale of the scores, if known.
    named : pandas.Series or None
        System of each context and candidate, if the data set has it.
    fills : bool
        Whether labels in the judgements are those of the items that the table has no label of.
    of_texts : bool
        Whether candidates of the judgements are identified by their texts.
    matched_by : tuple of str
        The columns that match labels with judgements, with the columns of the file in parentheses.
    """

    table: pd.DataFrame | None
    probability: pd.Series | None = None
    scale: tuple[float, float] | None = None
    named: pd.Series | None = None
    fills: bool = False
    of_texts: bool = False
    matched_by: tuple[str, ...] = ()

    @classmethod
    def read(cls, labels: AnyLabels | None, judged: pd.DataFrame) -> HumanLabels:
        """Read labels from any of these sources.

        A table without the columns ``context_id, candidate_id, score`` is read like a log: the labels are what it has
        of people.

        Raises
        ------
        InputError
            If the labels have another type, there are none, or none is of people.
        TrialsError
            If a column is missing, or a score is not a number.
        """
        if isinstance(labels, HumanLabels):
            return labels
        if labels is None:
            if not {"human", "human_gap"} & set(judged.columns):
                remedy = "pass labels: a table, a file or a data set"
                raise InputError.plain(f"judgements have no column human or human_gap; {remedy}")
            return cls(None)
        if isinstance(labels, str | Path):
            labels = read_label_file(Path(labels))
        if not isinstance(labels, pd.DataFrame):
            if hasattr(labels, "human_means"):
                return cls._of_dataset(labels)
            raise InputError("labels", labels, "a data frame, a file or a data set")
        if set(LABEL_COLUMNS) <= set(labels.columns):
            table = _with_short_names(pd.DataFrame(dict(labels)), judged)  # without the reading of the trials
            _require_people(table)
            known = cls._of_table(table, _matched_by(table, table))
            if known.table is None or "opponent_id" in table:
                return known
            return replace(known, table=_with_scales(known.table, table, judged))
        return cls._of_table(*_of_log(labels, judged))

    @classmethod
    def _of_dataset(cls, data: Dataset) -> HumanLabels:
        long = data.human_means.reset_index().melt(list(ITEM), var_name="attribute", value_name="score")
        long = long[long["score"].notna()]
        system = data.candidates.set_index(["context_id", "candidate_id"])["system"]
        named = system if (system.str.strip() != "").all() else None
        scale = (float(data.scale[0]), float(data.scale[1]))
        return cls(long, None, scale, named, matched_by=_matched_by(long, long))

    @classmethod
    def _of_table(cls, table: pd.DataFrame, matched_by: tuple[str, ...]) -> HumanLabels:
        require_columns(table, LABEL_COLUMNS, "labels")
        score = table["score"].map(number_of).astype(float)
        if table["score"].isna().all():
            raise TrialsError.plain("labels, the column score is empty: fill it in")
        wrong = score.isna() & table["score"].notna()
        if wrong.any():
            raise TrialsError("labels, score", table.loc[wrong, "score"].iloc[0], "numbers, or empty")
        ids = [name for name in _IDS[:3] if name in table]
        known = table.assign(score=score, **{name: table[name].astype(str) for name in ids})
        known = known[known["score"].notna()]
        probability = None
        if "probability" in known:
            probability = known.groupby("context_id", sort=False)["probability"].first().astype(float)
        return cls(known, probability, matched_by=matched_by)

    @property
    def ids(self) -> list[str]:
        """The columns that identify what was labelled."""
        return [] if self.table is None else [name for name in _IDS if name in self.table]

    @property
    def ambiguous(self) -> int:
        """The number of items with different labels by people who are not named."""
        if self.table is None or "annotator" in self.table:
            return 0
        scores = self.table.groupby(self.ids)["score"]
        return int((scores.max() - scores.min() > _EQUAL).sum())

    def matched(self, judged: pd.DataFrame) -> pd.Series:
        """Return for each label whether its item was judged; pairs match in either order."""
        table = pd.DataFrame() if self.table is None else self.table
        rest = [name for name in self.ids if name not in _SIDES]
        if "opponent_id" in table and "opponent_id" in judged:
            keys = (pd.concat([each[rest].astype(str), _sorted_sides(each)[0]], axis=1) for each in (table, judged))
            labels, known = map(pd.MultiIndex.from_frame, keys)
            return pd.Series(labels.isin(known), table.index)
        known = pd.MultiIndex.from_frame(_each_side(judged, rest))
        sides = [pd.MultiIndex.from_frame(table[[*rest, name]].astype(str)) for name in _SIDES if name in table]
        return pd.Series(np.all([side.isin(known) for side in sides], axis=0), table.index)

    def systems(self, items: pd.DataFrame) -> pd.DataFrame:
        """Return the systems of items: from the judgements, else from the data set, else the candidate ids.

        Candidates that mostly occur in a single context are texts, or have no name; their system is "".
        """
        if "opponent_id" not in items:
            items = items.assign(opponent_id="", opponent="")
        unnamed = set(items["candidate_id"]) == {_UNNAMED["candidate_id"]}
        known, texts = self.named, self.named is None and (unnamed or self.of_texts or _are_texts(items))
        for role, name in (("candidate_id", "system"), ("opponent_id", "opponent")):
            if name in items and role == "candidate_id":
                continue
            keys = pd.MultiIndex.from_arrays([items["context_id"], items[role]])
            listed = None if known is None else known.reindex(keys).to_numpy(object)
            systems = items[role] if listed is None or pd.isna(listed).any() else listed
            items = items.assign(**{name: "" if texts else systems})
        return items

    def of_attribute(self, attribute: str) -> pd.DataFrame:
        """Return the rows of an attribute."""
        table = pd.DataFrame(columns=LABEL_COLUMNS) if self.table is None else self.table
        return table[table["attribute"].astype(str) == attribute] if "attribute" in table else table

    def of_items(self, items: pd.DataFrame, attribute: str, paired: bool) -> Floats:
        """Return the label of each item, NaN if missing; for pairs 1, ½ or 0, by the order of the scores.

        Raises
        ------
        TrialsError
            If labels are of pairs and judgements are not, or table and judgements have different labels of an item.
        """
        own = items["own"].to_numpy(float)
        if self.table is None:
            return own
        table = self.of_attribute(attribute)
        if "opponent_id" in table:
            if not paired:
                raise TrialsError.plain("labels are preferences between pairs, but judgements are scores")
            labels = _of_pairs(table, items)
        else:
            means = table.groupby(["context_id", "candidate_id"], sort=False)["score"].mean()
            labels = _looked_up(means, items, "candidate_id")
            if paired:
                labels = (np.sign(np.round(labels - _looked_up(means, items, "opponent_id"), 12)) + 1) / 2
        if not self.fills:
            return labels
        if (differ := np.abs(labels - own) > _EQUAL).any():
            at = int(np.flatnonzero(differ)[0])
            item = items.iloc[[at]][[name for name in self.ids if name in items]]
            items_of = f"{differ.sum():,} of the items{_example(item)}"
            both = f"labels {labels[at]:g}, the log {own[at]:g}"
            raise TrialsError.plain(f"labels and log differ in {items_of}: {both}; remove one")
        return np.where(np.isnan(labels), own, labels)

    def stated_scale(self, attribute: str, judged: pd.DataFrame) -> tuple[float, float] | None:
        """Return the scale of an attribute's labels, if it is known."""
        if self.table is None and {"human", "human_scale"} <= set(judged.columns):
            return _scale_of(judged[judged["human"].notna()].assign(scale=judged["human_scale"]))[0]
        return self.scale or _scale_of(self.of_attribute(attribute))[0]

    def are_binary(self, attribute: str, judged: pd.DataFrame) -> bool:
        """Check whether people gave only 0 and 1, each of several people too."""
        scores = [] if self.table is None else self.of_attribute(attribute)["score"].tolist()
        if (self.table is None or self.fills) and "human" in judged:
            scores += [score for own in _ratings(judged[judged["human"].notna()]) for score in own]
        return set(map(float, scores)) <= {0.0, 1.0}

    def require_scale(self, judged: pd.DataFrame, items: pd.DataFrame, judge: str) -> tuple[float, float] | None:
        """Return the scale if known, or 0 to 1 for labels of 0 and 1.

        Raises
        ------
        TrialsError
            If labels are on a different scale than the judge's values, or not on their own.
        """
        human = items["human"].dropna()
        stated = self.stated_scale(str(judged["attribute"].iloc[0]), judged)
        if stated and not human.between(stated[0] - _EQUAL, stated[1] + _EQUAL).all():
            values = f"from {human.min():g} to {human.max():g}"
            raise TrialsError.plain(f"labels are {values}, their scale is {stated[0]:g} to {stated[1]:g}")
        theirs = stated or (float(human.min()), float(human.max()))
        own, exact = _scale_of(judged)
        value = own or (float(items["value"].min()), float(items["value"].max()))
        if exact and stated:
            differ = own != stated
        elif exact:
            differ = not (value[0] <= theirs[0] and theirs[1] <= value[1]) or _wider(value, theirs)
        else:
            few = len(human) < _ENOUGH  # a narrow range is then uninformative
            differ = (not few and _wider(value, theirs)) or _wider(theirs, value) or _apart(value, theirs)
        if differ:
            ranges = f"from {theirs[0]:g} to {theirs[1]:g}, scores from {value[0]:g} to {value[1]:g} by {judge}"
            words = ", ".join(f"{label:g} -> {int(2 * label > sum(theirs))}" for label in sorted(set(human)))
            passes = f"say which labels pass, such as --map 'human=COLUMN | {words}'"
            remedy = passes if value == (0, 1) and len(words) < _LONGEST * 4 else "convert one to the other's scale"
            raise TrialsError.plain(f"labels are {ranges}; {remedy}")
        binary = bool(human.isin([0.0, 1.0]).all()) and 0 <= value[0] <= value[1] <= 1
        return own or stated or ((0.0, 1.0) if binary else None)


def _with_short_names(labels: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """Return labels with contexts named as in a log that names a long question by a hash of it."""
    known, names = set(judged["context_id"].astype(str)), labels["context_id"].astype(str)
    short = {name: text_key(name) for name in set(names) - known}
    return labels.assign(context_id=names.replace({name: key for name, key in short.items() if key in known}))


AnyLabels = Dataset | pd.DataFrame | str | Path | HumanLabels
#: Contexts whose labels are used, or the probability of each to be labelled.
LabelledContexts = Sequence[str] | Mapping[str, float]


def with_labels(trials: pd.DataFrame, labels: AnyLabels) -> pd.DataFrame:
    """Return judgements with people's labels of another table or file in their columns of people.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`.
    labels : Dataset, pandas.DataFrame, str, Path or HumanLabels
        As in `biaslab.correct`; several labels of an item are those of several people. Items without one keep the
        label that they have.

    Returns
    -------
    pandas.DataFrame
        Scores with ``human, ratings, annotators, human_scale``; pairs with ``human_gap``.

    Raises
    ------
    InputError, TrialsError
        If the labels cannot be read, no label is of a judged item, or judgements have another label of one.

    Examples
    --------
    >>> import biaslab as bl
    >>> log = pd.DataFrame({"question": [*"abcd"], "answer": [*"wxyz"], "verdict": ["pass", "fail", "pass", "pass"]})
    >>> labels = pd.DataFrame({"question": [*"ab"], "human_label": ["fail", "pass"]})
    >>> with_labels(bl.read_judgements(log), labels)["human"].tolist()
    [0.0, 1.0, nan, nan]
    """
    known = replace(HumanLabels.read(labels, trials), fills=True)
    labelled = pd.DataFrame(trials).reset_index(drop=True)
    named = ["judge", "attribute", "scale", labelled["opponent_id"].notna()]
    for (_, attribute, _, paired), part in labelled.groupby(named, sort=False, dropna=False):
        own = (np.sign(part["human_gap"]) + 1) / 2 if paired else part["human"]
        items = part.assign(own=own, **{name: part[name].astype(str) for name in ("context_id", *_SIDES)})
        values = known.of_items(items, str(attribute), bool(paired))
        if paired:
            gaps = part["human_gap"].where(np.abs(own - values) <= _EQUAL, 2 * values - 1)
            labelled.loc[part.index, "human_gap"] = gaps
            continue
        labelled.loc[part.index, "human"] = values
        table = known.of_attribute(str(attribute))
        written = table.assign(ratings=table["score"].map("{:g}".format), annotators=table.get("annotator", ""))
        lists = written.groupby(list(ITEM), sort=False)[["ratings", "annotators"]].agg(" ".join)
        lists = lists.reindex(pd.MultiIndex.from_frame(items[list(ITEM)])).set_axis(part.index).dropna()
        scale = _scale_of_labels(known.stated_scale(str(attribute), part), part, values)
        columns = lists.assign(annotators=lists["annotators"].str.strip(), human_scale=scale)
        labelled.loc[columns.index, columns.columns] = columns
    if labelled[["human", "human_gap"]].isna().all(axis=None):
        _require_labels(labelled, known, str(trials["judge"].iloc[0]))
    labelled.index, labelled.attrs = trials.index, trials.attrs
    return labelled


def _scale_of_labels(stated: tuple[float, float] | None, judged: pd.DataFrame, values: Floats) -> str:
    """Return the scale that is stated, else the judge's, or the range of the labels if it exceeds that."""
    name, own = str(judged["scale"].iloc[0]), _scale_of(judged)[0]
    low, high = stated or (float(np.nanmin(values, initial=np.inf)), float(np.nanmax(values, initial=-np.inf)))
    same = own == stated if own and stated else own is None or own[0] <= low <= high <= own[1]
    return name if same else f"{low:g}-{high:g}"


def _of_log(labels: pd.DataFrame, judged: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return a label table from trials, or what is read as such: a row per item and person; and what matches them."""
    trials = labels if {"context_id", "candidate_id", "value"} <= set(labels.columns) else read_labels(labels)
    trials = _with_short_names(trials.reset_index(drop=True), judged)
    pairs = "opponent_id" in trials and trials["opponent_id"].notna().all()
    ids = [*ITEM, *(name for name in (*(["opponent_id"] if pairs else []), "attribute") if name in trials)]
    rest = ["probability"] if "probability" in trials else []
    table = trials[[*ids, *rest]].join(_labels_of_people(trials)).explode(["score", "annotator"])
    table = table.assign(score=table["score"].astype(float)).dropna(subset="score")
    if "status" in trials and has_value(trials).any():
        table = table.drop_duplicates([*ids, "annotator", "score"])  # one label, with each of several judgements
    if table.duplicated([*ids, "annotator"]).any():
        table = table.drop(columns="annotator")  # several people in one column
    table = table if pairs else _with_scales(table, trials, judged)
    if "attribute" in table and _is_unnamed("attribute", table, judged):
        several = any(len(each["attribute"].unique()) > 1 for each in (table, judged))
        table = table if several else table.drop(columns="attribute")
    if pairs or not _is_unnamed("candidate_id", table, judged):
        return table, _matched_by(table, trials)
    return _identified(table, judged), _matched_by(table.drop(columns="candidate_id"), trials)


def _matched_by(table: pd.DataFrame, read: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that identify what was labelled, with those of the file in parentheses."""
    names = [name for name in _IDS if name in table and set(table[name]) != {_UNNAMED.get(name)}]
    sources = [_sources(read, *_ROLES[name]) for name in names]
    columns = [list(dict.fromkeys(column for source in each for column in source["columns"])) for each in sources]
    return tuple(f"{name} ({', '.join(own)})" if own else name for name, own in zip(names, columns, strict=True))


def _labels_of_people(trials: pd.DataFrame) -> pd.DataFrame:
    """Return people's scores of each trial, who gave them, and their scale.

    Raises
    ------
    InputError
        If all verdicts and scores are a judge's.
    """
    if "human_gap" in trials and trials["human_gap"].notna().any():
        return pd.DataFrame({"score": (np.sign(trials["human_gap"]) + 1) / 2, "annotator": "0", "scale": ""})
    if "human" in trials and trials["human"].notna().any():
        scores, people = _ratings(trials), _lists(trials, "annotators")
        numbers = [list(map(str, range(len(own)))) for own in scores]
        people = [who if len(who) == len(own) else own for who, own in zip(people, numbers, strict=True)]
        table = pd.DataFrame({"score": scores, "annotator": people}, trials.index)
        return table.assign(scale=trials.get("human_scale", ""))
    _require_people(trials)
    score = trials["value"].where(has_value(trials)) if "status" in trials else trials["value"]
    person = trials["judge"].astype(str).str.split().str.join("_") if "judge" in trials else "0"
    return pd.DataFrame({"score": score, "annotator": person, "scale": _scale_of_people(trials)})


def _scale_of_people(trials: pd.DataFrame) -> pd.Series:
    """Return the scale of each of people's scores in a log if it is stated, and not their range."""
    observed = any(role.get("observed") for role in _roles(trials) if role["role"] == "scale")
    stated = pd.Series("", trials.index)
    for name in ("human_scale", *([] if observed else ["scale"])):
        stated = stated.where(stated != "", trials[name].fillna("")) if name in trials else stated
    return stated


def _ratings(trials: pd.DataFrame) -> list[list[Any]]:
    """Return the labels of each item by single people, as far as they are known."""
    return [own or [mean] for own, mean in zip(_lists(trials, "ratings"), trials["human"], strict=True)]


def _lists(trials: pd.DataFrame, name: str) -> list[list[str]]:
    texts = trials[name].fillna("") if name in trials else pd.Series("", trials.index)
    return texts.str.split().tolist()


def _require_people(trials: pd.DataFrame) -> None:
    """Raise `InputError` if the verdicts of trials are those of a judge, as far as is known."""
    sources = [source for source in _sources(trials, "score", "verdict") if source["columns"]]
    names = [column for source in sources for column in source["columns"]]
    judges = list(map(str, trials["judge"].unique())) if "judge" in trials else []
    named = [name for name in judges if name != "unknown" and not names_people(tokens(name))]
    labels = not named and all(map(is_label, names))
    if not (labels or is_by_people(trials)):
        what = f"labels have no column of people, only verdicts ({', '.join(names or judges)})"
        by = f" by {', '.join(named)}" if named else ""
        columns = [column for source in _sources(trials, "judge") for column in source["columns"]]
        entry = f"person={columns[0]}" if len(columns) == 1 else "person==people"
        raise InputError.plain(f"{what}{by}; if they are people's: --map {entry}")


def _sources(trials: pd.DataFrame, *roles: str) -> list[Mapping[str, Any]]:
    """Return the columns and constants of roles in a log."""
    return [source for role in _roles(trials) if role["role"] in roles for source in role["sources"]]


def _roles(trials: pd.DataFrame) -> list[Mapping[str, Any]]:
    readings = trials.attrs.get("reading", {}).get("readings", ())
    return [role for reading in readings for role in reading["roles"]]


def _with_scales(labels: pd.DataFrame, trials: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """Add the scale of labels that state none, if their values show it.

    Raises
    ------
    TrialsError
        If the values span another usual scale than the judge's.
    """
    words = {meaning for source in _sources(trials, "people") for meaning in source.get("values", {}).values()}
    parts = []
    for attribute, part in labels.groupby("attribute" if "attribute" in labels else [""] * len(labels), sort=False):
        values, theirs = set(part["score"]), f"{part['score'].min():g}-{part['score'].max():g}"
        same = judged[judged["attribute"].astype(str) == str(attribute)]
        scales = (judged if same.empty else same).get("scale", pd.Series(dtype=object)).dropna().astype(str)
        own = {scale for scale in scales.unique() if _contains(scale, part["score"])}
        written = part.get("scale", pd.Series("", part.index))
        known = written.where(written != "")
        if values <= {0.0, 1.0} and (0.0 in values or (words and words <= {"0", "1"})):
            known = known.fillna("0-1")
        elif known.isna().all() and len(part) >= _ENOUGH and theirs in SCALES and own and theirs not in own:
            lines = " or ".join(f"--map human_scale=={scale}" for scale in (theirs, *sorted(own)))
            spans = f"labels span {theirs}, the judge's scale is {', '.join(own)}"
            raise TrialsError.plain(f"{spans}: which is theirs? {lines}")
        parts.append(part.assign(scale=known))
    return pd.concat(parts) if parts else labels


def _contains(scale: str, values: pd.Series) -> bool:
    ends = _scale_of(pd.DataFrame({"scale": [scale]}))[0]
    return ends is not None and bool(values.between(*ends).all())


def _is_unnamed(column: str, labels: pd.DataFrame, judged: pd.DataFrame) -> bool:
    """Check whether only one of labels and judgements names the values of a column."""
    unnamed = [set(table[column].astype(str)) == {_UNNAMED[column]} for table in (labels, judged)]
    return unnamed[0] != unnamed[1]


def _identified(labels: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """Identify items by their context if only labels or only judgements name candidates."""
    items = [table[list(ITEM)].astype(str).drop_duplicates() for table in (labels, judged)]
    several = pd.concat([each[each["context_id"].duplicated()] for each in items])["context_id"]
    if not several.empty:
        remedy = "name them alike in labels and log"
        raise TrialsError.plain(f"context {several.iloc[0]} has several candidates, which are not both named; {remedy}")
    joined = labels.drop(columns="candidate_id").merge(items[1], "left", "context_id")
    return joined.fillna({"candidate_id": _UNNAMED["candidate_id"]})


def _of_pairs(table: pd.DataFrame, items: pd.DataFrame) -> Floats:
    """Return the mean label of each pair of candidates, reoriented to the order of the items; NaN without a label."""
    score = table["score"].to_numpy(float)
    if not ((score >= 0) & (score <= 1)).all():
        wrong = float(score[(score < 0) | (score > 1)][0])
        raise TrialsError("labels, score", wrong, "1 if the candidate wins, 0 if its opponent does, ½ for a tie")
    (pairs, turned), (wanted, reversed_) = map(_sorted_sides, (table, items))
    scores = pairs.assign(score=np.where(turned, 1 - score, score), context_id=table["context_id"])
    means = scores.groupby(["context_id", *_SIDES], sort=False)["score"].mean()
    keys = pd.MultiIndex.from_arrays([items["context_id"], *(wanted[name] for name in _SIDES)])
    labels = means.reindex(keys).to_numpy(float)
    return np.where(reversed_, 1 - labels, labels)


def _sorted_sides(pairs: pd.DataFrame) -> tuple[pd.DataFrame, Bools]:
    """Return both candidates of each pair in one order, and whether that is not the order of the pair."""
    first, second = (pairs[name].astype(str) for name in _SIDES)
    turned = (first > second).to_numpy()
    sides = (np.where(turned, second, first), np.where(turned, first, second))
    return pd.DataFrame(dict(zip(_SIDES, sides, strict=True)), pairs.index), turned


def _looked_up(means: pd.Series, items: pd.DataFrame, name: str) -> Floats:
    return means.reindex(pd.MultiIndex.from_arrays([items["context_id"], items[name]])).to_numpy(float)


def _scale_of(judged: pd.DataFrame) -> tuple[tuple[float, float] | None, bool]:
    """Return the ends of the judge's scale, and whether the judgements state them."""
    named = list(judged["scale"].dropna().unique()) if "scale" in judged else []
    if len(named) != 1:
        return None, False
    try:
        scale = scale_named(str(named[0]))
    except InputError:  # a scale unknown to biaslab
        return None, False
    return (scale.low, scale.high), True


def _wider(one: tuple[float, float], other: tuple[float, float]) -> bool:
    span = other[1] - other[0]
    return 0 < span < (one[1] - one[0]) / _RANGES


def _apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Check whether the midpoint of each interval lies outside the other."""
    middles = [sum(interval) / 2 for interval in (one, other)]
    return not other[0] <= middles[0] <= other[1] and not one[0] <= middles[1] <= one[1]


#: Conditions that must not be averaged over implicitly.
_CONDITIONS = (
    "template", "scale", "configuration", "form", "order", "asked", "answer", "source", "naming", "edit", "edited",
    "defence", "remedy", "scorer", "temperature",
)  # fmt: skip


@dataclass(frozen=True)
class LabelledCell:
    """Judgements and labels of one judge, attribute and data set.

    Parameters
    ----------
    where : dict
        Judge, data set, attribute and further columns.
    items : pandas.DataFrame
        One row per candidate, or pair of candidates: ``context_id, candidate_id, opponent_id, system, opponent, value,
        human``. For pairs, ``value`` is the
        probability that the candidate beats its opponent, averaged over both orders, and ``human`` likewise; NaN
        without a label.
    pairs : bool
        Whether items are pairs.
    probability : pandas.Series or None
        By context: the probability of being labelled, if it varies.
    n_trials, n_dropped : int
        Numbers of usable and unusable judgements.
    scale : tuple of float or None
        Scale of the scores, if known.
    binary : bool
        Whether each person's labels are 0 or 1; their mean may lie between.
    """

    where: dict[str, Any]
    items: pd.DataFrame
    pairs: bool
    probability: pd.Series | None
    n_trials: int
    n_dropped: int
    scale: tuple[float, float] | None = None
    binary: bool = False

    @property
    def contexts(self) -> list[str]:
        """The contexts, in order of appearance."""
        return list(dict.fromkeys(self.items["context_id"]))


def read_cells(
    judged: pd.DataFrame, labels: AnyLabels | None, labelled: LabelledContexts | None, by: Sequence[str]
) -> list[LabelledCell]:
    """Match judgements with labels; parameters as in `biaslab.correct.correct`.

    Raises
    ------
    TrialsError, InputError
        As in `biaslab.correct.correct`.
    """
    if not isinstance(judged, pd.DataFrame):
        raise TrialsError("judged", judged, "a frame of judgements", "read a file with biaslab.read_judgements(path)")
    frame = judged.rename(columns={"score": "value"}) if "value" not in judged else judged
    require_columns(frame, (*CELL, "context_id", "candidate_id", "value", *by), "judged")
    require_fixed(frame, "a correction by labels")
    frame = frame if "status" in frame else frame.assign(status="ok")
    if frame.empty:
        raise TrialsError.plain("judged has no rows, expected: at least one judgement")
    parsed = replace(HumanLabels.read(labels, frame), of_texts=are_texts(judged))
    _require_judged(labelled, frame)
    cells = []
    for values, judgements in frame.groupby([*CELL, *by], sort=False):
        where = dict(zip([*CELL, *by], values, strict=True))
        _require_one_condition(judgements, by)
        cells.append(_cell(where, judgements, parsed, labelled))
    return cells


def _cell(
    where: dict[str, Any], judgements: pd.DataFrame, labels: HumanLabels, labelled: LabelledContexts | None
) -> LabelledCell:
    """Match the judgements and labels of one judge, attribute and data set."""
    readable = judgements[has_value(judgements)]
    counts = (len(readable), len(judgements) - len(readable))
    paired = "opponent_id" in readable and bool(readable["opponent_id"].notna().all()) and len(readable) > 0
    items = labels.systems(pair_items(readable) if paired else score_items(readable))
    items = items.assign(human=labels.of_items(items, str(where["attribute"]), paired))
    items, probability = _labelled_part(items, labelled, labels.probability)
    _require_labels(items.assign(attribute=where["attribute"]), labels, str(where["judge"]))
    scale = None if paired else labels.require_scale(judgements, items, str(where["judge"]))
    binary = labels.are_binary(str(where["attribute"]), readable)
    return LabelledCell(where, items, paired, probability, *counts, scale, binary)


def score_items(readable: pd.DataFrame) -> pd.DataFrame:
    """Average scores over replicates, one row per candidate."""
    own = readable.get("human", math.nan)
    table = pd.DataFrame({"value": readable["value"], "own": own})
    ids = {name: readable[name].astype(str) for name in ("context_id", "candidate_id")}
    system = {"system": readable["system"]} if "system" in readable else {}
    table = table.astype(float).assign(**ids, **system)
    how = {"value": "mean", "own": "mean"} | dict.fromkeys(system, "first")
    return table.groupby(list(ids), sort=False).agg(how).reset_index()


def pair_items(readable: pd.DataFrame) -> pd.DataFrame:
    """Reorient every pair to one candidate order, and average over both orders and replicates."""
    pairs, turned = _sorted_sides(readable)
    value = readable["value"].to_numpy(float)
    gap = readable["human_gap"].to_numpy(float) if "human_gap" in readable else np.full(len(readable), math.nan)
    own = (np.sign(np.where(turned, -gap, gap)) + 1) / 2
    value = np.where(turned, 1 - value, value)
    table = pairs.assign(context_id=readable["context_id"].astype(str), value=value, own=own)
    return table.groupby(["context_id", "candidate_id", "opponent_id"], sort=False).mean().reset_index()


def _are_texts(items: pd.DataFrame) -> bool:
    """Check whether most candidates occur in only one of several contexts."""
    seen = _each_side(items, ["context_id"])
    contexts = seen.loc[seen["side"] != "", "side"].value_counts()
    return len(seen["context_id"].unique()) > 1 and bool((contexts == 1).mean() > 0.5)


def _each_side(items: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return each candidate once, with the columns ``names``; a pair has two."""
    sides = [items[[*names, side]].astype(str).set_axis([*names, "side"], axis=1) for side in _SIDES if side in items]
    return pd.concat(sides).drop_duplicates()


def _labelled_part(
    items: pd.DataFrame, labelled: LabelledContexts | None, own: pd.Series | None
) -> tuple[pd.DataFrame, pd.Series | None]:
    """Keep the labels of the given contexts; return the items and the labelling probabilities."""
    probability = own
    if labelled is not None:
        names = [str(name) for name in labelled]
        items = items.assign(human=items["human"].where(items["context_id"].isin(names)))
        if isinstance(labelled, Mapping):
            probability = pd.Series([float(value) for value in labelled.values()], names)
    if probability is None:
        return items, None
    with_labels = items.loc[items["human"].notna(), "context_id"].unique()
    likely = probability.reindex(with_labels)
    if not likely.between(0, 1, inclusive="right").all():
        wrong = likely[~likely.between(0, 1, inclusive="right")]
        allowed = "above 0 and at most 1 for every labelled context"
        raise InputError("probability", {str(k): float(v) for k, v in wrong.head(2).items()}, allowed)
    return items, probability


def _require_judged(labelled: LabelledContexts | None, frame: pd.DataFrame) -> None:
    """Raise `InputError` unless ``labelled`` is a list of contexts that the judge judged."""
    if isinstance(labelled, str):
        raise InputError("labelled", labelled, "a list of contexts, or the labelling probability of each")
    known = list(dict.fromkeys(frame["context_id"].astype(str)))
    strangers = sorted({str(name) for name in labelled or ()} - set(known))
    if strangers:
        raise TrialsError("labelled", strangers[:3], f"contexts that were judged, such as {', '.join(known[:3])}")


def _require_labels(items: pd.DataFrame, labels: HumanLabels, judge: str) -> None:
    """Raise `TrialsError` if no items, or items of only one context, are labelled."""
    rated = items.loc[items["human"].notna(), "context_id"].unique()
    if not len(rated):
        if labels.table is None:
            remedy = "label a random part, such as with biaslab.label, and pass the labels (--labels FILE)"
            raise TrialsError.plain(f"no judgement of {judge} has a label of people; {remedy}")
        labelled = labels.table[labels.ids].drop_duplicates()
        judged = items[[name for name in labels.ids if name in items]]
        words = f"{count(len(labelled), 'labelled item')}{_example(labelled)}; {judge} judged {len(items):,}"
        remedy = f"{', '.join(judged.columns)} must be the same in both (--map context_id=COLUMN names the column)"
        raise TrialsError.plain(f"labels match no judgement: {words}{_example(judged)}; {remedy}")
    if len(rated) == 1:
        contexts = items["context_id"].nunique()
        raise TrialsError.plain(f"labels cover 1 of {contexts} contexts that {judge} judged; label a random part")


def _example(items: pd.DataFrame) -> str:
    """Return the identifiers of the first item, for messages."""
    from biaslab.logs.readers.card import shortened

    ids = [f"{name} {shortened(str(value), _LONGEST)}" for name, values in items.items() for value in values.head(1)]
    return f", such as {', '.join(ids)}" if ids else ""


def _require_one_condition(judgements: pd.DataFrame, by: Sequence[str]) -> None:
    """Raise `InputError` if judgements under different conditions would be averaged."""
    for name in _CONDITIONS:
        if name in judgements and name not in by and len(judgements[name].unique()) > 1:
            values = ", ".join(map(str, judgements[name].unique()[:4]))
            raise InputError(name, values, "one condition at a time", f"select one, or pass by=[{name!r}]")
