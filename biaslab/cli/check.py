"""``biaslab check``: a pass/fail gate for judges, with user-defined limits."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from biaslab.cli.options import Contexts, DataPath, Knobs, StorePath, Table, require_table, write_table
from biaslab.core.checks import require_whole, unknown
from biaslab.core.errors import InputError
from biaslab.core.output import replacing, require_file
from biaslab.core.written import pairs

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.report.limits import Limit

_TABLE = "limits"


def check(
    judge: Annotated[str | None, typer.Option(help="The judge; see `biaslab list`.")] = None,
    estimates: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Check these estimates instead of asking a judge.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=LOW:HIGH", help="Allowed range of a metric; may be repeated."),
    ] = None,
    limits: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help='TOML file with a [limits] table: metric = "LOW:HIGH".')
    ] = None,
    dataset: Annotated[str, typer.Option(help="The data set; see `biaslab list`.")] = "graded",
    path: DataPath = None,
    contexts: Contexts = None,
    param: Knobs = None,
    store: StorePath = Path("judgements.sqlite"),
    out: Table = None,
    runs: Annotated[
        int, typer.Option(metavar="K", help="Run the study K times, each with its own store; the majority decides.")
    ] = 1,
    junit: Annotated[Path | None, typer.Option(metavar="FILE.xml", help="Write a JUnit report.")] = None,
) -> None:
    """Check a judge against limits; the exit code gives the result.

    Exit code 0: every interval lies inside its limits. 1: one lies outside. 4: the
    study is too small to tell (counts as a failure). With --runs, the majority of
    runs decides, so that a judge with random answers does not make builds flaky.
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
        from biaslab.cli.report import read_estimates

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

    written = {
        **(_of_file(file) if file else {}),
        **pairs(options, "limit", "METRIC=LOW:HIGH, such as halo_excess=:.2"),
    }
    if not written:
        raise InputError("limit", None, "at least one METRIC=LOW:HIGH", "such as --limit first_position_rate=.4:.6")
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
    from biaslab.cli.knobs import make_probes
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
