"""Biases that can be planted in a simulated judge, each neutral by default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from biaslab.core.errors import InputError
from biaslab.judges.simulated.knowledge import digest_of

_AT_LEAST_0 = ("noise", "context_noise", "template_noise", "ties")
_BIASES = (
    *("position", "familiarity", "verbosity", "self_preference", "source_reliance", "anchoring", "reason_first"),
    "heaping",
)
_DOUBLING = 1024  # tokens of thinking
_SHARES = ("source_reliance", "refusal", "garbage")


@dataclass(frozen=True, kw_only=True)
class Planted:
    """The planted biases. *Points* are those of the human scale, and log odds in a pair.

    Parameters
    ----------
    quality : float
        Points per point of the human score; 0 is a judge blind to quality.
    position : float
        Points for the candidate shown first in a pair or list; 0 is unbiased, positive is primacy.
    familiarity : float
        Points per unit of log perplexity at equal human score; negative values favour familiar text.
    verbosity : float
        Points per doubling of the number of words.
    self_preference : float
        Points for the judge's own texts (candidates whose ``system`` is ``own_system``), in pairs and in scores.
    own_system : str
        The system that counts as the judge itself; "own" in the population of `biaslab.calibration`.
    source_reliance : float
        Share of ``quality`` that is lost if the prompt does not show the source: 0 for a judge that never looks at it,
        1 for one that is blind to quality without it.
    anchoring : float
        How far a score moves from its own mean towards the preceding score (in the same output, a prefix or the
        transcript), as a fraction of the distance on the unit scale (0 lowest, 1 highest). 0 is independent.
    reason_first : float
        Shift of scores if reasons are requested before the score, on the unit scale; in a pair, of the candidate shown
        first, with the range of the human scale as the unit of log odds.
    heaping : float
        Log weight of labels that are multiples of 10; other multiples of 5 get half of it. Applies to scales with more
        than 10 whole numbers.
    sharpness : float
        For scores: 1 / standard deviation of the distribution over labels, on the unit scale.
    noise : float
        Standard deviation of a normal shift, in points, of each score or pair (one per prompt).
    context_noise : float
        Standard deviation of a normal shift, in points, shared by all scores, or all position biases, of a context.
    template_noise : float
        Standard deviation of a normal shift, in points, shared by all scores, or all position biases, under one prompt
        variant (`biaslab.core.About.template`). A variant's effect on single items is part of ``noise``, which is
        drawn anew for every prompt.
    ties : float
        If "Tie" is offered: pairs with log odds closer to 0 than this are ties.
    thought_debiasing : float
        How fast every bias above, from ``position`` to ``heaping``, and those of ``edits``, shrink with the thinking
        budget of a request: after n tokens, (1 + n / 1024) ** -thought_debiasing of them remain. 0: thinking has no
        effect; negative values amplify biases.
    refusal : float
        Share of prompts that are refused.
    selective : bool
        Refuse only what is shown as worse: a pair whose first candidate has the lower human score, a candidate scored
        below the midpoint of the human scale, a list whose first candidate scores below the mean of the others.
        Refusals are then not missing at random.
    garbage : float
        Share of texts without an answer.
    edits : mapping of str to float, optional
        Points for edited candidates, by the edit's name, or by name, "+" and the name of a defence if they differ
        under that defence.
    log_perplexity : mapping of str to float, optional
        Log perplexity of texts, above 0; other texts have a normally distributed one that depends on the text alone,
        with mean 3 and standard deviation 0.35.
    seed : int
        Seed of all random numbers: a reply depends on the seed and the request alone.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    quality: float = 1.0
    position: float = 0.0
    familiarity: float = 0.0
    verbosity: float = 0.0
    self_preference: float = 0.0
    own_system: str = "own"
    source_reliance: float = 0.0
    anchoring: float = 0.0
    reason_first: float = 0.0
    heaping: float = 0.0
    sharpness: float = 8.0
    noise: float = 0.0
    context_noise: float = 0.0
    template_noise: float = 0.0
    ties: float = 0.0
    thought_debiasing: float = 0.0
    refusal: float = 0.0
    selective: bool = False
    garbage: float = 0.0
    edits: Mapping[str, float] | None = field(default=None, hash=False)
    log_perplexity: Mapping[str, float] | None = field(default=None, hash=False, repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        for each in fields(Planted):
            value = getattr(self, each.name)
            if isinstance(each.default, int | float) and not math.isfinite(value):
                raise InputError(each.name, value, "a finite number")
        for name in _AT_LEAST_0:
            if getattr(self, name) < 0:
                raise InputError(name, getattr(self, name), "a number of at least 0")
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(name, getattr(self, name), "a share from 0 to 1")
        if self.sharpness <= 0:
            raise InputError("sharpness", self.sharpness, "a number above 0")
        if not all(map(math.isfinite, (self.edits or {}).values())):
            raise InputError("edits", self.edits, "a finite number for each edit")
        if any(not 0 < value < math.inf for value in (self.log_perplexity or {}).values()):
            raise InputError("log_perplexity", "a value", "a finite number above 0 for each text")

    def biases_after(self, tokens: int) -> dict[str, Any]:
        """Return the biases that remain after a thought of a given length, by name.

        Examples
        --------
        >>> Planted(position=1.0, thought_debiasing=0.5).biases_after(3072)["position"]
        0.5
        """
        left = float((1 + tokens / _DOUBLING) ** -self.thought_debiasing)
        edits = None if self.edits is None else {name: left * value for name, value in self.edits.items()}
        return {name: left * getattr(self, name) for name in _BIASES} | {"edits": edits}

    @property
    def listed(self) -> str:
        """Every planted value that differs from its default, as ``name=value,…``."""
        changed = {f.name: getattr(self, f.name) for f in fields(Planted) if getattr(self, f.name) != f.default}
        return ",".join(f"{name}={_plain(value)}" for name, value in changed.items())


def _plain(value: object) -> str:
    """Format a planted value for an id; a mapping by its digest."""
    if isinstance(value, Mapping):
        return digest_of(sorted(value.items())).hex()[:8]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, bool | str) else repr(value)
