"""Ranks from trials, for every judge, data set, attribute and template."""

from __future__ import annotations

import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.errors import InputError, TrialsError
from biaslab.measures.ranking.comparisons import Floats, Read, cells, read_trials
from biaslab.measures.ranking.debiasing import Debiasing, debias
from biaslab.measures.ranking.decoding import Decoding, decode, ranks

_HUMAN = ("human", "opponent_human")
_SYSTEM = ("system", "opponent_system")


@checked
def rank(
    trials: pd.DataFrame,
    decoding: Decoding = "win-ratio",
    debiasing: Debiasing = "none",
    hard: bool = False,
    folds: int = 10,
) -> pd.DataFrame:
    """Rank the candidates of each context, for every judge, data set, attribute and template.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of any probe: `biaslab.probes.Position`, `biaslab.probes.Comparative`.
    decoding, hard
        As in `biaslab.ranking.decode`.
    debiasing, folds
        As in `biaslab.ranking.debias`: what is fitted is fitted on other contexts.

    Returns
    -------
    pandas.DataFrame
        ``judge, dataset, attribute, [template,] context_id, candidate_id, score, rank``, 1 the best; where the trials
        say them also ``system`` and ``human``, the mean human score. NaN for a candidate in no usable comparison.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(bl.probes.Position(["coherence"], [1]), bl.SimulatedJudge(data), data, progress=False)
    >>> rank(trials)[["candidate_id", "score", "rank"]].head(2).to_numpy().tolist()
    [['c1', 0.9, 1.5], ['c2', 0.2, 5.0]]
    """
    frames = []
    for where, cell in cells(trials):
        read = read_trials(cell)
        found = debias(read.comparisons, debiasing, folds)
        scores = decode(found, decoding, hard).scores
        names = {"context_id": found.context_id, "candidate_id": found.candidate_id}
        columns = where | names | {"score": scores, "rank": ranks(scores, found.context)}
        for name, both in (("system", _SYSTEM), ("human", _HUMAN)):
            if set(both) <= set(cell.columns):
                columns[name] = read.of_candidates(cell[both[0]], cell[both[1]])
        frames.append(pd.DataFrame(columns))
    if not frames:
        raise TrialsError("trials", "no row", "at least one comparison")
    return pd.concat(frames, ignore_index=True)


def human_of(trials: pd.DataFrame, read: Read, human: pd.DataFrame | None, attribute: str) -> Floats:
    """Return the mean human score of each candidate, from a frame such as `Dataset.human_means` or from the trials."""
    if human is None:
        return read.of_candidates(trials["human"], trials["opponent_human"]).astype(float)
    if attribute not in human:
        raise InputError("human", list(human.columns), f"a frame with a column {attribute}")
    found = read.comparisons
    index = pd.MultiIndex.from_arrays([found.context_id, found.candidate_id])
    return human[attribute].reindex(index).to_numpy(float)
