"""The tokens of a tokenizer as bytes, and which of them end a label."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from biaslab.core.errors import JudgeError
from biaslab.judges.batches import TokenSet

_WORD_STARTS = frozenset(c.encode() for c in string.ascii_letters + string.digits + "_")
_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")


class Vocabulary:
    """The tokens of a tokenizer as bytes.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        Byte-level, SentencePiece-like or any other.
    size : int, optional
        Number of ids that the model predicts; by default the size of the tokenizer.
    """

    def __init__(self, tokenizer: Any, size: int | None = None) -> None:
        self.tokenizer, self.size = tokenizer, min(size or len(tokenizer), len(tokenizer))
        self._sets: dict[tuple[int, ...], TokenSet] = {}
        self._ends_before = lru_cache(maxsize=1024)(self._ends_before_uncached)

    @cached_property
    def adds_space(self) -> bool:
        """Whether the tokenizer prepends a space to a text without one."""
        return self._tokens_of("a")[:1] not in (["a"], []) and self._tokens_of("a")[0][0] in "\u2581\u0120"

    @cached_property
    def is_verbatim(self) -> bool:
        """Whether a text never has more tokens than bytes, because it is not rewritten before tokenisation."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return backend is not None and backend.normalizer is None and self.is_byte_level

    @cached_property
    def is_byte_level(self) -> bool:
        """Whether tokens use the alphabet of GPT-2, one character per byte."""
        return any("\u00c3" in token for token in self._tokens_of("\u00df"))

    def terminators(self, label: str, labels: Sequence[str], encoded: Sequence[tuple[int, ...]]) -> TokenSet:
        """Return the ids that end a label: those that continue neither its word nor a longer label.

        "1" ends before a full stop, a space or the end of the turn, not before "0". A label that is a prefix of
        another ("A" of "A+" or "A B") does not end where the longer one continues, so labels are disjoint events.

        Parameters
        ----------
        label : str
            The label.
        labels : sequence of str
            All labels of the request.
        encoded : sequence of tuple of int
            Token ids of the labels.

        Returns
        -------
        TokenSet
            The ids, including the model's end-of-turn tokens. Equal sets are the same object.

        Raises
        ------
        JudgeError
            If two labels have the same tokens, or one has none, so that they could not be distinguished.
        """
        own = encoded[labels.index(label)]
        if not own or list(encoded).count(own) > 1:
            raise JudgeError(f"this model's tokenizer cannot tell the label {label!r} from others; change the labels")
        longer = frozenset(o[len(label) :].encode() for o in labels if o != label and o.startswith(label))
        onward = frozenset(ids[len(own)] for ids in encoded if ids[: len(own)] == own and ids != own)
        return self._ends_before(longer, onward)

    def _ends_before_uncached(self, longer: frozenset[bytes], onward: frozenset[int]) -> TokenSet:
        """All ids except those that continue a word, the text of a longer label, or its tokens."""
        barred = set(onward)
        for rest in longer:
            for index in self._starting_with.get(rest[0], ()):
                surface = self._surfaces[index]
                if rest.startswith(surface) or surface.startswith(rest):
                    barred.add(index)
        ids = tuple(i for i, s in enumerate(self._surfaces) if i not in barred and s[:1] not in _WORD_STARTS)
        return self._sets.setdefault(ids, TokenSet(ids))

    @cached_property
    def _surfaces(self) -> list[bytes]:
        """Bytes of each token."""
        table = _byte_alphabet() if self.is_byte_level else {"\u2581": b" "}
        surfaces = []
        for token in self.tokenizer.convert_ids_to_tokens(list(range(self.size))):
            byte = _BYTE_TOKEN.fullmatch(token or "") if not self.is_byte_level else None
            spelled = b"".join(table.get(c, c.encode("utf-8", "replace")) for c in token or "")
            surfaces.append(bytes.fromhex(byte[1]) if byte else spelled)
        return surfaces

    @cached_property
    def _starting_with(self) -> dict[int, list[int]]:
        """Ids of tokens by their first byte."""
        indices: dict[int, list[int]] = {}
        for index, surface in enumerate(self._surfaces):
            if surface:
                indices.setdefault(surface[0], []).append(index)
        return indices

    def _tokens_of(self, text: str) -> list[str]:
        ids = self.tokenizer(text, add_special_tokens=False).input_ids
        return list(self.tokenizer.convert_ids_to_tokens(ids))


def _byte_alphabet() -> dict[str, bytes]:
    """Return the characters that byte-level vocabularies use for bytes (Radford et al., GPT-2)."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = (b for b in range(256) if b not in shown)
    return {**{chr(b): bytes([b]) for b in shown}, **{chr(256 + i): bytes([b]) for i, b in enumerate(hidden)}}
