"""Create training examples: texts with labels from 0 to 1, from trials or by asking a judge."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import cast

import pandas as pd

from biaslab.core import Design, Judge, Score
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.scales import Scale, scale_named, whole_numbers
from biaslab.core.schema import Dataset
from biaslab.distill.annotation import MULTIPLE, Aspect, Reward, Stars, StarScale, aspects as aspects_of
from biaslab.measures.scoring.pointwise import Answer
from biaslab.measures.scoring.scorer import require_one_condition
from biaslab.stats import ITEM, require_columns, usable
from biaslab.store import Store
from biaslab.study.collect import collect

#: Columns of an examples frame.
EXAMPLES = ("context_id", "candidate_id", "attribute", "text", "source", "reference", "label", "human")
_KEYS = ["judge", "attribute", *ITEM]


def examples(trials: pd.DataFrame, dataset: Dataset, scale: Scale | None = None) -> pd.DataFrame:
    """Turn score trials into texts and labels, the mean of the readable replicates of each candidate.

    Parameters
    ----------
    trials : pandas.DataFrame
        One judge's scores under one condition: made by `biaslab.collect` with `Stars` or any scorer or pointwise
        probe, or read from a log (`biaslab.read_judgements`). Rows that are not scores (without a scale, such as
        likelihoods) or belong to other data sets are dropped.
    dataset : Dataset
        The data set with the judged texts.
    scale : Scale, optional
        The scale of the scores, if the trials have no column ``scale``.

    Returns
    -------
    pandas.DataFrame
        One row per candidate and attribute with a usable score:
        ``context_id, candidate_id, attribute, text, source, reference``; ``label``, the score mapped linearly from its
        scale to 0 to 1 (the paper's min-max normalisation); ``human``, the mean human score on the data set's scale,
        NaN if unrated or if the data set lacks the attribute.

    Raises
    ------
    TrialsError
        If a column is missing, there are no scores of this data set, they are of several judges or conditions, or a
        candidate is unknown.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(bl.distill.Stars(aspects=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> labelled = examples(trials, data)
    >>> len(labelled), bool(labelled["label"].between(0, 1).all())
    (12, True)
    """
    require_columns(trials, [*_KEYS, "replicate", "value", "status"], "trials")
    scored = _scored(trials, dataset, scale)
    judges = sorted(set(scored["judge"]))
    if len(judges) > 1:
        raise TrialsError("trials", f"scores of {', '.join(judges)}", "scores of one judge", "select one first")
    require_one_condition(scored, _KEYS)
    keys = [*ITEM, "attribute"]
    labels = usable(scored).groupby(keys, sort=False)["label"].mean().reset_index()
    texts = dataset.candidates.rename(columns={"context": "source"})
    labelled = labels.merge(texts[[*ITEM, "text", "source", "reference"]], on=list(ITEM), how="left", indicator=True)
    unknown = labelled["_merge"] != "both"
    if unknown.any():
        candidate = " / ".join(map(str, labelled.loc[unknown, keys].iloc[0]))
        raise TrialsError("trials", candidate, "candidates of the data set")
    rated = dataset.human.groupby(keys, sort=False)["score"].mean().rename("human")
    return labelled.join(rated, on=keys)[list(EXAMPLES)]


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
    """Label every candidate from 0 to 1, for training or for comparison with other scores.

    Parameters
    ----------
    judge : Judge
        A judge that reads prompts is asked for `Stars`. One that answers `biaslab.core.Score` requests, such as an
        `EvaluatorJudge`, is asked for its score, clipped to 0 to 1.
    dataset : Dataset
        The data set to label.
    aspects, task, scale, reference, answer, seed
        As in `Stars`.
    attributes : sequence of str, optional
        Name of each aspect in the result, if the data set uses another one: ``["quality"]`` for ``["multiple"]``.
    store, progress
        As in `biaslab.collect`.

    Returns
    -------
    pandas.DataFrame
        As in `biaslab.distill.examples`.

    Raises
    ------
    InputError
        If the numbers of attributes and aspects differ, or as in `Stars`.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> labelled = annotate(bl.SimulatedJudge(data), data, ["coherence", "fluency"], progress=False)
    >>> labelled.groupby("attribute").size().to_dict(), bool(labelled["label"].between(0, 1).all())
    ({'coherence': 12, 'fluency': 12}, True)
    """
    chosen = aspects if aspects is not None else [a.name for a in aspects_of(task) if a.name != MULTIPLE]
    names = [aspect.name if isinstance(aspect, Aspect) else aspect for aspect in chosen]
    called = list(names if attributes is None else attributes)
    if len(called) != len(names) or len(set(called)) < len(called):
        raise InputError("attributes", attributes, f"a distinct name for each of {', '.join(names)}")
    if Score in judge.kinds:
        trials = collect(Reward(names, reference), judge, dataset, store, progress)
        trials, unit = trials.assign(value=trials["value"].clip(0, 1)), whole_numbers(0, 1)
    else:
        stars = Stars(task, chosen, scale, reference=reference, answer=answer, seed=seed)
        trials, unit = collect(cast("Design", stars), judge, dataset, store, progress), None
    return examples(
        trials.assign(attribute=trials["attribute"].map(dict(zip(names, called, strict=True)))), dataset, unit
    )


def _scored(trials: pd.DataFrame, dataset: Dataset, scale: Scale | None) -> pd.DataFrame:
    """Return the scores of a data set with their labels from 0 to 1."""
    mine = trials[trials["dataset"] == dataset.name] if "dataset" in trials else trials
    if "opponent_id" in mine:
        mine = mine[mine["opponent_id"].isna()]
    if "asked" in mine:  # a probe may also ask for label probabilities
        mine = mine[mine["asked"].isin(["score"]) | mine["asked"].isna()]
    if scale is None:
        require_columns(trials, ["scale"], "trials")
        mine = mine[mine["scale"].notna()]
        scales = {name: scale_named(str(name)) for name in mine["scale"].unique()}
        labels = [scales[name].unit(value) for name, value in zip(mine["scale"], mine["value"], strict=True)]
    else:
        labels = [scale.unit(value) for value in mine["value"]]
    if mine.empty:
        raise TrialsError("trials", "no scores of this data set", f"scores of candidates of {dataset.name}")
    return mine.assign(label=labels)
