"""Label items by hand, on a page with two to five buttons; `biaslab.correct` reads the labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.core.files import read_csv, write_csv
from biaslab.core.output import AnyPath, Page, count, require_file
from biaslab.core.scales import scale_named
from biaslab.core.schema import Dataset
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.card import are_texts
from biaslab.logs.readers.cells import at
from biaslab.logs.readers.columns import roles_of, tokens
from biaslab.logs.readers.documents import first_rows, iter_documents, read_rows
from biaslab.logs.readers.readings import number_of
from biaslab.logs.readers.rows import Log
from biaslab.report.evidence.cards import visible
from biaslab.report.wording import templates

_FEWEST, _MOST = 2, 5  # buttons
_VERDICTS = {"fail": 0.0, "pass": 1.0}
_OF_PAIRS = {"A is better": 1.0, "equal": 0.5, "B is better": 0.0}
_IDS = ("context_id", "candidate_id", "opponent_id", "attribute")
_KEPT = (*_IDS, "probability")  # columns of the file beside the score
_TEXTS = ("source", "text", "opponent_text")
#: Roles in a log whose columns hold these texts, the first that there is; those of candidates that are named by texts.
_ROLES = {"source": ("question",), "text": ("text", "text of first"), "opponent_text": ("text of second",)}
_TEXTS_AS_NAMES = {"source": ("question",), "text": ("candidate", "first"), "opponent_text": ("opponent", "second")}
_OPEN = -1  # place of no choice


def label(
    items: Dataset | pd.DataFrame | AnyPath,
    choices: Mapping[str, float] | Sequence[str] | None = None,
    *,
    path: AnyPath | None = None,
    attribute: str | None = None,
    n: int | None = None,
    contexts: pd.DataFrame | Sequence[str] | AnyPath | None = None,
    seed: int = 0,
    show: Sequence[str] = (),
    mapping: Mapping[str, Any] | str | Path | None = None,
) -> LabelPage:
    """Label items by hand: one at a time, with a button and a key for each choice.

    Parameters
    ----------
    items : Dataset, pandas.DataFrame or path
        What to label: the candidates of a data set, or the answers or pairs in a log, as `biaslab.read_judgements`
        reads it, with their texts. The judge's verdicts, human labels and names of systems are not shown.
    choices : mapping of str to float, or sequence of str, optional
        Two to five buttons and their scores, or for a sequence of numbers the numbers. Default: for pairs which of the
        two is better, or neither; for scores the steps of the log's scale or the data set's, pass and fail for 0 to 1.
    path : path, optional
        CSV file of the labels. Labels in it are kept and shown; the widget adds each new one at once.
    attribute : str, optional
        Label only this attribute; default: each of the log, or the first of a data set.
    n : int, optional
        Number of contexts to draw; default: all.
    contexts : pandas.DataFrame, path or sequence of str, optional
        The contexts to label, from `biaslab.correct.choose_contexts`, or from ``biaslab plan-labels --out``, whose
        probabilities the labels keep for `biaslab.correct`; or their identifiers. Default: all.
    seed : int
        Seed of the order. Contexts appear in random order, so that those labelled first are a random part of all; so
        do the items of a context and the two sides of a pair.
    show : sequence of str
        Columns of a log to show as the question; default: the column of the question alone.
    mapping : mapping of str to str or path, optional
        As in `biaslab.read_judgements`.

    Returns
    -------
    LabelPage
        JupyterLab, VS Code and Colab show it. ``labels`` is a frame, which `biaslab.correct` takes, as it takes the
        CSV file. ``save("label.html")`` writes a page that works without a server and downloads the CSV file;
        ``save("label.csv")`` writes the items with an empty column ``score`` to be filled in.

    Raises
    ------
    InputError
        If the texts are in no column of the log, an option or a context is unknown, or choices are fewer than two, more
        than five or not on the scale.

    Examples
    --------
    >>> import pandas as pd
    >>> log = pd.DataFrame({"question": ["2 + 2?", "3 + 3?"], "answer": ["four", "six"], "verdict": ["pass", "fail"]})
    >>> page = label(log)
    >>> page.choices, page.items[["context_id", "source", "text"]].sort_values("source").to_numpy().tolist()
    ({'fail': 0.0, 'pass': 1.0}, [['2 + 2?', '2 + 2?', 'four'], ['3 + 3?', '3 + 3?', 'six']])
    """
    require_whole("seed", seed, 0)
    if n is not None:
        require_whole("n", n, 1)
        if contexts is not None:
            raise InputError("n", n, "None, because contexts are given")
    target = None if path is None else require_file("path", path, ".csv")
    table, scale = _of_dataset(items) if isinstance(items, Dataset) else _of_log(items, mapping, show)
    names = list(dict.fromkeys(table["attribute"]))
    if attribute is not None:
        require_one_of("attribute", attribute, names)
    elif isinstance(items, Dataset):
        attribute = names[0]
    chosen = table if attribute is None else table[table["attribute"] == attribute]
    drawn = _in_random_order(chosen if contexts is None else _in_contexts(chosen, contexts), n, seed)
    page = LabelPage(drawn, _choices(choices, "opponent_id" in table, scale), scale, target)
    return page if target is None or not target.exists() else page.with_labels(read_csv(target))


@dataclass(frozen=True, eq=False)
class LabelPage(Page):
    """Items to label, one at a time, with a button and a key for each choice.

    Attributes
    ----------
    items : pandas.DataFrame
        One row per item, in the order shown: ``context_id, candidate_id``, ``opponent_id`` of a pair, ``attribute``,
        the texts ``source, text, opponent_text``, and ``turned``, whether the opponent is shown as A.
    choices : dict of str to float
        Scores of the buttons; of a pair, that of the answer shown as A.
    scale : str
        Scale of the scores, empty if unknown and for pairs.
    path : Path or None
        File of the labels.
    """

    items: pd.DataFrame
    choices: dict[str, float]
    scale: str = ""
    path: Path | None = None
    chosen: list[int] = field(default_factory=list)  # place of the choice of each item

    def __post_init__(self) -> None:
        self.chosen.extend([_OPEN] * (len(self.items) - len(self.chosen)))

    @property
    def labels(self) -> pd.DataFrame:
        """The labels so far, which `biaslab.correct` takes: identifiers, ``score`` and ``scale``."""
        return self._rows_at(self.chosen)

    def with_labels(self, labels: pd.DataFrame) -> LabelPage:
        """Return the page with the labels of a frame such as `labels`.

        Raises
        ------
        InputError
            If a label is of no item, or none of the choices.
        """
        ids = [name for name in _IDS if name in self.items]
        missing = [name for name in (*ids, "score") if name not in labels]
        if missing:
            raise InputError("path", str(self.path), f"a CSV file of labels with the column {missing[0]}")
        keys = self.items[ids].astype(str).itertuples(index=False, name=None)
        places = {key: place for place, key in enumerate(keys)}
        chosen, scores = list(self.chosen), list(self.choices.values())
        for row in labels[labels["score"].notna()].to_dict("records"):
            place = places.get(tuple(str(row[name]) for name in ids))
            score = number_of(row["score"])
            if place is None or score not in scores:
                what = ", ".join(f"{name} {row[name]}" for name in (*ids, "score"))
                allowed = f"labels of these items, each {' or '.join(f'{value:g}' for value in scores)}"
                raise InputError("path", f"{self.path}: {what}", allowed, "use another file for other labels")
            chosen[place] = (self._mirrored() if self.items["turned"].iloc[place] else scores).index(score)
        return LabelPage(self.items, self.choices, self.scale, self.path, chosen)

    def to_html(self) -> str:
        """Return a page that needs no server."""
        rows = self.items.astype(object).where(self.items.notna(), "").to_dict("records")
        ids = [name for name in _KEPT if name in self.items]
        records = [
            {name: visible(row.get(name, "")) for name in _TEXTS}
            | {"ids": [str(row[name]) for name in ids], "turned": bool(row["turned"]), "attribute": row["attribute"]}
            for row in rows
        ]
        template = templates("biaslab.report.evidence").get_template("labelling.html.j2")
        file = "labels.csv" if self.path is None else self.path.name
        several = len(self.items["attribute"].unique()) > 1
        facts = {"ids": ids, "file": file, "several": several, "mirrored": self._mirrored()}
        return template.render(page=self, records=records, **facts)

    def save(self, path: AnyPath) -> Path:
        """Write the page (.html), or a table of the items with their scores so far, to be filled in (.csv)."""
        target = require_file("path", path, ".html", ".csv")
        if target.suffix == ".html":
            return super().save(target)
        write_csv(self.items.drop(columns="turned").assign(score=self._scores(self.chosen)), target)
        return target

    def widget(self) -> Any:
        """Return the page as a widget, whose ``selection`` is the frame of labels; it keeps the file up to date."""
        widget = super().widget()
        widget.shown = list(self.chosen)
        widget.observe(lambda change: self._keep(change["new"]), names="shown")
        return widget

    def _keep(self, chosen: list[int]) -> None:
        """Take over the choices that the widget reports, and write them to the file."""
        self.chosen[:] = chosen
        if self.path is not None:
            write_csv(self.labels, self.path)

    def _scores(self, chosen: Sequence[int]) -> list[float]:
        """Return the score of each item, of a pair that of its first candidate; NaN without a choice."""
        values, mirrored = ([*scores, math.nan] for scores in (self.choices.values(), self._mirrored()))
        turned = self.items["turned"]
        return [(mirrored if swap else values)[at] for at, swap in zip(chosen, turned, strict=True)]

    def _mirrored(self) -> list[float]:
        """Return the score of each button, of a pair that of the answer shown as B."""
        scores = sorted(self.choices.values())
        return [scores[-1 - scores.index(score)] for score in self.choices.values()]

    def _rows_at(self, places: list[int]) -> pd.DataFrame:
        ids = [name for name in _KEPT if name in self.items]
        labels = self.items[ids].assign(score=self._scores(places))
        return (labels.assign(scale=self.scale) if self.scale else labels).dropna(subset="score")

    def _heading(self) -> str:
        return f"Label {count(len(self.items), 'item')}"

    def __repr__(self) -> str:
        done = sum(at != _OPEN for at in self.chosen)
        return f"{count(len(self.items), 'item')} to label, {done:,} labelled; choices: {', '.join(self.choices)}"

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        try:
            display(self.widget())  # type: ignore[no-untyped-call]
        except ImportError:
            display(HTML(self._repr_html_()))  # type: ignore[no-untyped-call]


def _of_dataset(data: Dataset) -> tuple[pd.DataFrame, str]:
    """Return the candidates of a data set, for each attribute, and its scale."""
    shown = data.candidates.rename(columns={"context": "source"})[["context_id", "candidate_id", "source", "text"]]
    return shown.merge(pd.DataFrame({"attribute": list(data.attributes)}), "cross"), "{:g}-{:g}".format(*data.scale)


def _of_log(log: Any, mapping: Any, show: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """Return the different items of a log with their texts, and the scale of its scores.

    Raises
    ------
    InputError
        If texts are in no column, or trials are given instead of the log.
    """
    trials = read_judgements(log, mapping=mapping)
    pairs = bool(trials["opponent_id"].notna().all())
    columns = _columns(trials) | ({"source": [show] if isinstance(show, str) else [*show]} if show else {})
    wanted = _TEXTS if pairs else _TEXTS[:2]
    if lacking := [name for name in wanted if not columns.get(name)]:
        rows = first_rows(log)
        names = ", ".join(dict.fromkeys(name for record in rows.records for name in record)) if rows else "none"
        what = f"items need columns of texts; none of {names} is read as {' and '.join(lacking)}"
        remedy = 'if one is, name it, such as mapping={"text": "COLUMN"}; else join the texts to the log first'
        raise InputError.plain(f"{what}; {remedy}")
    known = {
        f"{document.name}:{line}": record
        for document in iter_documents(log)
        for rows in read_rows(document, Log(document.name))
        for line, record in zip(rows.lines, rows.records, strict=True)
    }
    if not show:  # of an identifier and the question that goes with it, the question
        asked = [*columns["source"], *_set_aside_questions(trials)]
        lengths = {name: sum(len(text) for each in known.values() for text in _texts(each, [name])) for name in asked}
        columns["source"] = [max(lengths, key=lengths.__getitem__)]
    if unknown := [name for name in columns["source"] if all(at(record, name) is None for record in known.values())]:
        raise InputError("show", unknown[0], f"columns among {', '.join(next(iter(known.values())))}")
    table = trials[[name for name in _IDS if pairs or name != "opponent_id"]].astype(str)
    for name in wanted:
        table[name] = ["\n\n".join(_texts(known[key], columns[name])) for key in trials["key"]]
        if not any(table[name]):
            raise InputError("items", columns[name], "a log with one item a record", "pass one row per item")
    sides = table[["candidate_id", *["opponent_id"] * pairs]]
    same = pd.DataFrame(np.sort(sides, axis=1), table.index).join(table[["context_id", "attribute"]])
    scales = trials["scale"].dropna().unique()
    return table[~same.duplicated()], "" if pairs or len(scales) != 1 else str(scales[0])


def _columns(trials: pd.DataFrame) -> dict[str, list[str]]:
    """Return the columns of a log that hold each text."""
    readings = trials.attrs["reading"]["readings"]
    of_role = {
        role["role"]: [name for source in role["sources"] for name in source["columns"]]
        for reading in readings
        for role in reading["roles"]
    }
    roles_of = [_ROLES, *[_TEXTS_AS_NAMES] * are_texts(trials)]
    wanted = {name: [role for roles in roles_of for role in roles[name] if of_role.get(role)] for name in _TEXTS}
    return {name: of_role[known[0]] for name, known in wanted.items() if known}


def _set_aside_questions(trials: pd.DataFrame) -> list[str]:
    """Return the columns of questions that the log was not read by, since another one identifies them."""
    aside = [name for reading in trials.attrs["reading"]["readings"] for name in reading["set_aside"]]
    return [name for name in aside if roles_of(tokens(name))[:1] == ("question",)]


def _texts(record: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    values = [at(record, name) for name in columns]
    return [value if isinstance(value, str) else str(value) for value in values if value is not None]


def _in_contexts(table: pd.DataFrame, contexts: Any) -> pd.DataFrame:
    """Return the items of some contexts, with the probability of each if it is given."""
    if isinstance(contexts, str | Path):
        contexts = read_csv(require_file("contexts", contexts, ".csv"))
    if not isinstance(contexts, pd.DataFrame):
        contexts = pd.DataFrame({"context_id": list(contexts)})
    if "context_id" not in contexts:
        raise InputError("contexts", list(contexts.columns), "a table with the column context_id")
    known = contexts[[name for name in ("context_id", "probability") if name in contexts]].astype({"context_id": str})
    if unknown := sorted({*known["context_id"]} - {*table["context_id"]}):
        raise InputError("contexts", unknown[0], "contexts of the items, such as " + table["context_id"].iloc[0])
    return table.merge(known.drop_duplicates("context_id"), on="context_id")


def _in_random_order(table: pd.DataFrame, n: int | None, seed: int) -> pd.DataFrame:
    """Return the items of n contexts, both in random order, and which side of a pair is shown first."""
    rng = np.random.default_rng(seed)
    contexts = rng.permutation(table["context_id"].unique())[:n]
    table = table.iloc[rng.permutation(len(table))]  # the place in a context would tell the system
    place = table["context_id"].map({name: at_ for at_, name in enumerate(contexts)})
    kept = table[place.notna()].assign(place=place).sort_values("place", kind="stable").drop(columns="place")
    turned = rng.random(len(kept)) < 0.5 if "opponent_id" in kept else np.zeros(len(kept), bool)
    return kept.assign(turned=turned).reset_index(drop=True)


def _choices(given: Mapping[str, float] | Sequence[str] | None, pairs: bool, named: str) -> dict[str, float]:
    """Return the buttons with their scores; raise `InputError` unless there are two to five, on the scale."""
    scale = None
    with suppress(InputError):  # a scale unknown to biaslab
        scale = None if pairs else scale_named(named)
    steps = dict(zip(scale.labels, scale.values, strict=True)) if scale else {}
    given = (_OF_PAIRS if pairs else _VERDICTS if named == "0-1" else steps) if given is None else given
    try:
        scores = {str(name): float(given[name] if isinstance(given, Mapping) else name) for name in given}
    except (TypeError, ValueError) as error:
        raise InputError("choices", given, "word → score, or numbers", 'such as {"fail": 0, "pass": 1}') from error
    low, high = (scale.low, scale.high) if scale else (0.0, 1.0)
    values = sorted(scores.values())
    on_scale = all(low <= value <= high for value in values) if pairs or scale else all(map(math.isfinite, values))
    of_both = all(math.isclose(one + other, 1) for one, other in zip(values, reversed(values), strict=True))
    if not (_FEWEST <= len(set(values)) == len(scores) <= _MOST and on_scale and (of_both or not pairs)):
        allowed = f"{_FEWEST} to {_MOST} different scores" + f" from {low:g} to {high:g}" * bool(pairs or scale)
        allowed += ", of the answer shown as A: with each s also 1 − s" * pairs
        raise InputError("choices", scores, allowed, f'such as choices={{"bad": {low:g}, "good": {high:g}}}')
    return scores
