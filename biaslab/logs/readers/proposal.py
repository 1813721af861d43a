"""Propose a mapping for a table: what is plain from names and values, and questions about what is not.

Nothing is guessed: a role that several columns could have, or none, is a question, and a table is read only when no
question is left.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from biaslab.core.output import count
from biaslab.logs.readers import columns as named
from biaslab.logs.readers.columns import LogColumn, SidePair
from biaslab.logs.readers.expressions import OPEN
from biaslab.logs.readers.rows import Rows

SAMPLED = 2000
"""Records from which roles are proposed."""

#: Entry of a mapping → the role of READING in words.
ROLES = {
    "context_id": "question", "candidate_id": "system", "opponent_id": "second system", "text": "text",
    "opponent_text": "second text", "winner": "verdict", "winner_swapped": "verdict in the other order",
    "p_first": "probability of the first", "score": "score", "reply": "reply of the judge", "scale": "scale",
    "judge": "judge", "person": "person", "attribute": "criterion", "replicate": "replicate", "template": "prompt",
    "configuration": "prompt", "dataset": "data set", "subset": "subset", "ratings": "people's scores",
    "human_scale": "people's scale", "preference": "people's verdict", "swapped": "order shown",
    "shown_first": "shown first", "order_known": "whether the order is known", "ignore": "ignored",
}  # fmt: skip
_SCALES = ((0, 1), (1, 5), (1, 10), (0, 10), (1, 7), (0, 100), (1, 100))
_MOST_JUDGES, _FEWEST_OF_A_JUDGE = 20, 5
_FEW = 6
#: Columns of trials that a table may have under their own names.
_OWN_NAMES = ("scale", "human_scale", "human_gap", "order_known", "judge_system", "configuration", "edit", "edited")
_OUT_OF = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/|out of)\s*(\d+)\s*")
_CONVERSATIONS = {"messages", "conversation", "conversations", "dialogue", "dialog", "chat", "output", "response"}
_WINNERS = {"winner", "chosen", "preferred", "preference", "wins", "beats", "best"}  # of a comparison, never a grade
_DOCUMENTS = {"doc", "docid", "document", "passage", "chunk", "point", "docno"}  # judged themselves, in retrieval
_MOST_STEPS = 11  # different values of a column that may be a score without being named so
_ASKED = {
    "question",
    "questions",
    "q",
    "qid",
    "prompt",
    "query",
    "instruction",
    "input",
    "item",
    "conversation",
    "dialog",
    "dialogue",
}
_GENERAL = {"score", "rating", "grade", "overall", "final", "total", "quality"}
_READ_FROM_REPLIES = {"parsed", "extracted", "final"}
_NO_VERDICT = (("covariate",), ("ignore",), ("shown",), ("explanation",), ("derived",))
_UNUSED = {"explanation": "accompanies a verdict", "derived": "derived from other columns", "ignore": "not about verdicts",
           "people": "people's, or a reference", "covariate": "a covariate"}  # fmt: skip


@dataclass(frozen=True)
class Question:
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
    questions : tuple of Question
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
    questions: tuple[Question, ...]
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
        words = ROLES | (
            {"candidate_id": "first", "opponent_id": "second", "text": "first text"}
            if "opponent_id" in self.entries
            else {}
        )
        of = {name: [] for name in self.columns}  # type: dict[str, list[str]]
        others = {name: [] for name in self.columns}  # type: dict[str, list[str]]
        for entry, expression in self.entries.items():
            for name in columns_in(expression, self.columns):
                of[name].append(words.get(entry, entry))
        for question in self.questions:
            for name in dict.fromkeys(name for option in question.options for name in columns_in(option, self.columns)):
                others[name].append(f"{words.get(question.entry, question.entry)} {OPEN}")
        rows = []
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


def propose_rows(rows: Rows, given: Mapping[str, Any], source: str) -> Proposal:
    """Propose a mapping of flat rows; entries that the user gave stand.

    Parameters
    ----------
    rows : Rows
        The first rows, flat.
    given : mapping
        The user's entries.
    source : str
        Name of the file.
    """
    draft = _Draft(named.columns_of_rows(rows, SAMPLED), dict(given))
    verdicts = draft.pair_verdicts()
    if verdicts is not None:
        draft.fill_pairs(*verdicts)
    else:
        draft.fill_scores()
    draft.fill_common()
    draft.ask_about_others()
    return Proposal(source, draft.columns, draft.entries, tuple(draft.questions), draft.reasons())


@dataclass
class _Draft:
    """A proposal in the making."""

    columns: dict[str, LogColumn]
    given: dict[str, Any]
    entries: dict[str, Any] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with what the user gave, without columns that hold nothing or that repeat another."""
        self.entries |= self.given
        for name in _OWN_NAMES:
            if name in self.columns and not self.columns[name].is_empty:
                self.settle(name, name)
        for name in self.given.get("ignore", ()):
            self.aside[name] = "ignored by the mapping"

    # -- what is free ------------------------------------------------------------------------------------------------
    @property
    def used(self) -> set[str]:
        """The columns that have a role."""
        return {name for entry in self.entries.values() for name in columns_in(entry, self.columns)} | set(self.aside)

    def free(self, *roles: str, first: bool = True) -> list[LogColumn]:
        """Return the unused columns whose name suggests one of some roles, as its first role or as any."""
        used = self.used
        return [
            column for name, column in self.columns.items()
            if name not in used and set(column.roles[:1] if first else column.roles) & set(roles)
        ]  # fmt: skip

    def settle(self, entry: str, expression: Any) -> None:
        """Fill an entry, unless the user has."""
        self.entries.setdefault(entry, expression)

    def ask(self, entry: str, why: str, *options: Any, required: bool = True) -> None:
        """Ask about an entry, unless the user has filled it."""
        if entry not in self.entries and all(question.entry != entry for question in self.questions):
            self.questions.append(Question(entry, why, tuple(options[:_FEW]), required))

    def is_open(self, entry: str) -> bool:
        """Return whether an entry is neither filled nor asked about."""
        return entry not in self.entries and all(question.entry != entry for question in self.questions)

    # -- pairs -------------------------------------------------------------------------------------------------------
    def pair_verdicts(self) -> tuple[list[SidePair], list[LogColumn], tuple[str, str] | None] | None:
        """Return the columns of candidates and those of verdicts on two candidates; None if the log has no pairs."""
        pairs = self._candidates()
        words = [c for c in self.columns.values() if c.kind not in ("text", "object", "empty") and not c.has("people")]
        both = named.both_orders(column.name for column in words)
        if {"opponent_id", "winner", "p_first"} & set(self.given):
            return pairs, self._verdicts(pairs), both if "winner" not in self.given else None
        if {"score", "scale"} & set(self.given):
            return None
        verdicts = self._verdicts(pairs)
        if pairs and self._winning_flags() is not None:
            return pairs, [], None
        if both is not None and (pairs or self._is_verdict(self.columns[both[0]], pairs)):
            return pairs, [self.columns[both[0]]], both
        if verdicts and (pairs or any(self._names_sides(column) for column in verdicts)):
            return pairs, verdicts, None
        replies, compared = self._replies(), self._side_scores()
        scored = [column for column in self._scores() if compared is None or column.name not in compared[:2]]
        if pairs and (compared is not None or (replies and not scored) or self._probabilities()):
            return pairs, [], None
        if pairs and len(scored) == 1 and scored[0].kind == "number" and not self.free("system"):
            return pairs, scored, None  # degrees of preference
        unnamed = any(
            named.verdict_meanings(c, None) for c in self.columns.values() if c.kind == "word" and not c.roles
        )
        return (pairs, [], None) if pairs and unnamed and not scored else None

    def _candidates(self) -> list[SidePair]:
        """Return the pairs of columns that hold two candidates: systems before texts."""
        pairs = []
        for pair in named.side_pairs(self.columns):
            one, two = self.columns[pair.first], self.columns[pair.second]
            if one.is_empty or two.is_empty or one.has("people"):
                continue
            if "verdict" in pair.roles and set(one.counts) <= {"0", "1"}:
                continue
            speaks = {"conversation", "conv", "dialogue", "dialog", "messages", "chat", "transcript", "story"}
            role = (pair.roles[:1] or ("",))[0]
            alike = one.kind in ("word", "name") and named.shared_values(self.columns, *pair[:2]) and not pair.roles
            unnamed = not pair.stem and one.kind in ("word", "name", "id", "text") and not self._says_side(one)
            if role in ("system", "text") or unnamed or alike or set(pair.stem) & speaks:
                pairs.append(pair)
        return sorted(pairs, key=lambda pair: (self._is_text(pair), (pair.roles[:1] or ("system",))[0] != "system"))

    def _says_side(self, column: LogColumn) -> bool:
        return named.verdict_meanings(column, None) is not None

    def _winning_flags(self) -> SidePair | None:
        """Return the pair of columns that flag which of two candidates won: 1 for one, 0 for the other or both."""
        for pair in named.side_pairs(self.columns):
            one, two = self.columns[pair.first], self.columns[pair.second]
            rows = zip(one.values, two.values, strict=True)
            if "verdict" in pair.roles and {*one.counts, *two.counts} == {"0", "1"} and ("1", "1") not in rows:
                return None if {pair.first, pair.second} & self.used or one.has("people") else pair
        return None

    def _is_text(self, pair: SidePair) -> bool:
        return pair.roles[:1] == ("text",) or self.columns[pair.first].kind in ("text", "object")

    def _verdicts(self, pairs: Sequence[SidePair]) -> list[LogColumn]:
        """Return the judge's columns of verdicts on two candidates."""
        taken = {name for pair in pairs for name in pair[:2]} | self.used
        return [
            column for name, column in self.columns.items()
            if name not in taken and not column.has("people") and "derived" not in column.roles
            and "explanation" not in column.roles and self._is_verdict(column, pairs)
        ]  # fmt: skip

    def _is_verdict(self, column: LogColumn, pairs: Sequence[SidePair]) -> bool:
        if column.kind in ("text", "object", "empty"):
            return False
        if column.roles[:1] in _NO_VERDICT and not ("verdict" in column.roles and column.roles[0] == "shown"):
            return False
        named_so = "verdict" in column.roles or (not column.roles and column.kind != "number")
        if named_so and any(self._names_candidates(column, pair) for pair in pairs):
            return True
        by_name = "verdict" in column.roles or (
            (named.is_model(column.name) or column.roles[:1] == ("judge",)) and column.kind == "word"
        )
        by_name = by_name or (bool(column.words) and set(column.words) <= _READ_FROM_REPLIES and column.kind == "word")
        if not by_name:
            return False
        return any(named.verdict_readings(column, pair) for pair in (pairs or [None])) or bool(_shares(column))

    def _names_sides(self, column: LogColumn) -> bool:
        """Return whether the words of a column name both sides, so that it is a verdict even without candidates."""
        meanings = named.verdict_meanings(column, None) or {}
        named_so = column.roles[:1] == ("verdict",) or named.is_model(column.name)
        return {"first", "second"} <= set(meanings.values()) and column.kind != "number" and named_so

    def _names_candidates(self, column: LogColumn, pair: SidePair, *, constant: bool = False) -> bool:
        """Return whether the values of a column are names of the row's candidates, or words for a tie."""
        rows = zip(column.values, self.columns[pair.first].values, self.columns[pair.second].values, strict=True)
        known = [(value, one, two) for value, one, two in rows if value and value in column.known]
        fits = [value in (one, two) for value, one, two in known if named.side_of(value) != "tie"]
        return bool(fits) and sum(fits) >= 0.9 * len(fits) and (constant or not column.is_constant)

    def _side_scores(self) -> SidePair | None:
        """Return the pair of columns of scores of two candidates."""
        for pair in named.side_pairs(self.columns):
            compares = pair.roles[:1] == ("score",) or "rank" in pair.stem
            if compares and self.columns[pair.first].kind == "number" and pair.first not in self.used:
                return pair
        return None

    def _probabilities(self) -> Any:
        """Return the expression of the probability that the candidate shown first wins, or None."""
        for column in self.free("probability", first=False):
            if column.kind == "number" and 0 <= min(column.numbers) <= max(column.numbers) <= 1:
                places = {
                    place for one, two in named.sides() for place, word in enumerate((one, two)) if word in column.words
                }
                if len(places) == 1:
                    return column.name if places == {0} else {"field": column.name, "values": {"0": "1", "1": "0"}}
        return None

    def _replies(self) -> list[LogColumn]:
        """Return the columns with texts of the judge."""
        texts = [
            column
            for name, column in self.columns.items()
            if column.kind in ("text", "id", "name", "word") and name not in self.used and column.is_prose
        ]
        return [
            column for column in texts if not column.has("people") and column.roles[:1] != ("explanation",)
            and (column.roles[:1] in (("reply",), ("verdict",))
                 or (set(column.words) & {"judge", "evaluator", "grader", "raw", "verdict"} and {"text", "reply"} & set(column.roles))
                 or ("judge" in column.words and "raw" in column.words))
        ]  # fmt: skip

    def fill_pairs(
        self, pairs: Sequence[SidePair], verdicts: Sequence[LogColumn], both: tuple[str, str] | None
    ) -> None:
        """Fill the entries of a log of pairs."""
        pair = self._choose_candidates(pairs, verdicts)
        if both is not None:
            self._fill_both_orders(pair, both)
        elif self.is_open("winner") and not {"p_first", "reply"} & set(self.given):
            self._fill_verdict(pair, verdicts)
        if both is None:
            self._fill_order(pair)
        self._ask_about_third(pair)
        for column in [
            column for column in self.free("system") if not column.is_constant and column.kind in ("word", "name")
        ]:
            if self.is_open("judge") and not any(map(self._is_judge, self.columns.values())):
                self.ask("judge", f"is {column.name} the judge?", column.name, required=False)
        labels = [
            column for column in self.free("people", first=False) if column.kind not in ("text", "object", "empty")
        ]
        labels = [c for c in labels if self._is_label(c, pair)]
        if labels and self.is_open("preference"):
            options = [self._meaning(column, pair) for column in labels]
            plain = all(not isinstance(option, Mapping) for option in options)
            combined = len(verdicts) > 1 and all(
                {"majority"} == set(c.words) & named.alias_words("people") for c in labels
            )
            if combined:
                self.ask("preference", f"is {_listed(labels)} people's, or of the judges?", *options, required=False)
            elif len(labels) == 1 or plain:
                self.settle("preference", options[0] if len(labels) == 1 else [column.name for column in labels])
            else:
                self.ask("preference", "which column holds people's verdicts?", *options, required=False)

    def _ask_about_third(self, pair: SidePair | None) -> None:
        others = {"a": ("c",), "0": ("2",), "1": ("3", "0"), "first": ("third",)}
        names = {named.tokens(name): name for name in self.columns}
        for third in others.get(pair.side_words[0], ()) if pair is not None else ():
            own = tuple(third if word == pair.side_words[0] else word for word in named.tokens(pair.first))
            if own in names:
                self.ask("opponent", f"{names[own]} is a third candidate: split each row into one row per pair")

    def _is_label(self, column: LogColumn, pair: SidePair | None) -> bool:
        if pair is not None and self._names_candidates(column, pair):
            return True
        return named.verdict_meanings(column, pair) is not None and "derived" not in column.roles

    def _choose_candidates(self, pairs: Sequence[SidePair], verdicts: Sequence[LogColumn]) -> SidePair | None:
        systems = [pair for pair in pairs if not self._is_text(pair)]
        texts = [pair for pair in pairs if self._is_text(pair)]
        words = {word for column in verdicts for value in column.counts for word in named.tokens(value)}
        if len(systems) > 1 and verdicts:
            fitting = [pair for pair in systems if any(self._names_candidates(column, pair) for column in verdicts)]
            worded = [pair for pair in systems if set(pair.side_words) & words]
            systems = fitting or worded or systems
        pair = next(iter([*systems, *texts]), None)
        if {"candidate_id", "opponent_id"} <= set(self.given):
            return pair
        if pair is None:
            self.settle("candidate_id", "=A")
            self.settle("opponent_id", "=B")
        elif len(systems) > 1 and not self._agree(systems):
            self.ask("candidate_id", "which columns name the candidates?", *(one.first for one in systems))
            self.ask("opponent_id", "which columns name the candidates?", *(one.second for one in systems))
        else:
            self.settle("candidate_id", pair.first)
            self.settle("opponent_id", pair.second)
            for other in systems[1:]:
                self.aside |= dict.fromkeys(other[:2], f"goes with {pair.first}, {pair.second}")
        if texts and self.columns[texts[0].first].is_wordy(named_apart=bool(systems)):
            self.settle("text", texts[0].first)
            self.settle("opponent_text", texts[0].second)
        if pair is not None and pair.side_words == ("chosen", "rejected"):
            self.settle("preference", "=first")
            self.settle("order_known", "=false")
        return pair

    def _agree(self, pairs: Sequence[SidePair]) -> bool:
        """Return whether pairs of columns name the same candidates, as identifiers and names do."""
        head = pairs[0]
        return all(
            named.functional(self.columns[head[side]], self.columns[pair[side]])
            and named.functional(self.columns[pair[side]], self.columns[head[side]])
            for pair in pairs[1:] for side in (0, 1)
        )  # fmt: skip

    def _readings(self, column: LogColumn, pair: SidePair | None) -> list[Any]:
        """Return the possible expressions of a column of verdicts."""
        words = named.verdict_readings(column, pair)
        options: list[Any] = [{"field": column.name, "values": meanings} for meanings in words]
        if pair is None or not self._names_candidates(column, pair):
            return options or [column.name]
        ties = {v: "tie" for v in column.counts if named.side_of(v) == "tie" and v.strip().lower() != "tie"}
        by_name: Any = (
            {"field": column.name, "values": {value: ties.get(value, value) for value in column.counts}}
            if ties
            else column.name
        )
        both = any({"first", "second"} <= set(meanings.values()) for meanings in words)
        return [by_name, *options] if both else [by_name]

    def _meaning(self, column: LogColumn, pair: SidePair | None) -> Any:
        return self._readings(column, pair)[0]

    def _fill_verdict(self, pair: SidePair | None, verdicts: Sequence[LogColumn]) -> None:
        verdicts = self._without_repeats(verdicts)
        if (flags := self._winning_flags()) is not None:
            self.settle("winner", f"{flags.first} > {flags.second}")
            ties = (
                c for c in self.columns.values() if "tie" in c.words and c.has("verdict") and c.name not in self.used
            )
            self.aside |= {column.name: "neither of the two won" for column in ties}
            return
        compared, replies, likely = self._side_scores(), self._replies(), self._probabilities()
        if len(verdicts) == 1:
            self._fill_one_verdict(verdicts[0], pair)
        elif (
            len(verdicts) > 1
            and self._differ_in_name(verdicts)
            and all(len(self._readings(c, pair)) == 1 for c in verdicts)
        ):
            self._settle_several("winner", verdicts, [self._meaning(column, pair) for column in verdicts])
        elif len(verdicts) == 2 and _differ_in_number(verdicts):
            self.settle("winner", self._meaning(verdicts[0], pair))
            there = self._meaning(verdicts[1], pair)
            options = [there]
            if isinstance(there, Mapping) and "values" in there:
                columns = {"first": "candidate", "second": "opponent"}
                options.append(there | {"values": {v: columns.get(side, side) for v, side in there["values"].items()}})
            why = f"is {verdicts[1].name} the verdict in the other order (of places as shown, or of columns)?"
            self.ask("winner_swapped", why, *options)
        elif verdicts:
            self.ask(
                "winner", f"{_listed(verdicts)} are all verdicts", *(self._meaning(column, pair) for column in verdicts)
            )
        elif likely:
            self.settle("p_first", likely)
        elif compared is not None:
            why = f"{compared.first} and {compared.second} are scores; they make a verdict if the judge saw both texts at once"
            one, two = compared[:2] if "rank" not in compared.stem else (compared.second, compared.first)
            self.ask("winner", why, f"{one} > {two}")
        elif len(replies) == 1:
            self.settle("reply", replies[0].name)
        else:
            unnamed = [c for c in self.columns.values() if c.name not in self.used and c.kind == "word" and not c.roles
                       and len(named.verdict_readings(c, None)) == 1]  # fmt: skip
            options = [self._meaning(column, pair) for column in unnamed]
            self.ask(
                "winner", "which column holds the judge's verdict?", *options, *(column.name for column in replies)
            )
        if compared is not None and verdicts:
            self.aside |= dict.fromkeys(compared[:2], "scores of each candidate; the verdict is another column")
        if len(replies) == 1 and self.is_open("reply") and verdicts:
            self.aside[replies[0].name] = "the judge's words; the verdict is another column"

    def _fill_one_verdict(self, column: LogColumn, pair: SidePair | None) -> None:
        if shares := _shares(column):
            self.ask("p_first", f"which end of {column.name} means the first?", *shares)
            return
        options = self._readings(column, pair)
        if set(column.words) <= {"label", "labels"} and column.kind == "number" and not self._replies():
            self.ask("winner", f"is {column.name} the judge's verdict, not people's or a reference?", *options)
        elif len(options) == 1:
            self.settle("winner", options[0])
        else:
            self.ask("winner", f"what do the values of {column.name} mean ({', '.join(column.examples)})?", *options)

    def _without_repeats(self, found: Sequence[LogColumn]) -> list[LogColumn]:
        """Drop columns that repeat another one, and set them aside."""
        kept: list[LogColumn] = []
        for column in sorted(found, key=lambda column: len(column.words)):
            twin = next(
                (other for other in kept if other.values == column.values and set(other.words) < set(column.words)),
                None,
            )
            if twin is None:
                kept.append(column)
            else:
                self.aside[column.name] = f"repeats {twin.name}"
        return [column for column in found if column in kept]

    def _differ_in_name(self, several: Sequence[LogColumn]) -> bool:
        """Return whether columns have the same words but for the name of a model, or for a criterion."""
        shared = set.intersection(*(set(column.words) for column in several))
        rest = [set(column.words) - shared for column in several]
        criteria = set(named.aliases()["criteria"]["words"])
        by_model = all(named.is_model(column.name) for column in several)
        return all(rest) and (by_model or (bool(shared) and all(words & criteria for words in rest)))

    def _settle_several(self, entry: str, several: Sequence[LogColumn], options: Sequence[Any]) -> None:
        """Fill an outcome with several columns, each of a judge or a criterion."""
        self.settle(entry, {"fields": [column.name for column in several]})
        if any(isinstance(option, Mapping) for option in options):
            merged = {
                value: side
                for option in options
                if isinstance(option, Mapping)
                for value, side in option["values"].items()
            }
            self.entries[entry] = {"fields": [column.name for column in several], "values": merged}
        models = [column for column in several if named.is_model(column.name)]
        shared = set.intersection(*(set(column.words) for column in several))
        criteria = [set(column.words) & set(named.aliases()["criteria"]["words"]) for column in several]
        if len(models) == len(several) and all(criteria) and len({*map(frozenset, criteria)}) > 1:
            self.settle(
                "attribute", {c.name: f"={'_'.join(sorted(own))}" for c, own in zip(several, criteria, strict=True)}
            )
            self.settle(
                "judge", {c.name: f"={_without(c, shared | own)}" for c, own in zip(several, criteria, strict=True)}
            )
            return
        if len(models) == len(several) and self.is_open("judge"):
            self.settle("judge", {column.name: f"={_model_of(column, shared)}" for column in several})
        elif self.is_open("attribute"):
            self.settle("attribute", {column.name: f"={_without(column, shared)}" for column in several})

    def _fill_both_orders(self, pair: SidePair | None, both: tuple[str, str]) -> None:
        own, swapped = (self.columns[name] for name in both)
        here, there = self._meaning(own, pair), self._meaning(swapped, pair)
        self.settle("winner", here)
        if not isinstance(there, Mapping) or "shown" in swapped.words:
            self.settle("winner_swapped", there)
            return
        as_columns = {"first": "candidate", "second": "opponent"}
        by_column = there | {"values": {value: as_columns.get(side, side) for value, side in there["values"].items()}}
        sides = there["values"] | (here["values"] if isinstance(here, Mapping) else {})
        decided = self._decided(pair, own, swapped, sides)
        if decided is None:
            self.ask(
                "winner_swapped",
                f"does {swapped.name} name the place as shown in that order, or the column?",
                there,
                by_column,
            )
        else:
            self.settle("winner_swapped", there if decided else by_column)

    def _decided(
        self, pair: SidePair | None, own: LogColumn, swapped: LogColumn, meanings: Mapping[str, str]
    ) -> bool | None:
        """Return whether a combined verdict shows that the other order names places as shown; None if none shows it."""
        if pair is None:
            return None
        first, second = self.columns[pair.first], self.columns[pair.second]
        for column in self.columns.values():
            if (
                column in (own, swapped)
                or not self._names_candidates(column, pair, constant=True)
                or column.name in pair[:2]
            ):
                continue
            fits = {True: 0, False: 0}
            rows = list(zip(column.values, own.values, swapped.values, first.values, second.values, strict=True))
            for value, here, there, one, two in rows:
                for shown in (True, False):
                    names = (two, one) if shown else (one, two)
                    side, other = meanings.get(here or ""), meanings.get(there or "")
                    a = {"first": one, "second": two}.get(side or "")
                    b = {"first": names[0], "second": names[1]}.get(other or "")
                    fits[shown] += (a == b == value) if value in (one, two) else a != b or a is None
            if max(fits.values()) >= 0.95 * len(rows) and fits[True] != fits[False]:
                self.aside[column.name] = f"combines {own.name} and {swapped.name}"
                return fits[True] > fits[False]
        return None

    def _fill_order(self, pair: SidePair | None) -> None:
        """Fill or ask about columns that give the order shown."""
        for column in self.free("shown", "system", first=False):
            if column.kind in ("empty", "text", "object") or {"swapped", "shown_first"} & set(self.entries):
                continue
            if "shown" not in column.roles and not (set(column.words) & {"first", "shown"} and pair is not None
                                                    and self._names_candidates(column, pair)):  # fmt: skip
                continue
            if column.is_constant and column.known[0].lower() in ("false", "0"):
                self.aside[column.name] = "always the same order"
                continue
            if "verdict" in column.roles:
                continue
            values = {"".join(filter(str.isalnum, value.lower())) for value in column.counts}
            if pair is not None and self._names_candidates(column, pair):
                self.settle("shown_first", column.name)
            elif values <= {"ab", "ba"} or values <= {"original", "swapped"}:
                meaning = {
                    value: "false" if value.lower().startswith(("a", "original")) else "true" for value in column.counts
                }
                self._ask_places({"field": column.name, "values": meaning})
            elif (values <= {"true", "false"} or values <= {"0", "1"}) and {"swap", "swapped", "flipped", "flip", "reversed",
                                                                         "exchanged"} & set(column.words):  # fmt: skip
                meaning = {value: "true" if value.lower() in ("true", "1") else "false" for value in column.counts}
                self._ask_places(
                    column.name if values <= {"true", "false"} else {"field": column.name, "values": meaning}
                )
            else:
                self.ask(
                    "swapped", f"does {column.name} say in which order the two were shown?", column.name, required=False
                )

    def _ask_places(self, swapped: Any) -> None:
        """Fill the order shown; ask whether verdicts name places or columns, if they do not name candidates."""
        winner = self.entries.get("winner")
        self.settle("swapped", swapped)
        if "winner" in self.given or not isinstance(winner, Mapping) or "values" not in winner:
            return
        if not {"first", "second"} & set(winner["values"].values()):
            return
        as_columns = {"first": "candidate", "second": "opponent"}
        by_column = dict(winner) | {"values": {v: as_columns.get(side, side) for v, side in winner["values"].items()}}
        self.aside[winner["field"]] = "open"
        del self.entries["winner"]
        self.ask("winner", f"does {winner['field']} name the place as shown, or the column?", winner, by_column)

    # -- scores ------------------------------------------------------------------------------------------------------
    def _scores(self) -> list[LogColumn]:
        """Return the judge's columns of scores or grades."""
        used = self.used
        return [
            column for name, column in self.columns.items()
            if name not in used and not column.has("people") and self._is_score(column)
        ]  # fmt: skip

    def _is_score(self, column: LogColumn) -> bool:
        if _names_person(column):
            return False
        others = [role for role in column.roles if role not in ("judge", "people", "person")]
        if column.kind != "name" and {"score", "verdict"} & set(others):
            others = [role for role in others if role != "system"]  # "is_correct_llm" names no system
        role = next(iter(others), "")
        if column.kind == "number":
            if role in ("score", "verdict", "reply"):
                return True
            explained = any(
                other.name != column.name and other.name.startswith(column.name) and "explanation" in other.roles
                for other in self.columns.values()
            )
            return role == "" and (named.is_model(column.name) or explained or column.has("people"))
        of_model = column.roles[:1] == ("judge",) or named.is_model(column.name)
        whose = role == "" and (column.has("people") or of_model)
        return (role in ("score", "verdict", "reply") or whose) and named.grade_values(column) is not None

    def fill_scores(self) -> None:
        """Fill the entries of a log of scores, by a judge or by people."""
        everything = self._without_repeats(self._scores())
        derived = [column for column in everything if "derived" in column.roles]
        scores = [column for column in everything if column not in derived]
        for column in [*derived, *scores]:
            others = [other for other in scores if other is not column and other.kind == "number"]
            shown = column in derived or set(column.words) <= _GENERAL
            if column.kind == "number" and len(others) >= 2 and shown and named.is_mean(column, others):
                self.aside[column.name] = f"the mean of {_listed(others)}"
                scores = [other for other in scores if other is not column]
        scores = scores or [column for column in derived if column.name not in self.aside]
        people = [column for column in self.free("people", first=False) if self._is_score(column)]
        people = [column for column in people if "derived" not in column.roles]
        if {"score", "reply"} & set(self.given):
            scores = [self.columns[n] for n in columns_in(self.given.get("score"), self.columns)]
        elif scores and (alike := self._like_scores(scores)):
            names = [column.name for column in scores]
            both = {"fields": [*names, *(column.name for column in alike)]}
            self.ask(
                "score", f"{_listed(alike)} may be scores too", both, {"fields": names} if len(names) > 1 else names[0]
            )
        elif len(scores) == 1:
            self.settle("score", _graded(scores[0]))
        elif len(scores) > 1 and all(_is_numbered(column.name) for column in scores):
            self.settle("score", {"fields": [column.name for column in scores]})
            repeated = {column.name: f"={place}" for place, column in enumerate(scores)}
            why = f"are {_listed(scores)} repetitions? If they are judges or criteria, map judge or attribute instead"
            self.ask("replicate", why, repeated)
        elif scores and self._name_judges_or_criteria(scores):
            self._settle_scores(scores)
        elif scores:
            options = [_graded(column) for column in scores]
            self.ask("score", f"which of {_listed(scores)} is the judge's score?", *options)
        else:
            self._ask_for_score(people)
        self._fill_person(scores, people)
        self._fill_scale("scale", scores)
        if people and scores and self.is_open("ratings"):
            self._fill_ratings(scores, people)

    def _like_scores(self, scores: Sequence[LogColumn]) -> list[LogColumn]:
        """Return unnamed columns of numbers with the range of a score."""
        ranges = {_observed(column)[0] for column in scores if column.kind == "number"}
        free = [column for name, column in self.columns.items() if name not in self.used and not column.roles]
        return [
            column for column in free
            if column.kind == "number" and 2 < len(column.counts) <= _MOST_STEPS and _observed(column)[0] in ranges
            and not set(column.words) <= set(named.aliases()["plain"]["words"])
        ]  # fmt: skip

    def _ask_for_score(self, people: Sequence[LogColumn]) -> None:
        replies = self._replies()
        numbers = [column for column in self.columns.values() if column.kind in ("number", "flag") and column.name not in self.used
                   and not column.has("people") and column.roles[:1] not in (("covariate",), ("ignore",), ("question",),
                                                                             ("replicate",), ("system",))
                   and not set(column.words) <= set(named.aliases()["plain"]["words"])]  # fmt: skip
        texts = [c for c in self.free("score", "verdict", "reply") if c.kind in ("word", "name", "id", "text")]
        shares = [c for c in texts if all(_OUT_OF.fullmatch(value) for value in c.known)]
        if len(shares) == 1:
            tops = {_OUT_OF.fullmatch(value)[2] for value in shares[0].known}  # type: ignore[index]
            self.settle("score", {"field": shares[0].name, "pattern": r"^\s*([\d.]+)"})
            self.ask(
                "scale",
                f"{shares[0].name} is out of {', '.join(sorted(tops))}; from where?",
                *(f"=1-{top}" for top in tops),
            )
            return
        if len(replies) == 1 and not numbers and any(sign.isdigit() for text in replies[0].known for sign in text):
            self.settle("reply", replies[0].name)
        elif people and not numbers and (unclear := self._graded_columns()):
            why = f"{_listed(unclear)} may be the judge's; delete this line if only people judged"
            self.ask("score", why, *(_graded(column) for column in unclear), required=False)
            self.settle("ratings", _listed_labels(people))
        elif people and not numbers and len({frozenset(_criteria_of(column)) for column in people}) > 1:
            why = f"{_listed(people)} are people's scores of different criteria; which are of one?"
            self.ask("ratings", why, *(column.name for column in people))
        elif people and not numbers:
            self.settle("ratings", _listed_labels(people))
        elif texts and texts[0].kind == "word" and len(texts[0].counts) == 2:
            one, two = texts[0].counts
            self.ask("score", f"which of {one} and {two} in {texts[0].name} is better?",
                     *({"field": texts[0].name, "values": {worse: "0", better: "1"}} for worse, better in ((one, two), (two, one))))  # fmt: skip
        else:
            self.ask(
                "score",
                "which column holds the judge's score or verdict?",
                *(column.name for column in [*numbers, *texts]),
            )

    def _graded_columns(self) -> list[LogColumn]:
        """Return the unused columns of grades in words that no name gives to people."""
        return [
            column
            for name, column in self.columns.items()
            if name not in self.used and not column.has("people") and column.kind in ("word", "flag", "name")
            and named.grade_values(column) is not None and column.roles[:1] not in (("covariate",), ("ignore",), ("derived",))
        ]  # fmt: skip

    def _name_judges_or_criteria(self, scores: Sequence[LogColumn]) -> bool:
        """Return whether all columns of scores are named after judges, or after criteria."""
        criteria = set(named.aliases()["criteria"]["words"]) | {"overall"}
        shared = set.intersection(*(set(column.words) for column in scores))
        by_criterion = [bool(set(column.words) & criteria) for column in scores]
        by_model = [named.is_model(column.name) for column in scores]
        rest = [tuple(word for word in column.words if word not in shared) for column in scores]
        alike = bool(shared & (named.alias_words("score") | {"metrics", "evals", "feedback"})) and len(
            set(rest)
        ) == len(rest)
        plain = [column for column, one in zip(scores, by_criterion, strict=True) if not one]
        general = len(plain) == 1 and set(plain[0].words) <= {"score", "rating", "grade", "total"}
        return (
            all(by_model)
            or all(by_criterion)
            or (alike and all(rest) and not any(by_model))
            or (general and len(scores) > 2)
        )

    def _settle_scores(self, scores: Sequence[LogColumn]) -> None:
        words = [column for column in scores if column.kind != "number"]
        if words and len(words) < len(scores):
            self.ask("score", f"{_listed(scores)} are grades in words and numbers; map one kind",
                     [column.name for column in scores if column.kind == "number"])  # fmt: skip
            return
        options = [_graded(column) for column in scores]
        if words and len({tuple(option["values"].items()) for option in options}) > 1:
            self.ask("score", f"{_listed(scores)} have different grades; map one of them", *options)
            return
        self._settle_several("score", scores, options)

    def _fill_person(self, scores: Sequence[LogColumn], people: Sequence[LogColumn]) -> None:
        """Take scores as people's if a column says whose they are and nothing names a judge."""
        persons = [
            column for column in self.free("people", first=False) if column.has("person") and not self._is_score(column)
        ]
        persons = [
            c
            for c in persons
            if c.kind in ("word", "name", "id", "number") and set(c.words) <= alias_and_plain("person")
        ]
        judged = (
            self.free("judge")
            or people
            or any(named.is_model(column.name) for column in scores)
            or "judge" in self.given
        )
        if not persons or "person" in self.given:
            return
        models = [column for column in persons if sum(map(named.is_model, column.counts)) >= 0.5 * len(column.counts)]
        if not judged and len(models) == len(persons) == 1 and scores:
            self.settle("judge", models[0].name)
        elif not judged and len(persons) == 1 and scores:
            self.settle("person", persons[0].name)
        else:
            self.ask(
                "person",
                f"{_listed(persons)} may say which person gave a score",
                *(c.name for c in persons),
                required=False,
            )

    def _fill_scale(self, entry: str, scores: Sequence[LogColumn]) -> None:
        """Fill the scale if the observed range is a usual one; ask otherwise."""
        if entry in self.entries or not ({"score", "ratings"} & set(self.entries)):
            if "reply" in self.entries and entry == "scale":
                self.ask(
                    entry, "on which scale does the judge score?", *(f"={low}-{high}" for low, high in _SCALES[:3])
                )
            elif entry == "scale":
                self._fill_scale_of_options()
            return
        found = {column.name: _observed(column) for column in scores}
        if len(scores) == 1 and entry == "scale" and (by_value := self._ranges_by_criterion(scores[0])):
            found = by_value
        ends = {name: scale for name, (scale, _) in found.items()}
        if not ends:
            return
        sure = all(is_usual for _, is_usual in found.values())
        one = len(set(ends.values())) == 1
        option: Any = next(iter(ends.values())) if one else ends
        if not one and len(scores) == 1:
            option = {
                "field": self._criterion(),
                "values": {value: scale.removeprefix("=") for value, scale in ends.items()},
            }
        if sure or (entry == "scale" and "person" in self.entries):
            self.settle(entry, option)
        else:
            self.ask(entry, "the values have this range; what is the scale?", option)

    def _fill_scale_of_options(self) -> None:
        """Fill or ask for the scale of a score that is asked about, in the same round."""
        asked = next((question for question in self.questions if question.entry == "score"), None)
        found: dict[str, bool] = {}
        for option in asked.options if asked is not None else ():
            grades = option.get("values") if isinstance(option, Mapping) else None
            if grades is not None:
                numbers = [float(number) for number in grades.values()]
                found[f"={min(numbers):g}-{max(numbers):g}"] = set(numbers) == {0.0, 1.0}
                continue
            columns = [self.columns[name] for name in columns_in(option, self.columns)]
            found |= dict(_observed(column) for column in columns if column.numbers)
        if len(found) == 1 and all(found.values()):
            self.settle("scale", next(iter(found)))
        elif found:
            self.ask("scale", "the scale of that score", *found)

    def _criterion(self) -> str | None:
        found = [c for c in self.free("criterion") if c.kind in ("word", "name") and not c.is_constant]
        return found[0].name if len(found) == 1 else None

    def _ranges_by_criterion(self, score: LogColumn) -> dict[str, tuple[str, bool]]:
        """Return the range of the scores of each criterion of a long table."""
        name = self._criterion()
        if name is None or score.kind != "number":
            return {}
        values: dict[str, list[str | None]] = {}
        for criterion, value in zip(self.columns[name].values, score.values, strict=True):
            if criterion is not None:
                values.setdefault(criterion, []).append(value)
        return {
            criterion: _observed(LogColumn(score.name, tuple(own))) for criterion, own in values.items() if any(own)
        }

    def _fill_ratings(self, scores: Sequence[LogColumn], people: Sequence[LogColumn]) -> None:
        """Fill people's scores: of the same criterion, if there are several."""
        if len(scores) > 1:
            criteria = {column.name: set(column.words) & set(named.aliases()["criteria"]["words"]) for column in scores}
            by_score = {
                name: [column.name for column in people if words and words & set(column.words)]
                for name, words in criteria.items()
            }
            if all(named.is_model(column.name) for column in scores) and not any(by_score.values()):
                self.settle("ratings", _listed_labels(people))
                self._fill_scale_of_people(scores[0], people)
                return
            matched = {name for own in by_score.values() for name in own}
            if matched == {column.name for column in people}:
                self.settle("ratings", {name: {"fields": own} for name, own in by_score.items() if own})
            else:
                self.ask("ratings", f"which people's scores belong to which of {_listed(scores)}?", required=False)
                self.aside |= {column.name: "open" for column in people}
                return
        else:
            self.settle("ratings", _listed_labels(people))
        self._fill_scale_of_people(scores[0], people)

    def _fill_scale_of_people(self, score: LogColumn, people: Sequence[LogColumn]) -> None:
        """Ask for people's scale if their scores end another usual scale, or lie outside the judge's."""
        if not self.is_open("human_scale"):
            return
        numbers = [number for column in people for number in column.numbers]
        asked = next((question.options[0] for question in self.questions if question.entry == "scale"), None)
        scale = self.entries.get("scale", asked or _observed(score)[0])
        low, high = (
            (float(end) for end in scale.removeprefix("=").rpartition("-")[::2]) if isinstance(scale, str) else (0, 0)
        )
        theirs, is_usual = _observed(LogColumn("people", tuple(map(str, numbers)))) if numbers else (scale, False)
        inside = bool(numbers) and low <= min(numbers) and max(numbers) <= high
        if theirs != scale and (is_usual or not inside) and numbers:
            self.ask(
                "human_scale",
                "people's scores end another scale than the judge's",
                theirs,
                *([scale] if inside else []),
            )

    # -- what pairs and scores share ---------------------------------------------------------------------------------
    def fill_common(self) -> None:
        """Fill question, judge, criterion, replicate, prompt, data set, and for scores the candidate."""
        self._fill_judge()
        self._fill_question()
        if not self._is_pair:
            self._fill_candidate()
        for entry, role, kinds in (
            ("attribute", "criterion", ("word", "name")), ("replicate", "replicate", ("number",)),
            ("template", "prompt", ("word", "name")), ("dataset", "dataset", ("word", "name")),
        ):  # fmt: skip
            found = [column for column in self.free(role) if column.kind in kinds and not column.is_constant]
            if entry == "attribute":
                found += [column for column in self.columns.values() if column.kind in kinds and not column.is_constant
                          and column.name not in self.used and column.name.endswith(("[].name", "[].key", "[].metric_name"))]  # fmt: skip
            if entry == "replicate":
                found = [column for column in found if all(number % 1 == 0 for number in column.numbers)]
            if len(found) > 1 and all(named.functional(found[0], column) for column in found[1:]):
                self.aside |= {column.name: f"goes with {found[0].name}" for column in found[1:]}
                found = found[:1]
            if len(found) == 1:
                self.settle(entry, found[0].name)
            elif found:
                self.ask(entry, f"{_listed(found)} could all be it", *(column.name for column in found), required=False)
        keys = [column for name, column in self.columns.items() if name.endswith("*") and name not in self.used]
        question = self.columns.get(str(self.entries.get("context_id")))
        repeats = question is not None and len(keys) == 1 and not named.functional(question, keys[0])
        if repeats and len(keys[0].counts) <= _MOST_JUDGES:
            why = f"do the keys ({', '.join(keys[0].examples)}) name judges? If systems, map candidate_id instead"
            self.ask("judge", why, keys[0].name, required=False)
        groups = [
            c for c in self.free("covariate") if c.kind == "word" and {"subset", "category", "domain"} & set(c.words)
        ]
        if len(groups) == 1:
            self.settle("subset", groups[0].name)

    @property
    def _is_pair(self) -> bool:
        return bool({"opponent_id"} & {*self.entries, *(question.entry for question in self.questions)})

    def _fill_judge(self) -> None:
        judges = [column for column in self.columns.values() if column.name not in self.used and self._is_judge(column)]
        if not judges or "judge" in self.entries or "person" in self.entries:
            named_after = [name for name in columns_in(self.entries.get("score"), self.columns) if named.is_model(name)]
            if len(named_after) == 1 and self.is_open("judge") and "person" not in self.entries:
                self.settle("judge", f"={_without(self.columns[named_after[0]], set())}")
            return
        first, *rest = judges
        if any(not named.functional(first, other) for other in rest):
            self.ask("judge", f"{_listed(judges)} could all be it", *(column.name for column in judges))
            return
        self.aside |= {column.name: f"goes with {first.name}" for column in rest}
        people = named.alias_words("people") | set(named.aliases()["role"]["people"]["values"])
        if sum(bool(set(named.tokens(value)) & people) for value in first.counts) >= 0.5 * len(first.counts):
            self.ask(
                "judge",
                f"the values of {first.name} look like people ({', '.join(first.examples)})",
                first.name,
                "=people",
            )
            return
        rows_of_each = len(first.known) / max(1, len(first.counts))
        if len(first.counts) > _MOST_JUDGES and rows_of_each < _FEWEST_OF_A_JUDGE:
            self.ask(
                "judge",
                f"{first.name} has {len(first.counts)} values of few rows each, too many for judges",
                first.name,
                required=False,
            )
        else:
            self.settle("judge", first.name)

    def _is_judge(self, column: LogColumn) -> bool:
        """Return whether a column says who judged: a name, under a word for judges."""
        if "judge" not in column.roles or column.has("people") or column.kind not in ("word", "name", "id", "number"):
            return False
        return column.roles[0] in ("judge", "system", "verdict") and not self._is_score(column)

    def _fill_question(self) -> None:
        """Fill the question: the finest column that identifies what was asked, but for numbers of rows."""
        if not self.is_open("context_id"):
            return
        first = named.aliases()["role"]["question"]["first"]
        found = []
        for column in self.columns.values():
            plain = "_".join(named.tokens(named.last_part(column.name)))
            if column.name in self.used or column.kind == "empty" or column.name.endswith("#"):
                continue
            if column.roles[:1] == ("question",) or (
                plain in first and column.roles[:1] in ((), ("question",), ("text",))
            ):
                if plain in first or column.roles[:1] == ("question",):
                    found.append((first.index(plain) if plain in first else len(first), column))
        found.sort(key=lambda each: each[0])
        columns = [column for _, column in found if not column.is_constant and not self._holds_answers(column)]
        columns = [column for column in columns if "text" not in column.roles[:1]] or columns
        if not self._is_pair:  # a document that was judged is what answers
            columns = [column for column in columns if not set(column.words) & _DOCUMENTS] or columns
        if not columns:
            self._ask_question([column for _, column in found])
            return
        repeated = [
            column for column in columns if len(column.counts) < len(column.known) and set(column.words) & _ASKED
        ]
        best = columns[0]
        if repeated and len(repeated) < len(columns) and best not in repeated:
            best = repeated[0] if not set(best.words) & {"question", "prompt", "query"} or self._is_pair else best
        for other in [column for column in columns if column is not best]:
            finer = named.functional(other, best) and not named.functional(best, other)
            unique = len(other.counts) == len(other.known)
            if finer and not unique and other.kind in ("text", "id", "name"):
                best = other
        if (both := self._instruction_and_input()) is not None and best.name in both:
            self.settle("context_id", ", ".join(both))
            return
        unclear = [column for column in columns if column is not best and column in repeated and column.kind != "word"
                   and not named.functional(best, column) and not named.functional(column, best)]  # fmt: skip
        if unclear:
            self.ask("context_id", f"{_listed([best, *unclear])} could all identify the question",
                     *(column.name for column in [best, *unclear]))  # fmt: skip
            return
        parts = set(named.aliases()["parts"]["words"]) | set(named.aliases()["plain"]["words"])
        turns = [column for name, column in self.columns.items() if name not in self.used and set(named.tokens(named.last_part(column.name))) <= parts
                 and set(column.words) & set(named.aliases()["parts"]["words"]) and not column.is_constant]  # fmt: skip
        self.settle("context_id", ", ".join([best.name, *(column.name for column in turns)]))
        self.aside |= {column.name: f"goes with the question, {best.name}" for column in columns
                       if column is not best and named.functional(best, column)}  # fmt: skip
        self.aside |= {column.name: "different in each row" for column in columns
                       if column is not best and column.name not in self.aside and len(column.counts) == len(column.known)}  # fmt: skip

    def _instruction_and_input(self) -> tuple[str, str] | None:
        """Return the columns of an instruction and its input, which are one question together."""
        named_so = {column.words: name for name, column in self.columns.items() if not column.is_empty}
        pair = named_so.get(("instruction",)), named_so.get(("input",))
        return pair if pair[0] is not None and pair[1] is not None else None  # type: ignore[return-value]

    def _ask_question(self, found: Sequence[LogColumn]) -> None:
        ids = [column for column in self.columns.values() if column.name not in self.used and "id" in column.words
               and column.roles[:1] in ((), ("text",)) and not column.is_constant]  # fmt: skip
        texts = [c for c in self.columns.values() if c.name not in self.used and c.kind in ("text", "id", "name") and not c.is_constant
                 and not c.has("people") and c.roles[:1] in ((), ("question",), ("covariate",))]  # fmt: skip
        numbers = [
            c
            for c in self.columns.values()
            if c.name not in self.used and not c.roles and c.kind == "number" and len(c.counts) == len(c.known)
        ]
        options = dict.fromkeys(column.name for column in [*ids, *found, *texts, *numbers] if not column.is_constant)
        self.ask("context_id", "which column identifies the question?", *options)

    def _holds_answers(self, column: LogColumn) -> bool:
        """Return whether a column contains both candidates' texts, as a judge's prompt does."""
        texts = [self.columns.get(str(self.entries.get(name))) for name in ("text", "opponent_text")]
        if column.kind != "text" or not all(texts):
            return column.kind == "text" and "judge" in column.roles
        rows = list(zip(column.values, *(text.values for text in texts if text), strict=True))
        held = [one in value and two in value for value, one, two in rows if value and one and two]
        return bool(held) and sum(held) >= 0.5 * len(held)

    def _fill_candidate(self) -> None:
        systems = [column for column in self.free("system") if column.kind in ("word", "name", "id", "number")]
        texts = [
            column
            for column in self.free("text")
            if "judge" not in column.roles and column.kind in ("text", "id", "name", "word", "object")
        ]
        inner = [column for column in self.columns.values() if "[]." in column.name and column.name not in self.used
                 and column.words[-1:] == ("id",) and column.roles[:1] in ((), ("text",), ("question",))]  # fmt: skip
        texts = [column for column in texts if column.words[-1:] != ("id",)] or texts
        inner += [column for column in self.free("question", first=False) if set(column.words) & _DOCUMENTS
                  and not column.is_constant and column.name not in map(str, self.entries.values())]  # fmt: skip
        if self.is_open("candidate_id"):
            if len(systems) > 1 and not all(named.functional(systems[0], other) for other in systems[1:]):
                self.ask(
                    "candidate_id", f"{_listed(systems)} could all be the system", *(column.name for column in systems)
                )
            elif (
                systems and len(texts) == 1 and self.is_open("judge") and self._answers_are_shared(texts[0], systems[0])
            ):
                self.settle("candidate_id", texts[0].name)
                self.ask(
                    "judge",
                    f"{systems[0].name} differs where {texts[0].name} is the same: is it the judge?",
                    systems[0].name,
                    required=False,
                )
            elif systems:
                self.settle("candidate_id", systems[0].name)
                self.aside |= {column.name: f"goes with {systems[0].name}" for column in systems[1:]}
            elif len(texts) > 1:
                self.ask("candidate_id", f"which of {_listed(texts)} was judged?", *(column.name for column in texts))
            else:
                self.settle("candidate_id", texts[0].name if texts else inner[0].name if inner else "=answer")
        lengthy = [column for column in texts if column.kind in ("text", "id", "object") and not column.is_constant
                   and (column.kind != "object" or set(column.words) & _CONVERSATIONS)]  # fmt: skip
        if len(lengthy) == 1 and self.is_open("text"):
            self.settle("text", lengthy[0].name)
        elif len(lengthy) > 1 and self.is_open("candidate_id") is False and self.is_open("text"):
            self.ask(
                "text", f"which of {_listed(lengthy)} was judged?", *(column.name for column in lengthy), required=False
            )

    def _answers_are_shared(self, text: LogColumn, system: LogColumn) -> bool:
        """Return whether each question has a single answer under several names of models."""
        question = self.columns.get(str(self.entries.get("context_id")))
        return (question is not None and not text.is_constant and named.functional(question, text)
                and not named.functional(question, system) and len(question.counts) > 1)  # fmt: skip

    # -- what is left ------------------------------------------------------------------------------------------------
    def ask_about_others(self) -> None:
        """Ask about unused columns that look like a verdict, an order or a person."""
        asked = {
            name
            for question in self.questions
            for option in question.options
            for name in columns_in(option, self.columns)
        }
        for column in self.columns.values():
            if column.name in self.used or column.name in asked or column.kind in ("empty", "object", "text"):
                continue
            if self._is_pair and _says_correct(column):
                self.aside[column.name] = "says whether a verdict was right"
            elif (
                column.has("people")
                and not column.is_constant
                and column.kind != "id"
                and "derived" not in column.roles
            ):
                if column.has("person") and set(column.words) <= alias_and_plain("person"):
                    self.ask("person", f"{column.name} may say which person judged", column.name, required=False)
                elif self._is_score(column) or named.verdict_meanings(column, None):
                    entry = "preference" if self._is_pair else "ratings"
                    self.ask(entry, f"{column.name} may be people's", column.name, required=False)

    def reasons(self) -> dict[str, str]:
        """Return the columns without a role, and why."""
        used = {name for entry in self.entries.values() for name in columns_in(entry, self.columns)}
        asked = {
            name
            for question in self.questions
            for option in question.options
            for name in columns_in(option, self.columns)
        }
        rest = (column for name, column in self.columns.items() if name not in used | asked)
        return {column.name: self.aside.get(column.name) or _why_unused(column) for column in rest}


