"""``biaslab plan correct``: how many contexts people have to label, and which."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from biaslab.cli.options import require_table, write_table
from biaslab.core.errors import InputError


def plan_labels(
    judged: Path | None,
    labels: Path | None,
    effect: float | None,
    estimand: str | None,
    systems: Sequence[str] | None,
    budget: int | None,
    out: Path | None,
    power: float,
    alpha: float,
) -> None:
    """Say how many labels an effect takes with the judge and without, and choose contexts for a budget."""
    require_table(out)
    if judged is None:
        raise InputError("judged", None, "a file of saved trials or a log", "add --judged FILE")
    if effect is None and budget is None:
        raise InputError(
            "effect", None, "a shift to detect, or a budget of contexts", "add --effect .05 or --budget 40"
        )
    from biaslab import read_judgements
    from biaslab.correct import choose_contexts, plan_labels as planned

    trials = read_judgements(judged)
    if effect is not None:
        wanted = {"estimand": estimand, "systems": systems or None, "power": power, "alpha": alpha}
        typer.echo(str(planned(trials, labels, effect, **wanted)))  # type: ignore[arg-type]
    if budget is not None:
        chosen = choose_contexts(trials, budget)
        typer.echo(f"to label: {', '.join(chosen['context_id'].head(10))}{', …' if len(chosen) > 10 else ''}")
        write_table(chosen, out, "context")
