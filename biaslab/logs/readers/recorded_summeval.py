"""Load SummEval and recorded judge scores from a folder of downloads, as a teacher that costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import pandas as pd

from biaslab.core.errors import BiaslabError
from biaslab.core.schema import Dataset
from biaslab.datasets import load_dataset
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.humans import with_humans


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
