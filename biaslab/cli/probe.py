"""Commands that plan and run studies: ``probe``, ``estimate``, ``list``, ``screen``, ``plan``, ``batch``, etc."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab.cli.command import command
from biaslab.cli.options import DataOptions, LogOptions, PriceOptions, make_probe, require_table, table, write_table
from biaslab.core.checks import read, require_whole
from biaslab.core.errors import InputError
from biaslab.core.output import count, require_file

if TYPE_CHECKING:
    from biaslab.core.schema import Dataset
    from biaslab.prompts.protocols import Protocol
    from biaslab.stats.sequential import Until
    from biaslab.study.spending import Budget

study_app = typer.Typer()
_STORE = Path("judgements.sqlite")


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


@dataclass(frozen=True)
class UntilOptions:
    """When a study may stop early.

    Parameters
    ----------
    until_half_width : WIDTH
        Stop once the interval is at most this wide to each side.
    until_effect : EFFECT
        Stop once the interval excludes the null, or every effect of this size.
    looks : N,N,…
        Planned looks after so many contexts (group-sequential), instead of a look after every context.
    """

    until_half_width: float | None = None
    until_effect: float | None = None
    looks: str | None = None

    def rule(self, seed: int | None = None) -> Until | None:
        """Return the rule, if an option sets one."""
        from biaslab.stats.sequential import Until

        given = (self.until_half_width, self.until_effect)
        if given == (None, None) and self.looks is None:
            return None
        looks = [] if self.looks is None else read("looks", self.looks, list[int])
        return Until(*given, looks=looks, seed=seed or 0)


@command(study_app)
def probe(
    name: str,
    /,
    *,
    judge: str = "smollm2-135m",
    data: DataOptions,
    contexts: int | None = None,
    attribute: list[str] | None = None,
    param: list[str] | None = None,
    protocol: list[Path] | None = None,
    store: Path = _STORE,
    out: Path | None = None,
    seed: int | None = None,
    trials: Path | None = None,
    until: UntilOptions,
    _list: Annotated[
        bool,
        typer.Option("--list", callback=_list_forms, is_eager=True, help="List the probes by form: pair, score, list."),
    ] = False,
) -> None:
    """Measure one bias and print the estimates.

    -p sets a parameter of the probe, such as -p n_pairs=3 -p templates=1,2; an
    unknown name prints the list of parameters.

    Parameters
    ----------
    name
        A probe from `biaslab list`, such as position.
    dataset
        The data set; see `biaslab list`. Default: graded.
    trials : FILE.parquet
        Write the judgements to this file as they arrive.
    """
    require_table(out)
    if contexts is not None:
        require_whole("contexts", contexts, 1)
    from biaslab import collect, load_judge

    chosen, dataset = make_probe(name, attribute, seed, param, protocol), data.load(attribute, contexts)
    asks = load_judge(judge, dataset)
    options: dict[str, Any] = {"store": store, "progress": sys.stderr.isatty(), "announce": True, "out": trials}
    options["until"] = until.rule(seed)
    judgements = collect(chosen, asks, dataset, **options)
    estimates = chosen.estimate(judgements)
    typer.echo(f"{name} of {asks.id} on {dataset.name}, {count(dataset.n_contexts, 'context')}")
    typer.echo(f"{judgements.attrs['otherwise']}\n" if "otherwise" in judgements.attrs else "")
    typer.echo(table(estimates))
    asked, stored = judgements.attrs["asked"], judgements.attrs["stored"]
    saved = f", {count(judgements.attrs['saved'], 'request')} saved" if "saved" in judgements.attrs else ""
    typer.echo(f"\n{count(asked, 'judge call')}, {count(stored, 'reply')} from the store ({store}){saved}")
    write_table(estimates, out, "estimate")
    if trials is not None:
        typer.echo(f"{count(len(judgements), 'judgement')} written to {trials}")


@command(study_app)
def estimate(
    name: str,
    trials: Path,
    /,
    metric: list[str] | None = None,
    param: list[str] | None = None,
    out: Path | None = None,
    seed: int | None = None,
) -> None:
    """Estimate from saved judgements, without asking a judge.

    Reads a file written by `biaslab probe --trials` or `biaslab.collect(out=...)`.
    -p sets a parameter of the probe; use the values of the original run.

    Parameters
    ----------
    name
        The probe that made the judgements, such as position.
    trials : FILE.parquet
        Judgements written by `biaslab probe`.
    metric : NAME
        Estimate only this metric; may be repeated.
    """
    require_table(out)
    from biaslab.store.tables import TrialsFile

    chosen, file = make_probe(name, None, seed, param), TrialsFile(trials)
    estimates = chosen.estimate(file, metric or None)
    typer.echo(f"{name} from {count(len(file), 'judgement')} in {trials}\n")
    typer.echo(table(estimates))
    write_table(estimates, out, "estimate")


@command(study_app, "list")
def list_everything() -> None:
    """List all probes, data sets, prompts, judges and notebooks."""
    from biaslab import datasets, judges, probes, prompts
    from biaslab.figures import list_notebooks

    notebooks = {path.stem: str(path) for path in list_notebooks()}
    listed = {
        "Probes": {name: (kind.__doc__ or "").partition("\n")[0] for name, kind in probes.available().items()},
        "Data sets": datasets.available(),
        "Prompts": {name: re.split(r"\. (?=[A-Z])", origin)[0] for name, origin in prompts.available().items()},
        "Judges": judges.available(),
        "Notebooks": notebooks,
    }
    width = max(len(name) for group in listed.values() for name in group)
    for title, group in listed.items():
        typer.echo(f"{title}\n" + "\n".join(f"  {name:{width}}  {text}" for name, text in group.items()) + "\n")


@dataclass(frozen=True)
class BudgetOptions:
    """Limits of a study.

    Parameters
    ----------
    max_requests : N
        Budget: requests.
    max_tokens : N
        Budget: input plus output tokens.
    max_dollars
        Budget: dollars at the prices below.
    partial
        Start even if the budget is too small; stop when it is spent.
    """

    max_requests: int | None = None
    max_tokens: int | None = None
    max_dollars: float | None = None
    partial: bool = False

    def budget(self, prices: dict[str, float] | None) -> Budget | None:
        """Return the budget, if the options set one."""
        from biaslab.study.spending import Budget

        limits = {"requests": self.max_requests, "tokens": self.max_tokens, "dollars": self.max_dollars}
        known: dict[str, Any] = {name: limit for name, limit in limits.items() if limit is not None}
        if self.partial and not known:
            raise InputError("partial", True, "used with a budget", "add --max-requests, --max-tokens or --max-dollars")
        return Budget(**known, prices=prices, partial=self.partial) if known or prices else None


@command(study_app, calls="biaslab.report.screening:screen", takes=("contexts", "candidates", "own", "seed"))
def screen(
    judge: str = "smollm2-135m",
    /,
    *,
    data: DataOptions,
    attribute: list[str] | None = None,
    protocol: list[Path] | None = None,
    store: Path = _STORE,
    limits: BudgetOptions,
    prices: PriceOptions,
    plan: bool = False,
    out: Path | None = None,
    **options: Any,
) -> None:
    """Measure the most common biases on one card.

    Measures position, length, consistency, round numbers and, with --own,
    self-preference, as far as the judge (or its --protocol) answers with pairs or
    scores. Announces requests and cost first, and checks them against the budget.

    Parameters
    ----------
    dataset
        The data set; see `biaslab list`. Default: graded.
    plan
        Show the plan without asking the judge.
    out : STEM
        Write the card as STEM.html, .md, .png and .csv.
    own : SYSTEM
        System of the data set that is the judge itself.
    """
    if out is not None:
        require_file("out", out)
    options |= {"store": store, "attributes": attribute or None, "budget": limits.budget(prices.given())}
    import biaslab as bl

    dataset = data.load(attribute)
    asks = bl.load_judge(judge, dataset)
    if plan:
        typer.echo(bl.plan_screen(asks, dataset, protocol, **options))
        return
    result = bl.screen(asks, dataset, protocol, progress=sys.stderr.isatty(), say=typer.echo, **options)
    typer.echo(f"\n{result}")
    if out is not None:
        typer.echo(f"written: {', '.join(map(str, result.card.save(out)))}")


_OF_PLAN = ("effect", "contexts", "metric", "power", "alpha", "answer", "flips")


@command(study_app, calls="biaslab.study.planning:plan", takes=_OF_PLAN)
def plan(
    name: str,
    /,
    *,
    judge: str = "smollm2-135m",
    data: DataOptions,
    attribute: list[str] | None = None,
    param: list[str] | None = None,
    card: int = 1,
    prices: PriceOptions,
    measure: bool = False,
    store: Path = _STORE,
    freeze: Path | None = None,
    direction: str = "two-sided",
    exclude: list[str] | None = None,
    protocol: list[Path] | None = None,
    seed: int | None = None,
    until: UntilOptions,
    **options: Any,
) -> None:
    """Plan a study: the number of contexts it needs, and its cost.

    Asks the judge only with --measure. --freeze fixes the study in a file, and
    writes a preregistration; biaslab run then runs exactly that.

    Parameters
    ----------
    name : PROBE
        A probe from `biaslab list`.
    dataset
        The data set; see `biaslab list`. Default: graded.
    card : TESTS
        Number of tests on the card, which corrects for them.
    measure
        Time the judge on two contexts; keeps the replies in the store.
    store
        Store of replies; stored requests cost nothing.
    power
        Probability of detecting the shift if it exists.
    alpha
        Two-sided significance level.
    answer
        How the judge answers: exact, text or sampled:k; default: the probe's.
    freeze : FILE.toml
        Fix the study in this file, before its data; --effect is the smallest effect of interest.
    direction
        For --freeze: the side of the null that supports the hypothesis, above, below or two-sided.
    exclude : CONTEXT
        For --freeze: a context to leave out; may be repeated.
    """
    if name == "correct":
        raise InputError("probe", name, "a probe from `biaslab list`", "labels are planned with biaslab plan-labels")
    from biaslab import load_judge
    from biaslab.study import planning
    from biaslab.study.spending import measure as measure_speed

    options |= {"tests": card, "prices": prices.given(), "store": store}
    rule, most, answer = until.rule(seed), options["contexts"], options["answer"]
    if freeze is None and (exclude or direction != "two-sided" or rule is not None):
        raise InputError.plain("directions, exclusions and rules to stop are for frozen studies; add --freeze FILE")
    if freeze is not None and answer is not None:
        raise InputError("answer", answer, "the probe's own in a frozen study", "such as -p answer=text")
    chosen, dataset = make_probe(name, attribute, seed, param, protocol), data.load(attribute)
    model = load_judge(judge, dataset)
    result = planning.plan(chosen, model, dataset, **options)  # reports a wrong option before the judge is asked
    if measure:
        seconds = measure_speed(chosen, model, dataset, store)
        result = planning.plan(chosen, model, dataset, seconds_per_request=seconds, **options)
    typer.echo(str(result))
    if freeze is None:
        return
    from biaslab.report.preregistration import Hypothesis, freeze as freeze_study

    tested = [Hypothesis(result.metric, direction, options["effect"])]  # type: ignore[arg-type]
    named: dict[str, Any] = {"judge": judge, "dataset": data.name(attribute, "graded"), "data_path": data.path}
    named |= {"protocol": protocol[0] if protocol else None, "exclude": exclude or (), "seed": seed or 0}
    named |= {"contexts": most, "until": rule, "alpha": result.alpha}
    study = freeze_study(freeze, chosen, hypotheses=tested, planned=result, **named)
    sampling, least = study.tables["sampling"], "" if rule is None else "at most "
    power = (
        f", power {'' if rule is None or rule.looks else 'at least '}{sampling['power']:.3g}"
        if "power" in sampling
        else ""
    )
    typer.echo(
        f"\nfrozen: {freeze}, {freeze.with_suffix('.md')}: {least}{count(sampling['contexts'], 'context')}{power}"
    )
    typer.echo(f"digest {study.digest}; next: biaslab run {freeze}")


@command(study_app)
def run(
    study: Path,
    /,
    *,
    judge: str | None = None,
    path: Path | None = None,
    store: Path = _STORE,
    out: Path | None = None,
    allow_departures: bool = False,
) -> None:
    """Run a frozen study, exactly as it was planned.

    Refuses what differs from the file: parameters, contexts, scores, judge. Lists
    versions of packages that differ.

    Parameters
    ----------
    study : FILE.toml
        Written by biaslab plan --freeze.
    judge
        Another name of the same judge, such as at another address.
    path
        The file of the data set, if it was moved.
    out : STEM
        Write STEM.csv and STEM.md; default: the name of the study with _results.
    allow_departures
        List departures on the page instead of refusing them.
    """
    from biaslab import load_dataset
    from biaslab.report.preregistration import FrozenStudy

    frozen = FrozenStudy.read(study)
    data = None if path is None else load_dataset(frozen.tables["data"]["name"], path)
    options: dict[str, Any] = {"judge": judge, "dataset": data, "store": store, "allow_departures": allow_departures}
    result = frozen.run(progress=sys.stderr.isatty(), **options)
    files = result.save(study.with_name(f"{study.stem}_results") if out is None else out)
    typer.echo(f"{result}\nwritten: {', '.join(map(str, files))}")


@command(study_app, calls="biaslab.correct.label_plan:plan_labels", takes=("estimand", "power", "alpha"))
def plan_labels(
    *,
    judged: Path,
    labels: Path | None = None,
    log: LogOptions,
    effect: float | None = None,
    system: list[str] | None = None,
    budget: int | None = None,
    out: Path | None = None,
    **options: Any,
) -> None:
    """Plan human labels: how many, and in which contexts.

    Shows how many contexts people must label, with and without a judge's help; chooses them for a --budget.

    Parameters
    ----------
    judged : FILE
        Saved trials, or a log.
    labels : FILE
        Pilot labels; default: those in the trials.
    effect
        The shift to detect, in the metric's unit.
    system : NAME
        A system of interest; may be repeated.
    budget
        Number of contexts to choose for labelling.
    estimand : NAME
        mean_score, win_rate, difference or systems; default: depends on the trials.
    power
        Probability of detecting the shift if it exists.
    alpha
        Two-sided significance level.
    """
    require_table(out)
    if effect is None and budget is None:
        raise InputError.plain("effect or budget is required, such as --effect .05 or --budget 40")
    from biaslab.correct import choose_contexts, plan_labels
    from biaslab.correct.labels import HumanLabels
    from biaslab.logs.readers import read_judgements

    mapping, known = log.with_labels(judged, labels)
    trials = read_judgements(judged, log.format_, mapping)
    if effect is not None:
        given = replace(HumanLabels.read(known, trials), fills=True)
        typer.echo(str(plan_labels(trials, given, effect, systems=system or None, **options)))
    if budget is not None:
        chosen = choose_contexts(trials, budget)
        typer.echo(f"to label: {', '.join(chosen['context_id'].head(10))}{', …' if len(chosen) > 10 else ''}")
        write_table(chosen, out, "context")
        if out is not None:
            what = f'"{judged}"' if (trials["probe"] == "recorded").all() else "data"
            read = f", mapping={mapping!r}" if mapping and what != "data" else ""
            typer.echo(f'label them by hand: bl.label({what}, contexts="{out}", path="labels.csv"{read})')


batch_app = typer.Typer(help="Judge through OpenAI's Batch API or vLLM's run-batch.", no_args_is_help=True)


@command(batch_app)
def export(
    name: str,
    out: Path,
    /,
    *,
    judge: str,
    dataset: str = "graded",
    path: Path | None = None,
    contexts: int | None = None,
    attribute: list[str] | None = None,
    param: list[str] | None = None,
    store: Path = _STORE,
    seed: int | None = None,
) -> None:
    """Export the requests of a probe that the store does not answer.

    Parameters
    ----------
    name : PROBE
        A probe from `biaslab list`, such as position.
    out : FILE.jsonl
        The file of exported requests.
    judge
        The judge, such as api:gpt-4o-mini.
    seed
        Random seed, as for `biaslab probe`.
    """
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
    typer.echo(f"{exported.requests:,} requests; next: biaslab batch submit {out} or vllm run-batch -i FILE -o RESULTS")


@command(batch_app)
def submit(out: Path, /, key: str | None = None) -> None:
    """Upload the files and start their batches, each once; costs money.

    Parameters
    ----------
    out : FILE.jsonl
        The file of exported requests.
    key : NAME
        Environment variable of the API key.
    """
    from biaslab.judges.api.batch import BatchJobs

    new = BatchJobs(out, key).submit()
    for job in new:
        typer.echo(f"{job.file}: {job.batch}")
    typer.echo(f"{len(new)} submitted; next: biaslab batch status {out}" if new else "all files are submitted already")


@command(batch_app)
def status(out: Path, /, key: str | None = None) -> None:
    """Show the progress of the batches.

    Parameters
    ----------
    out : FILE.jsonl
        The file of exported requests.
    key : NAME
        Environment variable of the API key.
    """
    from biaslab.judges.api.batch import BatchJobs

    jobs = BatchJobs(out, key).update()
    for job in jobs:
        typer.echo(f"{job.file}: {job.batch} {job.status}, {job.done:,} of {job.total:,} done")
    if not jobs:
        typer.echo(f"nothing was submitted; next: biaslab batch submit {out}")


@command(batch_app, "import")
def import_replies(
    out: Path, results: list[Path] | None = None, /, store: Path = _STORE, key: str | None = None
) -> None:
    """Import replies into the store; may be partial or repeated.

    Parameters
    ----------
    out : FILE.jsonl
        The file of exported requests.
    results
        Result files, such as vLLM's; default: download them.
    store
        Store of replies.
    key : NAME
        Environment variable of the API key.
    """
    from biaslab.judges.api.batch import BatchJobs, import_results, read_keys
    from biaslab.store import Store

    read_keys(out)
    files = results or BatchJobs(out, key).fetch()
    with Store(store) as kept:
        imported = import_results(out, files, kept)
    known = f"{imported.stored:,} replies stored, {imported.present:,} already stored, {imported.repeated:,} repeated"
    typer.echo(f"{known}, {imported.unknown:,} from other exports, {imported.open:,} requests still open")
    for words, times in imported.failed.most_common():
        typer.echo(f"  {times:,} × {words}")
    if imported.open:
        typer.echo("to ask the open requests: run the same `biaslab probe` command, or export another batch")


protocol_app = typer.Typer(help="Try out your own judge prompt and parser.", no_args_is_help=True)
_MOST_POINTS = 12
_LISTED = 3  # candidates of a list that are shown


@command(protocol_app)
def check(
    file: Path,
    /,
    name: str | None = None,
    dataset: str = "graded",
    path: Path | None = None,
    attribute: str | None = None,
    reply: list[str] | None = None,
    replies: Path | None = None,
) -> None:
    """Show the prompt of one item, then write and parse each verdict.

    Also parses the replies you pass. Exit code 2: the file is not a valid
    protocol or does not fit the data set; the message says why.

    Parameters
    ----------
    file : FILE
        Judge prompt: a TOML file, the format of its authors, or a name.
    name
        Name of the prompt, if the file holds several.
    dataset
        Data set of the example item; see `biaslab list`.
    attribute
        Attribute to judge; default: the data set's first.
    reply : TEXT
        Parse this reply; may be repeated.
    replies : FILE.txt
        Parse the replies in this file, separated by lines of ---.
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
