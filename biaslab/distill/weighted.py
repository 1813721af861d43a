"""Several evaluators as one: the weighted sum of their scores, to rerank and train with (Wang et al. 2023, Eq. 6)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.distill.aspects import MULTIPLE
from biaslab.distill.crossfit import Evaluators
from biaslab.distill.evaluator import Evaluator


@checked(eager=True)
class WeightedEvaluators:
    """Evaluators of several attributes whose scores are added with weights: Eq. 6 as one reward.

    Parameters
    ----------
    evaluators : mapping of str to Evaluator or Evaluators
        By name.
    weights : mapping of str to float, optional
        By name, from 0, as `biaslab.distill.tune_weights` returns them; equal ones by default. They are divided by
        their sum, so that scores stay on 0 to 1.

    Raises
    ------
    InputError
        If there is no evaluator, or a weight is missing, unknown, negative or not finite, or all are 0.

    Notes
    -----
    It goes where an evaluator goes: `EvaluatorJudge`, `reinforce` and, as a judge, `rerank`. Its attribute is
    "multiple". Weights mean what they were tuned for as long as scores are taken as they are.

    Examples
    --------
    >>> both = WeightedEvaluators({"coherence": one, "fluency": other}, tune_weights(...))  # doctest: +SKIP
    >>> policy, history = bl.distill.reinforce("smollm2-135m", data, both)                # doctest: +SKIP
    """

    attribute = MULTIPLE

    def __init__(
        self, evaluators: Mapping[str, Evaluator | Evaluators], weights: Mapping[str, float] | None = None
    ) -> None:
        if not evaluators:
            raise InputError("evaluators", "none", "at least one")
        given = dict.fromkeys(evaluators, 1.0) if weights is None else dict(weights)
        total = sum(given.values())
        fits = set(given) == set(evaluators) and all(math.isfinite(w) and w >= 0 for w in given.values())
        if not fits or not total > 0:
            raise InputError("weights", given, f"a number from 0 for each of {', '.join(evaluators)}, and one above 0")
        self.evaluators = dict(evaluators)
        self.weights = {name: float(given[name] / total) for name in evaluators}

    def __repr__(self) -> str:
        return f"WeightedEvaluators({self.id!r})"

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be given beside the text: whatever one of them needs."""
        needed = {name for each in self.evaluators.values() for name in each.needs}
        return tuple(name for name in ("source", "reference") if name in needed)

    @property
    def id(self) -> str:
        """Names with their weights, and a digest of all that a score depends on."""
        said = "+".join(f"{weight:.3g}*{name}" for name, weight in self.weights.items())
        return f"evaluator:{said}@{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with any evaluator and any weight."""
        pinned = [[name, each.digest, self.weights[name].hex()] for name, each in self.evaluators.items()]
        return hashlib.blake2b(json.dumps(pinned).encode()).hexdigest()[:16]

    def score(
        self,
        texts: Sequence[str],
        sources: Sequence[str] | None = None,
        references: Sequence[str] | None = None,
    ) -> NDArray[np.float64]:
        """Return the weighted sum of each text's scores, shape (texts,); see `Evaluator.score`."""
        total = np.zeros(len(texts))
        for name, evaluator in self.evaluators.items():
            if self.weights[name]:
                total += self.weights[name] * evaluator.score(texts, sources, references)
        return total
