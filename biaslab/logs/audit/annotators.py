"""Measure the agreement between human annotators; needs no judge."""

from __future__ import annotations

from typing import Any, get_args

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.stats import ITEM, Measurement, Resampling, estimate_alpha, estimate_rows, estimates_frame

_CELL = ("dataset", "attribute")


def audit_humans(trials: pd.DataFrame, resampling: Resampling | None = None) -> pd.DataFrame:
    """Estimate Krippendorff's alpha between the annotators of a table of human ratings.

    Parameters
    ----------
    trials : pandas.DataFrame
        From `biaslab.read_judgements`: either all ratings of an item in one row (``ratings``), or one rating per row
        with the annotator as ``judge``.
    resampling : Resampling, optional
        Confidence level and resampling of the estimates.

    Returns
    -------
    pandas.DataFrame
        The estimates frame: ``human_alpha`` by data set, attribute and ``level`` (interval, ordinal, nominal).
        ``n_trials`` counts ratings, ``n_dropped`` those that could not be read.

    Raises
    ------
    InputError
        If there are fewer than two annotators.

    Examples
    --------
    >>> from biaslab.logs.readers.log_columns import trials_of
    >>> items = {"context_id": [*"abcdefgh"], "candidate_id": "x", "ratings": ["1 2", "2 2", "4 5", "5 5"] * 2}
    >>> index = pd.RangeIndex(8)
    >>> given = {name: pd.Series(values, index=index) for name, values in items.items()}
    >>> estimates = audit_humans(trials_of(given, index))
    >>> round(float(estimates.set_index("level").loc["interval", "estimate"]), 3)
    0.904
    """
    drawn = resampling or Resampling()
    scores = _of_lists(trials) if trials["ratings"].fillna("").ne("").any() else _of_rows(trials)
    if scores["annotator"].nunique() < 2:
        raise InputError("annotators", scores["annotator"].unique().tolist(), "ratings by at least two people",
                         "map ratings=FIELD,FIELD,… or, with one rating per row, judge=FIELD")  # fmt: skip
    rows: list[dict[str, Any]] = []
    for names, cell in scores.groupby(list(_CELL), sort=False):
        where = dict(zip(_CELL, names, strict=True)) | {"judge": "humans"}
        known = cell.dropna(subset="score").drop_duplicates([*ITEM, "annotator"])
        for level in get_args(Measurement):
            alpha = estimate_alpha(known[[*ITEM, "annotator", "score"]], drawn, level, ["candidate_id"])
            at = where | {"level": level}
            rows += estimate_rows({"human_alpha": alpha}, at, drawn, len(known), len(cell) - len(known))
    return estimates_frame(rows, "humans", (), ("attribute", "level"))


def _of_lists(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rating of items with all ratings in one row; unnamed annotators are numbered by position."""
    items = trials[trials["ratings"].fillna("").ne("")].drop_duplicates([*_CELL, *ITEM])
    annotators = items["annotators"].where(items["annotators"] != "", items["ratings"].map(_places))
    parts = items[[*_CELL, *ITEM]].assign(score=items["ratings"].str.split(), annotator=annotators.str.split())
    rated = parts.explode(["score", "annotator"])
    return rated.assign(score=rated["score"].astype(float))


def _places(ratings: str) -> str:
    return " ".join(map(str, range(len(ratings.split()))))


def _of_rows(trials: pd.DataFrame) -> pd.DataFrame:
    return trials[[*_CELL, *ITEM]].assign(score=trials["value"], annotator=trials["judge"])
