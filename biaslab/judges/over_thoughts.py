"""`MeanOverThoughts`: the distribution over labels of a judge that thinks, as the mean over several thoughts."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace

import numpy as np

from biaslab.core import BaseJudge, Choice, Judge, Reply, Request, Usage, as_judge, require_kinds
from biaslab.core.checked import checked
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError, JudgeError
from biaslab.stats import Resampling
from biaslab.stats.thoughts import ThoughtVariance, thought_variance


@checked(eager=True)
class MeanOverThoughts(BaseJudge):
    """Answer `Choice` requests by k thoughts: the mean of the exact distributions given each.

    Parameters
    ----------
    judge : Judge
        One that thinks before it answers and gives exact distributions, such as ``LocalJudge(…, thinking=1024)``.
    k : int
        Thoughts for each request.

    Attributes
    ----------
    id : str
        Number of thoughts, and the judge's own.
    members : tuple of Judge
        The judge. With a store, each thought and its distribution are kept under the judge's own id: more thoughts go
        on with those that there are.

    Raises
    ------
    InputError
        If k is below 1, or the judge answers no `Choice` requests or does not think.

    Notes
    -----
    Labels of a text that follows a thought are drawn given that thought, so the mean over thoughts estimates what the
    shares of sampled texts do (`biaslab.Sampled`), without bias, and with a smaller variance: that within thoughts
    falls away. `variance` shows by how much. Thoughts are sampled at temperature 1. What depends on a distribution
    otherwise than linearly, such as the agreement of samples drawn from it or its likeliest label, has an error of the
    order of 1/k. A mass that the labels have together is a mean too. Requests of other kinds are handed on.

    Examples
    --------
    >>> judge = MeanOverThoughts(bl.LocalJudge("Qwen/Qwen3-8B", thinking=1024), k=8)    # doctest: +SKIP
    >>> trials = bl.collect(bl.probes.Position(), judge, data, store="replies.sqlite")  # doctest: +SKIP
    """

    def __init__(self, judge: Judge, k: int) -> None:
        require_whole("k", k, 1)
        asked = as_judge(judge)
        if Choice not in judge.kinds or not asked.thought_tokens:
            raise InputError("judge", judge.id, "a judge that thinks before it answers Choice requests, thinking=1024")
        self.judge, self.k = judge, k
        self.members, self.asks = (judge,), (asked,)
        self.breadth, self.prices, self.limits = asked.breadth // k, asked.prices, asked.limits
        self.id, self.kinds, self.thinks = f"thoughts:{k}:{judge.id}", judge.kinds, asked.thinks

    def __repr__(self) -> str:
        return f"MeanOverThoughts({self.judge!r}, k={self.k})"

    def of_members(self, members: Sequence[Judge]) -> MeanOverThoughts:
        """Return the same mean over thoughts of another judge, such as the same one with a memory."""
        return MeanOverThoughts(members[0], self.k)

    def watched(self, tell: Callable[[str], None]) -> AbstractContextManager[None]:
        """Report every retry of the judge."""
        return self.asks[0].watched(tell)

    def expand(self, request: Request) -> list[Request]:
        """Return what the judge is asked for a request: of a `Choice`, once for each thought."""
        if not isinstance(request, Choice):
            return [request]
        if request.replicate:
            raise JudgeError("a mean over thoughts has no replicates of its own; ask the judge itself for one", request)
        thoughts = 1 if request.thinking == 0 else self.k  # without one, all replies are the same
        return [replace(request, replicate=each) for each in range(thoughts)]

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` if the judge cannot answer what would be asked."""
        for request in requests:
            require_kinds(self, [request])
            try:
                self.judge.check(self.expand(request)[:1])
            except JudgeError as error:
                error.request = request
                raise

    def packs(self, requests: Iterable[Request]) -> Generator[list[tuple[Request, Reply]]]:
        """Answer every request once, when its last thought is there; what completes together is one pack."""
        of: dict[Request, tuple[Request, int]] = {}
        replies: dict[Request, dict[int, Reply]] = {}
        wanted: dict[Request, int] = {}
        for request in dict.fromkeys(requests):
            expanded = self.expand(request)
            replies[request], wanted[request] = {}, len(expanded)
            of |= {each: (request, place) for place, each in enumerate(expanded)}
        try:
            with closing(self.asks[0].packs(list(of))) as packs:
                for pack in packs:
                    complete = []
                    for asked, reply in pack:
                        request, place = of[asked]
                        replies[request][place] = reply
                        if len(replies[request]) == wanted[request]:
                            complete.append((request, _mean(request, replies.pop(request))))
                    if complete:
                        yield complete
        except JudgeError as error:
            error.request = of.get(error.request, (error.request, 0))[0] if error.request else None
            raise

    def variance(
        self,
        requests: Sequence[Choice],
        values: Sequence[float] | None = None,
        context: Sequence[object] | None = None,
        resampling: Resampling | None = None,
    ) -> ThoughtVariance:
        """Split the variance of sampled verdicts between and within thoughts: how many fewer samples are needed.

        Thoughts are asked for; of a judge with a memory, ``MeanOverThoughts(store.wrap(judge), k)``, those that are
        stored cost nothing.

        Parameters
        ----------
        requests : sequence of Choice
            Different requests of equally many labels, such as ``[trial.request for trial in probe.design(data)]``.
        values, context, resampling
            As for `biaslab.stats.thought_variance`.

        Returns
        -------
        ThoughtVariance
            Both components, and how many sampled texts one thought stands for.

        Raises
        ------
        InputError
            If k is 1, or as `biaslab.stats.thought_variance` does.
        """
        if self.k == 1:
            raise InputError("k", self.k, "at least 2 thoughts, between which there is a variance")
        different = list(dict.fromkeys(requests))
        expanded = [self.expand(request) for request in different]
        replies = dict(self.judge.ask([each for several in expanded for each in several]))
        names = [request.about.context_id for request in different if request.about is not None]
        if context is None and len(names) == len(different):
            context = names
        logprobs = [[replies[each].logprobs for each in several] for several in expanded]
        return thought_variance(logprobs, values, context, resampling)  # type: ignore[arg-type]


def _mean(request: Request, replies: dict[int, Reply]) -> Reply:
    """Return the reply whose distribution is the mean of those given each thought, with the tokens of all."""
    ordered = [replies[place] for place in sorted(replies)]
    if not isinstance(request, Choice):
        return ordered[0]
    p = np.exp([reply.logprobs or (-math.inf,) * len(request.labels) for reply in ordered]).mean(axis=0)
    with np.errstate(divide="ignore"):
        logprobs = np.minimum(np.log(p), 0.0)
    return Reply(logprobs=tuple(map(float, logprobs)), usage=Usage.total([reply.usage for reply in ordered]))
