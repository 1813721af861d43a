"""Commands about estimates: ``biaslab card``, ``table``, ``compare``, ``correct``, ``robustness`` and more."""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from biaslab.cli.audit import audit_log, is_log, not_measured, read_logs
from biaslab.cli.command import command
from biaslab.cli.options import DataOptions, LogOptions, make_probes, require_table, write_table
from biaslab.core.checks import is_there, pairs, require_whole, unknown
from biaslab.core.errors import BiaslabError, InputError
from biaslab.core.files import read_csv
from biaslab.core.output import count, replacing, require_file

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.probes.base.probe import Probe
    from biaslab.report.limits import Limit

estimates_app = typer.Typer()

_SUFFIXES = (".tex", ".md", ".html", ".csv")
_NEEDED = ("probe", "judge", "dataset", "metric", "estimate", "ci_low", "ci_high")  # what every command reads


@command(estimates_app)
def card(
    judges: list[str],
    /,
    *,
    data: DataOptions,
    contexts: int | None = None,
    candidates: int = 2,
    attribute: list[str] | None = None,
    param: list[str] | None = None,
    protocol: list[Path] | None = None,
    probe: list[str] | None = None,
    remedies: Path | None = None,
    store: Path = Path("judgements.sqlite"),
    out: Path = Path("card"),
    seed: int = 0,
) -> None:
    """Say whether judges can be trusted: make their bias card.

    Shows several judges side by side. Replies in the store are not asked again.
    A log (recorded:FILE or atlas:JUDGE@SOURCE) is audited as it is, unless
    --dataset names the data that was judged.
    -p scale=1-10 sets all probes that have a scale; -p position.n_pairs=3 sets one.

    Parameters
    ----------
    judges : JUDGE…
        The judges to measure; see `biaslab list`.
    dataset
        The data set; see `biaslab list`. Default: graded; for a log, its own.
    candidates
        Candidates to score per context, drawn at random.
    probe : NAME
        Measure this bias; may be repeated. Default: all.
    remedies : FILE.csv
        Estimates with remedies applied, with a column `remedy`.
    out : STEM
        Write STEM.html, .md, .png and .csv.
    """
    require_file("out", out)
    for name, value in (("contexts", contexts), ("candidates", candidates)):
        if value is not None:
            require_whole(name, value, 1)
    from biaslab import load_judge
    from biaslab.report.screening import Measured, measure_all

    remedied = read_estimates(remedies) if remedies is not None else None
    probes = _kinds(probe)
    options = {"seed": seed, "attributes": attribute, "n_candidates": candidates}
    chosen = make_probes(probes, param, options, protocol)
    logs = [name for name in judges if data.dataset is None and is_log(name)]
    frames = [audit_log(name, [kind.name for kind in probes]) for name in logs]
    reasons = [why for frame in frames for why in not_measured(frame)]
    measured = Measured(out, remedied, frames, reasons, say=typer.echo)
    asked = [name for name in judges if name not in logs]
    if asked:
        dataset = data.load(attribute, contexts)
        if attribute:
            dataset.require_attributes(attribute)
        for name in asked:
            measure_all(load_judge(name, dataset), chosen, dataset, store, measured)
    if not measured.frames:
        raise next(iter(measured.ended.values()), BiaslabError("nothing could be measured"))
    for name, why in measured.ended.items():
        typer.echo(f"{name}: stopped asking: {why}")
    written = measured.card()
    typer.echo(written)
    typer.echo(f"written: {', '.join(map(str, written.save(out)))}")


