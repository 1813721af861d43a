"""An atlas of recorded judges: published judgements as numbers, without any texts.

`trials` returns the judgements whose licences allow redistribution, `sources` their origin, and `judges` who made them.
`estimates` returns biaslab's estimates for all sources, including those that cannot be redistributed; `replications`
compares them with the numbers that authors printed, and `replication_page` shows how both of a pair are computed.
`released` dates the judges, `trend` tests whether a bias has fallen, `draw_trend` plots it, and `explorer` shows
everything on one page. `add` turns a log into a contribution, which `estimates` reads too; `check` recomputes its
estimates.

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

from biaslab.atlas.contribution import add, check
from biaslab.atlas.estimates_table import Contribution, contributions, estimates
from biaslab.atlas.explorer_page import Explorer, explorer
from biaslab.atlas.judgements import names, trials
from biaslab.atlas.release_trend import draw_trend, released, trend
from biaslab.atlas.replication import ReplicationPage, replication_page, replications
from biaslab.atlas.sources import SOURCES

__all__ = [
    "Contribution",
    "Explorer",
    "ReplicationPage",
    "add",
    "check",
    "contributions",
    "draw_trend",
    "estimates",
    "explorer",
    "judges",
    "released",
    "replication_page",
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
        One row per source: ``source, title, repository, licence`` (empty if unknown), and ``carried`` (whether its
        rows are included; otherwise only biaslab's estimates are).

    Examples
    --------
    >>> found = sources().set_index("source")
    >>> found.loc["null_model", "licence"], bool(found.loc["alpaca_eval", "carried"])
    ('MIT', False)
    """
    names = ("title", "repository", "licence", "carried")
    rows = [{"source": one.name} | {name: getattr(one, name) for name in names} for one in SOURCES]
    added = [one.source for one in contributions()]
    rows += [{"source": one["name"], **{name: one.get(name, False) for name in names}} for one in added]
    return pd.DataFrame(rows)


def judges(source: str | None = None) -> pd.DataFrame:
    """List the judges of the included judgements, with the data they judged.

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
        If the source is unknown, or its rows are not included.

    Examples
    --------
    >>> judges("mt_bench").query("judge == 'gpt-4-0613'")["name"].tolist()
    ['atlas:gpt-4-0613@mt_bench', 'atlas:gpt-4-0613@mt_bench?dataset=mt_bench_repetition']
    """
    parts = []
    for name in [one.name for one in SOURCES if one.carried] if source is None else [source]:
        grouped = trials(name).groupby(["dataset", "judge"], sort=False)["context_id"]
        part = grouped.agg(judgements="size", contexts="nunique").reset_index()
        pairs = zip(part["dataset"], part["judge"], strict=True)
        part["name"] = [names()[name, dataset, judge] for dataset, judge in pairs]
        parts.append(part.assign(source=name))
    columns = ["source", "dataset", "judge", "judgements", "contexts", "name"]
    return pd.concat(parts, ignore_index=True)[columns]


def __dir__() -> list[str]:
    return __all__
