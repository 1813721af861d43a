"""Verdicts of judges beside each person's labels of the same items, from trials, tables and mappings."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_fits
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.files import read_csv
from biaslab.correct.labels import HumanLabels, LabelledCell, pair_items, read_cells, score_items
from biaslab.measures.ranking.pairs import in_both_orders
from biaslab.stats.blocks import CELL, ITEM, has_value
from biaslab.stats.frame import require_columns
from biaslab.stats.reliability import read_ratings

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

#: Labels by annotator, or verdicts by judge, and by item.
ByAnnotator = Mapping[str, Mapping[Any, Any]]
Labelling = Literal["word", "pass", "pair", "score"]
ConfidenceSource = Literal["label probabilities", "samples", "both orders", "column", "none"]
COLUMNS = ("annotator", "item", "label")
_SIDES = ("candidate_id", "opponent_id")
_EVEN = 0.5


@dataclass(frozen=True, eq=False)
class Annotations:
    """A judge's verdicts and people's labels of the same items.

    Attributes
    ----------
    where : dict
        ``judge, dataset, attribute``.
    items : pandas.DataFrame
        One row per item that the judge was asked about: ``context_id, item`` (of trials also ``candidate_id`` and
        ``opponent_id``), ``judged`` (NaN if there is no verdict that can be read), ``confidence``, and for verdicts of
        0 and 1 ``yes``, the judge's probability of 1; NaN if unknown. Verdicts on pairs are 1, 0 or ½ for the first of
        both names.
    people : numpy.ndarray, shape (items, annotators)
        People's labels as numbers; NaN without one.
    names : list of str
        The annotators.
    kind : {"word", "pass", "pair", "score"}
        What verdicts are: words, 0 or 1, the winner of a pair, or numbers.
    words : list or None
        The words that numbers stand for.
    source : str
        What confidences are: label probabilities, shares of samples, agreement of both orders, or a column of a table.
    dropped : int
        Judgements that could not be read.
    told_apart : bool
        Whether it is known who gave each label.
    """

    where: dict[str, Any]
    items: pd.DataFrame
    people: Floats
    names: list[str]
    kind: Labelling
    words: list[Any] | None = None
    source: ConfidenceSource = "none"
    dropped: int = 0
    told_apart: bool = True

    @property
    def scale(self) -> tuple[float, float]:
        """The smallest and the largest label of people and judge."""
        known = np.concatenate([self.people.ravel(), self.items["judged"].to_numpy(float)])
        return float(np.nanmin(known)), float(np.nanmax(known))

    def loss(self, within: float = 0.0) -> Floats:
        """Return the share of people whose label is further from the verdict than this; NaN without a label."""
        verdict = self.items["judged"].to_numpy(float)[:, None]
        labelled = (~np.isnan(self.people)).sum(axis=1)
        apart = (np.abs(self.people - verdict) > within + 1e-9).sum(axis=1)
        known = (labelled > 0) & ~np.isnan(verdict[:, 0])
        return np.where(known, apart / np.maximum(labelled, 1), np.nan)


def read_annotations(
    judged: pd.DataFrame | ByAnnotator,
    labels: pd.DataFrame | ByAnnotator | Dataset | str | Path | None = None,
    judges: Sequence[str] | None = None,
    confidence: str | None = None,
) -> list[Annotations]:
    """Match verdicts with people's labels; parameters as in `biaslab.replace`.

    Raises
    ------
    InputError, TrialsError
        If columns are missing, a label is given twice, nobody labelled a judged item, or only items of one context; or
        as in `biaslab.correct`.
    """
    if isinstance(judged, pd.DataFrame) and not set(COLUMNS[1:]) <= set(judged.columns):
        names = judged.get("judge", pd.Series(dtype=str))
        return list(_of_trials(judged if judges is None else judged[_chosen(names, judges)], labels, confidence))
    if not isinstance(judged, pd.DataFrame | Mapping):
        raise InputError("judged", judged, "trials, a table or a mapping", "read a file with biaslab.read_judgements")
    return list(_of_tables(judged, labels, judges, confidence))


def read_label_tables(file: Path) -> pd.DataFrame | ByAnnotator | None:
    """Return a file that holds labels by annotator and item; None if it is a log.

    It is a table with ``annotator, item, label``, or JSON of annotator → item → label, perhaps compressed with gzip;
    JSON of item → label is of one annotator, with the name of the file.
    """
    if not file.exists():
        raise InputError("file", str(file), "an existing file")
    try:
        if {".csv", ".tsv"} & set(file.suffixes):
            table = read_csv(file, sep="\t" if ".tsv" in file.suffixes else ",")
            return table if set(COLUMNS) <= {"annotator" if name == "judge" else name for name in table} else None
        if ".json" not in file.suffixes:
            return None
        content = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        found = json.loads(content)
    except (ValueError, OSError):  # JSON Lines, or damaged: the reader of logs says what
        return None
    if not isinstance(found, dict) or not found:
        return None
    if not any(isinstance(own, dict | list) for own in found.values()):
        return {file.name.partition(".")[0]: found}
    known = all(isinstance(own, dict) for own in found.values())
    flat = known and not any(isinstance(label, dict | list) for own in found.values() for label in own.values())
    return found if flat else None


def _of_tables(judged: Any, labels: Any, judges: Sequence[str] | None, confidence: str | None) -> Iterator[Annotations]:
    """Yield each judge of a table or a mapping."""
    given = _long(judged, "judged", confidence)
    if labels is None and not judges:
        remedy = "name them, judges=['gpt-4o'] (--judge), or pass people's labels apart (--labels)"
        names = ", ".join(given["annotator"].unique()[:5])
        raise InputError.plain(f"judged does not say which annotators are judges: {names}; {remedy}")
    of_judges = _chosen(given["annotator"], judges)
    verdicts, people = given[of_judges], given[~of_judges] if labels is None else _long(labels, "labels")
    people = people.dropna(subset="label")
    if both := sorted(set(verdicts["annotator"]) & set(people["annotator"])):
        raise InputError.plain(f"{', '.join(both[:5])} is a judge and one of the people; leave it out of the labels")
    every = pd.concat([verdicts, people], ignore_index=True)
    stated = every.dropna(subset="context_id").drop_duplicates(["item", "context_id"])
    if (twice := stated["item"].duplicated()).any():
        raise TrialsError.plain(f"{stated['item'][twice].iloc[0]} is in two contexts; name items of each differently")
    contexts = dict(zip(stated["item"], stated["context_id"], strict=True))
    numeric = pd.to_numeric(every["label"], errors="coerce").astype(float)
    if np.isinf(numeric).any():
        raise TrialsError("label", float("inf"), "finite numbers, or words")
    words, written = None, every["label"].notna()
    if numeric[written].isna().any():
        numbers = numeric.notna() & ~every["label"].map(lambda label: isinstance(label, bool))
        named = numeric.map("{:g}".format).where(numbers, every["label"].astype(str).str.strip())
        words = sorted(named[written].unique())
        _require_words(named[: len(verdicts)][written[: len(verdicts)]], named[len(verdicts) :])
        numeric = named.where(written).map({word: float(place) for place, word in enumerate(words)})
    every = every.assign(label=numeric, context_id=[contexts.get(item, item) for item in every["item"]])
    verdicts, people = every[: len(verdicts)], every[len(verdicts) :]
    kind: Labelling = "word" if words else "pass" if set(numeric.dropna()) <= {0.0, 1.0} else "score"
    _require_one_scale(verdicts["label"].astype(float), people["label"].astype(float))
    rated = people.pivot_table("label", "item", "annotator", sort=False)
    for judge, own in verdicts.groupby("annotator", sort=False):
        items = own[["context_id", "item"]].assign(judged=own["label"].astype(float))
        items = items.assign(confidence=own["confidence"].where(items["judged"].notna()))
        missing = int(items["judged"].isna().sum())
        if kind == "pass":
            sure = items["confidence"]
            items = items.assign(yes=sure.where(items["judged"] == 1, 1 - sure))
        table = rated.reindex(items["item"]).to_numpy(float)
        where = {"judge": str(judge), "dataset": "labels", "attribute": "overall"}
        _require_labels(items, table, str(judge))
        source: ConfidenceSource = "column" if items["confidence"].notna().any() else "none"
        yield Annotations(where, items.reset_index(drop=True), table, [*map(str, rated)], kind, words, source, missing)


def _chosen(names: pd.Series, judges: Sequence[str] | None) -> pd.Series:
    """Return which rows are of the judges that the user named, or of any."""
    require_fits("judges", judges, Sequence[str] | None)
    given = list(map(str, names.unique()))
    if strangers := [name for name in judges or () if name not in given]:
        raise InputError("judges", strangers, f"annotators of the table, such as {', '.join(given[:5])}")
    return names.astype(str).isin(judges or given)


def _require_words(verdicts: pd.Series, labels: pd.Series) -> None:
    """Raise `TrialsError` if judges and people have no word in common, or write one in upper and lower case."""
    own, theirs = set(verdicts), set(labels)
    alike = {word.casefold(): word for word in theirs}
    spelt = [(word, alike[word.casefold()]) for word in sorted(own - theirs) if word.casefold() in alike]
    if spelt:
        raise TrialsError.plain("judges write {!r}, people {!r}; write labels alike".format(*spelt[0]))
    if theirs and not own & theirs:
        examples = f"{', '.join(sorted(own)[:3])}; {', '.join(sorted(theirs)[:3])}"
        raise TrialsError.plain(f"judges and people have no label in common: {examples}; write labels alike")


def _require_one_scale(verdicts: pd.Series, labels: pd.Series) -> None:
    """Raise `TrialsError` if all verdicts are above or below all labels."""
    if verdicts.min() > labels.max() or verdicts.max() < labels.min():
        ends = [f"{part.min():g} to {part.max():g}" for part in (verdicts, labels)]
        raise TrialsError.plain("judges give {}, people {}; bring both to one scale".format(*ends))


def _long(table: Any, name: str, confidence: str | None = None) -> pd.DataFrame:
    """Return ``annotator, item, label, context_id, confidence`` of a table or a mapping; empty labels are missing."""
    if isinstance(table, Mapping):
        if not all(isinstance(labels, Mapping) for labels in table.values()):
            raise InputError(name, table, "annotator → item → label", "such as {'ann': {'item 1': 'yes'}}")
        rows = [(who, item, label) for who, labels in table.items() for item, label in labels.items()]
        table = pd.DataFrame(rows, columns=list(COLUMNS))
    if not isinstance(table, pd.DataFrame):
        raise InputError(name, table, "a table or a mapping of annotator, item and label")
    frame = table.rename(columns={"judge": "annotator"} if "annotator" not in table else {})
    require_columns(frame, COLUMNS, name)
    nothing = pd.Series(np.nan, frame.index, object)
    if confidence is not None:
        require_columns(frame, (confidence,), name)
    sure = _stated(frame.get(confidence or "confidence", nothing), f"{name}, {confidence or 'confidence'}")
    context = frame.get("context_id", frame.get("context", nothing)).astype(object)
    context = context.astype(str).where(context.notna())
    long = pd.DataFrame({key: frame[key] for key in COLUMNS}).assign(context_id=context, confidence=sure)
    long = long.assign(label=long["label"].where(long["label"] != ""))
    if not long["label"].map(pd.api.types.is_scalar).all():
        raise TrialsError.plain(f"{name}: labels are words or numbers, not lists or dictionaries")
    if long["label"].isna().all() or long[["annotator", "item"]].isna().any(axis=None):
        raise TrialsError.plain(f"{name} has no labels, or labels without annotator or item")
    long = long.astype({"annotator": str, "item": str})
    if (twice := long.duplicated(["annotator", "item"])).any():
        who, item = long.loc[twice, ["annotator", "item"]].iloc[0]
        raise TrialsError.plain(f"{name}: {who} labelled {item} twice; keep one label of each annotator and item")
    return long


def _stated(values: pd.Series, name: str) -> pd.Series:
    """Return confidences as numbers."""
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    if (wrong := values.notna() & values.ne("") & ~numbers.between(0, 1)).any():
        raise TrialsError(name, values[wrong].tolist()[0], "numbers from 0 to 1")
    return numbers


def _of_trials(judged: pd.DataFrame, labels: Any, confidence: str | None) -> Iterator[Annotations]:
    """Yield each judge, data set and attribute of trials."""
    if labels is not None and hasattr(labels, "human_means"):
        labels = labels.human
    frame = judged.rename(columns={"score": "value"}) if "value" not in judged else judged
    frame = frame if "status" in frame else frame.assign(status="ok")
    known = HumanLabels.read(labels, frame)
    known = known if _several(known.table) else replace(known, fills=True)
    if confidence is not None:
        require_columns(frame, (confidence,), "judged")
        frame = frame.assign(**{confidence: _stated(frame[confidence], f"judged, {confidence}")})
    for cell in read_cells(frame, known, None, ()):
        chosen = (frame[list(CELL)] == pd.Series(cell.where)[list(CELL)]).all(axis=1)
        rows = frame[chosen & has_value(frame)]
        items = _with_confidence(cell, rows)
        kind: Labelling = "pair" if cell.pairs else "pass" if _is_pass(cell) else "score"
        source = _source(cell, rows, kind)
        if source in ("samples", "both orders"):
            items["confidence"] = items["confidence"].where(_times(cell, rows) > 1)  # one verdict shows no agreement
        if confidence is not None:
            keys, asked = _keys(rows, cell.pairs), _keys(cell.items, cell.pairs)
            source, items = (
                "column",
                items.assign(confidence=rows[confidence].groupby(keys).mean().reindex(asked).array),
            )
            items = items.assign(yes=np.where(items["judged"] == 1, items["confidence"], 1 - items["confidence"]))
        cell = _with_missing(cell, frame[chosen & ~has_value(frame)], known)
        items = pd.concat([items, cell.items[["context_id"]][len(items) :]])
        names, people, apart = _people(cell, frame[chosen], known)
        sides = cell.items[[*_SIDES[: 1 + cell.pairs]]].astype(str)
        item = cell.items["context_id"].astype(str)
        for name in sides:
            item = item + " | " + sides[name]
        items = pd.concat([items, sides], axis=1).assign(item=item)
        yield Annotations(dict(cell.where), items, people, names, kind, None, source, cell.n_dropped, apart)


def _keys(rows: pd.DataFrame, pairs: bool) -> pd.Series:
    """Return context and candidate, or both candidates in either order, of each row, as one text."""
    sides = rows[["context_id", *_SIDES[: 1 + pairs]]].itertuples(index=False)
    return pd.Series(["\n".join([str(context), *sorted(map(str, names))]) for context, *names in sides], rows.index)


def _times(cell: LabelledCell, rows: pd.DataFrame) -> pd.Series:
    """Return how often each item of a cell was judged, in either order."""
    return _keys(cell.items, cell.pairs).map(_keys(rows, cell.pairs).value_counts())


def _with_missing(cell: LabelledCell, unread: pd.DataFrame, known: HumanLabels) -> LabelledCell:
    """Return a cell with the items of which no judgement could be read; their value is NaN."""
    if cell.pairs:
        unread = unread[unread["opponent_id"].notna()]
    if unread.empty:
        return cell
    items = (pair_items if cell.pairs else score_items)(unread).assign(value=math.nan)
    names = ["context_id", *_SIDES[: 1 + cell.pairs]]
    items = items[~pd.MultiIndex.from_frame(items[names]).isin(pd.MultiIndex.from_frame(cell.items[names]))]
    items = items.assign(human=known.of_items(items, str(cell.where["attribute"]), cell.pairs))
    return replace(cell, items=pd.concat([cell.items, items], ignore_index=True))


def _is_pass(cell: LabelledCell) -> bool:
    return cell.scale == (0.0, 1.0) and cell.binary


def _with_confidence(cell: LabelledCell, rows: pd.DataFrame) -> pd.DataFrame:
    """Return ``context_id, judged, confidence`` and, for probabilities, ``yes`` of the items of a cell."""
    items, value = cell.items[["context_id"]], cell.items["value"].to_numpy(float)
    if cell.pairs or _is_pass(cell):
        verdict = np.where(np.abs(value - _EVEN) < 1e-9, _EVEN, (value > _EVEN).astype(float))
        return items.assign(judged=verdict, confidence=np.maximum(value, 1 - value), yes=value)
    votes = rows.assign(n=1).astype(dict.fromkeys(ITEM, str)).groupby([*ITEM, "value"], sort=False)[["n"]].sum()
    votes = votes.reset_index().sort_values("n", ascending=False, kind="stable")
    votes = votes.assign(share=votes["n"] / votes.groupby(list(ITEM))["n"].transform("sum"))
    modes = (
        votes.drop_duplicates(list(ITEM)).set_index(list(ITEM)).reindex(pd.MultiIndex.from_frame(cell.items[[*ITEM]]))
    )
    sampled = len(rows) > len(cell.items)
    return items.assign(
        judged=modes["value"].to_numpy(float), confidence=modes["share"].to_numpy(float) if sampled else np.nan
    )


def _source(cell: LabelledCell, rows: pd.DataFrame, kind: Labelling) -> ConfidenceSource:
    """Return what the confidences of a cell are."""
    several = len(rows) > len(cell.items)
    if kind == "score":
        return "samples" if several else "none"
    if not rows["value"].isin([0.0, _EVEN, 1.0]).all():
        return "label probabilities"
    if not several:
        return "none"
    once = "replicate" not in rows or len(rows["replicate"].unique()) == 1
    both = kind == "pair" and bool(in_both_orders(rows.assign(replicate=0), []).any())
    return "both orders" if both and once else "samples"


def _people(cell: LabelledCell, rows: pd.DataFrame, known: HumanLabels) -> tuple[list[str], Floats, bool]:
    """Return the annotators of a cell, their labels of its items, and whether it is known whose each label is."""
    table, attribute = known.of_attribute(str(cell.where["attribute"])), str(cell.where["attribute"])
    if known.table is not None and _several(table):
        given = {str(name): replace(known, table=own) for name, own in table.groupby("annotator", sort=False)}
        columns = [each.of_items(cell.items.assign(own=np.nan), attribute, cell.pairs) for each in given.values()]
        return list(given), np.column_stack(columns), True
    if known.table is None and not cell.pairs and "ratings" in rows and rows["ratings"].fillna("").ne("").any():
        once = rows[rows["human"].notna()].astype(dict.fromkeys(ITEM, str)).drop_duplicates(list(ITEM))
        ratings = read_ratings(once, once["human"].to_numpy(float))
        wide = ratings.pivot_table("score", "item", "annotator", sort=False).reindex(range(len(once)))
        wide.index = pd.MultiIndex.from_frame(once[[*ITEM]])
        keys = pd.MultiIndex.from_frame(cell.items[list(ITEM)])
        named = "annotators" in once and bool(once["annotators"].fillna("").ne("").any())
        return list(map(str, wide)), wide.reindex(keys).to_numpy(float), named
    return ["people"], cell.items[["human"]].to_numpy(float), True


def _several(table: pd.DataFrame | None) -> bool:
    return table is not None and "annotator" in table and len(table["annotator"].unique()) > 1


def _require_labels(items: pd.DataFrame, people: Floats, judge: str) -> None:
    """Raise `TrialsError` if people labelled no judged item, or only items of one context."""
    known = (~np.isnan(people)).any(axis=1) & items["judged"].notna().to_numpy()
    labelled = len(set(items["context_id"].to_numpy(object)[known]))
    if not labelled:
        raise TrialsError.plain(f"nobody labelled an item that {judge} judged; items must have the same names in both")
    if labelled == 1:
        raise TrialsError.plain(f"labels of {judge}'s items cover one context; label items of several")
