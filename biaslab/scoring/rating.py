"""Rating in the manner of Stureborg et al. 2024: their recipe (§4, Table 6) and what they compare it with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from biaslab import prompts
from biaslab.checks import require_attributes_list, require_one_of
from biaslab.core import Reply, Status, Trial
from biaslab.core.about import Form
from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError
from biaslab.scales import find_scale
from biaslab.scoring.pointwise import (
    Answer,
    Asking,
    about_scores,
    begun,
    items,
    read_score,
    score_trials,
    spaced,
)

_NAMES = {"none": "rating", "after": "rate_explain", "before": "analyze_rate"}


@dataclass(frozen=True)
class Rating:
    """Ask for a rating with definition, aspects and source, one attribute at a time, with reasons or without.

    Parameters
    ----------
    attributes : sequence of str, optional
        What to rate; all attributes of the data set by default.
    scale : str
        Name of one of `biaslab.scales.SCALES`.
    reasons : {"none", "after", "before"}
        No reasons; "rate-explain", the rating and then the reasons; or "analyze-rate", the reasons first (Chiang & Lee
        2023).
    answer : {"distribution", "text"}
        Take the score exactly from the probabilities of the labels, or generate text and read the score in it. Where
        the rating stands before the reasons they cannot move it, so its distribution is exact too; after them it is
        not known.
    replicates : int
        With ``answer="text"``: samples of each request, which `biaslab.scoring.scores` averages.
    temperature : float
        0 is greedy: the likeliest label. Above it a distribution gives the expected score at that temperature, which is
        what the mean of samples tends to.
    max_tokens : int, optional
        With ``answer="text"``: length of an answer at most. By default 16, since generation may stop after the rating,
        and 256 where reasons stand before it.
    seed : int
        Of the sampled texts.

    Raises
    ------
    InputError
        If a value lies outside its range, or a distribution is wanted of a rating after its reasons.

    Notes
    -----
    The recipe is the default: 1-10, no reasons, temperature 0, with the source, one attribute a request.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> judge = bl.SimulatedJudge(data, noise=0.5)
    >>> recipe = bl.collect(Rating(attributes=["fluency"]), judge, data, progress=False)
    >>> bool((recipe["value"] % 1 == 0).all())
    True
    """

    attributes: Sequence[str] | None = None
    scale: str = "1-10"
    reasons: prompts.Reasons = "none"
    answer: Answer = "distribution"
    replicates: int = 1
    temperature: float = 0.0
    max_tokens: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require_attributes_list(self.attributes)
        find_scale(self.scale)
        require_one_of("reasons", self.reasons, get_args(prompts.Reasons))
        if self.reasons == "before" and self.answer == "distribution":
            raise InputError("answer", self.answer, "text where reasons stand before the rating")
        self._asking()

    @property
    def name(self) -> str:
        """``"rating"``, ``"rate_explain"`` or ``"analyze_rate"``, by the place of the reasons."""
        return _NAMES[self.reasons]

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one rating a candidate and attribute, or one a replicate."""
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        for item in items(dataset):
            for attribute in attributes:
                prompt = prompts.rate(dataset, [attribute], scale, item.text, item.context, self.reasons)
                form: Form = "bare" if self.reasons == "none" else "lines"
                about = about_scores(item, [attribute], scale, form, self.reasons)
                if self.reasons == "after" and self.answer == "distribution":
                    started = begun(prompt, attribute)
                    yield from score_trials(item, attribute, started, spaced(scale), self._asking(), {}, about)
                    continue
                for trial in score_trials(item, attribute, prompt, scale, self._asking(), {}, about):
                    yield replace(trial, labels=(attribute,))

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score, the expected one of a distribution at the temperature, and the status."""
        return read_score(trial, reply, self.temperature)

    def _asking(self) -> Asking:
        length = self.max_tokens if self.max_tokens is not None else 256 if self.reasons == "before" else 16
        return Asking(self.answer, self.replicates, self.temperature, length, self.seed)
