"""Probe parameters on the command line: parse ``-p NAME=VALUE`` and check it against the probe's types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from biaslab.core.checks import unknown
from biaslab.core.errors import InputError
from biaslab.core.written import pairs, read

if TYPE_CHECKING:
    from biaslab.probes.base import Probe
    from biaslab.prompts.protocols import Protocol


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
        probes.append(_make(kind, {**options, "protocol": protocol}, _of(kind, written)))
    return probes


def _by_form(files: Sequence[Path], classes: Sequence[type[Probe]]) -> dict[str, Protocol]:
    """Load protocols; raise `InputError` if no probe takes one of them."""
    from biaslab.prompts.protocols import Protocol

    forms = {kind.name: forms_of(kind) for kind in classes}
    by_form: dict[str, Protocol] = {}
    for protocol in map(Protocol.loaded, files):
        if not any(protocol.form in each for each in forms.values()):
            taken = ", ".join(f"{name} ({' or '.join(each)})" for name, each in forms.items() if each)
            taken = taken or "none of them accepts one"
            raise InputError("protocol", f"{protocol.name} (for {protocol.form}s)", f"one that fits: {taken}")
        if protocol.form in by_form:
            names = f"{by_form[protocol.form].name} and {protocol.name}"
            raise InputError(
                "protocol", names, f"one protocol for {protocol.form}s", "measure them one after the other"
            )
        by_form[protocol.form] = protocol
    return by_form


def forms_of(kind: type[Probe]) -> list[str]:
    """Return the forms of protocol that a probe accepts."""
    return [form for form in str(getattr(kind, "protocol_form", "")).split() if form != "or"]


def _preferred(kind: type[Probe], forms: Iterable[str]) -> list[str]:
    """Return which of these forms a probe accepts, its default form first."""
    usual = [f"{form}s" for form in forms if (f"{form}s",) == tuple(getattr(kind, "asks", ()))]
    return sorted((form for form in forms if form in forms_of(kind)), key=lambda form: f"{form}s" not in usual)


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


def _of(kind: type[Probe], written: Mapping[str, str]) -> dict[str, Any]:
    """Parse the values meant for a probe; ``PROBE.NAME`` overrides ``NAME``."""
    types, values = hints(kind), {}
    for name in sorted(written, key=lambda name: name.startswith(f"{kind.name}.")):
        plain = name.removeprefix(f"{kind.name}.")
        if plain in types:
            values[plain] = read(plain, written[name], types[plain])
    return values


def _make(kind: type[Probe], options: Mapping[str, Any], values: Mapping[str, Any]) -> Probe:
    """Create a probe; `values` override `options`, and names such as ``resampling.level`` set resampling parameters."""
    from biaslab.stats import Resampling

    known = kind.__dataclass_fields__
    arguments = {name: value for name, value in options.items() if name in known and value is not None}
    if "seed" in arguments:
        arguments["resampling"] = Resampling(seed=arguments["seed"])
    for name, value in values.items():
        field, _, inner = name.partition(".")
        arguments[field] = replace(arguments.get(field, Resampling()), **{inner: value}) if inner else value
    return kind(**arguments)
