"""``biaslab probe``, ``estimate`` and ``list``: measure one bias, and list what is available."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from biaslab.cli.options import (
    Attributes,
    Columns,
    Contexts,
    DataPath,
    Knobs,
    Noun,
    Protocols,
    Scale,
    StorePath,
    Table,
    make_probe,
    name_dataset,
    require_table,
    write_table,
)
from biaslab.cli.text import first_line, table
from biaslab.core.checks import require_whole
from biaslab.core.output import count


def _list_forms(wanted: bool) -> None:
    """Print what each probe estimates for each form of judging."""
    if not wanted:
        return
    from biaslab.probes import table as forms

    shown = forms()[["probe", "form", "metric", "what", "unit", "null", "judges"]]
    for name in ("probe", "form", "metric", "what", "unit"):
        shown[name] = shown[name].str.ljust(shown[name].str.len().max())
    typer.echo(shown.to_string(index=False, na_rep="", float_format="{:g}".format, justify="left"))
    raise typer.Exit


Seed = Annotated[int | None, typer.Option(help="Random seed for drawing pairs and resampling.")]


def probe(
    name: Annotated[str, typer.Argument(help="A probe from `biaslab list`, such as position.")],
    judge: Annotated[str, typer.Option(help="The judge; see `biaslab list`.")] = "smollm2-135m",
    dataset: Annotated[str, typer.Option(help="The data set; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    columns: Columns = None,
    scale: Scale = None,
    noun: Noun = None,
    contexts: Contexts = None,
    attribute: Attributes = None,
    param: Knobs = None,
    protocol: Protocols = None,
    store: StorePath = Path("judgements.sqlite"),
    out: Table = None,
    seed: Seed = None,
    trials: Annotated[
        Path | None, typer.Option(metavar="FILE.parquet", help="Write the judgements to this file as they arrive.")
    ] = None,
    _list: Annotated[
        bool,
        typer.Option("--list", callback=_list_forms, is_eager=True, help="List the probes by form: pair, score, list."),
    ] = False,
) -> None:
    """Measure one bias and print the estimates.

    -p sets a parameter of the probe, such as -p n_pairs=3 -p templates=1,2; an
    unknown name prints the list of parameters.
    """
    require_table(out)
    if contexts is not None:
        require_whole("contexts", contexts, 1)
    from biaslab import collect, load_dataset, load_judge

    chosen = make_probe(name, attribute, seed, param, protocol)
    data = load_dataset(name_dataset(dataset, columns, scale, noun, attribute) or dataset, path, limit=contexts)
    asks = load_judge(judge, data)
    options: dict[str, Any] = {"store": store, "progress": sys.stderr.isatty(), "announce": True, "out": trials}
    judgements = collect(chosen, asks, data, **options)
    estimates = chosen.estimate(judgements)
    typer.echo(f"{name} of {asks.id} on {data.name}, {count(data.n_contexts, 'context')}")
    typer.echo(f"{judgements.attrs['otherwise']}\n" if "otherwise" in judgements.attrs else "")
    typer.echo(table(estimates))
    asked, stored = judgements.attrs["asked"], judgements.attrs["stored"]
    typer.echo(f"\n{count(asked, 'judge call')}, {count(stored, 'reply')} from the store ({store})")
    write_table(estimates, out, "estimate")
    if trials is not None:
        typer.echo(f"{count(len(judgements), 'judgement')} written to {trials}")


def estimate(
    name: Annotated[str, typer.Argument(help="The probe that made the judgements, such as position.")],
    trials: Annotated[Path, typer.Argument(metavar="FILE.parquet", help="Judgements written by `biaslab probe`.")],
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Estimate only this metric; may be repeated.")
    ] = None,
    param: Knobs = None,
    out: Table = None,
    seed: Seed = None,
) -> None:
    """Estimate from saved judgements, without asking a judge.

    Reads a file written by `biaslab probe --trials` or `biaslab.collect(out=...)`.
    -p sets a parameter of the probe; use the values of the original run.
    """
    require_table(out)
    from biaslab.store.trials import TrialsFile

    chosen, file = make_probe(name, None, seed, param), TrialsFile(trials)
    estimates = chosen.estimate(file, metric or None)
    typer.echo(f"{name} from {count(len(file), 'judgement')} in {trials}\n")
    typer.echo(table(estimates))
    write_table(estimates, out, "estimate")


def list_everything() -> None:
    """List all probes, data sets, prompts, judges and notebooks."""
    from biaslab import datasets, judges, probes, prompts
    from biaslab.figures import list_notebooks

    notebooks = {path.stem: str(path) for path in list_notebooks()}
    listed = {
        "Probes": {name: first_line(kind.__doc__) for name, kind in probes.available().items()},
        "Data sets": datasets.available(),
        "Prompts": {name: re.split(r"\. (?=[A-Z])", origin)[0] for name, origin in prompts.available().items()},
        "Judges": judges.available(),
        "Notebooks": notebooks,
    }
    width = max(len(name) for group in listed.values() for name in group)
    for title, group in listed.items():
        typer.echo(f"{title}\n" + "\n".join(f"  {name:{width}}  {text}" for name, text in group.items()) + "\n")
