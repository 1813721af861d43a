"""What an evaluator learns from: texts with the labels that a judge gave them, whoever the judge was."""

from __future__ import annotations

import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.errors import TrialsError
from biaslab.core.scales import Scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.stats import ITEM, require_columns, usable

#: Columns of an examples frame.
EXAMPLES = ("context_id", "candidate_id", "attribute", "text", "source", "reference", "label", "human")
_KEYS = ["judge", "attribute", *ITEM]


@checked
def examples(trials: pd.DataFrame, dataset: Dataset, scale: Scale | None = None) -> pd.DataFrame:
    """Turn score trials into texts and labels, the mean of the readable replicates of each candidate.

    Parameters
    ----------
    trials : pandas.DataFrame
        One judge's scores under one condition: made by `biaslab.collect` with `Stars` or any scorer or pointwise probe,
        or read from a log (`biaslab.read_judgements`). Rows that are no scores (without a scale, such as likelihoods)
        and about other data sets are left out.
    dataset : Dataset
        Whose texts were judged.
    scale : Scale, optional
        On which was judged, where the trials have no column ``scale``.

    Returns
    -------
    pandas.DataFrame
        One row a candidate and attribute with a readable score: ``context_id, candidate_id, attribute, text, source,
        reference``; ``label``, the score laid on 0 to 1 by the ends of its scale (the paper's min-max normalisation);
        ``human``, the mean human score on the data set's scale, NaN where nobody rated or the attribute is none of the
        data set's.

    Raises
    ------
    TrialsError
        If a column is missing, there are no scores of this data set, they are of several judges or several conditions,
        or a candidate is unknown.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(bl.distill.Stars(aspects=["fluency"]), bl.SimulatedJudge(data), data, progress=False)
    >>> found = examples(trials, data)
    >>> len(found), bool(found["label"].between(0, 1).all())
    (12, True)
    """
    require_columns(trials, [*_KEYS, "replicate", "value", "status"], "trials")
    scored = _scored(trials, dataset, scale)
    judges = sorted(set(scored["judge"]))
    if len(judges) > 1:
        raise TrialsError("trials", f"scores of {', '.join(judges)}", "those of one judge", "choose one beforehand")
    twice = scored.duplicated([*_KEYS, "replicate"])
    if twice.any():
        what = " / ".join(map(str, scored.loc[twice, _KEYS[1:]].iloc[0]))
        raise TrialsError("trials", f"two scores of one replicate ({what})", "one condition", "choose one beforehand")
    keys = [*ITEM, "attribute"]
    labels = usable(scored).groupby(keys, sort=False)["label"].mean().reset_index()
    texts = dataset.candidates.rename(columns={"context": "source"})
    found = labels.merge(texts[[*ITEM, "text", "source", "reference"]], on=list(ITEM), how="left", indicator=True)
    unknown = found["_merge"] != "both"
    if unknown.any():
        what = " / ".join(map(str, found.loc[unknown, keys].iloc[0]))
        raise TrialsError("trials", what, "candidates of the data set")
    rated = dataset.human.groupby(keys, sort=False)["score"].mean().rename("human")
    return found.join(rated, on=keys)[list(EXAMPLES)]


def _scored(trials: pd.DataFrame, dataset: Dataset, scale: Scale | None) -> pd.DataFrame:
    """Return the scores of a data set with their labels from 0 to 1."""
    mine = trials[trials["dataset"] == dataset.name] if "dataset" in trials else trials
    if "opponent_id" in mine:
        mine = mine[mine["opponent_id"].isna()]
    if "asked" in mine:  # beside its scores, a probe may ask for the probability of a label
        mine = mine[mine["asked"].isin(["score"]) | mine["asked"].isna()]
    if scale is None:
        require_columns(trials, ["scale"], "trials")
        mine = mine[mine["scale"].notna()]
        names = mine["scale"].astype(str)
        ends = {name: scale_named(name) for name in names.unique()}
        low, high = (names.map({n: getattr(s, end) for n, s in ends.items()}).astype(float) for end in ("low", "high"))
        labels = (mine["value"] - low) / (high - low)
    else:
        labels = mine["value"].map(scale.unit)
    if mine.empty:
        raise TrialsError("trials", "no scores of this data set", f"scores of candidates of {dataset.name}")
    return mine.assign(label=labels)
