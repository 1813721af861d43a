"""What was read from a log, as data: the roles of its columns, counts, and some rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from biaslab.logs.readers.detection import available
from biaslab.logs.readers.expressions import parse_expression, written
from biaslab.logs.readers.readings import OUTCOMES
from biaslab.logs.readers.rows import SCHEMA, Rows, at, identity_of
from biaslab.logs.readers.summary import shortened

#: Entry of a mapping → role, and the column of trials that holds its values; in the order of the card.
_ROLES = {
    "context_id": ("question", "context_id"),
    "candidate_id": ("first", "candidate_id"),
    "text": ("text of first", "words"),
    "opponent_id": ("second", "opponent_id"),
    "opponent_text": ("text of second", "opponent_words"),
    "order_known": ("shown", "order_known"),
    "shown_first": ("shown", "order_known"),
    "swapped": ("shown", "order_known"),
    "winner": ("verdict", "value"),
    "winner_swapped": ("verdict in the other order", ""),
    "p_first": ("probability", "value"),
    "score": ("score", "value"),
    "reply": ("reply", ""),
    "judge": ("judge", "judge"),
    "attribute": ("criterion", "attribute"),
    "scale": ("scale", "scale"),
    "template": ("prompt", "template"),
    "configuration": ("prompt", "configuration"),
    "replicate": ("replicate", "replicate"),
    "preference": ("people", "human_gap"),
    "human_gap": ("people", "human_gap"),
    "human": ("people", "human"),
    "ratings": ("people", "human"),
    "annotators": ("person", ""),
    "human_scale": ("scale of people", ""),
}
_MOVED = ("order_known", "shown_first", "swapped")  # entries by which the first column is not always shown first
_COUNTED = ("words", "opponent_words", "human", "human_gap")  # columns of which only the filled rows are counted
_READABLE = ("ok", "tie")
_SEEN, _DEEPEST = 50, 4  # records looked at for names of columns, and depth of nested objects
_EXAMPLES, _PROBLEMS = 2, 3  # unreadable rows and malformed lines on the card
_LONGEST = 60  # characters of a text


@dataclass
class Layout:
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
    """

    format: str
    entries: tuple[Mapping[str, Any], ...]
    given: tuple[str, ...] = ()
    set_aside: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    columns: dict[str, None] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        """Whether there is a judge's verdict or score, and not only ratings by people."""
        return not self.entries or any(name in entries for entries in self.entries for name in OUTCOMES)

    @property
    def of_texts(self) -> bool:
        """Whether candidates are named by their texts."""
        named = [_sources(entries) for entries in self.entries[:1]]
        return any(each.get("text") == each.get("candidate_id") for each in named)

    def unused(self) -> dict[str, str]:
        """Return the columns that no role uses, with the reason; none if the reader of a format picks them."""
        every = [name for own in self.entries for each in _sources(own).values() for name in each["columns"]]
        used = {*every, *(part.strip() for name in every for part in name.split(","))}
        left = [name for name in self.columns if name and not any(_is_within(name, one) for one in used)]
        return (dict.fromkeys(left, "not used") if self.entries else {}) | self.set_aside

    def roles(self, trials: pd.DataFrame) -> list[dict[str, Any]]:
        """Return each role with its sources in the file, and what its column of trials holds."""
        pairs = bool(trials["opponent_id"].notna().any())
        every = [_sources(entries) for entries in self.entries]
        names = dict.fromkeys([*_ROLES, *(name for sources in every for name in sources)])
        mapped = {name for sources in every for name in sources}
        roles: dict[str, dict[str, Any]] = {}
        for entry in names:
            role, column = _ROLES.get(entry, (f"covariate {entry}", ""))
            assumed = entry == "swapped" and pairs and mapped and not mapped & {*_MOVED, "winner_swapped"}
            if entry not in mapped and not assumed and (mapped or not _is_filled(trials, entry, column)):
                continue
            role = self._named(role, pairs, bool(mapped & {*_MOVED}))
            sources = [sources[entry] for sources in every if entry in sources]
            known = roles.setdefault(role, {"role": role, "sources": []})
            known["sources"] += [
                each for place, each in enumerate(sources) if each not in [*known["sources"], *sources[:place]]
            ]
            known |= {"holds": _holds(trials, column, pairs)} if column else {}
            known |= {"assumed": True} if assumed else {}
        if "scale" in roles and self.format == "table" and "scale" not in self.given:
            roles["scale"]["observed"] = not any(
                "values" in each for each in roles.get("score", {"sources": ()})["sources"]
            )
        return [roles[name] for name in roles if not (self.of_texts and name.startswith("text of"))]

    def _named(self, role: str, pairs: bool, moved: bool) -> str:
        """Return the name of a role: that of a single candidate, or of two that are not in the order shown."""
        if not pairs:
            return {"first": "text" if self.of_texts else "system", "text of first": "text"}.get(role, role)
        return role.replace("first", "candidate").replace("second", "opponent") if moved else role


