"""``biaslab card`` and ``biaslab table``: bias cards of judges, tables for papers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from biaslab.cli.audit import audit_log, is_log, not_measured
from biaslab.cli.knobs import make_probes
from biaslab.cli.options import Attributes, Columns, Contexts, DataPath, Knobs, Noun, Protocols, Scale, name_dataset
from biaslab.core.checks import is_there, require_whole
from biaslab.core.csv_files import read_csv
from biaslab.core.errors import BiaslabError, InputError
from biaslab.core.output import count, replacing, require_file

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.probes.base import Probe

_SUFFIXES = (".tex", ".md", ".html", ".csv")
_NEEDED = ("probe", "judge", "dataset", "metric", "estimate", "ci_low", "ci_high")  # what every command reads


def card(
    judges: Annotated[list[str], typer.Argument(metavar="JUDGE…", help="The judges to measure; see `biaslab list`.")],
    dataset: Annotated[
        str | None, typer.Option(help="The data set; see `biaslab list`. Default: graded; for a log, its own.")
    ] = None,
    path: DataPath = None,
    columns: Columns = None,
    scale: Scale = None,
    noun: Noun = None,
    contexts: Contexts = None,
    candidates: Annotated[int, typer.Option(help="Candidates to score per context, drawn at random.")] = 2,
    attribute: Attributes = None,
    param: Knobs = None,
    protocol: Protocols = None,
    probe: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Measure this bias; may be repeated. Default: all.")
    ] = None,
    remedies: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Estimates with remedies applied, with a column `remedy`.")
    ] = None,
    store: Annotated[Path, typer.Option(help="Store of replies.")] = Path("judgements.sqlite"),
    out: Annotated[Path, typer.Option(metavar="STEM", help="Write STEM.html, .md, .png and .csv.")] = Path("card"),
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
) -> None:
    """Say whether judges can be trusted: make their bias card.

    Shows several judges side by side. Replies in the store are not asked again.
    A log (recorded:FILE or atlas:JUDGE@SOURCE) is audited as it is, unless
    --dataset names the data that was judged.
    -p scale=1-10 sets all probes that have a scale; -p position.n_pairs=3 sets one.
    """
    require_file("out", out)
    for name, value in (("contexts", contexts), ("candidates", candidates)):
        if value is not None:
            require_whole(name, value, 1)
    from biaslab import load_dataset, load_judge
    from biaslab.report.measuring import Measured, measure_all
    from biaslab.report.summary import STATUS
    from biaslab.report.wording import correction

    remedied = read_estimates(remedies) if remedies is not None else None
    probes = _kinds(probe)
    options = {"seed": seed, "attributes": attribute, "n_candidates": candidates}
    chosen = make_probes(probes, param, options, protocol)
    logs = [name for name in judges if dataset is None and is_log(name)]
    frames = [audit_log(name, [kind.name for kind in probes]) for name in logs]
    reasons = [why for frame in frames for why in not_measured(frame)]
    measured = Measured(out, remedied, frames, reasons, say=typer.echo)
    asked = [name for name in judges if name not in logs]
    if asked:
        named = name_dataset(dataset, columns, scale, noun, attribute)
        data = load_dataset(named or "graded", path, limit=contexts)
        if attribute:
            data.require_attributes(attribute)
        for name in asked:
            measure_all(load_judge(name, data), chosen, data, store, measured)
    if not measured.frames:
        raise next(iter(measured.ended.values()), BiaslabError("nothing could be measured"))
    for name, why in measured.ended.items():
        typer.echo(f"{name}: stopped asking: {why}")
    written = measured.card()
    for row in written.biases.to_dict("records"):
        status = STATUS[row["status"]][1]
        typer.echo(f"{row['judge']}: {row['probe']}, {row['label']}: {status}: {row['verdict']}")
    typer.echo(f"“found” means q < .05 over {correction(written.cells)} on this card")
    typer.echo(f"written: {', '.join(map(str, written.save(out)))}")


def table(
    estimates: Annotated[
        Path, typer.Argument(metavar="ESTIMATES.csv", help="Estimates written by `biaslab probe --out`.")
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show this metric; may be repeated. Default: the primary ones."),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Keep only these rows; may be repeated.")
    ] = None,
    across: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Spread this column: one table column per value.")
    ] = None,
    stars: Annotated[bool, typer.Option("--stars", help="Mark small q-values with stars.")] = False,
    digits: Annotated[int, typer.Option(help="Number of decimals.")] = 3,
    caption: Annotated[str | None, typer.Option(help="Text to put before the standard caption.")] = None,
    label: Annotated[str | None, typer.Option(help="Key for LaTeX's \\label.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output file (.tex, .md, .html or .csv); default: print Markdown."),
    ] = None,
    macros: Annotated[
        Path | None, typer.Option(metavar="FILE.tex", help="Also write the numbers as LaTeX macros.")
    ] = None,
) -> None:
    """Format estimates as a table and macros for a paper."""
    if out is not None:
        require_file("out", out, *_SUFFIXES)
    if macros is not None:
        require_file("macros", macros, ".tex")
    from biaslab import report
    from biaslab.core import is_primary

    frame = _chosen(read_estimates(estimates), where or [])
    named = dict.fromkeys(zip(frame["metric"], frame["probe"], strict=True))
    wanted = metric or [one for one, of in named if is_primary(one, of)] or None
    options: dict[str, Any] = {"metric": wanted, "digits": digits}
    shape: dict[str, Any] = {"across": across, "stars": stars, "caption": caption}
    if out is None:
        typer.echo(report.to_markdown(frame, **options, **shape))
    else:
        layout_options = {".csv": {}, ".tex": shape | {"label": label}}.get(out.suffix, shape)
        report.write(frame, out, **options, **layout_options)
        typer.echo(f"written to {out}")
    if macros is not None:
        text = report.to_macros(frame, wanted, digits=digits)
        with replacing(macros) as partial:
            partial.write_text(text, encoding="utf-8")
        typer.echo(f"{count(text.count('newcommand'), 'macro')} written to {macros}")


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

    for condition in where:
        column, equals, value = condition.partition("=")
        if not equals or column not in frame:
            raise InputError("where", condition, f"COLUMN=VALUE, the column one of {', '.join(frame.columns)}")
        known = frame[column].map(condition_text)
        if value not in set(known):
            raise InputError("where", condition, f"a value among {', '.join(dict.fromkeys(known))}")
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
    from biaslab.core import find_metric

    return all(find_metric(name, kind.name).quality for name in kind.primary)
