"""Propose a mapping for a table: what is plain from names and values, and questions about what is not.

Nothing is guessed: a role that several columns could have, or none, is a question, and a table is read only when no
question is left.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biaslab.core.output import count
from biaslab.logs.readers.columns import LogColumn
from biaslab.logs.readers.expressions import OPEN

SAMPLED = 2000
"""Records from which roles are proposed."""

#: Entry of a mapping → role, in the order of the card.
ROLES = {
    "context_id": "question", "candidate_id": "first", "text": "text of first", "opponent_id": "second",
    "opponent_text": "text of second", "order_known": "shown", "shown_first": "shown", "swapped": "shown",
    "winner": "verdict", "winner_swapped": "verdict in the other order", "p_first": "probability", "score": "score",
    "reply": "reply", "judge": "judge", "person": "person", "dataset": "data set", "attribute": "criterion",
    "scale": "scale", "template": "prompt", "configuration": "prompt", "replicate": "replicate", "subset": "subset",
    "preference": "people", "human_gap": "people", "human": "people", "ratings": "people", "annotators": "person",
    "human_scale": "scale of people", "ignore": "ignored",
}  # fmt: skip
OF_ONE = {"first": "system", "text of first": "text"}
"""Roles of a single candidate, by those of the first of two."""


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

    def roles(self) -> list[tuple[str, str, str, str, str]]:
        """Return each column's name, kind, values, role and other possible roles."""
        pairs = "opponent_id" in self.entries
        words = ROLES if pairs else {entry: OF_ONE.get(role, role) for entry, role in ROLES.items()}
        of = {name: [] for name in self.columns}  # type: dict[str, list[str]]
        others = {name: [] for name in self.columns}  # type: dict[str, list[str]]
        for entry, expression in self.entries.items():
            for name in columns_in(expression, self.columns):
                of[name].append(words.get(entry, entry))
        for question in self.questions:
            for name in dict.fromkeys(name for option in question.options for name in columns_in(option, self.columns)):
                others[name].append(f"{words.get(question.entry, question.entry)} {OPEN}")
        rows: list[tuple[str, str, str, str, str]] = []
        for name, column in self.columns.items():
            role = ", ".join(of[name]) or (OPEN if others[name] else f"— ({self.set_aside.get(name, 'not used')})")
            values = "nested" if column.nested else " · ".join(_short(value) for value in column.examples) or "empty"
            rows.append((name, column.kind, values, role, ", ".join(others[name])))
        return rows

    def toml(self) -> str:
        """Return the mapping as a TOML file, with `?` for what is open."""
        lines = [
            f'# How to read {self.source}. Replace each ? (by a column, a constant such as "=gpt-4", or the meaning of',
            "# a value), or delete a line that does not apply. Nothing is read while a ? is left.",
        ]
        for entry, expression in self.entries.items():
            lines += ["", f"# {ROLES.get(entry, entry)}", f"{entry} = {toml_value(expression)}"]
        for question in self.questions:
            about = "" if question.required else " (or delete this line)"
            lines += ["", f"# {ROLES.get(question.entry, question.entry)}: {question.why}{about}"]
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
        table = [
            "  ".join(cell[:40].ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        asked = [f"{question.entry} = {OPEN}  {question.why}" for question in self.questions]
        state = f"{count(len(asked), 'open question')}:" if asked else "nothing is open"
        return "\n".join([f"{self.source}: proposed reading", *table, state, *(f"  {line}" for line in asked)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("column", "kind", "values", "role", "or"))
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self.roles())
        asked = "".join(f"<li><code>{q.entry} = ?</code> {html.escape(q.why)}</li>" for q in self.questions)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ul>{asked}</ul>"


def columns_in(expression: Any, known: Mapping[str, Any]) -> list[str]:
    """Return the columns that an expression of a mapping names."""
    if isinstance(expression, str):
        field_ = expression.partition("|")[0].partition("~")[0].strip()
        parts = [part.strip() for part in field_.replace(" > ", ",").split(",")]
        return [field_] if field_ in known else [part for part in parts if part in known]
    if isinstance(expression, list | tuple):
        return [name for part in expression for name in columns_in(part, known)]
    if isinstance(expression, Mapping):
        of = expression.get("fields", expression.get("field"))
        return columns_in(of if of is not None else list(expression.values()), known)
    return []


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
        return (
            "{ "
            + ", ".join(f"{key if bare else _quoted(key)} = {toml_value(each)}" for key, each in value.items())
            + " }"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in text) + '"'


def _short(value: str) -> str:
    line = " ".join(value.split())
    return line if len(line) <= 24 else f"{line[:23]}…"