class ReadingNotes:
    """Notes on the files of a log, taken while they are read."""

    def __init__(self) -> None:
        self._layouts: list[Layout] = []
        self._rows: list[dict[str, Any]] = []
        self._unreadable: list[dict[str, Any]] = []
        self._layout = Layout("", ())

    def start(self, layout: Layout, file: str, rows: Rows) -> None:
        """Note a file, from its layout and its first records."""
        alike = (each for each in self._layouts if (each.format, each.entries) == (layout.format, layout.entries))
        self._layout = next(alike, layout)
        if self._layout is layout:
            self._layouts.append(layout)
        self._layout.files.append(file)
        self._layout.columns |= dict.fromkeys(name for record in rows.records[:_SEEN] for name in _paths(record))

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
        missing = {True: 2 * _EXAMPLES - len(self._rows), False: _EXAMPLES - len(self._unreadable)}
        if missing[True] > 0:
            side = np.sign(trials["value"] - 0.5)  # of pairs, in which each probability would be another verdict
            kind = side.where(trials["opponent_id"].notna(), trials["value"])
            new = ~pd.DataFrame({"kind": kind, "repeated": trials["replicate"] > 0}).duplicated().to_numpy()
            chosen = np.flatnonzero(new & readable)[: missing[True]].tolist()
            self._rows += [self._row(part, int(places[row]), trials.iloc[row], rows) for row in chosen]
        if missing[False] > 0 and not readable.all():
            chosen = np.flatnonzero(~readable)[: missing[False]].tolist()
            self._unreadable += [self._row(part, int(places[row]), trials.iloc[row], rows) for row in chosen]

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
            "unreadable": [{"where": row["where"], "raw": row["raw"]} for row in self._unreadable],
            "problems": [list(problem) for problem in about["problems"][:_PROBLEMS]],
            "encodings": about["encodings"],
            "skipped": about["skipped"],
            "one_order": list(_judged_once(trials)),
        }

    def _reading(self, layout: Layout, trials: pd.DataFrame) -> dict[str, Any]:
        own = trials
        if len(self._layouts) > 1:
            own = trials[trials["key"].str.rpartition(":")[0].isin(layout.files)]
        about = {"format": layout.format, "help": available()[layout.format], "file": layout.files[0]}
        about |= {"files": len(layout.files), "judged": layout.judged}
        return {**about, "roles": layout.roles(own), "set_aside": layout.unused()}

    def _chosen(self) -> list[dict[str, Any]]:
        """Return the first row, one with another verdict, and one that is unreadable, repeated or a third verdict."""
        rows = [*self._rows[:1]]
        others = [row for row in self._rows[1:] if not row["replicate"]]
        repeated = [row for row in self._rows[1:] if row["replicate"]]
        return [*rows, *others[:1], *self._unreadable[:1], *repeated, *others[1:], *self._unreadable[1:]][:3]

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
        size = n_trials // len(self._layout.entries)
        entries = self._layout.entries[min(place // size, len(self._layout.entries) - 1)]
        names = ("winner_swapped",) if "winner_swapped" in entries and place % size >= n_records else OUTCOMES
        sources = [each for name, each in _sources(entries).items() if name in names]
        values = [record.get(name, at(record, name)) for name in (sources[0]["columns"] if sources else ())]
        return ", ".join("null" if value is None else written(value) or str(value) for value in values) or None


def _judged_once(trials: pd.DataFrame) -> tuple[int, int]:
    """Return the number of pairs judged in one order only, and of all pairs with known order."""
    shown = trials[trials["opponent_id"].notna() & trials["order_known"].astype(bool)]
    if shown.empty:
        return 0, 0
    names = [name for name in identity_of(trials) if name not in ("candidate_id", "opponent_id", "replicate")]
    varied = [name for name in names if shown[name].ne(shown[name].iloc[0]).any()]
    candidates = pd.factorize(pd.concat([shown["candidate_id"], shown["opponent_id"]]))[0].reshape(2, -1)
    parts = [*(pd.factorize(shown[name])[0] for name in varied), candidates.min(axis=0), candidates.max(axis=0)]
    pairs = np.zeros(len(shown), int)
    for codes in parts:  # integers are far faster than groups of text
        pairs = pd.factorize(pairs * (codes.max() + 2) + codes)[0]
    n_pairs, n_orders = pairs.max() + 1, len(pd.unique(2 * pairs + (candidates[0] < candidates[1])))
    return int(2 * n_pairs - n_orders), int(n_pairs)


def _sources(entries: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return for each entry of a mapping its columns or constant, and how their values are read, in plain types."""
    sources: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        parsed = parse_expression(name, entry)
        sources[name] = {"columns": list(parsed.fields), "constant": parsed.constant}
        sources[name] |= {"pattern": parsed.pattern.pattern} if parsed.pattern is not None else {}
        sources[name] |= {} if (meanings := parsed.values) is None else {"values": dict(meanings)}  # noqa: PD011
        sources[name] |= {"compared": True} if parsed.compared else {}
    return sources


def _is_filled(trials: pd.DataFrame, entry: str, column: str) -> bool:
    """Return whether a reader in code filled a column of trials with something else than its default."""
    pairs = trials["opponent_id"].notna()
    if (
        not column
        or entry == "p_first"
        or (entry == "winner" and not pairs.any())
        or (entry == "score" and pairs.all())
    ):
        return False
    values = trials[column].dropna().unique()
    return bool(len(values)) and (column == "value" or any(value != SCHEMA[column].default for value in values[:2]))


def _holds(trials: pd.DataFrame, column: str, pairs: bool) -> dict[str, Any]:
    """Return what a column of trials holds: counts of verdicts, a range of numbers, or how many names and the first."""
    values = trials[column].dropna()
    if column == "value" and pairs:
        sides = {"first": values > 0.5, "second": values < 0.5, "ties": values == 0.5}
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
