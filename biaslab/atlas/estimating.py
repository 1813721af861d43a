"""Estimate every probe and audit metric of recorded judgements, separately for each judge and data set."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.atlas.carried import PERPLEXITIES
from biaslab.atlas.estimates_csv import CONDITIONS
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.logs.audit import audit
from biaslab.logs.audit.annotators import audit_humans
from biaslab.logs.audit.run import measures
from biaslab.probes.base import paired, scored
from biaslab.stats import LEADING, TRAILING, Resampling, without_breakdowns

if TYPE_CHECKING:
    from biaslab.atlas.sources import Source

#: The model whose log perplexities are used for familiarity.
READER = "smollm2-135m"
#: Minimum number of contexts: the package's intervals are calibrated for eight contexts or more.
FEWEST_CONTEXTS = 8
_READ = 0.95  # minimum share of judgements with a log perplexity for estimating familiarity
TEXT = ["dataset", "context_id", "candidate_id"]
_COUNTS = ("n_contexts", "n_trials", "n_dropped", "seed")
#: Metrics reported for each subset of a data set, besides agreement with the gold label (`biaslab.audit`).
_OF_SUBSETS = ("first_position_rate", "order_consistency")
_PERSON = r"(?:expert|annotator)-\d+"  # judges that are one of several people
_NEVER_SAID = ("rules",)  # a condition that no log records
_NOT_COMPARED = ("score_share",)  # a distribution, which other metrics summarise
_OF_OTHERS = ("human_alpha", "alpha_gap")  # about the people it is compared with: reported for all


def estimate_source(
    trials: pd.DataFrame,
    source: Source,
    perplexities: pd.DataFrame | None = None,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Estimate everything that the trials of one source allow.

    Parameters
    ----------
    trials : pandas.DataFrame
        As returned by `biaslab.atlas.sources.Source.read` or `biaslab.atlas.trials`.
    source : Source
        Their source.
    perplexities : pandas.DataFrame, optional
        ``dataset, context_id, candidate_id, log_perplexity``, in nats per token, of judged texts; their scores are
        also analysed with `biaslab.probes.Familiarity`.
    resampling : Resampling, optional
        Settings of all estimates.

    Returns
    -------
    pandas.DataFrame
        The estimates frame with ``source``, ``repository`` and ``version`` (of biaslab), by judge and data set, first
        for the whole data set and then for its subsets, one row per cell. Estimates are omitted if they are undefined,
        have no interval (for example slopes given human scores if the judge's scores reach the top of their scale), or
        are based on fewer than `FEWEST_CONTEXTS` contexts.
    """
    draws = resampling or Resampling()
    rows = trials.drop(columns=list(PERPLEXITIES), errors="ignore")
    rows = rows if perplexities is None else _with_perplexities(rows, perplexities)
    rows.attrs = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)  # reported in the table by `n_dropped` and the bounds
        parts = [estimates for _, part in rows.groupby(["judge", "dataset"]) for estimates in _of_judge(part, draws)]
        parts += _of_people(rows, draws)
    whole = pd.concat([part for part in parts if len(part)], ignore_index=True)
    repository = source.repository.removeprefix("github.com/")
    return tidy(whole.assign(source=source.name, repository=repository, version=version("biaslab")))


def _of_judge(trials: pd.DataFrame, resampling: Resampling) -> Iterator[pd.DataFrame]:
    """Yield the audits of one judge on one data set: for the whole, for its subsets, and with perplexities."""
    only = [name for name in measures(resampling) if name != "one_order" or not _in_both_orders(trials)]
    whole = _by_configuration(audit(trials, only=only, resampling=resampling), trials)
    person = whole["judge"].str.fullmatch(_PERSON) & whole["metric"].isin(_OF_OTHERS)
    yield whole[~person]
    pairs = paired(trials)
    subsets = sorted(set(pairs["subset"].fillna("")) - {""})
    for subset in subsets if len(subsets) > 1 else ():
        estimates = without_breakdowns(
            audit(pairs[pairs["subset"] == subset], only=["position"], resampling=resampling)
        )
        yield estimates[estimates["metric"].isin(_OF_SUBSETS)].assign(subset=subset)


def _in_both_orders(trials: pd.DataFrame) -> bool:
    """Return whether a pair was judged in both orders, so that position bias needs no model of quality."""
    pairs = trials[trials["opponent_id"].notna()]
    shown = set(zip(pairs["context_id"], pairs["candidate_id"], pairs["opponent_id"], strict=True))
    return any((context, second, first) in shown for context, first, second in shown)


def _of_people(trials: pd.DataFrame, resampling: Resampling) -> Iterator[pd.DataFrame]:
    """Yield agreement between people whose ratings are judgements of the source."""
    people = trials[trials["judge"].str.fullmatch(_PERSON)]
    for _, part in people.groupby("dataset"):
        sides = part["candidate_id"].str.cat(part["opponent_id"].fillna(""), sep="|")
        yield audit_humans(part.assign(ratings="", candidate_id=sides), resampling)


def _with_perplexities(trials: pd.DataFrame, perplexities: pd.DataFrame) -> pd.DataFrame:
    by_text = perplexities.set_index(TEXT)["log_perplexity"]
    values = by_text.reindex(pd.MultiIndex.from_frame(trials[TEXT])).to_numpy()
    return trials.assign(log_perplexity=values) if np.mean(~np.isnan(values)) >= _READ else trials


def _by_configuration(estimates: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Name the configuration of each estimate, which audits append to the attribute if there are several."""
    names = scored(trials)[["attribute", "configuration"]].drop_duplicates()
    joined = names["attribute"] + " (" + names["configuration"] + ")"
    attribute, configuration = (dict(zip(joined, names[name], strict=True)) for name in names)
    only = names["configuration"].unique().tolist()
    configurations = estimates["attribute"].map(configuration)
    if len(only) == 1 and only != ["recorded"]:  # the only configuration of a judge
        configurations = configurations.fillna(only[0])
    declared = estimates.get("configuration")
    return estimates.assign(
        attribute=estimates["attribute"].map(lambda name: attribute.get(name, name)),
        configuration=configurations if declared is None else configurations.where(configurations.notna(), declared),
        likelihood_judge=np.where(estimates["probe"] == "familiarity", READER, ""),
    )


def tidy(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep estimates that are defined, have an interval and enough contexts, in a fixed order of non-empty columns."""
    rows = estimates.drop(columns=list(_NEVER_SAID), errors="ignore")
    rows = rows[~rows["metric"].isin(_NOT_COMPARED)]
    known = rows[["estimate", "ci_low", "ci_high"]].notna().all(axis=1)
    kept = rows[known & (rows["n_contexts"] >= FEWEST_CONTEXTS)]
    fixed = ("source", *LEADING, *CONDITIONS, *TRAILING, "repository", "version")
    others = sorted(set(kept.columns) - set(fixed))
    if others:
        raise InputError("estimates", others, f"conditions among {', '.join(CONDITIONS)}", "add them to CONDITIONS")
    blank = {name: kept[name].replace("", np.nan) for name in CONDITIONS if name in kept}
    filled = kept.assign(**blank).dropna(axis="columns", how="all")
    counts: Mapping[str, str] = dict.fromkeys(_COUNTS, "int64")
    columns = [name for name in fixed if name in filled]
    return filled[columns].astype(counts).reset_index(drop=True)
