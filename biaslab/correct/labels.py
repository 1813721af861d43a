"""Read human labels, and match them with judgements item by item."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.output import count
from biaslab.core.scales import scale_named
from biaslab.stats.blocks import CELL, ITEM, has_value
from biaslab.stats.frame import require_columns

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

#: Ratio of ranges above which a judge's values and labels are on different scales.
_RANGES = 8.0
_ENOUGH = 10  # minimum number of labels whose range identifies their scale
_SIDES = ("candidate_id", "opponent_id")
_LONGEST = 40  # characters of an identifier in a message
_PLAIN = ("context_id", "candidate_id", "score")
#: Candidate and attribute that `biaslab.read_judgements` fills in if a file names none.
_UNNAMED = {"candidate_id": "answer", "attribute": "overall"}


@dataclass(frozen=True)
class HumanLabels:
    """Labels of items.

    Parameters
    ----------
    table : pandas.DataFrame or None
        ``context_id, candidate_id, score`` and optionally ``attribute, opponent_id, system``; None if the judgements
        contain the human labels.
    probability : pandas.Series or None
        Probability that each context was labelled.
    scale : tuple of float or None
        Scale of the scores, if known.
    named : pandas.Series or None
        System of each context and candidate, if the data set has it.
    """

    table: pd.DataFrame | None
    probability: pd.Series | None = None
    scale: tuple[float, float] | None = None
    named: pd.Series | None = None

    @classmethod
    def read(
        cls, labels: Dataset | pd.DataFrame | str | Path | HumanLabels | None, judged: pd.DataFrame
    ) -> HumanLabels:
        """Read labels from any of these sources.

        A table without the columns ``context_id, candidate_id, score`` is read like a log: the labels are what it has
        of people, or else its verdicts and scores.

        Raises
        ------
        InputError
            If the labels have another type, or there are none.
        TrialsError
            If a column is missing, or a score is not a number.
        """
        if isinstance(labels, HumanLabels):
            return labels
        if labels is None:
            if not {"human", "human_gap"} & set(judged.columns):
                raise InputError.plain(
                    "judgements have no column human or human_gap; pass labels: a table, a file or a data set"
                )
            return cls(None)
        if isinstance(labels, str | Path):
            labels = read_label_file(Path(labels))
        if not isinstance(labels, pd.DataFrame):
            if hasattr(labels, "human_means"):
                return cls._of_dataset(labels)
            raise InputError("labels", labels, "a data frame, a file or a data set")
        if not set(_PLAIN) <= set(labels.columns):
            labels = _of_log(labels, judged)
        return cls._of_table(labels)

    @classmethod
    def _of_dataset(cls, data: Dataset) -> HumanLabels:
        long = data.human_means.reset_index().melt(list(ITEM), var_name="attribute", value_name="score")
        long = long[long["score"].notna()]
        system = data.candidates.set_index(["context_id", "candidate_id"])["system"]
        named = system if (system.str.strip() != "").all() else None
        return cls(long, None, (float(data.scale[0]), float(data.scale[1])), named)

    @classmethod
    def _of_table(cls, table: pd.DataFrame) -> HumanLabels:
        require_columns(table, _PLAIN, "labels")
        score = pd.to_numeric(table["score"], errors="coerce")
        wrong = score.isna() & table["score"].notna()
        if wrong.any():
            raise TrialsError("labels, score", table.loc[wrong, "score"].iloc[0], "numbers, or empty")
        ids = [name for name in ("context_id", "candidate_id", "opponent_id") if name in table]
        known = table.assign(score=score, **{name: table[name].astype(str) for name in ids})
        known = known[known["score"].notna()]
        probability = None
        if "probability" in known:
            probability = known.groupby("context_id", sort=False)["probability"].first().astype(float)
        return cls(known, probability)

    @property
    def ids(self) -> list[str]:
        """The columns that identify what was labelled."""
        names = ("context_id", "candidate_id", "opponent_id", "attribute")
        return [] if self.table is None else [name for name in names if name in self.table]

    def matched(self, judged: pd.DataFrame) -> pd.Series:
        """Return for each label whether its item was judged; pairs match in either order."""
        table = pd.DataFrame() if self.table is None else self.table
        rest = [name for name in self.ids if name not in _SIDES]
        known = pd.MultiIndex.from_frame(_each_side(judged, rest))
        sides = [pd.MultiIndex.from_frame(table[[*rest, name]].astype(str)) for name in _SIDES if name in table]
        return pd.Series(np.all([side.isin(known) for side in sides], axis=0), table.index)

    def systems(self, items: pd.DataFrame) -> pd.DataFrame:
        """Return the systems of items: from the judgements, else from the data set, else the candidate ids.

        Candidates that mostly occur in a single context are texts; their system is "".
        """
        if "opponent_id" not in items:
            items = items.assign(opponent_id="", opponent="")
        known, texts = self.named, self.named is None and _are_texts(items)
        for role, name in (("candidate_id", "system"), ("opponent_id", "opponent")):
            if name in items and role == "candidate_id":
                continue
            keys = pd.MultiIndex.from_arrays([items["context_id"], items[role]])
            listed = None if known is None else known.reindex(keys).to_numpy(object)
            systems = items[role] if listed is None or pd.isna(listed).any() else listed
            items = items.assign(**{name: "" if texts else systems})
        return items

    def of_items(self, items: pd.DataFrame, attribute: str, paired: bool) -> Floats:
        """Return the label of each item, NaN if missing; for pairs 1, ½ or 0, by the order of the scores."""
        if self.table is None:
            return items["own"].to_numpy(float)
        table = self.table
        if "attribute" in table:
            table = table[table["attribute"].astype(str) == attribute]
        if "opponent_id" in table:
            if not paired:
                raise TrialsError.plain("labels are preferences between pairs, but judgements are scores")
            return _of_pairs(table, items)
        means = table.groupby(["context_id", "candidate_id"], sort=False)["score"].mean()
        first, second = (_looked_up(means, items, name) for name in ("candidate_id", "opponent_id"))
        return (np.sign(np.round(first - second, 12)) + 1) / 2 if paired else first

    def require_scale(self, judged: pd.DataFrame, items: pd.DataFrame, judge: str) -> tuple[float, float] | None:
        """Return the scale if known, or 0 to 1 for labels of 0 and 1.

        Raises
        ------
        TrialsError
            If labels are on a different scale than the judge's values.
        """
        human = items["human"].dropna()
        theirs = self.scale or (float(human.min()), float(human.max()))
        own, exact = _scale_of(judged)
        value = own or (float(items["value"].min()), float(items["value"].max()))
        if exact and self.scale:
            differ = own != self.scale
        elif exact:
            differ = not (value[0] <= theirs[0] and theirs[1] <= value[1]) or _wider(value, theirs)
        else:
            few = len(human) < _ENOUGH  # a narrow range is then uninformative
            differ = (not few and _wider(value, theirs)) or _wider(theirs, value) or _apart(value, theirs)
        if differ:
            ranges = f"from {theirs[0]:g} to {theirs[1]:g}, scores from {value[0]:g} to {value[1]:g} by {judge}"
            raise TrialsError.plain(f"labels are {ranges}; convert one to the other's scale")
        binary = bool(human.isin([0.0, 1.0]).all()) and 0 <= value[0] <= value[1] <= 1
        return own or self.scale or ((0.0, 1.0) if binary else None)


def with_labels(trials: pd.DataFrame, labels: Dataset | pd.DataFrame | str | Path | HumanLabels) -> pd.DataFrame:
    """Return judgements with people's labels of another table or file in their columns of people.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`.
    labels : Dataset, pandas.DataFrame, str, Path or HumanLabels
        As in `biaslab.correct`; several labels of an item are those of several people.

    Returns
    -------
    pandas.DataFrame
        Scores with ``human, ratings, human_scale``; pairs with ``human_gap``.

    Raises
    ------
    InputError, TrialsError
        If the labels cannot be read, or no label is of a judged item.

    Examples
    --------
    >>> import biaslab as bl
    >>> log = pd.DataFrame({"question": [*"abcd"], "answer": [*"wxyz"], "verdict": ["pass", "fail", "pass", "pass"]})
    >>> labels = pd.DataFrame({"question": [*"ab"], "human_label": ["fail", "pass"]})
    >>> with_labels(bl.read_judgements(log), labels)["human"].tolist()
    [0.0, 1.0, nan, nan]
    """
    known = HumanLabels.read(labels, trials)
    labelled = trials.copy()
    for (attribute, paired), part in trials.groupby(["attribute", trials["opponent_id"].notna()], sort=False):
        values = known.of_items(part, str(attribute), bool(paired))
        if paired:
            labelled.loc[part.index, "human_gap"] = 2 * values - 1
            continue
        labelled.loc[part.index, "human"] = values
        scale, within = scale_named(str(part["scale"].iloc[0])), values[~np.isnan(values)]
        outside = len(within) and not scale.low <= within.min() <= within.max() <= scale.high
        other = f"{within.min():g}-{within.max():g}" if outside else part["scale"]
        labelled.loc[part.index, "human_scale"] = other
        table = known.table if known.table is not None else part.assign(score=part["human"])
        table = table[table["attribute"].astype(str) == attribute] if "attribute" in table else table
        written = table["score"].map("{:g}".format)
        ratings = written.groupby([table[name].astype(str) for name in ITEM]).agg(" ".join)
        keys = pd.MultiIndex.from_frame(part[list(ITEM)].astype(str))
        labelled.loc[part.index, "ratings"] = ratings.reindex(keys).fillna("").to_numpy()
    if labelled[["human", "human_gap"]].isna().all(axis=None):
        _require_labels(labelled, known, str(trials["judge"].iloc[0]))
    labelled.attrs = trials.attrs
    return labelled


def read_label_file(
    file: Path, kind: str | None = None, mapping: Mapping[str, Any] | Path | None = None
) -> pd.DataFrame:
    """Read a file of labels: a CSV file with the columns of a label table, or anything that is read as a log.

    Parameters
    ----------
    file : Path
        The file.
    kind, mapping
        Format and mapping of the log, as in `biaslab.read_judgements`; ignored if they do not fit the labels.

    Returns
    -------
    pandas.DataFrame
        A label table or trials.

    Raises
    ------
    InputError
        If the file does not exist or cannot be read.
    """
    if not file.is_file():
        raise InputError("labels", str(file), "an existing file")
    if file.suffix == ".csv":
        with suppress(ValueError):  # also raised by pandas
            table = pd.read_csv(file, dtype={"context_id": str, "candidate_id": str, "opponent_id": str})
            if set(_PLAIN) <= set(table.columns):
                return table
    from biaslab.logs.readers import read_judgements

    if kind is not None or mapping is not None:
        with suppress(InputError):
            return read_judgements(file, kind, mapping)
    return read_judgements(file)


def _of_log(labels: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """Return a label table from trials, or from a table that can be read as such."""
    from biaslab.logs.readers import read_judgements

    trials = labels if {"context_id", "candidate_id", "value"} <= set(labels.columns) else read_judgements(labels)
    score = trials["value"].where(has_value(trials)) if "status" in trials else trials["value"]
    for name in ("human", "human_gap"):
        if name in trials and trials[name].notna().any():
            score = trials[name] if name == "human" else (np.sign(trials[name]) + 1) / 2
    pairs = "opponent_id" in trials and trials["opponent_id"].notna().all()
    ids = ["context_id", "candidate_id", *(["opponent_id"] if pairs else [])]
    names = [*ids, *(name for name in ("attribute", "probability") if name in trials)]
    table = trials[names].assign(score=score.astype(float)).dropna(subset="score")
    if "attribute" in table and _is_unnamed("attribute", table, judged):
        several = any(len(each["attribute"].unique()) > 1 for each in (table, judged))
        table = table if several else table.drop(columns="attribute")
    return _identified(table, judged) if _is_unnamed("candidate_id", table, judged) and not pairs else table


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
    turned = (table["candidate_id"] > table["opponent_id"]).to_numpy()
    names = {"candidate_id": table["candidate_id"], "opponent_id": table["opponent_id"]}
    first = names["candidate_id"].where(~turned, names["opponent_id"])
    second = names["opponent_id"].where(~turned, names["candidate_id"])
    put = table.assign(candidate_id=first, opponent_id=second, score=np.where(turned, 1 - score, score))
    keys = ["context_id", "candidate_id", "opponent_id"]
    means = put.groupby(keys, sort=False)["score"].mean()
    return means.reindex(pd.MultiIndex.from_frame(items[keys])).to_numpy(float)


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
ITEM_COLUMNS = ("context_id", "candidate_id", "opponent_id", "system", "opponent", "value", "human")


@dataclass(frozen=True)
class LabelledCell:
    """Judgements and labels of one judge, attribute and data set.

    Parameters
    ----------
    where : dict
        Judge, data set, attribute and further columns.
    items : pandas.DataFrame
        One row per candidate, or pair of candidates, with the columns `ITEM_COLUMNS`. For pairs, ``value`` is the
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
    """

    where: dict[str, Any]
    items: pd.DataFrame
    pairs: bool
    probability: pd.Series | None
    n_trials: int
    n_dropped: int
    scale: tuple[float, float] | None = None

    @property
    def contexts(self) -> list[str]:
        """The contexts, in order of appearance."""
        return list(dict.fromkeys(self.items["context_id"]))


def read_cells(
    judged: pd.DataFrame,
    labels: Dataset | pd.DataFrame | str | Path | HumanLabels | None,
    labelled: Sequence[str] | Mapping[str, float] | None,
    by: Sequence[str],
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
    frame = frame if "status" in frame else frame.assign(status="ok")
    if frame.empty:
        raise TrialsError.plain("judged has no rows, expected: at least one judgement")
    parsed = HumanLabels.read(labels, frame)
    _require_judged(labelled, frame)
    cells = []
    for values, judgements in frame.groupby([*CELL, *by], sort=False):
        where = dict(zip([*CELL, *by], values, strict=True))
        _require_one_condition(judgements, by)
        cells.append(_cell(where, judgements, parsed, labelled))
    return cells


def _cell(
    where: dict[str, Any],
    judgements: pd.DataFrame,
    labels: HumanLabels,
    labelled: Sequence[str] | Mapping[str, float] | None,
) -> LabelledCell:
    """Match the judgements and labels of one judge, attribute and data set."""
    readable = judgements[has_value(judgements)]
    counts = (len(readable), len(judgements) - len(readable))
    paired = "opponent_id" in readable and bool(readable["opponent_id"].notna().all()) and len(readable) > 0
    items = pair_items(readable) if paired else _score_items(readable)
    items = labels.systems(items)
    items = items.assign(human=labels.of_items(items, str(where["attribute"]), paired))
    items, probability = _labelled_part(items, labelled, labels.probability)
    _require_labels(items, labels, str(where["judge"]))
    scale = None if paired else labels.require_scale(judgements, items, str(where["judge"]))
    return LabelledCell(where, items, paired, probability, *counts, scale)


def _score_items(readable: pd.DataFrame) -> pd.DataFrame:
    """Average scores over replicates, one row per candidate."""
    own = readable.get("human", math.nan)
    table = pd.DataFrame({"value": readable["value"], "own": own})
    ids = {name: readable[name].astype(str) for name in ("context_id", "candidate_id")}
    system = {"system": readable["system"]} if "system" in readable else {}
    grouped = table.astype(float).assign(**ids, **system).groupby(list(ids), sort=False)
    means = grouped[["value", "own"]].mean()
    if system:
        means["system"] = grouped["system"].first()
    return means.reset_index()


def pair_items(readable: pd.DataFrame) -> pd.DataFrame:
    """Reorient every pair to one candidate order, and average over both orders and replicates."""
    first, second = (readable[name].astype(str) for name in ("candidate_id", "opponent_id"))
    turned = (first > second).to_numpy()
    value = readable["value"].to_numpy(float)
    gap = readable["human_gap"].to_numpy(float) if "human_gap" in readable else np.full(len(readable), math.nan)
    table = pd.DataFrame(
        {
            "context_id": readable["context_id"].astype(str),
            "candidate_id": np.where(turned, second, first),
            "opponent_id": np.where(turned, first, second),
            "value": np.where(turned, 1 - value, value),
            "own": (np.sign(np.where(turned, -gap, gap)) + 1) / 2,
        }
    )
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
    items: pd.DataFrame, labelled: Sequence[str] | Mapping[str, float] | None, own: pd.Series | None
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


def _require_judged(labelled: Sequence[str] | Mapping[str, float] | None, frame: pd.DataFrame) -> None:
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
            raise TrialsError.plain(f"no judgement of {judge} has a label in human or human_gap; label a random part")
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
    from biaslab.logs.readers.summary import shortened

    ids = [f"{name} {shortened(str(value), _LONGEST)}" for name, values in items.items() for value in values.head(1)]
    return f", such as {', '.join(ids)}" if ids else ""


def _require_one_condition(judgements: pd.DataFrame, by: Sequence[str]) -> None:
    """Raise `InputError` if judgements under different conditions would be averaged."""
    for name in _CONDITIONS:
        if name in judgements and name not in by and len(judgements[name].unique()) > 1:
            values = ", ".join(map(str, judgements[name].unique()[:4]))
            raise InputError(name, values, "one condition at a time", f"select one, or pass by=[{name!r}]")
