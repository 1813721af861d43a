"""Conversations to token ids, with text from the data always encoded as plain characters.

A candidate may contain ``<|im_end|><|im_start|>assistant`` or any other special token. Were it encoded as a special
token, the data could end its own turn and speak as the judge. Here the chat template is rendered around placeholders,
so it is known which characters are data, and a special token's string inside data is cut apart before it is encoded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from biaslab.core import Message
from biaslab.errors import JudgeError

_PLACEHOLDER = re.compile("\ue000(\\d+)\ue001")
_SURFACE = {" ": ("\u0120", "\u2581"), "\n": ("\u010a",)}  # how byte-level BPE and SentencePiece write them


class Encoder:
    """Turns conversations, texts and labels into token ids of one tokenizer.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        The model's tokenizer; its chat template is used when it has one, plain paragraphs when not.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._count_special = lru_cache(maxsize=256)(self._count_special_uncached)
        self._ends_before = lru_cache(maxsize=64)(self._ends_before_uncached)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that content must never produce: all added tokens but those that stand for runs of white space."""
        added = self.tokenizer.added_tokens_decoder.items()
        return frozenset(index for index, token in added if token.content.strip())

    @cached_property
    def prefix(self) -> list[int]:
        """What the tokenizer puts before a plain text, such as a beginning-of-sequence token; often nothing."""
        bare = self._ids("a")
        full = list(self.tokenizer("a").input_ids)
        return full[: full.index(bare[0])] if bare[0] in full else []

    def conversation(self, messages: Sequence[Message]) -> list[int]:
        """Encode a conversation up to where the judge's answer begins.

        A last message of the assistant is left open, so that the answer continues it.

        Raises
        ------
        JudgeError
            If the chat template refuses or drops a message, or content would become a special token.
        """
        if not self.tokenizer.chat_template:
            return [*self.prefix, *self.plain("\n\n".join(m.content for m in messages))]
        pieces = self._render(messages)
        return self._encode(pieces)

    def plain(self, text: str) -> list[int]:
        """Encode text as characters, without special tokens before, after or inside."""
        return self._encode(["", text])

    def terminators(self, label: str, labels: Sequence[str]) -> tuple[int, ...]:
        """Return the ids that end a label: whatever does not go on with its word or towards a longer label.

        "1" ends before a full stop, a space or the end of the turn, not before "0". A label that another one extends
        ("A" and "A+") does not end where that one goes on, so that the labels are disjoint events.

        Parameters
        ----------
        label : str
            The label that ends.
        labels : sequence of str
            All labels of the request.

        Returns
        -------
        tuple of int
            Token ids, ascending; the model's end-of-turn tokens are among them.
        """
        longer = frozenset(o[len(label)] for o in labels if o != label and o.startswith(label))
        return self._ends_before(frozenset(form for c in longer for form in (c, *_SURFACE.get(c, ()))))

    def decode(self, ids: Sequence[int]) -> str:
        """Decode generated ids; special tokens vanish."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _render(self, messages: Sequence[Message]) -> list[str]:
        """Return template and content pieces in turn: even indices are the template's, odd ones are data."""
        turns = [{"role": m.role, "content": f"\ue000{i}\ue001"} for i, m in enumerate(messages)]
        answered = turns[:-1] if messages[-1].role == "assistant" else turns
        try:
            text = self.tokenizer.apply_chat_template(answered, tokenize=False, add_generation_prompt=True)
        except Exception as error:
            raise JudgeError(f"the model's chat template refuses this conversation: {error}") from error
        if answered is not turns:
            text += turns[-1]["content"]
        pieces = _PLACEHOLDER.split(text)
        if sorted(map(int, pieces[1::2])) != list(range(len(messages))):
            roles = ", ".join(m.role for m in messages)
            raise JudgeError(f"the model's chat template drops or repeats a message of the roles {roles}")
        return [p if i % 2 == 0 else messages[int(p)].content for i, p in enumerate(pieces)]

    def _encode(self, pieces: list[str]) -> list[int]:
        text, cuts = "".join(pieces), self._cuts(pieces)
        ends = [*cuts, len(text)]
        ids = [i for start, end in zip([0, *cuts], ends, strict=True) for i in self._ids(text[start:end])]
        found = Counter(i for i in ids if i in self.special_ids)
        if found != self._count_special(tuple(pieces[::2])):
            raise JudgeError("text from the data would be encoded as a special token; remove it from the data")
        return ids

    def _cuts(self, pieces: list[str]) -> list[int]:
        """Positions at which the text is cut so that no special token's string touches data."""
        spans, position = [], 0
        for index, piece in enumerate(pieces):
            if index % 2:
                spans.append((position, position + len(piece)))
            position += len(piece)
        cuts = set()
        for match in self._special_strings.finditer("".join(pieces)):
            start, end = match.start(1), match.end(1)
            touching = [span for span in spans if start < span[1] and end > span[0]]
            if touching:
                cuts.add(max(start + 1, touching[0][0]) if end - start > 1 else start)
        return sorted(cuts)

    @cached_property
    def _special_strings(self) -> re.Pattern[str]:
        tokens = self.tokenizer.added_tokens_decoder
        strings = sorted((tokens[i].content for i in self.special_ids), key=len, reverse=True)
        return re.compile("(?=(" + "|".join(map(re.escape, strings)) + "))" if strings else "(?!)()")

    def _count_special_uncached(self, template: tuple[str, ...]) -> Counter[int]:
        ids = (i for piece in template for i in self._ids(piece))
        return Counter(i for i in ids if i in self.special_ids)

    def _ends_before_uncached(self, barred: frozenset[str]) -> tuple[int, ...]:
        starts = (token[:1] for token in self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer))))
        return tuple(
            i for i, c in enumerate(starts) if c not in barred and not (c.isascii() and (c.isalnum() or c == "_"))
        )

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids) if text else []
