"""Estimands from the items of one judge: means of systems, win rates, differences, agreement with humans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.checks import unknown
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.estimators import Fitted
from biaslab.correct.labels import LabelledCell
from biaslab.stats.correlation import context_correlations

Estimand = Literal["mean_score", "win_rate", "difference", "ranking", "systems", "agreement"]
ESTIMANDS = get_args(Estimand)
FittedContrast = tuple["LabelledContrast", Fitted]
#: A tie counts as half a win.
_TIE = 0.5


@dataclass(frozen=True)
class LabelledContrast:
    """A quantity to estimate.

    Parameters
    ----------
    metric : str
        Name in the estimates frame.
    system, other : str
        The system, and the one it is compared with.
    items : pandas.DataFrame
        One row per item: ``context_id, value, human``.
    null : float, optional
        Null value.
    bounds : tuple of float
        Smallest and largest possible value.
    """

    metric: str
    system: str
    other: str
    items: pd.DataFrame
    null: float | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)

    @property
    def is_share(self) -> bool:
        """Whether it is a share, a correlation or a mean of two values, with an interval on the logit scale."""
        two_valued = self.metric == "mean_score" and bool(self.items["human"].dropna().isin(self.bounds).all())
        return two_valued or self.metric in ("win_rate", "pass_rate", "accuracy", "rank_agreement")

    @property
    def is_binary(self) -> bool:
        """Whether labels are 0 or 1 and the judge's values lie between 0 and 1."""
        human, value = self.items["human"].dropna(), self.items["value"].dropna()
        return bool(human.isin([0.0, 1.0]).all() and value.between(0, 1).all() and len(human))


def contrasts(cell: LabelledCell, estimand: Estimand, systems: Sequence[str] | None) -> Iterator[LabelledContrast]:
    """Yield the quantities to estimate for a cell.

    Raises
    ------
    InputError
        If a system is unknown, or the estimand requires scores but pairs were judged.
    """
    known = systems_of(cell)
    if cell.pairs and known == [""] and estimand != "agreement":
        remedy = "name the systems in two columns, such as model_a and model_b"
        raise TrialsError.plain(f"candidates are texts, so no system has a win rate; {remedy}")
    chosen = known if systems is None else list(systems)
    for name in chosen:
        if name not in known:
            raise unknown("systems", name, known)
    if estimand == "agreement":
        yield agreement(cell)
    elif estimand == "mean_score":
        _require_scores(cell, estimand)
        yield from (mean_score(cell, name) for name in chosen)
    elif estimand == "systems" and not cell.pairs:
        means = [mean_score(cell, name) for name in chosen]
        rates = cell.binary and cell.items["value"].dropna().between(0, 1).all()
        yield from (replace(mean, metric="pass_rate", bounds=(0.0, 1.0)) if rates else mean for mean in means)
    elif estimand in ("ranking", "systems"):
        yield from (_against_all(cell, name) if cell.pairs else mean_score(cell, name) for name in chosen)
    else:
        if len(chosen) < 2:
            raise InputError("systems", chosen, f"at least two of {', '.join(known)}")
        if estimand == "difference":
            _require_scores(cell, estimand)
        yield from _of_two(cell, estimand, chosen)


def systems_of(cell: LabelledCell) -> list[str]:
    """Return the systems of a cell, in order of appearance."""
    names = [cell.items["system"], *([cell.items["opponent"]] if cell.pairs else [])]
    return list(dict.fromkeys(map(str, pd.concat(names))))


def mean_score(cell: LabelledCell, system: str) -> LabelledContrast:
    """Return the mean score of a system."""
    bounds = cell.scale or (-np.inf, np.inf)
    return LabelledContrast("mean_score", system, "", cell.items[cell.items["system"] == system], None, bounds)


def _of_two(cell: LabelledCell, estimand: Estimand, systems: Sequence[str]) -> Iterator[LabelledContrast]:
    """Yield the difference or win rate of each pair of systems that were judged on common contexts."""
    any_pair = False
    for one, two in combinations(systems, 2):
        items = _of_pair(cell.items, one, two) if cell.pairs else _facing(cell.items, one, two)
        if items.empty:
            continue
        any_pair = True
        if estimand == "difference":
            width = cell.scale[1] - cell.scale[0] if cell.scale else np.inf
            yield LabelledContrast("score_difference", one, two, items, 0.0, (-width, width))
        else:
            yield LabelledContrast("win_rate", one, two, items if cell.pairs else _won(items), 0.5, (0.0, 1.0))
    if not any_pair:
        raise TrialsError.plain(f"no context of judged has two of {', '.join(map(str, systems))}")


