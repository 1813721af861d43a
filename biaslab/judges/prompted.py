"""Input and output of a text generator: prompts with their requests, generated tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from biaslab.core import Completion
from biaslab.core.arrays import Floats


@dataclass(frozen=True)
class Prompted:
    """One completion to generate: the request, its prompt's token ids and the seed of its random numbers.

    ``ends``, if given, returns whether a text ends with the tokens generated so far (which are kept), as a thought does
    at its closing tag.
    """

    request: Completion
    prompt: tuple[int, ...]
    seed: int
    ends: Callable[[Sequence[int]], bool] | None = None

    def uniforms(self) -> Floats:
        """Return the random numbers of its tokens, in [0, 1), shape (max_tokens,)."""
        return np.random.default_rng(self.seed).random(self.request.max_tokens)


class Generated(NamedTuple):
    """A generated text: the row of its prompt, token ids without the terminator, whether it ended before its limit."""

    row: int
    ids: list[int]
    stopped: bool
