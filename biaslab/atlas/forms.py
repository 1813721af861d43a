"""Whether an estimate comes from pairs or scores, inferred from its metric, probe or data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biaslab.core import find_metric
from biaslab.probes import available

if TYPE_CHECKING:
    import pandas as pd

#: The two forms.
PAIRS, SCORES = "pairs", "scores"
_FORMS = {"pair": PAIRS, "score": SCORES}
#: Forms of audit measures that read only one; probes and metrics declare theirs.
_OF_MEASURES = dict.fromkeys(("one_order", "pair_length", "subsets"), PAIRS) | {"halo": SCORES}


def forms(rows: pd.DataFrame) -> pd.Series:
    """Return the form of each estimate, "pairs" or "scores"; empty if unknown.

    Parameters
    ----------
    rows : pandas.DataFrame
        From `biaslab.atlas.estimates`.

    Examples
    --------
    >>> import biaslab as bl
    >>> forms(bl.atlas.estimates(metric="first_position_rate", source="mt_bench")).unique().tolist()
    ['pairs']
    """
    import pandas as pd

    asked = {named: _form_of(*named) for named in set(zip(rows["probe"], rows["metric"], strict=True))}
    known = pd.Series([asked[named] for named in zip(rows["probe"], rows["metric"], strict=True)], rows.index)
    if "form" in rows:
        known = rows["form"].map(_FORMS).fillna(known)
    grouped = known.groupby([rows["source"], rows["dataset"], rows["judge"]])
    only = grouped.transform("first").where(grouped.transform("nunique") == 1)
    return known.fillna(only).fillna("").astype(str)


def _form_of(probe: str, metric: str) -> str | None:
    """Return the form that a metric, its probe or the audit measure declares."""
    form = find_metric(metric, probe).form
    kinds = available()[probe].asks_for if not form and probe in available() else ()
    return _FORMS.get(form or (kinds[0] if len(kinds) == 1 else "")) or _OF_MEASURES.get(probe)