def alias_and_plain(role: str) -> frozenset[str]:
    """Return the words of a role and those that change nothing."""
    return named.alias_words(role) | frozenset(named.aliases()["plain"]["words"]) | {"who", "by", "human"}


def _names_person(column: LogColumn) -> bool:
    """Return whether a column says which person judged, or how many did."""
    allowed = alias_and_plain("person")
    words = {word if word in allowed else word.removesuffix("s") for word in column.words}
    return bool(words & named.alias_words("person")) and words <= allowed


def _criteria_of(column: LogColumn) -> set[str]:
    """Return the words of a name that are criteria."""
    return set(column.words) & set(named.aliases()["criteria"]["words"])


def _why_unused(column: LogColumn) -> str:
    if column.kind == "empty":
        return "empty"
    return next((_UNUSED[role] for role in column.roles if role in _UNUSED), "not used")


def _shares(column: LogColumn) -> list[dict[str, Any]]:
    """Return the possible meanings of a column of shares between two candidates: which end is the first."""
    numbers = [
        float(v.strip().removesuffix("%"))
        for v in column.known
        if v.strip().removesuffix("%").replace(".", "", 1).lstrip("-").isdigit()
    ]
    if len(numbers) < 0.9 * len(column.known) or not any(number % 1 for number in numbers):
        return []
    ends = next(
        (ends for ends in ((0, 1), (1, 2), (-1, 1), (0, 100)) if ends[0] <= min(numbers) and max(numbers) <= ends[1]),
        None,
    )
    if ends is None:
        return []
    order = ("1", "0") if ends == (1, 2) else ("0", "1")
    return [
        {"field": column.name, "values": dict(zip(map(str, ends), each, strict=True))} for each in (order, order[::-1])
    ]


