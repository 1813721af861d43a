"""Let a judge, or an evaluator, label the texts of a data set: what another evaluator learns, or is held against."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import cast

import pandas as pd

from biaslab.core import Design, Judge, Score
from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.core.scales import whole_numbers
from biaslab.core.schema import Dataset
from biaslab.distill.annotation import Stars, StarScale
from biaslab.distill.aspects import MULTIPLE, Aspect, aspects as aspects_of
from biaslab.distill.examples import examples
from biaslab.distill.rerank import Reward
from biaslab.measures.scoring.pointwise import Answer
from biaslab.store import Store
from biaslab.study.collect import collect


@checked
def annotate(
    judge: Judge,
    dataset: Dataset,
    aspects: Sequence[str | Aspect] | None = None,
    *,
    task: str = "summarization",
    attributes: Sequence[str] | None = None,
    scale: StarScale = "stars",
    reference: bool = False,
    answer: Answer = "distribution",
    seed: int = 0,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Label every candidate from 0 to 1, as examples to teach with or scores to hold against others.

    Parameters
    ----------
    judge : Judge
        A judge that reads prompts is asked for `Stars`. One that answers `biaslab.core.Score` requests, such as an
        `EvaluatorJudge`, is asked for its score, and what lies outside 0 and 1 becomes the nearer of them.
    dataset : Dataset
        Whose texts.
    aspects, task, scale, reference, answer, seed
        As for `Stars`.
    attributes : sequence of str, optional
        What each aspect is called in what is returned, where the data set has another name for it: ``["quality"]`` for
        ``["multiple"]``.
    store, progress
        As for `biaslab.collect`.

    Returns
    -------
    pandas.DataFrame
        As `biaslab.distill.examples`.

    Raises
    ------
    InputError
        If there is not one attribute an aspect, or as from `Stars`.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> found = annotate(bl.SimulatedJudge(data), data, ["coherence", "fluency"], progress=False)
    >>> found.groupby("attribute").size().to_dict(), bool(found["label"].between(0, 1).all())
    ({'coherence': 12, 'fluency': 12}, True)
    """
    chosen = aspects if aspects is not None else [a.name for a in aspects_of(task) if a.name != MULTIPLE]
    names = [aspect.name if isinstance(aspect, Aspect) else aspect for aspect in chosen]
    called = list(names if attributes is None else attributes)
    if len(called) != len(names) or len(set(called)) < len(called):
        raise InputError("attributes", attributes, f"a name of its own for each of {', '.join(names)}")
    if Score in judge.kinds:
        trials = collect(Reward(names, reference), judge, dataset, store, progress)
        trials, unit = trials.assign(value=trials["value"].clip(0, 1)), whole_numbers(0, 1)
    else:
        stars = Stars(task, chosen, scale, reference=reference, answer=answer, seed=seed)
        trials, unit = collect(cast("Design", stars), judge, dataset, store, progress), None
    return examples(
        trials.assign(attribute=trials["attribute"].map(dict(zip(names, called, strict=True)))), dataset, unit
    )
