"""Choose the best of several texts by one evaluator, or by several with weights (Wang et al. 2023, Eqs. 5, 6)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core import About, Judge, Reply, Score, Status, Trial
from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.distill.line_search import mean_goal, search_weights
from biaslab.measures.scoring.scored import SCORES, scores
from biaslab.stats import require_columns
from biaslab.store import Store
from biaslab.study.collect import collect

Evaluators = Judge | pd.DataFrame | Mapping[str, "Judge | pd.DataFrame"]
_ITEM = ["context_id", "candidate_id"]


@checked(eager=True)
@dataclass(frozen=True)
class Reward:
    """A scorer that asks an evaluator for one number a candidate: what reranking and training maximise.

    Parameters
    ----------
    attributes : sequence of str
        What is judged; ``""`` is quality as a whole.
    reference : bool
        Show the reference to the evaluator.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=1)
    >>> next(iter(Reward(["coherence"]).design(data))).request.attribute
    'coherence'
    """

    name: ClassVar[str] = "reward"
    attributes: Sequence[str] = ("",)
    reference: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.attributes, str) or not self.attributes:
            raise InputError("attributes", self.attributes, "a list of at least one name")

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan one request a candidate and attribute."""
        for row in dataset.candidates.itertuples():
            reference = str(row.reference) if self.reference else ""
            for attribute in self.attributes:
                given = (row.context_id, row.candidate_id, row.text, row.context)
                context_id, candidate_id, text, source = map(str, given)
                about = About(context_id, (candidate_id,), (text,), (attribute,), bool(source.strip()))
                yield Trial(Score(text, source, reference, attribute, about), context_id, attribute, candidate_id)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:  # noqa: ARG002
        """Return the evaluator's number as it is."""
        value = math.nan if reply.score is None else reply.score
        return (value, "ok") if math.isfinite(value) else (math.nan, "unparsable")


@checked
def rerank(
    candidates: Dataset,
    judges: Evaluators,
    weights: Mapping[str, float] | None = None,
    *,
    attributes: Sequence[str] = ("",),
    reference: bool = False,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
) -> Dataset:
    """Keep the best candidate of each context: the one whose weighted sum of scores is greatest.

    Parameters
    ----------
    candidates : Dataset
        Several candidates a context, such as those of `collect_samples`.
    judges : Judge, pandas.DataFrame or mapping
        Who decides: a judge that answers `Score` requests, a scores frame of any scorer (`biaslab.scoring.scores`), or
        several of them by name.
    weights : mapping of str to float, optional
        By name, as `tune_weights` returns them; 1 for each by default. A judge asked about several attributes, and a
        frame with several, gives one score each, named by the attribute (with other judges beside it, ``"name:
        attribute"``).
    attributes : sequence of str
        What judges are asked about; quality as a whole by default.
    reference : bool
        Show judges the reference, for evaluators that were taught with it.
    store : Store or path, optional
        Where their replies are kept.
    progress : bool
        Show progress bars.

    Returns
    -------
    Dataset
        One candidate a context, as it was, with its human scores. Of equally good ones it is the first.

    Raises
    ------
    InputError
        If a candidate has no score, or a weight is missing, unknown or not finite.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=4)
    >>> overlap = bl.scoring.reference_scores(data, ["ROUGE-1"], ["relevance"])
    >>> best = rerank(data, overlap)
    >>> len(best.candidates), best.n_contexts
    (4, 4)
    """
    table = evaluate(candidates, judges, attributes=attributes, reference=reference, store=store, progress=progress)
    names = list(table.columns)
    given = dict.fromkeys(names, 1.0) if weights is None else dict(weights)
    if set(given) != set(names) or not all(math.isfinite(w) for w in given.values()):
        raise InputError("weights", given, f"a finite number for each of {', '.join(names)}")
    total = table.to_numpy() @ np.array([given[name] for name in names])
    first = pd.Series(total).groupby(table.index.get_level_values("context_id"), sort=False).idxmax().sort_values()
    kept = candidates.candidates.iloc[first]
    human = candidates.human.merge(kept[_ITEM], on=_ITEM)
    said = " + ".join(f"{given[name]:.3g} × {name or 'score'}" for name in names)
    facts = f"{candidates.provenance} Of each context the candidate with the greatest {said}.".strip()
    about = (candidates.attributes, candidates.scale, candidates.noun, facts)
    return Dataset(f"{candidates.name}, reranked", kept, human, *about)


