"""Recognise the columns of a table: items, candidates, attributes, verdicts, scores and their scales."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.common_names import side_of
from biaslab.logs.readers.expressions import parse_expression, whole, written
from biaslab.logs.readers.mapping import read_mapped
from biaslab.logs.readers.refusals import Entries, Refusal
from biaslab.logs.readers.rows import NUMERAL, LogSource, Rows, is_no_value, keyed

KNOWN = 0.9
"""Minimum share of a column's values that must be interpretable."""

FEW = 20
"""Maximum number of different verdicts, prompts or data sets; columns with more are texts."""

GIVEN_OUTCOMES = frozenset({"winner", "p_first", "score", "reply"})
_HOLD_JUDGES = named.JUDGES | named.VERDICT | named.SCORE | {"votes", "results", "evaluations", "evals"}
_DEEPEST, _MOST = 6, 200  # maximum depth of nested objects, and maximum number of columns
_IN_LISTS = (1, 2)  # lengths of lists whose items become columns: one object, or two candidates
_TURN = frozenset(["role", "content"])  # fields of a turn in a conversation, which counts as a text
_DIFFERENT = 0.05  # share of identifiers that may have several texts by mistake
#: Words in names of numeric columns that are not judgements.
COUNTS = frozenset(["scale", "max", "min", "count", "length", "len", "tokens", "words", "chars", "id", "idx", "norm",
                    "normalized", "index", "latency", "cost", "price", "time", "timestamp", "tstamp", "duration",
                    "seconds", "ms", "num", "temperature", "seed", "version", "year", "step", "turn", "confidence",
                    "threshold", "unnamed", "elo", "replicate", "run", "trial", "rep"])  # fmt: skip


