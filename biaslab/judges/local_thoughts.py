"""Thinking of local models: prompts that open a thought, generation, and how it ends."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from biaslab.core.errors import JudgeError, PromptTooLongError
from biaslab.core.requests import Choice, Completion, Message, request_key
from biaslab.core.trials import Reply, Usage
from biaslab.judges.encoding import ChatEncoder
from biaslab.judges.generation import Prompted
from biaslab.judges.thinking import FORMATS, LEAST, MOST, ThinkingOption, ThoughtFormat, find_format

if TYPE_CHECKING:
    from biaslab.judges.generation import TextGenerator

Asked = Choice | Completion
_TOGETHER = 64  # thoughts answered together, to fill a batch; a killed run loses at most these


@dataclass(frozen=True)
class Thought:
    """A thought: the tokens generated before an answer.

    Parameters
    ----------
    text : str
        Its text, without tags.
    ids : tuple of int
        Tokens between the prompt, which opens the thought, and the answer: those generated, and those that close it.
    written : int
        Number of tokens generated.
    """

    text: str
    ids: tuple[int, ...]
    written: int

    def before(self, reply: Reply) -> Reply:
        """Return the reply after this thought, with the thought and its tokens."""
        thought = "\n\n".join(filter(None, (self.text, reply.thought)))  # the answer may contain another thought
        usage = replace(reply.usage, prompt_tokens=reply.usage.prompt_tokens - self.written)
        return replace(reply, thought=thought, usage=usage + Usage(0, 0, self.written, self.written))


class OpenedPrompt(NamedTuple):
    """Token ids up to the beginning of the thought (or answer), and those that begin the answer."""

    ids: tuple[int, ...]
    answer: tuple[int, ...]


class ThoughtPrompts:
    """Prompts of one tokenizer that open a thought, or suppress it if thinking is off.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        The model's tokenizer, with its chat template.
    size : int
        Number of ids that the model predicts.
    thinking : ThinkingOption
        The requested budget; whether it is on, and the effort, affect the prompt.

    Attributes
    ----------
    encoder : ChatEncoder
        Encodes conversations with the template's switch set (``enable_thinking`` or ``thinking``).
    """

    def __init__(self, tokenizer: object, size: int, thinking: ThinkingOption) -> None:
        self.is_on = thinking.is_on
        effort = {"reasoning_effort": thinking.effort} if thinking.effort and self.is_on else {}
        options = [{"enable_thinking": on, "thinking": on} for on in (self.is_on, not self.is_on)]
        self.encoder, self._other = (ChatEncoder(tokenizer, size, each | effort) for each in options)

    @cached_property
    def format(self) -> ThoughtFormat:
        """The tags and tokens of the model's thoughts.

        Raises
        ------
        JudgeError
            If neither its template nor its tokenizer has the tags of a known model family.
        """
        known = find_format(self.encoder.tokenizer)
        if known is None:
            names = ", ".join(each.name for each in FORMATS)
            tags = f"neither the model's chat template nor its tokenizer has thinking tags ({names})"
            raise JudgeError(f"{tags}; omit thinking= for a model that does not think")
        return known

    def prompt(self, messages: Sequence[Message]) -> OpenedPrompt:
        """Encode a conversation up to the beginning of the thought or, with thinking off, of the answer.

        Raises
        ------
        JudgeError
            If thinking is off and the template neither has a switch nor opens a thought that could be closed; or as in
            `ChatEncoder.conversation`.
        """
        begun = messages[-1].role == "assistant"
        asked = messages[:-1] if begun else messages
        if not asked:
            raise JudgeError("the conversation has no message before the answer; begin with a user message")
        if not self.is_on and self.encoder.ending(asked) != self._other.ending(asked):  # the template has a switch
            return OpenedPrompt(self.encoder.conversation(messages), ())
        opens = self.encoder.ending(asked).rstrip().endswith(self.format.name)
        ids = self.encoder.conversation(asked)
        if self.is_on:
            ids += () if opens else self.encoder.trusted(self.format.opening)
        elif opens:
            ids += self.encoder.trusted(self.format.before + self.format.tag + self.format.after)
        else:
            switch = "the model's chat template has no switch for thinking (enable_thinking, thinking) and opens none"
            raise JudgeError(f"{switch}, so thinking cannot be turned off; omit thinking=")
        return OpenedPrompt(ids, self.encoder.continuation(messages[-1].content) if begun else ())

    @cached_property
    def closing(self) -> tuple[int, ...]:
        """Tokens that end a thought at its budget."""
        return self.encoder.trusted(self.format.before + self.format.tag + self.format.after)

    def budget(self, request: Asked, thinking: ThinkingOption, tokens: int, window: float) -> int:
        """Return the maximum length of a thought given other tokens; with "auto", what the window leaves.

        Raises
        ------
        PromptTooLongError
            If they do not fit in the window.
        """
        least = LEAST if thinking.mode == "auto" else thinking.tokens
        left = window - tokens - len(self.closing)
        if left < least:
            raise PromptTooLongError(
                f"a request has {tokens} tokens plus up to {least:,} thinking tokens, but the context window is "
                f"{window:.0f}; shorten the text, lower thinking= or use another judge",
                request,
            )
        return int(min(MOST, left)) if thinking.mode == "auto" else least

    @cached_property
    def _tag(self) -> tuple[int, ...]:
        return self.encoder.trusted(self.format.tag)

    def ends(self, ids: Sequence[int]) -> bool:
        """Return whether a text ends with the closing tag, possibly followed by the rest of its last token."""
        if len(self._tag) == 1:
            return bool(ids) and ids[-1] == self._tag[0]
        tail = self.encoder.decode(ids[-2 * len(self.format.tag) :], special=True)
        return self.format.tag in tail and tail.rpartition(self.format.tag)[2].strip() == ""

    def thought(self, ids: Sequence[int]) -> Thought:
        """Return a thought from the generated tokens, closing it if the model did not."""
        words, form = self.encoder.decode(ids, special=True), self.format
        if self.ends(ids):
            behind = words.rpartition(form.tag)[2]
            after = form.after[len(behind) :] if form.after.startswith(behind) else ""
            closing = self.encoder.trusted(after)
        else:
            gap = "" if words.endswith(form.before) else form.before
            closing = self.encoder.trusted(gap + form.tag + form.after)
        text = self.encoder.decode(ids)
        text = text.rpartition(form.tag)[0] if self.ends(ids) and form.tag in text else text
        return Thought(text.strip(), (*ids, *closing), len(ids))


class ThoughtWriter:
    """Generates a thought before each answer.

    Parameters
    ----------
    prompts : ThoughtPrompts
        How thoughts begin and end.
    generator : Generator
        Generates text; a thought that ends the turn without a tag ends there.

    Attributes
    ----------
    longest : int
        Length of the longest thought so far, in tokens.
    """

    def __init__(self, prompts: ThoughtPrompts, generator: TextGenerator) -> None:
        self.prompts, self.longest, self._generator = prompts, 0, generator

    def write(self, asked: Mapping[Asked, tuple[tuple[int, ...], int]]) -> Iterator[dict[Asked, Thought]]:
        """Yield thoughts of requests, at least 64 at a time, keeping those of one prompt together.

        Parameters
        ----------
        asked : mapping
            The prompt of each request, and its maximum thinking tokens. Requests with the same prompt, replicate and
            temperature share a thought.

        Raises
        ------
        OutOfMemoryError
            If a single thought does not fit; carries the index of its request.
        """
        sharing: dict[tuple[object, ...], list[Asked]] = {}
        for request, (prompt, budget) in asked.items():
            sharing.setdefault((prompt, budget, *_drawn(request)), []).append(request)
        rows = [
            Prompted(Completion("", temperature, budget), prompt, seed, self.prompts.ends)  # type: ignore[arg-type]
            for prompt, budget, temperature, seed in sharing
        ]
        groups, left = list(sharing.values()), Counter(row.prompt for row in rows)
        thoughts: dict[tuple[int, ...], dict[Asked, Thought]] = {}
        for batch in self._generator.generate(rows):
            for row, ids, _ in batch:
                prompt, thought = rows[row].prompt, self.prompts.thought(ids)
                thoughts.setdefault(prompt, {}).update(dict.fromkeys(groups[row], thought))
                left[prompt] -= 1
                self.longest = max(self.longest, thought.written)
            whole = [prompt for prompt in thoughts if not left[prompt]]
            if sum(len(thoughts[prompt]) for prompt in whole) >= _TOGETHER:
                yield {request: each for prompt in whole for request, each in thoughts.pop(prompt).items()}
        if thoughts:
            yield {request: each for several in thoughts.values() for request, each in several.items()}


def _drawn(request: Asked) -> tuple[float, int]:
    """Return the temperature and seed of a request's thought, which do not depend on labels, limit or budget.

    Labels and texts thus follow the same thoughts, and a larger budget continues the thought of a smaller one.
    """
    temperature = request.temperature if isinstance(request, Completion) else 1.0
    if not temperature:
        return 0.0, 0
    seed = request.seed if isinstance(request, Completion) else 0
    alike = Completion(request.messages, temperature, 1, request.replicate, seed)
    return temperature, int(hashlib.sha256(request_key(alike, "thought").encode()).hexdigest()[:16], 16)
