"""Propose the roles of a log of pairs: the two candidates, the verdict, the order shown, people's verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from biaslab.logs.readers import columns as named
from biaslab.logs.readers.columns import LogColumn, Meanings, SidePair
from biaslab.logs.readers.proposal import RoleDraft, columns_in, is_judged, is_label, listed, shares

_ORDERS, _FLAGS = ({"ab", "ba"}, {"original", "swapped"}), ({"true", "false"}, {"0", "1"})
_TURNED = ("ba", "swapped", "true", "1")  # values for the other order
_EXCHANGED = {"first": "second", "second": "first"}
_COLUMNS = {"first": "candidate", "second": "opponent"}  # regardless of the order shown


#: Columns of candidates, those of verdicts on two candidates, and the two columns of verdicts in either order.
PairVerdicts = tuple[list[SidePair], list[LogColumn], tuple[str, str] | None]


class PairRoles(RoleDraft):
    """The roles of a log of pairs."""

    def pair_verdicts(self) -> PairVerdicts | None:
        """Return the columns of candidates and those of verdicts on two candidates; None if the log has no pairs."""
        pairs = self._candidates()
        words = [c for c in self.columns.values() if c.kind not in ("text", "object", "empty") and not c.has("people")]
        both = named.both_orders(column.name for column in words)
        if {"opponent_id", "winner", "p_first"} & set(self.given):
            return pairs, self._verdicts(pairs), both if "winner" not in self.given else None
        if {"score", "scale"} & set(self.given):
            return None
        verdicts = self._verdicts(pairs)
        if both is not None and (pairs or self._is_verdict(self.columns[both[0]], pairs)):
            return pairs, [self.columns[both[0]]], both
        if verdicts and (pairs or any(self._names_sides(column) for column in verdicts)):
            return pairs, verdicts, None
        replies, beside = self._replies(), self._side_scores()
        scored = [column for column in self._scores() if beside is None or column.name not in beside.names]
        if pairs and (beside is not None or (replies and not scored) or self._probabilities()):
            return pairs, [], None
        if pairs and len(scored) == 1 and scored[0].kind == "number" and not self.free("system"):
            return pairs, scored, None  # degrees of preference
        return (pairs, [], None) if pairs and not scored and self._unnamed_verdicts(self.columns.values()) else None

    def _unnamed_verdicts(self, columns: Iterable[LogColumn]) -> list[LogColumn]:
        """Return columns of words for a side whose names say nothing."""
        return [c for c in columns if c.kind == "word" and not c.roles and named.verdict_meanings(c, None) is not None]

    def _candidates(self) -> list[SidePair]:
        """Return the pairs of columns that hold two candidates: systems before texts."""
        pairs = []
        for pair in named.side_pairs(self.columns):
            one, two = pair.first, pair.second
            if one.is_empty or two.is_empty or one.has("people"):
                continue
            if "verdict" in pair.roles and set(one.counts) <= {"0", "1"}:
                continue
            alike = one.kind in ("word", "name") and set(one.counts) & set(two.counts) and not pair.roles
            unnamed = not pair.stem and one.kind in ("word", "name", "id", "text")
            unnamed = unnamed and not named.verdict_meanings(one, None)
            named_so = pair.role in ("system", "text") or set(pair.stem) & named.alias_words("conversations")
            if named_so or unnamed or alike:
                pairs.append(pair)
        return sorted(pairs, key=lambda pair: (self._is_text(pair), pair.role not in ("", "system")))

    def _winning_flags(self) -> SidePair | None:
        """Return the pair of columns that flag which of two candidates won: 1 for one, 0 for the other or both."""
        for pair in named.side_pairs(self.columns):
            one, two = pair.first, pair.second
            rows = zip(one.values, two.values, strict=True)
            if "verdict" in pair.roles and {*one.counts, *two.counts} == {"0", "1"} and ("1", "1") not in rows:
                return None if {*pair.names} & self.used or one.has("people") else pair
        return None

    def _is_text(self, pair: SidePair) -> bool:
        return pair.role == "text" or pair.first.kind in ("text", "object")

    def _names_sides(self, column: LogColumn) -> bool:
        """Return whether the words of a column name both sides, so that it is a verdict even without candidates."""
        meanings = named.verdict_meanings(column, None) or {}
        named_so = column.role == "verdict" or named.is_model(column.name)
        return {"first", "second"} <= set(meanings.values()) and column.kind != "number" and named_so

    def _side_scores(self) -> SidePair | None:
        """Return the pair of columns of scores of two candidates."""
        for pair in named.side_pairs(self.columns):
            compares = pair.role == "score" or "rank" in pair.stem
            if compares and pair.first.kind == "number" and pair.first.name not in self.used:
                return pair
        return None

    def _probabilities(self) -> Any:
        """Return the expression of the probability that the candidate shown first wins, or None."""
        known = named.alias_words("probabilities").union(*named.sides())
        for column in self.free("probability", first=False):
            if column.has("people") or not set(column.words) <= known:
                continue
            if column.kind == "number" and 0 <= min(column.numbers) <= max(column.numbers) <= 1:
                sides = (side for pair in named.sides() for side in enumerate(pair))
                places = {place for place, word in sides if word in column.words}
                if len(places) == 1:
                    return column.name if places == {0} else {"field": column.name, "values": {"0": "1", "1": "0"}}
        return None

    def fill_pairs(self, found: PairVerdicts) -> None:
        """Fill the entries of a log of pairs."""
        pairs, verdicts, both = found
        pair = self._choose_candidates(pairs, verdicts)
        if both is not None:
            self._fill_both_orders(pair, both)
        elif self.is_open("winner") and not {"p_first", "reply"} & set(self.given):
            self._fill_verdict(pair, verdicts)
        if both is None:
            self._fill_order(pair)
            self._ask_places()
        self._ask_about_third(pair)
        systems = self.free("system", kinds=("word", "name"), varied=True)
        if systems and self.is_open("judge") and not any(map(self._is_judge, self.columns.values())):
            self.ask("judge", "is_judge", systems[:1])
        self._fill_preference(pair, several=len(verdicts) > 1)

    def _fill_preference(self, pair: SidePair | None, *, several: bool) -> None:
        """Fill people's verdicts from their columns."""
        labels = [c for c in self.free("people", first=False) if c.kind not in ("text", "object", "empty")]
        worded = [c for c in labels if named.verdict_meanings(c, pair) is not None and "derived" not in c.roles]
        labels = [c for c in labels if c in worded or self._names_candidates(c, pair)]
        if labels and self.is_open("preference"):
            options = [self._meaning(column, pair) for column in labels]
            plain = all(not isinstance(option, Mapping) for option in options)
            if several and all({"majority"} == set(c.words) & named.alias_words("people") for c in labels):
                self.ask("preference", "people_or_judges", labels, options)
            elif len(labels) == 1 or plain:
                self.settle("preference", options[0] if len(labels) == 1 else [column.name for column in labels])
            else:
                self.ask("preference", "which_labels", options=options)

    def _ask_about_third(self, pair: SidePair | None) -> None:
        if pair is None:
            return
        others = {"a": ("c",), "0": ("2",), "1": ("3", "0"), "first": ("third",)}
        names = {column.words: column.name for column in self.columns.values()}
        for third in others.get(pair.side_words[0], ()):
            own = tuple(third if word == pair.side_words[0] else word for word in pair.first.words)
            if own in names:
                self.ask("opponent", "third_candidate", third=names[own])

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
            self.ask("candidate_id", "which_candidates", options=[one.first.name for one in systems])
            self.ask("opponent_id", "which_candidates", options=[one.second.name for one in systems])
        else:
            self.settle("candidate_id", pair.first.name)
            self.settle("opponent_id", pair.second.name)
            for other in systems[1:]:
                self.aside |= dict.fromkeys(other.names, f"goes with {', '.join(pair.names)}")
        given_text = {"text", "opponent_text"} & set(self.given)
        if texts and not given_text and texts[0].first.is_wordy(named_apart=bool(systems)):
            self.settle("text", texts[0].first.name)
            self.settle("opponent_text", texts[0].second.name)
        if pair is not None and pair.side_words == ("chosen", "rejected"):
            self.settle("preference", "=first")
            self.settle("order_known", "=false")
        return pair

    def _agree(self, pairs: Sequence[SidePair]) -> bool:
        """Return whether pairs of columns name the same candidates, as identifiers and names do."""
        head, *others = pairs
        twins = [(head.first, pair.first) for pair in others] + [(head.second, pair.second) for pair in others]
        return all(named.functional(one, other) and named.functional(other, one) for one, other in twins)

    def _readings(self, column: LogColumn, pair: SidePair | None) -> list[Any]:
        """Return the possible expressions of a column of verdicts."""
        words = named.verdict_readings(column, pair)
        options: list[Any] = [{"field": column.name, "values": meanings} for meanings in words]
        if not self._names_candidates(column, pair):
            return options or [column.name]
        ties = {v: "tie" for v in column.counts if named.side_of(v) == "tie" and v.strip().lower() != "tie"}
        by_name: Any = column.name
        if ties:
            by_name = {"field": column.name, "values": {value: ties.get(value, value) for value in column.counts}}
        both = any({"first", "second"} <= set(meanings.values()) for meanings in words)
        return [by_name, *options] if both else [by_name]

    def _exchanged(self, options: Sequence[Any], pair: SidePair | None) -> list[Any]:
        """Add the other meaning of places if the user named the candidates in another order than their columns."""
        given = self.given.get("candidate_id")
        if pair is None or given in (None, pair.first.name) or len(options) != 1 or not isinstance(options[0], Mapping):
            return list(options)
        return [options[0], _renamed(options[0], _EXCHANGED)]

    def _meaning(self, column: LogColumn, pair: SidePair | None) -> Any:
        return self._readings(column, pair)[0]

    def _fill_verdict(self, pair: SidePair | None, verdicts: Sequence[LogColumn]) -> None:
        verdicts = self._without_repeats(verdicts)
        if (flags := self._winning_flags()) is not None:
            self.settle("winner", " > ".join(flags.names))
            ties = [column for column in self.unused if "tie" in column.words and column.has("verdict")]
            self.aside |= {column.name: "neither of the two won" for column in ties}
            return
        compared, replies, likely = self._side_scores(), self._replies(), self._probabilities()
        if verdicts:
            self._fill_verdicts(pair, verdicts)
            if compared is not None:
                self.aside |= dict.fromkeys(compared.names, "scores of each candidate; the verdict is another column")
            if len(replies) == 1 and self.is_open("reply"):
                self.aside[replies[0].name] = "the judge's words; the verdict is another column"
        elif likely:
            self.settle("p_first", likely)
        elif compared is not None:
            ranks = -1 if "rank" in compared.stem else 1  # the first is the best
            self.ask("winner", "scores_of_both", compared[:2], [" > ".join(compared.names[::ranks])])
        elif len(replies) == 1:
            self.settle("reply", replies[0].name)
        else:
            options = [self._meaning(column, pair) for column in self._unnamed_verdicts(self.unused)]
            self.ask("winner", "which_verdict", options=[*options, *(reply.name for reply in replies)])

    def _fill_verdicts(self, pair: SidePair | None, verdicts: Sequence[LogColumn]) -> None:
        """Fill the verdict from one column, or several that differ by judge, criterion or order; ask otherwise."""
        labels = [column for column in verdicts if is_label(column) and not is_judged(column)]
        if labels and len(labels) < len(verdicts) and self.is_open("preference"):
            verdicts = [column for column in verdicts if column not in labels]
            options = [self._meaning(column, pair) for column in labels]
            self.ask("preference", "labels_and_verdicts", labels, options, verdicts=listed(verdicts))
        several = self._differ_in_name(verdicts) and all(len(self._readings(c, pair)) == 1 for c in verdicts)
        if len(verdicts) == 1:
            self._fill_one_verdict(verdicts[0], pair)
        elif several:
            self._settle_several("winner", verdicts, [self._meaning(column, pair) for column in verdicts])
        elif len(verdicts) == 2 and _differ_in_number(verdicts):
            self.settle("winner", self._meaning(verdicts[0], pair))
            there = self._meaning(verdicts[1], pair)
            options = [there, _renamed(there, _COLUMNS)] if isinstance(there, Mapping) else [there]
            self.ask("winner_swapped", "other_order", verdicts[1:], options)
        else:
            options = [self._meaning(column, pair) for column in verdicts]
            self.ask("winner", "several_verdicts", verdicts, options)

    def _fill_one_verdict(self, column: LogColumn, pair: SidePair | None) -> None:
        if ends := shares(column):
            self.ask("p_first", "which_end", [column], ends)
            return
        options = self._exchanged(self._readings(column, pair), pair)
        replies = [reply for reply in self._replies() if reply is not column]
        if set(column.words) <= {"label", "labels"} and (column.kind == "number" or replies):
            other = f"; if it is, map reply to {listed(replies)} instead" if replies else ""
            self.ask("winner", "label_or_verdict", [column], options, other=other)
        elif "verdict" not in column.roles and column.kind == "number":
            self.ask("winner", "on_both", [column], options)
        elif len(options) == 1:
            self.settle("winner", options[0])
        else:
            self.ask("winner", "meaning", [column], options, values=", ".join(column.examples))

    def _fill_both_orders(self, pair: SidePair | None, both: tuple[str, str]) -> None:
        own, swapped = (self.columns[name] for name in both)
        here, there = self._meaning(own, pair), self._meaning(swapped, pair)
        self.settle("winner", here)
        if not isinstance(there, Mapping) or "shown" in swapped.words:
            self.settle("winner_swapped", there)
            return
        by_column = _renamed(there, _COLUMNS)
        sides = there["values"] | (here["values"] if isinstance(here, Mapping) else {})
        decided = self._decided(pair, own, swapped, sides)
        if decided is None:
            self.ask("winner_swapped", "place_or_column_swapped", [swapped], [there, by_column])
        else:
            self.settle("winner_swapped", there if decided else by_column)

    def _decided(self, pair: SidePair | None, own: LogColumn, swapped: LogColumn, meanings: Meanings) -> bool | None:
        """Return whether a combined verdict shows that the other order names places as shown; None if none shows it."""
        if pair is None:
            return None
        for column in self.columns.values():
            others = (own.name, swapped.name, *pair.names)
            if column.name in others or not self._names_candidates(column, pair, constant=True):
                continue
            fits = {True: 0, False: 0}
            columns = (column, own, swapped, pair.first, pair.second)
            rows = list(zip(*(each.values for each in columns), strict=True))
            for value, here, there, one, two in rows:
                a = {"first": one, "second": two}.get(meanings.get(here or "", ""))
                for shown, names in ((True, (two, one)), (False, (one, two))):
                    b = dict(zip(("first", "second"), names, strict=True)).get(meanings.get(there or "", ""))
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
            names_first = bool(set(column.words) & {"first", "shown"}) and self._names_candidates(column, pair)
            if "shown" not in column.roles and not names_first:
                continue
            if column.is_constant and column.known[0].lower() in ("false", "0"):
                self.aside[column.name] = "always the same order"
                continue
            if "verdict" in column.roles:
                continue
            plain = {value: "".join(filter(str.isalnum, value.lower())) for value in column.counts}
            values = set(plain.values())
            if self._names_candidates(column, pair):
                self.settle("shown_first", column.name)
            elif any(values <= known for known in (*_ORDERS, *(_FLAGS if column.has("swapped") else ()))):
                meaning = {value: str(word in _TURNED).lower() for value, word in plain.items()}
                is_flag = values <= _FLAGS[0]
                self.settle("swapped", column.name if is_flag else {"field": column.name, "values": meaning})
            else:
                self.ask("swapped", "shown_order", [column])

    def _ask_places(self) -> None:
        """Ask whether verdicts name places as shown or columns, if a column gives the order shown."""
        winner, has_order = self.entries.get("winner"), {"swapped", "shown_first"} & set(self.entries)
        if not has_order or "winner" in self.given or not isinstance(winner, Mapping) or "values" not in winner:
            return
        if not {"first", "second"} & set(winner["values"].values()):
            return
        verdicts = [self.columns[name] for name in columns_in(winner, self.columns)]
        self.aside |= {column.name: "open" for column in verdicts}
        del self.entries["winner"]
        self.ask("winner", "place_or_column", verdicts, [winner, _renamed(winner, _COLUMNS)])


def _renamed(expression: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the expression of a verdict with other names of the two sides."""
    return {**expression, "values": {value: names.get(side, side) for value, side in expression["values"].items()}}


def _differ_in_number(two: Sequence[LogColumn]) -> bool:
    """Return whether the names of two columns differ in a number alone, such as that of a game or an order."""
    one, other = (re.sub(r"\d+", "#", column.name) for column in two)
    return one == other and two[0].name != two[1].name
