"""``biaslab plan``: how many contexts an effect needs, and what they cost, before anything is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biaslab.cli.labels import plan_labels
from biaslab.cli.options import Attributes, Columns, DataPath, Knobs, Noun, Scale, Table, make_probe, name_dataset
from biaslab.core.errors import InputError


def plan(
    name: Annotated[
        str, typer.Argument(metavar="PROBE", help="A probe that `biaslab list` shows, or correct: labels.")
    ],
    judge: Annotated[str, typer.Option(help="Who would judge; see `biaslab list`.")] = "smollm2-135m",
    dataset: Annotated[str, typer.Option(help="What would be judged; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    columns: Columns = None,
    scale: Scale = None,
    noun: Noun = None,
    attribute: Attributes = None,
    param: Knobs = None,
    effect: Annotated[float | None, typer.Option(help="The shift to detect, such as 0.05 of a rate.")] = None,
    contexts: Annotated[int | None, typer.Option(help="Say instead what this number of contexts detects.")] = None,
    metric: Annotated[str | None, typer.Option(help="Of which metric; the probe's first by default.")] = None,
    power: Annotated[float, typer.Option(help="Chance to detect the shift if it is there.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Two-sided level of the test.")] = 0.05,
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
        bool, typer.Option("--measure", help="Ask the judge two contexts, kept in the store, and time it.")
    ] = False,
    store: Annotated[Path, typer.Option(help="What it holds is free.")] = Path("judgements.sqlite"),
    judged: Annotated[Path | None, typer.Option(metavar="FILE", help="Of correct: saved trials, or a log.")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Of correct: the labels of a pilot; else those in the trials."),
    ] = None,
    estimand: Annotated[
        str | None, typer.Option(help="Of correct: mean_score, win_rate or difference; what fits by default.")
    ] = None,
    system: Annotated[list[str] | None, typer.Option(help="Of correct: one of interest; may be repeated.")] = None,
    budget: Annotated[int | None, typer.Option(help="Of correct: choose so many contexts to label.")] = None,
    out: Table = None,
) -> None:
    """Say what a study would need and cost, before it is run.

    Only --measure asks the judge anything. `plan correct` says how many contexts
    people have to label, with a judge's help and without it, and which.
    """
    if name == "correct":
        plan_labels(judged, labels, effect, estimand, system, budget, out, power, alpha)
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
