"""What the command line says: estimates as a table, runs of notebooks and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.regenerate import Run


def table(estimates: pd.DataFrame) -> str:
    """Lay out the estimates frame for reading: metric, conditions, estimate, interval, p, counts."""
    import pandas as pd

    from biaslab.stats.frame import LEADING, TRAILING

    conditions = [name for name in estimates.columns if name not in (*LEADING, *TRAILING)]
    shown = estimates[["metric", *conditions]].copy()
    for name in conditions:
        shown[name] = [_number(value) if isinstance(value, float) else str(value) for value in shown[name]]
    level = "/".join(f"{100 * level:g}" for level in estimates["ci_level"].dropna().unique())
    bounds = zip(estimates["estimate"], estimates["ci_low"], estimates["ci_high"], strict=True)
    shown["estimate"] = estimates["estimate"].map(_number)
    shown[f"{level} % interval"] = [
        f"[{_number(low)}, {_number(high)}]" if low == low else "" for _, low, high in bounds
    ]
    shown["p"] = ["" if pd.isna(p) else "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") for p in estimates["p_value"]]
    shown["contexts"], shown["judgements"] = estimates["n_contexts"], estimates["n_trials"]
    if (estimates["n_dropped"] > 0).any():
        shown["dropped"] = estimates["n_dropped"]
    notes = [note if isinstance(note, str) else "" for note in estimates["note"]]
    if any(notes):
        shown["note"] = notes
    return shown.to_string(index=False)


def _number(value: float) -> str:
    return "" if value != value else f"{value:.3f}"


def first_line(text: str | None) -> str:
    """Return the first line of a docstring."""
    return (text or "").strip().partition("\n")[0]


def describe(run: Run) -> str:
    """Say what one notebook made, and what it cost."""
    from biaslab.report.gallery import describe_estimates

    lines = [f"{run.notebook}: {count(len(run.figures), 'figure')} in {run.seconds:.0f} s; {cost([run])}"]
    stems = dict.fromkeys(file.with_suffix("") for file in run.files)
    for stem in stems:
        kinds = " ".join(file.suffix for file in run.files if file.with_suffix("") == stem)
        facts = describe_estimates(stem.with_suffix(".csv")) if ".csv" in kinds else ""
        lines.append(f"  {stem}  {kinds}{f'  from {facts}' if facts else ''}")
    if run.ignored:
        lines.append(f"  without {', '.join(run.ignored)}, which this notebook does not have")
    return "\n".join(lines)


def cost(runs: Sequence[Run]) -> str:
    """Say how many replies were asked and how many were stored, with their tokens."""
    asked, stored = sum(run.asked for run in runs), sum(run.stored for run in runs)
    paid, saved = sum(run.asked_tokens for run in runs), sum(run.stored_tokens for run in runs)
    return (
        f"{count(asked, 'judge call')}{f' ({paid:,} tokens)' if paid else ''}, "
        f"{count(stored, 'reply')} from the store{f' ({saved:,} tokens)' if saved else ''}"
    )


def count(number: int, noun: str) -> str:
    """Put a noun after its number: "1 figure", "2 replies"."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"
