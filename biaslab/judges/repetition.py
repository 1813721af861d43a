"""Judges that ask others and combine their replies; several times for each request: `Sampled`, `MeanOverThoughts`."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import Field, dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.interfaces import BaseJudge, Judge, as_judge, require_kinds
from biaslab.core.requests import Choice, Completion, Request
from biaslab.core.trials import DECLINED, Reply, Usage
from biaslab.prompts.parsing import parse_choice
from biaslab.prompts.parsing.thoughts import answered
from biaslab.stats.samples import ThoughtVariance, thought_variance


class DelegatingJudge(BaseJudge):
    """Asks each member everything that `expand` returns for a request; `_combine` makes the reply.

    Parameters
    ----------
    members : sequence of Judge
        The judges to ask. With a store, each of their replies is stored under the member's own id as soon as it
        arrives, so an incomplete group costs only what is missing.
    """

    def __init__(self, members: Sequence[Judge]) -> None:
        self.members, self.asks = tuple(members), tuple(map(as_judge, members))
        self.thinks = all(each.thinks for each in self.asks)
        self.is_recorded = all(each.is_recorded for each in self.asks)

    @abstractmethod
    def _combine(self, request: Request, replies: Sequence[Reply]) -> Reply:
        """Return the reply to a request from those of the members, in order, to the requests of `expand`, in order."""

    @contextmanager
    def watched(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Report every retry of a member."""
        with ExitStack() as stack:
            for each in self.asks:
                stack.enter_context(each.watched(tell))
            yield

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if a member cannot answer the requests of `expand`."""
        asked = list(requests)
        require_kinds(self, asked)
        originals: dict[Request, Request] = {}
        for request in asked:
            originals.setdefault(self.expand(request)[0], request)
        try:
            for judge in self.members:
                judge.check(list(originals))
        except JudgeError as error:
            if error.request in originals or len(asked) == 1:
                error.request = originals.get(error.request, asked[0])  # type: ignore[arg-type]
            raise

    def packs(self, requests: Iterable[Request]) -> Generator[list[tuple[Request, Reply]]]:
        """Ask one member after the other, and answer each request once, when its last reply has arrived.

        Replies that complete together are one pack.
        """
        places = self._places(requests)
        wanted = Counter(request for several in places.values() for request, _ in several)
        replies: dict[Request, dict[tuple[int, int], Reply]] = {request: {} for request in wanted}
        try:
            for member, judge in enumerate(self.asks):
                with closing(judge.packs(list(places))) as packs:
                    for pack in packs:
                        arrived = [(*place, reply) for asked, reply in pack for place in places[asked]]
                        for request, place, reply in arrived:
                            replies[request][member, place] = reply
                        met = dict.fromkeys(request for request, _, _ in arrived)
                        done = [each for each in met if len(replies[each]) == wanted[each] * len(self.asks)]
                        if done:
                            yield [(each, self._combine(each, _in_order(replies.pop(each)))) for each in done]
        except JudgeError as error:
            if error.request in places:
                error.request = places[error.request][0][0]
            raise

    def _places(self, requests: Iterable[Request]) -> dict[Request, list[tuple[Request, int]]]:
        """Return, for each expanded request, the requests that it is part of, and at which place."""
        places: dict[Request, list[tuple[Request, int]]] = {}
        for request in dict.fromkeys(requests):
            for place, asked in enumerate(self.expand(request)):
                places.setdefault(asked, []).append((request, place))
        return places


def _in_order(replies: dict[tuple[int, int], Reply]) -> list[Reply]:
    return [reply for _, reply in sorted(replies.items(), key=itemgetter(0))]


class RepeatingJudge(DelegatingJudge):
    """Asks one judge k times for each request.

    Parameters
    ----------
    judge : Judge
        The judge to ask.
    k : int
        Number of replies per request. Raising it costs only the difference, if replies are stored.
    """

    def __init__(self, judge: Judge, k: int) -> None:
        require_whole("k", k, 1)
        super().__init__([judge])
        self.judge, self.k = judge, k
        self.breadth, self.prices, self.limits = self.asks[0].breadth // k, self.asks[0].prices, self.asks[0].limits

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.judge!r}, k={self.k})"


_CHARACTERS, _SPARE = 3, 12  # minimum characters per token; tokens for "My answer is" and the like


class Sampled(RepeatingJudge):
    """Answer `Choice` requests by sampling text k times: each label's probability is its share of the samples.

    Parameters
    ----------
    judge : Judge
        The judge that generates text.
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
    members : tuple of Judge
        The judge. With a store, each sample is stored under the judge's own id, and raising k reuses them.

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

    def of_members(self, members: Sequence[Judge]) -> Sampled:
        """Return the same samples of another judge, for example the same one wrapped with a store."""
        return Sampled(members[0], self.k, self.temperature, self.max_tokens, self.seed)

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
        declined = reply.finish_reason in DECLINED
        chosen = None if declined else parse_choice(answered(reply).text, request.labels)[0]
        if chosen is not None:
            counts[chosen] += 1
    logprobs = tuple(math.log(n / len(replies)) if n else -math.inf for n in counts)
    models = sorted({reply.model for reply in replies if reply.model is not None})
    usage = Usage.total([reply.usage for reply in replies])
    text = None if any(counts) else replies[0].text  # what it writes instead
    return Reply(logprobs=logprobs, text=text, usage=usage, model="; ".join(models) or None, samples=len(replies))


