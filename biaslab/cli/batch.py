"""``biaslab batch``: export requests as batch files, submit them or run them on a cluster, import the replies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from biaslab.cli.options import Attributes, Contexts, DataPath, Knobs, make_probe
from biaslab.core.errors import InputError

app = typer.Typer(help="Judge through OpenAI's Batch API or vLLM's run-batch.", no_args_is_help=True)

Out = Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="The file of exported requests.")]
StorePath = Annotated[Path, typer.Option(help="Store of replies.")]
KeyName = Annotated[str | None, typer.Option(help="Environment variable of the API key.", metavar="NAME")]


@app.command()
def export(
    name: Annotated[str, typer.Argument(metavar="PROBE", help="A probe from `biaslab list`, such as position.")],
    out: Out,
    judge: Annotated[str, typer.Option(help="The judge, such as api:gpt-4o-mini.")],
    dataset: Annotated[str, typer.Option(help="The data set; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    contexts: Contexts = None,
    attribute: Attributes = None,
    param: Knobs = None,
    store: StorePath = Path("judgements.sqlite"),
    seed: Annotated[int | None, typer.Option(help="Random seed, as for `biaslab probe`.")] = None,
) -> None:
    """Export the requests of a probe that the store does not answer."""
    from biaslab import load_dataset, load_judge
    from biaslab.judges.api import ApiJudge
    from biaslab.judges.batch_api import export_batch
    from biaslab.store import open_store
    from biaslab.study.spending.cost import unanswered

    probe, data = make_probe(name, attribute, seed, param), load_dataset(dataset, path, limit=contexts)
    chosen = load_judge(judge, data)
    if not isinstance(chosen, ApiJudge):
        raise InputError("judge", judge, "a judge behind a server, such as api:gpt-4o-mini")
    with open_store(store, create=False) as kept:
        requests = unanswered(chosen, [trial.request for trial in probe.design(data)], kept)
    if not requests:
        typer.echo("nothing to export: all replies are in the store")
        return
    exported = export_batch(chosen, requests, out)
    for file in exported.files:
        typer.echo(f"{file}")
    typer.echo(
        f"{exported.requests:,} requests; next: biaslab batch submit {out}, or vllm run-batch -i FILE -o RESULTS"
    )


@app.command()
def submit(out: Out, key: KeyName = None) -> None:
    """Upload the files and start their batches, each once; costs money."""
    from biaslab.judges.api.batch_jobs import BatchJobs

    new = BatchJobs(out, key).submit()
    for job in new:
        typer.echo(f"{job.file}: {job.batch}")
    typer.echo(
        f"{len(new)} submitted; next: biaslab batch status {out}" if new else "all files have been submitted already"
    )


@app.command()
def status(out: Out, key: KeyName = None) -> None:
    """Show the progress of the batches."""
    from biaslab.judges.api.batch_jobs import BatchJobs

    jobs = BatchJobs(out, key).update()
    for job in jobs:
        typer.echo(f"{job.file}: {job.batch} {job.status}, {job.done:,} of {job.total:,} done")
    if not jobs:
        typer.echo(f"nothing was submitted; next: biaslab batch submit {out}")


@app.command("import")
def import_(
    out: Out,
    results: Annotated[
        list[Path] | None, typer.Argument(help="Result files, such as vLLM's; default: download them.")
    ] = None,
    store: StorePath = Path("judgements.sqlite"),
    key: KeyName = None,
) -> None:
    """Import replies into the store; may be partial or repeated."""
    from biaslab.judges.api.batch_jobs import BatchJobs
    from biaslab.judges.batch_api import import_results, read_keys
    from biaslab.store import Store

    read_keys(out)
    files = results or BatchJobs(out, key).fetch()
    with Store(store) as kept:
        imported = import_results(out, files, kept)
    typer.echo(
        f"{imported.stored:,} replies stored, {imported.present:,} already stored, {imported.repeated:,} repeated, "
        f"{imported.unknown:,} from other exports, {imported.open:,} requests still open"
    )
    for words, count in imported.failed.most_common():
        typer.echo(f"  {count:,} × {words}")
    if imported.open:
        typer.echo("to ask the open requests: run the same `biaslab probe` command, or export another batch")
