"""`SimulatedJudge`: a judge with planted, known biases, for checking the estimators."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from biaslab.core import (
    BaseJudge,
    Choice,
    Completion,
    Likelihood,
    Reply,
    Request,
    ThinkingBudget,
    as_prompt,
    as_thinking,
    require_kinds,
    thinking_of,
    thinking_tokens,
)
from biaslab.core.errors import InputError
from biaslab.core.output import html_table
from biaslab.core.schema import Dataset
from biaslab.judges.simulated.answering import GARBAGE, REFUSAL, answer, answer_after_thought
from biaslab.judges.simulated.knowledge import (
    LOG_PERPLEXITY,
    Knowledge,
    Questions,
    digest_of,
    knowledge_of,
    normal,
    uniforms,
)
from biaslab.judges.simulated.pair_truth import pair_truth
from biaslab.judges.simulated.planted import Planted

if TYPE_CHECKING:
    import pandas as pd

_PACK = 100  # replies per pack
__all__ = ["GARBAGE", "REFUSAL", "Planted", "SimulatedJudge"]


@dataclass(frozen=True)
class SimulatedJudge(Planted, BaseJudge):
    """A judge that knows the human scores of a data set and distorts them by planted biases.

    A candidate with human score s has the utility ``u = quality × (s − m) + familiarity × (log perplexity − mean) +
    verbosity × (log2 words − mean) + self_preference``, in points; m is the midpoint of the human scale, and the last
    term applies only to the judge's own texts.

    In a pair, the log odds of preferring the first are ``u_first − u_second + position + c + t + ε``, where c is a
    shift of the context, t one of the prompt variant, and ε ~ Normal(0, noise²) one of the prompt itself.

    In a list, the probability of being best is proportional to exp(u_i + position + c + t) for the first candidate and
    exp(u_i) for the others, with ε ~ Normal(0, noise² / 2) for each position, so that a list of two is equivalent to a
    pair; rankings follow the Plackett–Luce model.

    A score is centred at ``μ = ½ + (u + c + t) / W + reason_first`` on the unit scale (0 lowest, 1 highest), where W
    is the range of the human scale; a preceding score v shifts this by ``anchoring × (v − μ)``, and ε / W is added.
    The probability of a label at x is proportional to ``exp(−½ sharpness² (x − μ)² + heaping × h)``, with h = 1 at
    multiples of 10 and ½ at other multiples of 5. Text at temperature T is drawn from p_T ∝ p^{1/T}.

    If a request has a positive thinking budget, biases are reduced according to ``thought_debiasing``, all random
    terms of the prompt (ε, refusals, samples) are drawn anew, and a thought of a quarter to half of the budget is
    counted (`biaslab.Usage.reasoning_tokens`). A budget of 0 has no effect.

    Parameters
    ----------
    dataset : Dataset
        Source of the true scores. Requests identify candidates by `biaslab.core.About`.
    **planted
        Planted values by name: see `Planted`.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> import biaslab as bl
    >>> judge = bl.SimulatedJudge(bl.load_dataset("graded", limit=2), position=0.5)
    >>> judge.id  # doctest: +ELLIPSIS
    'simulated:graded (constructed):position=0.5,data=...'
    >>> trials = bl.collect(bl.probes.Position(), judge, judge.dataset, progress=False)
    >>> judge.truth("first_position_logit", trials)
    0.5
    """

    dataset: Dataset = field()

    kinds = frozenset({Choice, Completion, Likelihood})
    thinks = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.self_preference and self.own_system not in self.known.systems.values():
            allowed = ", ".join(sorted(filter(None, set(self.known.systems.values())))) or "none: no candidate has one"
            raise InputError("own_system", self.own_system, f"a system of the data set: {allowed}")

    @cached_property
    def id(self) -> str:  # type: ignore[override]
        """Data set, every planted value that is not neutral, and a digest of the texts and scores that are known."""
        listed = ",".join(filter(None, (self.listed, f"data={self.known.digest}")))
        return f"simulated:{self.dataset.name}:{listed}"

    def _repr_html_(self) -> str:
        planted = [part.split("=", 1) for part in self.listed.split(",") if part]
        return html_table(f"SimulatedJudge of {self.dataset.name}, planted:", planted or [("nothing", "a fair judge")])

    def check(self, requests: Iterable[Request]) -> None:
        """Raise if a request is of another kind, or does not concern candidates of the data set with human scores."""
        requests = list(requests)
        require_kinds(self, requests)
        for request in map(as_prompt, requests):
            if not isinstance(request, Likelihood):
                self.questions.of(request)

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request in order."""
        for request in requests:
            require_kinds(self, [request])
            asked = as_prompt(request)
            question = None if isinstance(asked, Likelihood) else self.questions.of(asked)
            budget = thinking_of(asked)
            if budget:
                yield request, answer_after_thought(self.after_thought(budget), asked, question, budget)
            else:
                yield request, answer(self, asked, question)

    def after_thought(self, budget: ThinkingBudget) -> SimulatedJudge:
        """Return a judge with the biases that remain after a thought of this budget, whatever the budget of a request.

        Examples
        --------
        >>> import biaslab as bl
        >>> judge = bl.SimulatedJudge(bl.load_dataset("graded", limit=1), position=1.0, thought_debiasing=1.0)
        >>> judge.after_thought(1024).position, judge.after_thought(0) == judge.after_thought("none")
        (0.5, True)
        """
        known = self._by_budget
        if budget not in known:
            left = self.biases_after(thinking_tokens(as_thinking(budget, "budget") or 0))
            known[budget] = replace(self, **left, thought_debiasing=0.0)
        return known[budget]

    @cached_property
    def _by_budget(self) -> dict[ThinkingBudget, SimulatedJudge]:
        return {}

    def packs(self, requests: Iterable[Request]) -> Generator[list[tuple[Request, Reply]]]:
        """Answer every request in order, in packs that a store writes in one transaction."""
        answers = self.ask(requests)
        while pack := list(islice(answers, _PACK)):
            yield pack

    def truth(self, metric: str, trials: pd.DataFrame, temperature: float | None = None) -> float:
        """Return the expected value of a metric of pair trials.

        The noise of prompts and contexts is integrated out; refusals are treated as in the metric.

        Parameters
        ----------
        metric : str
            One of first_position_rate, first_position_logit, order_consistency, primacy_share, comparative_accuracy
            and tie_rate of `biaslab.probes.Position`.
        trials : pandas.DataFrame
            With ``context_id``, ``candidate_id``, ``opponent_id`` and ``attribute``: the pairs that were asked, with
            sources shown, and with "Tie" offered if the judge has ``ties``. Pairs shown in a single order are ignored.
        temperature : float, optional
            Temperature of text answers; None if answers are distributions. For shares of samples, use that of text.

        Returns
        -------
        float
            For ratio metrics, the ratio of two expectations. NaN if the metric is undefined.

        Raises
        ------
        InputError
            If the metric has no known truth, or the data set lacks a pair or its scores.
        """
        return pair_truth(self, metric, trials, temperature)

    @cached_property
    def known(self) -> Knowledge:
        """Texts and human scores of the data set, shared by all judges of it."""
        return knowledge_of(self.dataset)

    @cached_property
    def questions(self) -> Questions:
        """Extracts the questions from requests."""
        return Questions(self.known)

    @cached_property
    def mean_log_perplexity(self) -> float:
        """The log perplexity at which familiarity has no effect."""
        planted = self.log_perplexity
        return math.fsum(planted.values()) / len(planted) if planted else LOG_PERPLEXITY.mean

    def template_shift(self, template: str) -> float:
        """Return the shift shared by all requests with one prompt variant, in points."""
        if not (self.template_noise and template):
            return 0.0
        return self.template_noise * normal(uniforms(self.seed, digest_of("template", template))[0])

    def context_shift(self, context_id: str) -> float:
        """Return the shift shared by all requests about a context, in points."""
        if not self.context_noise:
            return 0.0
        return self.context_noise * normal(uniforms(self.seed, digest_of("context", context_id))[0])