class MeanOverThoughts(RepeatingJudge):
    """Answer `Choice` requests with k thoughts: the mean of the exact distributions given each.

    Parameters
    ----------
    judge : Judge
        A judge that thinks before it answers and gives exact distributions, for example
        ``LocalJudge(…, thinking=1024)``.
    k : int
        Number of thoughts per request.

    Attributes
    ----------
    id : str
        Number of thoughts, and the judge's own id.
    members : tuple of Judge
        The judge. With a store, each thought and its distribution are stored under the judge's own id, and raising k
        reuses them.

    Raises
    ------
    InputError
        If k is below 1, the judge does not answer `Choice` requests, or does not think.

    Notes
    -----
    The label in a text is drawn given the thought before it, so the mean over thoughts estimates the same as the
    shares of sampled texts (`biaslab.Sampled`), without bias and with a smaller variance, because the variance within
    thoughts is eliminated. `variance` estimates by how much. Thoughts are sampled at temperature 1. Non-linear
    functions of a distribution, such as the agreement of samples drawn from it or its most likely label, have a bias
    of order 1/k. The probability mass of the labels is averaged too. Requests of other kinds are passed on.

    Examples
    --------
    >>> judge = MeanOverThoughts(bl.LocalJudge("Qwen/Qwen3-8B", thinking=1024), k=8)    # doctest: +SKIP
    >>> trials = bl.collect(bl.probes.Position(), judge, data, store="replies.sqlite")  # doctest: +SKIP
    """

    def __init__(self, judge: Judge, k: int) -> None:
        super().__init__(judge, k)
        if Choice not in judge.kinds or not self.asks[0].thought_tokens:
            raise InputError("judge", judge.id, "a judge that thinks before it answers Choice requests, thinking=1024")
        self.id, self.kinds = f"thoughts:{k}:{judge.id}", judge.kinds

    def of_members(self, members: Sequence[Judge]) -> MeanOverThoughts:
        """Return the same mean for another judge, for example the same one wrapped with a store."""
        return MeanOverThoughts(members[0], self.k)

    def expand(self, request: Request) -> list[Request]:
        """Return the requests to the underlying judge: for a `Choice`, one per thought."""
        if not isinstance(request, Choice):
            return [request]
        if request.replicate:
            raise JudgeError("a mean over thoughts has no replicates; ask the underlying judge for them", request)
        thoughts = 1 if request.thinking == 0 else self.k  # without a thought, all replies are equal
        return [replace(request, replicate=each) for each in range(thoughts)]

    def _combine(self, request: Request, replies: Sequence[Reply]) -> Reply:
        """Return the reply whose distribution is the mean of those given each thought, with the tokens of all."""
        if not isinstance(request, Choice):
            return replies[0]
        p = np.exp([reply.logprobs or (-math.inf,) * len(request.labels) for reply in replies]).mean(axis=0)
        with np.errstate(divide="ignore"):
            logprobs = np.minimum(np.log(p), 0.0)
        return Reply(logprobs=tuple(map(float, logprobs)), usage=Usage.total([reply.usage for reply in replies]))

    def variance(self, requests: Sequence[Choice]) -> ThoughtVariance:
        """Split the variance of sampled verdicts between and within thoughts: how many fewer samples are needed.

        This asks for thoughts; with a store, ``MeanOverThoughts(store.wrap(judge), k)``, stored ones cost nothing.

        Parameters
        ----------
        requests : sequence of Choice
            Distinct requests with the same number of labels, such as
            ``[trial.request for trial in probe.design(data)]``. Contexts are resampled if all requests name one.

        Returns
        -------
        ThoughtVariance
            Both components, and the number of sampled texts that one thought is worth.

        Raises
        ------
        InputError
            If k is 1, or as in `biaslab.stats.thought_variance`.
        """
        if self.k == 1:
            raise InputError("k", self.k, "at least 2 thoughts, to estimate a variance")
        different = list(dict.fromkeys(requests))
        expanded = [self.expand(request) for request in different]
        replies = dict(self.judge.ask([each for several in expanded for each in several]))
        names = [request.about.context_id for request in different if request.about is not None]
        context = names if len(names) == len(different) else None
        logprobs = [[replies[each].logprobs for each in several] for several in expanded]
        return thought_variance(logprobs, context=context)  # type: ignore[arg-type]


