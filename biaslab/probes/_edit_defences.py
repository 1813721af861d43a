"""Edits behind defences: how a candidate is shown then, and what a defence leaves of what an edit does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.scales import scale_named
from biaslab.probes._edit_metrics import EDITED, NULL
from biaslab.probes._edited_pairs import oriented
from biaslab.probes._edited_scores import mean_over, touched, whole
from biaslab.probes.base import Cell, Part
from biaslab.prompts.defences import Defence, shield
from biaslab.prompts.edits import Placed

#: What other defences are compared with.
UNDEFENDED: Defence = "none"


def behind(shown: Placed, defence: Defence) -> Placed:
    """Return a candidate as it stands in a defended prompt; its edit is then called "edit+defence"."""
    named = f"{shown.edit}+{defence}" if shown.edit and defence != UNDEFENDED else shown.edit
    return replace(shown, text=shield(shown.text, defence), edit=named)


def with_defences(cell: Cell) -> Cell:
    """Return a cell whose trials say which defence there was; none where they do not know any."""
    if "defence" not in cell.trials:
        return replace(cell, trials=cell.trials.assign(defence=UNDEFENDED))
    return replace(cell, trials=cell.trials.assign(defence=cell.trials["defence"].fillna(UNDEFENDED)))


def defended_parts(cell: Cell, pairs: bool) -> Iterator[Part]:
    """Yield, for each defence, the excess with it minus the excess without one, on the same items."""
    others = [name for name in dict.fromkeys(cell.trials["defence"]) if name != UNDEFENDED]
    metric = "win_defended" if pairs else "score_defended"
    if UNDEFENDED not in set(cell.trials["defence"]) or not cell.wants(metric):
        return
    trials = oriented(touched(cell)) if pairs else touched(cell)
    trials = trials.assign(under=trials["defence"] + ", " + trials["shown" if pairs else "variant"])
    width = 1.0 if pairs else np.ptp(scale_named(str(cell.trials["scale"].iloc[0])).values)
    places = [", first", ", second"] if pairs else [""]
    for defence in others:
        sides = [f"{one}, {what}" for one in (defence, UNDEFENDED) for what in (EDITED, NULL)]
        blocks = whole(cell, trials, "under", [f"{side}{place}" for side in sides for place in places])
        edited, null, bare_edited, bare_null = (_mean(blocks, [f"{side}{p}" for p in places]) for side in sides)
        left = mean_over(blocks, (edited - null) - (bare_edited - bare_null), (-2.0 * width, 2.0 * width), 0.0)
        yield Part({metric: left}, blocks, {"defence": defence})


def _mean(blocks: pd.DataFrame, columns: Sequence[str]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = blocks[list(columns)].to_numpy(float).mean(axis=1)
    return found
