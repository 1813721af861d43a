"""``biaslab plan``: how many contexts an effect needs, and what they cost, before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from biaslab.cli.options import (
    Attributes,
    Columns,
    DataPath,
    Knobs,
    Noun,
    Scale,
    Table,
    make_probe,
    name_dataset,
    require_table,
    write_table,
)
from biaslab.core.errors import InputError


def plan(
    name: Annotated[
        str, typer.Argument(metavar="PROBE", help="A probe that `biaslab list` shows, or correct: labels.")
    ],
    judge: Annotated[str, typer.Option(help="The judge; see `biaslab list`.")] = "smollm2-135m",
    dataset: Annotated[str, typer.Option(help="The data set; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    columns: Columns = None,
    scale: Scale = None,
    noun: Noun = None,
    attribute: Attributes = None,
    param: Knobs = None,
    effect: Annotated[float | None, typer.Option(help="The shift to detect, such as 0.05 for a rate.")] = None,
    contexts: Annotated[
        int | None, typer.Option(help="Show instead which shift this number of contexts can detect.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="The metric; the probe's first by default.")] = None,
    power: Annotated[float, typer.Option(help="Power: the chance to detect the shift if it exists.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Two-sided level of the test.")] = 0.05,
    card: Annotated[int, typer.Option(metavar="TESTS", help="Plan for a card of so many tests, which corrects.")] = 1,
    answer: Annotated[
        str | None, typer.Option(help="How the judge answers: exact, text or sampled:k; the probe's way by default.")
    ] = None,
    flips: Annotated[
        float | None, typer.Option(help="Share of pairs that flip with their order, such as 0.08.")
    ] = None,
    price_in: Annotated[float | None, typer.Option(help="Dollars for a million tokens read.")] = None,
    price_out: Annotated[float | None, typer.Option(help="Dollars for a million tokens written.")] = None,
    price_cached: Annotated[float | None, typer.Option(help="Dollars for a million tokens read from a cache.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time the judge on two contexts; the replies are kept in the store.")
    ] = False,
    store: Annotated[Path, typer.Option(help="Store of replies; what it holds is free.")] = Path("judgements.sqlite"),
    judged: Annotated[Path | None, typer.Option(metavar="FILE", help="For correct: saved trials, or a log.")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="For correct: the labels of a pilot; by default those in the trials."),
    ] = None,
    estimand: Annotated[
        str | None,
        typer.Option(help="For correct: mean_score, win_rate or difference; chosen from the trials by default."),
    ] = None,
    system: Annotated[
        list[str] | None, typer.Option(help="For correct: a system of interest; may be repeated.")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="For correct: choose this many contexts to label.")] = None,
    out: Table = None,
) -> None:
    """Plan a study: how many contexts it needs, and what it costs.

    Only --measure asks the judge anything. `plan correct` says how many contexts
    people have to label, with a judge's help and without it, and which.
    """
    if name == "correct":
        _plan_labels(judged, labels, effect, estimand, system, budget, out, power, alpha)
        return
    from biaslab import load_dataset, load_judge
    from biaslab.study import planning
    from biaslab.study.spending.cost import measure as measure_speed

    given = {"input": price_in, "output": price_out, "cached": price_cached}
    prices = {kind: price for kind, price in given.items() if price is not None}
    if prices and price_in is None:
        raise InputError("price-in", price_in, "dollars for a million tokens read, where another price is given")
    chosen = make_probe(name, attribute, given=param)
    data = load_dataset(name_dataset(dataset, columns, scale, noun, attribute) or dataset, path)
    model = load_judge(judge, data)

    def planned(seconds: float | None) -> planning.Plan:
        """Plan with a speed that was measured, or none."""
        return planning.plan(
            chosen,
            model,
            data,
            effect=effect,
            contexts=contexts,
            metric=metric,
            power=power,
            alpha=alpha,
            tests=card,
            answer=answer,
            flips=flips,
            prices=prices or None,
            store=store,
            seconds_per_request=seconds,
        )

    found = planned(None)  # a wrong option is found before the judge is asked
    if measure:
        found = planned(measure_speed(chosen, model, data, store))
    typer.echo(str(found))


def _plan_labels(
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
    """Print how many labels an effect needs, with the judge and without, and choose contexts for a budget."""
    require_table(out)
    if judged is None:
        raise InputError("judged", None, "a file of saved trials or a log", "add --judged FILE")
    if effect is None and budget is None:
        raise InputError(
            "effect", None, "a shift to detect, or a budget of contexts", "add --effect .05 or --budget 40"
        )
    from biaslab import read_judgements
    from biaslab.correct import choose_contexts, plan_labels

    trials = read_judgements(judged)
    if effect is not None:
        wanted = {"estimand": estimand, "systems": systems or None, "power": power, "alpha": alpha}
        typer.echo(str(plan_labels(trials, labels, effect, **wanted)))  # type: ignore[arg-type]
    if budget is not None:
        chosen = choose_contexts(trials, budget)
        typer.echo(f"to label: {', '.join(chosen['context_id'].head(10))}{', …' if len(chosen) > 10 else ''}")
        write_table(chosen, out, "context")