def _says_correct(column: LogColumn) -> bool:
    return column.kind in ("flag", "number") and bool({"correct", "incorrect", "right", "match"} & set(column.words))


def _graded(column: LogColumn) -> Any:
    """Return the expression of a column of scores, with the numbers of grades in words."""
    grades = None if column.kind == "number" else named.grade_values(column)
    return column.name if grades is None else {"field": column.name, "values": grades}


def _listed_labels(people: Sequence[LogColumn]) -> Any:
    """Return the expression of people's scores."""
    names = [column.name for column in people]
    grades = [named.grade_values(column) for column in people if column.kind != "number"]
    return {"fields": names, "values": grades[0]} if grades and grades[0] else {"fields": names}


def _observed(column: LogColumn) -> tuple[str, bool]:
    """Return the observed range as a scale, and whether it is a usual one."""
    if column.kind != "number":
        grades = named.grade_values(column) or {}
        numbers = [float(number) for number in grades.values()]
        return f"={min(numbers, default=0):g}-{max(numbers, default=1):g}", set(numbers) == {0.0, 1.0}
    low, high = min(column.numbers), max(column.numbers)
    if low < 0:
        return "=reward", False
    if (low, high) in _SCALES:
        return f"={low:g}-{high:g}", True
    if low % 1 or high % 1 or high > _MOST_STEPS:
        low, high = next(((a, b) for a, b in _SCALES if a <= low and high <= b), (low, high))
    return f"={low:g}-{high:g}", False


