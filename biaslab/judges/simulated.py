"""`SimulatedJudge`: a judge with planted, known biases, the calibration weight of the instrument."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from biaslab.core import Choice, Completion, Reply, Request, Usage, request_key, require_kinds
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError, JudgeError
from biaslab.prompts import adjectives

_LABEL = re.compile(r"^\w+(?: [A-Z])?: ")
REFUSAL = "I'm sorry, but I cannot compare these texts."


@dataclass(frozen=True)
class SimulatedJudge:
    """A judge that knows the human scores of a data set and distorts them as it is told.

    For a pair with the human scores s_first and s_second it prefers the first with log odds
    ``quality × (s_first − s_second) + position + ε``, ε ~ Normal(0, noise²), drawn once a request.

    Parameters
    ----------
    dataset : Dataset
        Where the true scores come from; a candidate is recognised by its text.
    quality : float
        Log odds per point of the human score; 0 is a judge that sees no quality.
    position : float
        Log odds for whatever stands first; 0 is fair, above is primacy.
    noise : float
        Standard deviation of ε, in log odds.
    refusal : float
        Share of requests that are refused, from 0 to 1.
    selective : bool
        Refuse only where the first candidate is worse than the second: missing answers that are not missing at random.
    seed : int
        Of everything random: the reply depends on the seed and the request alone.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Examples
    --------
    >>> import biaslab as bl
    >>> judge = bl.SimulatedJudge(bl.load_dataset("graded", limit=2), position=0.5)
    >>> judge.id
    'simulated:graded (constructed):quality=1,position=0.5,noise=0,refusal=0,selective=False,seed=0'
    """

    dataset: Dataset
    quality: float = 1.0
    position: float = 0.0
    noise: float = 0.0
    refusal: float = 0.0
    selective: bool = False
    seed: int = 0

    kinds = frozenset({Choice, Completion})

    def __post_init__(self) -> None:
        if not 0 <= self.refusal <= 1:
            raise InputError("refusal", self.refusal, "a share from 0 to 1")
        if self.noise < 0:
            raise InputError("noise", self.noise, "a standard deviation of at least 0")

    @property
    def id(self) -> str:
        """Data set and every planted value."""
        planted = ("quality", "position", "noise", "refusal", "selective", "seed")
        values = ",".join(f"{n}={_plain(getattr(self, n))}" for n in planted)
        return f"simulated:{self.dataset.name}:{values}"

    def check(self, requests: Iterable[Request]) -> None:
        """Raise if a request is of another kind, or is not about two candidates of the data set."""
        requests = list(requests)
        require_kinds(self, requests)
        for request in requests:
            self._gap(request)  # type: ignore[arg-type]

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request in order."""
        for request in requests:
            require_kinds(self, [request])
            yield request, self._answer(request)  # type: ignore[arg-type]

    def _answer(self, request: Choice | Completion) -> Reply:
        gap = self._gap(request)
        rng = self._rng(Choice(request.messages, ("A", "B")))
        log_odds = self.quality * gap + self.position + self.noise * rng.standard_normal()
        refuses = rng.random() < self.refusal and (gap < 0 or not self.selective)
        if isinstance(request, Choice):
            others = len(request.labels) - 2
            first = -math.log1p(math.exp(-log_odds)) if log_odds > -700 else log_odds
            logprobs = (-math.inf, -math.inf) if refuses else (first, first - log_odds)
            return Reply(logprobs=(*logprobs, *[-math.inf] * others), usage=Usage(1))
        if refuses:
            return Reply(text=REFUSAL, finish_reason="stop", usage=Usage(1, 0, 1))
        if request.temperature > 0:
            odds = log_odds / request.temperature
            u = self._rng(request).uniform(1e-300, 1)
            wins = math.log(u) - math.log1p(-u) < odds
        else:
            wins = log_odds > 0
        noun = self.dataset.noun.capitalize()
        return Reply(text=f"{noun} {'A' if wins else 'B'}", finish_reason="stop", usage=Usage(1, 0, 1))

    def _rng(self, request: Request) -> np.random.Generator:
        digest = hashlib.sha256(f"{self.seed}:{request_key(request, 'simulated')}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))

    def _gap(self, request: Choice | Completion) -> float:
        """Human score of the candidate shown first minus that of the second."""
        prompt = request.messages[-1].content
        paragraphs = [(_LABEL.sub("", p), p) for p in prompt.split("\n\n")]
        shown = [text for text, _ in paragraphs if text in self._owners]
        if len(shown) != 2:
            raise JudgeError(f"the simulated judge finds {len(shown)} candidates of its data set, not 2", request)
        context = next((c for c in self._owners[shown[0]] if c in self._owners[shown[1]]), None)
        attribute = self._attribute(paragraphs[-1][1])
        if context is None or attribute is None:
            raise JudgeError("the simulated judge recognises no context or attribute in the prompt", request)
        scores = [self._scores[attribute][context, self._owners[text][context]] for text in shown]
        return float(scores[0] - scores[1])

    def _attribute(self, question: str) -> str | None:
        words = adjectives()
        return next((a for a in self.dataset.attributes if a in question or words.get(a, a) in question), None)

    @cached_property
    def _owners(self) -> dict[str, dict[str, str]]:
        owners: dict[str, dict[str, str]] = {}
        rows: Any = self.dataset.candidates[["text", "context_id", "candidate_id"]].itertuples(index=False)
        for text, context_id, candidate_id in rows:
            owners.setdefault(text.strip(), {}).setdefault(context_id, candidate_id)
        return owners

    @cached_property
    def _scores(self) -> dict[str, dict[tuple[str, str], float]]:
        return self.dataset.human_means.to_dict()  # type: ignore[return-value]


def _plain(value: float | bool) -> str:
    return str(value) if isinstance(value, bool) else f"{value:g}"
