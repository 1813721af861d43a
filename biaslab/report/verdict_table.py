"""The verdicts on several judges as one table: a row per judge, a column per bias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from biaslab.core import find_metric
from biaslab.report.card import card
from biaslab.report.overview import RenderedFrame
from biaslab.report.summary import STATUS, is_bias
from biaslab.report.wording import correction, fair, levels, templates
from biaslab.stats import require_columns

_NOT_TESTED = f"{STATUS['untested'][0]} {STATUS['untested'][1]}"


class VerdictTable(RenderedFrame):
    """The frame returned by `verdict_table`; JupyterLab colours it by verdict, and adds the verdict in words.

    Frames derived from it, such as selections, are plain.
    """

    _facts: dict[str, Any]

    @classmethod
    def of(cls, biases: pd.DataFrame, level: str, tests: str) -> VerdictTable:
        """Arrange the biases of a card; those that no judge was tested for have no column."""
        tested = biases[biases["status"] != "untested"]
        keys = list(
            tested.groupby(["probe", "metric"], sort=False).size().sort_values(ascending=False, kind="stable").index
        )
        found = biases["status"].eq("bias").groupby(biases["judge"], sort=False).sum()
        judges = list(found.sort_values(ascending=False, kind="stable").index)
        rows = {(row["judge"], row["probe"], row["metric"]): row for row in biases.to_dict("records")}
        cells = [[rows.get((judge, *key)) for key in keys] for judge in judges]
        labels = pd.MultiIndex.from_tuples(keys, names=["probe", "metric"])
        table = cls([[_text(cell) for cell in line] for line in cells], pd.Index(judges, name="judge"), labels)
        untested = [
            key for key in dict.fromkeys(zip(biases["probe"], biases["metric"], strict=True)) if key not in keys
        ]
        facts = {
            "heads": [_head(*key) for key in keys],
            "lines": list(zip(judges, cells, strict=True)),
            "untested": [find_metric(metric, probe).label for probe, metric in untested],
        }
        object.__setattr__(table, "_facts", facts | {"status": STATUS, "level": level, "tests": tests})
        return table

    def _repr_html_(self) -> str:
        return templates().get_template("verdict_table.html.j2").render(**self._facts)


def verdict_table(estimates: pd.DataFrame, matters: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Show which judge has which bias: a row per judge, a column per bias.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Estimates of several probes and judges, such as `biaslab.audit` returns.
    matters : mapping of str to float, optional
        See `biaslab.report.verdicts`.

    Returns
    -------
    VerdictTable
        A frame of strings, judges with the most biases first, with one column ``(probe, metric)`` per bias that at
        least one judge was tested for, the most tested first. A cell has a mark of the verdict, and the strongest
        estimate with its interval, or "not tested". q-values are recomputed over all tests shown; see
        `biaslab.report.card`. JupyterLab shows verdicts in words; ``plain`` is the frame alone. Without any primary
        metric of a bias the table is empty.

    Raises
    ------
    TrialsError
        If a column is missing.
    InputError
        If `matters` is invalid.

    Examples
    --------
    >>> import biaslab as bl
    >>> rows = bl.atlas.estimates(metric=["first_position_rate", "longer_wins_at_equal_gold"], source="mt_bench")
    >>> table = verdict_table(rows)
    >>> table["position", "first_position_rate"].to_dict()["gpt-4-0613"]
    '○ 0.515 [0.482, 0.550]'
    """
    require_columns(estimates, ["judge", "probe", "metric"], "estimates")
    if not any(is_bias(metric, probe) for metric, probe in zip(estimates["metric"], estimates["probe"], strict=True)):
        return VerdictTable.of(pd.DataFrame(columns=["judge", "probe", "metric", "status"]), "95 %", "0 tests")
    whole = card(estimates, matters=matters, reference=None)
    return VerdictTable.of(whole.biases, levels(whole.cells), correction(whole.cells))


def _text(cell: dict[Any, Any] | None) -> str:
    """Return mark, estimate and interval of a verdict."""
    if cell is None or cell["status"] == "untested":
        return _NOT_TESTED
    return f"{STATUS[cell['status']][0]} {cell['estimate']} {cell['interval']}"


def _head(probe: str, metric: str) -> dict[str, str]:
    declared = find_metric(metric, probe)
    return {"probe": probe.replace("_", " "), "label": declared.label, "null": fair(declared.null)}
