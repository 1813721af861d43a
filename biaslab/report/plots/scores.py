"""Plot scores: how often each is given, and samples against the human score (Stureborg et al. 2024, Figs. 3, 5)."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from biaslab.core.errors import TrialsError
from biaslab.core.output import percent, written
from biaslab.core.scales import scale_named
from biaslab.report.plots.drawing import fit_text
from biaslab.report.plots.figure import DrawnFigures, close
from biaslab.report.plots.figure_words import judge_words, marked
from biaslab.report.plots.style import PALETTE, note, panels, styled
from biaslab.stats.blocks import ITEM
from biaslab.stats.frame import require_columns


@styled
def heaps(
    trials: pd.DataFrame, scale: str | None = None, name: str | None = None, out: str | PathLike[str] = "figures"
) -> DrawnFigures:
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
        return DrawnFigures(missing=(f"Not drawn: the judge gave no score on {finest}",))
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
    headline = f"{percent(top['estimate'], 2)} of the scores of {judge_words(judge)} are {top['label']:g}"
    return close([ax], rows, name, out, headline)


_ACROSS = 4  # maximum number of panels per line
_AREA = 1500  # square points of a dot that represents all samples of a panel


@styled
def spread(trials: pd.DataFrame, name: str | None = None, out: str | PathLike[str] = "figures") -> DrawnFigures:
    """Plot the scores that a judge samples against the human scores of the texts.

    The area of a dot is its share of the samples. There is one panel per attribute in the first configuration, and one
    per further configuration, with the first attribute.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of `biaslab.probes.Consistency` by one judge. Pairs, and trials without a value or a human score, are
        left out.
    name, out
        As in `biaslab.plots.draw`.

    Returns
    -------
    Drawn

    Raises
    ------
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> probe = bl.probes.Consistency(["coherence"], scales=["1-5"], replicates=4)
    >>> len(spread(bl.collect(probe, bl.SimulatedJudge(data, noise=1), data, progress=False)).axes)
    2
    """
    needed = ("judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute", "configuration", "human")
    require_columns(trials, [*needed, "value"], "trials")
    scored = trials[trials["value"].notna() & trials["human"].notna() & trials["opponent_id"].isna()]
    if scored.empty:
        return DrawnFigures(missing=("Not drawn: no score of a text that people scored",))
    ways, attributes = list(scored["configuration"].unique()), list(scored["attribute"].unique())
    shown = [(ways[0], each) for each in attributes] + [(way, attributes[0]) for way in ways[1:]]
    counts = scored.groupby(["configuration", "attribute", "human", "value"], sort=False).size().rename("estimate")
    shares = (counts / counts.groupby(level=[0, 1]).transform("sum")).reset_index()
    columns = min(len(shown), _ACROSS)
    axes = panels(columns, 4.5, sharex=False, rows=-(-len(shown) // columns), sharey=False)
    for ax in axes[len(shown) :]:
        ax.remove()
    judge, dataset = str(scored["judge"].iloc[0]), written(str(scored["dataset"].iloc[0]))
    for ax, (way, attribute) in zip(axes, shown, strict=False):
        part = shares[(shares["configuration"] == way) & (shares["attribute"] == attribute)]
        ax.scatter(part["human"], part["value"], _AREA * part["estimate"], alpha=0.6, linewidths=0)
        ax.margins(0.15)
        ax.set(xlabel="mean human score", ylabel="score of the judge")
        note(ax, "\n".join([f"{attribute} · {way}", " · ".join(filter(None, [marked(judge), dataset]))]))
        fit_text(ax)
    of_one = scored[scored["configuration"] == ways[0]].groupby(["attribute", "context_id", "candidate_id"])["value"]
    samples, apart = of_one.size().median(), (of_one.max() - of_one.min()).mean()
    headline = (
        f"{samples:.0f} scores of one text by {judge_words(judge)} span {apart:.1f} points on average, on {ways[0]}"
    )
    return close(axes[: len(shown)], shares, name, out, headline)
