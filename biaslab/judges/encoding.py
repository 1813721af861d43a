"""Encode conversations as token ids, treating text from the data strictly as plain characters.

A candidate may contain ``<|im_end|><|im_start|>assistant`` or any other special token. If it were encoded as one, the
data could end its turn and speak as the judge. So the chat template is rendered around placeholders, which identify
the characters that are data, and strings of special tokens inside data are split before encoding.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from biaslab.core.errors import JudgeError
from biaslab.core.requests import Message
from biaslab.judges.batches import TokenSet

_PLACEHOLDER = re.compile("(\u2003?)\ue000(\\d+)\ue001(\u2003?)")  # spaces show if the template strips
_SURROGATE = re.compile("[\ud800-\udfff]")
_DATE = {"%d": "26", "%b": "Jul", "%B": "July", "%m": "07", "%y": "24", "%Y": "2024", "%A": "Friday", "%H": "12"}
_CONSTANT_DATE = (  # prepended to a template that prints the date: replies must not depend on the day
    "{%- macro strftime_now(format) -%}{{ format"
    + "".join(f"|replace({code!r}, {text!r})" for code, text in _DATE.items())
    + " }}{%- endmacro -%}"
)
_ANCHORS = ("\n", ".", "\n.")
_GROWTH = 12  # normalisation may lengthen text: NFKC by at most 18 bytes for each 1.6


class _Layout(NamedTuple):
    """A rendered template: the text around the contents, and each content's message and whether it is stripped."""

    pieces: tuple[str, ...]
    slots: tuple[tuple[int, bool, bool], ...]


