"""Parse replies with a protocol, and write the replies of a perfectly compliant judge."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Literal

from biaslab.core import AT_LIMIT, Reply, Status
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, whole_numbers
from biaslab.prompts.protocols.building import LONGEST_SCALE
from biaslab.prompts.protocols.list_reader import Places
from biaslab.prompts.protocols.readers import Labels, Reader, Verdicts

Form = Literal["pair", "score", "list"]
Choose = Literal["last", "first", "only", "single"]
_ORDER = {1.0: 0, 0.0: 1}


class Answering:
    """The part of `Protocol` that parses and writes replies; the fields are those of `Protocol`."""

    form: Form
    reader: Reader
    points: tuple[float, ...]
    choose: Choose
    binarize: bool

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Replies of a compliant judge: for the first, for the second and, if allowed, for a tie."""
        highest_and_lowest = (max(self.points), min(self.points))
        return tuple(map(self.write, (*highest_and_lowest, *(value for value in self.points if value == 0.5))))

    @cached_property
    def scale(self) -> Scale:
        """Scale of the scores: whole numbers, each labelled with the reply that a compliant judge would write.

        Raises
        ------
        InputError
            If the ends are not whole numbers.
        """
        low, high = self.points[0], self.points[-1]
        if not (low.is_integer() and high.is_integer() and 0 <= low < high <= LONGEST_SCALE):
            raise InputError("scale", (low, high), f"whole numbers from 0 to {LONGEST_SCALE}, to study scores")
        numbers = whole_numbers(int(low), int(high))
        return replace(numbers, labels=tuple(map(self.write, numbers.values)))

    @cached_property
    def label_verdicts(self) -> Verdicts:
        """Labels with their values: those for the first and for the second, then all others."""
        assert isinstance(self.reader, Labels)  # noqa: S101 - __post_init__ requires it
        return tuple(sorted(self.reader.verdicts, key=lambda verdict: _ORDER.get(verdict[1], 2)))

    def parse(self, text: str | None, attribute: str = "") -> tuple[float, Status]:
        """Parse a reply.

        Parameters
        ----------
        text : str or None
            The judge's reply.
        attribute : str
            Which verdict to return, if a reply judges several attributes (`joint`).

        Returns
        -------
        tuple of float and str
            The value, NaN unless the status is "ok" or "tie".
        """
        self._require_one_value("parse_list(text, k)")
        reader = _reader_of(self.reader, attribute)
        values = reader.find(text or "")
        if not values:
            return math.nan, reader.unread(text or "")
        if len(values if self.choose == "single" else set(values)) > 1 and self.choose in ("single", "only"):
            return math.nan, "ambiguous"
        value = reader.last(text or "", values) if self.choose == "last" else values[0]
        if value is None:
            return math.nan, reader.unread(text or "")
        if not min(self.points) <= value <= max(self.points):
            return math.nan, "out_of_range"
        return value, "tie" if self.form == "pair" and value == 0.5 else "ok"

    def read(self, reply: Reply, attribute: str = "") -> tuple[float, Status]:
        """Parse a reply that is a text, or a distribution over labels; ``attribute`` as in `parse`.

        Returns
        -------
        tuple of float and str
            The value: for a distribution the expected one without ties or, with ``binarize``, that of the most likely
            label; and the status: "cut_off" if a text ends at its limit before it has decided between its verdicts.
        """
        self._require_one_value("read_list(reply, k)")
        if reply.logprobs is None:
            goes_on = reply.finish_reason == AT_LIMIT and self.choose == "last"
            if goes_on and len(set(_reader_of(self.reader, attribute).find(reply.text or ""))) > 1:
                return math.nan, "cut_off"
            return self.parse(reply.text, attribute)
        masses = [math.exp(each) for each in reply.logprobs]
        values = [value for _, value in self.label_verdicts]
        if not any(masses):
            return math.nan, "refused"
        likeliest = values[masses.index(max(masses))]
        if self.form == "pair" and likeliest == 0.5:
            return 0.5, "tie"
        if self.binarize:
            return likeliest, "ok"
        pairs = zip(masses, values, strict=True)
        counted = [(mass, value) for mass, value in pairs if self.form == "score" or value != 0.5]
        return sum(mass * value for mass, value in counted) / sum(mass for mass, _ in counted), "ok"

    def write(self, value: float, attribute: str = "") -> str:
        """Return the reply of a perfectly compliant judge; ``attribute`` as in `parse`.

        Raises
        ------
        InputError
            If no verdict means the value.
        """
        self._require_one_value("write_list(value)")
        return _reader_of(self.reader, attribute).write(value)

    def _require_one_value(self, other: str) -> None:
        if isinstance(self.reader, Places):
            raise InputError("protocol", "a list", "a pair or a score", f"a list has one value per position: {other}")

    def require_round_trip(self, value: float) -> None:
        """Raise `InputError` unless the reply written for a value is parsed as this value."""
        text = self.write(value)
        read, status = self.parse(text)
        if read != value:
            misread = f"{read:g}" if status in ("ok", "tie") else status
            remedy = "give the form of a reply, with {} for the verdict: writes='Rating: [[{}]]'"
            misreading = f"{text!r}, written for {value:g} and read as {misread}"
            raise InputError(
                "protocol", misreading, "replies that are read back as the value they were written for", remedy
            )


@lru_cache(maxsize=256)
def _reader_of(reader: Reader, attribute: str) -> Reader:
    return reader.of(attribute) if attribute else reader
