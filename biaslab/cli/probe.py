"""Commands that plan and run studies: ``probe``, ``estimate``, ``list``, ``screen``, ``plan``, ``batch``, etc."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab.cli.options import (
    Attributes,
    ColumnsOption,
    Contexts,
    DataPath,
    Knobs,
    Noun,
    PriceCached,
    PriceIn,
    PriceOut,
    Protocols,
    ScaleOption,
    StorePath,
    TableOption,
    first_line,
    given_prices,
    make_probe,
    name_dataset,
    require_table,
    table,
    write_table,
)
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.core.output import count, require_file

if TYPE_CHECKING:
    from biaslab.core.schema import Dataset
    from biaslab.prompts.protocols import Protocol


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
    columns: ColumnsOption = None,
    scale: ScaleOption = None,
    noun: Noun = None,
    contexts: Contexts = None,
    attribute: Attributes = None,
    param: Knobs = None,
    protocol: Protocols = None,
    store: StorePath = Path("judgements.sqlite"),
    out: TableOption = None,
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
    out: TableOption = None,
    seed: Seed = None,
) -> None:
    """Estimate from saved judgements, without asking a judge.

    Reads a file written by `biaslab probe --trials` or `biaslab.collect(out=...)`.
    -p sets a parameter of the probe; use the values of the original run.
    """
    require_table(out)
    from biaslab.store.tables import TrialsFile

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


def screen(
    judge: Annotated[str, typer.Argument(help="The judge; see `biaslab list`.")] = "smollm2-135m",
    dataset: Annotated[str, typer.Option(help="The data set; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    columns: ColumnsOption = None,
    scale: ScaleOption = None,
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


def plan(
    name: Annotated[
        str, typer.Argument(metavar="PROBE", help="A probe from `biaslab list`, or correct to plan human labels.")
    ],
    judge: Annotated[str, typer.Option(help="The judge; see `biaslab list`.")] = "smollm2-135m",
    dataset: Annotated[str, typer.Option(help="The data set; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    columns: ColumnsOption = None,
    scale: ScaleOption = None,
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
    out: TableOption = None,
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
    from biaslab.study.spending import measure as measure_speed

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


batch_app = typer.Typer(help="Judge through OpenAI's Batch API or vLLM's run-batch.", no_args_is_help=True)

Out = Annotated[Path, typer.Argument(metavar="FILE.jsonl", help="The file of exported requests.")]
BatchStore = Annotated[Path, typer.Option(help="Store of replies.")]
KeyName = Annotated[str | None, typer.Option(help="Environment variable of the API key.", metavar="NAME")]


@batch_app.command()
def export(
    name: Annotated[str, typer.Argument(metavar="PROBE", help="A probe from `biaslab list`, such as position.")],
    out: Out,
    judge: Annotated[str, typer.Option(help="The judge, such as api:gpt-4o-mini.")],
    dataset: Annotated[str, typer.Option(help="The data set; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    contexts: Contexts = None,
    attribute: Attributes = None,
    param: Knobs = None,
    store: BatchStore = Path("judgements.sqlite"),
    seed: Annotated[int | None, typer.Option(help="Random seed, as for `biaslab probe`.")] = None,
) -> None:
    """Export the requests of a probe that the store does not answer."""
    from biaslab import load_dataset, load_judge
    from biaslab.judges.api import ApiJudge
    from biaslab.judges.api.batch import export_batch
    from biaslab.store import open_store
    from biaslab.study.spending import unanswered

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


@batch_app.command()
def submit(out: Out, key: KeyName = None) -> None:
    """Upload the files and start their batches, each once; costs money."""
    from biaslab.judges.api.batch import BatchJobs

    new = BatchJobs(out, key).submit()
    for job in new:
        typer.echo(f"{job.file}: {job.batch}")
    typer.echo(
        f"{len(new)} submitted; next: biaslab batch status {out}" if new else "all files have been submitted already"
    )


@batch_app.command()
def status(out: Out, key: KeyName = None) -> None:
    """Show the progress of the batches."""
    from biaslab.judges.api.batch import BatchJobs

    jobs = BatchJobs(out, key).update()
    for job in jobs:
        typer.echo(f"{job.file}: {job.batch} {job.status}, {job.done:,} of {job.total:,} done")
    if not jobs:
        typer.echo(f"nothing was submitted; next: biaslab batch submit {out}")


@batch_app.command("import")
def import_(
    out: Out,
    results: Annotated[
        list[Path] | None, typer.Argument(help="Result files, such as vLLM's; default: download them.")
    ] = None,
    store: BatchStore = Path("judgements.sqlite"),
    key: KeyName = None,
) -> None:
    """Import replies into the store; may be partial or repeated."""
    from biaslab.judges.api.batch import BatchJobs, import_results, read_keys
    from biaslab.store import Store

    read_keys(out)
    files = results or BatchJobs(out, key).fetch()
    with Store(store) as kept:
        imported = import_results(out, files, kept)
    typer.echo(
        f"{imported.stored:,} replies stored, {imported.present:,} already stored, {imported.repeated:,} repeated, "
        f"{imported.unknown:,} from other exports, {imported.open:,} requests still open"
    )
    for words, times in imported.failed.most_common():
        typer.echo(f"  {times:,} × {words}")
    if imported.open:
        typer.echo("to ask the open requests: run the same `biaslab probe` command, or export another batch")


protocol_app = typer.Typer(help="Try out your own judge prompt and parser.", no_args_is_help=True)
_MOST_POINTS = 12
_LISTED = 3  # candidates of a list that are shown


@protocol_app.callback()
def _group() -> None:
    pass


@protocol_app.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Judge prompt: a TOML file, the format of its authors, or a name.")
    ],
    name: Annotated[str | None, typer.Option(help="Name of the prompt, if the file holds several.")] = None,
    dataset: Annotated[str, typer.Option(help="Data set of the example item; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    attribute: Annotated[str | None, typer.Option(help="Attribute to judge; default: the data set's first.")] = None,
    reply: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Parse this reply; may be repeated.")] = None,
    replies: Annotated[
        Path | None, typer.Option(metavar="FILE.txt", help="Parse the replies in this file, separated by lines of ---.")
    ] = None,
) -> None:
    """Show the prompt of one item, then write and parse each verdict.

    Also parses the replies you pass. Exit code 2: the file is not a valid
    protocol or does not fit the data set; the message says why.
    """
    from biaslab import load_dataset
    from biaslab.prompts.protocols import Protocol

    pasted = [*(reply or ()), *(_pasted(replies) if replies else ())]
    protocol = Protocol.from_file(file, name) if name else Protocol.loaded(file)
    data = load_dataset(dataset, path, limit=1)
    typer.echo(f"{protocol.id}: {protocol.form}, the reply is {_how(protocol)}\n")
    for slot, source in protocol.variables:
        typer.echo(f"  {slot} shows {source}")
    for message in protocol.messages(_first_item(protocol, data, attribute)):
        typer.echo(f"\n--- {message.role}\n{message.content}")
    typer.echo("\n--- each verdict as the judge would write it, and how it is parsed")
    if protocol.form == "list":
        _echo_list(protocol, _LISTED, pasted)
        return
    points = protocol.points if len(protocol.points) <= _MOST_POINTS else (protocol.points[0], protocol.points[-1])
    for value in points:
        written = protocol.write(value)
        typer.echo(f"  {value:g}: {written!r} is parsed as {_reading(protocol, written)}")
    for text in pasted:
        typer.echo(f"  reply {_short(text)!r} is parsed as {_reading(protocol, text)}")


def _first_item(protocol: Protocol, data: Dataset, attribute: str | None) -> dict[str, object]:
    """Return an item of the first context: first and last candidate, the first, or the first three."""
    (chosen,) = data.require_attributes([attribute or next(iter(data.attributes))])
    names = data.candidates["candidate_id"].tolist()
    first = {"pair": [names[0], names[-1]], "score": names[:1], "list": names[:_LISTED]}[protocol.form]
    return protocol.show(data, chosen, str(data.candidates["context_id"].iloc[0]), first)


def _echo_list(protocol: Protocol, k: int, pasted: list[str]) -> None:
    """Print each possible answer for k candidates and each pasted reply with its parsed value."""
    values = permutations(range(1, k + 1)) if protocol.places.ranks else set(permutations((1,) + (0,) * (k - 1)))
    for text in [*map(protocol.write_list, sorted(values)), *pasted]:
        value, status = protocol.parse_list(text, k)
        read = status if status != "ok" else ", ".join(f"{each:g}" for each in value)
        quantity = "ranks" if protocol.places.ranks else "P(best)"
        typer.echo(f"  {_short(text)!r} is parsed as {read if status != 'ok' else f'{quantity} by position: {read}'}")


def _pasted(file: Path) -> list[str]:
    """Return the replies in a file, which are separated by lines of three hyphens."""
    try:
        whole = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("replies", str(file), f"a UTF-8 text file ({type(error).__name__})") from None
    return [text for part in f"\n{whole}\n".split("\n---\n") if (text := part.strip("\n"))]


def _how(protocol: Protocol) -> str:
    if protocol.answer == "label":
        return "a label, read from its probability"
    return f"a text of up to {protocol.max_tokens} tokens"


def _reading(protocol: Protocol, text: str) -> str:
    """Describe the parsed value of a reply, or its status if it has none."""
    value, status = protocol.parse(text)
    if math.isnan(value):
        return status
    if protocol.form == "score":
        return f"{value:g}"
    return "a tie" if value == 0.5 else f"P(first wins) = {value:g}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:29]} … {flat[-28:]}"
