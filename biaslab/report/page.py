"""An audit as a page of text: a paragraph for each judge, then what could not be estimated and why."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.core import find_metric
from biaslab.core.binned import over_all_items
from biaslab.core.checked import checked
from biaslab.core.checks import require_count
from biaslab.report.summary import STATUS, agreements, is_bias, sum_up
from biaslab.report.verdicts import findings
from biaslab.report.wording import correction, levels
from biaslab.stats import require_columns

#: What a reader wants to know beside biases, and which rows of it.
_FIGURES: dict[tuple[str, str], Mapping[str, str]] = {
    ("replies", "readable_rate"): {},
    ("replies", "first_label_rate"): {},
    ("replies", "win_rate"): {},
    ("self_preference", "own_win_rate"): {"system": ""},
    ("human_agreement", "human_agreement"): {"level": "context", "coefficient": "spearman"},
    ("position", "order_consistency"): {},
    ("position", "comparative_accuracy"): {},
    ("consistency", "sample_alpha"): {"level": "interval"},
}
_OF_HUMANS: dict[tuple[str, str], Mapping[str, str]] = {("consistency", "human_alpha"): {"level": "interval"}}
_OF_ANSWERS = "label_mass"  # which texts do not have, as everybody knows
_SHOWN = {"bias": "is biased", "slight": "slightly biased", "none": "no bias that matters", "unclear": "inconclusive"}
_NEEDED = ("judge", "probe", "metric", "estimate", "ci_low", "ci_high", "p_value", "mde", "note")


@checked
def page(
    estimates: pd.DataFrame,
    not_run: Mapping[str, str] | None = None,
    width: int = 100,
    reference: str | pd.DataFrame | None = "atlas",
) -> str:
    r"""Write an audit as a page of text.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Estimates of several probes, of one judge or several, such as `biaslab.audit` returns.
    not_run : mapping of str to str, optional
        Why something could not be estimated at all; ``estimates.attrs["not_run"]`` by default.
    width : int
        Characters per line.
    reference : {"atlas"}, pandas.DataFrame or None
        Judges to compare with: see `biaslab.report.card`.

    Returns
    -------
    str
        A paragraph for each judge: its biases with their size, test and advice, then other figures that matter, such as
        agreement with humans, with intervals. Last, what is undefined or could not run, each reason once. q-values are
        over the tests of all primary metrics on the page (see `biaslab.stats.corrected`).

    Raises
    ------
    TrialsError
        If a column is missing.
    InputError
        If the reference is unknown.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=12)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> judge = bl.SimulatedJudge(data, position=2.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["first_position_rate"])
    >>> print("\n".join(page(estimates, reference=None).splitlines()[:4]))
    simulated:graded (constructed):position=2,data=473c40d2 (graded (constructed), 12 contexts)
      ● is biased: position, P(A), decisions for the first (share): 0.927 [0.926, 0.928], q <0.001:
        prefers what stands first
        → ask every pair in both orders and average
    """
    require_columns(estimates, _NEEDED, "estimates")
    require_count("width", width, 10)
    whole = over_all_items(estimates) if len(estimates) else estimates
    tested = whole[[is_bias(*named) for named in zip(whole["metric"], whole["probe"], strict=True)]]
    cells = findings(tested.reset_index(drop=True), reference=reference) if len(tested) else tested
    lines: list[str] = []
    for judge, own in whole.groupby("judge", sort=False):
        biases = cells[cells["judge"] == judge] if len(cells) else cells
        lines += [_head(str(judge), own), *_biases(biases, width), *_figures(own, _FIGURES, width), ""]
    humans = _figures(whole[whole["judge"] == whole["judge"].iloc[0]], _OF_HUMANS, width) if len(whole) else []
    lines += ["humans", *humans, ""] if humans else []
    lines += [*_not_said(whole, estimates.attrs.get("not_run", {}) if not_run is None else not_run, width)]
    if len(cells):
        lines += textwrap.wrap(_legend(cells), width)
    return "\n".join(lines).rstrip() + "\n"


def _head(judge: str, own: pd.DataFrame) -> str:
    contexts = own.loc[own["estimate"].notna(), "n_contexts"].max()
    of = ", ".join(dict.fromkeys(map(str, own["dataset"])))
    return f"{judge} ({of}{f', {contexts:,.0f} contexts' if contexts > 0 else ''})"


def _biases(cells: pd.DataFrame, width: int) -> list[str]:
    """Write biases with advice, then metrics without a bias that matters, then inconclusive ones."""
    if cells.empty:
        return ["  no bias could be tested"]
    rows = [sum_up(part, None) for _, part in cells.groupby(["probe", "metric"], sort=False)]
    lines: list[str] = []
    for status, words in _SHOWN.items():
        for row in (row for row in rows if row["status"] == status):
            name = f"{str(row['probe']).replace('_', ' ')}, {find_metric(row['metric'], row['probe']).axis}"
            where = f" ({row['strongest']})" if row["n_cells"] > 1 and row["strongest"] else ""
            numbers = f": {row['estimate']} {row['interval']}, q {row['q']}{where}" if row["q"] != "–" else ""
            verdict = "; ".join(filter(None, (row["verdict"], row["standing"])))
            lines += _item(f"{STATUS[status][0]} {words}: {name}{numbers}: {verdict}", width)
            lines += _item(f"  → {row['advice']}", width) if row["advice"] else []
    return lines or ["  no bias could be tested"]


def _figures(own: pd.DataFrame, chosen: Mapping[tuple[str, str], Mapping[str, str]], width: int) -> list[str]:
    """Write figures other than biases, such as agreement with humans; a range where there are many cells."""
    lines: list[str] = []
    for (probe, metric), where in chosen.items():
        rows = own[(own["probe"] == probe) & (own["metric"] == metric) & own["estimate"].notna()]
        for name, value in where.items():
            rows = rows[rows[name] == value] if name in rows else rows
        agreement = agreements(rows.drop(columns=[name for name in where if name in rows])).to_dict("records")
        if agreement:
            cells = ((row["cell"], row["estimate"], row["interval"]) for row in agreement)
            values = "; ".join(" ".join(filter(None, cell)) for cell in cells)
            lines += _item(f"· {find_metric(metric, probe).axis}: {values}", width)
    return lines


def _not_said(whole: pd.DataFrame, not_run: Mapping[str, str], width: int) -> list[str]:
    """List each reason why something is undefined or did not run, and what it applies to."""
    reasons: dict[str, list[str]] = {}
    for name, why in not_run.items():
        reasons.setdefault(why, []).append(name.replace("_", " "))
    notes = whole.get("note", pd.Series(dtype=object))
    empty = whole[whole["estimate"].isna() & (whole["metric"] != _OF_ANSWERS) & notes.map(bool) & notes.notna()]
    for (note, probe), part in empty.groupby(["note", "probe"], sort=False):
        metrics = ", ".join(dict.fromkeys(part["metric"]))
        reasons.setdefault(str(note), []).append(f"{str(probe).replace('_', ' ')} ({metrics})")
    if not reasons:
        return []
    lines = ["not said:"]
    for why, names in reasons.items():
        lines += _item(f"– {', '.join(dict.fromkeys(names))}: {why}", width)
    return [*lines, ""]


def _legend(cells: pd.DataFrame) -> str:
    return (
        f"{levels(cells)} intervals over contexts. Biased: q is below .05, over {correction(cells)}, and the interval "
        "does not contain the fair value. No bias that matters: the interval excludes every shift that matters."
    )


def _item(text: str, width: int) -> Sequence[str]:
    """Wrap an item of a list, its further lines under the first."""
    indent = " " * (2 + len(text) - len(text.lstrip()))
    options: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": f"{indent}  ", "break_long_words": False}
    return textwrap.wrap(text.lstrip(), width, **options)
