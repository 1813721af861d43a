"""Propose the roles of a log of scores: the judge's columns, people's, and their scales."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.logs.readers import columns as named
from biaslab.logs.readers.columns import LogColumn
from biaslab.logs.readers.draft import alias_and_plain, listed
from biaslab.logs.readers.expressions import parse_expression
from biaslab.logs.readers.pair_roles import PairRoles
from biaslab.logs.readers.proposal import columns_in

_SCALES = ((0, 1), (1, 5), (1, 10), (0, 10), (1, 7), (0, 100), (1, 100))
_OUT_OF = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/|out of)\s*(\d+)\s*")
_MOST_STEPS = 11  # different values of a column that may be a score without being named so
_GENERAL = {"score", "rating", "grade", "overall", "final", "total", "quality"}


class ScoreRoles(PairRoles):
    """The roles of a log of scores."""

    def fill_scores(self) -> None:
        """Fill the entries of a log of scores, by a judge or by people."""
        everything = self._without_repeats(self._scores())
        derived = [column for column in everything if "derived" in column.roles]
        scores = [column for column in everything if column not in derived]
        for column in [*derived, *scores]:
            others = [other for other in scores if other is not column and other.kind == "number"]
            shown = column in derived or set(named.tokens(named.last_part(column.name))) <= _GENERAL
            if column.kind == "number" and len(others) >= 2 and shown and named.is_mean(column, others):
                self.aside[column.name] = f"the mean of {listed(others)}"
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
                "score", f"{listed(alike)} may be scores too", both, {"fields": names} if len(names) > 1 else names[0]
            )
        elif len(scores) == 1:
            self.settle("score", _graded(scores[0]))
        elif len(scores) > 1 and all(_is_numbered(column.name) for column in scores):
            self.settle("score", {"fields": [column.name for column in scores]})
            repeated = {column.name: f"={place}" for place, column in enumerate(scores)}
            why = f"are {listed(scores)} repetitions? If they are judges or criteria, map judge or attribute instead"
            self.ask("replicate", why, repeated)
        elif scores and self._name_judges_or_criteria(scores):
            self._settle_scores(scores)
        elif scores:
            options = [_graded(column) for column in scores]
            self.ask("score", f"which of {listed(scores)} is the judge's score?", *options)
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
            column
            for column in free
            if column.kind == "number"
            and 2 < len(column.counts) <= _MOST_STEPS
            and _observed(column)[0] in ranges
            and not set(column.words) <= set(named.aliases()["plain"]["words"])
        ]

    def _ask_for_score(self, people: Sequence[LogColumn]) -> None:
        replies = self._replies()
        numbers = [
            column
            for column in self.columns.values()
            if column.kind in ("number", "flag")
            and column.name not in self.used
            and not column.has("people")
            and column.roles[:1] not in (("covariate",), ("ignore",), ("question",), ("replicate",), ("system",))
            and not set(column.words) <= set(named.aliases()["plain"]["words"])
        ]
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
            why = f"{listed(unclear)} may be the judge's; delete this line if only people judged"
            self.ask("score", why, *(_graded(column) for column in unclear), required=False)
            self.settle("ratings", _listed_labels(people))
        elif people and not numbers and len({frozenset(_criteria_of(column)) for column in people}) > 1:
            why = f"{listed(people)} are people's scores of different criteria; which are of one?"
            self.ask("ratings", why, *(column.name for column in people))
        elif people and not numbers:
            self.settle("ratings", _listed_labels(people))
        elif texts and texts[0].kind == "word" and len(texts[0].counts) == 2:
            one, two = texts[0].counts
            self.ask(
                "score",
                f"which of {one} and {two} in {texts[0].name} is better?",
                *(
                    {"field": texts[0].name, "values": {worse: "0", better: "1"}}
                    for worse, better in ((one, two), (two, one))
                ),
            )
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
            if name not in self.used
            and not column.has("people")
            and column.kind in ("word", "flag", "name")
            and named.grade_values(column) is not None
            and column.roles[:1] not in (("covariate",), ("ignore",), ("derived",))
        ]

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
            self.ask(
                "score",
                f"{listed(scores)} are grades in words and numbers; map one kind",
                [column.name for column in scores if column.kind == "number"],
            )
            return
        options = [_graded(column) for column in scores]
        if words and len({tuple(option["values"].items()) for option in options}) > 1:
            self.ask("score", f"{listed(scores)} have different grades; map one of them", *options)
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
        if not judged and len(models) == len(persons) == 1 and all(map(named.is_model, models[0].counts)) and scores:
            self.settle("judge", models[0].name)
        elif not judged and not models and len(persons) == 1 and scores:
            self.settle("person", persons[0].name)
        else:
            self.ask(
                "person",
                f"{listed(persons)} may say which person gave a score",
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
        if "score" in self.given and (meanings := parse_expression("score", self.given["score"]).values):
            scores = [LogColumn("score", tuple(meanings.values()))]
        scores = [column for column in scores if column.numbers or named.grade_values(column) is not None]
        if not scores and entry == "scale" and "score" in self.entries:
            self.ask(entry, "on which scale are the scores?")
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
                options = [{one.name: {"fields": [person.name]}} for person in people for one in scores]
                why = f"which people's scores belong to which of {listed(scores)}?"
                self.ask("ratings", why, *options, required=False)
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
        ends = re.fullmatch(r"=(-?[\d.]+)-(-?[\d.]+)", scale) if isinstance(scale, str) else None
        if ends is None:
            return
        low, high = float(ends[1]), float(ends[2])
        theirs, is_usual = _observed(LogColumn("people", tuple(map(str, numbers)))) if numbers else (scale, False)
        inside = bool(numbers) and low <= min(numbers) and max(numbers) <= high
        if theirs != scale and (is_usual or not inside) and numbers:
            self.ask(
                "human_scale",
                "people's scores end another scale than the judge's",
                theirs,
                *([scale] if inside else []),
            )


def _criteria_of(column: LogColumn) -> set[str]:
    """Return the words of a name that are criteria."""
    return set(column.words) & set(named.aliases()["criteria"]["words"])


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


def _is_numbered(name: str) -> bool:
    """Return whether a number ends the name of a column: one of several values in a list, or of a series."""
    return re.search(r"(\[\d+\]|[_ .-]\d{1,2})$", name) is not None
