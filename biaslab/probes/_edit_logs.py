"""Match recorded judgements of edited texts with those of the same texts unedited and null-edited."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from biaslab.probes._edit_metrics import EDITED, NULL, UNEDITED
from biaslab.probes.base import by_configuration, paired, scored
from biaslab.prompts.edits import available
from biaslab.prompts.edits.null import PREFIX

_ITEM = ["judge", "dataset", "attribute", "context_id"]


def recorded_edits(trials: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the judgements of a log that `biaslab.probes.Edit` can use, and a note on what is left out.

    Parameters
    ----------
    trials : pandas.DataFrame
        Recorded trials. ``edit`` names the edit of the text shown ("null:" plus name for a null edit); empty for
        unedited texts. For pairs, ``edited`` names the edited candidate.

    Returns
    -------
    tuple of pandas.DataFrame and str
        With the columns that the probe reads; empty if no edited text has an unedited counterpart.
    """
    if "edit" not in trials or trials["edit"].fillna("").eq("").all():
        return trials.iloc[:0], ""
    named = trials.assign(edit=trials["edit"].fillna(""))
    parts = [*_of_scores(by_configuration(scored(named))), *_of_pairs(paired(named))]
    if not parts:
        return trials.iloc[:0], "needs the same texts unedited and, for pairs, a column edited that names the candidate"
    judged = pd.concat(parts, ignore_index=True)
    lacking = sorted(set(judged["edit"]) - set(judged.loc[judged["variant"] == NULL, "edit"]))
    return judged, f"no null edit, so no excess can be estimated: {', '.join(lacking)}" * bool(lacking)


def _of_scores(scores: pd.DataFrame) -> Iterator[pd.DataFrame]:
    yield from _with_counterparts(scores.assign(form="score", edited_first=np.nan), [*_ITEM, "candidate_id"])


def _of_pairs(pairs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the pairs with known edited candidate and order."""
    if "edited" not in pairs:
        return
    shown = pairs[pairs["order_known"].astype(bool)]
    one, two = shown["candidate_id"].astype(str), shown["opponent_id"].astype(str)
    pair = one.where(one < two, two) + " " + two.where(one < two, one)
    shown = shown.assign(pair=pair, form="pair", scale=None)
    named = shown.loc[shown["edit"] != "", [*_ITEM, "pair", "edit", "edited"]].drop_duplicates()
    for (name, edited), part in named.groupby(["edit", "edited"], sort=False):
        own = shown["edit"].isin([name, f"{PREFIX}{name}"]) & (shown["edited"] == edited)
        twins = shown[(shown["edit"] == "") | own]
        twins = twins.merge(part[[*_ITEM, "pair"]], on=[*_ITEM, "pair"])
        first = (twins["candidate_id"].astype(str) == str(edited)).astype(float)
        yield from _with_counterparts(twins.assign(edited_first=first), [*_ITEM, "pair"])


def _with_counterparts(trials: pd.DataFrame, item: list[str]) -> Iterator[pd.DataFrame]:
    """Yield the judgements of each edit together with those of the same items unedited and null-edited."""
    catalogue = available()
    for name in dict.fromkeys(trials["edit"]):
        if not name or str(name).startswith(PREFIX):
            continue
        variants = trials["edit"].map({"": UNEDITED, name: EDITED, f"{PREFIX}{name}": NULL})
        own = trials.assign(variant=variants)[variants.notna()]
        both = own.groupby(item, sort=False)["variant"].transform("nunique") > 1
        edited = own["variant"].eq(EDITED).groupby([own[column] for column in item]).transform("any")
        chosen = own[both & edited]
        if {UNEDITED, EDITED} <= set(chosen["variant"]):
            quality = catalogue[name].quality if name in catalogue else "left"
            yield chosen.assign(edit=name, quality=quality, changed=1.0)
