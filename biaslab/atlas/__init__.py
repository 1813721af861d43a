"""An atlas of recorded judges: published judgements as numbers, without any texts.

`trials` returns the judgements whose licences allow redistribution, `sources` their origins, and `judges` the judges;
`estimates` returns biaslab's estimates for all of them, including sources that cannot be redistributed; `replications`
compares them with the authors' printed values; `released` dates the judges, and `trend` tests whether a bias declines;
`explorer` shows everything on one page. `add` turns a log into a contribution, which `estimates` can include.

Examples
--------
>>> import biaslab as bl
>>> rows = bl.atlas.trials("mt_bench", judge="gpt-4-0613")
>>> rate = rows.query("dataset == 'mt_bench' and status == 'ok'")["value"].mean()
>>> round(float(rate), 4)
0.4909
"""

from __future__ import annotations

import pandas as pd

from biaslab.atlas.adding import add
from biaslab.atlas.carried import trials
from biaslab.atlas.contributed import Contribution, contributions
from biaslab.atlas.dates import released, trend
from biaslab.atlas.estimates_table import estimates
from biaslab.atlas.explore_page import Explorer, explorer
from biaslab.atlas.replicating import replications
from biaslab.atlas.sources import SOURCES
from biaslab.core.checked import checked

__all__ = [
    "Contribution",
    "Explorer",
    "add",
    "contributions",
    "estimates",
    "explorer",
    "judges",
    "released",
    "replications",
    "sources",
    "trend",
    "trials",
]


def sources() -> pd.DataFrame:
    """Return the sources of the recorded judgements.

    Returns
    -------
    pandas.DataFrame
        One row per source: ``source, title, repository, licence`` (empty if unknown), and ``carried``, whether its
        rows are included here; for the others only biaslab's estimates are.

    Examples
    --------
    >>> found = sources().set_index("source")
    >>> found.loc["null_model", "licence"], bool(found.loc["alpaca_eval", "carried"])
    ('MIT', False)
    """
    names = ("title", "repository", "licence", "carried")
    rows = [{"source": one.name} | {name: getattr(one, name) for name in names} for one in SOURCES]
    rows += [
        {"source": one.source["name"], **{name: one.source.get(name, False) for name in names}}
        for one in contributions()
    ]
    return pd.DataFrame(rows)


@checked
def judges(source: str | None = None) -> pd.DataFrame:
    """Return which judge judged which data, for the recorded judgements included here.

    Parameters
    ----------
    source : str, optional
        By default all sources.

    Returns
    -------
    pandas.DataFrame
        One row per source, data set and judge: ``source, dataset, judge, judgements, contexts``, and ``name``, the
        judge's name for `biaslab.load_judge` and the command line.

    Raises
    ------
    InputError
        If the source is unknown, or its rows are not included here.

    Examples
    --------
    >>> judges("mt_bench").query("judge == 'gpt-4-0613'")["name"].tolist()
    ['atlas:gpt-4-0613@mt_bench', 'atlas:gpt-4-0613@mt_bench?dataset=mt_bench_repetition']
    """
    parts = []
    for name in [one.name for one in SOURCES if one.carried] if source is None else [source]:
        grouped = trials(name).groupby(["dataset", "judge"], sort=False)["context_id"]
        part = grouped.agg(judgements="size", contexts="nunique").reset_index()
        meant = part["dataset"] == name if (part["dataset"] == name).any() else pd.Series(True, part.index)
        part["name"] = "atlas:" + part["judge"] + "@" + name + ("?dataset=" + part["dataset"]).mask(meant, "")
        parts.append(part.assign(source=name))
    columns = ["source", "dataset", "judge", "judgements", "contexts", "name"]
    return pd.concat(parts, ignore_index=True)[columns]
