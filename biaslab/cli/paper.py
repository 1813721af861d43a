"""``biaslab paper``: run a published experiment with the settings of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biaslab.cli.figures import figures
from biaslab.cli.options import Contexts, DataPath, DatasetName, Judge, Knobs, StorePath
from biaslab.core.errors import InputError
from biaslab.core.written import pairs


def paper(
    name: Annotated[str, typer.Argument(metavar="PAPER", help="liusie2024, stureborg2024, wang2023 or chen2024.")],
    item: Annotated[str | None, typer.Argument(help="A table or figure, such as 'Table 5'; omit to list them.")] = None,
    judge: Judge = None,
    path: DataPath = None,
    dataset: DatasetName = None,
    contexts: Contexts = None,
    param: Knobs = None,
    out: Annotated[Path | None, typer.Option(help="Output folder, as for biaslab figures.")] = None,
    store: StorePath = Path("judgements.sqlite"),
) -> None:
    """Run a published experiment with the settings of the paper.

    Uses the paper's contexts, samples, scales and temperatures; -p and --contexts change single settings.
    If the paper used several data sets for an item, choose one with --dataset.
    """
    from biaslab.atlas.published import experiments

    chosen = experiments(name, item, dataset)
    if item is None:
        for each in chosen:
            typer.echo(f"{', '.join(each.items)}: {each.notebook} on {each.dataset}")
        return
    sets = list(dict.fromkeys(each.dataset for each in chosen))
    if len(sets) > 1:
        raise InputError("dataset", dataset, " or ".join(sets), f"choose one: --dataset '{sets[0]}' --path FILE")
    changed = pairs(param, "param", "NAME=VALUE, such as -p n_contexts=20")
    for each in chosen:
        settings = each.settings | changed
        typer.echo(f"{each.notebook} on {each.dataset}: " + ", ".join(f"{k}={v}" for k, v in settings.items()))
        if unstated := [setting for setting in each.not_stated if setting not in changed]:
            typer.echo(f"not stated by the paper: {', '.join(unstated)}")
        figures(
            judge=judge,
            dataset=each.dataset,
            path=path,
            contexts=contexts,
            param=[
                f"{setting}={value}"
                for setting, value in settings.items()
                if not (setting == "n_contexts" and contexts)
            ],
            only=[each.notebook],
            out=out,
            store=store,
        )
