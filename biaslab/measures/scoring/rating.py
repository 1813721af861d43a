"""Rating as in Stureborg et al. 2024: their recipe (§4, Table 6) and the prompts they compare it with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from biaslab import prompts
from biaslab.core import Reply, Status, Trial
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, Question, read_score
from biaslab.measures.scoring.scorer import Scorer, require_known_steps, require_steps

_NAMES = {"none": "rating", "after": "rate_explain", "before": "analyze_rate"}


@dataclass(frozen=True)
class Rating(Scorer):
    """Ask for a rating with definition, aspects and source, one attribute at a time, with or without a rationale.

    Further parameters: `biaslab.scoring.scorer.Scorer`.

    Parameters
    ----------
    scale : str
        A name from `biaslab.core.scales.SCALES`.
    reasons : {"none", "after", "before"}
        No reasons; "rate-explain", the rating and then the reasons; or "analyze-rate", the reasons first (Chiang & Lee
        2023).
    answer : {"distribution", "text"}
        Use the exact label probabilities, or generate text and parse the score in it. Reasons after the rating cannot
        influence it, so its distribution is exact too; after reasons it is unknown.
    temperature : float
        0 is greedy: the most likely label. At higher temperatures a distribution gives the expected score, which the
        mean of samples converges to.
    max_tokens : int, optional
        With ``answer="text"``: maximum tokens of an answer. By default 16, because generation may stop after the
        rating, or 256 if reasons come first.

    steps : mapping of str to sequence of str
        Attribute → evaluation steps for its prompt, such as those of RoSE's annotators in the paper's recipe:
        `biaslab.prompts.protocol_steps`. None by default.

    Raises
    ------
    InputError
        If a value is out of range, or a distribution is requested for a rating after its reasons. From `design`, if
        there are steps for an attribute that is not scored.

    Notes
    -----
    The recipe is the default: 1-10, no reasons, temperature 0, with the source, one attribute per request.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> judge = bl.SimulatedJudge(data, noise=0.5)
    >>> recipe = bl.collect(Rating(attributes=["fluency"]), judge, data, progress=False)
    >>> bool((recipe["value"] % 1 == 0).all())
    True
    """

    scale: str = "1-10"
    reasons: prompts.Reasons = "none"
    temperature: float = field(default=0.0, kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_steps(self.steps)
        if self.reasons == "before" and self.answer == "distribution":
            raise InputError("answer", self.answer, "text if the rationale comes before the rating")

    @property
    def name(self) -> str:
        """``"rating"``, ``"rate_explain"`` or ``"analyze_rate"``, by the position of the rationale."""
        return _NAMES[self.reasons]

    @property
    def default_length(self) -> int:
        """Maximum length of an answer: generation may stop after the rating."""
        return 256 if self.reasons == "before" else 16

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score per candidate, attribute and replicate."""
        require_known_steps(self.steps, dataset.require_attributes(self.attributes))
        yield from super().design(dataset)

    def question(self, dataset: Dataset, item: Item, attribute: str, scale: Scale) -> Question:
        """Return the request for one rating, with an answer prefix if a distribution comes before the rationale."""
        question = Question.rate(dataset, item, [attribute], scale, self.reasons, steps=self.steps.get(attribute, ()))
        if self.reasons == "after" and self.answer == "distribution":
            return question.begun(attribute)
        return replace(question, labels=(attribute,))

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score (of a distribution, the expected score at the temperature) and the status."""
        return read_score(trial, reply, self.temperature)
