"""`MeanOverThoughts`: the label distribution of a thinking judge, averaged over several thoughts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from biaslab.core import Choice, Judge, Reply, Request, Usage
from biaslab.core.checked import checked
from biaslab.core.errors import InputError, JudgeError
from biaslab.judges.repeating import RepeatingJudge
from biaslab.stats import Resampling
from biaslab.stats.thoughts import ThoughtVariance, thought_variance


@checked(eager=True)
class MeanOverThoughts(RepeatingJudge):
    """Answer `Choice` requests with k thoughts: the mean of the exact distributions given each.

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
        super().__init__(judge, k)
        if Choice not in judge.kinds or not self.asks[0].thought_tokens:
            raise InputError("judge", judge.id, "a judge that thinks before it answers Choice requests, thinking=1024")
        self.members, self.id, self.kinds = (judge,), f"thoughts:{k}:{judge.id}", judge.kinds

    def of_members(self, members: Sequence[Judge]) -> MeanOverThoughts:
        """Return the same mean over thoughts of another judge, such as the same one with a memory."""
        return MeanOverThoughts(members[0], self.k)

    def expand(self, request: Request) -> list[Request]:
        """Return the requests to the underlying judge: for a `Choice`, one per thought."""
        if not isinstance(request, Choice):
            return [request]
        if request.replicate:
            raise JudgeError("a mean over thoughts has no replicates; ask the underlying judge for them", request)
        thoughts = 1 if request.thinking == 0 else self.k  # without one, all replies are the same
        return [replace(request, replicate=each) for each in range(thoughts)]

    def _combine(self, request: Request, replies: Sequence[Reply]) -> Reply:
        """Return the reply whose distribution is the mean of those given each thought, with the tokens of all."""
        if not isinstance(request, Choice):
            return replies[0]
        p = np.exp([reply.logprobs or (-math.inf,) * len(request.labels) for reply in replies]).mean(axis=0)
        with np.errstate(divide="ignore"):
            logprobs = np.minimum(np.log(p), 0.0)
        return Reply(logprobs=tuple(map(float, logprobs)), usage=Usage.total([reply.usage for reply in replies]))

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
            raise InputError("k", self.k, "at least 2 thoughts, to estimate a variance")
        different = list(dict.fromkeys(requests))
        expanded = [self.expand(request) for request in different]
        replies = dict(self.judge.ask([each for several in expanded for each in several]))
        names = [request.about.context_id for request in different if request.about is not None]
        if context is None and len(names) == len(different):
            context = names
        logprobs = [[replies[each].logprobs for each in several] for several in expanded]
        return thought_variance(logprobs, values, context, resampling)  # type: ignore[arg-type]
