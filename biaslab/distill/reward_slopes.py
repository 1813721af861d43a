"""What a reward pays for: its slopes on the length and the familiarity of texts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.stats import Resampling, estimate_rows, estimates_frame, require_columns
from biaslab.stats.regression import linear_model


def reward_slopes(
    texts: pd.DataFrame, *, study: str = "reward", resampling: Resampling | None = None, **cell: str
) -> pd.DataFrame:
    """Regress the reward on length and log perplexity, both at once, among texts of the same source.

    Parameters
    ----------
    texts : pandas.DataFrame
        One row per text with ``context_id``, ``reward``, ``words`` (above 0) and ``log_perplexity`` (nats per token).
    study : str
        Value of the column ``probe``.
    resampling : Resampling, optional
        Settings of the estimates.
    **cell
        Constant columns, such as ``judge`` and ``dataset``.

    Returns
    -------
    pandas.DataFrame
        An estimates frame with ``reward_per_doubling_of_words`` and ``reward_per_nat``, null 0, clustered by source.

    Raises
    ------
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> texts = pd.DataFrame({"context_id": list("aaabbb"), "words": [4.0, 8, 16] * 2})
    >>> texts["log_perplexity"] = [3.0, 2.0, 4.0, 2.5, 3.5, 3.0]
    >>> texts["reward"] = 0.1 * np.log2(texts["words"]) - 0.2 * texts["log_perplexity"]
    >>> reward_slopes(texts)["estimate"].round(2).tolist()
    [0.1, -0.2]
    """
    require_columns(texts, ["context_id", "reward", "words", "log_perplexity"], "texts")
    how = resampling or Resampling()
    frame = texts.assign(doublings=np.log2(texts["words"]))
    slopes = linear_model(frame, "reward ~ doublings + log_perplexity", within=True)
    metrics = {"reward_per_doubling_of_words": slopes["doublings"], "reward_per_nat": slopes["log_perplexity"]}
    return estimates_frame(estimate_rows(metrics, cell, how, len(frame), 0), study, list(metrics), list(cell))
