"""Propose the roles that pairs and scores share: question, judge, criterion, replicate, prompt; name what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.core.errors import InputError
from biaslab.logs.readers import columns as named
from biaslab.logs.readers.columns import LogColumn
from biaslab.logs.readers.mapping import DISTINGUISHING, OPEN, by_column, require_fields
from biaslab.logs.readers.proposal import ROLES, SAMPLED, Proposal, columns_in, fields_of, is_label, without
from biaslab.logs.readers.rows import Rows
from biaslab.logs.readers.score_roles import ScoreRoles

_FEW_GRADES = 3
_IDENTITY = ("context_id", "candidate_id", *DISTINGUISHING)


class SharedRoles(ScoreRoles):
    """The roles that pairs and scores share, after those of either."""

    def fill_common(self) -> None:
        """Fill question, judge, criterion, replicate, prompt, data set, and for scores the candidate."""
        self._fill_judge()
        self._fill_question()
        if not self._is_pair:
            self._fill_candidate()
        for entry in ("attribute", "replicate", "template", "dataset"):
            kinds = ROLES[entry]["kinds"]
            found = self.free(ROLES[entry]["alias"], kinds=kinds, varied=entry != "attribute")
            if entry == "attribute":
                keys = [c for c in self.unused if c.name.endswith(("[].name", "[].key", "[].metric_name"))]
                found += [column for column in keys if column.kind in kinds and not column.is_constant]
            if entry == "replicate":
                found = [column for column in found if all(number % 1 == 0 for number in column.numbers)]
            found = self._without_companions(found)
            if len(found) == 1:
                self.settle(entry, found[0].name)
            elif found:
                self.ask(entry, "several_columns", found)
        groups = [c for c in self.free("covariate", kinds=("word",)) if c.has("subsets")]
        if len(groups) == 1:
            self.settle("subset", groups[0].name)

    def _without_companions(self, found: list[LogColumn]) -> list[LogColumn]:
        """Set all columns but the first aside if its values determine theirs, and return the others."""
        if len(found) > 1 and all(named.functional(found[0], column) for column in found[1:]):
            self.aside |= {column.name: f"goes with {found[0].name}" for column in found[1:]}
            return found[:1]
        return found

    def _fill_judge(self) -> None:
        judges = [column for column in self.unused if self._is_judge(column)]
        if not judges or "judge" in self.entries or "person" in self.entries:
            named_after = [name for name in columns_in(self.entries.get("score"), self.columns) if named.is_model(name)]
            if len(named_after) == 1 and self.is_open("judge") and "person" not in self.entries:
                self.settle("judge", f"={without(self.columns[named_after[0]], set())}")
            return
        first, *others = self._without_companions(judges)
        if others:
            self.ask("judge", "several_judges", judges)
            return
        people = named.alias_words("people") | set(named.aliases()["role"]["people"]["values"])
        if any(set(named.tokens(value)) & people for value in first.counts):
            options = (first.name, "=people")
            self.ask("judge", "people_among_judges", [first], options, values=", ".join(first.examples))
        else:
            self.settle("judge", first.name)

    def _fill_question(self) -> None:
        """Fill the question: the finest column that identifies what was asked, but for numbers of rows."""
        if not self.is_open("context_id"):
            return
        found = self._questions()
        columns = [column for column in found if not column.is_constant and not self._holds_answers(column)]
        columns = [column for column in columns if column.role != "text"] or columns
        if not self._is_pair:  # a document that was judged is what answers
            columns = [column for column in columns if not column.has("documents")] or columns
        if not columns:
            self._ask_question(found)
            return
        repeated = [c for c in columns if len(c.counts) < len(c.known) and c.has("asked")]
        best = self._finest(columns, repeated)
        if (both := self._instruction_and_input()) is not None and best.name in both:
            self.settle("context_id", ", ".join(both))
            return
        rivals = [column for column in repeated if column is not best and column.kind != "word"]
        unclear = [c for c in rivals if not (named.functional(best, c) or named.functional(c, best))]
        if unclear:
            self.ask("context_id", "several_questions", [best, *unclear])
            return
        self.settle("context_id", ", ".join([best.name, *(column.name for column in self._turns())]))
        others = [column for column in columns if column is not best]
        goes = f"goes with the question, {best.name}"
        self.aside |= {column.name: goes for column in others if named.functional(best, column)}
        unique = [column for column in others if len(column.counts) == len(column.known)]
        self.aside |= {column.name: "different in each row" for column in unique if column.name not in self.aside}

    def _questions(self) -> list[LogColumn]:
        """Return the columns that may identify the question, by their names, the likeliest first."""
        first = named.aliases()["role"]["question"]["first"]
        found: list[tuple[int, LogColumn]] = []
        for column in self.columns.values():
            if column.name in self.used or column.kind == "empty" or column.name.endswith("#"):
                continue
            plain = "_".join(named.tokens(named.last_part(column.name)))
            if column.role == "question" or (plain in first and column.role in ("", "text")):
                found.append((first.index(plain) if plain in first else len(first), column))
        return [column for _, column in sorted(found, key=lambda each: each[0])]

    def _finest(self, columns: Sequence[LogColumn], repeated: Sequence[LogColumn]) -> LogColumn:
        """Return the column that tells most questions apart, but for numbers of rows."""
        best = columns[0]
        if repeated and len(repeated) < len(columns) and best not in repeated:
            best = repeated[0] if not set(best.words) & {"question", "prompt", "query"} or self._is_pair else best
        for other in columns:
            finer = named.functional(other, best) and not named.functional(best, other)
            if finer and len(other.counts) < len(other.known) and other.kind in ("text", "id", "name"):
                best = other
        return best

    def _turns(self) -> list[LogColumn]:
        """Return the columns that number parts of one question, such as turns."""
        parts, plain = set(named.aliases()["parts"]["words"]), set(named.aliases()["plain"]["words"])
        columns = [column for column in self.unused if not column.is_constant and set(column.words) & parts]
        return [c for c in columns if set(named.tokens(named.last_part(c.name))) <= parts | plain]

    def _instruction_and_input(self) -> tuple[str, str] | None:
        """Return the columns of an instruction and its input, which are one question together."""
        named_so = {column.words: name for name, column in self.columns.items() if not column.is_empty}
        pair = named_so.get(("instruction",)), named_so.get(("input",))
        return pair if pair[0] is not None and pair[1] is not None else None  # type: ignore[return-value]

    def _ask_question(self, found: Sequence[LogColumn]) -> None:
        ids = [column for column in self.free("", "text") if "id" in column.words]
        texts = self.free("", "question", "covariate", kinds=("text", "id", "name"), varied=True)
        texts = [column for column in texts if not column.has("people")]
        numbers = [c for c in self.free("", kinds=("number",)) if len(c.counts) == len(c.known)]
        options = dict.fromkeys(column.name for column in [*ids, *found, *texts, *numbers] if not column.is_constant)
        self.ask("context_id", "which_question", options=options)

    def _holds_answers(self, column: LogColumn) -> bool:
        """Return whether a column contains both candidates' texts, as a judge's prompt does."""
        texts = [self.columns.get(str(self.entries.get(name))) for name in ("text", "opponent_text")]
        if column.kind != "text" or not all(texts):
            return column.kind == "text" and "judge" in column.roles
        rows = list(zip(column.values, *(text.values for text in texts if text), strict=True))
        held = [one in value and two in value for value, one, two in rows if value and one and two]
        return bool(held) and sum(held) >= 0.5 * len(held)

    def _fill_candidate(self) -> None:
        systems = self.free("system", kinds=("word", "name", "id", "number"))
        texts = self.free("text", kinds=("text", "id", "name", "word", "object"))
        texts = [column for column in texts if "judge" not in column.roles and column.name not in self.asked]
        texts = [column for column in texts if column.words[-1:] != ("id",)] or texts
        inner = [c for c in self.free("", "text", "question") if "[]." in c.name and c.words[-1:] == ("id",)]
        inner += [c for c in self.free("question", first=False, varied=True) if c.has("documents")]
        inner = [column for column in inner if not self._groups_questions(column)]
        if self.is_open("candidate_id"):
            if len(systems) > 1 and not all(named.functional(systems[0], other) for other in systems[1:]):
                self.ask("candidate_id", "several_systems", systems)
            elif self.is_open("judge") and self._answers_are_shared(texts, systems):
                self.settle("candidate_id", texts[0].name)
                self.ask("judge", "differs_for_answer", systems[:1], answer=texts[0].name)
            elif systems:
                self.settle("candidate_id", systems[0].name)
                self.aside |= {column.name: f"goes with {systems[0].name}" for column in systems[1:]}
            elif len(texts) > 1:
                self.ask("candidate_id", "which_was_judged", texts)
            else:
                self.settle("candidate_id", texts[0].name if texts else inner[0].name if inner else "=answer")
        lengthy = [c for c in texts if c.kind in ("text", "id", "object") and not c.is_constant]
        lengthy = [c for c in lengthy if c.kind != "object" or c.has("replies")]
        if len(lengthy) == 1 and self.is_open("text"):
            self.settle("text", lengthy[0].name)
        elif len(lengthy) > 1 and self.is_open("candidate_id") is False and self.is_open("text"):
            self.ask("text", "which_text", lengthy)

    def tell_rows_apart(self) -> None:
        """Take rows with the same question and answer for different cases, if a column numbers the cases."""
        names = [name for entry in _IDENTITY for name in columns_in(self.entries.get(entry), self.columns)]
        question, answer = (self.columns.get(str(self.entries.get(name))) for name in _IDENTITY[:2])
        n_rows = len(set(zip(*(self.columns[name].values for name in names), strict=True)))
        first = named.aliases()["role"]["question"]["first"]
        cases = [c for c in self.columns.values() if len(c.counts) == len(c.values) > n_rows]
        cases = [c for c in cases if "_".join(c.words) in first]
        if self._is_pair or not cases or question is None or self.given.keys() & set(_IDENTITY):
            return
        if answer is not None and named.functional(question, answer):
            self.entries["context_id"] = cases[0].name
            self.aside[question.name] = f"goes with the question, {cases[0].name}"
        elif answer is None or "text" in answer.roles:
            self.entries["candidate_id"] = cases[0].name
        self.aside.pop(cases[0].name, None)

    def _answers_are_shared(self, texts: Sequence[LogColumn], systems: Sequence[LogColumn]) -> bool:
        """Return whether questions have a single answer each, under several names of models."""
        question = self.columns.get(str(self.entries.get("context_id")))
        if question is None or not systems or len(texts) != 1 or texts[0].is_constant:
            return False
        names = set(zip(question.values, systems[0].values, strict=True))
        return named.functional(question, texts[0]) and len(names) >= 1.5 * len(question.counts) > 1.5

    def ask_about_others(self) -> None:
        """Ask about unused columns that look like a verdict, an order or a person."""
        asked = self.asked
        for column in self.columns.values():
            if column.name in self.used or column.name in asked or column.kind in ("empty", "object", "text"):
                continue
            people = column.has("people") and "derived" not in column.roles
            if self._is_pair and column.kind in ("flag", "number") and column.has("right"):
                self.aside[column.name] = "says whether a verdict was right"
            elif people and not column.is_constant and column.kind != "id":
                if column.has("person") and set(column.words) <= named.person_words():
                    self.ask("person", "which_person_judged", [column])
                elif self._is_score(column) or named.verdict_meanings(column, None):
                    entry = "preference" if self._is_pair else "ratings"
                    self.ask(entry, "may_be_peoples", [column])
            if not self._is_pair and column.name not in self.used and self._may_be_label(column):
                known = (self._grades(column) or dict.fromkeys(column.counts, OPEN)) if column.kind != "number" else {}
                self.ask("ratings", "may_be_peoples", [column], [fields_of([column], known)])
        unread = [c.name for c in self.free("score") if c.numbers and c.kind != "number" and c.name not in asked]
        if unread and "score" in self.entries and "score" not in self.given:
            self.ask("ignore", "mostly_no_numbers", options=[", ".join(unread)], names=", ".join(unread))

    def _may_be_label(self, column: LogColumn) -> bool:
        """Return whether a column has the judge's grades, or is people's with few words that may be grades."""
        scores = [self.columns[name] for name in columns_in(self.entries.get("score"), self.columns)]
        if any(map(column.has_values_of, scores)):
            named_so = column.has("people") or is_label(column)
            return named_so or (column.kind in ("word", "name") and not column.roles)
        graded = column.has("people") and bool({"score", "verdict"} & set(column.roles))
        return graded and bool(scores) and column.kind == "word" and 1 < len(column.counts) <= _FEW_GRADES

    def reasons(self) -> dict[str, str]:
        """Return the columns without a role, and why."""
        named_in = (entry for name, entry in self.entries.items() if name != "ignore")
        used = {name for entry in named_in for name in columns_in(entry, self.columns)}
        rest = [column for name, column in self.columns.items() if name not in used | self.asked]
        self.aside |= {c.name: f"audit --cluster {c.name}, if related" for c in rest
                       if self._groups_questions(c)}  # fmt: skip
        return {column.name: self.aside.get(column.name) or _why_unused(column) for column in rest}

    def _groups_questions(self, column: LogColumn) -> bool:
        """Return whether a column is named as a question is, and has the same value for several questions."""
        question = self.columns.get(str(self.entries.get("context_id")))
        if question is None or column.role != "question" or column.is_constant or column.nested:
            return False
        return named.functional(question, column) and 2 * len(column.counts) <= len(question.counts)


def _why_unused(column: LogColumn) -> str:
    if column.kind == "empty":
        return "empty"
    why: dict[str, str] = named.aliases()["unused"]
    return next((why[role] for role in column.roles if role in why), "not used")


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
    columns = named.columns_of_rows(rows, SAMPLED)
    if absent := [name for name in given.get("ignore", ()) if name not in columns]:
        raise InputError("ignore", absent, f"columns of {source}: {', '.join(columns)}")
    for own in by_column({name: entry for name, entry in given.items() if name != "ignore"}):
        require_fields(rows, own)
    draft = SharedRoles(columns, dict(given))
    verdicts = draft.pair_verdicts()
    if verdicts is not None:
        draft.fill_pairs(verdicts)
    else:
        draft.fill_scores()
    draft.fill_common()
    draft.tell_rows_apart()
    draft.ask_about_others()
    return Proposal(source, draft.columns, draft.entries, tuple(draft.questions), draft.reasons())
