"""Thinking of a local model: prompts that open it, generation, and how it ends."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from biaslab.core import Choice, Completion, Message, Reply, Usage, request_key
from biaslab.core.errors import JudgeError, PromptTooLongError
from biaslab.judges.encoding import Encoder
from biaslab.judges.prompted import Prompted
from biaslab.judges.thinking import LEAST, MOST, Thinking
from biaslab.judges.thought_format import FORMATS, ThoughtFormat, find_format

if TYPE_CHECKING:
    from biaslab.judges.generation import Generator

Asked = Choice | Completion
_TOGETHER = 64  # thoughts that are answered together, so that answers fill a batch; a killed run loses no more


@dataclass(frozen=True)
class Thought:
    """A thought: the tokens generated before an answer.

    Parameters
    ----------
    text : str
        Its words, without tags.
    ids : tuple of int
        Tokens between the prompt, which opens it, and the answer: those that the model wrote, and those that close it.
    written : int
        Tokens that the model wrote.
    """

    text: str
    ids: tuple[int, ...]
    written: int

    def before(self, reply: Reply) -> Reply:
        """Return the reply after this thought, with the thought and its tokens."""
        told = "\n\n".join(filter(None, (self.text, reply.thought)))  # an answer may hold another one
        usage = replace(reply.usage, prompt_tokens=reply.usage.prompt_tokens - self.written)
        return replace(reply, thought=told, usage=usage + Usage(0, 0, self.written, self.written))


class OpenedPrompt(NamedTuple):
    """Token ids up to where a thought begins, or, without one, the answer; and those with which the answer begins."""

    ids: tuple[int, ...]
    answer: tuple[int, ...]


class ThoughtPrompts:
    """Prompts of one tokenizer that open a thought, or that leave none where thinking is off.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        The model's tokenizer, with its chat template.
    size : int
        Number of ids that the model predicts.
    thinking : Thinking
        What was asked for; whether it is on, and the effort, enter the prompt.

    Attributes
    ----------
    encoder : Encoder
        Encodes conversations with the template's switch set (``enable_thinking``, or ``thinking``).
    """

    def __init__(self, tokenizer: object, size: int, thinking: Thinking) -> None:
        self.is_on = thinking.is_on
        effort = {"reasoning_effort": thinking.effort} if thinking.effort and self.is_on else {}
        options = [{"enable_thinking": on, "thinking": on} for on in (self.is_on, not self.is_on)]
        self.encoder, self._other = (Encoder(tokenizer, size, each | effort) for each in options)

    @cached_property
    def format(self) -> ThoughtFormat:
        """The tags and tokens of the model's thoughts.

        Raises
        ------
        JudgeError
            If neither its template nor its tokenizer has the tags of a known family.
        """
        found = find_format(self.encoder.tokenizer)
        if found is None:
            names = ", ".join(each.name for each in FORMATS)
            raise JudgeError(
                f"neither the model's chat template nor its tokenizer has thinking tags ({names}); "
                "omit thinking= for a model that does not think"
            )
        return found

    def prompt(self, messages: Sequence[Message]) -> OpenedPrompt:
        """Encode a conversation up to where the thought begins, or, with thinking off, to where the answer does.

        Raises
        ------
        JudgeError
            If thinking is off and the template neither has a switch nor opens a thought, which could be closed; or as
            `Encoder.conversation` does.
        """
        begun = messages[-1].role == "assistant"
        asked = messages[:-1] if begun else messages
        if not asked:
            raise JudgeError("the conversation has no message before the answer; begin with a user message")
        if not self.is_on and self._is_switched(asked):
            return OpenedPrompt(self.encoder.conversation(messages), ())
        opens = self.encoder.ending(asked).rstrip().endswith(self.format.name)
        ids = self.encoder.conversation(asked)
        if self.is_on:
            ids += () if opens else self.encoder.trusted(self.format.opening)
        elif opens:
            ids += self.encoder.trusted(self.format.before + self.format.tag + self.format.after)
        else:
            raise JudgeError(
                "the model's chat template has no switch for thinking (enable_thinking, thinking) and opens none, "
                "so thinking cannot be turned off; omit thinking="
            )
        return OpenedPrompt(ids, self.encoder.continuation(messages[-1].content) if begun else ())

    def _is_switched(self, messages: Sequence[Message]) -> bool:
        """Return whether the template writes something else behind the last message with thinking on."""
        return self.encoder.ending(messages) != self._other.ending(messages)

    @cached_property
    def closing(self) -> tuple[int, ...]:
        """Tokens that end a thought at its budget."""
        return self.encoder.trusted(self.format.before + self.format.tag + self.format.after)

    def budget(self, request: Asked, thinking: Thinking, tokens: int, window: float) -> int:
        """Return how many tokens a thought may have beside so many others; with "auto", what a window of tokens leaves.

        Raises
        ------
        PromptTooLongError
            If the window does not hold them.
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
        """Return whether a text ends with the closing tag, perhaps with what its last token holds behind it."""
        if len(self._tag) == 1:
            return bool(ids) and ids[-1] == self._tag[0]
        tail = self.encoder.decode(ids[-2 * len(self.format.tag) :], special=True)
        return self.format.tag in tail and tail.rpartition(self.format.tag)[2].strip() == ""

    def thought(self, ids: Sequence[int]) -> Thought:
        """Return a thought from the tokens that the model wrote; one that it did not close itself is closed."""
        words, form = self.encoder.decode(ids, special=True), self.format
        if self.ends(ids):
            behind = words.rpartition(form.tag)[2]
            after = form.after[len(behind) :] if form.after.startswith(behind) else ""
            closing = self.encoder.trusted(after)
        else:
            gap = "" if words.endswith(form.before) else form.before
            closing = self.encoder.trusted(gap + form.tag + form.after)
        said = self.encoder.decode(ids)
        said = said.rpartition(form.tag)[0] if self.ends(ids) and form.tag in said else said
        return Thought(said.strip(), (*ids, *closing), len(ids))


class ThoughtWriter:
    """Writes a thought before each answer.

    Parameters
    ----------
    prompts : ThoughtPrompts
        How thoughts begin and end.
    generator : Generator
        Writes text; a thought that ends the turn without a tag ends there.

    Attributes
    ----------
    longest : int
        Tokens of the longest thought so far.
    """

    def __init__(self, prompts: ThoughtPrompts, generator: Generator) -> None:
        self.prompts, self.longest, self._generator = prompts, 0, generator

    def write(self, asked: Mapping[Asked, tuple[tuple[int, ...], int]]) -> Iterator[dict[Asked, Thought]]:
        """Yield thoughts of requests, at least 64 at a time, all those of one prompt together.

        Parameters
        ----------
        asked : mapping
            Of each request its prompt and the tokens that a thought may have. Requests of one prompt, replicate and
            temperature share a thought.

        Raises
        ------
        OutOfMemoryError
            If a single thought does not fit; it carries the index of its request.
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
    """Return temperature and seed of a request's thought, whatever its labels, its limit and its budget are.

    Labels and texts are so asked behind the same thoughts, and a longer budget goes on with a shorter one's thought.
    """
    temperature = request.temperature if isinstance(request, Completion) else 1.0
    if not temperature:
        return 0.0, 0
    seed = request.seed if isinstance(request, Completion) else 0
    alike = Completion(request.messages, temperature, 1, request.replicate, seed)
    return temperature, int(hashlib.sha256(request_key(alike, "thought").encode()).hexdigest()[:16], 16)
