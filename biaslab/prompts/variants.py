"""Variants of one prompt: paraphrases, label names, their order, a system prompt, earlier verdicts, a rubric.

Each differs from the base in one factor.

Examples
--------
>>> [variant.name for variant in variants("pair", ["labels", "order"])]
['base', 'labels 1/2', 'labels X/Y', 'order B/A']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from biaslab import prompts
from biaslab.core.checks import require_one_of, require_some_of
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale

if TYPE_CHECKING:
    from biaslab.core.schema import Dataset

VariantForm = Literal["score", "pair"]
Rubric = Literal["given", "none", "levels"]
#: The factors for each form of question that are varied by default.
FACTORS: dict[str, tuple[str, ...]] = {
    "score": ("wording", "order", "system", "shots", "rubric"),
    "pair": ("wording", "labels", "order", "system", "shots", "rubric"),
}
#: Further factors for scores (Li et al. 2025, arXiv 2506.22316).
ONLY_NAMED = ("ids", "levels", "criteria")
#: Names of the scores of a five-point scale, from the lowest.
_IDS = {"I-V": ("I", "II", "III", "IV", "V"), "A-E": ("A", "B", "C", "D", "E")}
_ENDS = re.compile(r"from (\S+) \(worst\) to (\S+) \(best\)")


@dataclass(frozen=True)
class Variant:
    """One way to ask a question.

    Parameters
    ----------
    name : str
        For example ``"wording 2"``.
    factor : str
        The factor that differs from the base: one of `FACTORS` or `ONLY_NAMED`, or "base".
    wording : {1, 2, 3}
        Number of the paraphrase.
    labels : tuple of str
        For pairs: what follows the noun in the names of the candidates, in the order shown.
    best_first : bool
        For scores: whether the scale is stated from its best end.
    system : bool
        Whether a system prompt gives the judge a role.
    shots : {"", "up", "down"}
        Earlier turns with questions about other contexts and their verdicts: none, or two, the last with the highest
        score or for the first of a pair ("up"), or with the lowest or for the second ("down").
    rubric : {"given", "none", "levels"}
        For scores: the attribute is defined, only named, or described level by level. For pairs: "none" or "given".
    ids : str
        For scores from 1 to 5: whether they are called "I-V" or "A-E" instead.
    levels_from_best : bool
        For scores: whether the rubric by level starts with the highest.
    criteria_reversed : bool
        For scores: whether the aspects of the attribute are listed from the last to the first.
    """

    name: str
    factor: str
    wording: int = 1
    labels: tuple[str, str] = ("A", "B")
    best_first: bool = False
    system: bool = False
    shots: Literal["", "up", "down"] = ""
    rubric: Rubric = "given"
    ids: str = ""
    levels_from_best: bool = False
    criteria_reversed: bool = False

    def scale(self, scale: Scale) -> Scale:
        """Return the scale with the names of its scores under this variant.

        Raises
        ------
        InputError
            If scores are called otherwise, and the scale is not 1-5.

        Examples
        --------
        >>> from biaslab.core.scales import find_scale
        >>> variants("score", ["ids"])[1].scale(find_scale("1-5")).labels
        ('I', 'II', 'III', 'IV', 'V')
        """
        if not self.ids:
            return scale
        if scale.name != "1-5":
            raise InputError("scale", scale.name, "1-5", 'other names of scores, the factor "ids", need it')
        labels = _IDS[self.ids]
        return replace(
            scale, labels=labels, wording=f"one of {', '.join(labels)}, from {labels[0]} (worst) to {labels[-1]} (best)"
        )

    def names(self, noun: str) -> tuple[str, str]:
        """Return the names of the two candidates, used in answers."""
        return f"{noun.capitalize()} {self.labels[0]}", f"{noun.capitalize()} {self.labels[1]}"

    def rate(self, dataset: Dataset, attribute: str, scale: Scale, candidate: str, context: str) -> str:
        """Ask for the score of one candidate.

        Parameters
        ----------
        dataset : Dataset
            Source of noun and definition.
        attribute, scale, candidate, context
            As in `biaslab.prompts.rate`, whose prompt is the base.

        Examples
        --------
        >>> import biaslab as bl
        >>> from biaslab.core.scales import find_scale
        >>> [base, reverse] = variants("score", ["order"])
        >>> asked = bl.load_dataset("dialogues", limit=1), "variety", find_scale("1-5"), "Ann: Hi!", ""
        >>> base.rate(*asked) == prompts.rate(asked[0], ["variety"], *asked[2:])
        True
        >>> print(reverse.rate(*asked).splitlines()[-2])
        The rating must be a whole number from 5 (best) to 1 (worst).
        """
        scale = self.scale(scale)
        stated = _ENDS.sub(r"from \2 (best) to \1 (worst)", scale.wording) if self.best_first else scale.wording
        steps = [scale.labels[place] for place in (0, (len(scale.labels) - 1) // 2, -1)]
        shown: dict[str, Any] = {"context": context, "candidate": candidate, "noun": dataset.noun, "steps": steps}
        respect = prompts.describe(dataset, attribute)
        if self.criteria_reversed:
            respect["aspects"] = respect["aspects"][::-1]
        shown |= {"scale": stated, "from_best": self.levels_from_best}
        return prompts.render("variant_rate", **shown, respect=respect, wording=self.wording, rubric=self.rubric)

    def compare(self, dataset: Dataset, attribute: str, first: str, second: str, context: str) -> str:
        """Ask which of two candidates is better; the base is the template ``comparative_1``.

        Parameters
        ----------
        dataset : Dataset
            Source of noun and definition.
        attribute, first, second, context : str
            The attribute to compare on, the candidates in the order shown, and their source.
        """
        shown = {"context": context, "first": first, "second": second, "names": self.names(dataset.noun)}
        asked = {"noun": dataset.noun, "attribute": attribute, "respect": prompts.describe(dataset, attribute)}
        return prompts.render("variant_compare", **shown, **asked, wording=self.wording, rubric=self.rubric == "given")


def variants(form: VariantForm, factors: Sequence[str] | None = None) -> tuple[Variant, ...]:
    """Return the base and the variants of some factors, one factor at a time.

    Parameters
    ----------
    form : {"score", "pair"}
        The question: the score of one candidate, or which of two is better.
    factors : sequence of str, optional
        Names from the form's `FACTORS`, by default all; or, of scores, from `ONLY_NAMED`.

    Raises
    ------
    InputError
        If the form or a factor is unknown.
    """
    require_one_of("form", form, tuple(FACTORS))
    if factors is not None:
        require_some_of("factors", factors, (*FACTORS[form], *(ONLY_NAMED if form == "score" else ())))
    pair, chosen = form == "pair", FACTORS[form] if factors is None else factors
    bare: Rubric = "none" if pair else "given"
    every = [
        Variant("base", "base", rubric=bare),
        Variant("wording 2", "wording", wording=2, rubric=bare),
        Variant("wording 3", "wording", wording=3, rubric=bare),
        *(
            (Variant(f"labels {a}/{b}", "labels", labels=(a, b), rubric=bare) for a, b in (("1", "2"), ("X", "Y")))
            if pair
            else ()
        ),
        Variant("order B/A", "order", labels=("B", "A"), rubric=bare)
        if pair
        else Variant("scale best first", "order", best_first=True),
        Variant("system prompt", "system", system=True, rubric=bare),
        Variant(f"shots, {'first' if pair else 'best'} last", "shots", shots="up", rubric=bare),
        Variant(f"shots, {'second' if pair else 'worst'} last", "shots", shots="down", rubric=bare),
        *(Variant(name, "rubric", rubric=rubric) for name, rubric in (_PAIR_RUBRIC if pair else _SCORE_RUBRICS)),
        *(Variant(f"scores {ids}", "ids", ids=ids) for ids in _IDS),
        Variant("rubric, best first", "levels", rubric="levels", levels_from_best=True),
        Variant("criteria reversed", "criteria", criteria_reversed=True),
    ]
    return tuple(each for each in every if each.factor in ("base", *chosen))


_PAIR_RUBRIC: tuple[tuple[str, Rubric], ...] = (("rubric", "given"),)
_SCORE_RUBRICS: tuple[tuple[str, Rubric], ...] = (("no rubric", "none"), ("rubric by level", "levels"))
