"""What was read from a log, as data: the roles of its columns, counts, and some rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from biaslab.logs.readers.card import shortened
from biaslab.logs.readers.expressions import parse_expression, written
from biaslab.logs.readers.formats import available
from biaslab.logs.readers.proposal import OF_ONE, ROLES
from biaslab.logs.readers.readings import OUTCOMES
from biaslab.logs.readers.rows import SCHEMA, Rows, at

#: Entry of a mapping → the column of trials that holds its values, where that has another name, or none.
_HELD_IN = {
    "text": "words", "opponent_text": "opponent_words", "shown_first": "order_known", "swapped": "order_known",
    "winner": "value", "winner_swapped": "", "p_first": "value", "score": "value", "reply": "", "person": "judge",
    "preference": "human_gap", "ratings": "human", "annotators": "", "human_scale": "", "ignore": "",
}  # fmt: skip
_MOVED = ("order_known", "shown_first", "swapped")  # entries by which the first column is not always shown first
_COUNTED = ("words", "opponent_words", "human", "human_gap")  # columns of which only the filled rows are counted
_OF_ORDER = ("candidate_id", "opponent_id", "replicate")  # columns that may differ between the orders of a pair
_READABLE = ("ok", "tie")
_SEEN, _DEEPEST, _MOST = 50, 4, 200  # records looked at for names of columns, depth of objects, columns of a record
_ROWS, _EXAMPLES = 3, 2  # rows and malformed lines on the card, and unreadable replies
_LONGEST = 60  # characters of a text


@dataclass
class FileLayout:
    """Files that are read alike.

    Parameters
    ----------
    format : str
        The format's name.
    entries : tuple of dict
        A mapping for each verdict or score of a record; none if the reader of a format finds them.
    given : tuple of str
        Columns that the user mapped.
    set_aside : dict
        Column → why it is not used, if that is known.
    files : list of str
        Names of the files.
    columns : dict
        Names of all columns.
    kept : tuple of str
        Columns that are kept under their own names.
    """

    format: str
    entries: tuple[Mapping[str, Any], ...]
    given: tuple[str, ...] = ()
    set_aside: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)
    kept: tuple[str, ...] = ()

    @cached_property
    def sources(self) -> dict[str, list[dict[str, Any]]]:
        """The different sources of each entry."""
        sources: dict[str, list[dict[str, Any]]] = {}
        for entries in self.entries:
            for name, entry in entries.items():
                source = _source(name, entry)
                sources.setdefault(name, []).extend([source] if source not in sources.get(name, ()) else [])
        return sources

    @property
    def judged(self) -> bool:
        """Whether there is a judge's verdict or score, and not only ratings by people."""
        by_judge = any(name in self.sources for name in OUTCOMES) and "person" not in self.sources
        return not self.entries or by_judge

    @property
    def of_texts(self) -> bool:
        """Whether candidates are named by their texts."""
        return bool(self.entries) and self.sources.get("text") == self.sources.get("candidate_id")

    def unused(self) -> dict[str, str]:
        """Return the columns that no role uses, with the reason; none if the reader of a format picks them."""
        every = [name for sources in self.sources.values() for each in sources for name in each["columns"]] + [
            *self.kept
        ]
        used = {*every, *(part.strip() for name in every for part in name.split(","))}
        named = [name for name in self.columns if name and not name.endswith("#")]  # without places in lists
        left = [name for name in named if not any(_is_within(name, one) for one in used)]
        aside = {name: why for name, why in self.set_aside.items() if name not in self.kept}
        return (dict.fromkeys(left, "not used") if self.entries else {}) | aside

    def roles(self, trials: pd.DataFrame) -> list[dict[str, Any]]:
        """Return each role with its sources in the file, and what its column of trials holds."""
        pairs = bool(trials["opponent_id"].notna().any())
        moved = not trials["order_known"].any() or any(name in self.sources for name in _MOVED)
        assumed = pairs and bool(self.entries) and not moved and "winner_swapped" not in self.sources
        roles: dict[str, dict[str, Any]] = {}
        for entry in dict.fromkeys([*ROLES, *self.sources]):
            role = ROLES.get(entry, f"covariate {entry}")
            column = _HELD_IN.get(entry, entry) if entry in ROLES else ""
            if entry == "reply" and self.entries and not {"winner", "p_first", "score"} & set(self.sources):
                column = "value"
            filled = not self.entries and _is_filled(trials, entry, column)
            if entry in self.sources or filled or (assumed and entry == "swapped"):
                role = self._named(role, pairs, moved)
                known = roles.setdefault(role, {"role": role, "sources": []})
                known["sources"] += [each for each in self.sources.get(entry, ()) if each not in known["sources"]]
                known |= {"holds": _holds(trials, column, pairs)} if column else {}
        if self.kept:
            roles["kept"] = {"role": "kept", "sources": [{"columns": list(self.kept), "constant": None}]}
        if assumed:
            roles["shown"]["assumed"] = True
        if "scale" in roles and self.format == "table" and "scale" not in self.given:
            stated = [each for each in roles["scale"]["sources"] if each["columns"] and "values" not in each]
            words = ["values" in each for each in self.sources.get("score", ())]
            roles["scale"]["observed"] = not stated and not any(words)
        return [roles[name] for name in roles if not (self.of_texts and name.startswith("text of"))]

    def _named(self, role: str, pairs: bool, moved: bool) -> str:
        """Return the name of a role: that of a single candidate, or of two that are not in the order shown."""
        if not pairs:
            return "text" if role == "first" and self.of_texts else OF_ONE.get(role, role)
        return role.replace("first", "candidate").replace("second", "opponent") if moved else role


