"""The scores frame: one score a candidate and attribute, whoever gave it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.errors import TrialsError
from biaslab.core.schema import Dataset
from biaslab.stats import require_columns, usable

#: Columns of a scores frame; the first four say whose scores they are.
SCORES = ("scorer", "judge", "dataset", "attribute", "context_id", "candidate_id", "score")


@checked
def scores(trials: pd.DataFrame) -> pd.DataFrame:
    """Turn score trials into scores, the mean of its replicates for each candidate.

    Parameters
    ----------
    trials : pandas.DataFrame
        Made by `biaslab.collect` with a scorer.

    Returns
    -------
    pandas.DataFrame
        ``scorer, judge, dataset, attribute, context_id, candidate_id, score``, in the order of the trials. A candidate
        none of whose replicates could be read has NaN.

    Raises
    ------
    TrialsError
        If a column is missing, or one replicate of a candidate stands there twice: then the trials hold several
        conditions, which no mean should mix.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> scorer = bl.scoring.GEval(attributes=["fluency"], answer="text", replicates=4)
    >>> found = scores(bl.collect(scorer, bl.SimulatedJudge(data), data, progress=False))
    >>> found.shape, found["scorer"].iloc[0]
    ((12, 7), 'g_eval')
    """
    keys = ["probe", *SCORES[1:-1]]
    require_columns(trials, (*keys, "replicate", "value", "status"), "trials")
    twice = trials.duplicated([*keys, "replicate"])
    if twice.any():
        what = " ".join(map(str, trials.loc[twice, keys].iloc[0]))
        raise TrialsError("trials", f"two scores of one replicate ({what})", "one condition", "choose one beforehand")
    means = usable(trials).groupby(keys, sort=False)["value"].mean().rename("score")
    found = trials[keys].drop_duplicates().join(means, on=keys)
    return found.rename(columns={"probe": "scorer"}).reset_index(drop=True)


def scored(
    dataset: Dataset, scorer: str, judge: str, values: Iterable[float], attributes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Return the scores frame of a metric that knows no attributes: the same score of a candidate for each of them.

    Parameters
    ----------
    dataset : Dataset
        What was scored.
    scorer, judge : str
        The metric, and what computed it.
    values : iterable of float
        One a row of ``dataset.candidates``.
    attributes : sequence of str, optional
        What humans judged; all attributes of the data set by default.

    Raises
    ------
    InputError
        If an attribute is unknown.
    """
    items = dataset.candidates[["context_id", "candidate_id"]].assign(score=list(values))
    whose = {"scorer": scorer, "judge": judge, "dataset": dataset.name}
    parts = [items.assign(**whose, attribute=name) for name in dataset.require_attributes(attributes)]
    return pd.concat(parts, ignore_index=True)[list(SCORES)]
