"""``biaslab plan``: sample size and cost of a study, before any judge is asked."""

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
    PriceCached,
    PriceIn,
    PriceOut,
    Scale,
    Table,
    given_prices,
    make_probe,
    name_dataset,
    require_table,
    write_table,
)
from biaslab.core.errors import InputError


def plan(
    name: Annotated[
        str, typer.Argument(metavar="PROBE", help="A probe from `biaslab list`, or correct to plan human labels.")
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
        int | None, typer.Option(help="Show instead the shift that this many contexts can detect.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="The metric; default: the probe's first.")] = None,
    power: Annotated[float, typer.Option(help="Power: the probability of detecting the shift if it exists.")] = 0.8,
    alpha: Annotated[float, typer.Option(help="Two-sided significance level.")] = 0.05,
    card: Annotated[
        int, typer.Option(metavar="TESTS", help="Number of tests on the card, which corrects for them.")
    ] = 1,
    answer: Annotated[
        str | None, typer.Option(help="How the judge answers: exact, text or sampled:k; default: the probe's.")
    ] = None,
    flips: Annotated[
        float | None, typer.Option(help="Share of pairs whose decision flips with the order, such as 0.08.")
    ] = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    price_cached: PriceCached = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time the judge on two contexts; keeps the replies in the store.")
    ] = False,
    store: Annotated[Path, typer.Option(help="Store of replies; stored requests cost nothing.")] = Path(
        "judgements.sqlite"
    ),
    judged: Annotated[Path | None, typer.Option(metavar="FILE", help="For correct: saved trials, or a log.")] = None,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="For correct: pilot labels; default: those in the trials."),
    ] = None,
    estimand: Annotated[
        str | None,
        typer.Option(help="For correct: mean_score, win_rate or difference; default: depends on the trials."),
    ] = None,
    system: Annotated[
        list[str] | None, typer.Option(help="For correct: a system of interest; may be repeated.")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="For correct: number of contexts to choose for labelling.")] = None,
    out: Table = None,
) -> None:
    """Plan a study: the number of contexts it needs, and its cost.

    Asks the judge only with --measure. `plan correct` shows how many contexts
    people must label, with and without a judge's help, and chooses them.
    """
    if name == "correct":
        _plan_labels(judged, labels, effect, estimand, system, budget, out, power, alpha)
        return
    from biaslab import load_dataset, load_judge
    from biaslab.study import planning
    from biaslab.study.spending.cost import measure as measure_speed

    prices = given_prices(input=price_in, output=price_out, cached=price_cached)
    chosen = make_probe(name, attribute, given=param)
    data = load_dataset(name_dataset(dataset, columns, scale, noun, attribute) or dataset, path)
    model = load_judge(judge, data)

    def planned(seconds: float | None) -> planning.Plan:
        """Plan with a measured speed, or without one."""
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
            prices=prices,
            store=store,
            seconds_per_request=seconds,
        )

    result = planned(None)  # reports a wrong option before the judge is asked
    if measure:
        result = planned(measure_speed(chosen, model, data, store))
    typer.echo(str(result))


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
    """Print how many labels an effect needs, with and without the judge; choose contexts for a budget."""
    require_table(out)
    if judged is None:
        raise InputError("judged", None, "saved trials or a log", "add --judged FILE")
    if effect is None and budget is None:
        raise InputError(
            "effect", None, "a shift to detect, or a budget of contexts to label", "add --effect .05 or --budget 40"
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
