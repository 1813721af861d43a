"""Prompt scoring: ask for a number with a simple prompt (Liusie et al. 2024, §4.3.2, Fig. 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from biaslab import prompts
from biaslab.core import Reply, Status, Trial
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, Question, read_score
from biaslab.measures.scoring.scorer import Scorer


@dataclass(frozen=True)
class PromptScoring(Scorer):
    """Ask for the score of each candidate with one of two simple templates.

    Further parameters: `biaslab.scoring.scorer.Scorer`.

    Parameters
    ----------
    answer : {"distribution", "text"}
        Use the most likely label, which is a greedy judge's answer, or generate text and parse the score in it.
    template : {1, 2}
        A bare request, or one that states the task and defines the attribute.
    scale : {"1-5", "1-10", "1-100"}
        Range of whole numbers.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer.
    cue : str
        End of the prompt, for example "Score:", which the paper appends for Llama 2.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    The defaults of scale, temperature and length are the paper's, which parses sampled text (``answer="text"``). If
    labels are equally likely, the score is their mean.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> scorer = PromptScoring(attributes=["fluency"], template=2)
    >>> trials = bl.collect(scorer, bl.SimulatedJudge(data), data, progress=False)
    >>> len(trials), trials["probe"].iloc[0]
    (12, 'prompt_scoring_2')
    """

    template: Literal[1, 2] = 1
    scale: str = field(default="1-10", kw_only=True)
    max_tokens: int | None = field(default=5, kw_only=True)
    cue: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(not label.isdecimal() for label in find_scale(self.scale).labels):
            raise InputError(
                "scale", self.scale, "a scale of whole numbers, such as 1-10: the templates support no other"
            )

    @property
    def name(self) -> str:
        """Name of the scorer, with the template."""
        return f"prompt_scoring_{self.template}"

    def question(self, dataset: Dataset, item: Item, attribute: str, scale: Scale) -> Question:
        """Return the request for one score."""
        dataset.require_attributes([attribute])
        prompt = prompts.render(
            f"scoring_{self.template}",
            context=item.context,
            candidate=item.text,
            noun=dataset.noun,
            attribute=attribute,
            definition=dataset.attributes[attribute],
            low=scale.labels[0],
            high=scale.labels[-1],
            cue=self.cue,
        )
        return Question.of(item, attribute, prompt, scale)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score stated in a text, or the most likely label, and the status."""
        return read_score(trial, reply, temperature=0.0)
