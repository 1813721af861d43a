"""Write an audit as a page of text.

The page says what was read, then for each judge the verdicts (found, not found, cannot tell) and what to do, and last
what could not be tested, grouped by what would allow it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from os import PathLike

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools
from biaslab.core.checks import require_count
from biaslab.core.errors import InputError
from biaslab.core.metrics import find_metric
from biaslab.logs.audit.holdings import STUDY
from biaslab.logs.audit.run import measures as audit_measures
from biaslab.logs.readers.card import ReadingCard
from biaslab.report.agreement import PROBE, agreement_lines, agreement_table
from biaslab.report.summary import STATUS, advice_lines, agreements, is_bias, item, spaced, sum_up, verdict_lines
from biaslab.report.verdicts import by_metric, classify
from biaslab.report.wording import levels
from biaslab.stats.frame import require_columns, with_numpy_types, without_breakdowns

#: Figures other than biases, and which of their rows to show.
_FIGURES: dict[tuple[str, str], Mapping[str, str]] = {
    ("replies", "readable_rate"): {},
    ("replies", "first_position_rate"): {},
    ("replies", "first_label_rate"): {},
    ("replies", "win_rate"): {},
    ("self_preference", "own_win_rate"): {"system": ""},
    ("position", "order_consistency"): {},
    ("consistency", "sample_alpha"): {"level": "interval"},
}
_OF_HUMANS: dict[tuple[str, str], Mapping[str, str]] = {("consistency", "human_alpha"): {"level": "interval"}}
_CELLS, _SYSTEMS = 4, 12  # values that a line lists; of more, their range
_MARKS = ("·", "!", *(mark for mark, _ in STATUS.values()))
_NEEDED = ("judge", "probe", "metric", "estimate", "ci_low", "ci_high", "p_value", "mde", "note")


class AuditPage(str):
    """The text that `page` returns; a notebook shows the reading card as a table above the rest."""

    _card: ReadingCard | None
    _rest: str

    @classmethod
    def of(cls, rest: str, card: ReadingCard | None, width: int) -> AuditPage:
        """Return the page of a card, if there is one, and the lines below it."""
        whole = cls(rest if card is None else "\n".join([*card.lines(width), "", rest]))
        whole._card, whole._rest = card, rest
        return whole

    def _repr_html_(self) -> str:
        card = "" if self._card is None else self._card._repr_html_()
        return f"{card}<pre>{escape(self._rest)}</pre>"


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
        Reasons why probes did not run; default: ``estimates.attrs["not_run"]``.
    width : int
        Characters per line.
    reference : {"atlas"}, pandas.DataFrame or None
        Judges to compare with; see `biaslab.report.card`.

    Returns
    -------
    str
        What was read from a log (``estimates.attrs["reading"]``). For each judge: the biases found, with size and test;
        those not found; those for which the study cannot tell; other figures; and what to do. If the log has people's
        labels, agreement with them comes first, with a table if there are several judges. Then the estimates of which
        more than 5 % of the judgements are missing (``estimates.attrs["missing"]``). Last, primary metrics that are
        undefined, with each reason once, and the names of those that additions to the log would allow
        (``estimates.attrs["additions"]``, see `biaslab.doctor`). q-values
        are over the tests of all primary metrics on the page (see `biaslab.stats.corrected`).

    Raises
    ------
    TrialsError
        If a column is missing.
    InputError
        If the reference is unknown, or `not_run` is a path: the page is returned, not written.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=12)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> judge = bl.SimulatedJudge(data, position=2.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["first_position_rate"])
    >>> print("\n".join(page(estimates, reference=None).splitlines()[:6]))
    simulated:graded (constructed):position=2,data=473c40d2 (graded (constructed), 12 contexts)
      found:
      ● position, P(A), decisions for the first (share): 0.927 [0.926, 0.928], q <0.001: prefers the
        candidate shown first
      what to do:
      → ask every pair in both orders and average (position)
    """
    require_columns(estimates, _NEEDED, "estimates")
    require_count("width", width, 10)
    if isinstance(not_run, str | PathLike):
        remedy = f"to write the page to a file: Path({str(not_run)!r}).write_text(bl.report.page(estimates))"
        raise InputError("not_run", not_run, "probe → reason", remedy)
    all_rows = with_numpy_types(estimates) if len(estimates) else estimates.copy()
    all_rows.attrs = {}  # pandas would copy them with each selection
    whole = without_breakdowns(all_rows) if len(estimates) else estimates
    tested = whole[_are_biases(whole)]
    tested = tested[tested["estimate"].notna() | (tested["probe"] != PROBE)]
    found = classify(tested, reference=reference) if len(tested) else []
    rows = [sum_up(part) for part in by_metric(found).values()]
    lines = list(_itemised(agreement_table(all_rows), width))
    lines += [""] if lines else []
    for judge, own in whole.groupby("judge", sort=False):
        biases = [row for row in rows if row["judge"] == judge]
        figures = _figures(own, _FIGURES, width)
        with_people = list(_itemised(agreement_lines(all_rows[all_rows["judge"] == judge], biases), width, "  "))
        nothing = [] if with_people else ["  no bias could be tested"]
        lines += [
            _head(str(judge), own, estimates.attrs.get("contexts", {}).get(str(judge))),
            *with_people,
            *(verdict_lines([row for row in biases if row["probe"] != PROBE], width) or nothing),
            *figures,
            *advice_lines(biases, width),
            "",
        ]
    humans = _figures(whole[whole["judge"] == whole["judge"].iloc[0]], _OF_HUMANS, width) if len(whole) else []
    lines += ["humans", *humans, ""] if humans else []
    if missing := estimates.attrs.get("missing"):
        lines += ["missing judgements, which may bias an estimate:"]
        lines += [part for sentence in missing for part in item(f"! {sentence}", width)] + [""]
    reasons = estimates.attrs.get("not_run", {}) if not_run is None else not_run
    lines += _not_tested(whole, reasons, estimates.attrs.get("additions", {}), width)
    if found:
        over = f" (corrected over {found[0].over})" if tested["p_value"].notna().any() else ""
        legend = (
            f"{levels(tested)} intervals over contexts. Found: q < .05{over}, and the "
            "interval excludes the fair value. Not found: the interval excludes every shift that matters."
        )
        if declared := estimates.attrs.get("declared_reliability"):
            legend += f" People's labels have a reliability of {declared:g}, as declared."
        lines += textwrap.wrap(legend, width, break_on_hyphens=False)
    card = ReadingCard(estimates.attrs["reading"]) if "reading" in estimates.attrs else None
    return AuditPage.of("\n".join(lines).strip("\n") + "\n", card, width)


