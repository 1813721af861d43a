"""SummEval with scores that a judge gave it, from a folder of downloads: a teacher that costs nothing."""

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
    """Return SummEval with its experts' scores; None where no file below the folder holds them, or no folder is given.

    Parameters
    ----------
    folder : path, optional
        Where somewhere below ``model_annotations.aligned.jsonl`` lies, packed or not.
    limit : int, optional
        Number of contexts; all by default.

    Examples
    --------
    >>> find_summeval("/no/such/folder") is None
    True
    """
    for file in [] if folder is None else sorted(Path(folder).rglob("*annotations*.jsonl*")):
        try:
            return load_dataset("summeval", file, limit)
        except BiaslabError:  # another file of that name
            continue
    return None


def recorded_scores(
    folder: str | PathLike[str] | None,
    dataset: Dataset | None,
    judge: str,
    attribute: str | Sequence[str],
    configuration: str = "rts",
) -> pd.DataFrame | None:
    """Return what a judge scored of a data set, as Shen et al. 2023 (arXiv 2305.13091) recorded it.

    Parameters
    ----------
    folder : path, optional
        Where somewhere below ``judge_scores.jsonl`` lies, packed or not.
    dataset : Dataset
        Made by `find_summeval`.
    judge, configuration : str
        Whose scores: ``"gpt-4-0314"``, reason to score (``"rts"``).
    attribute : str or sequence of str
        Of what, such as ``"coherence"``; several come one below the other.

    Returns
    -------
    pandas.DataFrame or None
        Score trials with the mean expert score (``human``) and the length of each text (``words``), of this data set's
        contexts; None where an attribute has none, or no folder or data set is given.

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
