"""Plot sampled scores of the same text against its human score (Stureborg et al. 2024, Fig. 5)."""

from __future__ import annotations

from os import PathLike

import pandas as pd

from biaslab.core.names import written
from biaslab.report.plots.figure import Drawn, close
from biaslab.report.plots.grid import fit_text
from biaslab.report.plots.naming import judge_words, marked
from biaslab.report.plots.style import note, panels, styled
from biaslab.stats import require_columns

_ACROSS = 4  # maximum number of panels per line
_AREA = 1500  # square points of a dot that represents all samples of a panel


@styled
def spread(trials: pd.DataFrame, name: str | None = None, out: str | PathLike[str] = "figures") -> Drawn:
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
        return Drawn(missing=("Not drawn: no score of a text that people scored",))
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
    finding = (
        f"{samples:.0f} scores of one text by {judge_words(judge)} span {apart:.1f} points on average, on {ways[0]}"
    )
    return close(axes[: len(shown)], shares, name, out, finding)
