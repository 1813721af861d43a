"""Join human scores to recorded judgements, and load SummEval with recorded scores."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.core.errors import BiaslabError, InputError
from biaslab.core.schema import CONSTRUCTION, Dataset, count_words
from biaslab.datasets import load_dataset
from biaslab.logs.readers import read_judgements

_ITEM = ["context_id", "candidate_id", "attribute"]


def with_humans(trials: pd.DataFrame, dataset: Dataset) -> pd.DataFrame:
    """Add the human scores of a data set to trials.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`.
    dataset : Dataset
        A data set with the same identifiers as the log. Logs that identify items by their texts cannot be joined.

    Returns
    -------
    pandas.DataFrame
        For single candidates with ``human``, the mean; ``ratings``, the single scores separated by spaces;
        ``annotators``, who gave them, as numbers; ``human_scale``; and ``words``, the length of the text. For pairs
        with ``human_gap``. The annotator "construction" keeps the name, also of pairs. Trials that the data set does
        not rate are unchanged.

    Raises
    ------
    InputError
        If the data set has no human scores of the judged candidates.
    """
    human = dataset.human
    if human.empty:
        raise InputError.plain(f"dataset {dataset.name} has no human scores")
    whole = (human["score"] % 1 == 0).all()
    written = human["score"].map("{:g}".format if whole else repr)
    exact, numbers = human["annotator"] == CONSTRUCTION, pd.factorize(human["annotator"])[0].astype(str)
    grouped = human.assign(written=written, number=np.where(exact, CONSTRUCTION, numbers)).groupby(_ITEM)
    rated = grouped.agg(mean=("score", "mean"), ratings=("written", " ".join), annotators=("number", " ".join))
    first = rated.reindex(pd.MultiIndex.from_frame(trials[_ITEM])).set_axis(trials.index)
    second = rated["mean"].reindex(pd.MultiIndex.from_frame(trials[["context_id", "opponent_id", "attribute"]]))
    if first["mean"].isna().all():
        ids = trials[_ITEM].iloc[0].tolist() if len(trials) else "nothing"
        raise InputError("dataset", dataset.name, "a data set with the log's contexts, candidates and attributes",
                         f"the log has, for example, {ids}; map its identifiers to the data set's")  # fmt: skip
    gap, pair = first["mean"] - second.set_axis(trials.index), trials["opponent_id"].notna()
    low, high = dataset.scale
    known = dataset.candidates.set_index(_ITEM[:2])["text"].map(count_words).astype(float)
    words = known.reindex(pd.MultiIndex.from_frame(trials[_ITEM[:2]])).set_axis(trials.index)
    one = first["mean"].notna() & ~pair
    labelled = one | (gap.notna() if exact.all() else False)
    joined = trials.assign(
        human=trials["human"].where(~one, first["mean"]),
        ratings=trials["ratings"].where(~one, first["ratings"]).astype("str"),
        annotators=trials["annotators"].where(~labelled, first["annotators"]).astype("str"),
        human_scale=trials["human_scale"].where(~one, f"{low:g}-{high:g}").astype("str"),
        human_gap=trials["human_gap"].where(~pair | gap.isna(), gap),
        words=trials["words"].where(~one, words),
    )
    joined.attrs = trials.attrs
    return joined


def find_summeval(folder: str | PathLike[str] | None, limit: int | None = None) -> Dataset | None:
    """Return SummEval with expert scores; None if no folder is given or no file in it has them.

    Parameters
    ----------
    folder : path, optional
        A folder that contains ``model_annotations.aligned.jsonl`` at any depth, compressed or not.
    limit : int, optional
        Number of contexts; default: all.

    Examples
    --------
    >>> find_summeval("/no/such/folder") is None
    True
    """
    for file in [] if folder is None else sorted(Path(folder).rglob("*annotations*.jsonl*")):
        try:
            return load_dataset("summeval", file, limit)
        except BiaslabError:  # a different file with that name
            continue
    return None


def recorded_scores(
    folder: str | PathLike[str] | None,
    dataset: Dataset | None,
    judge: str,
    attribute: str | Sequence[str],
    configuration: str = "rts",
) -> pd.DataFrame | None:
    """Return a judge's scores of a data set, as recorded by Shen et al. 2023 (arXiv 2305.13091).

    Parameters
    ----------
    folder : path, optional
        A folder that contains ``judge_scores.jsonl`` at any depth, compressed or not.
    dataset : Dataset
        From `find_summeval`.
    judge, configuration : str
        Judge and prompt: ``"gpt-4-0314"``, reason to score (``"rts"``).
    attribute : str or sequence of str
        Attribute, such as ``"coherence"``; several are concatenated.

    Returns
    -------
    pandas.DataFrame or None
        Score trials for this data set's contexts, with the mean expert score (``human``) and the length of each text
        (``words``); None if an attribute has no scores, or if no folder or data set is given.

    Examples
    --------
    >>> import biaslab as bl
    >>> recorded_scores("/no/such/folder", bl.load_dataset("graded", limit=1), "gpt-4-0314", "coherence") is None
    True
    """
    if folder is None or dataset is None:
        return None
    wanted = [attribute] if isinstance(attribute, str) else list(attribute)
    for file in sorted(Path(folder).rglob("judge_scores.jsonl*")):
        trials = read_judgements(file)
        whose = (trials["judge"] == judge) & (trials["configuration"] == configuration)
        trials = trials[whose & trials["context_id"].isin(dataset.candidates["context_id"])]
        parts = [trials[trials["attribute"] == name] for name in wanted]
        if all(map(len, parts)):
            scored = pd.concat(parts, ignore_index=True).assign(dataset=dataset.name, asked="score")
            return with_humans(scored, dataset)
    return None
