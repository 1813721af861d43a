"""Base class of scorers that ask a judge for a number, and the scores frame: one score per candidate and attribute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from biaslab.core import Nearest, Reply, Request, Status, Trial, reading_text
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Answer, Asking, Item, Question, items, read_score
from biaslab.stats import require_columns, usable

#: Columns of a scores frame; the first four identify the scores.
SCORES = ("scorer", "judge", "dataset", "attribute", "context_id", "candidate_id", "score")


@dataclass(frozen=True)
class Scorer(ABC):
    """Base class of scorers that ask a judge for the score of each candidate, one attribute at a time.

    Parameters
    ----------
    attributes : sequence of str, optional
        Attributes to score; by default all of the data set.
    scale : str
        A name from `biaslab.core.scales.SCALES`.
    answer : {"distribution", "text"}
        Use the exact label probabilities, or generate text and parse the score in it.
    replicates : int
        With ``answer="text"``: samples per request, averaged by `biaslab.scoring.scores`.
    temperature : float
        With ``answer="text"``: 0 is greedy, which makes replicates equal.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer.
    seed : int
        Seed of sampled texts.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    attributes: Sequence[str] | None = None
    scale: str = field(default="1-5", kw_only=True)
    answer: Answer = field(default="distribution", kw_only=True)
    replicates: int = field(default=1, kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)
    max_tokens: int | None = field(default=16, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        find_scale(self.scale)
        _ = self.asking

    @property
    def asking(self) -> Asking:
        """The protocol that asks for scores."""
        length = self.default_length if self.max_tokens is None else self.max_tokens
        return Asking(self.answer, self.replicates, self.temperature, length, self.seed)

    @property
    def default_length(self) -> int:
        """Maximum length of an answer if ``max_tokens`` is None."""
        return 16

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one score per candidate, attribute and replicate."""
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        for item in items(dataset):
            for attribute in attributes:
                yield from self.question(dataset, item, attribute, scale).trials(self.asking, {})

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design without requests that the judge refuses; None if there is none."""
        return reading_text(self, refused)

    @abstractmethod
    def question(self, dataset: Dataset, item: Item, attribute: str, scale: Scale) -> Question:
        """Return the question about one candidate and attribute."""

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the expected score over the labels, or the score stated in a text, and the status."""
        return read_score(trial, reply)


def require_steps(steps: Mapping[str, Sequence[str]]) -> None:
    """Raise `InputError` unless every attribute has a list of evaluation steps."""
    for attribute, listed in steps.items():
        if isinstance(listed, str) or not listed:
            raise InputError(f"steps[{attribute!r}]", listed, "a list of at least one step")


def require_known_steps(steps: Mapping[str, Sequence[str]], attributes: Sequence[str]) -> None:
    """Raise `InputError` if steps are given for an attribute that is not scored."""
    if unknown := [name for name in steps if name not in attributes]:
        raise InputError("steps", unknown, f"steps for some of {', '.join(attributes)}")


def scores(trials: pd.DataFrame) -> pd.DataFrame:
    """Turn score trials into scores: the mean over replicates for each candidate.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.collect` with a scorer.

    Returns
    -------
    pandas.DataFrame
        ``scorer, judge, dataset, attribute, context_id, candidate_id, score``, in the order of the trials. NaN for a
        candidate without a usable replicate.

    Raises
    ------
    TrialsError
        If a column is missing, or a replicate of a candidate is repeated: the trials then have several conditions,
        which should not be averaged.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> scorer = bl.scoring.GEval(attributes=["fluency"], answer="text", replicates=4)
    >>> scored = scores(bl.collect(scorer, bl.SimulatedJudge(data), data, progress=False))
    >>> scored.shape, scored["scorer"].iloc[0]
    ((12, 7), 'g_eval')
    """
    keys = ["probe", *SCORES[1:-1]]
    require_columns(trials, (*keys, "replicate", "value", "status"), "trials")
    require_one_condition(trials, keys)
    means = usable(trials).groupby(keys, sort=False)["value"].mean().rename("score")
    rows = trials[keys].drop_duplicates().join(means, on=keys)
    return rows.rename(columns={"probe": "scorer"}).reset_index(drop=True)


def require_one_condition(trials: pd.DataFrame, keys: Sequence[str]) -> None:
    """Raise `TrialsError` if a replicate is scored twice, as happens with trials of several conditions."""
    twice = trials.duplicated([*keys, "replicate"])
    if twice.any():
        duplicate = " ".join(map(str, trials.loc[twice, list(keys)].iloc[0]))
        raise TrialsError("trials", f"two scores of one replicate ({duplicate})", "one condition", "select one first")


def scored(
    dataset: Dataset, scorer: str, judge: str, values: Iterable[float], attributes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the scores frame of a metric that ignores attributes: the same score for each attribute.

    Parameters
    ----------
    dataset : Dataset
        The data set that was scored.
    scorer, judge : str
        Name of the metric, and of the package or model that computed it.
    values : iterable of float
        One per row of ``dataset.candidates``.
    attributes : sequence of str, optional
        Attributes that humans judged; by default all of the data set.

    Raises
    ------
    InputError
        If an attribute is unknown.
    """
    frame = dataset.candidates[["context_id", "candidate_id"]].assign(score=list(values))
    whose = {"scorer": scorer, "judge": judge, "dataset": dataset.name}
    parts = [frame.assign(**whose, attribute=name) for name in dataset.require_attributes(attributes)]
    return pd.concat(parts, ignore_index=True)[list(SCORES)]
