"""`RewardJudge`: a reward model on this machine, which scores single texts without a prompt."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax

from biaslab.core.errors import InputError, UnsupportedRequestError
from biaslab.core.requests import Compare, Message, Rank, Request, Score
from biaslab.core.scales import REWARD
from biaslab.core.trials import Reply, Usage
from biaslab.judges.loading import DeviceMap, load_reward_model
from biaslab.judges.local import LoadedModel, LocalJudge

if TYPE_CHECKING:
    from biaslab.judges.batches import BatchScorer, Scored
    from biaslab.judges.prefix_tree import TreeScorer

_SLOT = re.compile(r"\{(context|reference|attribute)\}")
_CLOSING = 64  # maximum number of tokens that close an answer, in any template


class RewardJudge(LocalJudge):
    r"""A local reward model: a sequence classifier with one output.

    Parameters
    ----------
    model : str
        A local folder or a hub identifier, for example ``"Skywork/Skywork-Reward-Llama-3.1-8B-v0.2"``.
    dtype, device, device_map, revision, max_batch_tokens
        As in `biaslab.LocalJudge`.
    prompt : str
        The user's turn: a text with ``{context}`` and, if they should be shown, ``{reference}`` or ``{attribute}``,
        for example ``"Summarise this article:\n\n{context}"``. Part of the id.

    Attributes
    ----------
    id : str
        Name, content fingerprint or commit, dtype, and the prompt if it is not just the context.

    Raises
    ------
    InputError
        If dtype, device or device_map is not available here, or the prompt does not contain the context.
    ModelLoadError
        Immediately if the model does not exist; at the first request if it cannot be loaded, needs remote code, or is
        not a sequence classifier with one trained output.

    Notes
    -----
    A text is shown as the assistant's answer to the prompt, in the model's chat template. Without a template, prompt
    and text are a pair of segments (encoders) or two paragraphs. The reward is read at the last token of the text,
    independent of padding.

    * `biaslab.core.Score`: the reward itself, which is unbounded, on the scale ``"reward"``. Probes use its standard
      deviation within a cell (judge, data set, attribute, …) as one point, so thresholds in points are in standard
      deviations.
    * `biaslab.core.Compare`: the probability that the first wins, σ(reward of the first − reward of the second), as in
      the training of such models (Bradley and Terry 1952); equal rewards are a tie. Each text is scored alone, so that
      a verdict cannot depend on order.
    * `biaslab.core.Rank`: the probability that each text of a list is best, the softmax of the rewards; equal to
      `Compare` for two texts.

    The shared prefix of a context's candidates is computed once, and so is a text that occurs in many pairs.

    Examples
    --------
    >>> judge = RewardJudge("Skywork/Skywork-Reward-Llama-3.1-8B-v0.2")                         # doctest: +SKIP
    >>> trials = bl.collect(bl.probes.Verbosity(["quality"]), judge, data, store="replies.sqlite")  # doctest: +SKIP
    """

    kinds: frozenset[type] = frozenset({Compare, Rank, Score})
    reads_prompts = thinks = False
    score_scale = REWARD.name

    def __init__(
        self,
        model: str | LoadedModel,
        dtype: str | None = None,
        device: str | None = None,
        *,
        prompt: str = "{context}",
        device_map: DeviceMap | None = None,
        revision: str | None = None,
        max_batch_tokens: int | None = None,
    ) -> None:
        super().__init__(
            model, dtype, device, device_map=device_map, revision=revision, max_batch_tokens=max_batch_tokens
        )
        self._asked = _checked_prompt(prompt)
        self.id = f"reward:{self.id.partition(':')[2]}{_in_id(prompt)}"

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return load_reward_model(self._source, self.dtype, self.device, self._device_map)

    @cached_property
    def _opening(self) -> tuple[int, ...]:
        return ()

    @cached_property
    def _segments(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], bool]:
        """Tokens before, between and after an encoder's two segments, and whether token types distinguish them."""
        tokenizer, encoder = self._loaded[1], self._encoder
        one, two = encoder.plain("a"), encoder.plain("b")
        whole = tokenizer("a", "b")
        ids = tuple(whole["input_ids"])
        start = next(at for at in range(len(ids)) if ids[at : at + len(one)] == one)
        second = next(at for at in range(start + len(one), len(ids)) if ids[at : at + len(two)] == two)
        typed = 1 in whole.get("token_type_ids", ())
        return ids[:start], ids[start + len(one) : second], ids[second + len(two) :], typed

    @cached_property
    def _scorer(self) -> BatchScorer | TreeScorer:
        from biaslab.judges.scorers import choose_rewards, is_causal

        model = self._loaded[0]
        return choose_rewards(model, not is_causal(model) and self._segments[3], self._max_batch_tokens)

    def _at_most(self, request: Request) -> int:
        """Return an upper bound on the tokens of a request's longest text, without encoding it."""
        encoder = self._encoder
        return max(encoder.at_most(turns) for turns in self._turns(request)) + _CLOSING

    def _sequences(self, request: Request, thought: tuple[int, ...] = ()) -> list[Scored]:  # noqa: ARG002
        """Turn a request into the texts to score: one, or the two of a pair."""
        from biaslab.judges.scorers import is_causal, rewarded

        encoder, has_template = self._encoder, bool(self._loaded[1].chat_template)
        sequences = []
        for turns in self._turns(request):
            asked, text = (turn.content for turn in turns)
            if has_template:
                sequences.append(rewarded(encoder.conversation(turns, closed=True)))
            elif is_causal(self._loaded[0]) or not asked.strip():
                whole = encoder.plain(f"{asked}\n\n{text}" if asked.strip() else text)
                sequences.append(rewarded((*encoder.prefix, *whole, *encoder.suffix)))
            else:
                before, between, after, _ = self._segments
                first = (*before, *encoder.plain(asked), *between)
                sequences.append(rewarded((*first, *encoder.plain(text), *after), len(first)))
        return sequences

    def _turns(self, request: Request) -> list[tuple[Message, Message]]:
        """Return the conversations to score."""
        if not isinstance(request, Compare | Score | Rank):
            raise UnsupportedRequestError("a reward model takes texts, not prompts", request)
        shown = {"context": request.source, "reference": request.reference, "attribute": request.attribute}
        asked = _SLOT.sub(lambda slot: shown[slot[1]], self._asked)
        return [(Message("user", asked), Message("assistant", text)) for text in request.texts]

    def _reply(self, request: Request, sequences: Sequence[Scored], values: Sequence[Sequence[float]]) -> Reply:
        usage, rewards = Usage(prompt_tokens=sum(len(each.ids) for each in sequences)), [each for [each] in values]
        if isinstance(request, Rank):
            return Reply(logprobs=tuple(np.minimum(log_softmax(rewards), 0.0).tolist()), usage=usage)
        return Reply(score=preference(*rewards) if isinstance(request, Compare) else rewards[0], usage=usage)


def preference(first: float, second: float) -> float:
    """Return the probability that the first of two texts wins, from their rewards (Bradley and Terry 1952).

    For swapped texts it is exactly 1 minus that, and exactly ½ only if the rewards are equal.

    Examples
    --------
    >>> preference(2.0, 1.0), preference(1.0, 2.0), preference(3.0, 3.0)
    (0.7310585786300049, 0.2689414213699951, 0.5)
    """
    leads = 1 / (1 + math.exp(-abs(first - second)))
    return leads if first >= second else 1 - leads


def _checked_prompt(prompt: str) -> str:
    if not isinstance(prompt, str) or "{context}" not in prompt:
        raise InputError("prompt", prompt, "a text with {context}, and optionally {reference} or {attribute}")
    return prompt


def _in_id(prompt: str) -> str:
    return "" if prompt == "{context}" else f"+{hashlib.sha256(prompt.encode()).hexdigest()[:8]}"