@command(estimates_app, calls="biaslab.report.tables:to_latex", takes=("across", "stars", "digits", "caption", "label"))
def table(
    estimates: Path,
    /,
    metric: list[str] | None = None,
    where: list[str] | None = None,
    out: Path | None = None,
    macros: Path | None = None,
    checklist: Path | None = None,
    **options: Any,
) -> None:
    """Format estimates as a table and macros for a paper.

    Parameters
    ----------
    estimates : ESTIMATES.csv
        Estimates written by `biaslab probe --out`.
    metric : NAME
        Show this metric; may be repeated. Default: the primary ones.
    where : COLUMN=VALUE
        Keep only these rows; may be repeated.
    across : COLUMN
        Spread this column: one table column per value.
    out : FILE
        Output file (.tex, .md, .html or .csv); default: print Markdown.
    macros : FILE.tex
        Also write the numbers as LaTeX macros.
    checklist : FILE
        Also answer the items of published checklists for LLM judges (.md, .tex or .json).
    """
    for option, file, endings in (
        ("out", out, _SUFFIXES), ("macros", macros, (".tex",)), ("checklist", checklist, (".md", ".tex", ".json")),
    ):  # fmt: skip
        if file is not None:
            require_file(option, file, *endings)
    from biaslab import report
    from biaslab.core.metrics import is_primary

    frame = _chosen(read_estimates(estimates), where or [])
    if not metric and frame["estimate"].notna().any():
        frame = frame[frame["estimate"].notna()]  # the reason why there is none is for those who ask for a metric
    named = dict.fromkeys(zip(frame["metric"], frame["probe"], strict=True))
    wanted = metric or [one for one, of in named if is_primary(one, of)] or None
    label, digits = options.pop("label"), options["digits"]
    if out is None:
        typer.echo(report.to_markdown(frame, wanted, **options))
    else:
        layout_options = {".csv": {"digits": digits}, ".tex": options | {"label": label}}.get(out.suffix, options)
        report.write(frame, out, metric=wanted, **layout_options)
        typer.echo(f"written to {out}")
    if checklist is not None:
        items = report.checklist(frame)
        forms = {".md": items.to_markdown, ".tex": items.to_latex, ".json": items.to_json}
        with replacing(checklist) as partial:
            partial.write_text(forms[checklist.suffix](), encoding="utf-8")
        answered = int(items.items["answer"].ne("").sum())
        typer.echo(f"{answered} of {len(items.items)} items of the checklist answered: {checklist}")
    if macros is not None:
        text = report.to_macros(frame, wanted, digits=digits)
        with replacing(macros) as partial:
            partial.write_text(text, encoding="utf-8")
        typer.echo(f"{count(text.count('newcommand'), 'macro')} written to {macros}")
    if out is not None:
        typer.echo(f"methods: {report.methods(frame, wanted)}")


def read_estimates(path: Path) -> pd.DataFrame:
    """Read estimates from CSV; only empty cells are missing, so an attribute may be called "NA"."""
    if not (is_there(path) and path.is_file()):
        raise InputError("file", str(path), "a CSV file of estimates", "write one with `biaslab probe --out`")
    remedy = "`biaslab audit LOG --out FILE.csv` and `biaslab probe --out FILE.csv` write one"
    try:
        frame = read_csv(path, keep_default_na=False, na_values=[""])
    except (ValueError, UnicodeError) as error:
        raise InputError("file", str(path), f"a CSV file of estimates ({error})", remedy) from error
    missing = [name for name in _NEEDED if name not in frame]
    if missing:
        allowed = f"a CSV file of estimates; these columns are missing: {', '.join(missing)}"
        raise InputError("file", str(path), allowed, remedy)
    return frame


def _chosen(frame: pd.DataFrame, where: list[str]) -> pd.DataFrame:
    """Return the rows that satisfy every ``COLUMN=VALUE``."""
    from biaslab.report.wording import condition_text

    form = f"COLUMN=VALUE, the column one of {', '.join(frame.columns)}"
    for column, value in pairs(where, "where", form).items():
        if column not in frame:
            raise InputError("where", f"{column}={value}", form)
        known = frame[column].map(condition_text)
        if value not in set(known):
            raise InputError("where", f"{column}={value}", f"a value among {', '.join(dict.fromkeys(known))}")
        frame = frame[known == value]
    return frame


def _kinds(names: Sequence[str] | None) -> list[type[Probe]]:
    """Return the named probes, by default all; raise `InputError` if none of them measures a bias."""
    from biaslab.probes import available, find_probe

    kinds = [find_probe(name) for name in names] if names else list(available().values())
    if all(_has_no_bias(kind) for kind in kinds):
        biases = [name for name, kind in available().items() if not _has_no_bias(kind)]
        allowed = f"at least one that measures a bias: {', '.join(biases)}"
        raise InputError("probe", names, allowed, "a card shows agreement only next to biases")
    return kinds


def _has_no_bias(kind: type[Probe]) -> bool:
    from biaslab.core.metrics import find_metric

    return all(find_metric(name, kind.name).quality for name in kind.primary)


_TABLE = "limits"


