"""Choose the best of several texts by one evaluator or a weighted sum (Wang et al. 2023, Eqs. 5, 6).

Weights are found by exact line searches between evaluators, as in MERT (Och 2003).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Judge
from biaslab.core.output import AnyPath
from biaslab.core.schema import Dataset
from biaslab.distill.annotation import Reward
from biaslab.measures.scoring.scorers import SCORES, scores
from biaslab.stats.blocks import ITEM
from biaslab.stats.frame import require_columns
from biaslab.store import Store
from biaslab.study.collect import collect

ScoreSources = Judge | pd.DataFrame | Mapping[str, "Judge | pd.DataFrame"]
_STARTS, _LINES, _ROUNDS = 16, 4, 20  # random starts and lines per evaluator; maximum number of rounds per start


def rerank(
    candidates: Dataset,
    judges: ScoreSources,
    weights: Mapping[str, float] | None = None,
    *,
    attributes: Sequence[str] = ("",),
    reference: bool = False,
    store: Store | AnyPath | None = None,
    progress: bool = True,
) -> Dataset:
    """Keep the best candidate of each context: the one with the highest weighted sum of scores.

    Parameters
    ----------
    candidates : Dataset
        Several candidates per context, such as those of `collect_samples`.
    judges : Judge, pandas.DataFrame or mapping
        A judge that answers `Score` requests, a scores frame of any scorer (`biaslab.scoring.scores`), or several of
        them by name.
    weights : mapping of str to float, optional
        Weights by name, as returned by `tune_weights`; by default 1. A judge asked about several attributes, or a
        frame with several, gives one score per attribute, named after it (with other judges present,
        ``"name: attribute"``).
    attributes : sequence of str
        Attributes to ask judges about; by default overall quality.
    reference : bool
        Show judges the reference, for evaluators trained with it.
    store : Store or path, optional
        Store of their replies.
    progress : bool
        Show progress bars.

    Returns
    -------
    Dataset
        One candidate per context, unchanged, with its human scores; in a tie the first.

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
    weight_of = dict.fromkeys(names, 1.0) if weights is None else dict(weights)
    if set(weight_of) != set(names) or not all(math.isfinite(w) for w in weight_of.values()):
        raise InputError("weights", weight_of, f"a finite number for each of {', '.join(names)}")
    total = table.to_numpy() @ np.array([weight_of[name] for name in names])
    first = pd.Series(total).groupby(table.index.get_level_values("context_id"), sort=False).idxmax().sort_values()
    kept = candidates.candidates.iloc[first]
    human = candidates.human.merge(kept[list(ITEM)], on=list(ITEM))
    formula = " + ".join(f"{weight_of[name]:.3g} × {name or 'score'}" for name in names)
    facts = f"{candidates.provenance} Of each context the candidate with the greatest {formula}.".strip()
    about = (candidates.attributes, candidates.scale, candidates.noun, facts)
    return Dataset(f"{candidates.name}, reranked", kept, human, *about)


