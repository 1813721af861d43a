"""G-Eval: a detailed form, and the expected score over its answers (Liu et al. 2023, arXiv 2303.16634)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from biaslab import prompts
from biaslab.core import Trial
from biaslab.core.checked import checked
from biaslab.core.scales import Scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, Question
from biaslab.measures.scoring.scorer import Scorer, require_known_steps, require_steps


@checked(eager=True)
@dataclass(frozen=True)
class GEval(Scorer):
    """Set task, criterion and steps, show source and candidate, let a form be filled in, and take the expected score.

    Its further parameters are those of `biaslab.scoring.scorer.Scorer`.

    Parameters
    ----------
    scale : str
        Name of one of `biaslab.core.scales.SCALES`; the paper's is 1-5.
    replicates : int
        With ``answer="text"``: samples of each request, which `biaslab.scoring.scores` averages. The paper takes 20.
    steps : mapping of str to sequence of str, optional
        Attribute → evaluation steps. An attribute without any gets steps made from its aspects. The paper lets the
        judge write them once for each attribute (auto-CoT): `biaslab.scoring.StepWriting` asks for them, and
        `biaslab.scoring.written_steps` returns what goes here.

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

    scale: str = "1-5"
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)

    name: ClassVar[str] = "g_eval"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_steps(self.steps)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score a candidate and attribute, or one a replicate."""
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
