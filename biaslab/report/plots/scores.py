"""Plot scores and verdicts: how often each is given, and against people's.

After Stureborg et al. (2024), Figs. 3 and 5, and Bland and Altman (1999).
"""

from __future__ import annotations

import pandas as pd
import seaborn as sns

from biaslab.core.errors import TrialsError
from biaslab.core.output import AnyPath, number, percent, with_interval, written
from biaslab.core.scales import scale_named
from biaslab.report.plots.drawing import fit_text
from biaslab.report.plots.figure import DrawnFigures, close
from biaslab.report.plots.figure_words import judge_words, marked
from biaslab.report.plots.style import NULL, PALETTE, family_of, note, panels, styled
from biaslab.report.wording import varying
from biaslab.stats.blocks import ITEM
from biaslab.stats.distribution import whipple_sums
from biaslab.stats.frame import require_columns
from biaslab.stats.reliability import read_ratings


@styled
def heaps(
    trials: pd.DataFrame, scale: str | None = None, name: str | None = None, out: AnyPath = "figures"
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
    headline = f"{percent(top['estimate'], 2)} of the scores of {_subject(judge)} are {top['label']:g}"
    if tens.sum() > 1:
        round_scores = percent(rows.loc[tens, "estimate"].sum(), 2)
        up, down = whipple_sums(shares.reindex(every), every)
        headline += f"; {round_scores} are multiples of 10 ({percent(tens.mean(), 2)} of the levels)"
        headline += f", {number(up / down, 1)} times the share of the scores around them" if down else ""
    return close([ax], rows, name, out, headline)


def _subject(judge: str) -> str:
    return f"the {marked(judge)}" if marked(judge) else judge_words(judge)


_ACROSS = 4  # maximum number of panels per line
_AREA = 1500  # square points of a dot that represents all samples of a panel


@styled
def spread(trials: pd.DataFrame, name: str | None = None, out: AnyPath = "figures") -> DrawnFigures:
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
        ax.set(xlabel="mean reference score", ylabel="score of the judge")
        note(ax, "\n".join([f"{attribute} · {way}", " · ".join(filter(None, [marked(judge), dataset]))]))
        fit_text(ax)
    share = _share_within(scored[scored["configuration"] == ways[0]])
    within = f"is between samples of one text, on {ways[0]}"
    headline = f"Scores of each text by {_subject(judge)}, on {ways[0]}"
    if share is not None:
        headline = f"{percent(share, 2)} of the variance of scores by {_subject(judge)} {within}"
    return close(axes[: len(shown)], shares, name, out, headline)


def _share_within(scores: pd.DataFrame) -> float | None:
    """Return the component of variance between samples of one text, as a share of both; None if it is not known."""
    texts = scores.groupby(["attribute", *ITEM])["value"].agg(["mean", "size", "var"])
    free = texts["size"] - 1
    if not free.sum():
        return None
    within = float((texts["var"].fillna(0.0) * free).sum() / free.sum())
    between = float(texts.groupby("attribute")["mean"].var().mean()) - within * float((1 / texts["size"]).mean())
    total = within + max(between, 0.0)
    return within / total if total > 0 else None


_CELL = ["judge", "dataset", "attribute", "template", "configuration", "scale"]
_LIMITS = {"limit_of_agreement_low": "--", "mean_difference": "-", "limit_of_agreement_high": "--"}
_MATRICES = 3  # maximum number of matrices per line
_LARGEST = 400  # square points of the largest dot


@styled
def confusion(
    estimates: pd.DataFrame, name: str | None = None, out: AnyPath = "figures", title: str | None = None
) -> DrawnFigures:
    """Plot how often each verdict of a judge meets each label of people, with a panel for each judge.

    Numbers are counts of judgements with a label, shares are of items.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Of the measure "agreement" of `biaslab.audit`.
    name, out, title
        As in `biaslab.plots.draw`; the title stands before the data set and n.

    Returns
    -------
    Drawn

    Examples
    --------
    >>> confusion(bl.audit("verdicts.csv"), name="audit__confusion")  # doctest: +SKIP
    """
    require_columns(estimates, [*_CELL, "verdict", "label", "estimate", "n_trials"], "estimates")
    joint = estimates[estimates[["verdict", "label", "estimate"]].notna().all(axis=1)]
    if joint.empty:
        return DrawnFigures(missing=("Not drawn: no verdicts on items that people labelled",))
    differing = varying(joint, _CELL) or ["judge"]
    groups = joint.groupby(differing, sort=False)
    cells = [(" · ".join(judge_words(str(part)) for part in key), rows) for key, rows in groups]
    axes = panels(min(len(cells), _MATRICES), 5.0, rows=-(-len(cells) // _MATRICES), sharex=False, sharey=False)
    agreed = {}
    for ax, (who, rows) in zip(axes, cells, strict=False):
        labels = list(dict.fromkeys(rows["label"]))[::-1]
        both = rows.pivot_table(["estimate", "n_trials"], "verdict", "label").reindex(labels)
        shares = both["estimate"][labels]
        words = both["n_trials"][labels].map("{:,.0f}\n".format) + shares.map(lambda share: percent(share, 2))
        sns.heatmap(shares, vmin=0, vmax=1, annot=words, fmt="", cmap="Blues", cbar=False, ax=ax)
        ax.set(xlabel="label of people", ylabel="verdict of the judge")
        facts = [title, written(str(rows["dataset"].iloc[0])), f"n = {rows['n_contexts'].max()} contexts"]
        note(ax, f"{who}\n{' · '.join(filter(None, facts))}")
        agreed[who] = sum(shares.loc[label, label] for label in labels)
    for ax in axes[len(cells) :]:
        ax.remove()
    ends = dict.fromkeys(choose(agreed, key=lambda who: agreed[who]) for choose in (max, min))
    shown = [f"{percent(agreed[who], 2)} of the verdicts of {who}" for who in ends]
    return close(axes[: len(cells)], joint, name, out, f"People agree with {' and '.join(shown)}")


@styled
def bland_altman(
    trials: pd.DataFrame,
    estimates: pd.DataFrame,
    name: str | None = None,
    out: AnyPath = "figures",
    title: str | None = None,
) -> DrawnFigures:
    """Plot the differences of a judge's and people's scores against their means.

    The area of a dot is its share. Lines are the mean difference and the limits of agreement, bands their intervals.

    Parameters
    ----------
    trials : pandas.DataFrame
        Scores of items that people scored on the same scale; those of the first judge, attribute and scale are drawn.
    estimates : pandas.DataFrame
        Of the measure "agreement" of `biaslab.audit` for these trials.
    name, out, title
        As in `biaslab.plots.draw`; the title stands before the data set and n.

    Returns
    -------
    Drawn

    Examples
    --------
    >>> bland_altman(trials, bl.audit(trials), name="audit__differences")  # doctest: +SKIP
    """
    require_columns(trials, [*_CELL, "opponent_id", "human", "value"], "trials")
    require_columns(estimates, [*_CELL, "group", "metric", "estimate"], "estimates")
    scored = trials[trials["value"].notna() & trials["human"].notna() & trials["opponent_id"].isna()]
    scored = scored.fillna(dict.fromkeys(_CELL, ""))
    scored = scored.merge(scored[_CELL].head(1))
    own = estimates[estimates["metric"].isin(_LIMITS) & estimates["group"].isna() & estimates["estimate"].notna()]
    limits = own.merge(scored[_CELL].head(1)).set_index("metric").to_dict("index")
    if len(limits) < len(_LIMITS):
        return DrawnFigures(missing=("Not drawn: no scores of items that people scored on the same scale",))
    labels = read_ratings(scored, scored["human"].to_numpy(float)).set_index("item")["score"]
    labels = pd.concat([labels, scored["human"].drop(labels.index.unique())])
    points = pd.DataFrame({"label": labels, "value": scored["value"].loc[labels.index]})
    points = points.value_counts(normalize=True).rename("estimate").reset_index()
    [ax] = panels(1, 7.5)
    look = {"s": _LARGEST * points["estimate"] / points["estimate"].max(), "alpha": 0.6, "linewidths": 0}
    ax.scatter(points[["label", "value"]].mean(axis=1), points["value"] - points["label"], **look)
    ax.axhline(0, label="no difference", **NULL)
    words = {"-": "mean difference", "--": "limits of agreement (95 % of differences)", "band": "95 % intervals"}
    for metric, line in _LIMITS.items():
        ax.axhline(limits[metric]["estimate"], color=PALETTE[1], linestyle=line, label=words.pop(line, None))
        ends = limits[metric]["ci_low"], limits[metric]["ci_high"]
        ax.axhspan(*ends, color=PALETTE[1], alpha=0.25, linewidth=0, label=words.pop("band", None))
    ax.set(xlabel="mean of the judge's and people's score", ylabel="judge minus people (points)")
    judge, data = (str(scored[column].iloc[0]) for column in ("judge", "dataset"))
    facts = f"{scored['attribute'].iloc[0]} · n = {limits['mean_difference']['n_contexts']} contexts"
    ax.margins(0.2)
    note(ax, " · ".join(filter(None, [title, marked(judge), written(data), facts])))
    fit_text(ax)
    whose = f"{judge_words(judge)} {'(a person) minus other' if family_of(judge) == 'people' else 'minus'}"
    low, mean, high = (with_interval(limits[metric], 2) for metric in _LIMITS)
    headline = f"{whose} people: {mean} points on average; limits of agreement {low} to {high}"
    return close([ax], points, name, out, headline)
