"""Texts with their perplexity, read by the judge or given, for `biaslab.probes.Familiarity`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.core import Scalar
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item
from biaslab.probes.base import Cell, Estimable, PairFeatureProbe, label_mass
from biaslab.stats import CELL, ITEM, Level, Ratio, require_columns, usable

#: Column of trials with the given log perplexity of each text.
GIVEN = {"candidate": "log_perplexity", "source": "source_log_perplexity"}
#: Column of trials and estimates with the source of given perplexities.
READER = "likelihood_judge"


def widest_range(estimates: pd.DataFrame) -> str | None:
    """Say by what factor the mean perplexity differs between scores, for each scorer; None without estimates."""
    rows = estimates[(estimates["metric"] == "mean_perplexity") & estimates["estimate"].notna()]
    means = rows.groupby(["scorer", "attribute"])["estimate"]
    widest = (means.max() / means.min()).groupby("scorer").max()
    factors = " and ".join(f"{times:.1f} between {scorer} scores" for scorer, times in widest.items())
    return f"Mean perplexity differs by a factor of up to {factors}" if factors else None


@dataclass(frozen=True)
class ReadTexts(PairFeatureProbe):
    """Base of `biaslab.probes.Familiarity`, which documents the parameters: texts and their perplexity."""

    sources: bool = True
    asks: Literal["both", "likelihoods"] | Sequence[Literal["pairs", "scores"]] = "both"
    log_perplexity: Mapping[str, float] | None = field(default=None, repr=False)
    likelihood_judge: str = "given"
    level: Literal["context", "dataset"] = "context"
    humans: Literal["means", "single"] = "means"

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms to ask for in addition to likelihoods."""
        if isinstance(self.asks, str):
            return ("scores",) if self.asks == "both" else ()
        return tuple(self.asks)

    def _columns(self, item: Item, attribute: str, ratings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Return the columns of a compared text: its perplexity, if given, and its human scores."""
        known = {name: value for name, value in self._known(item).items() if name in (GIVEN["candidate"], READER)}
        return {**known, "human": item.human[attribute], **ratings}

    def _known(self, item: Item) -> dict[str, Scalar]:
        """Return the columns of given perplexities; empty if likelihoods are asked for."""
        if self.log_perplexity is None:
            return {}
        for text, shown in self._texts(item).items():
            if shown not in self.log_perplexity:
                place = f"without the {text} of context {item.context_id!r}, candidate {item.candidate_id!r}"
                remedy = "collect Familiarity(asks='likelihoods') on this data set and use log_perplexities"
                raise InputError("log_perplexity", place, "a number for every text", remedy)
        columns = {GIVEN[text]: self.log_perplexity[shown] for text, shown in self._texts(item).items()}
        return {**columns, READER: self.likelihood_judge}

    def _reader(self, cell: Cell) -> object:
        """Return the source of a cell's perplexities."""
        if "log_perplexity" not in cell.trials:
            return cell.where["judge"]
        return cell.trials[READER].iloc[0]

    def _texts(self, item: Item) -> dict[str, str]:
        with_source = self.sources and item.context.strip() and self.forms != ("pairs",)
        return {"candidate": item.text} | ({"source": item.context} if with_source else {})

    def _of_text(
        self, text: str, cell: Cell, trials: pd.DataFrame, blocks: pd.DataFrame, planned: pd.DataFrame
    ) -> Iterator[tuple[dict[str, Estimable], dict[str, Any]]]:
        """Yield the metrics of one text with their conditions."""
        own = text == "candidate"
        name = "familiarity" if own else "source"
        level: Level = self.level if own else "dataset"
        yield {f"{name}_slope": partial(self._slope, blocks, own, planned=planned)}, {}
        yield {f"{name}_excess": lambda: self._excess(blocks, level)}, {"level": level}
        if own:
            yield {"label_mass": label_mass(trials[trials["asked"] == "score"])}, {}
        for scorer in ("judge", "human"):
            correlation = partial(self._correlation, blocks, scorer, level)
            yield {f"{name}_correlation": correlation}, {"scorer": scorer, "level": level}
        perplexity_of = "mean_perplexity" if own else "source_perplexity"
        for scorer in ("judge", "human") if cell.wants(perplexity_of, "score_share") else ():
            shares = _shares_of_judge(trials, blocks) if scorer == "judge" else _shares_of_humans(blocks, self.humans)
            for score, perplexity, share in _by_score(shares):
                metrics: dict[str, Estimable] = {perplexity_of: perplexity}
                yield metrics | ({"score_share": share} if own else {}), {"scorer": scorer, "score": score}


def log_perplexities(trials: pd.DataFrame, dataset: Dataset) -> dict[str, float]:
    """Return the log perplexity of every text, to use with another judge's scores in `biaslab.probes.Familiarity`.

    Parameters
    ----------
    trials : pandas.DataFrame
        Collected with a `biaslab.probes.Familiarity` that asks for likelihoods.
    dataset : Dataset
        The data set of these trials.

    Returns
    -------
    dict of str to float
        In nats per token, by text; NaN if the judge gave none.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> reader, judge = bl.SimulatedJudge(data), bl.SimulatedJudge(data, familiarity=-1.0)
    >>> read = bl.collect(bl.probes.Familiarity(asks="likelihoods"), reader, data, progress=False)
    >>> probe = bl.probes.Familiarity(log_perplexity=log_perplexities(read, data), likelihood_judge=reader.id)
    >>> set(bl.collect(probe, judge, data, progress=False)["asked"]) == {"score", "label"}
    True
    """
    require_columns(trials, (*ITEM, "asked", "value"), "trials")
    read = trials[trials["asked"].isin(list(GIVEN))].merge(dataset.candidates, on=list(ITEM))
    texts = read["text"].where(read["asked"] == "candidate", read["context"])
    return dict(zip(texts, read["value"].astype(float), strict=True))


def with_given(trials: pd.DataFrame) -> pd.DataFrame:
    """Turn given perplexities into trials, as if a judge had answered them."""
    scores = trials[trials["asked"] == "score"].drop_duplicates([*CELL, *ITEM])
    likelihoods = [
        scores.assign(asked=text, value=scores[column], status="ok", label_mass=np.nan)
        for text, column in GIVEN.items()
        if column in trials and not (trials["asked"] == text).any()
    ]
    return pd.concat([trials, *likelihoods], ignore_index=True) if likelihoods else trials


def _shares_of_judge(trials: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """Return the share of each item at each of the judge's scores: one row per label or per sample."""
    scores = usable(trials[trials["asked"] == "label"])
    if len(scores):
        scores = scores.assign(score=scores["label"], share=scores["value"])
    else:
        scores = usable(trials[trials["asked"] == "score"])
        samples = scores.groupby(list(ITEM))["value"].transform("size")
        scores = scores.assign(score=scores["value"], share=1 / samples)
    return scores[[*ITEM, "score", "share"]].merge(blocks[[*ITEM, "log_perplexity"]], on=list(ITEM))


def _shares_of_humans(blocks: pd.DataFrame, humans: Literal["means", "single"]) -> pd.DataFrame:
    """Return each item at its mean human score (rounded, halves up), or in equal parts at its single ratings."""
    rated = blocks[blocks["human"].notna()]
    if humans == "single" and "ratings" in rated:
        ratings = rated["ratings"].fillna(rated["human"].map(repr)).str.split()
        parts = rated.assign(score=ratings, share=1 / ratings.map(len)).explode("score")
        return parts.astype({"score": float})
    return rated.assign(score=np.floor(rated["human"] + 0.5), share=1.0)


def _by_score(shares: pd.DataFrame) -> Iterator[tuple[float, Ratio, Ratio]]:
    """Yield each score, the mean perplexity of the items with it, and their share."""
    share, context = shares["share"].to_numpy(float), shares["context_id"]
    perplexity = np.exp(shares["log_perplexity"].to_numpy(float))
    for score in sorted(shares["score"].unique()):
        weight = share * (shares["score"].to_numpy(float) == score)
        yield (
            float(score),
            Ratio(context, weight * perplexity, weight),
            Ratio(context, weight, share, bounds=(0.0, 1.0)),
        )