@command(estimates_app)
def check(
    judge: str | None = None,
    estimates: Path | None = None,
    limit: list[str] | None = None,
    limits: Path | None = None,
    dataset: str = "graded",
    path: Path | None = None,
    contexts: int | None = None,
    param: list[str] | None = None,
    store: Path = Path("judgements.sqlite"),
    out: Path | None = None,
    runs: int = 1,
    junit: Path | None = None,
) -> None:
    """Check a judge against limits; the exit code gives the result.

    Exit code 0: every interval lies inside its limits. 1: one lies outside. 4: the
    study is too small to tell (counts as a failure). With --runs, the majority of
    runs decides, so that a judge with random answers does not make builds flaky.

    Parameters
    ----------
    estimates : FILE.csv
        Check these estimates instead of asking a judge.
    limit : METRIC=LOW:HIGH
        Allowed range of a metric; may be repeated.
    limits : FILE.toml
        TOML file with a [limits] table: metric = "LOW:HIGH".
    runs : K
        Run the study K times, each with its own store; the majority decides.
    junit : FILE.xml
        Write a JUnit report.
    """
    require_table(out)
    if junit is not None:
        require_file("junit", junit, ".xml")
    if contexts is not None:
        require_whole("contexts", contexts, 1)
    require_whole("runs", runs, 1)
    if runs > 1 and estimates is not None:
        raise InputError("runs", runs, "1 with --estimates", "to repeat the study, give --judge instead")
    wanted = _limits(limit, limits)
    if (judge is None) == (estimates is None):
        raise InputError("judge", judge, "either --judge or --estimates, not both")
    from biaslab.report.limits import check_limits, check_runs, exit_code, to_junit

    if estimates is not None:
        checked = check_limits(read_estimates(estimates), wanted)
    else:
        stores = [store, *(store.with_name(f"{store.stem}.run{k}{store.suffix}") for k in range(2, runs + 1))]
        frames = [_ask_judge(str(judge), wanted, dataset, path, contexts, param, each) for each in stores]
        each_run = [check_limits(frame, wanted) for frame in frames]
        checked = each_run[0] if runs == 1 else check_runs(each_run)
    for words in checked["sentence"]:
        typer.echo(words)
    write_table(checked, out, "estimate")
    if junit is not None:
        with replacing(junit) as partial:
            partial.write_text(to_junit(checked), encoding="utf-8")
    raise typer.Exit(exit_code(list(checked["place"])))


def _limits(options: Sequence[str] | None, file: Path | None) -> dict[str, Limit]:
    """Return limits by metric; the command line overrides the file."""
    from biaslab.report.limits import Limit

    in_options = pairs(options, "limit", "METRIC=LOW:HIGH, such as halo_excess=:.2")
    written = {**(_of_file(file) if file else {}), **in_options}
    if not written:
        raise InputError.plain("a limit is required, such as --limit first_position_rate=.4:.6")
    return {metric: Limit.read(metric, text) for metric, text in written.items()}