def evaluate(
    candidates: Dataset,
    judges: ScoreSources,
    *,
    attributes: Sequence[str] = ("",),
    reference: bool = False,
    store: Store | AnyPath | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Return every candidate's scores, one column per evaluator and attribute.

    Parameters
    ----------
    candidates, judges, attributes, reference, store, progress
        As in `rerank`.

    Returns
    -------
    pandas.DataFrame, shape (candidates, scores)
        Index ``(context_id, candidate_id)``, in the order of the candidates.

    Raises
    ------
    InputError
        If a candidate has no score.
    """
    named = judges if isinstance(judges, Mapping) else {"": judges}
    if not named:
        raise InputError.plain("judges is empty, expected: at least one judge or scores frame")
    index = pd.MultiIndex.from_frame(candidates.candidates[list(ITEM)])
    columns: dict[str, Floats] = {}
    for name, judge in named.items():
        if not isinstance(judge, pd.DataFrame):
            judge = scores(collect(Reward(attributes, reference), judge, candidates, store, progress))
        for label, frame in _parts(judge, name):
            values = frame.set_index(list(ITEM))["score"].reindex(index).to_numpy(float)
            if np.isnan(values).any():
                where = ", ".join(map(str, index[int(np.isnan(values).argmax())]))
                problem = f"no score of {where} by {label or 'the judge'}"
                raise InputError.plain(f"there is {problem}; every candidate needs one")
            columns[label] = values
    return pd.DataFrame(columns, index=index)


def tune_weights(
    candidates: Dataset,
    judges: ScoreSources,
    objective: Judge | pd.DataFrame,
    *,
    attributes: Sequence[str] = ("",),
    reference: bool = False,
    seed: int = 0,
    store: Store | AnyPath | None = None,
    progress: bool = True,
) -> pd.Series:
    """Tune weights so that the chosen texts score best on another measure, on validation contexts.

    Parameters
    ----------
    candidates : Dataset
        Contexts not used for anything else.
    judges, attributes, reference, store, progress
        As in `rerank`; at least two scores.
    objective : Judge or pandas.DataFrame
        What to maximise: the scores frame of a reference-based metric, one score per candidate, or an evaluator that
        sees the reference, asked about overall quality.
    seed : int
        Random seed of the search.

    Returns
    -------
    pandas.Series
        Non-negative weights by name, summing to 1. ``attrs["objective"]`` is the mean objective of the texts they
        choose, ``attrs["equal"]`` that with equal weights.

    Raises
    ------
    InputError
        If there are fewer than two scores, or a candidate lacks one.

    Notes
    -----
    Like the paper's MERT (Och 2003), it searches lines exactly, because the objective is piecewise constant in the
    weights, and gradient or simplex methods get stuck on its plateaus. Lines run from the current weights to each
    evaluator alone or to random weights, from several starts, within the non-negative weights. With two scores the
    result is exact; with more it may miss the best plateau. Ties are broken in favour of equal weights, then of a
    single evaluator.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> scored = {name: bl.scoring.reference_scores(data, [name], ["relevance"], "source") for name in ("BLEU", "chrF")}
    >>> weights = tune_weights(data, scored, bl.scoring.reference_scores(data, ["ROUGE-1"], ["relevance"]))
    >>> bool(weights.attrs["objective"] >= weights.attrs["equal"])
    True
    """
    table = evaluate(candidates, judges, attributes=attributes, reference=reference, store=store, progress=progress)
    if table.shape[1] < 2:
        raise InputError.plain("judges give only one score, so there is nothing to weight")
    if not isinstance(objective, pd.DataFrame):
        objective = scores(collect(Reward(reference=True), objective, candidates, store, progress))
    goal = evaluate(candidates, objective, progress=progress)
    if goal.shape[1] != 1:
        raise InputError.plain(f"objective has several scores ({', '.join(map(str, goal))}); choose an attribute")
    values, goals = _blocks(table, goal.iloc[:, 0].to_numpy(float))
    weights, reached = search_weights(values, goals, seed)
    tuned = pd.Series(weights, index=table.columns, name="weight")
    tuned.attrs = {"objective": reached, "equal": mean_goal(values, goals, np.ones(table.shape[1]))}
    return tuned


def _blocks(table: pd.DataFrame, aims: Floats) -> tuple[Floats, Floats]:
    """Return scores, shape (contexts, candidates, scores), and aims, shape (contexts, candidates)."""
    blocks = list(table.groupby(level="context_id", sort=False).indices.values())
    # smaller contexts are padded with copies of their first candidate, which still wins ties
    longest = max(map(len, blocks))
    rows = np.array([[*block, *[block[0]] * (longest - len(block))] for block in blocks])
    return table.to_numpy()[rows], aims[rows]


def _parts(frame: pd.DataFrame, name: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split a scores frame by attribute; name each part."""
    require_columns(frame, SCORES, "judges")
    scorers = frame[["scorer", "judge"]].drop_duplicates()
    if len(scorers) > 1:
        raise InputError.plain(f"a frame of judges has {len(scorers)} scorers; pass one frame each, by name")
    groups = frame.groupby("attribute", sort=False)
    for attribute, group in groups:
        yield name if len(groups) == 1 else ": ".join(filter(None, (name, str(attribute)))), group


def mean_goal(values: Floats, goals: Floats, weights: Floats) -> float:
    """Return the mean goal of the candidates that weights choose; in a tie the first.

    Parameters
    ----------
    values : numpy.ndarray, shape (contexts, candidates, evaluators)
        Scores.
    goals : numpy.ndarray, shape (contexts, candidates)
        The quantity to maximise.
    weights : numpy.ndarray, shape (evaluators,)
    """
    best = np.argmax(values @ weights, axis=1)
    return float(np.take_along_axis(goals, best[:, None], axis=1).mean())


def search_weights(values: Floats, goals: Floats, seed: int = 0) -> tuple[Floats, float]:
    """Return the non-negative weights (sum 1) with the highest mean goal found, and that mean.

    Starts are equal weights, each evaluator alone, and random weights. From each, lines towards single evaluators and
    random weights are searched exactly until there is no improvement. With two evaluators the first line is the whole
    space, and the result exact.

    Parameters
    ----------
    values, goals
        As in `mean_goal`.
    seed : int
        Random seed of the starts and lines.
    """
    size, rng = values.shape[-1], np.random.default_rng(seed)
    alone = np.eye(size)
    starts = np.vstack([np.full(size, 1 / size), alone, rng.dirichlet(np.ones(size), _STARTS * size)])
    reached = [mean_goal(values, goals, start) for start in starts]
    best, most = starts[int(np.argmax(reached))], max(reached)
    for weights, goal in zip(starts, reached, strict=True):
        for _ in range(_ROUNDS):
            towards = [*alone, *rng.dirichlet(np.ones(size), _LINES * size)]
            tried = [_best_on_line(values, goals, weights, other - weights) for other in towards]
            gained = [mean_goal(values, goals, point) for point in tried]
            if max(gained) <= goal:
                break
            weights, goal = tried[int(np.argmax(gained))], max(gained)
        if goal > most:
            best, most = weights, goal
    return best, most


def _best_on_line(values: Floats, goals: Floats, weights: Floats, direction: Floats) -> Floats:
    """Return the best weights on a line: the middle of the best piece, the widest if there are several.

    Along the line each candidate's sum is linear, so the maximum changes only at the vertices of their upper envelope.
    All envelopes are walked at once, which gives the mean goal between all vertices.
    """
    if np.allclose(direction, 0):
        return weights
    ratios = -weights / np.where(direction == 0, np.nan, direction)
    low, high = float(np.nanmax(ratios[direction > 0])), float(np.nanmin(ratios[direction < 0]))
    levels, slopes = values @ (weights + low * direction), values @ direction
    contexts = np.arange(len(values))
    chosen = np.lexsort((-slopes, -levels), axis=1)[:, 0]  # at the start of the line the highest, then the steepest
    places, changes = [0.0], [float(goals[contexts, chosen].sum())]
    while True:
        rise = slopes - slopes[contexts, chosen][:, None]
        behind = levels[contexts, chosen][:, None] - levels
        corners = np.where(rise > 0, behind / np.where(rise > 0, rise, 1.0), np.inf)
        nearest = corners.min(axis=1)
        going = nearest < high - low
        if not going.any():
            break
        steepest = np.where(corners <= nearest[:, None], slopes, -np.inf).argmax(axis=1)
        places += nearest[going].tolist()
        changes += (goals[contexts, steepest] - goals[contexts, chosen])[going].tolist()
        chosen = np.where(going, steepest, chosen)
    order = np.argsort(places, kind="stable")
    edges = np.append(np.array(places)[order], high - low)
    sums, widths = np.cumsum(np.array(changes)[order]), np.diff(edges)
    sums = np.where(widths > 1e-12, sums, -np.inf)
    piece = int(np.argmax(np.where(sums >= sums.max() - 1e-9, widths, -np.inf)))
    middle = low + float(edges[piece : piece + 2].mean())
    best: Floats = np.clip(weights + middle * direction, 0.0, None)
    return best / float(best.sum())
