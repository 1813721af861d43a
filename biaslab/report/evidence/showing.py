"""Show judgements as cards, the most informative first."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.report.evidence.cards import Shown
from biaslab.report.evidence.cell_trials import behind, is_estimates
from biaslab.report.evidence.exhibits import exhibit
from biaslab.report.evidence.finding import find
from biaslab.report.evidence.grouping import SORTS, grouped, in_order, single_judgements
from biaslab.report.evidence.people import People

if TYPE_CHECKING:
    from biaslab.core import Design
    from biaslab.datasets import Dataset
    from biaslab.store import Store


def show(
    judgements: pd.DataFrame,
    trials: pd.DataFrame | None = None,
    *,
    store: Store | str | PathLike[str] | None = None,
    n: int = 6,
    sort: str = "flips",
    dataset: Dataset | None = None,
    probe: Design | None = None,
) -> Shown:
    """Show judgements as cards: prompt, reply, parsed value and human scores.

    Parameters
    ----------
    judgements : pandas.DataFrame
        Trials, or rows of estimates.
    trials : pandas.DataFrame, optional
        For rows of estimates: the trials they were computed from. Shows the trials behind these rows.
    store : Store or path, optional
        The store with the prompts and replies. Default: the one named in ``attrs["store"]`` of trials from
        `biaslab.collect`, if it exists.
    n : int
        Maximum number of cards. A card shows both orders of a pair side by side, or the scores of one item.
    sort : {"flips", "ties", "unread", "effects", "trials"}
        What comes first: pairs whose winner changes with the order, ties, replies without a value, the largest effects,
        or the order of the trials. After these come flips, ties, unread replies and the rest, each sorted by effect:
        change of the probability with the order, spread of an item's scores, or distance from the human score.
    dataset : Dataset, optional
        The data that was judged; bundled data sets are found automatically. Used to mark candidates in the prompts.
    probe : Design, optional
        Rebuilds prompts that are in no store; needed if the probe's parameters were not the defaults.

    Returns
    -------
    Shown
        JupyterLab, VS Code and Colab show it with filters, search and sort; ``save`` writes a page, and ``widget``
        selects trials.

    Raises
    ------
    InputError
        If `n` or `sort` is not allowed, or trials are not given.
    TrialsError
        If a frame is empty or lacks a column, or the estimates have no trials.
    StoreError
        If the store is missing or cannot be read.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> probe = bl.probes.Position(attributes=["fluency"], templates=[1])
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, position=2.0), data, progress=False)
    >>> shown = show(trials, n=1)
    >>> shown.exhibits[0].outcome, len(shown.trials), shown.summary
    ('flip', 2, '1 of 30 cards')
    """
    require_whole("n", n, 1)
    require_one_of("sort", sort, SORTS)
    chosen, notes = _trials(judgements, trials)
    rows = single_judgements(chosen)
    groups = grouped(rows)
    cards = in_order(groups, sort)
    kept = cards[:n]
    picked = rows.assign(card=groups["card"], outcome=groups["outcome"], effect=groups["effect"])
    picked = picked.assign(winner=groups["winner"])[groups["card"].isin(kept)]
    place = picked["card"].map({card: place for place, card in enumerate(kept)})
    picked = picked.assign(card=place).sort_values("card", kind="stable")
    evidence = find(
        picked, _store_of(judgements if trials is None else trials) if store is None else store, dataset, probe
    )
    people = People(evidence.dataset)
    parts = picked.groupby("card", sort=False)
    exhibits = tuple(exhibit(part.drop(columns="card"), evidence, people) for _, part in parts)
    return Shown(exhibits, picked.drop(columns="winner"), len(cards), (*notes, *evidence.missing))


def _store_of(trials: pd.DataFrame) -> Path | None:
    """Return the store named in the trials, if it exists."""
    named = trials.attrs.get("store")
    return Path(named) if named is not None and Path(named).exists() else None


def _trials(judgements: pd.DataFrame, trials: pd.DataFrame | None) -> tuple[pd.DataFrame, list[str]]:
    """Return the trials to show: the ones given, or those behind the estimates."""
    for name, frame in (("judgements", judgements), ("trials", trials)):
        if not isinstance(frame, pd.DataFrame) and not (name == "trials" and frame is None):
            remedy = "use estimates.iloc[[3]] for a frame of one row" if isinstance(frame, pd.Series) else ""
            raise InputError(name, type(frame).__name__, "a frame of trials or estimates", remedy)
    if not is_estimates(judgements):
        return judgements, []
    if trials is None:
        allowed = "the trials that the estimates were computed from"
        raise TrialsError("trials", None, allowed, "write show(estimates.iloc[[0]], trials=trials)")
    return behind(judgements, trials)