def _listed(several: Sequence[LogColumn]) -> str:
    names = [column.name for column in several]
    shown = names if len(names) <= _FEW else [*names[:_FEW], "…"]
    return ", ".join(shown[:-1]) + (" and " if len(shown) > 1 else "") + shown[-1]


def _without(column: LogColumn, shared: set[str]) -> str:
    """Return the name of a column without the words that it shares with others, or that say that it is a score."""
    generic = named.alias_words("score") | named.alias_words("verdict") | {"judge", "llm", "automatic", "auto", "by"}
    last = named.last_part(column.name)
    parts = _split_name(last if named.tokens(last) else column.name)
    kept = [part for part in parts if not set(named.tokens(part)) <= generic | shared]
    return last if kept == parts else "_".join(kept) or last


def _differ_in_number(two: Sequence[LogColumn]) -> bool:
    """Return whether the names of two columns differ in a number alone, such as that of a game or an order."""
    one, other = (re.sub(r"\d+", "#", column.name) for column in two)
    return one == other and two[0].name != two[1].name


def _is_numbered(name: str) -> bool:
    """Return whether a number ends the name of a column: one of several values in a list, or of a series."""
    return re.search(r"(\[\d+\]|[_ .-]\d{1,2})$", name) is not None


def _model_of(column: LogColumn, shared: set[str]) -> str:
    """Return the model in the name of a column."""
    own = next((part for part in reversed(named.parts_of(column.name)) if named.is_model(part)), column.name)
    short = _without(LogColumn(own, ()), shared)
    return short if named.is_model(short) else _without(LogColumn(own, ()), set())


def _split_name(name: str) -> list[str]:
    return [part for part in name.replace(" ", "_").replace("/", "_").split("_") if part]