#: Modes used in calibration; any other number of samples is a valid mode too.
MODES = ("exact", "text", "sampled:3", "sampled:5", "sampled:10")
_SAMPLED = re.compile(r"sampled:([1-9][0-9]{0,3})")


@dataclass(frozen=True)
class AnswerMode:
    """The form of a judge's answers.

    Parameters
    ----------
    name : str
        "exact": the label distribution. "text": one sampled text. "sampled:k": shares of k sampled texts, as counted
        by `biaslab.judges.repetition.Sampled`.

    Raises
    ------
    InputError
        If the mode is unknown; the message lists the known ones.

    Examples
    --------
    >>> AnswerMode("sampled:5").k
    5
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in MODES and not _SAMPLED.fullmatch(self.name):
            raise InputError("mode", self.name, f"one of {', '.join(MODES)}, or sampled:k with another k")

    @property
    def k(self) -> int | None:
        """Samples per request; None if the answer is exact."""
        match = _SAMPLED.fullmatch(self.name)
        return int(match[1]) if match else 1 if self.name == "text" else None

    def asked(self, probe: Any, judge: Judge) -> tuple[Any, Judge]:
        """Return the probe and the judge, modified to use this answer mode.

        A probe without the parameter ``answer`` reads texts only; instead of shares of k samples it uses k replicates.

        Parameters
        ----------
        probe : Probe
            Any probe.
        judge : Judge
            A judge that answers `Choice` and `Completion` requests.

        Raises
        ------
        InputError
            If the probe does not support the mode.
        """
        known: dict[str, Field[Any]] = getattr(probe, "__dataclass_fields__", {})
        if "answer" not in known:
            return self._texts(probe, known), judge
        answer = "text" if self.name == "text" else "distribution"
        sampled = Sampled(judge, self.k) if self.name.startswith("sampled") and self.k else judge
        return (probe if probe.answer == answer else replace(probe, answer=answer)), sampled

    def _texts(self, probe: Any, known: dict[str, Field[Any]]) -> Any:
        if self.name == "text":
            return probe
        if self.k is None or "replicates" not in known:
            raise InputError("mode", self.name, '"text"', f"the probe {probe.name} only reads texts")
        return replace(probe, replicates=self.k)
