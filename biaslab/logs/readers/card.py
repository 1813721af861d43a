"""The reading card: what was read from a log, as data and in words, and how to read what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.errors import UnreadableLogError
from biaslab.core.output import count, html_table, wrapped
from biaslab.logs.readers.cells import at, written
from biaslab.logs.readers.columns import YES, names_defect
from biaslab.logs.readers.formats import available
from biaslab.logs.readers.mapping import COUNTED, parse_expression
from biaslab.logs.readers.proposal import ROLES, candidate_word
from biaslab.logs.readers.readings import OUTCOMES
from biaslab.logs.readers.rows import CALL_FAILED, Rows
from biaslab.logs.readers.trials import SCHEMA

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

    @property
    def candidate(self) -> str:
        """What identifies a single candidate: "text", "answer" or "system"."""
        columns = [name for each in self.sources.get("candidate_id", ()) for name in each["columns"]]
        return "text" if self.of_texts else candidate_word(columns)

    def unused(self) -> dict[str, str]:
        """Return the columns that no role uses, with the reason; none if the reader of a format picks them."""
        mapped = [name for sources in self.sources.values() for each in sources for name in each["columns"]]
        every = [*mapped, *self.kept]
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
            role = ROLES.get(entry, {"role": f"covariate {entry}", "column": ""})
            column = role.get("column", entry)
            if entry == "reply" and self.entries and not {"winner", "p_first", "score"} & set(self.sources):
                column = "value"
            filled = not self.entries and _is_filled(trials, entry, column)
            if entry in self.sources or filled or (assumed and entry == "swapped"):
                name = self._named(role, pairs, moved)
                known = roles.setdefault(name, {"role": name, "sources": []})
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

    def _named(self, role: Mapping[str, Any], pairs: bool, moved: bool) -> str:
        """Return the name of a role: that of a single candidate, or of two that are not in the order shown."""
        name = str(role["role"])
        if not pairs:
            return self.candidate if name == "first" else str(role.get("of_one", name))
        return name.replace("first", "candidate").replace("second", "opponent") if moved else name


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
        names = (name for record in rows.records[:_SEEN] for name in islice(_paths(record), _MOST))
        self._layout.columns |= dict.fromkeys(names)

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
        again = trials["replicate"].to_numpy() > trials["replicate"].min()  # or the other order; some count from 1
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
        measured = ("value", "human", "human_gap")
        numbers = {name: None if pd.isna(trial[name]) else float(trial[name]) for name in measured}
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
            "identified_by": self._layout.candidate,
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


_SHORT = 25  # characters of a name in a list
_FEW = 6  # meanings of values and columns set aside that are listed
_UNREADABLE = {"cut_off": "gave a reply that was cut off", "out_of_range": "gave a score out of range"}
_UNREADABLE |= {"refused": "refused"}


@dataclass(frozen=True)
class ReadingCard:
    r"""How a log was read, in words.

    Parameters
    ----------
    reading : mapping
        ``trials.attrs["reading"]``, from `biaslab.read_judgements`.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = [("Why?", "x", "y", "A"), ("How?", "x", "z", "tie")]
    >>> log = pd.DataFrame(rows, columns=["question", "model_a", "model_b", "winner"])
    >>> print(ReadingCard(bl.read_judgements(log).attrs["reading"]))
    the table: 2 judgements (table), 2 of them readable
      question  ← question (Why?, How?)
      first     ← model_a (x)
      second    ← model_b (y, z)
      shown     = first before second, assumed (--order-unknown if not)
      verdict   ← winner (A → first, tie → tie) (1 first, 0 second, 1 tie)
      judge     = not named by a column
      orders    0 pairs in both orders, 2 in one only
      row 1 (table:1): question Why? · first x · second y · the judge chose the first (A)
      row 2 (table:2): question How? · first x · second z · the judge saw a tie (tie)
    """

    reading: Mapping[str, Any]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, width: int | None = None) -> list[str]:
        """Return the lines of the card, each wrapped to a width if there is one."""
        facts = list(self._facts())
        longest = max((len(name) for name, _ in facts), default=0)
        lines = [self._head, *(f"  {name:{longest}}  {what}" for name, what in facts)]
        lines += [f"  {name}: {what}" for name, what in self._rows()]
        if width is None:
            return lines
        return [part for line in lines for part in ([line] if len(line) <= width else wrapped(line, width, 4))]

    def _repr_html_(self) -> str:
        return html_table(self._head, [*self._facts(), *self._rows()], "text-align: left")

    @property
    def _head(self) -> str:
        counts = self.reading["counts"]
        formats = ", ".join(sorted({reading["format"] for reading in self.reading["readings"]}))
        if not any(reading["judged"] for reading in self.reading["readings"]):
            return f"{self.reading['source']}: {counts['judgements']:,} items rated by people ({formats})"
        judgements = f"{counts['judgements']:,} judgements ({formats}), {counts['readable']:,} of them readable"
        return f"{self.reading['source']}: {judgements}"

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Yield the roles of each kind of file, then what could not be read or was left out."""
        counts, reading = self.reading["counts"], self.reading
        for each in reading["readings"]:
            yield from _roles(each, several=len(reading["readings"]) > 1)
        for name, encoding in reading["encodings"].items():
            yield "encoding", f"{name} is not in UTF-8: read as {encoding}; convert it to UTF-8 if words look wrong"
        lost = {name: n for name, n in counts["statuses"].items() if name not in ("ok", "tie")}
        if lost and any(each["judged"] for each in reading["readings"]):
            some = [f"{each['where']}: {_quoted(each['raw'])}" for each in reading["unreadable"]]
            yield "unreadable", "; ".join([", ".join(f"{n:,} {name}" for name, n in lost.items()), *some])
        if counts["duplicates"]:
            others = f"; {counts['contradictions']:,} contradict it" if counts["contradictions"] else ""
            yield "duplicates", f"{counts['duplicates']:,} dropped (kept the first of each{others})"
        once, pairs = reading["one_order"]
        if pairs:
            yield "orders", f"{count(pairs - once, 'pair')} in both orders, {once:,} in one only"
        for why, n in counts["left_out"].items():
            yield "left out", f"{n:,}: {why}"
        for why, n in counts["unmatched"].items():
            yield "unmatched", f"{n:,}: {why}"
        if reading["skipped"]:
            names = ", ".join([*reading["skipped"][:3], *(["…"] if len(reading["skipped"]) > 3 else [])])
            yield "skipped", f"{count(len(reading['skipped']), 'file')} of unknown format: {names}"
        if counts["malformed"]:
            some = [f"{name}:{line}: {reason}" for name, line, reason in reading["problems"]]
            more = [f"{counts['malformed'] - len(some):,} more"] if counts["malformed"] > len(some) else []
            yield "malformed", f"{count(counts['malformed'], 'line')}; {'; '.join([*some, *more])}"

    def _rows(self) -> Iterator[tuple[str, str]]:
        for place, row in enumerate(self.reading["rows"], 1):
            yield f"row {place} ({row['where']})", " · ".join(_row(row))