@dataclass(frozen=True)
class TableReading:
    """How to read a table.

    Parameters
    ----------
    entries : tuple of dict
        One mapping per judge or attribute column.
    note : str
        One-line description of the interpretation.
    """

    entries: tuple[Entries, ...]
    note: str

    def read(self, rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
        """Return the trials of every column of verdicts or scores; the user's mapping takes precedence."""
        parts = [read_mapped(rows, source, {"judge": "=unknown", **entries, **mapping}) for entries in self.entries]
        return parts[0] if len(parts) == 1 else pd.concat(parts)


@dataclass
class LogTable:
    """The columns of some records, with notes on their interpretation.

    Fields of nested objects are columns named by their path, such as ``judgment.score``.
    """

    rows: Rows
    given: Mapping[str, Any]
    names: list[str] = field(default_factory=list)
    columns: dict[str, list[str | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    own_scales: dict[str, str] = field(default_factory=dict)  # scales of columns that differ from the common one
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        paths = dict.fromkeys(_paths(list(self.rows.records[:50])))
        self.names = [path for path in paths if path][:_MOST]  # a column without a name cannot be mapped
        for name in self.names:
            context = bool(named.first_named([name], named.CONTEXT) or set(named.tokens(name)) & named.CONVERSATIONS)
            values = [written(keyed(v) if context or _is_conversation(v) else v) for v in self.rows.values(name)]
            self.columns[name] = [None if value is None or not value.strip() else whole(value) for value in values]
        self.used = set(fields_of(self.given))

    def present(self, name: str) -> list[str]:
        """Return the non-empty values of a column."""
        return [value for value in self.columns[name] if value is not None]

    def valued(self, name: str) -> list[str]:
        """Return the values of a column without those that mean "none", unless these are more than half."""
        values = self.present(name)
        stated = [value for value in values if not is_no_value(value)]
        return stated if 2 * len(stated) >= len(values) else values

    def distinct(self, name: str) -> int:
        """Return the number of different values in a column."""
        return len(set(self.present(name)))

    def is_numeric(self, name: str) -> bool:
        """Return whether nearly all values of a column are numbers."""
        values = self.valued(name)
        return bool(values) and sum(NUMERAL.fullmatch(value) is not None for value in values) >= KNOWN * len(values)

    def is_within(self, name: str, *others: str) -> bool:
        """Return whether a column has a single value, with few exceptions, for each combination of others' values."""
        seen: dict[tuple[str | None, ...], set[str]] = defaultdict(set)
        for value, *key in zip(self.columns[name], *(self.columns[other] for other in others), strict=True):
            if value is not None and None not in key:
                seen[tuple(key)].add(value)
        return sum(len(values) > 1 for values in seen.values()) <= _DIFFERENT * len(seen)

    def note_unused(self, entries: Sequence[Entries]) -> None:
        """Note the numeric columns that no mapping uses, because they may be judgements."""
        used = {name for each in entries for name in fields_of(each)} | self.used
        left = [
            name
            for name in self.names
            if name not in used
            and not name.endswith("#")  # the place in a list
            and not set(named.tokens(name)) & COUNTS
            and not named.first_named([name], named.CONTEXT)
            and self.distinct(name) > 1
            and self.is_numeric(name)
        ]
        if left:
            self.notes.append(f"left aside: {', '.join(left)}")


def fields_of(mapping: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields that a mapping names."""
    for name, expression in mapping.items():
        try:
            fields = parse_expression(name, expression).fields
        except InputError:  # raised again where the mapping is read
            continue
        yield from fields
        yield from (part.strip() for each in fields if "," in each for part in each.split(","))


def _paths(values: Sequence[Any], path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the field names of objects, and the paths of fields in nested objects and in lists of the same length."""
    names = dict.fromkeys(str(name) for value in values for name in value)
    for name in names:
        inner = [value[name] for value in values if value.get(name) is not None]
        objects = [item for item in inner if isinstance(item, dict) and item]
        if objects and len(objects) == len(inner) and all(set(item) >= _TURN for item in objects):
            yield f"{path}{name}.content"  # a message; its other fields give the author
            continue
        deeper = depth < _DEEPEST and ("." not in name or named.is_model(name))
        if not objects or not deeper or any(map(_is_opaque, objects)):
            yield f"{path}{name}"
        else:
            yield from (() if len(objects) == len(inner) else (f"{path}{name}",))
            yield from _paths(objects, f"{path}{name}.", depth + 1)
        if deeper and inner and (size := _length(inner)):
            yield from _list_paths(inner, f"{path}{name}.", size, depth + 1)


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(turn, dict) and set(turn) >= _TURN for turn in value)
    )


def _is_opaque(item: Mapping[str, Any]) -> bool:
    """Return whether keys of an object have points, which paths cannot hold, unless they are models such as gpt-4.1."""
    return any("." in str(key) and not named.is_model(str(key)) for key in item)


def _length(values: Sequence[Any]) -> int:
    """Return the shared length of lists of objects, or of two texts; 0 for other values and for conversations."""
    if not all(isinstance(value, list) for value in values):
        return 0
    lengths = {len(value) for value in values}
    items = [item for value in values for item in value]
    objects = all(isinstance(item, dict) and item and not set(item) >= _TURN for item in items)
    if objects and lengths == {2} and set(items[0]) & set(named.JUDGE):  # two judgements, and not two candidates
        return 0
    texts = lengths == {2} and all(isinstance(item, str) for item in items)
    return lengths.pop() if len(lengths) == 1 and lengths <= set(_IN_LISTS) and (objects or texts) else 0


def _list_paths(values: Sequence[list[Any]], path: str, size: int, depth: int) -> Iterator[str]:
    for place in range(size):
        items = [value[place] for value in values]
        if isinstance(items[0], dict):
            yield from _paths(items, f"{path}{place}.", depth)
        else:
            yield f"{path}{place}"


def is_called(name: str) -> bool:
    """Return whether a column's name says that it is an identifier, a question, a count, an order or a person's."""
    words = set(named.tokens(name))
    if name.endswith("#"):  # the place in a list
        return True
    return bool(words & (COUNTS | named.HUMAN | named.ORDER)) or bool(named.first_named([name], named.CONTEXT))


def shared_entries(table: LogTable, condition: str) -> Entries:
    """Return the mapping of judge, data set, prompt (the column `condition`) and replicate, if the table has them."""
    entries: Entries = {}
    for column, names in (
        ("judge", named.JUDGE),
        ("dataset", named.DATASET),
        (condition, named.TEMPLATE),
        ("replicate", named.REPLICATE),
    ):
        known = [name for name in named.first_named(table.names, names) if table.present(name)]
        if column == "judge" and not known:
            known = [name for name in table.names if named.like_judge(name) and table.present(name)]
        if column == "replicate":
            known = [name for name in known if all_numbers(table.present(name))]
        elif column == "judge":
            known = [name for name in known if not is_outcome(table, name)]
        else:
            known = [name for name in known if table.distinct(name) <= FEW]
        if known and known[0] not in table.used:
            entries[column] = known[0]
            if column == "judge":
                table.notes.append(f"judge = {known[0]}")
    return entries


def judged_by_people(table: LogTable, entries: Entries) -> Refusal | None:
    """Ask whether judges with the names of people, such as ``"expert_3"``, are to be audited; None for others."""
    name = entries.get("judge")
    if name is None or "judge" in table.given:
        return None
    values = sorted(set(table.present(name)))
    people = [value for value in values if set(named.tokens(value)) & (named.HUMAN | named.PERSONS)]
    if 2 * len(people) <= len(values) or any(map(named.is_model, people)):
        return None
    reason = f"{name} names people ({', '.join(people[:3])}{', …' if len(people) > 3 else ''})"
    one = ("if they are to be audited together, as one judge", {"judge": "=people"})
    return Refusal(reason, (("if they are to be audited as judges", {"judge": name}), one))


def people_or_judges(table: LogTable) -> Refusal | None:
    """Ask whether a column of people names judges; None if there is no such column, or if it is mapped."""
    people = [name for name in named.first_named(table.names, named.PEOPLE) if table.distinct(name) > 1]
    if not people or people[0] in table.used:
        return None
    return Refusal(f"{people[0]} may be people or judges", ((f"each {people[0]} is a judge", {"judge": people[0]}),))


def is_outcome(table: LogTable, name: str) -> bool:
    """Return whether a column named like a judge contains its verdicts: sides, or numbers."""
    return mostly_sides(table, name) or (table.is_numeric(name) and table.distinct(name) > 1)


def mostly_sides(table: LogTable, name: str) -> bool:
    """Return whether nearly all values of a column name a side or a tie, in words or letters."""
    values = table.present(name)
    if not values or all_numbers(values) or set(values) <= {"x", "y"}:  # x and y may be names of anything
        return False
    sides = [side_of(value) for value in values]
    return sum(side is not None for side in sides) >= KNOWN * len(values) and bool({"first", "second"} & {*sides})


def judge_name(column: str) -> str:
    """Return the judge in the name of a column of verdicts or scores.

    >>> judge_name("gpt-4o_coherence_score"), judge_name("verdict (claude)"), judge_name("score")
    ('gpt-4o', 'claude', 'score')
    >>> judge_name("votes.gpt-4.1"), judge_name("judges.strict.verdict")
    ('gpt-4.1', 'strict')
    """
    head, dot, tail = column.partition(".")
    words = tail if dot and set(named.tokens(head)) & _HOLD_JUDGES else column
    known = "|".join(sorted(named.VERDICT | named.SCORE | named.ATTRIBUTES, key=len, reverse=True))
    while True:
        rest = re.sub(rf"(?:^|[\s_./:-])(?:{known})$|^(?:{known})[\s_./:-]+", "", words, flags=re.IGNORECASE)
        rest = rest.strip(" _./:-()[]")
        if rest == words or not rest:
            return words
        words = rest


def all_numbers(values: Sequence[str]) -> bool:
    """Return whether all values are numbers."""
    return all(NUMERAL.fullmatch(value) is not None for value in values)


_OTHERS = named.VERDICT | named.SCORE | named.HUMAN | named.TEXT | named.SYSTEM | named.ATTRIBUTES
_PER_ROW = 0.9  # different texts per row; if fewer, texts are repeated on purpose
_FEWEST_TEXTS = 4  # minimum number of different texts; fewer are instructions that items share
_PARTS_OF_ITEMS = ("turn", "task", "category", "subset", "domain", "split", "language", "lang", "source_dataset")


def context_of(table: LogTable) -> str | None:
    """Return the column or columns that identify items, or None; constant columns and, if possible, row numbers do not.

    If an identifier has several texts, the column that distinguishes them is added; if there is none, the text is used.
    """
    if "context_id" in table.given:
        return "context_id" if "context_id" in table.names else str(table.given["context_id"])
    possible = named.first_named(table.names, named.CONTEXT)
    possible += [name for name in table.names if name not in possible and named.like_question(name)]
    if len(table.rows.records) > 1:
        possible = [name for name in possible if table.distinct(name) > 1]
    texts = [name for name in possible if name.lower() not in ("id", "idx", "uid")]
    chosen = next(iter([*texts, *possible]), None)
    if chosen is None or len(table.rows.records) < 2:
        return chosen
    if (input_ := _input_of(table, chosen)) is not None:
        return f"{chosen}, {input_}"
    asked = next((name for name in texts if name != chosen and _is_asked(name)), None)
    parts = [name for name in named.first_named(table.names, _PARTS_OF_ITEMS)
             if name != chosen and 1 < table.distinct(name) <= FEW]  # fmt: skip
    if asked is None:
        turn = [name for name in parts if named.first_named([name], ("turn",)) and not table.is_within(name, chosen)]
        return f"{chosen}, {turn[0]}" if turn else chosen
    if not table.is_within(asked, chosen):
        for part in parts:
            if table.is_within(asked, chosen, part):
                return f"{part}, {chosen}"
        return asked
    rows = len(table.present(chosen))
    per_row = table.distinct(chosen) == rows and _FEWEST_TEXTS <= table.distinct(asked) <= _PER_ROW * rows
    return asked if per_row else chosen


def _input_of(table: LogTable, instruction: str) -> str | None:
    """Return the column with the input of an instruction, if an instruction occurs with several inputs."""
    if "instruction" not in named.tokens(instruction):
        return None
    inputs = [name for name in named.first_named(table.names, ("input",)) if not table.is_numeric(name)]
    return next((name for name in inputs if name not in table.used and not table.is_within(name, instruction)), None)


def no_context(table: LogTable, entries: Entries) -> Refusal:
    """Refuse a table without a column for the item, suggesting one."""
    taken = {*fields_of(entries), *table.used}
    rest = [name for name in table.names if name not in taken and not name.endswith("#")]
    words = {name: set(named.tokens(name)) - ({"id"} if named.tokens(name)[-1:] == ("id",) else set()) for name in rest}
    possible = [name for name in rest if table.distinct(name) > 1 and not words[name] & (_OTHERS | COUNTS)]
    most = max(map(table.distinct, possible), default=0)
    varied = [name for name in possible if 2 * table.distinct(name) >= most]
    varied.sort(
        key=table.is_numeric
    )  # texts first, in the order of the table, in which a question comes before answers
    options = tuple((f"if {name} identifies the items", {"context_id": name}) for name in varied[:1])
    return Refusal(f"no column has a common name for the item (question, prompt, …): {', '.join(rest)}", options)


def _is_asked(name: str) -> bool:
    """Return whether a column's name says that it contains the question itself."""
    return bool(named.first_named([name], named.ASKED)) or named.like_question(name)


PLAIN = frozenset({"judge", "llm", "the", "final", "model", "auto", "evaluator", "grader"})
"""Words next to "score" that name no attribute."""

_SCORES = named.SCORE | {"metrics", "metric", "feedback", "evals", "evaluations"}
_REASONS = frozenset(["reason", "reasons", "reasoning", "rationale", "explanation", "justification", "critique",
                      "explained", "why"])  # fmt: skip
_NO_NAMES = {"value", "score", "rating", "result"}  # of the number in an object of one score
_BETWEEN = re.compile(r"[./]")


def is_attribute(table: LogTable, name: str) -> bool:
    """Return whether a column is called after an attribute."""
    return bool(set(named.tokens(name)) & named.ATTRIBUTES or within_scores(name)) or is_explained(table, name)


def attribute_of(table: LogTable, name: str) -> str:
    """Return the attribute after which a column is called; "overall" for none."""
    words = list(dict.fromkeys(word for word in named.tokens(name) if word in named.ATTRIBUTES))
    if not words and is_explained(table, name):
        words = [word for word in named.tokens(name) if word not in named.SCORE]
    return within_scores(name).lower() or " ".join(words) or "overall"


def within_scores(name: str) -> str:
    """Return the name of a score within an object of scores; empty for other columns.

    Examples
    --------
    >>> within_scores("scores.depth"), within_scores("metrics/brand_voice"), within_scores("scores.gpt-4o")
    ('depth', 'brand_voice', '')
    """
    *heads, tail = _BETWEEN.split(name)
    for at, head in enumerate(heads):
        if set(named.tokens(head)) & _SCORES:
            own = (*heads, tail)[at + 1]
            return "" if own.lower() in _NO_NAMES or own.isdigit() or named.is_model(own) else own
    return ""


def is_explained(table: LogTable, name: str) -> bool:
    """Return whether another column is named after it plus "reason" or the like, which marks a score by a judge."""
    own = set(named.tokens(name))
    if not own - named.SCORE - PLAIN or named.is_model(name):
        return False
    return any(
        own < (words := set(named.tokens(other))) and words - own <= _REASONS and not table.is_numeric(other)
        for other in table.names
    )


_TOPS = (5, 10, 100, 7)  # maxima of scales that start at 1, or at 0 if a score is 0
_ENDS = {1, 3, 4, *_TOPS}  # maxima of an attribute's own scale
_FEW_BELOW = 5  # maximum number of steps below 0
_NEGATIVE = 0.1  # share of scores that may be errors
_SMALLER, _MANY = 0.75, 20  # ratio of maxima at which scales may differ, and scores needed for that


def add_scale(
    table: LogTable, entries: Entries, columns: Sequence[str], attribute: str | None = None
) -> Refusal | None:
    """Add the scale of numeric columns to a mapping, or return a refusal if it is unclear.

    All columns share one scale, unless the scores of an attribute end so much lower that its scale may differ.
    """
    if "scale" in table.given or not columns:
        return None
    if attribute is None and (flags := _flags_beside_scores(table, columns)):
        table.own_scales |= dict.fromkeys(flags, "=0-1")
        table.notes.append(f"scale 0-1 of {', '.join(flags)}, which are from 0 to 1")
        columns = [name for name in columns if name not in flags]
    scale = _scale(table, columns)
    groups = _by_attribute(table, columns, attribute)
    own = {about: max(values) for about, values in groups.items() if len(values) >= _MANY}
    if isinstance(scale, Refusal):
        apart = attribute is None and own and min(own.values()) <= _SMALLER * max(own.values())
        return _refuse_unequal_scales(table, columns) or scale if apart else scale
    top = float(scale.rpartition("-")[2])
    other = {about: high for about, high in own.items() if high <= _SMALLER * top and high in _ENDS}
    if other:
        scales = {about: f"1-{other.get(about, top):.0f}" if other.get(about, top) > 1 else "0-1" for about in groups}
        whole = ("if all have one scale", {"scale": scale})
        lower = ", ".join(f"{high:g}" for high in other.values())
        reason = f"the scores of {', '.join(other)} end at {lower}, others at {top:g}"
        if attribute is not None:
            return Refusal(reason, (whole, ("if each has its own", {"scale": {"field": attribute, "values": scales}})))
        each = tuple(
            (f"only {name}", {"score": name, "attribute": f"={about}", "scale": f"={scales[about]}"})
            for name in columns
            if (about := attribute_of(table, name)) in scales
        )
        return Refusal(reason, (whole, *each[:4]))
    entries["scale"] = scale
    return None


def _flags_beside_scores(table: LogTable, columns: Sequence[str]) -> list[str]:
    """Return the columns with scores from 0 to 1, if those of all other columns start at 1."""
    values = {name: {float(value) for value in table.present(name) if NUMERAL.fullmatch(value)} for name in columns}
    flags = [name for name in columns if 0 <= min(values[name]) < 1 and max(values[name]) <= 1 < len(values[name])]
    rest = [values[name] for name in columns if name not in flags]
    return flags if flags and rest and min(map(min, rest)) >= 1 and max(map(max, rest)) > 1 else []


def _refuse_unequal_scales(table: LogTable, columns: Sequence[str]) -> Refusal | None:
    """Ask for one of several columns with very different maxima, and for its scale."""
    options: list[tuple[str, Entries]] = []
    for name in columns:
        about, alone = {"score": name, "attribute": f"={attribute_of(table, name)}"}, _scale(table, [name])
        if isinstance(alone, Refusal):
            options += [(f"only {name}, {when}", {**about, **scale}) for when, scale in alone.options[:2]]
        else:
            table.notes.pop()  # the note on the scale, which applies only if the table is read
            options.append((f"only {name}", {**about, "scale": alone}))
    return Refusal(f"the scores of {', '.join(columns)} end far apart", tuple(options)) if options else None


def other_scale_of_people(table: LogTable, scale: str, people: Sequence[str]) -> Refusal | None:
    """Ask for the scale of human scores if it may differ from the judge's; None otherwise."""
    values = [float(value) for name in people for value in table.present(name) if NUMERAL.fullmatch(value)]
    bottom, _, top = scale.rpartition("-")
    if not values or not NUMERAL.fullmatch(top) or not NUMERAL.fullmatch(bottom):
        return None
    low, high = min(values), max(values)
    smaller = high <= _SMALLER * float(top) and high in {1, 3, *_TOPS} and len(values) >= _MANY
    if float(bottom) <= low and high <= float(top) and not smaller:
        return None
    own = f"{0 if low < 1 else 1}-{max(high, 1):g}"
    options = tuple((f"if theirs is {each}", {"human_scale": f"={each}"}) for each in dict.fromkeys((own, scale)))
    return Refusal(f"people's scores run from {low:g} to {high:g}, and the judge's scale is {scale}", options)


def _by_attribute(table: LogTable, columns: Sequence[str], attribute: str | None) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for name in columns:
        abouts = (
            table.columns[attribute]
            if attribute is not None
            else [attribute_of(table, name)] * len(table.columns[name])
        )
        for about, value in zip(abouts, table.columns[name], strict=True):
            if about is not None and value is not None and NUMERAL.fullmatch(value):
                groups[about].append(float(value))
    return groups


def _scale(table: LogTable, scores: Sequence[str]) -> str | Refusal:
    """Return the usual scale that ends at the largest score, or a refusal if there is none."""
    values = [float(value) for name in scores for value in table.present(name) if NUMERAL.fullmatch(value)]
    low, high = min(values), max(values)
    if low >= 0 and (high in _TOPS or (low < high <= 1)):
        scale = f"{0 if low < 1 else 1}-{max(high, 1):.0f}"
        table.notes.append(
            f"scale {scale}, because the scores range from {low:g} to {high:g} (--map scale==LOW-HIGH if not)"
        )
        return f"={scale}"
    whole = all(value.is_integer() for value in values)
    starts = min((value for value in values if value >= 0), default=0)
    tops = [*([int(high)] if whole and 1 < high <= FEW else []), *(top for top in sorted(_TOPS) if top >= high)]
    ends = list(dict.fromkeys(tops))[:3] or [100]
    start = 0 if starts < 1 or (high > 10 and not whole) else 1
    options = tuple((f"if it ends at {top}", {"scale": f"={start}-{top}"}) for top in ends)
    none = ", if negative numbers are no scores" if low < 0 else ""
    if sum(value < 0 for value in values) > _NEGATIVE * len(values):
        if whole and len(scores) == 1 and -low == high <= _FEW_BELOW:
            steps = {f"{low:.0f}": "1", f"{high:.0f}": f"{2 * high + 1:.0f}"}
            moved = {"score": {"field": scores[0], "values": steps}, "scale": f"=1-{2 * high + 1:.0f}"}
            reason = f"the scores range from {low:g} to {high:g}, and scales start at 0 or 1"
            return Refusal(reason, ((f"if they are steps, of which {low:g} is the lowest", moved),))
        return Refusal(f"the scores range from {low:g} to {high:g}: negative numbers, such as rewards, are on no scale")
    return Refusal(f"the scores range from {low:g} to {high:g}, which fits no common scale{none}", options)


ColumnPairs = dict[named.Tokens, tuple[str, str, int]]
_BASELINES = frozenset(["baseline", "base", "reference", "ref", "control", "opponent", "competitor"])
_ALIKE = frozenset(["model", "text"])  # words that only the name of a baseline's column may have
#: Verdicts on a candidate compared with a baseline, and the column that they name.
OUTCOMES = {"win": "candidate", "wins": "candidate", "won": "candidate", "candidate": "candidate", "lose": "opponent",
            "loses": "opponent", "loss": "opponent", "lost": "opponent", "baseline": "opponent",
            "reference": "opponent", "opponent": "opponent"}  # fmt: skip
_FEWEST = 2  # minimum number of different texts


def named_pair(table: LogTable) -> dict[named.Tokens, tuple[str, str, int]]:
    """Return two text columns named after two systems, such as ``gpt-4 answer``, that a verdict column names."""
    by_noun: dict[str, dict[str, str]] = {}
    for name in table.names:
        words = named.tokens(name)
        if len(words) > 1 and named.is_text(words[-1:]) and not set(words[:-1]) & named.HUMAN:
            head = name[: name.lower().rindex(words[-1].lower())].strip(" _-.")
            by_noun.setdefault(words[-1], {})[head.lower()] = name
    for noun, columns in by_noun.items():
        if len(columns) != 2:
            continue
        for verdict in (name for name in table.names if set(named.tokens(name)) & named.VERDICT):
            values = [value.lower() for value in table.present(verdict)]
            known = sum(value in columns or side_of(value) == "tie" for value in values)
            if values and known >= KNOWN * len(values) and set(values) & set(columns):
                one, two = columns.values()
                return {(noun,): (one, two, named.CHOSEN)}
    return _named_by_verdicts(table)


def _named_by_verdicts(table: LogTable) -> ColumnPairs:
    """Return two columns whose full names are the values of a verdict column."""
    columns = {name.lower(): name for name in table.names if not table.is_numeric(name)}
    places = {frozenset(pair[:2]) for pair in named.find_pairs(table.names).values()}  # their names imply an order
    for verdict in (name for name in table.names if set(named.tokens(name)) & named.VERDICT):
        values = [value.lower() for value in table.present(verdict)]
        called = [columns[value] for value in dict.fromkeys(values) if value in columns and columns[value] != verdict]
        known = sum(value in columns or side_of(value) == "tie" for value in values)
        if (
            len(called) == 2
            and frozenset(called) not in places
            and known >= KNOWN * len(values)
            and all(table.distinct(name) > 1 for name in called)
        ):
            one, two = sorted(called, key=table.names.index)
            return {(): (one, two, named.CHOSEN)}
    return {}


def with_baseline(table: LogTable) -> ColumnPairs:
    """Return a column of texts or systems and its baseline's column, if a verdict column says which of them wins."""
    if not any(names_the_winner(table, name) for name in table.names):
        return {}
    for two in table.names:
        words = set(named.tokens(two))
        if not words & _BASELINES or table.is_numeric(two):
            continue
        for one in table.names:
            own = set(named.tokens(one))
            judged = named.like_answer(one) or named.like_system(one) or bool(named.first_named([one], named.ANSWER))
            if judged and own <= words and words - own <= _BASELINES | _ALIKE and not table.is_numeric(one):
                return {tuple(named.tokens(one)): (one, two, named.CHOSEN)}
    return {}


def names_the_winner(table: LogTable, name: str) -> bool:
    """Return whether nearly all values of a column say how a candidate fared against a baseline, as win and loss do."""
    values = [value.lower() for value in table.present(name)]
    known = sum(value in OUTCOMES or side_of(value) == "tie" for value in values)
    return bool(values) and known >= KNOWN * len(values) and bool(set(values) & set(OUTCOMES))


def winner_and_loser(table: LogTable) -> Refusal | None:
    """Refuse a table whose columns are named after winner and loser, suggesting a mapping; None for other tables."""
    known = {named.tokens(name): name for name in table.names if not table.is_numeric(name)}
    for words, one in known.items():
        two = known.get(tuple({"winner": "loser", "winning": "losing"}.get(word, word) for word in words))
        if two is not None and two != one and "winner" not in table.given:
            entries: Entries = {
                "candidate_id": one,
                "opponent_id": two,
                "winner": "=candidate",
                "order_known": "=false",
            }
            return Refusal(f"{one} and {two} say who won, not who was shown first", (("in unknown order", entries),))
    return None


def of_any_name(table: LogTable, pairs: Mapping[named.Tokens, tuple[str, str, int]]) -> ColumnPairs:
    """Return pairs of text columns with any shared name, such as ``respuesta_a`` and ``respuesta_b``."""
    return {
        words: pair for words, pair in pairs.items()
        if not set(words) & COUNTS and all(_may_be_judged(table, name) for name in pair[:2])
    }  # fmt: skip


def _may_be_judged(table: LogTable, name: str) -> bool:
    texts = [value for value in table.present(name) if side_of(value) is None]
    return not table.is_numeric(name) and len(set(texts)) >= _FEWEST and 2 * len(texts) > len(table.present(name))
