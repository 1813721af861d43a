"""What the probes that compare pairs share: how a pair is asked, and how a reply is read."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from biaslab import prompts
from biaslab.checks import require_whole
from biaslab.core import About, Choice, Completion, Reply, Request, Scalar, Status, Trial
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.parsing import parse_choice

Answer = Literal["distribution", "text"]


@dataclass(frozen=True)
class PairAsking:
    """How pairs are asked; the parameters of a probe that all pairwise probes have.

    Parameters
    ----------
    answer : {"distribution", "text"}
        Read the probabilities of the two labels (Liusie et al. 2024, Eq. 3), or generate text and read the label in it
        (Eqs. 4, 5).
    ties : bool
        Offer "Tie" as a third answer.
    replicates : int
        With ``answer="text"``: samples of each request.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    seed : int
        Of the sampled texts.

    Raises
    ------
    InputError
        If a value lies outside its range.
    """

    answer: Answer = "distribution"
    ties: bool = False
    replicates: int = 1
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.answer not in ("distribution", "text"):
            raise InputError("answer", self.answer, "distribution or text")
        require_whole("replicates", self.replicates, 1)
        require_whole("seed", self.seed, 0)
        if self.answer == "distribution" and self.replicates > 1:
            raise InputError("replicates", self.replicates, '1 where answer is "distribution"', 'choose answer="text"')

    def trials(
        self,
        dataset: Dataset,
        template: int,
        attribute: str,
        context: tuple[str, str],
        pair: tuple[tuple[str, str], tuple[str, str]],
        condition: Mapping[str, Scalar],
    ) -> Iterator[Trial]:
        """Yield the trials of one ordered pair: one, or one a replicate.

        Parameters
        ----------
        dataset : Dataset
            Where noun and definition come from.
        template : {1, 2}
            Comparative template.
        attribute : str
            What to compare on.
        context, pair : tuple of str
            Name and text of the context, and of the candidates shown first and second.
        condition : mapping
            Columns of the trials frame.
        """
        (first, shown), (second, shown_second) = pair
        prompt = prompts.render(
            f"comparative_{template}",
            context=context[1],
            first=shown,
            second=shown_second,
            noun=dataset.noun,
            attribute=attribute,
            definition=dataset.attributes[attribute],
            ties=self.ties,
        )
        labels = _labels(dataset.noun, self.ties)
        source = bool(context[1].strip())
        about = About(context[0], (first, second), (shown, shown_second), (attribute,), source, labels)
        for replicate in range(self.replicates):
            yield Trial(
                request=self._request(prompt, about, replicate),
                context_id=context[0],
                attribute=attribute,
                candidate_id=first,
                opponent_id=second,
                replicate=replicate,
                condition=condition,
                labels=labels,
            )

    def _request(self, prompt: str, about: About, replicate: int) -> Request:
        if self.answer == "distribution":
            return Choice(prompt, about.labels, about)
        return Completion(prompt, self.temperature, 32, replicate, self.seed, about)


def read_pair(trial: Trial, reply: Reply) -> tuple[float, Status]:
    """Return the probability that the first wins, and the status."""
    if isinstance(trial.request, Choice):
        return _read_distribution(reply.logprobs or ())
    chosen, status = parse_choice(reply.text, trial.labels)
    if chosen is None:
        return math.nan, status
    return (0.5, "tie") if chosen == 2 else (1.0 - chosen, "ok")


def draw_of(seed: int, context_id: str) -> np.random.Generator:
    """Return random numbers that depend on the seed and the context alone."""
    return np.random.default_rng([seed, zlib.crc32(context_id.encode())])


def _labels(noun: str, ties: bool) -> tuple[str, ...]:
    name = noun.capitalize()
    return (f"{name} A", f"{name} B", "Tie") if ties else (f"{name} A", f"{name} B")


def _read_distribution(logprobs: Sequence[float]) -> tuple[float, Status]:
    if not logprobs or not np.isfinite(logprobs[:2]).any():
        tied = len(logprobs) > 2 and np.isfinite(logprobs[2])
        return (0.5, "tie") if tied else (math.nan, "refused")
    first, second = logprobs[:2]
    p = float(expit(first - second))
    tie = first == second or (len(logprobs) > 2 and logprobs[2] > max(first, second))
    return p, "tie" if tie else "ok"
