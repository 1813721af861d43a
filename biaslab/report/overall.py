"""Decide what a judge is fit for, from the verdicts on its biases: the first line of its card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from biaslab.core import find_metric

Light = Literal["bias", "none", "unclear", "untested"]
#: Status of a bias → fitness for the uses that the bias would spoil. Earlier entries take precedence.
_SAYS: dict[str, Literal["unfit", "unknown", "fit"]] = {
    "bias": "unfit",
    "unclear": "unknown",
    "slight": "fit",  # unless inconclusive in another cell
    "none": "fit",
}
_NO_AGREEMENT = "agreement with the reference scores was not measured, so this covers biases only"
_BY_CHANCE = "agreement with the reference scores is not shown to be above chance"


@dataclass(frozen=True)
class Fitness:
    """What a judge may be used for, judging by its biases.

    Attributes
    ----------
    unfit, fit, unknown : tuple of str
        Uses that a bias spoils, uses for which every bias that matters is excluded, and uses for which the study is
        inconclusive.
    hedges : tuple of str
        Reservations.
    """

    unfit: tuple[str, ...] = ()
    fit: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    hedges: tuple[str, ...] = ()

    @property
    def light(self) -> Light:
        """The worst status among the uses, which sets colour and mark."""
        return "bias" if self.unfit else "unclear" if self.unknown else "none" if self.fit else "untested"

    @property
    def parts(self) -> list[tuple[Light, str, str]]:
        """The sentences: status, opening words, and uses."""
        sentences: list[tuple[Light, str, tuple[str, ...]]] = [
            ("bias", "Do not use for", self.unfit),
            ("none", "Fine for", self.fit),
            ("unclear", "Cannot tell for", self.unknown),
        ]
        return [(status, words, _joined(uses)) for status, words, uses in sentences if uses]

    def __str__(self) -> str:
        lines = [f"{words} {uses}." for _, words, uses in self.parts] or ["No use could be tested."]
        return " ".join([*lines, *(f"{hedge[:1].upper()}{hedge[1:]}." for hedge in self.hedges)])


def fitness(biases: Iterable[Mapping[Any, Any]], quality: Iterable[Mapping[Any, Any]]) -> Fitness:
    """Summarise what a judge may be used for.

    Parameters
    ----------
    biases : iterable of mapping
        Results of `biaslab.report.summary.sum_up` for each metric of one judge.
    quality : iterable of mapping
        Result of `biaslab.report.summary.agreements` for this judge.

    Returns
    -------
    Fitness
        A use is unfit if any bias that would spoil it is found, unknown if any is inconclusive, and fit if all are
        excluded or slight in all cells. Untested biases are ignored.

    Examples
    --------
    >>> position = {"probe": "position", "metric": "first_position_rate", "status": "bias"}
    >>> fitness([position | {"sides": ("above",), "n_open": 0}], []).parts
    [('bias', 'Do not use for', 'pairs shown in one order only')]
    """
    claims: dict[str, set[str]] = {}
    for row in biases:
        for use, says in _claims(row):
            claims.setdefault(use, set()).add(says)
    worst = {
        use: next(kind for kind in ("unfit", "unknown", "fit") if kind in claimed) for use, claimed in claims.items()
    }
    uses = {kind: tuple(use for use, of in worst.items() if of == kind) for kind in ("unfit", "fit", "unknown")}
    return Fitness(**uses, hedges=tuple(_hedges(list(quality))))


def _claims(row: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """Return the uses that a bias affects, each with its fitness."""
    if row["status"] not in _SAYS:
        return []
    says = "unknown" if row["status"] == "slight" and row["n_open"] else _SAYS[row["status"]]
    use = find_metric(row["metric"], row["probe"]).use
    sides = dict(zip(("above", "below"), use if isinstance(use, tuple) else (use, use), strict=True))
    spoilt = [sides[side] for side in row["sides"]] if row["status"] == "bias" else list(sides.values())
    if row["status"] == "bias" and not any(spoilt):  # a bias in the direction that spoils no use
        return [(use, "fit") for use in sides.values() if use]
    return [(use, says) for use in dict.fromkeys(spoilt) if use]


def _hedges(quality: list[Mapping[Any, Any]]) -> list[str]:
    """Return reservations about the judge's agreement with the reference scores."""
    if not quality:
        return [_NO_AGREEMENT]
    cells, above = (sum(int(row[name]) for row in quality) for name in ("with_chance", "above_chance"))
    return [_BY_CHANCE] if cells and not above else []


def _joined(uses: tuple[str, ...]) -> str:
    """Join uses with commas and "and", or with semicolons if one of them contains a comma."""
    comma = ";" if any("," in use for use in uses) else ","
    comma = "" if comma == "," and len(uses) == 2 else comma
    return uses[0] if len(uses) == 1 else f"{f'{comma} '.join(uses[:-1])}{comma} and {uses[-1]}"
