"""``biaslab screen``: measure the most common biases, with the cost announced first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from biaslab.cli.options import (
    Attributes,
    Columns,
    DataPath,
    Noun,
    PriceCached,
    PriceIn,
    PriceOut,
    Protocols,
    Scale,
    StorePath,
    given_prices,
    name_dataset,
)
from biaslab.core.errors import InputError
from biaslab.core.output import require_file


def screen(
    judge: Annotated[str, typer.Argument(help="The judge; see `biaslab list`.")] = "smollm2-135m",
    dataset: Annotated[str, typer.Option(help="The data set; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    columns: Columns = None,
    scale: Scale = None,
    noun: Noun = None,
    contexts: Annotated[int, typer.Option(help="Use the first N contexts.")] = 24,
    candidates: Annotated[int, typer.Option(help="Candidates per context, drawn at random.")] = 3,
    attribute: Attributes = None,
    protocol: Protocols = None,
    own: Annotated[
        str | None, typer.Option(metavar="SYSTEM", help="System of the data set that is the judge itself.")
    ] = None,
    store: StorePath = Path("judgements.sqlite"),
    max_requests: Annotated[int | None, typer.Option(metavar="N", help="Budget: requests.")] = None,
    max_tokens: Annotated[int | None, typer.Option(metavar="N", help="Budget: input plus output tokens.")] = None,
    max_dollars: Annotated[float | None, typer.Option(help="Budget: dollars at the prices below.")] = None,
    price_in: PriceIn = None,
    price_out: PriceOut = None,
    price_cached: PriceCached = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Start even if the budget is too small; stop when it is spent.")
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Show the plan without asking the judge.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="STEM", help="Write the card as STEM.html, .md, .png and .csv.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Measure the most common biases on one card.

    Measures position, length, consistency, round numbers and, with --own,
    self-preference, as far as the judge (or its --protocol) answers with pairs or
    scores. Announces requests and cost first, and checks them against the budget.
    """
    if out is not None:
        require_file("out", out)
    budget = _budget(
        {"requests": max_requests, "tokens": max_tokens, "dollars": max_dollars},
        given_prices(input=price_in, output=price_out, cached=price_cached),
        partial,
    )
    import biaslab as bl

    named = name_dataset(dataset, columns, scale, noun, attribute)
    data = bl.load_dataset(named or dataset, path)
    asks = bl.load_judge(judge, data)
    about: dict[str, Any] = {"contexts": contexts, "candidates": candidates, "attributes": attribute or None}
    about |= {"own": own, "store": store, "budget": budget, "seed": seed}
    if plan:
        planned = bl.plan_screen(asks, data, protocol, **about)
        typer.echo(f"{asks.id}: {planned or f'nothing to ask: all replies are in the store ({store})'}")
        return
    result = bl.screen(asks, data, protocol, progress=sys.stderr.isatty(), say=typer.echo, **about)
    typer.echo(f"\n{result}")
    if out is not None:
        typer.echo(f"written: {', '.join(map(str, result.card.save(out)))}")


def _budget(limits: dict[str, float | None], prices: dict[str, float] | None, partial: bool) -> Any:
    """Return the budget, if the options set one."""
    from biaslab.study.spending import Budget

    known = {name: limit for name, limit in limits.items() if limit is not None}
    if partial and not known:
        raise InputError("partial", True, "used with a budget", "add --max-requests, --max-tokens or --max-dollars")
    return Budget(**known, prices=prices, partial=partial) if known or prices else None  # type: ignore[arg-type]
