"""G-Eval: a detailed form, and the expected score over its answers (Liu et al. 2023, arXiv 2303.16634)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

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
class GEval:
    """Set task, criterion and steps, show source and candidate, let a form be filled in, and take the expected score.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to score; all attributes of the data set by default.
    scale : str
        Name of one of `biaslab.scales.SCALES`; the paper's is 1-5.
    steps : mapping of str to sequence of str, optional
        Attribute → evaluation steps. An attribute without any gets steps made from its aspects. The paper lets the
        judge write them once for each attribute (auto-CoT): steps so written can be given here.
    answer : {"distribution", "text"}
        Take Σ p(s)·s exactly from the probabilities of the labels, or the mean of sampled texts.
    replicates : int
        With ``answer="text"``: samples of each request, which `biaslab.scoring.scores` averages. The paper takes 20.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    max_tokens : int
        With ``answer="text"``: length of an answer at most.
    seed : int
        Of the sampled texts.

    Raises
    ------
    InputError
        If a value lies outside its range, or steps are one string or none. From `design`, if there are steps for an
        attribute that is not scored.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(GEval(attributes=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> trials["value"].head(4).round(2).tolist()
    [4.88, 3.0, 4.88, 4.88]
    """

    attributes: Sequence[str] | None = None
    scale: str = "1-5"
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    answer: Answer = "distribution"
    replicates: int = 1
    temperature: float = 1.0
    max_tokens: int = 16
    seed: int = 0

    name: ClassVar[str] = "g_eval"

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        find_scale(self.scale)
        for attribute, steps in self.steps.items():
            if isinstance(steps, str) or not steps:
                raise InputError(f"steps[{attribute!r}]", steps, "a list of at least one step")
        self._asking()

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score a candidate and attribute, or one a replicate."""
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        if unknown := [name for name in self.steps if name not in attributes]:
            raise InputError("steps", unknown, f"steps for some of {', '.join(attributes)}")
        for item in items(dataset):
            for attribute in attributes:
                about = prompts.describe(dataset, attribute)
                prompt = prompts.render(
                    "g_eval",
                    context=item.context,
                    candidate=item.text,
                    noun=dataset.noun,
                    attribute=attribute,
                    definition=about["definition"],
                    aspects=about["aspects"],
                    scale=scale,
                    steps=list(self.steps.get(attribute, ())),
                )
                yield from score_trials(item, attribute, prompt, scale, self._asking(), {})

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the expected score over the labels, or the score that a text gives, and the status."""
        return read_score(trial, reply)

    def _asking(self) -> Asking:
        return Asking(self.answer, self.replicates, self.temperature, self.max_tokens, self.seed)
