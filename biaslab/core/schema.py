"""Define `Dataset`, the return type of all loaders: two tidy, validated frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from biaslab.core.checks import did_you_mean, is_whole
from biaslab.core.errors import DatasetError, InputError
from biaslab.core.output import html_table

CANDIDATE_COLUMNS = ("context_id", "context", "candidate_id", "system", "text", "reference")
HUMAN_COLUMNS = ("context_id", "candidate_id", "attribute", "annotator", "score")
#: The annotator of labels that are exact because texts were constructed to have them.
CONSTRUCTION = "construction"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Contexts with their candidates and human scores.

    Parameters
    ----------
    name : str
        Short name, a column of every trials and estimates frame.
    candidates : pandas.DataFrame
        One row per context × candidate: ``context_id, context, candidate_id, system, text, reference``. All strings;
        ``reference`` and ``system`` may be empty. ``(context_id, candidate_id)`` is unique, and each context has one
        text. Additional string columns, such as a rubric, are `variables`, which the slots of a `biaslab.Protocol` can
        show.
    human : pandas.DataFrame
        One row per context × candidate × attribute × annotator:
        ``context_id, candidate_id, attribute, annotator, score``. May be empty. Items that an annotator skipped have
        no row. Scores by the annotator ``"construction"`` count as exact: texts were made to have them.
    attributes : mapping of str to str
        Attribute name → its definition, one sentence that a prompt can quote.
    scale : tuple of float
        Lowest and highest human score.
    noun : str
        What prompts call a candidate: ``"summary"``, ``"response"``, ``"text"``.
    provenance : str
        Origin, licence, and whether the data set was constructed; displayed with the data set.

    Raises
    ------
    DatasetError
        If a column is missing, a text is empty, an identifier is repeated or unknown, or a score lies outside the
        scale. The message names row and column.

    Examples
    --------
    >>> import biaslab as bl
    >>> bl.load_dataset("graded", limit=2)
    Dataset('graded (constructed)': 2 contexts, 12 candidates, 4 attributes, 48 human scores)
    """

    name: str
    candidates: pd.DataFrame
    human: pd.DataFrame
    attributes: Mapping[str, str]
    scale: tuple[float, float] = (1.0, 5.0)
    noun: str = "text"
    provenance: str = ""

    def __post_init__(self) -> None:
        columns = (*CANDIDATE_COLUMNS, *self.variables)
        object.__setattr__(self, "candidates", _columns(self.candidates, columns, "candidates"))
        object.__setattr__(self, "human", _columns(self.human, HUMAN_COLUMNS, "human"))
        _check_candidates(self.candidates)
        _check_human(self)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {self.n_contexts} contexts, {len(self.candidates)} candidates, "
            f"{len(self.attributes)} attributes, {len(self.human)} human scores)"
        )

    def _repr_html_(self) -> str:
        low, high = self.scale
        facts = [
            ("contexts", f"{self.n_contexts:,}"),
            ("candidates", f"{len(self.candidates):,}, each a {self.noun}"),
            ("human scores", f"{len(self.human):,}, from {low:g} to {high:g}" if len(self.human) else "none"),
            *((f"attribute {name}", text) for name, text in self.attributes.items()),
            ("provenance", self.provenance),
        ]
        return html_table(self.name, facts, "text-align: left")

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Additional columns of the candidates whose values are all strings."""
        own = (str(name) for name in self.candidates.columns if name not in CANDIDATE_COLUMNS)
        return tuple(name for name in own if all(isinstance(value, str) for value in self.candidates[name]))

    @property
    def n_contexts(self) -> int:
        """Number of contexts, the sample size of every estimate."""
        return int(self.candidates["context_id"].nunique())

    @cached_property
    def human_means(self) -> pd.DataFrame:
        """Mean human score, shape (candidates, attributes), by (context_id, candidate_id); NaN if unrated."""
        index = ["context_id", "candidate_id"]
        means = self.human.pivot_table("score", index, "attribute")
        items = pd.MultiIndex.from_frame(self.candidates[index])
        return means.reindex(index=items, columns=list(self.attributes))

    @cached_property
    def rows(self) -> dict[tuple[str, str], dict[str, str]]:
        """Rows of the candidates by (context_id, candidate_id)."""
        rows: list[dict[Any, Any]] = self.candidates.to_dict("records")
        return {(row["context_id"], row["candidate_id"]): row for row in rows}

    def head(self, n: int | None) -> Dataset:
        """Return the first ``n`` contexts with all their candidates and scores; all if ``n`` is None.

        Raises
        ------
        InputError
            If ``n`` is not a whole number of at least 1.
        """
        if n is None:
            return self
        if not is_whole(n, 1):
            raise InputError("limit", n, "a whole number of contexts, at least 1, or None for all")
        return self.of_contexts(self.candidates["context_id"].drop_duplicates().head(n))

    def of_contexts(self, contexts: Iterable[str]) -> Dataset:
        """Return the contexts with these ids, in the order of this data set, with all their candidates and scores."""
        kept = set(contexts)
        candidates, human = (frame[frame["context_id"].isin(kept)] for frame in (self.candidates, self.human))
        return replace(self, candidates=candidates, human=human)

    def require_attributes(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the named attributes, or all if ``names`` is None.

        Raises
        ------
        InputError
            If one of them is not an attribute of this data set, or none is left.
        """
        chosen = tuple(self.attributes) if names is None else tuple(names)
        unknown = [name for name in chosen if name not in self.attributes]
        if unknown or not chosen:
            meant = did_you_mean(unknown[0], self.attributes) if unknown else ""
            raise InputError("attributes", unknown or chosen, f"names among {', '.join(self.attributes)}", meant)
        return chosen


