"""Replication: published numbers next to biaslab's estimates from the same judgements.

*Their replies, our estimator, their number.* Printed numbers are in `biaslab.published`, our estimates in
`biaslab.atlas.estimates`; this module matches them, and `replication_rules` says which are comparable.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from biaslab.atlas import published
from biaslab.atlas.estimates_table import estimates
from biaslab.atlas.replication_rules import COMPUTED, converted, outcome
from biaslab.core.errors import TrialsError

_ROUNDED = 5e-6  # precision of the table of estimates
_UNITS = {"percent": 0.01}  # printed unit → factor to that of our estimates
_NAMED = re.compile(r"(\w+)=([^|]+?)(?: \||$)")  # conditions in the label of a row
_PARTS = ("subset", "system", "human_gap")  # conditions that are empty for an estimate of the whole data set
#: Printed metric → conditions of the matching estimate, in addition to those named in the row.
_OURS: dict[tuple[str, str], dict[str, str]] = {
    ("stureborg2024", "krippendorff_alpha"): {
        "probe": "humans", "metric": "human_alpha", "level": "interval", "judge": "humans",
    },
    ("zeng2024", "comparative_accuracy"): {"probe": "subsets"},
    ("zeng2024", "accuracy_both_orders"): {"probe": "subsets"},
    ("zeng2024", "order_consistency"): {"probe": "position"},
    ("shi2024", "order_consistency"): {"probe": "position"},
    ("panickssery2024", "own_win_rate"): {"probe": "self_preference"},
    ("wang2024", "comparative_accuracy"): {"probe": "replies"},
    ("wang2024", "human_alpha"): {"probe": "humans", "level": "nominal"},
    ("zheng2024", "win_rate"): {"probe": "replies", "system": "null_model"},
    ("dubois2024", "win_rate"): {"probe": "replies", "system": "text_davinci_001"},
}  # fmt: skip
_COUNTS = ("n_contexts", "n_trials", "n_dropped")
_SHOWN = [
    *("paper", "table", "row", "column", "source", "probe", "metric", "judge", "dataset", "attribute", "template"),
    *("subset", "printed", "theirs", "estimate", "ci_low", "ci_high", "ci_level", "n_contexts", "n_trials"),
    *("n_dropped", "equal", "outcome", "why", "converted", "theirs_is", "ours_is"),
]


def replications() -> pd.DataFrame:
    """Compare every printed number whose replies are in the atlas with biaslab's estimate.

    Returns
    -------
    pandas.DataFrame
        One row per printed number: ``paper, table, row, column``, its location (see `biaslab.published`);
        ``source, probe, metric, judge, dataset, attribute, template, subset`` of our estimate; ``printed``, the number
        as printed; ``theirs``, the same in our unit;
        ``estimate, ci_low, ci_high, ci_level, n_contexts, n_trials, n_dropped``, ours; ``equal``, whether they agree
        in all printed digits, or in the six that we keep; ``outcome``, *equal*, *different*, or *not comparable* if
        the two are not the same quantity (another coefficient, denominator or text, or other data), even if they
        agree; ``why`` it is not equal; ``converted``, theirs converted to our definition, if the counts allow it;
        ``theirs_is, ours_is``, how each is computed.

    Raises
    ------
    TrialsError
        If a number matches several estimates, or no number of a paper and metric matches any.

    Examples
    --------
    >>> found = replications()
    >>> found.loc[found["paper"] == "zheng2024", ["printed", "estimate", "equal"]].values.tolist()
    [['76.91979180386511', 0.769198, True]]
    >>> found["outcome"].value_counts().to_dict()
    {'equal': 698, 'not comparable': 271, 'different': 2}
    """
    printed, ours = published.load(), estimates()
    included = printed["judge"].isin([*ours["judge"].unique(), "Human experts"]) & ~printed["attribute"].str.contains(
        " "
    )
    parts = [
        _beside(printed[included & (printed["paper"] == paper) & (printed["metric"] == metric)], ours, conditions)
        for (paper, metric), conditions in _OURS.items()
    ]
    rows = pd.concat(parts, ignore_index=True).astype(dict.fromkeys(_COUNTS, "Int64"))
    records = rows.to_dict("records")
    outcomes, reasons = zip(*map(outcome, records), strict=True)
    computed = [COMPUTED[row["paper"], row["metric"]] for row in records]
    theirs, ours_is = zip(*computed, strict=True)
    rows = rows.assign(outcome=outcomes, why=reasons, theirs_is=theirs, ours_is=ours_is)
    return rows.assign(converted=[converted(row) for row in records])[_SHOWN]


def _beside(rows: pd.DataFrame, ours: pd.DataFrame, conditions: dict[str, str]) -> pd.DataFrame:
    """Join printed numbers of one paper and metric with the estimates that have the same conditions."""
    named = pd.DataFrame([dict(_NAMED.findall(row)) for row in rows["row"]], index=rows.index)
    columns = ["metric", "judge", "dataset", *(["attribute"] if rows["attribute"].ne("").all() else [])]
    keys = rows[columns].assign(**{str(name): column for name, column in named.items()}).assign(**conditions)
    whole = ours[[name for name in _PARTS if name not in keys]].isna().all(axis=1)
    joined = keys.merge(ours[whole], on=list(keys), how="left", suffixes=("", " "))
    if len(joined) != len(rows) or joined["estimate"].isna().all():
        where = f"{rows['paper'].iloc[0]}, {rows['metric'].iloc[0]}: {len(rows)} numbers, {len(joined)} estimates"
        raise TrialsError("estimates", where, "one estimate per printed number", "rebuild the atlas's estimates")
    place = rows[["paper", "table", "row", "column", "printed"]].reset_index(drop=True)
    unit = np.array([_UNITS.get(name, 1.0) for name in rows["unit"]])
    digits = np.array([len(text.partition(".")[2]) for text in place["printed"]])
    theirs = rows["value"].to_numpy(float) * unit
    close = np.maximum(0.5 * unit * 10.0**-digits, _ROUNDED) * (1 + 1e-9)
    equal = np.abs(joined["estimate"].to_numpy(float) - theirs) <= close
    return pd.concat([place, joined], axis=1).assign(theirs=theirs, equal=equal)
