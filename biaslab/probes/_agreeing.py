"""The estimates of the consistency probe, for one judge, data set, attribute and kind of answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from biaslab.scales import scale_named
from biaslab.stats import (
    ITEM,
    Estimate,
    Measurement,
    Ratio,
    Resampling,
    alpha_difference,
    estimate_alpha,
    estimate_rows,
    usable,
    whole_blocks,
)

Rows = list[dict[str, Any]]
METRICS = (
    "sample_alpha",
    "human_alpha",
    "alpha_gap",
    "configuration_alpha",
    "configuration_gap",
    "label_mass",
)
COLUMNS = (
    "judge",
    "dataset",
    "attribute",
    "answer",
    *ITEM,
    "configuration",
    "scale",
    "ratings",
    "replicate",
    "value",
    "status",
    "label_mass",
)
_UNIT = ("candidate_id", "unit")


@dataclass(frozen=True)
class Cell:
    """The trials of one judge, data set, attribute and kind of answer.

    Parameters
    ----------
    trials : pandas.DataFrame
        Of the consistency probe; the first configuration in it is the reference.
    levels : sequence of {"interval", "ordinal", "nominal"}
        Levels of measurement.
    where : mapping
        What identifies the cell.
    resampling : Resampling
        Of the estimates.
    """

    trials: pd.DataFrame
    levels: Sequence[Measurement]
    where: Mapping[str, Any]
    resampling: Resampling

    def rows(self, chosen: Sequence[str]) -> Rows:
        """Estimate the chosen metrics."""
        rows: Rows = []
        reference, *others = self.trials["configuration"].drop_duplicates()
        for name in (reference, *others):
            if {*chosen} & {"sample_alpha", "label_mass"} or (name == reference and {*chosen} & {*METRICS[1:3]}):
                rows += self._within(name, name == reference, chosen)
        for name in others if {*chosen} & {*METRICS[3:5]} else ():
            rows += self._between(reference, name, chosen)
        return rows

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Usable samples: ``context_id, candidate_id, configuration, replicate``, and ``score`` on the unit scale."""
        found = usable(self.trials)
        score = found["value"].to_numpy(float).copy()
        for name, at in found.groupby("scale", sort=False).indices.items():
            score[at] = scale_named(str(name)).unit(score[at])  # type: ignore[arg-type]
        return found[[*ITEM, "configuration", "replicate"]].assign(score=score)

    def _within(self, name: str, is_reference: bool, chosen: Sequence[str]) -> Rows:
        items = self._entering([name])
        samples = items.merge(self.scores[self.scores["configuration"] == name], on=list(ITEM))
        samples = samples.rename(columns={"configuration": "unit", "replicate": "annotator"})
        human = self._human(items) if is_reference and {*chosen} & {*METRICS[1:3]} else None
        rows: Rows = []
        for level in self.levels:
            made: dict[str, Estimate] = {}
            if "sample_alpha" in chosen:
                made["sample_alpha"] = self._alpha(samples, level)
            if human is not None and "human_alpha" in chosen:
                made["human_alpha"] = self._alpha(human, level)
            if human is not None and "alpha_gap" in chosen:
                made["alpha_gap"] = self._difference(samples, human, level)
            rows += self._made(made, name, level, items)
        if "label_mass" in chosen:
            rows += self._made({"label_mass": self._mass(name)}, name, "", items)
        return rows

    def _between(self, reference: str, name: str, chosen: Sequence[str]) -> Rows:
        """Compare one sample of each of two configurations, and two samples of one."""
        items = self._entering([reference, name])
        samples = items.merge(self.scores[self.scores["configuration"].isin([reference, name])], on=list(ITEM))
        across = samples.rename(columns={"replicate": "unit", "configuration": "annotator"})
        floor = samples.rename(columns={"configuration": "unit", "replicate": "annotator"})
        scales = self.trials.loc[self.trials["configuration"].isin([reference, name]), "scale"].nunique()
        rows: Rows = []
        for level in self.levels:
            made: dict[str, Estimate] = {}
            if "configuration_alpha" in chosen:
                made["configuration_alpha"] = self._alpha(across, level)
            if "configuration_gap" in chosen:
                null = 0.0 if scales == 1 else None  # on another scale alpha differs without any inconsistency
                made["configuration_gap"] = self._difference(across, floor, level, null)
            rows += self._made(made, f"{reference} vs {name}", level, items)
        return rows

    def _entering(self, names: Sequence[str]) -> pd.DataFrame:
        """Return the items that have samples in all of some configurations."""
        what = f"consistency ({self.where['attribute']}, {' and '.join(names)})"
        blocks = whole_blocks(self.trials, "configuration", names, what, keep=())
        items = blocks[list(ITEM)]
        items.attrs = blocks.attrs
        return items

    def _human(self, items: pd.DataFrame) -> pd.DataFrame:
        """Return the scores of the items' annotators, who count as exchangeable."""
        given = items.merge(self.trials.drop_duplicates(list(ITEM))[[*ITEM, "ratings"]], on=list(ITEM))
        rated = list(_annotated(given))
        return pd.DataFrame(rated, columns=[*ITEM, "unit", "annotator", "score"])

    def _alpha(self, scores: pd.DataFrame, level: Measurement) -> Estimate:
        return estimate_alpha(scores, self.resampling, level, _UNIT)

    def _difference(
        self, first: pd.DataFrame, second: pd.DataFrame, level: Measurement, null: float | None = 0.0
    ) -> Estimate:
        return alpha_difference(first, second, self.resampling, level, _UNIT, null=null, inference="t")

    def _mass(self, name: str) -> Estimate:
        found = self.trials[self.trials["configuration"] == name]
        mass = found["label_mass"]
        missing = "undefined: answers are text"
        return Ratio(found["context_id"], mass.fillna(0), mass.notna(), missing=missing).estimate(self.resampling)

    def _made(self, made: Mapping[str, Estimate], configuration: str, level: str, items: pd.DataFrame) -> Rows:
        at = {**self.where, "configuration": configuration, "level": level}
        return estimate_rows(made, at, self.resampling, items.attrs["n_trials"], items.attrs["n_dropped"])


def _annotated(given: pd.DataFrame) -> Iterator[tuple[str, str, str, int, float]]:
    for context_id, candidate_id, ratings in given[[*ITEM, "ratings"]].itertuples(index=False, name=None):
        for annotator, score in enumerate(ratings.split()):
            yield context_id, candidate_id, "", annotator, float(score)