def _roles(reading: Mapping[str, Any], several: bool) -> Iterator[tuple[str, str]]:
    """Yield each role with its source, then the columns set aside."""
    if several or reading["format"] not in ("table", "mapping"):
        files = f" ({count(reading['files'], 'file')}, such as {reading['file']})"
        shown = files if several or reading["files"] > 1 else ""
        yield "format", f"{reading['format']}: {reading['help']}{shown}"
    for role in reading["roles"]:
        yield role["role"], _source_words(role)
    reasons: dict[str, list[str]] = {}
    if meaning := _passes(reading):
        yield "meaning", meaning
    for column, why in reading["set_aside"].items():
        reasons.setdefault(why, []).append(column)
    for why, columns in reasons.items():
        yield "set aside", f"{_few(columns)}: {why}"


def _passes(reading: Mapping[str, Any]) -> str:
    """Return what passes, if that is what is bad, such as a hallucination.

    Examples
    --------
    >>> source = {"columns": ["judge_hallucination"], "values": {"no": "0", "yes": "1"}}
    >>> _passes({"roles": [{"role": "score", "sources": [source], "holds": {"range": [0, 1]}}]})
    '“pass” (1) is yes of judge_hallucination, so that a “lenient” judge reports it more often than people'
    """
    scores = [role for role in reading["roles"] if role["role"] in ("score", "people")]
    if not any(tuple(role["holds"].get("range", ())) == (0, 1) for role in scores):
        return ""
    for source in (source for role in scores for source in role["sources"]):
        ones = [value for value, number in (source.get("values") or {"1": "1"}).items() if number == "1"]
        for name in filter(names_defect, source["columns"]):
            if set(map(str.lower, ones)) <= YES:
                return f"“pass” (1) is {ones[0]} of {name}, so that a “lenient” judge reports it more often than people"
    return ""


