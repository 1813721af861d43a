"""Answer modes: exact label distribution, one text, or shares of k sampled texts."""

from __future__ import annotations

import re
from dataclasses import Field, dataclass, replace
from typing import Any

from biaslab.core import Judge
from biaslab.core.errors import InputError
from biaslab.judges.sampled import Sampled

#: Modes used in calibration; any other number of samples is a valid mode too.
MODES = ("exact", "text", "sampled:3", "sampled:5", "sampled:10")
_SAMPLED = re.compile(r"sampled:([1-9][0-9]{0,3})")


@dataclass(frozen=True)
class AnswerMode:
    """The form of a judge's answers.

    Parameters
    ----------
    name : str
        "exact": the label distribution. "text": one sampled text. "sampled:k": shares of k sampled texts, as counted
        by `biaslab.judges.sampled.Sampled`.

    Raises
    ------
    InputError
        If the mode is unknown; the message lists the known ones.

    Examples
    --------
    >>> AnswerMode("sampled:5").k
    5
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in MODES and not _SAMPLED.fullmatch(self.name):
            raise InputError("mode", self.name, f"one of {', '.join(MODES)}, or sampled:k with another k")

    @property
    def k(self) -> int | None:
        """Samples per request; None if the answer is exact."""
        match = _SAMPLED.fullmatch(self.name)
        return int(match[1]) if match else 1 if self.name == "text" else None

    def asked(self, probe: Any, judge: Judge) -> tuple[Any, Judge]:
        """Return the probe and the judge, modified to use this answer mode.

        A probe without the parameter ``answer`` reads texts only; instead of shares of k samples it uses k replicates.

        Parameters
        ----------
        probe : Probe
            Any probe.
        judge : Judge
            A judge that answers `Choice` and `Completion` requests.

        Raises
        ------
        InputError
            If the probe does not support the mode.
        """
        known: dict[str, Field[Any]] = getattr(probe, "__dataclass_fields__", {})
        if "answer" not in known:
            return self._texts(probe, known), judge
        answer = "text" if self.name == "text" else "distribution"
        sampled = Sampled(judge, self.k) if self.name.startswith("sampled") and self.k else judge
        return (probe if probe.answer == answer else replace(probe, answer=answer)), sampled

    def _texts(self, probe: Any, known: dict[str, Field[Any]]) -> Any:
        if self.name == "text":
            return probe
        if self.k is None or "replicates" not in known:
            raise InputError("mode", self.name, '"text"', f"the probe {probe.name} only reads texts")
        return replace(probe, replicates=self.k)
