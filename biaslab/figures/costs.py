"""What runs of notebooks made and cost, in words."""

from __future__ import annotations

from collections.abc import Sequence

from biaslab.core.output import count
from biaslab.figures.gallery import describe_estimates
from biaslab.figures.notebook import Run


def describe(run: Run) -> str:
    """Say what one notebook made, and what it cost."""
    if run.up_to_date:
        return f"{run.notebook}: {count(len(run.figures), 'figure')}, up to date"
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
