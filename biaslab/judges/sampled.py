"""`Sampled`: label probabilities from a text judge, by counting samples (Liusie et al. 2024, Eq. 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from biaslab.core import DECLINED, Choice, Completion, Judge, Reply, Request, Usage
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.judges.repeating import RepeatingJudge
from biaslab.prompts.parsing import parse_choice
from biaslab.prompts.parsing.thoughts import answered

_CHARACTERS, _SPARE = 3, 12  # minimum characters per token; tokens for "My answer is" and the like


class Sampled(RepeatingJudge):
    """Answer `Choice` requests by sampling text k times: each label's probability is its share of the samples.

    Parameters
    ----------
    judge : Judge
        The judge that generates text. To store every sample rather than just the counts, pass ``store.wrap(judge)``.
    k : int
        Number of samples per request.
    temperature : float
        Sampling temperature, above 0.
    max_tokens : int, optional
        Maximum length of a sample; by default what the labels need, plus a few tokens.
    seed : int
        Offset of the seeds of all samples.

    Attributes
    ----------
    id : str
        The judge's id, and the sampling settings.

    Raises
    ------
    InputError
        If a value is out of range, or the judge does not generate text.

    Notes
    -----
    The probability of label w is its count over k (Eq. 5), so its standard error is √(p(1 − p)/k), and a label that no
    sample chose has log-probability ``-inf``. Samples that choose no label, including refusals, count for none, so the
    probabilities may sum to less than 1. Requests of other kinds are passed on.

    A reply states that its shares are based on k samples, and estimates take this into account: score probes treat
    them as texts at temperature 1. What k samples do not reveal, such as the greedy answer, is asked for as text, or
    undefined.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=1)
    >>> judge = Sampled(bl.SimulatedJudge(data, position=1.0), k=20)
    >>> trials = bl.collect(bl.probes.Position(attributes=["coherence"], templates=[1]), judge, data, progress=False)
    >>> round(20 * float(trials["value"].iloc[0]), 9).is_integer()
    True
    """

    def __init__(
        self, judge: Judge, k: int, temperature: float = 1.0, max_tokens: int | None = None, seed: int = 0
    ) -> None:
        super().__init__(judge, k)
        require_whole("max_tokens", max_tokens, 1, optional=True)
        if not 0 < temperature <= 10:
            raise InputError("temperature", temperature, "a number above 0, at most 10")
        if Completion not in judge.kinds:
            raise InputError("judge", judge.id, "a judge that answers Completion requests")
        self.temperature, self.max_tokens, self.seed = temperature, max_tokens, seed
        length = "" if max_tokens is None else f",max_tokens={max_tokens}"
        moved = f",seed={seed}" if seed else ""
        self.id = f"sampled:k={k},temperature={temperature:g}{length}{moved}:{judge.id}"
        self.kinds = frozenset({*judge.kinds, Choice})

    def _combine(self, request: Request, replies: Sequence[Reply]) -> Reply:
        """Return the label shares among the samples, or the single reply for other requests."""
        return count(request, replies) if isinstance(request, Choice) else replies[0]

    def expand(self, request: Request) -> list[Request]:
        """Return the sample requests for a request."""
        if not isinstance(request, Choice):
            return [request]
        length = self.max_tokens or math.ceil(max(map(len, request.labels)) / _CHARACTERS) + _SPARE
        how = (request.messages, self.temperature, length)
        seen = self.seed, request.about, request.thinking
        return [Completion(*how, replicate, *seen) for replicate in range(self.k)]


def count(request: Choice, replies: Sequence[Reply]) -> Reply:
    """Turn samples into the reply to a `Choice`: log of each label's share (Eq. 5), with the tokens of all samples."""
    counts = [0] * len(request.labels)
    for reply in replies:
        chosen, _ = (
            (None, None) if reply.finish_reason in DECLINED else parse_choice(answered(reply).text, request.labels)
        )
        if chosen is not None:
            counts[chosen] += 1
    logprobs = tuple(math.log(n / len(replies)) if n else -math.inf for n in counts)
    models = sorted({reply.model for reply in replies if reply.model is not None})
    usage = Usage.total([reply.usage for reply in replies])
    return Reply(logprobs=logprobs, usage=usage, model="; ".join(models) or None, samples=len(replies))
