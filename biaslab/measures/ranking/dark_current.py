"""The content-free prior: what a judge says of two candidates that are the same, taken out of the rest it says."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.measures.ranking.debiasing import Reweighting
from biaslab.measures.ranking.order_odds import is_counted, log_odds
from biaslab.stats import Estimate, Ratio, Resampling, logistic_model, usable

_MOST = 30.0  # logits
_ONE = ("judge", "attribute", "template", "nothing")


@checked
def dark_log_odds(trials: pd.DataFrame, resampling: Resampling | None = None) -> Estimate:
    """Return the log odds of the first where both candidates are the same, so that only their places differ.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of one judge, attribute and prompt whose candidates do not differ: see `biaslab.probes.Vacuum`.
    resampling : Resampling, optional
        Of the interval.

    Returns
    -------
    Estimate
        The mean of exact log odds; of verdicts, or shares of samples, the log odds of their mean. Ties count ½.
    """
    read, drawn = usable(trials), resampling or Resampling()
    p = read["value"].to_numpy(float)
    if is_counted(read):
        verdicts = pd.DataFrame({"context_id": read["context_id"], "won": p, "first": 1.0})
        return logistic_model(verdicts, "won", ["first"], drawn)["first"]
    missing = "undefined: no pair of the same was judged"
    return Ratio(read["context_id"], log_odds(p), np.ones(len(p)), 0.0, missing=missing, inference="t").estimate(drawn)


@checked
def content_free(trials: pd.DataFrame) -> Reweighting:
    """Fit the content-free prior: α takes out what the judge says of two candidates that are the same.

    Unlike the other remedies it is not fitted on comparisons that anybody wants judged, and needs neither balance nor
    both orders of a pair.

    Parameters
    ----------
    trials : pandas.DataFrame
        As for `dark_log_odds`; of `biaslab.probes.Vacuum` the pairs of one kind of nothing, such as "identical".

    Raises
    ------
    InputError
        If the trials are of several judges, attributes, prompts or kinds of nothing, or no prior is finite.

    References
    ----------
    Zhao et al. 2021, *Calibrate before use*, ICML, who average probabilities of content-free inputs where this averages
    log odds, so that a constant bias in logits is taken out whole.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = bl.probes.Vacuum(["coherence"], nothing=["identical"], asks=["pairs"])
    >>> remedy = content_free(bl.collect(probe, bl.SimulatedJudge(data, position=0.8), data, progress=False))
    >>> round(remedy.log_alpha, 6)
    -0.8
    """
    shown = trials[trials["opponent_id"].notna()] if "opponent_id" in trials else trials
    for name in _ONE:
        if name in shown and len(several := shown[name].dropna().unique()) > 1:
            raise InputError(name, ", ".join(map(str, several)), "one of them", "choose the rows of one")
    found = dark_log_odds(shown)
    if math.isnan(found.estimate):
        raise InputError("trials", found.note, "pairs of the same with verdicts of both kinds", "ask more of them")
    return Reweighting(float(np.clip(-found.estimate, -_MOST, _MOST)))
