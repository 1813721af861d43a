"""How the command line writes estimates and docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def table(estimates: pd.DataFrame) -> str:
    """Lay out the estimates frame for reading: metric, conditions, estimate, interval, p, counts."""
    import pandas as pd

    from biaslab.report.wording import conditions

    shown = estimates[["metric", *conditions(estimates)]].copy()
    for name in shown.columns[1:]:
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
