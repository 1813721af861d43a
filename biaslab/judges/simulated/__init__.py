"""`SimulatedJudge`: a judge with planted, known biases, for checking the estimators."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any

from biaslab.core.checks import require_dataset
from biaslab.core.errors import InputError
from biaslab.core.interfaces import BaseJudge, require_kinds
from biaslab.core.output import html_table
from biaslab.core.requests import (
    Choice,
    Completion,
    Likelihood,
    Request,
    ThinkingBudget,
    as_prompt,
    as_thinking,
    thinking_of,
    thinking_tokens,
)
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply
from biaslab.judges.simulated import knowledge
from biaslab.judges.simulated.answering import GARBAGE, REFUSAL, answer, answer_after_thought
from biaslab.judges.simulated.knowledge import LOG_PERPLEXITY, Knowledge, Questions, digest_of, normal, uniforms
from biaslab.judges.simulated.pair_truth import pair_truth

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GARBAGE", "REFUSAL", "Planted", "SimulatedJudge"]

_AT_LEAST_0 = ("noise", "context_noise", "template_noise", "coarse_noise", "ties")
_BIASES = (
    *("position", "familiarity", "verbosity", "self_preference", "source_reliance", "anchoring", "reason_first"),
    "heaping",
)
_DOUBLING = 1024  # tokens of thinking
_SHARES = ("source_reliance", "refusal", "garbage")


@dataclass(frozen=True, kw_only=True)
class Planted:
    """The planted biases. *Points* are those of the human scale, and log odds in a pair.

    Parameters
    ----------
    quality : float
        Points per point of the human score; 0 is a judge blind to quality.
    position : float
        Points for the candidate shown first in a pair or list; 0 is unbiased, positive is primacy.
    familiarity : float
        Points per unit of log perplexity at equal human score; negative values favour familiar text.
    verbosity : float
        Points per doubling of the number of words.
    self_preference : float
        Points for the judge's own texts (candidates whose ``system`` is ``own_system``), in pairs and in scores.
    own_system : str
        The system that counts as the judge itself; "own" in the population of `biaslab.calibration`.
    source_reliance : float
        Share of ``quality`` that is lost if the prompt does not show the source: 0 for a judge that never looks at it,
        1 for one that is blind to quality without it.
    anchoring : float
        How far a score moves from its own mean towards the preceding score (in the same output, a prefix or the
        transcript), as a fraction of the distance on the unit scale (0 lowest, 1 highest). 0 is independent.
    reason_first : float
        Shift of scores if reasons are requested before the score, on the unit scale; in a pair, of the candidate shown
        first, with the range of the human scale as the unit of log odds.
    reason_quality : float
        Points per point of the human score that are added to ``quality`` for scores if reasons are requested before.
    heaping : float
        Log weight of labels that are multiples of 10; other multiples of 5 get half of it. Applies to scales with more
        than 10 whole numbers.
    sharpness : float
        For scores: 1 / standard deviation of the distribution over labels, on the unit scale.
    noise : float
        Standard deviation of a normal shift, in points, of each score or pair (one per prompt).
    context_noise : float
        Standard deviation of a normal shift, in points, shared by all scores, or all position biases, of a context.
    template_noise : float
        Standard deviation of a normal shift, in points, shared by all scores, or all position biases, under one prompt
        variant (`biaslab.core.About.template`). A variant's effect on single items is part of ``noise``, which is
        drawn anew for every prompt.
    coarse_noise : float
        Standard deviation of a further normal shift, in points, of each score on a scale of fewer than 10 labels.
    ties : float
        If "Tie" is offered: pairs with log odds closer to 0 than this are ties.
    thought_debiasing : float
        How fast every bias above, from ``position`` to ``heaping``, and those of ``edits``, shrink with the thinking
        budget of a request: after n tokens, (1 + n / 1024) ** -thought_debiasing of them remain. 0: thinking has no
        effect; negative values amplify biases.
    refusal : float
        Share of prompts that are refused.
    selective : bool
        Refuse only what is shown as worse: a pair whose first candidate has the lower human score, a candidate scored
        below the midpoint of the human scale, a list whose first candidate scores below the mean of the others.
        Refusals are then not missing at random.
    garbage : float
        Share of texts without an answer.
    edits : mapping of str to float, optional
        Points for edited candidates, by the edit's name, or by name, "+" and the name of a defence if they differ
        under that defence.
    log_perplexity : mapping of str to float, optional
        Log perplexity of texts, above 0; other texts have a normally distributed one that depends on the text alone,
        with mean 3 and standard deviation 0.35.
    seed : int
        Seed of all random numbers: a reply depends on the seed and the request alone.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    quality: float = 1.0
    position: float = 0.0
    familiarity: float = 0.0
    verbosity: float = 0.0
    self_preference: float = 0.0
    own_system: str = "own"
    source_reliance: float = 0.0
    anchoring: float = 0.0
    reason_first: float = 0.0
    reason_quality: float = 0.0
    heaping: float = 0.0
    sharpness: float = 8.0
    noise: float = 0.0
    context_noise: float = 0.0
    template_noise: float = 0.0
    coarse_noise: float = 0.0
    ties: float = 0.0
    thought_debiasing: float = 0.0
    refusal: float = 0.0
    selective: bool = False
    garbage: float = 0.0
    edits: Mapping[str, float] | None = field(default=None, hash=False)
    log_perplexity: Mapping[str, float] | None = field(default=None, hash=False, repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        for each in fields(Planted):
            value = getattr(self, each.name)
            if isinstance(each.default, int | float) and not (isinstance(value, Real) and math.isfinite(value)):
                raise InputError(each.name, value, "a finite number")
        for name in _AT_LEAST_0:
            if getattr(self, name) < 0:
                raise InputError(name, getattr(self, name), "a number of at least 0")
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(name, getattr(self, name), "a share from 0 to 1")
        if self.sharpness <= 0:
            raise InputError("sharpness", self.sharpness, "a number above 0")
        if not all(map(math.isfinite, (self.edits or {}).values())):
            raise InputError("edits", self.edits, "a finite number for each edit")
        bad = [value for value in (self.log_perplexity or {}).values() if not 0 < value < math.inf]
        if bad:
            raise InputError("log_perplexity", bad[0], "a finite number above 0 for each text")

    def biases_after(self, tokens: int) -> dict[str, Any]:
        """Return the biases that remain after a thought of a given length, by name.

        Examples
        --------
        >>> Planted(position=1.0, thought_debiasing=0.5).biases_after(3072)["position"]
        0.5
        """
        left = float((1 + tokens / _DOUBLING) ** -self.thought_debiasing)
        edits = None if self.edits is None else {name: left * value for name, value in self.edits.items()}
        return {name: left * getattr(self, name) for name in _BIASES} | {"edits": edits}

    @property
    def listed(self) -> str:
        """Every planted value that differs from its default, as ``name=value,…``."""
        changed = {f.name: getattr(self, f.name) for f in fields(Planted) if getattr(self, f.name) != f.default}
        return ",".join(f"{name}={_plain(value)}" for name, value in changed.items())


def _plain(value: object) -> str:
    """Format a planted value for an id; a mapping by its digest."""
    if isinstance(value, Mapping):
        return digest_of(sorted(value.items())).hex()[:8]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, bool | str) else repr(value)


_PACK = 100  # replies per pack


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
        require_dataset(self.dataset)
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
        return knowledge.knowledge_of(self.dataset)

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


def __dir__() -> list[str]:
    return __all__
