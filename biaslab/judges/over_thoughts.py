"""`MeanOverThoughts`: the label distribution of a reasoning judge, averaged over several thoughts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from biaslab.core import Choice, Judge, Reply, Request, Usage
from biaslab.core.errors import InputError, JudgeError
from biaslab.judges.repeating import RepeatingJudge
from biaslab.stats import Resampling
from biaslab.stats.thoughts import ThoughtVariance, thought_variance


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
        self.members, self.id, self.kinds = (judge,), f"thoughts:{k}:{judge.id}", judge.kinds

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

    def variance(
        self,
        requests: Sequence[Choice],
        values: Sequence[float] | None = None,
        context: Sequence[object] | None = None,
        resampling: Resampling | None = None,
    ) -> ThoughtVariance:
        """Split the variance of sampled verdicts between and within thoughts: how many fewer samples are needed.

        This asks for thoughts; with a store, ``MeanOverThoughts(store.wrap(judge), k)``, stored ones cost nothing.

        Parameters
        ----------
        requests : sequence of Choice
            Distinct requests with the same number of labels, such as
            ``[trial.request for trial in probe.design(data)]``.
        values, context, resampling
            As in `biaslab.stats.thought_variance`.

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
        if context is None and len(names) == len(different):
            context = names
        logprobs = [[replies[each].logprobs for each in several] for several in expanded]
        return thought_variance(logprobs, values, context, resampling)  # type: ignore[arg-type]