class ReadingNotes:
    """Notes on the files of a log, taken while they are read."""

    def __init__(self) -> None:
        self._layouts: list[FileLayout] = []
        self._rows: list[dict[str, Any]] = []
        self._again: list[dict[str, Any]] = []
        self._unreadable: list[dict[str, Any]] = []
        self._layout = FileLayout("", ())

    def start(self, layout: FileLayout, file: str, rows: Rows) -> None:
        """Note a file, from its layout and its first records."""
        alike = (each for each in self._layouts if (each.format, each.entries) == (layout.format, layout.entries))
        self._layout = next(alike, layout)
        if self._layout is layout:
            self._layouts.append(layout)
        self._layout.files.append(file)
        self._layout.columns |= dict.fromkeys(
            name for record in rows.records[:_SEEN] for name in islice(_paths(record), _MOST)
        )

    @property
    def columns(self) -> list[str]:
        """The names of the columns of all files."""
        return list(dict.fromkeys(name for layout in self._layouts for name in layout.columns))

    def see(self, part: pd.DataFrame, trials: pd.DataFrame, rows: Rows) -> None:
        """Note rows of a part of a file that differ in their verdict, and unreadable ones.

        Parameters
        ----------
        part : pandas.DataFrame
            The trials as a reader returned them; its index is the position of their record in `rows`.
        trials : pandas.DataFrame
            The same without those of refused records.
        rows : Rows
            The records.
        """
        places = np.flatnonzero(rows.good[part.index.to_numpy()])
        readable = trials["status"].isin(_READABLE).to_numpy()
        side = np.sign(trials["value"] - 0.5)  # of pairs, in which each probability would be another verdict
        kind = side.where(trials["opponent_id"].notna(), trials["value"])
        again = trials["replicate"].to_numpy() > 0  # or the other order
        if "winner_swapped" in self._layout.sources:
            again |= places >= len(rows.records)
        new = readable & ~again & ~kind.duplicated().to_numpy()
        for noted, which in ((self._rows, new), (self._again, readable & again), (self._unreadable, ~readable)):
            for row in np.flatnonzero(which)[: max(_ROWS - len(noted), 0)].tolist():
                noted.append(self._row(part, int(places[row]), trials.iloc[row], rows))

    def files_of_people(self) -> list[str]:
        """Return the files with scores by people alone, and forget them if others have a judge's."""
        people = [layout for layout in self._layouts if not layout.judged]
        if len(people) < len(self._layouts):
            self._layouts = [layout for layout in self._layouts if layout.judged]
            names = {name for layout in people for name in layout.files}
            for noted in (self._rows, self._again, self._unreadable):
                noted[:] = [row for row in noted if row["where"].rpartition(":")[0] not in names]
        return [name for layout in people for name in layout.files]

    def facts(self, source: str, trials: pd.DataFrame) -> dict[str, Any]:
        """Return what was read, in plain types.

        Parameters
        ----------
        source : str
            Name of the log.
        trials : pandas.DataFrame
            All trials of the log, with counts in their ``attrs``.
        """
        about = trials.attrs
        statuses = {str(status): int(n) for status, n in trials["status"].value_counts(sort=False).items()}
        names = ("duplicates", "contradictions", "malformed", "left_out", "unmatched")
        counts = {"judgements": len(trials), "readable": sum(statuses.get(name, 0) for name in _READABLE)}
        whole = {**counts, "statuses": statuses, **{name: about[name] for name in names}}
        return {
            "source": source,
            "readings": [self._reading(layout, trials) for layout in self._layouts],
            "counts": whole,
            "rows": self._chosen(),
            "unreadable": [{"where": row["where"], "raw": row["raw"]} for row in self._unreadable[:_EXAMPLES]],
            "problems": [list(problem) for problem in about["problems"][:_ROWS]],
            "encodings": about["encodings"],
            "skipped": about["skipped"],
            "one_order": list(_judged_once(trials)),
        }

    def _reading(self, layout: FileLayout, trials: pd.DataFrame) -> dict[str, Any]:
        own = trials
        if len(self._layouts) > 1:
            own = trials[trials["key"].str.rpartition(":")[0].isin(layout.files)]
        return {
            "format": layout.format,
            "help": available()[layout.format],
            "file": layout.files[0],
            "files": len(layout.files),
            "judged": layout.judged,
            "roles": layout.roles(own),
            "set_aside": layout.unused(),
        }

    def _chosen(self) -> list[dict[str, Any]]:
        """Return the first row, one with another verdict, and one that is unreadable, repeated or a third verdict."""
        rest = [*self._unreadable[:1], *self._again[:1], *self._rows[2:], *self._unreadable[1:]]
        return [*self._rows[:2], *rest][:_ROWS]

    def _row(self, part: pd.DataFrame, place: int, trial: pd.Series, rows: Rows) -> dict[str, Any]:
        """Return the facts of a trial, with the verdict as the file has it."""
        record = rows.records[int(part.index[place])]
        numbers = {
            name: None if pd.isna(trial[name]) else float(trial[name]) for name in ("value", "human", "human_gap")
        }
        names = ("context_id", "candidate_id", "opponent_id", "judge", "attribute", "scale", "status")
        texts = {name: None if pd.isna(trial[name]) else shortened(str(trial[name]), _LONGEST) for name in names}
        raw = self._raw(place, len(part), len(rows.records), record)
        raw = trial["reply"] if raw is None else raw
        return {
            "where": str(trial["key"]),
            **texts,
            **numbers,
            "order_known": bool(trial["order_known"]),
            "replicate": int(trial["replicate"]),
            "judged": self._layout.judged,
            "of_text": self._layout.of_texts,
            "raw": None if raw is None or pd.isna(raw) else shortened(str(raw), _LONGEST),
        }

    def _raw(self, place: int, n_trials: int, n_records: int, record: Mapping[str, Any]) -> str | None:
        """Return the verdict or score of a record; trials are in the order of the entries, then of the records."""
        if not self._layout.entries:
            return None
        size = max(n_trials // len(self._layout.entries), 1)
        entries = self._layout.entries[min(place // size, len(self._layout.entries) - 1)]
        names = ("winner_swapped",) if "winner_swapped" in entries and place % size >= n_records else OUTCOMES
        columns = next((_source(name, entries[name])["columns"] for name in names if name in entries), ())
        values = [record[name] if name in record else at(record, name) for name in columns]
        return ", ".join("null" if value is None else written(value) or str(value) for value in values) or None


def _judged_once(trials: pd.DataFrame) -> tuple[int, int]:
    """Return the number of pairs judged in one order only, and of all pairs with known order."""
    shown = trials[trials["opponent_id"].notna() & trials["order_known"].astype(bool)]
    if shown.empty:
        return 0, 0
    names = [name for name, column in SCHEMA.items() if column.tells_apart and name not in _OF_ORDER]
    varied = [name for name in names if shown[name].ne(shown[name].iloc[0]).any()]
    candidates = pd.factorize(pd.concat([shown["candidate_id"], shown["opponent_id"]]))[0].reshape(2, -1)
    parts = [*(pd.factorize(shown[name])[0] for name in varied), candidates.min(axis=0), candidates.max(axis=0)]
    pairs = np.zeros(len(shown), int)
    for codes in parts:  # integers are far faster than groups of text
        pairs = pd.factorize(pairs * (codes.max() + 2) + codes)[0]
    n_pairs, n_orders = pairs.max() + 1, len(pd.unique(2 * pairs + (candidates[0] < candidates[1])))
    return int(2 * n_pairs - n_orders), int(n_pairs)


def _source(name: str, entry: Any) -> dict[str, Any]:
    """Return the columns or the constant of a mapping's entry, and how its values are read, in plain types."""
    parsed = parse_expression(name, entry)
    source: dict[str, Any] = {"columns": list(parsed.fields), "constant": parsed.constant}
    source |= {"pattern": parsed.pattern.pattern} if parsed.pattern is not None else {}
    source |= {} if (meanings := parsed.values) is None else {"values": dict(meanings)}  # noqa: PD011
    return source | ({"compared": True} if parsed.compared else {})


def _is_filled(trials: pd.DataFrame, entry: str, column: str) -> bool:
    """Return whether a reader in code filled a column of trials with something else than its default."""
    if not column or entry in ("p_first", "person"):
        return False
    if column == "value":
        return bool((trials["opponent_id"].notna() == (entry == "winner")).any())
    values = trials[column].dropna().unique()
    return any(value != SCHEMA[column].default for value in values[:2])


def _holds(trials: pd.DataFrame, column: str, pairs: bool) -> dict[str, Any]:
    """Return what a column of trials holds: counts of verdicts, a range of numbers, or how many names and the first."""
    values = trials[column].dropna()
    if column == "value" and pairs:
        one, two = ("first", "second") if trials["order_known"].any() else ("candidate", "opponent")
        sides = {one: values > 0.5, two: values < 0.5, "tie": values == 0.5}
        return {"verdicts": {side: int(which.sum()) for side, which in sides.items()}}
    if column == "value":
        return {"range": [float(values.min()), float(values.max())]} if len(values) else {}
    if column == "order_known":
        return {"unknown": int((~values.astype(bool)).sum())}
    if column in _COUNTED:
        return {"rows": len(values)}
    names = values.unique()
    return {"distinct": len(names), "names": [shortened(str(name), _LONGEST) for name in names[:3]]}


def _is_within(name: str, other: str) -> bool:
    """Return whether a column is another one, or contains it, or lies within it."""
    return name == other or other.startswith(f"{name}.") or name.startswith(f"{other}.")


def _paths(record: Mapping[str, Any], start: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the names of a record's columns, dotted within objects."""
    for name, value in record.items():
        if isinstance(value, dict) and value and depth < _DEEPEST:
            yield from _paths(value, f"{start}{name}.", depth + 1)
        else:
            yield f"{start}{name}"