def _source_words(role: Mapping[str, Any]) -> str:
    """Return the columns or constants of a role, and what they hold."""
    if role.get("assumed"):
        return "= first before second, assumed (--order-unknown if not)"
    named = [_column(source) for source in role["sources"] if source["constant"] is None]
    fixed = [source["constant"] for source in role["sources"] if source["constant"] is not None]
    holds = "; ".join(_holds_words(role.get("holds", {}), bool(fixed)))
    columns = [f"← {', '.join(named)}"] if named else []
    if fixed == [COUNTED] and role["role"] == "replicate":
        columns.append("= counted in the order of the file")
    elif fixed == ["unknown"] and role["role"] == "judge":
        columns.append("= not named by a column")
    elif fixed:
        what = "observed range" if role.get("observed") else "constant"
        columns.append(f"= {_few(fixed if role['role'] == 'scale' else list(map(_quoted, fixed)))} ({what})")
    return " ".join([*columns, f"({holds})" if columns and holds else holds]).strip()


def _column(source: Mapping[str, Any]) -> str:
    name = (" > " if source.get("compared") else ", ").join(source["columns"])
    name = f"{name}~{source['pattern']}" if "pattern" in source else name
    meanings = [f"{value} → {meaning}" for value, meaning in source.get("values", {}).items()]
    return f"{name} ({_few(meanings)})" if meanings else name


def _holds_words(holds: Mapping[str, Any], fixed: bool) -> Iterator[str]:
    if "verdicts" in holds:
        (one, n_one), (two, n_two), (_, ties) = holds["verdicts"].items()
        yield ", ".join([f"{n_one:,} {one}, {n_two:,} {two}", *([count(ties, "tie")] if ties else [])])
    if "range" in holds:
        yield "{:g} to {:g}".format(*holds["range"])
    if holds.get("unknown"):
        yield f"not known for {holds['unknown']:,} rows"
    if "rows" in holds:
        yield f"{holds['rows']:,} rows"
    if "distinct" in holds and not fixed:
        short = holds["distinct"] == 1 or all(len(name) <= _SHORT for name in holds["names"])
        every = short and holds["distinct"] == len(holds["names"])
        yield ", ".join(holds["names"]) if every else f"{holds['distinct']:,} different, such as {holds['names'][0]}"