def _of_pair(items: pd.DataFrame, one: str, two: str) -> pd.DataFrame:
    """Return the pairs of two systems, from the first one's perspective."""
    straight = items[(items["system"] == one) & (items["opponent"] == two)]
    turned = items[(items["system"] == two) & (items["opponent"] == one)]
    return pd.concat([straight, _swapped(turned)], ignore_index=True)


def _swapped(items: pd.DataFrame) -> pd.DataFrame:
    names = {"system": items["opponent"], "opponent": items["system"]}
    return items.assign(value=1 - items["value"], human=1 - items["human"], **names)


def _against_all(cell: LabelledCell, system: str) -> LabelledContrast:
    """Return the win rate of a system over all systems it was compared with."""
    own, turned = (cell.items[cell.items[name] == system] for name in ("system", "opponent"))
    items = pd.concat([own, _swapped(turned)], ignore_index=True)
    return LabelledContrast("win_rate", system, "all others", items, 0.5, (0.0, 1.0))


def differences(listed: Sequence[LabelledContrast], fits: Sequence[Fitted]) -> Iterator[FittedContrast]:
    """Yield the difference between every two systems, paired over the contexts that both have in common."""
    for (one, first), (two, second) in combinations(zip(listed, fits, strict=True), 2):
        items, width = pd.concat([one.items, two.items]), one.bounds[1] - one.bounds[0]
        metric = {"mean_score": "score_difference"}.get(one.metric, f"{one.metric}_difference")
        contrast = LabelledContrast(metric, one.system, two.system, items, 0.0, (-width, width))
        yield contrast, first.minus(second, items["context_id"].nunique())


def judge_rates(contrast: LabelledContrast) -> Iterator[LabelledContrast]:
    """Yield the judge's rates on labelled items: of 1 among those that people give 1, and of 0 among the others."""
    items = contrast.items
    for metric, label in (("true_positive_rate", 1.0), ("true_negative_rate", 0.0)):
        right = ((items["value"] > _TIE) == label).astype(float)
        shown = items.assign(human=right.where(items["value"].notna() & (items["human"] == label)))
        yield replace(contrast, metric=metric, items=shown, null=None, bounds=(0.0, 1.0))


def _facing(items: pd.DataFrame, one: str, two: str) -> pd.DataFrame:
    """Return the difference in score between the first and the second, context by context."""
    columns = ["context_id", "value", "human"]
    parts = [items.loc[items["system"] == name, columns] for name in (one, two)]
    both = parts[0].merge(parts[1], on="context_id", suffixes=("", "_two"))
    return both.assign(**{name: both[name] - both[f"{name}_two"] for name in columns[1:]})[columns]


def _won(items: pd.DataFrame) -> pd.DataFrame:
    """Turn differences of scores into wins."""
    return items.assign(**{name: (np.sign(np.round(items[name], 9)) + 1) * _TIE for name in ("value", "human")})


def agreement(cell: LabelledCell) -> LabelledContrast:
    """Return the judge's agreement with humans; for contexts without labels, use the judge's confidence.

    For pairs: the share of human decisions with which the judge agrees; its confidence is max(p, 1 − p). For scores:
    Spearman's correlation within contexts; its confidence is the standard deviation of its scores there.
    """
    if cell.pairs:
        decided = cell.items.assign(human=_agrees(cell.items), shown=cell.items["human"].notna())
        sure = np.maximum(decided["value"], 1 - decided["value"])
        return LabelledContrast("accuracy", "", "", decided.assign(value=sure), 0.5, (0.0, 1.0))
    known = cell.items[cell.items["human"].notna() & cell.items["value"].notna()]
    values = context_correlations(known, "value", "human", "spearman", "context_id")
    by_context = pd.Series(values, known["context_id"].unique())
    sure = cell.items.groupby("context_id", sort=False)["value"].std(ddof=0)
    rows = pd.DataFrame({"context_id": sure.index, "value": sure.to_numpy(float)})
    rows["human"] = by_context.reindex(rows["context_id"]).to_numpy(float)
    rows["shown"] = rows["context_id"].isin(by_context.index)
    return LabelledContrast("rank_agreement", "", "", rows, 0.0, (-1.0, 1.0))


def _agrees(items: pd.DataFrame) -> pd.Series:
    """Return 1 if judge and humans decide alike, ½ if the judge does not decide, NaN if humans do not."""
    human, judge = (np.sign(np.round(items[name].to_numpy(float) - _TIE, 9)) for name in ("human", "value"))
    alike = np.where(np.isnan(human) | (human == 0), np.nan, (human * judge + 1) / 2)
    return pd.Series(alike, items.index)


def _require_scores(cell: LabelledCell, estimand: str) -> None:
    if cell.pairs:
        raise InputError("estimand", estimand, "win_rate, ranking or agreement if pairs were judged")
