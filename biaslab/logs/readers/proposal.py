"""Propose a mapping for a table: what is plain from names and values, and questions about what is not.

Nothing is guessed: a role that several columns could have, or none, is a question, and a table is read only when no
question is left.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, get_args

from biaslab.core.files import declared
from biaslab.core.output import count
from biaslab.logs.readers import columns as named
from biaslab.logs.readers.cells import NUMERAL
from biaslab.logs.readers.columns import ColumnType, LogColumn, SidePair
from biaslab.logs.readers.mapping import OPEN, map_line, paths_of

FRAME = "a table"
"""Name of a data frame in messages."""

SAMPLED = 2000
"""Records from which roles are proposed."""

#: The roles that entries of a mapping fill, in the order of the card.
ROLES: dict[str, dict[str, Any]] = declared("biaslab.logs.readers", "roles.toml")


@dataclass(frozen=True)
class OpenQuestion:
    """An entry of a mapping that only the user can fill.

    Parameters
    ----------
    entry : str
        The entry.
    why : str
        Why it is open.
    options : tuple
        Expressions that could fill it.
    required : bool
        Whether a log cannot be read without it; deleting the line answers the others.
    """

    entry: str
    why: str
    options: tuple[Any, ...] = ()
    required: bool = True


@dataclass(frozen=True, repr=False)
class Proposal:
    """A proposed mapping of a table: settled entries, open questions, and columns set aside.

    Parameters
    ----------
    source : str
        Name of the file or table.
    columns : mapping of str to LogColumn
        The columns of the flattened table.
    entries : mapping
        Entry → expression, in the mapping language.
    questions : tuple of OpenQuestion
        What is open.
    set_aside : mapping of str to str
        Column without a role → the reason.

    Examples
    --------
    >>> import biaslab as bl, pandas as pd
    >>> table = pd.DataFrame({"q": [*"abcdef"], "answer": [*"uvwxyz"], "score": [1, 2, 3, 4, 4, 2]})
    >>> proposal = bl.logs.propose(table)
    >>> proposal.entries["score"], [question.entry for question in proposal.questions]
    ('score', ['scale'])
    """

    source: str
    columns: Mapping[str, LogColumn]
    entries: Mapping[str, Any]
    questions: tuple[OpenQuestion, ...]
    set_aside: Mapping[str, str]

    @property
    def is_complete(self) -> bool:
        """Whether no question is open."""
        return not self.questions

    @property
    def single_answer(self) -> dict[str, Any] | None:
        """The answer if a single required question has a single option; None otherwise."""
        if len(self.questions) != 1 or len(self.questions[0].options) != 1 or not self.questions[0].required:
            return None
        option = self.questions[0].options[0]
        is_line = isinstance(option, str) or "field" in option or "fields" in option
        return {self.questions[0].entry: option} if is_line else None

    @property
    def _words(self) -> dict[str, str]:
        """The name of the role that each entry fills."""
        if "opponent_id" in self.entries:
            return {entry: role["role"] for entry, role in ROLES.items()}
        candidate = candidate_word(columns_in(self.entries.get("candidate_id"), self.columns))
        return {entry: role.get("of_one", role["role"]) for entry, role in ROLES.items()} | {"candidate_id": candidate}

    def roles(self) -> list[tuple[str, str, str, str, str]]:
        """Return each column's name, kind, values, role and other possible roles."""
        words = self._words
        settled = [(words.get(entry, entry), columns_in(each, self.columns)) for entry, each in self.entries.items()]
        asked = [(f"{words.get(q.entry, q.entry)} {OPEN}", columns_in(q.options, self.columns)) for q in self.questions]
        rows: list[tuple[str, str, str, str, str]] = []
        for name, column in self.columns.items():
            role = ", ".join(word for word, names in settled if name in names)
            others = ", ".join(word for word, names in asked if name in names)
            role = role or (OPEN if others else f"— ({self.set_aside.get(name, 'not used')})")
            values = "nested" if column.nested else " · ".join(_short(value) for value in column.examples) or "empty"
            rows.append((name, column.kind, values, role, others))
        return rows

    def toml(self) -> str:
        """Return the mapping as a TOML file, with `?` for what is open."""
        lines = [
            f'# How to read {self.source}. Replace each ? (by a column, a constant such as "=gpt-4", or the meaning of',
            "# a value), or delete a line that does not apply. Nothing is read while a ? is left.",
        ]
        for entry, expression in self.entries.items():
            lines += ["", f"# {self._words.get(entry, entry)}", f"{entry} = {toml_value(expression)}"]
        for question in self.questions:
            about = "" if question.required else " (or delete this line)"
            lines += ["", f"# {self._words.get(question.entry, question.entry)}: {question.why}{about}"]
            lines += [f"#   {question.entry} = {toml_value(option)}" for option in question.options]
            lines.append(f'{question.entry} = "{OPEN}"')
        if self.set_aside:
            lines += ["", "# Columns without a role:"]
            lines += [f"#   {name}: {why}" for name, why in self.set_aside.items()]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        """Return the proposal as a table and questions, in plain text."""
        rows = [("column", "kind", "values", "role", "or"), *self.roles()]
        widths = [min(40, max(len(row[at]) for row in rows)) for at in range(5)]
        padded = ([cell[:40].ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
        table = ["  ".join(cells).rstrip() for cells in padded]
        asked = [f"{question.entry} = {OPEN}  {question.why}" for question in self.questions]
        state = f"{count(len(asked), 'open question')}:" if asked else "nothing is open"
        return "\n".join([f"{self.source}: proposed reading", *table, state, *(f"  {line}" for line in asked)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("column", "kind", "values", "role", "or"))
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self.roles())
        asked = "".join(f"<li><code>{q.entry} = ?</code> {html.escape(q.why)}</li>" for q in self.questions)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ul>{asked}</ul>"


def open_questions(source: str, proposal: Proposal) -> str:
    """Return what is open in the reading of a table, and how to answer it."""
    asked = [f"{question.entry} = ?  {question.why}" for question in proposal.questions]
    answer = proposal.single_answer
    single = f"if so: {map_line(answer)}; else " if answer is not None else ""
    write = f"`biaslab map {quote(source)} --write map.toml`, fill in each ?, and add --mapping map.toml"
    write = f"write them down with {write}"
    if source == FRAME:
        write = "save `bl.logs.propose(table).toml()`, fill in each ?, and pass the file as mapping"
    lines = [
        f"{source} is in no known format, and its columns leave {count(len(asked), 'question')} open:",
        *asked,
        f"{single}{write}",
    ]
    return "\n  ".join("".join(sign if sign.isprintable() else "�" for sign in line) for line in lines)


def candidate_word(columns: Iterable[str]) -> str:
    """Return what identifies a single candidate: its system, or the answer itself, by the names of its columns.

    Examples
    --------
    >>> candidate_word(["model"]), candidate_word(["case_id"]), candidate_word(["response"])
    ('system', 'answer', 'answer')
    """
    roles = {role for name in columns for role in named.roles_of(named.tokens(name))}
    return "answer" if roles & {"question", "text"} and "system" not in roles else "system"


def columns_in(expression: Any, known: Mapping[str, Any]) -> list[str]:
    """Return the columns that an expression of a mapping names."""
    return [path for path in paths_of(expression, known) if path in known]


def toml_value(value: Any) -> str:
    """Return a value of a mapping as TOML.

    Examples
    --------
    >>> toml_value({"field": "winner", "values": {"A": "first"}}), toml_value(["x", "y"])
    ('{ field = "winner", values = { "A" = "first" } }', '["x", "y"]')
    """
    if isinstance(value, Mapping) and set(value) == {"fields"}:
        return toml_value(value["fields"])
    if isinstance(value, Mapping):
        bare = all(str(key) in ("field", "fields", "values", "pattern", "constant") for key in value)
        entries = (f"{key if bare else _quoted(key)} = {toml_value(each)}" for key, each in value.items())
        return f"{{ {', '.join(entries)} }}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in text) + '"'


def _short(value: str) -> str:
    line = " ".join(value.split())
    return line if len(line) <= 24 else f"{line[:23]}…"


_FEW = 6
#: Columns of trials that a table may have under their own names.
_OWN_NAMES = ("scale", "human_scale", "human_gap", "order_known", "judge_system", "configuration", "edit", "edited")
_NO_VERDICT = ("covariate", "ignore", "shown", "explanation", "derived")


Options = Iterable[Any] | None
_QUESTIONS: dict[str, dict[str, str]] = declared("biaslab.logs.readers", "questions.toml")


@dataclass
class RoleDraft:
    """A proposal in the making."""

    columns: dict[str, LogColumn]
    given: dict[str, Any]
    entries: dict[str, Any] = field(default_factory=dict)
    questions: list[OpenQuestion] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with what the user gave, and with columns that are named like those of trials."""
        self.entries |= self.given
        for name in _OWN_NAMES:
            if name in self.columns and not self.columns[name].is_empty:
                self.settle(name, name)
        for name in self.given.get("ignore", ()):
            self.aside[name] = "ignored by the mapping"

    @property
    def used(self) -> set[str]:
        """The columns that have a role."""
        named_in = (entry for name, entry in self.entries.items() if name != "ignore")
        return {name for entry in named_in for name in columns_in(entry, self.columns)} | set(self.aside)

    @property
    def unused(self) -> list[LogColumn]:
        """The columns without a role."""
        used = self.used
        return [column for name, column in self.columns.items() if name not in used]

    @property
    def asked(self) -> set[str]:
        """The columns that questions offer."""
        options = [option for question in self.questions for option in question.options]
        return set(columns_in(options, self.columns))

    def free(
        self, *roles: str, first: bool = True, kinds: Sequence[str] = get_args(ColumnType), varied: bool = False
    ) -> list[LogColumn]:
        """Return the unused columns of some kinds whose name suggests one of some roles, as its first role or as any.

        The role of a name that suggests none is empty. With ``varied``, columns of a single value are left out.
        """
        named_so = [c for c in self.unused if set(roles) & ({c.role} if first else {*c.roles})]
        return [c for c in named_so if c.kind in kinds and not (varied and c.is_constant)]

    def settle(self, entry: str, expression: Any) -> None:
        """Fill an entry, unless the user has."""
        self.entries.setdefault(entry, expression)

    def ask(
        self, entry: str, question: str, columns: Sequence[LogColumn] = (), options: Options = None, **words: str
    ) -> None:
        """Ask a question of the table about an entry, unless the user has filled it.

        Parameters
        ----------
        entry : str
            The entry.
        question : str
            Name in ``questions.toml``.
        columns : sequence of LogColumn
            The columns in question.
        options : iterable, optional
            Expressions that could fill the entry; default: the names of the columns.
        **words : str
            What else the question names.
        """
        if self.is_open(entry):
            required = question in _QUESTIONS["required"]
            why = _QUESTIONS["required" if required else "optional"][question].format(columns=listed(columns), **words)
            shown = [column.name for column in columns] if options is None else list(options)
            self.questions.append(OpenQuestion(entry, why, tuple(shown[:_FEW]), required))

    def is_open(self, entry: str) -> bool:
        """Return whether an entry is neither filled nor asked about."""
        return entry not in self.entries and all(question.entry != entry for question in self.questions)

    def _scores(self) -> list[LogColumn]:
        """Return the judge's columns of scores or grades."""
        return [column for column in self.unused if not column.has("people") and self._is_score(column)]

    def _is_score(self, column: LogColumn) -> bool:
        if _names_person(column) or column.has("winners") or column.words[-1:] == ("id",):
            return False
        others = [role for role in column.roles if role not in ("judge", "people", "person")]
        if "judge" in column.roles or (column.kind != "name" and {"score", "verdict"} & set(others)):
            others = [role for role in others if role != "system"]  # "is_correct_llm" names no system
        role = next(iter(others), "verdict" if is_label(column) else "")
        if column.kind == "number":
            if role in ("score", "verdict", "reply"):
                return True
            rest = [other for other in self.columns.values() if other is not column]
            explained = any(other.name.startswith(column.name) and "explanation" in other.roles for other in rest)
            alike = [other for other in rest if column.has_values_of(other)]
            labels = [c for c in alike if is_label(c) or {"people", "score", "verdict"} & set(c.roles)]
            of_judge = column.role == "judge" and bool(labels)
            return role == "" and (named.is_model(column.name) or explained or column.has("people") or of_judge)
        of_model = column.role == "judge" or named.is_model(column.name)
        whose = role == "" and (column.has("people") or of_model)
        return (role in ("score", "verdict", "reply") or whose) and self._is_graded(column)

    def _is_graded(self, column: LogColumn) -> bool:
        """Return whether values are grades; those of a judge who gives only one may be known from people's labels."""
        if named.grade_values(column) is not None:
            return True
        labels = [other for other in self.columns.values() if other.has("people")] if column.is_constant else []
        return any(named.grade_values(column, other) is not None for other in labels)

    def _is_verdict(self, column: LogColumn, pairs: Sequence[SidePair]) -> bool:
        if column.kind in ("text", "object", "empty"):
            return False
        if column.role in _NO_VERDICT and not ("verdict" in column.roles and column.role == "shown"):
            return False
        named_so = "verdict" in column.roles or (not column.roles and column.kind != "number")
        if named_so and any(self._names_candidates(column, pair) for pair in pairs):
            return True
        of_judge = named.is_model(column.name) or column.role == "judge"
        parsed = bool(column.words) and set(column.words) <= named.alias_words("parsed")
        if "verdict" not in column.roles and not (column.kind == "word" and (of_judge or parsed)):
            return False
        sides: Sequence[SidePair | None] = pairs or [None]
        return any(named.verdict_readings(column, pair) for pair in sides) or bool(shares(column))

    def _verdicts(self, pairs: Sequence[SidePair]) -> list[LogColumn]:
        """Return the judge's columns of verdicts on two candidates."""
        taken = {name for pair in pairs for name in pair.names}
        free = [c for c in self.unused if not (c.has("people") or {"derived", "explanation"} & set(c.roles))]
        return [column for column in free if column.name not in taken and self._is_verdict(column, pairs)]

    def _names_candidates(self, column: LogColumn, pair: SidePair | None, *, constant: bool = False) -> bool:
        """Return whether the values of a column are names of the row's candidates, or words for a tie."""
        rows = zip(column.values, pair.first.values, pair.second.values, strict=True) if pair is not None else ()
        known = [(value, one, two) for value, one, two in rows if value and value in column.known]
        fits = [value in (one, two) for value, one, two in known if named.side_of(value) != "tie"]
        return bool(fits) and sum(fits) >= 0.9 * len(fits) and (constant or not column.is_constant)

    def _prose(self) -> list[LogColumn]:
        """Return the unused columns of texts in words that no name gives to people."""
        texts = [column for column in self.unused if column.is_prose and column.kind not in ("object", "empty")]
        return [column for column in texts if not column.has("people")]

    def _replies(self) -> list[LogColumn]:
        """Return the columns with texts of the judge."""
        texts = [column for column in self._prose() if column.role != "explanation"]
        said = [c for c in texts if c.has("said") and {"text", "reply"} & set(c.roles)]
        said += [column for column in texts if {"judge", "raw"} <= set(column.words)]
        return [column for column in texts if column.role in ("reply", "verdict") or column in said]

    def _without_repeats(self, found: Sequence[LogColumn]) -> list[LogColumn]:
        """Drop columns that repeat another one, and set them aside; a judge may agree with all labels."""
        kept: list[LogColumn] = []
        for column in sorted(found, key=lambda column: len(column.words)):
            twins = [o for o in kept if o.values == column.values and set(o.words) < set(column.words)]
            twins = [o for o in twins if not (is_label(o) and is_judged(column))]
            twins = [o for o in twins if not any(map(str.isdecimal, {*column.words} - {*o.words}))]  # a repetition
            if twins:
                self.aside[column.name] = f"repeats {twins[0].name}"
            else:
                kept.append(column)
        return [column for column in found if column in kept]

    def _differ_in_name(self, several: Sequence[LogColumn]) -> bool:
        """Return whether columns have the same words but for the name of a model, or for a criterion."""
        shared = set.intersection(*(set(column.words) for column in several))
        rest = [set(column.words) - shared for column in several]
        by_model = all(named.is_model(column.name) for column in several)
        return all(rest) and (by_model or (bool(shared) and all(column.criteria - shared for column in several)))

    def _settle_several(self, entry: str, several: Sequence[LogColumn], options: Sequence[Any]) -> None:
        """Fill an outcome with several columns, each of a judge or a criterion."""
        tables = [option["values"] for option in options if isinstance(option, Mapping)]
        self.settle(entry, fields_of(several, {value: side for table in tables for value, side in table.items()}))
        by_model = all(named.is_model(column.name) for column in several)
        shared = set.intersection(*(set(column.words) for column in several))
        criteria = {frozenset(column.criteria) for column in several}
        if by_model and all(criteria) and len(criteria) > 1:
            self.settle("attribute", {c.name: f"={'_'.join(sorted(c.criteria))}" for c in several})
            self.settle("judge", {c.name: f"={without(c, shared | c.criteria)}" for c in several})
        elif by_model and self.is_open("judge"):
            judges = {column.name: f"={_model_of(column, shared)}" for column in several}
            if self.free("system", "text") or entry == "winner":
                self.settle("judge", judges)
            else:
                self.ask("judge", "of_several_judges", several, [judges])
        elif self.is_open("attribute"):
            self.settle("attribute", {column.name: f"={without(column, shared)}" for column in several})

    @property
    def _is_pair(self) -> bool:
        return not self.is_open("opponent_id")

    def _is_judge(self, column: LogColumn) -> bool:
        """Return whether a column says who judged: a name, under a word for judges."""
        if "judge" not in column.roles or column.has("people") or column.kind not in ("word", "name", "id", "number"):
            return False
        return column.role in ("judge", "system", "verdict") and not self._is_score(column)


def is_judged(column: LogColumn) -> bool:
    """Return whether a column is named as the verdict of a model."""
    return bool(set(column.words) & set(named.aliases()["role"]["judge"]["verdicts"])) or named.is_model(column.name)


def is_label(column: LogColumn) -> bool:
    """Return whether a column is named as a label that somebody gave."""
    return bool(set(named.tokens(named.last_part(column.name))) & set(named.aliases()["role"]["people"]["labels"]))


def _names_person(column: LogColumn) -> bool:
    """Return whether a column says which person judged, or how many did."""
    allowed = named.person_words()
    words = {word if word in allowed else word.removesuffix("s") for word in column.words}
    if column.kind in ("word", "flag") and named.grade_values(column) is not None:
        return False  # grades, by whom the name says
    return bool(words & named.alias_words("person")) and words <= allowed


def shares(column: LogColumn) -> list[dict[str, Any]]:
    """Return the possible meanings of a column of shares between two candidates: which end is the first."""
    values = (value.strip().removesuffix("%") for value in column.known)
    numbers = [float(value) for value in values if NUMERAL.fullmatch(value)]
    if len(numbers) < 0.9 * len(column.known) or not any(number % 1 for number in numbers):
        return []
    usual = ((0, 1), (1, 2), (-1, 1), (0, 100))
    ranges = [ends for ends in usual if ends[0] <= min(numbers) <= max(numbers) <= ends[1]]
    order = ("1", "0") if ranges[:1] == [(1, 2)] else ("0", "1")
    meanings = [dict(zip(map(str, ends), each, strict=True)) for ends in ranges[:1] for each in (order, order[::-1])]
    return [{"field": column.name, "values": values} for values in meanings]


def fields_of(several: Sequence[LogColumn], meanings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the expression of several columns, with the meaning of their values."""
    fields: dict[str, Any] = {"fields": [column.name for column in several]}
    return fields | ({"values": dict(meanings)} if meanings else {})


def listed(several: Sequence[LogColumn]) -> str:
    """Return the names of columns as a list in words."""
    names = [column.name for column in several]
    shown = names if len(names) <= _FEW else [*names[:_FEW], "…"]
    return ", ".join(shown[:-1]) + (" and " if len(shown) > 1 else "") + "".join(shown[-1:])


def without(column: LogColumn, shared: set[str]) -> str:
    """Return the name of a column without the words that it shares with others, or that say that it is a score."""
    generic = named.alias_words("score") | named.alias_words("verdict") | {"judge", "llm", "automatic", "auto", "by"}
    last = named.last_part(column.name)
    name = last if named.tokens(last) else column.name
    parts = [part for part in re.split("[ _/]", name) if part]
    kept = [part for part in parts if not set(named.tokens(part)) <= generic | shared]
    return last if kept == parts else "_".join(kept) or last


def _model_of(column: LogColumn, shared: set[str]) -> str:
    """Return the model in the name of a column."""
    own = next((part for part in reversed(named.parts_of(column.name)) if named.is_model(part)), column.name)
    short = without(LogColumn(own, ()), shared)
    return short if named.is_model(short) else without(LogColumn(own, ()), set())