class ChatEncoder:
    """Encode conversations, texts and labels with one tokenizer.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        The model's tokenizer; its chat template is used if it has one, otherwise plain paragraphs.
    size : int, optional
        Number of ids that the model predicts; by default the size of the tokenizer.
    options : mapping, optional
        Variables of the chat template, such as ``{"enable_thinking": False}``; templates ignore unknown ones.
    """

    def __init__(self, tokenizer: Any, size: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        self.tokenizer, self.options = tokenizer, dict(options or {})
        self.vocabulary = Vocabulary(tokenizer, size)
        self._layout = lru_cache(maxsize=256)(self._render)
        self._count_special = lru_cache(maxsize=256)(self._count_special_uncached)
        self._continue = lru_cache(maxsize=4096)(self._continue_uncached)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that content must never produce: all added tokens except those for runs of white space."""
        added = self.tokenizer.added_tokens_decoder.items()
        return frozenset(index for index, token in added if token.content.strip()) | {*self.tokenizer.all_special_ids}

    @cached_property
    def prefix(self) -> tuple[int, ...]:
        """Tokens that the tokenizer adds before plain text, such as beginning-of-sequence; often none."""
        return self._around[0]

    @cached_property
    def suffix(self) -> tuple[int, ...]:
        """Tokens that the tokenizer adds after plain text, as encoders expect; often none."""
        return self._around[1]

    @cached_property
    def _around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Tokens that the tokenizer adds before and after a plain text."""
        bare, full = self._ids("a"), list(self.tokenizer("a").input_ids)
        for at in range(len(full) - len(bare) + 1):
            if full[at : at + len(bare)] == bare:
                return tuple(full[:at]), tuple(full[at + len(bare) :])
        return (), ()

    def conversation(self, messages: Sequence[Message], closed: bool = False) -> tuple[int, ...]:
        """Encode a conversation up to where the judge's answer begins, or, ``closed``, to its end.

        A last message of the assistant is left open, so that the answer continues it, unless it is closed. Where the
        template refuses or drops a system message, it is put before the first message of the user instead, as newer
        templates do.

        Raises
        ------
        JudgeError
            If the chat template refuses or drops a message, or content would become a special token.
        """
        if not self.tokenizer.chat_template:
            return (*self.prefix, *self.plain("\n\n".join(m.content for m in messages)))
        messages, layout = self._lay_out(messages, closed)
        pieces = [layout.pieces[0]]
        for (index, left, right), piece in zip(layout.slots, layout.pieces[1:], strict=True):
            content = _representable(messages[index].content)
            content = content.lstrip() if left else content
            pieces += [content.rstrip() if right else content, piece]
        return tuple(self._encode(pieces))

    def plain(self, text: str) -> tuple[int, ...]:
        """Encode a text as plain characters, without special tokens before, after or inside."""
        return tuple(self._encode(["", _representable(text)]))

    def continuation(self, text: str) -> tuple[int, ...]:
        """Encode a continuation: like `plain`, but without the leading space that some tokenizers add."""
        return self._continue(_representable(text))

    def trusted(self, text: str) -> tuple[int, ...]:
        """Encode template text as a continuation, with special-token strings as special tokens."""
        return tuple(self._continuation_ids(text))

    def ending(self, messages: Sequence[Message]) -> str:
        """Return the chat template's text between the last message and the beginning of the answer.

        Raises
        ------
        JudgeError
            If the chat template refuses or drops a message.
        """
        return self._lay_out(messages)[1].pieces[-1] if self.tokenizer.chat_template else ""

    def at_most(self, messages: Sequence[Message] | str) -> int:
        """Return an upper bound on the tokens of a conversation or text, without encoding it.

        Raises
        ------
        JudgeError
            If the chat template refuses or drops a message.
        """
        texts = [messages] if isinstance(messages, str) else [m.content for m in messages]
        if not isinstance(messages, str) and self.tokenizer.chat_template:
            texts += self._lay_out(messages)[1].pieces
        size = sum(len(text.encode("utf-8", "replace")) + 4 for text in texts)  # a token is at least one byte
        return size * (1 if self.vocabulary.is_verbatim else _GROWTH) + len(self.prefix) + len(self.suffix)

    def decode(self, ids: Sequence[int], special: bool = False) -> str:
        """Decode generated ids, without special tokens unless requested."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=not special, clean_up_tokenization_spaces=False))

    def _lay_out(self, messages: Sequence[Message], closed: bool = False) -> tuple[Sequence[Message], _Layout]:
        """Return messages with their rendered template; a refused system message is merged into the user's first."""
        roles = tuple(m.role for m in messages)
        try:
            return messages, self._layout(roles, closed)
        except JudgeError:
            if roles[:2] != ("system", "user"):
                raise
        merged = Message("user", f"{messages[0].content}\n\n{messages[1].content}")
        return [merged, *messages[2:]], self._layout(roles[1:], closed)

    def _render(self, roles: tuple[str, ...], closed: bool) -> _Layout:
        turns = [{"role": role, "content": f"\u2003\ue000{i}\ue001\u2003"} for i, role in enumerate(roles)]
        answered = turns[:-1] if roles[-1] == "assistant" and not closed else turns
        try:
            template = self.tokenizer.get_chat_template()
            dated = _CONSTANT_DATE + template if "strftime_now" in template else template
            options = {"tokenize": False, "add_generation_prompt": not closed, **self.options}
            text = self.tokenizer.apply_chat_template(answered, chat_template=dated, **options)
        except Exception as error:
            raise JudgeError(f"the model's chat template refuses this conversation: {error}") from error
        if answered is not turns:
            text += turns[-1]["content"]
        parts = _PLACEHOLDER.split(text)
        slots = tuple((int(parts[i + 1]), not parts[i], not parts[i + 2]) for i in range(1, len(parts), 4))
        if [slot[0] for slot in slots] != list(range(len(roles))):
            changed = f"drops, repeats or moves a message of the roles {', '.join(roles)}"
            raise JudgeError(f"the model's chat template {changed}; use another prompt")
        return _Layout(tuple(parts[::4]), slots)

    def _encode(self, pieces: list[str]) -> list[int]:
        """Encode template and content pieces in turn: even indices are the template's, odd ones are data."""
        text, cuts = "".join(pieces), self._cuts(pieces)
        stops = [*cuts, len(text)]
        ids = self._ids(text[: stops[0]])
        for start, end in zip(cuts, stops[1:], strict=True):
            ids += self._continuation_ids(text[start:end])
        special = Counter(i for i in ids if i in self.special_ids)
        if special != self._count_special(tuple(pieces[::2])):
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
            if touching and end - start > 1:
                cuts.add(max(start + 1, touching[0][0]))
        return sorted(cuts)

    @cached_property
    def _special_strings(self) -> re.Pattern[str]:
        """A pattern that finds every occurrence of a special token's string, even if they overlap."""
        tokens = self.tokenizer.convert_ids_to_tokens(sorted(self.special_ids))
        strings = sorted(map(str, tokens), key=len, reverse=True)
        return re.compile("(?=(" + "|".join(map(re.escape, strings)) + "))" if strings else "(?!)()")

    def _count_special_uncached(self, template: tuple[str, ...]) -> Counter[int]:
        ids = (i for piece in template for i in self._ids(piece))
        return Counter(i for i in ids if i in self.special_ids)

    def _continue_uncached(self, text: str) -> tuple[int, ...]:
        cuts = self._cuts(["", text])
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        ids = tuple(i for piece in pieces for i in self._continuation_ids(piece))
        if any(i in self.special_ids for i in ids):
            raise JudgeError("text from the data would be encoded as a special token; remove it from the data")
        return ids

    def _continuation_ids(self, text: str) -> list[int]:
        """Return the ids of a text as a continuation: after an anchor, if the tokenizer would prepend a space."""
        if not self.vocabulary.adds_space:
            return self._ids(text)
        for anchor in _ANCHORS:
            before, both = self._ids(anchor), self._ids(anchor + text)
            if both[: len(before)] == before:
                return both[len(before) :]
        return self._ids(text)

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids) if text else []


def _representable(text: str) -> str:
    """Replace lone surrogates, which no tokenizer can read, by the replacement character."""
    return _SURROGATE.sub("\ufffd", text)


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