def _row(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of a row in words."""
    sides = ("first", "second") if row["order_known"] else ("candidate", "opponent")
    yield f"question {row['context_id']}"
    if row["opponent_id"] is None:
        yield f"{'answer of' if row['identified_by'] == 'system' else row['identified_by']} {row['candidate_id']}"
    else:
        yield f"{sides[0]} {row['candidate_id']}"
        yield f"{sides[1]} {row['opponent_id']}"
        if not row["order_known"]:
            yield "order not known"
    judge = "the judge" if row["judge"] in (None, "unknown") else f"the judge ({row['judge']})"
    about = f" for {row['attribute']}" if row["attribute"] not in (None, "overall") else ""
    plain = None if row["opponent_id"] else f"{row['value'] or 0:g}"
    raw = "" if row["raw"] in (None, plain) else f" ({row['raw']})"
    if row["judged"]:
        yield f"{judge} {_verdict(row, sides)}{about}{raw}"
    elif row["value"] is not None:
        yield f"{row['judge']} {_verdict(row, sides)}{about}{raw}"
    if row["replicate"]:
        yield f"replicate {row['replicate']}"
    if row["human"] is not None:
        yield f"people gave {row['human']:g}"
    if row["human_gap"] is not None:
        gap = row["human_gap"]
        chose = f"chose the {sides[gap < 0]}{'' if abs(gap) == 1 else f' (gap {gap:+.2g})'}"
        yield f"people {chose if gap else 'tied'}"


def _verdict(row: Mapping[str, Any], sides: Sequence[str]) -> str:
    """Return what a judge did, in words."""
    value, pair = row["value"], row["opponent_id"] is not None
    if row["status"] not in ("ok", "tie") or value is None:
        return _UNREADABLE.get(row["status"], "gave no readable verdict" if pair else "gave no readable score")
    if not pair:
        return f"gave {value:g}" + (f" on {row['scale']}" if row["scale"] else "")
    if value in (0.0, 1.0):
        return f"chose the {sides[value == 0]}"
    return "saw a tie" if value == 0.5 else f"gave the {sides[0]} {value:.2g}"


def _few(names: Sequence[str]) -> str:
    return ", ".join([*names[:_FEW], *([f"{len(names) - _FEW:,} more"] if len(names) > _FEW else [])])


def _quoted(text: str | None) -> str:
    return "no text" if text is None else f'"{text}"'


def are_texts(trials: pd.DataFrame) -> bool:
    """Return whether the candidates of a log are identified by their texts."""
    rows = trials.attrs.get("reading", {}).get("rows", ())
    return bool(trials.attrs.get("of_texts")) or any(row["identified_by"] == "text" for row in rows)


def is_by_people(trials: pd.DataFrame) -> bool:
    """Return whether a log has scores by people and none by a judge."""
    readings = trials.attrs.get("reading", {}).get("readings", ())
    return bool(readings) and not any(reading["judged"] for reading in readings)


class RecordedTrials(pd.DataFrame):
    """The frame that `biaslab.read_judgements` returns: shown below its reading card, otherwise a plain frame.

    Frames derived from it, such as selections and copies, are plain.
    """

    def __repr__(self) -> str:
        frame = repr(pd.DataFrame(self))
        return f"{ReadingCard(self.attrs['reading'])}\n\n{frame}" if "reading" in self.attrs else frame

    def _repr_html_(self) -> str | None:
        frame: str | None = pd.DataFrame(self)._repr_html_()  # type: ignore[operator]
        if frame is None or "reading" not in self.attrs:
            return frame
        return f"{ReadingCard(self.attrs['reading'])._repr_html_()}{frame}"


HALF = 0.5
"""If a larger share of a log could not be read, nothing is estimated from the rest."""

_UNREAD = ("unparsable", "out_of_range", "cut_off")
_SHOWN = 3
_VERDICT = r"winner = 'COLUMN~Verdict: (\w+) | A -> first, B -> second'"
_SCORE = r"score_pattern = 'Score: (\d+)'"


def unread_share(trials: pd.DataFrame) -> float:
    """Return the share of a log that could not be read: malformed lines, failed calls, replies without a verdict.

    Refusals count as read. Malformed lines and failed calls are those of the whole log, even if `trials` is part of it.

    Examples
    --------
    >>> unread_share(pd.DataFrame({"status": ["ok", "unparsable", "refused", "out_of_range"]}))
    0.5
    """
    replies = float(trials["status"].isin(_UNREAD).mean()) if len(trials) else 0.0
    lost = sum(_lost(trials).values())
    rows = trials.attrs.get("judgements", len(trials))
    return 1 - (1 - replies) * rows / (rows + lost) if rows + lost else 0.0


def require_readable(trials: pd.DataFrame) -> None:
    """Raise `UnreadableLogError` if more than half of a log could not be read.

    Examples
    --------
    >>> require_readable(pd.DataFrame({"status": ["ok", "unparsable", "unparsable"]}))
    Traceback (most recent call last):
    ...
    biaslab.core.errors.UnreadableLogError: most of the log was not read (2 of 3 not read: 2 replies), \
and the readable rest may be a biased selection; biaslab.logs.readers.card.explain_unread(trials) suggests how to \
read them
    """
    if unread_share(trials) <= HALF:
        return
    first = next(iter(trials.attrs.get("problems", ())), None)
    remedy = "biaslab.logs.readers.card.explain_unread(trials) suggests how to read them"
    if first is not None and not trials["status"].isin(_UNREAD).any():
        remedy = f"repair the file: {first[0]}, line {first[1]}: {first[2]}"
    why = "the readable rest may be a biased selection"
    raise UnreadableLogError.plain(f"most of the log was not read ({describe_unread(trials)}), and {why}; {remedy}")


def describe_unread(trials: pd.DataFrame) -> str:
    """Describe how much of a log could not be read, by reason.

    Examples
    --------
    >>> trials = pd.DataFrame({"status": ["ok", "unparsable"]})
    >>> trials.attrs = {"malformed": 7}
    >>> describe_unread(trials)
    '8 of 9 not read: 7 malformed lines, 1 reply'
    """
    parts = {**_lost(trials), "reply": int(trials["status"].isin(_UNREAD).sum())}
    listed = ", ".join(count(number, noun) for noun, number in parts.items() if number)
    return f"{sum(parts.values()):,} of {len(trials) + sum(_lost(trials).values()):,} not read: {listed}"


def _lost(trials: pd.DataFrame) -> dict[str, int]:
    """Return counts of log entries without a row: malformed lines and failed calls."""
    failed_calls = trials.attrs.get("left_out", {}).get(CALL_FAILED, 0)
    return {"malformed line": trials.attrs.get("malformed", 0), "failed call": failed_calls}


def explain_unread(trials: pd.DataFrame) -> list[str]:
    r"""Return lines with three unreadable replies, and what would have them read.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`.

    Returns
    -------
    list of str
        Empty if everything could be read.

    Examples
    --------
    >>> log = {"status": ["unparsable"] * 2, "reply": ["Mark: 7", "Mark: 3"], "opponent_id": None, "scale": "1-5"}
    >>> print("\n".join(explain_unread(pd.DataFrame(log))))
    'Mark: 7'
    'Mark: 3'
    if the score stands in the reply, give the words around it in a mapping: score_pattern = 'Score: (\d+)'
    """
    unread = trials[trials["status"].isin(_UNREAD)]
    if unread.empty:
        return []
    replies = unread["reply"].dropna()
    replies = replies[replies.str.strip() != ""]
    empty = len(unread) - len(replies)
    lines = [f"{shortened(reply)!r}" for reply in replies.drop_duplicates().head(_SHOWN)]
    lines += [f"{n:,} {reason}" for reason, n in trials.attrs.get("unmatched", {}).items()]
    if (unread["status"] == "out_of_range").mean() > HALF:
        scales = ", ".join(sorted(unread["scale"].dropna().unique()))
        lines.append(f"they lie outside {scales or 'the scale'}: give the scale that was used (scale)")
    elif empty:
        lines.append(f"{empty:,} of them have no reply: name the column with the verdict or score, or the reply")
    elif unread["opponent_id"].notna().any():
        lines.append(f"if the verdict stands in the reply, give its words and their meaning in a mapping: {_VERDICT}")
    else:
        lines.append(f"if the score stands in the reply, give the words around it in a mapping: {_SCORE}")
    return lines


def shortened(text: str, longest: int = 200) -> str:
    """Return a reply on one line, without its middle if it is long."""
    joined = " ".join(text.split())
    return joined if len(joined) <= longest else f"{joined[: longest // 2]} … {joined[-longest // 2 :]}"
