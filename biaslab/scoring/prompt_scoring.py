"""Prompt scoring: ask for a number with a simple prompt (Liusie et al. 2024, §4.3.2, Fig. 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from biaslab import prompts
from biaslab.checks import require_attributes_list
from biaslab.core import Reply, Status, Trial
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.scales import find_scale
from biaslab.scoring.pointwise import (
    Answer,
    Asking,
    items,
    read_score,
    score_trials,
)


@dataclass(frozen=True)
class PromptScoring:
    """Ask for the score of each candidate with one of two simple templates.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to score; all attributes of the data set by default.
    template : {1, 2}
        A bare request, or one that sets the task and defines the attribute.
    scale : {"1-5", "1-10", "1-100"}
        Whole numbers from which to which.
    answer : {"distribution", "text"}
        Take the likeliest label, which is what a greedy judge answers, or generate text and read the score in it.
    replicates : int
        With ``answer="text"``: samples of each request, which `biaslab.scoring.scores` averages.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    max_tokens : int
        With ``answer="text"``: length of an answer at most.
    seed : int
        Of the sampled texts.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    The defaults of scale, temperature and length are the paper's, which reads sampled text (``answer="text"``). Where
    labels are equally likely the score is their mean.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> scorer = PromptScoring(attributes=["fluency"], template=2)
    >>> trials = bl.collect(scorer, bl.SimulatedJudge(data), data, progress=False)
    >>> len(trials), trials["probe"].iloc[0]
    (12, 'prompt_scoring_2')
    """

    attributes: Sequence[str] | None = None
    template: Literal[1, 2] = 1
    scale: str = "1-10"
    answer: Answer = "distribution"
    replicates: int = 1
    temperature: float = 1.0
    max_tokens: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        if self.template not in (1, 2):
            raise InputError("template", self.template, "1 or 2")
        scale = find_scale(self.scale)
        if any(not label.isdecimal() for label in scale.labels):
            raise InputError(
                "scale", self.scale, "a scale of whole numbers, such as 1-10: the templates state no other"
            )
        self._asking()

    @property
    def name(self) -> str:
        """Name of the scorer, with the template."""
        return f"prompt_scoring_{self.template}"

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score a candidate and attribute, or one a replicate."""
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        ends = {"low": scale.labels[0], "high": scale.labels[-1], "noun": dataset.noun}
        for item in items(dataset):
            shown = {"context": item.context, "candidate": item.text}
            for attribute in attributes:
                about = {"attribute": attribute, "definition": dataset.attributes[attribute]}
                prompt = prompts.render(f"scoring_{self.template}", **ends, **shown, **about)
                yield from score_trials(item, attribute, prompt, scale, self._asking(), {})

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score that a text gives, or the likeliest label, and the status."""
        return read_score(trial, reply, temperature=0.0)

    def _asking(self) -> Asking:
        return Asking(self.answer, self.replicates, self.temperature, self.max_tokens, self.seed)
