"""The estimates that the atlas carries: what every probe and audit can tell of every recorded judge.

Rows that may not be carried are read here too: estimates of them are ours. Each judge is estimated by itself on each
data set, with the default resampling, so that a folder of the same files gives the same table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.atlas.sources import Source
from biaslab.audit import audit
from biaslab.audit.annotators import audit_humans
from biaslab.errors import InputError, MissingDataWarning
from biaslab.probes.base import paired, rated
from biaslab.stats import LEADING, TRAILING, Resampling

#: Contexts below which nothing is told: the package's intervals are calibrated from eight contexts on.
FEWEST_CONTEXTS = 8
_DIGITS = 6
_COUNTS = ("n_contexts", "n_trials", "n_dropped", "seed")
#: Conditions in the order in which they stand between metric and estimate.
_CONDITIONS = (
    "attribute", "other", "template", "configuration", "form", "order", "scale", "answer", "subset", "system",
    "scorer", "level", "coefficient", "human_gap", "score", "likelihood_judge",
)  # fmt: skip
#: What is said of each subset of a data set by itself, beside agreement with the gold label (`biaslab.audit`).
_OF_SUBSETS = ("first_position_rate", "order_consistency")
_PERSON = r"(?:expert|annotator)-\d+"  # a judge who is a person, one of several
_NEVER_SAID = ("rules",)  # a condition that no log tells
_OF_OTHERS = ("human_alpha", "alpha_gap")  # of the people that a person is compared with: told of all of them instead


def make_estimates(
    folder: str | Path,
    sources: Sequence[Source],
    perplexities: pd.DataFrame | None = None,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Read the raw files of some sources and estimate all that their judgements tell.

    Parameters
    ----------
    folder : str or Path
        Of raw files, as `biaslab.atlas.sources` has them.
    sources : sequence of Source
        Which ones.
    perplexities : pandas.DataFrame, optional
        ``dataset, context_id, candidate_id, log_perplexity``, nats a token, of texts that were judged: scores of these
        are told apart by familiarity too.
    resampling : Resampling, optional
        Of all estimates.

    Returns
    -------
    pandas.DataFrame
        The estimates frame with ``source``, ``repository`` and ``version`` (of biaslab), in the order of the sources,
        judges and probes. Undefined estimates, and those of fewer than `FEWEST_CONTEXTS` contexts, are left out.

    Raises
    ------
    InputError
        If nothing of these sources lies in the folder.
    """
    parts = [estimate_source(source.read(folder), source, perplexities, resampling) for source in sources]
    if not parts:
        raise InputError("sources", [], "at least one source")
    return _tidy(pd.concat(parts, ignore_index=True))


def estimate_source(
    trials: pd.DataFrame,
    source: Source,
    perplexities: pd.DataFrame | None = None,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Estimate all that the trials of one source tell, as `make_estimates` does.

    Parameters
    ----------
    trials : pandas.DataFrame
        As `Source.read` returns them.
    source : Source
        Where they are from.
    perplexities, resampling : optional
        As in `make_estimates`.
    """
    drawn = resampling or Resampling()
    given = trials if perplexities is None else _with_perplexities(trials, perplexities)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)  # `n_dropped` and the bounds say it in the table
        parts = [found for _, part in given.groupby(["judge", "dataset"]) for found in _of_judge(part, drawn)]
        parts += _of_annotators(given, drawn)
    whole = pd.concat([part for part in parts if len(part)], ignore_index=True)
    about = {"source": source.name, "repository": source.repository, "version": version("biaslab")}
    return _tidy(whole.assign(**about))


def save_estimates(estimates: pd.DataFrame, file: str | Path) -> Path:
    """Write estimates as the CSV file that `biaslab.atlas.estimates` reads, with six significant digits."""
    path = Path(file)
    estimates.to_csv(path, index=False, float_format=f"%.{_DIGITS}g", lineterminator="\n")
    return path


def _of_judge(trials: pd.DataFrame, resampling: Resampling) -> Iterator[pd.DataFrame]:
    """Yield what audits tell of one judge on one data set: of all of it, of its subsets, and with perplexities."""
    known = trials.drop(columns="log_perplexity", errors="ignore")
    whole = _by_configuration(audit(known, resampling=resampling), trials)
    person = whole["judge"].str.fullmatch(_PERSON) & whole["metric"].isin(_OF_OTHERS)
    yield whole[~person]
    pairs = paired(known)
    subsets = sorted(set(pairs["subset"].fillna("")) - {""})
    for subset in subsets if len(subsets) > 1 else ():
        found = audit(pairs[pairs["subset"] == subset], only=["position"], resampling=resampling)
        yield found[found["metric"].isin(_OF_SUBSETS) & found["human_gap"].isna()].assign(subset=subset)
    if "log_perplexity" in trials:
        scores = rated(trials)
        scores = scores[scores["log_perplexity"].notna()]
        for configuration, part in scores.groupby("configuration", sort=False):
            own = part.assign(probe="familiarity", asked="score")
            found = audit(own, only=["familiarity"], resampling=resampling)
            yield found.assign(configuration=str(configuration))


def _of_annotators(trials: pd.DataFrame, resampling: Resampling) -> Iterator[pd.DataFrame]:
    """Yield how far people agree whose ratings are judgements of the source."""
    people = trials[trials["judge"].str.fullmatch(_PERSON)]
    for _, part in people.groupby("dataset"):
        sides = part["candidate_id"].str.cat(part["opponent_id"].fillna(""), sep="|")
        yield audit_humans(part.assign(ratings="", candidate_id=sides), resampling)


def _with_perplexities(trials: pd.DataFrame, perplexities: pd.DataFrame) -> pd.DataFrame:
    keys = ["dataset", "context_id", "candidate_id"]
    known = perplexities.drop_duplicates(keys).set_index(keys)["log_perplexity"]
    found = known.reindex(pd.MultiIndex.from_frame(trials[keys])).to_numpy()
    return trials if np.isnan(found).all() else trials.assign(log_perplexity=found)


def _by_configuration(estimates: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Undo the names "attribute (configuration)" under which audits estimate configurations side by side."""
    names = trials[["attribute", "configuration"]].drop_duplicates()
    joined = names["attribute"] + " (" + names["configuration"] + ")"
    attribute, configuration = (dict(zip(joined, names[name], strict=True)) for name in names)
    known = estimates.get("configuration")
    named = estimates["attribute"].map(configuration)
    return estimates.assign(
        attribute=estimates["attribute"].map(lambda name: attribute.get(name, name)),
        configuration=named if known is None else named.where(named.notna(), known),
    )


def _tidy(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep what is defined and rests on enough contexts, in a fixed order of columns, without empty ones."""
    told = estimates.drop(columns=list(_NEVER_SAID), errors="ignore")
    kept = told[told["estimate"].notna() & (told["n_contexts"] >= FEWEST_CONTEXTS)]
    fixed = ("source", *LEADING, *_CONDITIONS, *TRAILING, "repository", "version")
    others = sorted(set(kept.columns) - set(fixed))
    if others:
        raise InputError("estimates", others, f"conditions among {', '.join(_CONDITIONS)}", "add them to _CONDITIONS")
    filled = [name for name in fixed if name in kept and kept[name].replace("", None).notna().any()]
    counts: Mapping[str, str] = dict.fromkeys(_COUNTS, "int64")
    return kept[filled].astype(counts).reset_index(drop=True)