def count_words(text: str) -> int:
    """Return the number of words of a text, split at white space; at least 1, so that it has a logarithm."""
    return max(len(text.split()), 1)


def _columns(frame: pd.DataFrame, wanted: tuple[str, ...], which: str) -> pd.DataFrame:
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise DatasetError.plain(f"{which} lacks the columns {', '.join(missing)}; map or add them")
    return frame[list(wanted)].reset_index(drop=True)


def _refuse(bad: pd.Series, frame: pd.DataFrame, which: str, column: str, allowed: str) -> None:
    """Raise for the first row where ``bad`` is true, naming row and column."""
    if bad.any():
        row = int(bad.to_numpy().argmax())
        others = int(bad.sum()) - 1
        remedy = f"{others} more rows have the same problem" if others else ""
        raise DatasetError(f"{which} row {row}, column {column!r}", frame[column].iloc[row], allowed, remedy)


def _check_candidates(frame: pd.DataFrame) -> None:
    for column in CANDIDATE_COLUMNS:
        is_text = frame[column].map(lambda value: isinstance(value, str)).astype(bool)
        _refuse(~is_text, frame, "candidates", column, "a string")
        if column in ("context_id", "candidate_id", "text"):
            _refuse(frame[column].str.strip() == "", frame, "candidates", column, "a non-blank string")
    if frame.empty:
        raise DatasetError.plain("candidates has no rows, expected: at least one row")
    repeated = frame.duplicated(["context_id", "candidate_id"])
    _refuse(repeated, frame, "candidates", "candidate_id", "one row per context and candidate")
    first_text = frame.groupby("context_id")["context"].transform("first")
    _refuse(frame["context"] != first_text, frame, "candidates", "context", "one text per context_id")


def _check_human(dataset: Dataset) -> None:
    frame = dataset.human
    low, high = dataset.scale
    known = pd.MultiIndex.from_frame(dataset.candidates[["context_id", "candidate_id"]])
    items = pd.MultiIndex.from_frame(frame[["context_id", "candidate_id"]])
    unknown = pd.Series(~items.isin(known), index=frame.index)
    _refuse(unknown, frame, "human", "candidate_id", "a candidate of the candidates frame")
    stray = ~frame["attribute"].isin(list(dataset.attributes))
    _refuse(stray, frame, "human", "attribute", f"one of {', '.join(dataset.attributes)}")
    scores = pd.to_numeric(frame["score"], errors="coerce")
    _refuse(~scores.between(low, high), frame, "human", "score", f"a number from {low:g} to {high:g}")
    repeated = frame.duplicated(["context_id", "candidate_id", "attribute", "annotator"])
    _refuse(repeated, frame, "human", "annotator", "one score per item, attribute and annotator")
    frame["score"] = scores.astype(float)