@checked
def evaluate(
    candidates: Dataset,
    judges: Evaluators,
    *,
    attributes: Sequence[str] = ("",),
    reference: bool = False,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Return every candidate's scores, one column an evaluator and attribute.

    Parameters
    ----------
    candidates, judges, attributes, reference, store, progress
        As for `rerank`.

    Returns
    -------
    pandas.DataFrame, shape (candidates, scores)
        By ``(context_id, candidate_id)``, in the order of the candidates.

    Raises
    ------
    InputError
        If a candidate has no score.
    """
    named = judges if isinstance(judges, Mapping) else {"": judges}
    if not named:
        raise InputError("judges", "none", "at least one judge or scores frame")
    index = pd.MultiIndex.from_frame(candidates.candidates[_ITEM])
    columns: dict[str, NDArray[np.float64]] = {}
    for name, judge in named.items():
        if not isinstance(judge, pd.DataFrame):
            judge = scores(collect(Reward(attributes, reference), judge, candidates, store, progress))
        for label, part in _parts(judge, name):
            values = part.set_index(_ITEM)["score"].reindex(index).to_numpy(float)
            if np.isnan(values).any():
                where = ", ".join(map(str, index[int(np.isnan(values).argmax())]))
                what = f"no score of {where} by {label or 'the judge'}"
                raise InputError("judges", what, "a score of every candidate")
            columns[label] = values
    return pd.DataFrame(columns, index=index)


@checked
def tune_weights(
    candidates: Dataset,
    judges: Evaluators,
    objective: Judge | pd.DataFrame,
    *,
    attributes: Sequence[str] = ("",),
    reference: bool = False,
    seed: int = 0,
    store: Store | str | PathLike[str] | None = None,
    progress: bool = True,
) -> pd.Series:
    """Find weights whose choices score best by something else, on contexts kept for validation.

    Parameters
    ----------
    candidates : Dataset
        Contexts that are used for nothing else.
    judges, attributes, reference, store, progress
        As for `rerank`; at least two scores.
    objective : Judge or pandas.DataFrame
        What the choices are to be good at: the scores frame of a reference-based metric, one score a candidate, or an
        evaluator that is shown the reference, asked about quality as a whole.
    seed : int
        Of the search.

    Returns
    -------
    pandas.Series
        Weights by name, from 0, their sum 1. ``attrs["objective"]`` is the mean objective of what they choose,
        ``attrs["equal"]`` that of equal weights.

    Raises
    ------
    InputError
        If there are fewer than two scores, or a candidate lacks one.

    Notes
    -----
    As the paper's MERT (Och 2003) it searches lines exactly: the objective is piecewise constant in the weights, and
    gradients and simplices stand still on its plateaus. Lines run between the weights so far and each evaluator alone
    or random weights, from several starts, within weights that are not negative. With two scores the result is exact,
    with more it may miss the best plateau. Of equally good weights it keeps equal ones, then an evaluator alone.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> found = {name: bl.scoring.reference_scores(data, [name], ["relevance"], "source") for name in ("BLEU", "chrF")}
    >>> weights = tune_weights(data, found, bl.scoring.reference_scores(data, ["ROUGE-1"], ["relevance"]))
    >>> bool(weights.attrs["objective"] >= weights.attrs["equal"])
    True
    """
    table = evaluate(candidates, judges, attributes=attributes, reference=reference, store=store, progress=progress)
    if table.shape[1] < 2:
        raise InputError("judges", f"{table.shape[1]} score", "at least two scores to weigh")
    if not isinstance(objective, pd.DataFrame):
        objective = scores(collect(Reward(reference=True), objective, candidates, store, progress))
    goal = evaluate(candidates, objective, progress=progress)
    if goal.shape[1] != 1:
        raise InputError("objective", list(goal.columns), "one score a candidate", "choose one attribute")
    values, goals = _blocks(table, goal.iloc[:, 0].to_numpy(float))
    weights, reached = search_weights(values, goals, seed)
    found = pd.Series(weights, index=table.columns, name="weight")
    found.attrs = {"objective": reached, "equal": mean_goal(values, goals, np.ones(table.shape[1]))}
    return found


def _blocks(table: pd.DataFrame, aims: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores, shape (contexts, candidates, scores), and aims, shape (contexts, candidates)."""
    blocks = list(table.groupby(level="context_id", sort=False).indices.values())
    # contexts with fewer candidates are filled up with their first one, which then still wins its ties
    longest = max(map(len, blocks))
    rows = np.array([[*block, *[block[0]] * (longest - len(block))] for block in blocks])
    return table.to_numpy()[rows], aims[rows]


def _parts(frame: pd.DataFrame, name: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split a scores frame by attribute; name each part."""
    require_columns(frame, SCORES, "judges")
    kinds = frame[["scorer", "judge"]].drop_duplicates()
    if len(kinds) > 1:
        remedy = "give one frame each, by name"
        raise InputError("judges", f"a frame of {len(kinds)} scorers", "scores of one scorer and judge", remedy)
    groups = frame.groupby("attribute", sort=False)
    for attribute, part in groups:
        yield name if len(groups) == 1 else ": ".join(filter(None, (name, str(attribute)))), part
