"""The biases that can be planted in a simulated judge, each neutral by default."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.judges.simulated.knowledge import digest_of

_AT_LEAST_0 = ("noise", "context_noise", "template_noise", "ties")
_BIASES = (
    *("position", "familiarity", "verbosity", "self_preference", "source_reliance", "anchoring", "reason_first"),
    "heaping",
)
_DOUBLING = 1024  # tokens of a thought
_SHARES = ("source_reliance", "refusal", "garbage")


@checked
@dataclass(frozen=True, kw_only=True)
class Planted:
    """The planted biases, in *points*: of the human scale, and of log odds in a pair.

    Parameters
    ----------
    quality : float
        Points per point of the human score; 0 is a judge that sees no quality.
    position : float
        Points for whatever of a pair or a list stands first; 0 is fair, above is primacy.
    familiarity : float
        Points per unit of log perplexity at equal human score; below 0 the judge likes familiar text.
    verbosity : float
        Points per doubling of the number of words.
    self_preference : float
        Points for the judge's own texts: candidates whose ``system`` is ``own_system``, in pairs and in scores.
    own_system : str
        The system whose texts are the judge's own; "own" in the population of `biaslab.calibration`.
    source_reliance : float
        Share of ``quality`` that is lost where the prompt does not show the source: 0 is a judge that never looks at
        it, 1 one that sees no quality without it.
    anchoring : float
        By what share of the way a score moves from its own mean towards the score given just before it, in the same
        output, in a prefix or in the transcript, on the unit scale (0 lowest, 1 highest). 0 is independent.
    reason_first : float
        What scores gain where reasons are asked before the score, on the unit scale; of a pair what stands first, so
        many widths of the human scale in log odds.
    heaping : float
        Log weight of labels that are multiples of 10, and half of it of other multiples of 5, on scales of more than
        10 whole numbers.
    sharpness : float
        Of scores: 1 / standard deviation of the distribution over labels, on the unit scale.
    noise : float
        Standard deviation of a normal shift, in points, of each score or pair of one prompt.
    context_noise : float
        Standard deviation of a normal shift, in points, that all scores, or all position biases, of a context share.
    template_noise : float
        Standard deviation of a normal shift, in points, that all scores, or all position biases, under one variant of
        the prompt share (`biaslab.core.About.template`). What a variant does to single items is in ``noise``, which
        every prompt has of its own.
    ties : float
        Where "Tie" is offered: pairs whose log odds lie nearer to 0 than this are ties.
    thought_debiasing : float
        How fast every bias above, from ``position`` to ``heaping``, and those of ``edits``, fall with the budget for
        thoughts that a request sets: n tokens leave (1 + n / 1024) ** -thought_debiasing of them. 0: thoughts change
        none; below 0 they add to them.
    refusal : float
        Share of prompts that are refused.
    selective : bool
        Refuse only what is shown as worse: a pair whose first candidate has the lower human score, a candidate scored
        below the middle of the human scale, a list whose first candidate scores below the mean of the others. What is
        missing is then not missing at random.
    garbage : float
        Share of texts that hold no answer.
    edits : mapping of str to float, optional
        Points for candidates that are shown with an edit, by the edit's name; by name, "+" and a defence's name where
        they are others behind that defence.
    log_perplexity : mapping of str to float, optional
        Log perplexity of texts, above 0; a text that is not in it has a normal one that hangs on the text alone, with
        mean 3 and standard deviation 0.35.
    seed : int
        Of everything random: a reply depends on the seed and the request alone.

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
            raise InputError("edits", self.edits, "finite numbers, one an edit")
        if any(not 0 < value < math.inf for value in (self.log_perplexity or {}).values()):
            raise InputError("log_perplexity", "a value", "finite numbers above 0, one a text")

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
        """Every planted value that is not at its default, as ``name=value,…``."""
        changed = {f.name: getattr(self, f.name) for f in fields(Planted) if getattr(self, f.name) != f.default}
        return ",".join(f"{name}={_plain(value)}" for name, value in changed.items())


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return digest_of(sorted(value.items())).hex()[:8]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, bool | str) else repr(value)
