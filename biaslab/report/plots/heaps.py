"""Plot how often each score is given, highlighting multiples of 10 and of 5 (Stureborg et al. 2024, Fig. 3)."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from biaslab.core.errors import TrialsError
from biaslab.core.names import written
from biaslab.core.output import percent
from biaslab.core.scales import scale_named
from biaslab.report.plots.figure import Drawn, close
from biaslab.report.plots.grid import fit_text
from biaslab.report.plots.naming import judge_words, marked
from biaslab.report.plots.style import PALETTE, note, panels, styled
from biaslab.stats import ITEM, require_columns


@styled
def heaps(
    trials: pd.DataFrame, scale: str | None = None, name: str | None = None, out: str | PathLike[str] = "figures"
) -> Drawn:
    """Plot the share of each score that a judge gives on one scale.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of `biaslab.probes.ScoreDistribution` by one judge: exact label probabilities, or sampled scores.
    scale : str, optional
        Scale to plot; default: the one with the most levels.
    name, out
        As in `biaslab.plots.draw`.

    Returns
    -------
    Drawn

    Raises
    ------
    TrialsError
        If no trial has this scale.

    Examples
    --------
    >>> heaps(trials, "1-100", name="score_distribution__scores")  # doctest: +SKIP
    """
    require_columns(trials, [*ITEM, "judge", "dataset", "attribute", "scale", "value"], "trials")
    scales = list(dict.fromkeys(trials["scale"]))
    finest = max(scales, key=lambda each: len(scale_named(each).labels)) if scale is None and scales else scale
    if finest not in scales:
        raise TrialsError("scale", scale, f"one of {', '.join(scales)}" if scales else "trials with a scale")
    scored = trials[(trials["scale"] == finest) & trials["value"].notna()]
    if scored.empty:
        return Drawn(missing=(f"Not drawn: the judge gave no score on {finest}",))
    exact = "label" in scored
    shares = scored.groupby("label")["value"].mean() if exact else scored["value"].value_counts(normalize=True)
    every = list(scale_named(str(finest)).values)  # include scores that were never given
    shares = shares.reindex(shares.index.union(every), fill_value=0.0)
    rows = shares.rename("estimate").rename_axis("label").reset_index().sort_values("label", ignore_index=True)
    [ax] = panels(1)
    tens, fives = rows["label"] % 10 == 0, rows["label"] % 5 == 0
    groups = {"multiples of 10": tens, "other multiples of 5": fives & ~tens, "other scores": ~fives}
    for color, (label, chosen) in zip(("black", PALETTE[0], "0.7"), groups.items(), strict=True):
        ax.bar(rows.loc[chosen, "label"], rows.loc[chosen, "estimate"], width=1.0, color=color, label=label)
    ax.set(xlabel=f"score ({finest})", ylabel="share of answers")
    items = scored.drop_duplicates([*ITEM, "attribute"]) if exact else scored
    judge = str(scored["judge"].iloc[0])
    names = map(written, dict.fromkeys(scored["dataset"]))
    note(ax, " · ".join(filter(None, [marked(judge), *names, f"n = {len(items)} scores"])))
    fit_text(ax)
    top = rows.sort_values("estimate", kind="stable").iloc[-1]
    finding = f"{percent(top['estimate'], 2)} of the scores of {judge_words(judge)} are {top['label']:g}"
    return close([ax], rows, name, out, finding)
