"""Options that several commands share, probes made from them, and how results are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

from biaslab.core.checks import pairs, read, unknown
from biaslab.core.errors import InputError
from biaslab.core.files import write_csv
from biaslab.core.output import count, require_file

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.core.schema import Dataset
    from biaslab.probes.base.probe import Probe
    from biaslab.prompts.protocols import Protocol


@dataclass(frozen=True)
class DataOptions:
    """The data set of a command.

    Parameters
    ----------
    columns : NAME=COLUMN,…
        For your own table: column names, such as text=summary,context=article.
    scale : LOW-HIGH
        For your own table: the scale of its scores.
    noun
        For your own table: the noun for a candidate in prompts, such as summary.
    """

    dataset: str | None = None
    path: Path | None = None
    columns: list[str] | None = None
    scale: str | None = None
    noun: str | None = None

    def name(self, attributes: Sequence[str] | None = None, default: str | None = None) -> str | None:
        """Return the name of the data set with the options for the user's own table, as `load_dataset` expects it.

        If the columns name no attribute, the attributes must be given.
        """
        dataset = self.dataset or default
        options = pairs([each for some in self.columns or () for each in some.split(",")], "columns", "NAME=COLUMN")
        options |= {key: value for key, value in (("scale", self.scale), ("noun", self.noun)) if value is not None}
        if dataset is None:
            if options:
                raise InputError.plain("these options need a data set; add --dataset tabular --path FILE")
            return None
        from biaslab.datasets import join_name, maps_columns

        if attributes and maps_columns(dataset):
            options["attributes"] = ",".join(attributes)
        return join_name(dataset, options)

    def load(self, attributes: Sequence[str] | None, contexts: int | None = None) -> Dataset:
        """Load the data set, by default the bundled one."""
        from biaslab import load_dataset

        return load_dataset(self.name(attributes, "graded") or "graded", self.path, limit=contexts)


@dataclass(frozen=True)
class PriceOptions:
    """Prices of tokens.

    Parameters
    ----------
    price_in
        Dollars per million input tokens.
    price_out
        Dollars per million output tokens.
    price_cached
        Dollars per million cached input tokens.
    """

    price_in: float | None = None
    price_out: float | None = None
    price_cached: float | None = None

    def given(self) -> dict[str, float] | None:
        """Return the given prices by kind of token; raise `InputError` if there are some, but not that of input."""
        prices = {"input": self.price_in, "output": self.price_out, "cached": self.price_cached}
        known = {kind: price for kind, price in prices.items() if price is not None}
        if known and "input" not in known:
            raise InputError.plain("price-in is required if another price is given")
        return known or None


@dataclass(frozen=True)
class LogOptions:
    """How to read a log.

    Parameters
    ----------
    format_ : NAME
        Format, such as llmbar or mapping; detected by default.
    map_ : NAME=FIELD
        COLUMN=field, COLUMN==constant or COLUMN=field~regex; may be repeated.
    mapping : FILE.toml
        A mapping file; can express more than --map.
    order_unknown
        The log does not record which candidate was shown first.
    """

    format_: str | None = None
    map_: list[str] | None = None
    mapping: Path | None = None
    order_unknown: bool = False

    def with_labels(self, log: Path, labels: Path | None) -> tuple[dict[str, Any] | Path | None, pd.DataFrame | None]:
        """Read labels, and show how; return the mapping with which the log is then to be read, and the labels."""
        if labels is None:
            return self.given_mapping(), None
        from biaslab.correct.label_files import read_labels_of
        from biaslab.logs.readers.card import ReadingCard
        from biaslab.logs.readers.mapping import read_mapping_file

        written = {} if self.mapping is None else read_mapping_file(self.mapping)
        of_file = not str(log).startswith("atlas:")
        table, mapping = read_labels_of(log if of_file else None, labels, self._entries(), written)
        if "reading" in table.attrs:
            typer.echo(ReadingCard(table.attrs["reading"]))
        return mapping, table

    def words(self, labels: Path | None = None) -> str:
        """Return the options, and a file of labels, as they are written in a command, each after a space."""
        given = {"format": [self.format_] if self.format_ else [], "map": self.map_ or []}
        given |= {"mapping": [str(self.mapping)] if self.mapping else []}
        given |= {"labels": [] if labels is None else [str(labels)]}
        flags = [f"--{name} {quote(value)}" for name, values in given.items() for value in values]
        return "".join(f" {flag}" for flag in [*flags, *(["--order-unknown"] if self.order_unknown else [])])

    def given_mapping(self) -> dict[str, Any] | Path | None:
        """Return the mapping from --map entries, a mapping file, or both."""
        entries = self._entries()
        if self.mapping is None or not entries:
            return entries or self.mapping
        from biaslab.logs.readers.mapping import read_mapping_file

        return read_mapping_file(self.mapping) | entries

    def _entries(self) -> dict[str, str]:
        given = [*(self.map_ or []), *(["order_known==false"] if self.order_unknown else [])]
        return pairs(given, "map", "NAME=FIELD, NAME==CONSTANT or NAME=FIELD~REGEX")


def require_table(out: Path | None) -> None:
    """Raise `InputError` unless a table can be written to this path; create a missing folder."""
    if out is not None:
        require_file("out", out, ".csv")


def write_table(frame: pd.DataFrame, out: Path | None, noun: str) -> None:
    """Write a table atomically, if a file is given, and print its number of rows."""
    if out is not None:
        write_csv(frame, out)
        typer.echo(f"{count(len(frame), noun)} written to {out}")


def make_probe(
    name: str,
    attributes: Sequence[str] | None,
    seed: int | None = None,
    given: Sequence[str] | None = None,
    protocols: Sequence[Path] | None = None,
) -> Probe:
    """Create a probe from the command-line options."""
    from biaslab.probes import find_probe

    kind = find_probe(name)
    return make_probes([kind], given, {"attributes": attributes or None, "seed": seed}, protocols)[0]


def make_probes(
    classes: Sequence[type[Probe]],
    parameters: Sequence[str] | None,
    options: Mapping[str, Any],
    protocols: Sequence[Path] | None = None,
) -> list[Probe]:
    """Create probes from command-line options and ``-p`` parameters.

    Parameters
    ----------
    classes : sequence of type
        The probe classes.
    parameters : sequence of str or None
        ``NAME=VALUE`` for every probe with that parameter, or ``PROBE.NAME=VALUE`` for one probe. Overrides `options`.
    options : mapping
        Options of the command; None, or an option that a probe lacks, keeps the probe's default.
    protocols : sequence of path, optional
        Files with prompt and parser, at most one for pairs and one for scores; each goes to the probes of its form. A
        probe that could use both gets the one for its default form.

    Raises
    ------
    InputError
        If no probe has such a parameter, a value is not allowed, or no probe takes a protocol.
    """
    by_form = _by_form(protocols or (), classes)
    written, names = pairs(parameters, "param", "NAME=VALUE, such as -p n_pairs=3"), {kind.name for kind in classes}
    own = {kind: hints(kind) for kind in classes}
    known = sorted(dict.fromkeys(name for each in own.values() for name in each), key=lambda name: "." in name)
    for name in written:
        probe, _, rest = name.partition(".")
        having = [kind for kind in classes if (kind.name == probe and rest in own[kind]) or name in own[kind]]
        if not having:
            mine = next((list(own[kind]) for kind in classes if kind.name == probe), known) if probe in names else known
            raise unknown("parameter", name, mine)
    probes = []
    for kind in classes:
        protocol = next((by_form[form] for form in _preferred(kind, by_form)), None)
        probes.append(_make(kind, {**options, "protocol": protocol}, written))
    return probes


def _by_form(files: Sequence[Path], classes: Sequence[type[Probe]]) -> dict[str, Protocol]:
    """Load protocols; raise `InputError` if no probe takes one of them."""
    from biaslab.prompts.protocols import Protocol

    forms = {kind.name: kind.protocol_forms for kind in classes}
    by_form: dict[str, Protocol] = {}
    for protocol in map(Protocol.loaded, files):
        if not any(protocol.form in each for each in forms.values()):
            taken = ", ".join(f"{name} ({' or '.join(each)})" for name, each in forms.items() if each)
            taken = taken or "none of them accepts one"
            raise InputError("protocol", f"{protocol.name} (for {protocol.form}s)", f"one that fits: {taken}")
        if protocol.form in by_form:
            names = f"{by_form[protocol.form].name} and {protocol.name}"
            raise InputError("protocol", names, f"one protocol for {protocol.form}s", "measure one after the other")
        by_form[protocol.form] = protocol
    return by_form


def _preferred(kind: type[Probe], forms: Iterable[str]) -> list[str]:
    """Return which of these forms a probe accepts, its default form first."""
    asks = tuple(getattr(kind, "asks", ()))
    return sorted((form for form in forms if form in kind.protocol_forms), key=lambda form: asks != (f"{form}s",))


@cache
def hints(kind: type[Probe]) -> dict[str, Any]:
    """Return the type of each probe parameter; resampling parameters are named like ``resampling.level``."""
    hints_by_name: dict[str, Any] = {}
    types = get_type_hints(kind)
    for each in fields(kind):
        hint = types[each.name]
        if is_dataclass(hint):
            inner = get_type_hints(hint)
            hints_by_name |= {f"{each.name}.{field.name}": inner[field.name] for field in fields(hint) if field.repr}
        elif each.init:
            hints_by_name[each.name] = hint
    return hints_by_name


def _make(kind: type[Probe], options: Mapping[str, Any], written: Mapping[str, str]) -> Probe:
    """Create a probe; `written` values override `options`, and ``PROBE.NAME`` overrides ``NAME``."""
    from biaslab.stats.resample import Resampling

    known, types = kind.__dataclass_fields__, hints(kind)
    arguments = {name: value for name, value in options.items() if name in known and value is not None}
    if "seed" in arguments:
        arguments["resampling"] = Resampling(seed=arguments["seed"])
    for name in sorted(written, key=lambda name: name.startswith(f"{kind.name}.")):
        plain = name.removeprefix(f"{kind.name}.")
        if plain in types:
            value = read(plain, written[name], types[plain])
            field, _, inner = plain.partition(".")
            arguments[field] = replace(arguments.get(field, Resampling()), **{inner: value}) if inner else value
    return kind(**arguments)


def table(estimates: pd.DataFrame) -> str:
    """Lay out the estimates frame for reading: metric, conditions, estimate, interval, p, counts."""
    import pandas as pd

    from biaslab.report.wording import conditions

    shown = estimates[["metric", *conditions(estimates)]].copy()
    for name in shown.columns[1:]:
        shown[name] = [_number(value) if isinstance(value, float) else str(value) for value in shown[name]]
    level = "/".join(f"{100 * level:g}" for level in estimates["ci_level"].dropna().unique())
    bounds = zip(estimates["estimate"], estimates["ci_low"], estimates["ci_high"], strict=True)
    shown["estimate"] = estimates["estimate"].map(_number)
    ends = [f"[{_number(low)}, {_number(high)}]" if low == low else "" for _, low, high in bounds]
    shown[f"{level} % interval"] = ends
    shown["p"] = ["" if pd.isna(p) else "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") for p in estimates["p_value"]]
    shown["contexts"], shown["judgements"] = estimates["n_contexts"], estimates["n_trials"]
    if (estimates["n_dropped"] > 0).any():
        shown["dropped"] = estimates["n_dropped"]
    notes = [note if isinstance(note, str) else "" for note in estimates["note"]]
    if any(notes):
        shown["note"] = notes
    return shown.to_string(index=False)


def _number(value: float) -> str:
    return "" if value != value else f"{value:.3f}"
