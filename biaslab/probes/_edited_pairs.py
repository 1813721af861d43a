"""Effects of an edit on comparisons in which one candidate is edited, and effects of defences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.scales import scale_named
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.order_odds import common_log_odds, is_counted, log_odds
from biaslab.probes._edit_metrics import EDITED, NULL, UNEDITED, VARIANTS
from biaslab.probes._edited_scores import mean_over, touched, whole
from biaslab.probes.base import Cell, Estimable, Part
from biaslab.prompts.defences import Defence
from biaslab.stats import Estimate, Ratio, Resampling, completed, has_value, of_items, usable, whole_blocks

_STRATUM = ["context_id", "candidate_id", "edited_first"]
_GAP = ("human_gap",)
_CONTRAST = (EDITED, NULL)
#: Reference for the other defences.
UNDEFENDED: Defence = "none"


def pair_parts(cell: Cell, gap_bins: int) -> Iterator[Part]:
    """Yield the metrics of one edit, from comparisons in both orders."""
    trials = oriented(touched(cell))
    contrast = whole(cell, trials, "shown", _orders(*_CONTRAST), _GAP, loud=True)
    metrics = _gains(trials, contrast, _CONTRAST, cell.resampling, 0.0)
    if contrast.attrs["n_dropped"] and isinstance(ratio := metrics["win"], Ratio):
        metrics["win"] = replace(ratio, extremes=_extremes(trials))
    note = cell.note_missing(contrast, "variant", _CONTRAST)
    yield Part({f"{name}_excess": metric for name, metric in metrics.items()}, contrast, note=note)
    yield from _effects_against_unedited(cell, trials)
    yield from _flips(cell, trials)
    for edited, part in _sides(contrast) if cell.wants("side_win_excess", "side_logit_excess") else ():
        metrics = _gains(trials, part, _CONTRAST, cell.resampling, None)
        yield Part({f"side_{name}_excess": metric for name, metric in metrics.items()}, part, {"edited": edited})
    for gap, part in pairs.by_gap(contrast, gap_bins) if cell.everything else ():
        if not _of_one_context(part):
            metrics = _gains(trials, _counted_as(contrast, part), _CONTRAST, cell.resampling, None)
            yield Part({f"{name}_excess": metric for name, metric in metrics.items()}, part, {"human_gap": gap})


def defended_parts(cell: Cell, of_pairs: bool) -> Iterator[Part]:
    """Yield, for each defence, the excess with it minus the excess without, on the same items."""
    defences = [name for name in dict.fromkeys(cell.trials["defence"]) if name != UNDEFENDED]
    metric = "win_defended" if of_pairs else "score_defended"
    if UNDEFENDED not in set(cell.trials["defence"]) or not cell.wants(metric):
        return
    trials = oriented(touched(cell)) if of_pairs else touched(cell)
    trials = trials.assign(under=trials["defence"] + ", " + trials["shown" if of_pairs else "variant"])
    width = 1.0 if of_pairs else np.ptp(scale_named(str(cell.trials["scale"].iloc[0])).values)
    for defence in defences:
        variants = [f"{name}, {variant}" for name in (defence, UNDEFENDED) for variant in _CONTRAST]
        columns = [_orders(variant) if of_pairs else [variant] for variant in variants]
        blocks = whole(cell, trials, "under", [name for names in columns for name in names])
        edited, null, bare_edited, bare_null = (_mean(blocks, names) for names in columns)
        change = mean_over(blocks, (edited - null) - (bare_edited - bare_null), (-2.0 * width, 2.0 * width), 0.0)
        yield Part({metric: change}, blocks, {"defence": defence})


def oriented(trials: pd.DataFrame) -> pd.DataFrame:
    """Re-express judgements from the side of the candidate that is (or would be) edited.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials with ``edited_first``: 1 if the candidate shown first is the one to be edited.

    Returns
    -------
    pandas.DataFrame
        ``value`` is the probability that it wins, ``human_gap`` how much higher humans score it, ``candidate_id`` names
        the pair, ``shown`` variant and order; ``wins`` and ``losses`` count decisions, ties excluded: one, or one per
        sample.
    """
    first = trials["edited_first"].to_numpy(float) == 1
    decided, samples = pairs.decisions(trials), pairs.sample_counts(trials)
    won = np.where(first, decided, 1 - decided)
    names = trials[["candidate_id", "opponent_id"]].astype(str).to_numpy(object)
    pair = np.where(first, names[:, 0], names[:, 1]) + " beside " + np.where(first, names[:, 1], names[:, 0])
    weight = np.where(np.isnan(samples), 1.0, samples)
    judged = has_value(trials)
    return trials.assign(
        value=np.where(first, trials["value"], 1 - trials["value"]),
        human_gap=np.where(first, 1, -1) * trials["human_gap"].to_numpy(float),
        candidate_id=pair,
        shown=trials["variant"].astype(str) + np.where(first, ", first", ", second"),
        wins=np.where(judged, np.nan_to_num(won) * weight, np.nan),
        losses=np.where(judged, np.nan_to_num(1 - won) * weight, np.nan),
        weight=weight,
    )


def _orders(*variants: str) -> list[str]:
    return [f"{variant}, {place}" for variant in variants for place in ("first", "second")]


def _mean(blocks: pd.DataFrame, columns: Sequence[str]) -> Floats:
    return np.asarray(blocks[list(columns)].to_numpy(float).mean(axis=1))


def _gains(
    trials: pd.DataFrame, blocks: pd.DataFrame, levels: tuple[str, str], resampling: Resampling, null: float | None
) -> dict[str, Estimable]:
    """Return the gain in win probability, and in logits, of the edited candidate under one variant over another."""
    one, other = (_mean(blocks, _orders(level)) for level in levels)
    metrics: dict[str, Estimable] = {"win": mean_over(blocks, one - other, (-1.0, 1.0), null)}
    if blocks.empty or not is_counted(usable(trials)):
        logits = [log_odds(blocks[_orders(level)].to_numpy(float)).mean(axis=1) for level in levels]
        return metrics | {"logit": mean_over(blocks, logits[0] - logits[1], None, null)}
    return metrics | {"logit": partial(_counted_logits, of_items(trials, blocks), levels, resampling, null)}


def _counted_logits(
    trials: pd.DataFrame, levels: tuple[str, str], resampling: Resampling, null: float | None
) -> Estimate:
    """Return the common log odds ratio of winning under the two variants, over all pairs and orders."""
    judged = usable(trials)
    one, other = (judged[judged["variant"] == level].groupby(_STRATUM)[["wins", "losses"]].sum() for level in levels)
    both = one.join(other.add_suffix("_there"), how="inner")
    won, lost, there, lost_there = (both[name] for name in ("wins", "losses", "wins_there", "losses_there"))
    missing = f"undefined: no pair is won only when {levels[0]}, or none only when {levels[1]}; use more samples"
    context = both.index.get_level_values(0)
    return common_log_odds(context, won, lost, there, lost_there, resampling, null, missing)


def _extremes(trials: pd.DataFrame) -> tuple[Ratio, Ratio]:
    """Return the excess with all missing judgements set so that it is smallest, and largest."""

    def filled(edited: float, null: float) -> Ratio:
        values = dict.fromkeys(_orders(EDITED), edited) | dict.fromkeys(_orders(NULL), null)
        judged = trials[trials["shown"].isin(list(values))]
        filled_in = completed(judged, judged["shown"].map(values).astype(float))
        blocks = whole_blocks(filled_in, "shown", list(values), "", ())
        return mean_over(blocks, _mean(blocks, _orders(EDITED)) - _mean(blocks, _orders(NULL)), (-1.0, 1.0), None)

    return filled(0.0, 1.0), filled(1.0, 0.0)


def _effects_against_unedited(cell: Cell, trials: pd.DataFrame) -> Iterator[Part]:
    """Yield the effect of edit and null edit, compared with the unedited pair."""
    for variant in _CONTRAST if cell.wants("win_effect", "logit_effect") else ():
        blocks = whole(cell, trials, "shown", _orders(variant, UNEDITED), _GAP)
        metrics = _gains(trials, blocks, (variant, UNEDITED), cell.resampling, 0.0)
        yield Part({f"{name}_effect": metric for name, metric in metrics.items()}, blocks, {"variant": variant})


def _flips(cell: Cell, trials: pd.DataFrame) -> Iterator[Part]:
    """Yield the rates at which the winner changes with the edit, and at which the worse candidate wins."""
    if not cell.wants("flip_rate", "flip_excess", "worse_wins"):
        return
    levels = _orders(*VARIANTS)
    won, lost = (
        whole(cell, trials.assign(value=trials[name] / trials["weight"]), "shown", levels, _GAP)
        for name in ("wins", "losses")
    )
    flips = {variant: _differing(won, lost, variant) for variant in _CONTRAST}
    excess = mean_over(won, flips[EDITED] - flips[NULL], (-1.0, 1.0), 0.0)
    yield Part({"flip_excess": excess}, won)
    for variant, rate in flips.items():
        yield Part({"flip_rate": mean_over(won, rate, (0.0, 1.0), None)}, won, {"variant": variant})
    below = (won["human_gap"] < 0).to_numpy()
    worse = below & (not _of_one_context(won[below]))
    for variant in VARIANTS:
        wins, losses = (_mean(blocks, _orders(variant))[worse] for blocks in (won, lost))
        missing = won.attrs["why"] if won.empty else "undefined: the worse candidate is edited in fewer than 2 contexts"
        success = Ratio(won["context_id"][worse], wins, wins + losses, None, (0.0, 1.0), missing, "score")
        yield Part({"worse_wins": success}, _counted_as(won, won[worse]), {"variant": variant})


def _differing(won: pd.DataFrame, lost: pd.DataFrame, variant: str) -> Floats:
    """Return the rate at which decisions under a variant differ from those on the unedited pair in the same order."""
    w, x = (won[_orders(name)].to_numpy(float) for name in (variant, UNEDITED))
    v, y = (lost[_orders(name)].to_numpy(float) for name in (variant, UNEDITED))
    same = w * x + v * y + (1 - w - v) * (1 - x - y)
    return np.asarray(1 - same.mean(axis=1))


def _sides(blocks: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split pairs by whether the better candidate, the worse one, or one of two equally good ones is edited."""
    sides: dict[str, pd.Series] = {
        "better": blocks["human_gap"] > 0,
        "worse": blocks["human_gap"] < 0,
        "equal": blocks["human_gap"] == 0,
    }
    for edited, chosen in sides.items():
        part = blocks[chosen]
        if not _of_one_context(part):
            yield edited, _counted_as(blocks, part)


def _of_one_context(part: pd.DataFrame) -> bool:
    """Return whether a part has fewer than two contexts and therefore no interval."""
    return bool(part["context_id"].nunique() < 2)


def _counted_as(blocks: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """Return a part of the blocks with its own counts of judgements."""
    judged = round(blocks.attrs["n_trials"] * len(part) / max(len(blocks), 1))
    part.attrs = blocks.attrs | {"n_trials": judged, "n_dropped": 0}
    return part