def _itemised(lines: Iterable[str], width: int, indent: str = "") -> Iterator[str]:
    """Yield lines, those with a mark wrapped as items."""
    for line in lines:
        yield from item(line, width) if line[0] in _MARKS else [f"{indent}{line}"]


def _are_biases(estimates: pd.DataFrame) -> Bools:
    """Return which rows are of primary metrics of biases."""
    named = zip(estimates["metric"], estimates["probe"], strict=True)
    return np.array([is_bias(*each) for each in named], bool)


def _head(judge: str, own: pd.DataFrame, n_contexts: int | None) -> str:
    contexts = own.loc[own["estimate"].notna(), "n_contexts"].max() if n_contexts is None else n_contexts
    of = ", ".join(dict.fromkeys(map(str, own["dataset"])))
    return f"{judge} ({of}{f', {contexts:,.0f} contexts' if contexts > 0 else ''})"


def _figures(own: pd.DataFrame, chosen: Mapping[tuple[str, str], Mapping[str, str]], width: int) -> list[str]:
    """Return lines on other figures, such as agreement with humans; a range if there are many cells."""
    lines: list[str] = []
    for (probe, metric), where in chosen.items():
        rows = own[(own["probe"] == probe) & (own["metric"] == metric) & own["estimate"].notna()]
        for name, value in where.items():
            rows = rows[rows[name] == value] if name in rows else rows
        most = _SYSTEMS if metric == "win_rate" else _CELLS
        idle = [*where, *(["attribute"] if set(rows.get("attribute", ())) == {"overall"} else [])]
        best = rows.sort_values("estimate", ascending=False, kind="stable") if metric == "win_rate" else rows
        agreement = agreements(best.drop(columns=[name for name in idle if name in best]), most).to_dict("records")
        if agreement:
            cells = ((row["cell"], row["estimate"], row["interval"]) for row in agreement)
            values = "; ".join(" ".join(filter(None, cell)) for cell in cells)
            lines += item(f"· {find_metric(metric, probe).axis}: {values}", width)
    return lines


def _not_tested(whole: pd.DataFrame, not_run: Mapping[str, str], additions: Mapping[str, str], width: int) -> list[str]:
    """Return the reasons why primary metrics are undefined, then one line of what additions to the log would allow.

    Biases for which the judge has to be asked are left out: no log allows them.
    """
    biases = whole[_are_biases(whole)]
    empty = biases[biases["estimate"].isna() & biases.get("note", pd.Series(dtype=object)).fillna("").ne("")]
    lacking = [name for name, what in additions.items() if what and what != STUDY]
    known = {*additions, *audit_measures(None)}
    reasons = {why: [spaced(name)] for name, why in not_run.items() if name not in known}
    for (note, probe), part in empty.groupby(["note", "probe"], sort=False):
        if probe not in lacking:
            metrics = ", ".join(dict.fromkeys(part["metric"]))
            reasons.setdefault(str(note), []).append(f"{spaced(probe)} ({metrics})")
    lines = ["not estimated:"] if reasons or lacking else []
    for why, names in reasons.items():
        lines += item(f"– {', '.join(dict.fromkeys(names))}: {why}", width)
    if lacking:
        every = ", ".join(spaced(name) for name in lacking)
        lines += item(f"– {every} (biaslab doctor says what each needs)", width)
    return [*lines, ""] if lines else []
