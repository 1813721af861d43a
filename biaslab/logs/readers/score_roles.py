"""Propose the roles of a log of scores: the judge's columns, people's, and their scales."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from biaslab.core.scales import scale_named
from biaslab.logs.readers import columns as named
from biaslab.logs.readers.cells import NUMERAL
from biaslab.logs.readers.columns import LogColumn
from biaslab.logs.readers.mapping import parse_expression
from biaslab.logs.readers.pair_roles import PairRoles
from biaslab.logs.readers.proposal import columns_in, fields_of, is_judged, is_label, listed
from biaslab.prompts.parsing import parse_score

_SCALES = ((0, 1), (1, 5), (1, 10), (0, 10), (1, 7), (0, 100), (1, 100))
_OUT_OF = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/|out of)\s*(\d+)\s*")
_NUMBERED = re.compile(r"(\[\d+\]|[_ .-]\d{1,2})$")  # names of one of several values in a list, or of a series
_READ, _MOSTLY = 200, 0.8  # replies that are read, and the share that must state a score
_LAST = {"pattern": r"(\w+)\W*$"}
_MOST_STEPS = 11  # different values of a column that may be a score without being named so
_NAMES = ("word", "name", "id", "number")  # kinds of columns that say who judged


class ScoreRoles(PairRoles):
    """The roles of a log of scores."""

    peers: tuple[LogColumn, ...] = ()  # columns of grades in words with one vocabulary

    def fill_scores(self) -> None:
        """Fill the entries of a log of scores, by a judge or by people."""
        scores, by_user = self._without_means(), bool({"score", "reply"} & set(self.given))
        if by_user:
            scores = [self.columns[n] for n in columns_in(self.given.get("score"), self.columns)]
        people = [c for c in self.free("people", first=False) if "derived" not in c.roles]
        people = [c for c in people if _is_one_grade(c, scores) or self._is_score(c)]
        scores, labels = (scores, []) if people or self.given else self._with_labels(scores)
        if len(scores) < 2 or all(named.is_model(column.name) for column in scores):
            self.peers = tuple(column for column in (*scores, *people, *labels) if column.kind != "number")
        self._give_numbers()
        if by_user:
            scores = scores or self._stated(self.given.get("reply"))
        elif scores:
            self._fill_score(scores)
        else:
            scores = self._ask_for_score(people)
        self._fill_person(scores, people)
        self._fill_scale(scores)
        if people and scores and self.is_open("ratings") and "human" not in self.given:
            self._fill_ratings(scores, people)
        if labels and self.is_open("ratings"):
            self.ask("ratings", "are_peoples", labels, [self._labels(labels)])
            self._fill_scale_of_people(scores[0], labels)
        self._ask_what_is_bad("score", scores, people)
        self._ask_what_is_bad("ratings", people, scores)

    def _ask_what_is_bad(self, entry: str, columns: Sequence[LogColumn], others: Sequence[LogColumn]) -> None:
        """Ask whether "yes" is a fail in a column named after what is bad, if others are named after what is good."""
        bad = [column for column in columns if named.is_defect(column)]
        if not bad or entry in self.given or not (entry in self.entries or self.is_open(entry)):
            return
        good = set(named.aliases()["grades"]["opposite"][1])
        if not any(other.kind == "word" or good & set(other.words) for other in others):
            return
        values = dict.fromkeys(value for column in bad for value in column.counts)
        fails = {value: str(int(value.lower() not in named.YES)) for value in values}
        where = {"fields": [c.name for c in columns]} if entry == "ratings" else {"field": bad[0].name}
        options = [{**where, "values": meaning} for meaning in (fails, {v: str(1 - int(n)) for v, n in fails.items()})]
        self.entries.pop(entry, None)
        yes = next(value for value, number in fails.items() if number == "0")
        self.ask(entry, "is_fail", bad, options if len(bad) == len(columns) else (), value=yes)

    def _without_means(self) -> list[LogColumn]:
        """Return the judge's columns of scores without means of others, which are set aside."""
        everything = self._without_repeats(self._scores())
        derived = [column for column in everything if "derived" in column.roles]
        scores = [column for column in everything if column not in derived]
        for column in [*derived, *scores]:
            others = [other for other in scores if other is not column and other.kind == "number"]
            shown = column in derived or set(named.tokens(named.last_part(column.name))) <= named.alias_words("general")
            if column.kind == "number" and len(others) >= 2 and shown and named.is_mean(column, others):
                self.aside[column.name] = f"the mean of {listed(others)}"
                scores = [other for other in scores if other is not column]
        return scores or [column for column in derived if column.name not in self.aside]

    def _fill_score(self, scores: Sequence[LogColumn]) -> None:
        """Fill the score, or ask which of several columns it is."""
        if alike := self._like_scores(scores):
            own = fields_of(scores) if len(scores) > 1 else scores[0].name
            self.ask("score", "also_scores", alike, [fields_of([*scores, *alike]), own])
        elif len(scores) == 1:
            self.settle("score", self._graded(scores[0]))
        elif all(_NUMBERED.search(column.name) for column in scores):
            self.settle("score", fields_of(scores))
            repeated = {column.name: f"={place}" for place, column in enumerate(scores)}
            self.ask("replicate", "repetitions", scores, [repeated])
        elif self._name_judges_or_criteria(scores):
            self._settle_scores(scores)
        else:
            self.ask("score", "which_score", scores, map(self._graded, scores))

    def _with_labels(self, scores: list[LogColumn]) -> tuple[list[LogColumn], list[LogColumn]]:
        """Return the judge's columns and those of labels by somebody else, if their names say so."""
        judged = [column for column in scores if is_judged(column)]
        labels = [c for c in self.columns.values() if c not in judged and is_label(c)]
        labels = [c for c in labels if c in scores or _is_one_grade(c, judged)]
        return (judged, labels) if judged and labels and set(scores) <= {*judged, *labels} else (scores, [])

    def _give_numbers(self) -> None:
        """Add the numbers of grades to what the user maps to columns of words."""
        for entry in {"score", "ratings", "human"} & set(self.given):
            expression = self.given[entry]
            plain = isinstance(expression, str) or set(expression) == {"fields"}
            columns = [self.columns[name] for name in columns_in(expression, self.columns)] if plain else []
            if columns and all(c.kind != "number" and self._grades(c) is not None for c in columns):
                several = entry == "ratings" or len(columns) > 1
                self.entries[entry] = self._labels(columns) if several else self._graded(columns[0])

    def _grades(self, column: LogColumn) -> dict[str, str] | None:
        """Return the numbers of a column's grades: as the user gives them, or of the vocabulary of judge and people."""
        own = {**column.counts, **dict.fromkeys(column.rare)}
        given = parse_expression("score", self.given["score"]).values if "score" in self.given else None
        if given and set(own) <= set(given):
            return {value: given[value] for value in own}
        shared = named.grade_values(column, *(each for each in self.peers if each is not column))
        return {value: n for value, n in shared.items() if value in own} if shared else named.grade_values(column)

    def _graded(self, column: LogColumn) -> Any:
        """Return the expression of a column of scores, with the numbers of grades in words."""
        grades = None if column.kind == "number" else self._grades(column)
        return column.name if grades is None else {"field": column.name, "values": grades}

    def _labels(self, people: Sequence[LogColumn]) -> Any:
        """Return the expression of people's scores."""
        grades = [self._grades(column) or {} for column in people if column.kind != "number"]
        return fields_of(people, {value: number for own in grades for value, number in own.items()})

    def _observed(self, column: LogColumn) -> tuple[str, bool]:
        """Return the observed range as a scale, and whether it is a usual one."""
        if column.kind == "number":
            return _observed(column.numbers)
        shared = named.grade_values(column, *self.peers) if column in self.peers else None
        return _of_grades((shared or self._grades(column) or {}).values())

    def _stated(self, reply: Any) -> list[LogColumn]:
        """Return a column with the scores that a judge's replies state, if most of them state one on a usual scale."""
        column = self.columns.get(str(reply))
        known = [] if column is None else column.known[:_READ]
        best: list[float] = []
        for low, high in _SCALES:
            scores = [parse_score(text, scale_named(f"{low}-{high}"))[0] for text in known]
            stated = [score for score in scores if score == score]
            best = stated if len(stated) > len(best) else best
        if len(best) < _MOSTLY * len(known) or not 1 < len(set(best)) <= _MOST_STEPS:
            return []
        return [LogColumn(str(reply), tuple(f"{score:g}" for score in best))]

    def _like_scores(self, scores: Sequence[LogColumn]) -> list[LogColumn]:
        """Return unnamed columns of numbers with the range of a score."""
        ranges = {self._observed(column)[0] for column in scores if column.kind == "number"}
        unnamed = [c for c in self.free("", kinds=("number",)) if not c.is_plain and 2 < len(c.counts) <= _MOST_STEPS]
        return [column for column in unnamed if self._observed(column)[0] in ranges]

    def _ask_for_score(self, people: Sequence[LogColumn]) -> list[LogColumn]:
        """Ask for the judge's score, or take the reply; return a column of the scores that replies state."""
        replies = self._replies()
        numbers = [c for c in self.unused if c.kind in ("number", "flag") and not c.has("people") and not c.is_plain]
        numbers = [c for c in numbers if c.role not in ("covariate", "ignore", "question", "replicate", "system")]
        texts = self.free("score", "verdict", "reply", kinds=("word", "name", "id", "text"))
        shares = [c for c in texts if all(_OUT_OF.fullmatch(value) for value in c.known)]
        if len(shares) == 1:
            tops = {_OUT_OF.fullmatch(value)[2] for value in shares[0].known}  # type: ignore[index]
            self.settle("score", {"field": shares[0].name, "pattern": r"^\s*([\d.]+)"})
            self.ask("scale", "out_of", shares, [f"=1-{top}" for top in tops], tops=", ".join(sorted(tops)))
            return []
        if not numbers and (stating := self._fill_reply(replies)):
            return stating
        if len(replies) == 1 and not numbers and any(sign.isdigit() for text in replies[0].known for sign in text):
            self.settle("reply", replies[0].name)
            return replies
        if people and not numbers and (unclear := self._graded_columns()):
            self.ask("score", "may_be_judges", unclear, map(self._graded, unclear))
            self.settle("ratings", self._labels(people))
        elif people and not numbers and len({frozenset(column.criteria) for column in people}) > 1:
            self.ask("ratings", "which_criterion", people)
        elif people and not numbers and (judged := [c for c in self._prose() if {"judge", "reply"} & set(c.roles)]):
            self.ask("reply", "is_reply", judged)
            return judged
        elif people and not numbers:
            self.settle("ratings", self._labels(people))
        elif texts and texts[0].kind == "word" and len(texts[0].counts) == 2:
            one, two = texts[0].counts
            orders = ({one: "0", two: "1"}, {two: "0", one: "1"})
            options = [{"field": texts[0].name, "values": values} for values in orders]
            self.ask("score", "is_better", texts[:1], options, one=one, two=two)
            return texts[:1]
        elif len(texts) == 1 and not numbers and is_label(texts[0]) and len(texts[0].counts) <= _MOST_STEPS:
            example = ", ".join(f"{value} -> NUMBER" for value in texts[0].counts)
            self.ask("score", "number_of_each", texts, (), example=example)
        else:
            self.ask("score", "which_score_or_verdict", [*numbers, *texts])
            return numbers[:1] if len(numbers) == 1 else []
        return []

    def _fill_reply(self, replies: Sequence[LogColumn]) -> list[LogColumn]:
        """Fill the reply, or ask for it, and return the scores that it states; none if no texts state any."""
        texts = [column for column in self._prose() if column.role != "question"]
        texts = list(replies) or (texts if len(texts) > 1 else [])
        stating = [column for text in texts for column in self._stated(text.name)]
        last = [column for column in texts if self._last_words(column) is not None]
        if len(stating) == 1 and replies:
            self.settle("reply", stating[0].name)
        elif stating:
            self.ask("reply", "states_scores", stating)
        elif last:
            options = [{**_LAST, "field": column.name, "values": self._last_words(column)} for column in last]
            self.ask("score", "last_word", last, options)
        return stating or last

    def _last_words(self, reply: LogColumn) -> dict[str, str] | None:
        """Return the numbers of the grades with which replies end; None if they do not."""
        words = [match[1] if (match := re.search(_LAST["pattern"], text)) else "" for text in reply.known]
        return self._grades(LogColumn(reply.name, tuple(words))) if len(set(words)) > 1 else None

    def _graded_columns(self) -> list[LogColumn]:
        """Return the unused columns of grades in words that no name gives to people."""
        others = ("covariate", "ignore", "derived")
        words = [c for c in self.unused if c.kind in ("word", "flag", "name") and c.role not in others]
        return [column for column in words if not column.has("people") and named.grade_values(column) is not None]

    def _name_judges_or_criteria(self, scores: Sequence[LogColumn]) -> bool:
        """Return whether all columns of scores are named after judges, or after criteria."""
        shared = set.intersection(*(set(column.words) for column in scores))
        by_criterion = [bool(column.criteria or "overall" in column.words) for column in scores]
        by_model = [named.is_model(column.name) for column in scores]
        rest = [tuple(word for word in column.words if word not in shared) for column in scores]
        scored = bool(shared & (named.alias_words("score") | named.alias_words("scored")))
        one_kind = all(len(set(map(kind, scores))) == 1 for kind in (is_label, is_judged))
        alike = scored and len(set(rest)) == len(rest) and one_kind and all(rest) and not any(by_model)
        plain = [column for column, one in zip(scores, by_criterion, strict=True) if not one]
        general = len(plain) == 1 and set(plain[0].words) <= {"score", "rating", "grade", "total"}
        return all(by_model) or all(by_criterion) or alike or (general and len(scores) > 2)

    def _settle_scores(self, scores: Sequence[LogColumn]) -> None:
        words = [column for column in scores if column.kind != "number"]
        if words and len(words) < len(scores):
            numbers = [column.name for column in scores if column.kind == "number"]
            self.ask("score", "words_and_numbers", scores, [numbers])
            return
        options = [self._graded(column) for column in scores]
        if words and len({tuple(option["values"].items()) for option in options}) > 1:
            self.ask("score", "different_grades", scores, options)
            return
        self._settle_several("score", scores, options)

    def _fill_person(self, scores: Sequence[LogColumn], people: Sequence[LogColumn]) -> None:
        """Take scores as people's if a column says whose they are and nothing names a judge."""
        persons = [c for c in self.free("people", first=False) if c.has("person") and not self._is_score(c)]
        persons = [c for c in persons if c.kind in _NAMES and set(c.words) <= named.person_words()]
        by_name = any(named.is_model(column.name) or column.has("judge") for column in scores)
        judged = bool(self.free("judge") or people or by_name or "judge" in self.given)
        if not persons or "person" in self.given:
            return
        models = [column for column in persons if sum(map(named.is_model, column.counts)) >= 0.5 * len(column.counts)]
        rated = any(map(persons[0].has_values_of, scores))
        if not judged and len(models) == len(persons) == 1 and all(map(named.is_model, models[0].counts)) and scores:
            self.settle("judge", models[0].name)
        elif not (judged or models or rated) and len(persons) == 1 and scores:
            self.settle("person", persons[0].name)
        else:
            self.ask("person", "which_person_scored", persons)

    def _fill_scale(self, scores: Sequence[LogColumn]) -> None:
        """Fill the scale if the observed range is a usual one; ask otherwise."""
        if "scale" in self.entries:
            return
        if not ({"score", "ratings"} & set(self.entries) or any(column.numbers for column in scores)):
            if "reply" in self.entries:
                self.ask("scale", "judges_scale", options=[f"={low}-{high}" for low, high in _SCALES[:3]])
            else:
                self._fill_scale_of_options()
            return
        if "score" in self.given and (meanings := parse_expression("score", self.given["score"]).values):
            scores = [LogColumn("score", tuple(meanings.values()))]
        scores = [column for column in scores if column.numbers or self._grades(column) is not None]
        if not scores and "score" in self.entries:
            self.ask("scale", "scale_of_scores")
        if ranges := self._ranges(scores):
            self._fill_scale_of_ranges(ranges, by_value=len(scores) == 1)

    def _fill_scale_of_ranges(self, ranges: Mapping[str, tuple[str, bool]], *, by_value: bool) -> None:
        """Fill the scale, or ask for it, from the range of each column, or of each criterion of one column."""
        ends = {name: scale for name, (scale, _) in ranges.items()}
        option: Any = ends
        if len(set(ends.values())) == 1:
            option = next(iter(ends.values()))
        elif by_value:
            scales = {value: scale.removeprefix("=") for value, scale in ends.items()}
            option = {"field": self._criterion(), "values": scales}
        if "person" in self.entries or all(is_usual for _, is_usual in ranges.values()):
            self.settle("scale", option)
        else:
            self.ask("scale", "scale_of_range", options=[option])

    def _fill_scale_of_options(self) -> None:
        """Fill or ask for the scale of a score that is asked about, in the same round."""
        asked = next((question for question in self.questions if question.entry == "score"), None)
        found: dict[str, bool] = {}
        for option in asked.options if asked is not None else ():
            columns = [self.columns[name] for name in columns_in(option, self.columns)]
            grades = option.get("values") if isinstance(option, Mapping) else None
            ranges = [self._observed(column) for column in columns if column.numbers]
            found |= dict([_of_grades(grades.values())] if grades else ranges)
        if len(found) == 1 and all(found.values()):
            self.settle("scale", next(iter(found)))
        elif found:
            self.ask("scale", "scale_of_score", options=found)

    def _criterion(self) -> str | None:
        found = self.free("criterion", kinds=("word", "name"), varied=True)
        return found[0].name if len(found) == 1 else None

    def _ranges(self, scores: Sequence[LogColumn]) -> dict[str, tuple[str, bool]]:
        """Return the range of each column of scores, or of each criterion of a long table."""
        name, score = self._criterion(), next(iter(scores), None)
        if name is None or score is None or len(scores) > 1 or score.kind != "number":
            return {column.name: self._observed(column) for column in scores}
        values: dict[str, list[float]] = {}
        for criterion, value in zip(self.columns[name].values, score.values, strict=True):
            if criterion is not None and value is not None and NUMERAL.fullmatch(value):
                values.setdefault(criterion, []).append(float(value))
        ranges = {criterion: _observed(numbers) for criterion, numbers in values.items()}
        return ranges or {score.name: self._observed(score)}

    def _fill_ratings(self, scores: Sequence[LogColumn], people: Sequence[LogColumn]) -> None:
        """Fill people's scores: of the same criterion, if there are several."""
        of = {one.name: [c for c in people if one.criteria & c.criteria] for one in scores}
        if len(scores) == 1 or (all(named.is_model(one.name) for one in scores) and not any(of.values())):
            self.settle("ratings", self._labels(people))
        elif {column.name for own in of.values() for column in own} == {column.name for column in people}:
            self.settle("ratings", {name: self._labels(own) for name, own in of.items() if own})
        else:
            options = [{one.name: fields_of([person])} for person in people for one in scores]
            self.ask("ratings", "whose_scores", scores, options)
            self.aside |= {column.name: "open" for column in people}
            return
        self._fill_scale_of_people(scores[0], people)

    def _fill_scale_of_people(self, score: LogColumn, people: Sequence[LogColumn]) -> None:
        """Ask for people's scale if their scores end another usual scale, or lie outside the judge's."""
        if not self.is_open("human_scale"):
            return
        shared = score.kind != "number" and named.grade_values(score, *self.peers) is not None
        own = [column for column in people if column.kind == "number" or not shared]
        numbers = [float(n) for column in own for n in column.numbers or (self._grades(column) or {}).values()]
        asked = [each.options[0] for each in self.questions if each.entry == "scale" and each.options]
        scale = self.entries.get("scale", asked[0] if asked else self._observed(score)[0])
        ends = re.fullmatch(r"=(-?[\d.]+)-(-?[\d.]+)", scale) if isinstance(scale, str) else None
        if ends is None:
            return
        low, high = float(ends[1]), float(ends[2])
        theirs, is_usual = _observed(numbers) if numbers else (scale, False)
        inside = bool(numbers) and low <= min(numbers) and max(numbers) <= high
        if theirs != scale and is_usual and not any(column.numbers for column in own):
            self.settle("human_scale", theirs)
        elif theirs != scale and (is_usual or not inside) and numbers:
            self.ask("human_scale", "scale_of_people", options=[theirs, *([scale] if inside else [])])


def _is_one_grade(column: LogColumn, scores: Sequence[LogColumn]) -> bool:
    """Return whether all values are one of the judge's grades."""
    constant = bool(column.known) and column.is_constant
    return constant and any(s.kind != "number" and named.grade_values(s, column) is not None for s in scores)


def _of_grades(numbers: Iterable[str]) -> tuple[str, bool]:
    """Return the range of the numbers of grades as a scale, and whether they are fail and pass."""
    values = set(map(float, numbers))
    return f"={min(values, default=0):g}-{max(values, default=1):g}", values == {0.0, 1.0}


def _observed(numbers: Sequence[float]) -> tuple[str, bool]:
    """Return the observed range of numbers as a scale, and whether it is a usual one."""
    low, high = min(numbers), max(numbers)
    if low < 0:
        return "=reward", False
    if (low, high) in _SCALES:
        return f"={low:g}-{high:g}", True
    if low == high or low % 1 or high % 1 or high > _MOST_STEPS:
        low, high = next(((a, b) for a, b in _SCALES if a <= low and high <= b), (low, high))
    return f"={low:g}-{high:g}", False
