"""G-Eval: a detailed form, the expected score, and steps written by the judge (Liu et al. 2023, arXiv 2303.16634)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

from biaslab import prompts
from biaslab.core import Completion, Reply, Status, Trial
from biaslab.core.checks import require_temperature, require_whole
from biaslab.core.errors import TrialsError
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, Question
from biaslab.measures.scoring.scorer import Scorer, require_known_steps, require_steps
from biaslab.stats import require_columns

_STEP = re.compile(r"^\W{0,4}(?:step\s*)?\d{1,2}\s*[.):]\W{0,4}(?=\w)(.+)$|^[-*•]\s+(?=\w)(.+)$", re.IGNORECASE)
_CONTEXT = "steps"  # pseudo-context for requests that are not about a candidate


@dataclass(frozen=True)
class GEval(Scorer):
    """Ask for a score with a form that states task, criterion and evaluation steps; use the expected score.

    Further parameters: `biaslab.scoring.scorer.Scorer`.

    Parameters
    ----------
    scale : str
        A name from `biaslab.core.scales.SCALES`; the paper's is 1-5.
    replicates : int
        With ``answer="text"``: samples per request, averaged by `biaslab.scoring.scores`. The paper uses 20.
    steps : mapping of str to sequence of str, optional
        Attribute → evaluation steps. For other attributes, steps are derived from their aspects. The paper has the
        judge write them once per attribute (auto-CoT): `biaslab.scoring.StepWriting` asks for them, and
        `biaslab.scoring.written_steps` returns this mapping.

    Raises
    ------
    InputError
        If a value is out of range, or steps are a string or empty. From `design`, if there are steps for an attribute
        that is not scored.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(GEval(attributes=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> trials["value"].head(4).round(2).tolist()
    [4.88, 3.0, 4.88, 4.88]
    """

    scale: str = "1-5"
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)

    name: ClassVar[str] = "g_eval"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_steps(self.steps)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score per candidate, attribute and replicate."""
        attributes = dataset.require_attributes(self.attributes)
        require_known_steps(self.steps, attributes)
        yield from super().design(dataset)

    def question(self, dataset: Dataset, item: Item, attribute: str, scale: Scale) -> Question:
        """Return the form for one candidate and attribute."""
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
        return Question.of(item, attribute, prompt, scale)


@dataclass(frozen=True)
class StepWriting:
    """Let the judge write the evaluation steps of each attribute, for ``steps`` of `biaslab.scoring.GEval`.

    A design like any other: `biaslab.collect` asks, and a store keeps the replies, so the steps of a study remain
    those used for its scores.

    Parameters
    ----------
    attributes : sequence of str, optional
        Attributes to write steps for; by default all of the data set.
    scale : str
        A name from `biaslab.core.scales.SCALES`: the scale of the scores.
    temperature : float
        0 is greedy.
    max_tokens : int
        Maximum length of the steps.
    seed : int
        Seed of sampled text.

    Notes
    -----
    A trial's ``value`` is the number of steps; a reply with fewer than two is unparsable.

    Examples
    --------
    >>> import biaslab as bl
    >>> [trial] = StepWriting(["fluency"]).design(bl.load_dataset("graded", limit=2))
    >>> print(trial.request.messages[0].content.splitlines()[-1])
    Evaluation steps:
    """

    attributes: Sequence[str] | None = None
    scale: str = "1-5"
    temperature: float = 0.0
    max_tokens: int = 256
    seed: int = 0

    name: ClassVar[str] = "step_writing"
    keeps_replies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        find_scale(self.scale)
        require_temperature(self.temperature)
        require_whole("max_tokens", self.max_tokens, 1)
        require_whole("seed", self.seed, 0)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one text per attribute."""
        for attribute in dataset.require_attributes(self.attributes):
            about = prompts.describe(dataset, attribute)
            prompt = prompts.render(
                "evaluation_steps",
                noun=dataset.noun,
                attribute=attribute,
                definition=about["definition"],
                scale=find_scale(self.scale),
            )
            request = Completion(prompt, self.temperature, self.max_tokens, 0, self.seed)
            yield Trial(request, _CONTEXT, attribute, "")

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:  # noqa: ARG002 - as all designs do
        """Return the number of steps in a text, and the status."""
        count = len(parse_steps(reply.text))
        return (float(count), "ok") if count > 1 else (math.nan, "unparsable")


def written_steps(trials: pd.DataFrame) -> dict[str, list[str]]:
    """Return the steps of each attribute, from the trials of `StepWriting`.

    Raises
    ------
    TrialsError
        If a column is missing, or a reply contains no steps.
    """
    require_columns(trials, ("attribute", "status", "reply"), "trials")
    if (unread := trials.loc[trials["status"] != "ok", "attribute"].tolist()) or trials.empty:
        allowed = "a list of at least two steps for each attribute"
        raise TrialsError("trials", f"no steps for {', '.join(unread) or 'any attribute'}", allowed)
    return {str(name): parse_steps(str(text)) for name, text in zip(trials["attribute"], trials["reply"], strict=True)}


def parse_steps(text: str | None) -> list[str]:
    r"""Parse the steps of a numbered or bulleted list, without the text around it.

    Examples
    --------
    >>> parse_steps("Sure:\n\n1. Read the source.\n**2)** Compare the two.\nGood luck!")
    ['Read the source.', 'Compare the two.']
    >>> parse_steps("I would read it first.")
    []
    """
    matches = (_STEP.match(line.strip()) for line in (text or "").splitlines())
    return [(match[1] or match[2]).strip(" *_") for match in matches if match]