def _of_file(file: Path) -> Mapping[str, str]:
    """Return the limits in a TOML file, as text by metric."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get(_TABLE)
    except (OSError, ValueError) as error:
        raise InputError("limits", str(file), f"a TOML file ({error})") from None
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise InputError("limits", str(file), 'a table [limits] with lines such as first_position_rate = ".4:.6"')
    return table


def _ask_judge(
    name: str,
    wanted: Mapping[str, Limit],
    dataset: str,
    path: Path | None,
    contexts: int | None,
    param: Sequence[str] | None,
    store: Path,
) -> pd.DataFrame:
    """Return the estimates of the metrics, from every probe that has one of them as a primary metric."""
    import pandas as pd

    from biaslab import collect, load_dataset, load_judge
    from biaslab.probes import available

    probes = available().values()
    known = {metric: kind for kind in probes for metric in kind.primary}
    for metric in wanted:
        if metric not in known:
            raise unknown("limit", metric, sorted(known))
    kinds = [kind for kind in probes if set(kind.primary) & set(wanted)]
    chosen = make_probes(kinds, param, {})
    data = load_dataset(dataset, path, limit=contexts)
    judge = load_judge(name, data)
    frames = []
    for probe in chosen:
        trials = collect(probe, judge, data, store=store, progress=sys.stderr.isatty())
        frames.append(probe.estimate(trials, [metric for metric in probe.primary if metric in wanted]))
    return pd.concat(frames, ignore_index=True)


_FILE = "file"


@command(estimates_app)
def compare(
    files: list[Path],
    /,
    by: str | None = None,
    probe: str | None = None,
    metric: list[str] | None = None,
    reference: str | None = None,
    out: Path | None = None,
) -> None:
    """Compare judges on the contexts they share.

    Differences are paired by context. Two files of one judge, such as last
    month's and today's, are distinguished by file name.

    Parameters
    ----------
    files : FILE…
        Saved trials, logs, or CSV files of estimates.
    by : COLUMN
        Column to compare by. Default: judge; with one judge, the file.
    probe : NAME
        For logs: the probe to estimate.
    metric : NAME
        Compare this metric; may be repeated. Default: the primary ones.
    reference : VALUE
        Reference value to compare the others with.
    """
    require_table(out)
    import pandas as pd

    from biaslab.correct import compare as compare_all
    from biaslab.probes import find_probe
    from biaslab.report.verdicts import classify

    frames = [_read(file) for file in files]
    are_estimates = {"estimate" in frame for frame in frames}
    if len(are_estimates) > 1:
        raise InputError("files", [file.name for file in files], "all trials, or all estimates")
    frame = pd.concat([one.assign(**{_FILE: file.stem}) for one, file in zip(frames, files, strict=True)])
    chosen = by or ("judge" if len(set(frame["judge"])) > 1 else _FILE)
    estimator = None if probe is None else find_probe(probe)()
    comparison = compare_all(frame, chosen, metric, reference=reference, probe=estimator, progress=False)
    shifts = comparison[comparison["role"] == "difference"]
    found = classify(shifts.drop(columns="compared"))
    with_words = shifts.assign(words=[each.sentence for each in found])
    for (names, about), rows in with_words.groupby(["compared", "metric"], sort=False):
        typer.echo(f"{names}: {about}" + "".join(f"\n  {words}" for words in rows["words"]))
    left = comparison.attrs["contexts_left_out"]
    if left:
        typer.echo(f"left out: {count(left, 'context')} judged on one side only")
    write_table(comparison, out, "estimate")


def _read(file: Path) -> pd.DataFrame:
    """Read estimates, or judgements in any known format."""
    from biaslab import read_judgements

    if is_there(file) and file.suffix == ".csv":
        with suppress(ValueError):  # empty, or no UTF-8: no estimates of ours
            head = read_csv(file, nrows=1)
            if {"estimate", "se", "metric"} <= set(head.columns):
                return read_csv(file, keep_default_na=False, na_values=[""])
    return read_judgements(file)


@command(estimates_app)
def correct(
    files: list[Path], /, *, labels: Path | None = None, by: str = "system", log: LogOptions, out: Path | None = None
) -> None:
    """Correct the judge's numbers of systems with people's labels.

    Prints the judge's and the corrected pass rate, mean score or win rate of each system,
    differences with p and q, and ranks. The labelled items must be all, or a random part.

    Exit code 4: more than half of a log could not be read.

    Parameters
    ----------
    files : FILE…
        Logs, as in `biaslab audit`.
    labels : FILE
        People's labels of a part, with the log's identifiers; default: those in the log.
    by : COLUMN
        Compare the values of this column of the log, such as language, instead of systems.
    """
    require_table(out)
    from biaslab.correct.systems import correct_systems
    from biaslab.logs.audit.run import columns_to_keep

    mapping, known = log.with_labels(files[0], labels)
    keep = columns_to_keep([] if by == "system" else [by], ())
    trials = read_logs(files, log.format_, mapping, strict=False, keep=keep)
    if trials.attrs["by_people"]:
        raise InputError("files", [file.name for file in files], "a log with a judge's verdicts", "pass it as --labels")
    corrected = correct_systems(trials, known, by)
    typer.echo(f"\n{corrected}")
    write_table(corrected.estimates, out, "estimate")
    if out is not None:
        metrics = corrected.estimates["metric"]
        named = dict.fromkeys([metrics.iloc[0], *metrics[metrics == "rank"]])
        shown = f"{' '.join(f'--metric {name}' for name in named)} --across correction"
        typer.echo(f"for a paper: biaslab table {quote(str(out))} {shown} --out table.tex --macros numbers.tex")
    if corrected.plan is not None and len(files) == 1 and by == "system":
        words = f"--judged {quote(str(files[0]))}{log.words(labels)}"
        typer.echo(f"next: biaslab plan-labels {words} --estimand systems --effect {corrected.plan.effect:g}")


@command(estimates_app, calls="biaslab.correct.joint_effects:joint", takes=("reliability", "cluster"))
def joint(
    file: Path,
    /,
    *,
    labels: Path | None = None,
    dataset: str | None = None,
    covariate: list[str] | None = None,
    own: list[str] | None = None,
    without: list[str] | None = None,
    log: LogOptions,
    out: Path | None = None,
    **options: Any,
) -> None:
    """Estimate all biases of a log at once, at equal human label.

    Prints each bias alone beside each jointly with the others, and the agreement with people that
    would be left without them: position, length, familiarity, own system, lists, Markdown, covariates.

    Reads logs as `biaslab audit` does.

    Parameters
    ----------
    file : FILE
        A log with people's labels.
    labels : FILE
        People's labels, if they are in a file of their own.
    dataset
        Take human scores and texts from this data set; see `biaslab list`.
    covariate : TERM=COLUMN
        A further term: of scores TERM=COLUMN, of pairs TERM=FIRST,SECOND; columns may be added, a+b.
        Terms length, lists and markdown are counted in texts; may be repeated.
    own : JUDGE=SYSTEM
        The own system of a judge; may be repeated.
    without : TERM
        Terms to leave out together; by default each and all; may be repeated.
    """
    require_table(out)
    from biaslab import load_dataset, read_judgements
    from biaslab.correct.joint_effects import columns_of, joint as run
    from biaslab.correct.labels import with_labels
    from biaslab.logs.readers.card import ReadingCard

    mapping, known = log.with_labels(file, labels)
    if str(file).startswith("atlas:"):
        trials = read_logs([file], log.format_, mapping, strict=False)
    else:
        trials = read_judgements(file, log.format_, mapping, keep=columns_of(covariate or (), options.get("cluster")))
        typer.echo(ReadingCard(trials.attrs["reading"]))
    if known is not None:
        trials = with_labels(trials, known)
    options |= {"own": pairs(own, "own", "JUDGE=SYSTEM"), "without": without or None}
    found = run(trials, load_dataset(dataset) if dataset else None, covariates=covariate or (), **options)
    typer.echo(str(found))
    write_table(found.estimates, out, "estimate")


def _label_tables(labels: Path | None) -> Any:
    """Read people's labels by annotator and item, if a file is given."""
    from biaslab.correct.annotations import read_label_tables

    found = None if labels is None else read_label_tables(labels)
    if labels is not None and found is None:
        raise InputError("labels", str(labels), "labels by annotator and item, like the file")
    return found


