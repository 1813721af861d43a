"""Join human scores from a data set to recorded judgements, by context, candidate and attribute."""

from __future__ import annotations

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset, count_words

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
        with ``human_gap``. Trials that the data set does not rate are unchanged.

    Raises
    ------
    InputError
        If the data set has no human scores of the judged candidates.
    """
    human = dataset.human
    if human.empty:
        raise InputError("dataset", dataset.name, "a data set with human scores")
    whole = (human["score"] % 1 == 0).all()
    written = human["score"].map("{:g}".format if whole else repr)
    numbers = pd.factorize(human["annotator"])[0].astype(str)
    grouped = human.assign(written=written, number=numbers).groupby(_ITEM)
    rated = grouped.agg(mean=("score", "mean"), ratings=("written", " ".join), annotators=("number", " ".join))
    first = rated.reindex(pd.MultiIndex.from_frame(trials[_ITEM]))
    second = rated["mean"].reindex(pd.MultiIndex.from_frame(trials[["context_id", "opponent_id", "attribute"]]))
    mean, against = first["mean"].to_numpy(float), second.to_numpy(float)
    pair = trials["opponent_id"].notna().to_numpy()
    has_mean = ~pd.isna(mean)
    if not has_mean.any():
        ids = trials[_ITEM].iloc[0].tolist() if len(trials) else "nothing"
        raise InputError("dataset", dataset.name, "a data set with the log's contexts, candidates and attributes",
                         f"the log has, for example, {ids}; map its identifiers to the data set's")  # fmt: skip
    gap = pd.Series(mean - against, index=trials.index)
    low, high = dataset.scale
    known = dataset.candidates.set_index(_ITEM[:2])["text"].map(count_words).astype(float)
    words = known.reindex(pd.MultiIndex.from_frame(trials[_ITEM[:2]]))
    words = pd.Series(words.to_numpy(), index=trials.index)
    one = pd.Series(has_mean & ~pair, index=trials.index)
    single = {name: pd.Series(first[name].to_numpy(), index=trials.index) for name in ("ratings", "annotators")}
    joined = trials.assign(
        human=trials["human"].where(~one, mean),
        **{name: trials[name].where(~one, column).astype("str") for name, column in single.items()},
        human_scale=trials["human_scale"].where(~one, f"{low:g}-{high:g}").astype("str"),
        human_gap=trials["human_gap"].where(~pair | gap.isna(), gap),
        words=trials["words"].where(~one, words),
    )
    joined.attrs = trials.attrs
    return joined
