"""The reading card: how a log was read, in words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from biaslab.core.output import count, html_table
from biaslab.logs.readers.columns import YES, names_defect
from biaslab.logs.readers.expressions import COUNTED

_SHORT = 25  # characters of a name in a list
_FEW = 6  # meanings of values and columns set aside that are listed
_UNREADABLE = {
    "refused": "refused",
    "cut_off": "gave a reply that was cut off",
    "out_of_range": "gave a score out of range",
}


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
        return [part for line in lines for part in _wrapped(line, width)]

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
        files = (
            f" ({count(reading['files'], 'file')}, such as {reading['file']})"
            if several or reading["files"] > 1
            else ""
        )
        yield "format", f"{reading['format']}: {reading['help']}{files}"
    for role in reading["roles"]:
        yield role["role"], _source(role)
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


def _source(role: Mapping[str, Any]) -> str:
    """Return the columns or constants of a role, and what they hold."""
    if role.get("assumed"):
        return "= first before second, assumed (--order-unknown if not)"
    named = [_column(source) for source in role["sources"] if source["constant"] is None]
    fixed = [source["constant"] for source in role["sources"] if source["constant"] is not None]
    holds = "; ".join(_holds(role.get("holds", {}), bool(fixed)))
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


def _holds(holds: Mapping[str, Any], fixed: bool) -> Iterator[str]:
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
        yield f"{'text' if row['of_text'] else 'answer of'} {row['candidate_id']}"
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
        yield f"repetition {row['replicate'] + 1}"
    if row["human"] is not None:
        yield f"people gave {row['human']:g}"
    if row["human_gap"] is not None:
        gap = row["human_gap"]
        yield (
            "people tied"
            if gap == 0
            else f"people chose the {sides[gap < 0]}{'' if abs(gap) == 1 else f' (gap {gap:+.2g})'}"
        )


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


def _wrapped(line: str, width: int | None) -> list[str]:
    if width is None or len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    options: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": f"{indent}    "}
    return textwrap.wrap(line.strip(), width, break_long_words=False, break_on_hyphens=False, **options)


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