def _require_two_judges(only: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise `InputError` if an option is given that OLD NEW does not have."""
    from biaslab.correct.replacement import replace as run

    usual = {name: signature(run).parameters[name].default for name in options}
    given = [f"--{name}" for name, value in {**only, **options}.items() if value != usual.get(name)]
    if given:
        raise InputError.plain(f"OLD NEW compares two judges; leave out {', '.join(given)}")


@command(
    estimates_app,
    calls="biaslab.correct.replacement:replace",
    takes=("epsilon", "error", "within", "least", "confidence"),
)
def replace(
    file: Path,
    new: Path | None = None,
    /,
    *,
    labels: Path | None = None,
    judge: list[str] | None = None,
    log: LogOptions,
    price: float | None = None,
    people: Path | None = None,
    page: Path | None = None,
    out: Path | None = None,
    **options: Any,
) -> None:
    """Say whether a judge may replace a person, or an old judge.

    Prints the alternative annotator test (Calderon et al. 2025), the verdicts that may stand at a
    promised error, those that people must give, and whether the judge's confidence is calibrated.
    With two logs, OLD NEW: what changes with a new judge, and whether it matters.

    Reads logs as `biaslab audit` does, tables with annotator, item and label, and JSON of
    annotator, item and label.

    Parameters
    ----------
    file : FILE
        A log or a table of labels; the old judge's log if a second one is given.
    new : NEW
        The new judge's log.
    labels : FILE
        People's labels, if they are in a file of their own.
    judge : NAME
        Who is a judge, in a table with people's labels too, or which judges; may be repeated.
    price
        Price of a label in dollars, to show what labels by people cost.
    people : FILE.csv
        Write the items that people must still label to this new file, to be filled in.
    page : FILE.html
        Write the sentences as a page.
    """
    if people is not None and people.exists():
        raise InputError("people", str(people), "a new file; labels that you have are --labels")
    for name, target, ending in (("people", people, ".csv"), ("page", page, ".html")):
        if target is not None:
            require_file(name, target, ending)
    require_table(out)
    if price is not None and not 0 <= price < math.inf:
        raise InputError("price", price, "dollars from 0")
    from biaslab.correct import replace_judge
    from biaslab.correct.annotations import read_label_tables
    from biaslab.correct.replacement import replace as run

    if new is not None:
        _require_two_judges({"judge": judge or None, "people": people, "price": price}, options)
    found: Any
    options["judges"] = judge or None
    tables = read_label_tables(file)
    if tables is not None and new is None:
        found = run(tables, _label_tables(labels), **options)
    else:
        mapping, known = log.with_labels(file, labels)
        keep = [] if options["confidence"] is None else [options["confidence"]]
        files = [each for each in (file, new) if each is not None]
        trials = [read_logs([each], log.format_, mapping, strict=False, keep=keep) for each in files]
        found = run(trials[0], known, **options) if new is None else replace_judge(trials[0], trials[1], known)
    typer.echo(str(found))
    if new is None:
        for each in found.judges if price is not None else ():
            costs = each.selection.price(price, max(len(each.annotators), 1))
            typer.echo(f"{each.judge}: labels of all ${costs['all']:,.2f}, of the rest ${costs['to_people']:,.2f}")
        write_table(found.for_people, people, "item")
    if page is not None:
        title = "<!DOCTYPE html><meta charset=utf-8><title>biaslab replace</title>"
        with replacing(page) as partial:
            partial.write_text(f"{title}{found.to_html()}", encoding="utf-8")
    write_table(found.estimates, out, "estimate")


@command(
    estimates_app,
    calls="biaslab.correct.specifications:robustness",
    takes=("conclusion", "system", "other", "half_width"),
)
def robustness(
    study: list[Path],
    /,
    *,
    labels: Path | None = None,
    log: LogOptions,
    choice: list[str] | None = None,
    price: float = 1.0,
    price_context: float = 0.0,
    dataset: str | None = None,
    path: Path | None = None,
    figures: Path | None = None,
    out: Path | None = None,
    **options: Any,
) -> None:
    """Say whether a conclusion hangs on one choice.

    Estimates the conclusion under every choice that the judgements allow: judge, template, scale,
    attribute, label, ties, missing verdicts, orders, replicates, weights and length. Prints the share
    that agree, the permutation test of the median (Simonsohn et al. 2020), which choice moves the
    result most, and its error over contexts, judges, prompts and samples.

    Parameters
    ----------
    study : STUDY…
        Logs, as in `biaslab audit`, saved trials, or a store of replies.
    labels : FILE
        People's labels, if they are in a file of their own; those of several people are a choice.
    choice : NAME=LEVEL,…
        Restrict a choice, such as ties=half,dropped; or make a column of the log one. May be repeated.
    conclusion : METRIC
        win_rate, score_difference, comparative_accuracy, longer_wins or first_position_rate.
    price
        Price of a judgement, for the cheapest design.
    price_context
        Price of a context, such as its label by people.
    dataset
        For a store: the data that was judged; default: graded.
    figures : FOLDER
        Write the specification curve to this folder.
    out : FILE.csv
        Write the specifications.
    """
    require_table(out)
    from biaslab import load_dataset
    from biaslab.cli.store import is_store, of_store
    from biaslab.correct import Costs, robustness as run
    from biaslab.correct.specifications import RULES
    from biaslab.logs.audit.run import columns_to_keep

    choices = {name: levels.split(",") for name, levels in pairs(choice, "choice", "NAME=LEVEL,LEVEL").items()}
    if stores := [each for each in study if is_store(each)]:
        if len(stores) < len(study) or labels is not None:
            raise InputError("study", [each.name for each in study], "all stores, without --labels, or all logs")
        data, known = load_dataset(dataset or "graded", path), None
        trials: Any = [of_store(each, data, None) for each in stores]
    else:
        mapping, known = log.with_labels(study[0], labels)
        keep = columns_to_keep([name for name in choices if name not in RULES], ())
        trials = [read_logs(study, log.format_, mapping, strict=False, keep=keep)]
    found = run(trials, labels=known, choices=choices, costs=Costs(price_context, price), **options)
    typer.echo(f"\n{found}")
    if figures is not None:
        from biaslab import plots

        curve = plots.specification_curve
        drawn = curve(found.specifications, name="robustness__curve", out=figures, headline=found.headline)
        typer.echo(f"written: {', '.join(map(str, drawn.paths))}")
    write_table(found.specifications, out, "specification")
