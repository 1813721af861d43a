"""Labels as token paths in a trie: the tokens to query at each branching, and exact label probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Path = tuple[int, ...]


@dataclass(frozen=True)
class LabelTrie:
    """Token trie of a set of labels.

    Parameters
    ----------
    paths : tuple of tuple of tuple of int
        For each label, the ways in which it can be tokenised, as token ids. No two labels share one.

    Notes
    -----
    P(label) is the sum over its tokenisations of P(first token) · P(second | first) · …, times, if another label
    continues it, the probability that the answer does not: with the tokens "1" and "0", the labels "1" and "10" have
    P("1") · (1 − P("0" | "1")) and P("1") · P("0" | "1").

    Examples
    --------
    >>> trie = LabelTrie((((7,),), ((7, 8),), ((9,),)))
    >>> trie.branchings
    {(): (7, 9), (7,): (8,)}
    >>> found = trie.logprobs({(): {7: math.log(0.5), 9: math.log(0.25)}, (7,): {8: math.log(0.2)}})
    >>> [round(math.exp(level), 3) for level in found]
    [0.4, 0.1, 0.25]
    """

    paths: tuple[tuple[Path, ...], ...]

    @classmethod
    def of(cls, written: Sequence[Sequence[Path]]) -> LabelTrie | None:
        """Build the trie of labels from their own tokenisations (listed first) and variants.

        A variant that is another label's own tokenisation belongs to that label. None if a label has no tokens, or two
        labels share all tokenisations.
        """
        own = [ways[0] for ways in written]
        if not all(own) or len(set(own)) < len(own):
            return None
        taken = set(own)
        paths = []
        for first, *others in written:
            variants = [way for way in dict.fromkeys(others) if way and way not in taken]
            taken.update(variants)
            paths.append((first, *variants))
        return cls(tuple(paths))

    @cached_property
    def branchings(self) -> dict[Path, tuple[int, ...]]:
        """All proper prefixes of labels with their next tokens, the empty prefix first."""
        following: dict[Path, dict[int, None]] = {(): {}}
        for path in self._all():
            for at, token in enumerate(path):
                following.setdefault(path[:at], {})[token] = None
        return {prefix: tuple(tokens) for prefix, tokens in sorted(following.items(), key=lambda pair: len(pair[0]))}

    def logprobs(self, levels: Mapping[Path, Mapping[int, float]]) -> tuple[float, ...]:
        """Return the log-probability of each label.

        Parameters
        ----------
        levels : mapping
            For each of the `branchings`, the log-probabilities of the next tokens.

        Returns
        -------
        tuple of float
            Natural logarithms, one per label; ``-inf`` for an impossible one.

        Raises
        ------
        KeyError
            If a token is missing.
        """
        shares = ([self._log_share(path, levels) for path in ways] for ways in self.paths)
        return tuple(min(float(np.logaddexp.reduce(ways)), 0.0) for ways in shares)

    def _log_share(self, path: Path, levels: Mapping[Path, Mapping[int, float]]) -> float:
        """Return log P(the answer begins with the path and continues to no other label)."""
        level = sum(levels[path[:at]][token] for at, token in enumerate(path))
        onward = sum(math.exp(levels[path][token]) for token in self.branchings.get(path, ()))
        return level + math.log1p(-onward) if onward < 1 else -math.inf

    def _all(self) -> Iterable[Path]:
        return (path for ways in self.paths for path in ways)
