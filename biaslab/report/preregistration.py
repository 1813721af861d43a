"""Studies fixed beforehand: freeze a plan in a file, run exactly that, and list every departure from it."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from platform import python_version
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import special

from biaslab.core.checks import did_you_mean, require_count, require_fits, require_one_of
from biaslab.core.errors import InputError
from biaslab.core.files import write_csv
from biaslab.core.interfaces import Judge
from biaslab.core.metrics import find_metric
from biaslab.core.output import AnyPath, replacing, require_file
from biaslab.core.requests import request_key
from biaslab.core.schema import Dataset
from biaslab.datasets import load_dataset
from biaslab.judges import load_judge
from biaslab.probes import find_probe
from biaslab.probes.base.probe import Probe
from biaslab.prompts.protocols import Protocol
from biaslab.report.tables import to_markdown
from biaslab.report.verdicts import findings
from biaslab.report.wording import cell, conditions, templates
from biaslab.stats.estimate import ALPHA, ROUNDING, Note
from biaslab.stats.frame import corrected
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import Until
from biaslab.store import Store
from biaslab.study.collect import collect, rule_of
from biaslab.study.planning import Plan

Direction = Literal["two-sided", "above", "below"]
_PACKAGES = ("biaslab", "numpy", "scipy", "pandas", "statsmodels", "torch", "transformers")
_SHORT = 16  # hexadecimal digits of a context's digest
_OUTCOMES = {"none": "no effect of that size", "open": "inconclusive", "untested": "not tested"}


@dataclass(frozen=True)
class Hypothesis:
    """What a frozen study tests.

    Parameters
    ----------
    metric : str
        A metric of the probe with a null.
    direction : {"two-sided", "above", "below"}
        On which side of the null an estimate supports it. Tests are two-sided in any case.
    effect : float, optional
        Smallest effect of interest, a distance from the null; default: the one that matters by the metric's
        declaration.
    """

    metric: str
    direction: Direction = "two-sided"
    effect: float | None = None

    def table(self, probe: Probe) -> dict[str, Any]:
        """Return the hypothesis with its null, as it is frozen."""
        names = [metric.name for metric in probe.metrics if metric.null is not None]
        require_one_of("hypothesis.metric", self.metric, names, did_you_mean(self.metric, names))
        require_fits("hypothesis.direction", self.direction, Direction)
        metric = find_metric(self.metric, probe.name)
        effect = metric.matters if self.effect is None else self.effect
        if effect is None or not effect > 0:
            raise InputError("hypothesis.effect", effect, "a number above 0, the smallest effect of interest")
        return {"metric": self.metric, "null": metric.null, "direction": self.direction, "effect": float(effect)}


@dataclass(frozen=True)
class Departure:
    """What differs from the frozen study: where, as frozen, and as it is; a version only may differ without leave."""

    where: str
    frozen: str
    present: str
    is_version: bool = False

    def __str__(self) -> str:
        return f"{self.where}: frozen {self.frozen}, present {self.present}"


@dataclass(frozen=True)
class FrozenStudy:
    """A study fixed in a file before its data; made by `freeze`, read by `FrozenStudy.read`.

    Attributes
    ----------
    path : Path
        The file.
    tables : mapping
        Its content: ``hypotheses``, ``probe``, ``metrics``, ``judge``, ``data``, ``sampling``, ``stopping``,
        ``versions`` and, if the probe has one, ``protocol``.
    digests : mapping of str to str
        Digest of each table when it was frozen.
    """

    path: Path
    tables: Mapping[str, Any]
    digests: Mapping[str, str]

    @classmethod
    def read(cls, path: AnyPath) -> FrozenStudy:
        """Read a frozen study; raise `InputError` if the file is none."""
        file = Path(path).expanduser()
        try:
            tables = tomllib.loads(file.read_text(encoding="utf-8"))
            study = cls(file, tables, tables.pop("digests"))
            _ = [study.tables[name] for name in _ORDER]
            _ = [study.tables[name][key] for name, keys in _NEEDED.items() for key in keys]
        except (OSError, ValueError, KeyError, AttributeError) as error:
            why = f"{error} is missing" if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
            raise InputError("study", str(file), f"a file that biaslab plan --freeze wrote ({why})") from error
        return study

    @property
    def digest(self) -> str:
        """Digest of the whole study, to be deposited with it."""
        return _digest(dict(self.digests))

    def markdown(self) -> str:
        """Return the preregistration as Markdown, with the sections that the Open Science Framework asks for."""
        return templates().get_template("study.md.j2").render(**self.tables, digest=self.digest, file=self.path.name)

    def departures(self, probe: Probe, judge: Judge, dataset: Dataset) -> list[Departure]:
        """Return how the file, a probe, a judge, a data set and the installed versions differ from what was frozen."""
        now = _tables(probe, judge, dataset.of_contexts(self.tables["data"]["contexts"]))
        written = {name: _digest(table) for name, table in self.tables.items()}
        edited = _leaves(dict(self.digests), written, f"{self.path.name}, table")
        found = [Departure(where, f"digest {a[:_SHORT]}", f"digest {b[:_SHORT]}") for where, a, b in edited]
        for name, present in now.items():
            is_version = name == "versions"
            pairs = _leaves(self.tables.get(name, {}), present)
            found += [Departure(f"{name}.{where}", before, after, is_version) for where, before, after in pairs]
        known = [each for each in found if not (each.is_version or each.where == "probe.design")]
        return [each for each in found if each.where != "probe.design" or not known]  # which follows from the others

    def run(
        self,
        *,
        judge: Judge | str | None = None,
        dataset: Dataset | None = None,
        probe: Probe | None = None,
        store: Store | AnyPath | None = None,
        progress: bool = True,
        allow_departures: bool = False,
    ) -> StudyResult:
        """Run exactly this study.

        Parameters
        ----------
        judge, dataset, probe : optional
            Needed if they were frozen without a name, such as a judge made in Python; default: as named in the file.
        store : Store or path, optional
            Store of replies: nothing is asked twice.
        progress : bool
            Show a progress bar.
        allow_departures : bool
            List departures instead of refusing them. Other versions of packages are always listed.

        Raises
        ------
        InputError
            If anything but a version differs from what was frozen; it names what, as frozen and as present.
        """
        path, rule = self.tables["data"]["path"] or None, self.tables["stopping"]
        data = load_dataset(self._named("data", "name", "dataset"), path) if dataset is None else dataset
        judge = self._named("judge", "name", "judge") if judge is None else judge
        asked = load_judge(judge, data) if isinstance(judge, str) else judge
        made = self._probe() if probe is None else probe
        if not set(self.tables["data"]["contexts"]) & set(data.candidates["context_id"]):
            raise InputError("dataset", data.name, f"one with contexts of {self.path.name}", "it has none of them")
        found = self.departures(made, asked, data)
        refused = [each for each in found if not each.is_version]
        if refused and not allow_departures:
            first, remedy = refused[0], "run what was frozen, or allow departures, which are then listed"
            remedy = f"{len(refused) - 1} more differ; {remedy}" if len(refused) > 1 else remedy
            raise InputError(first.where, first.present, f"{first.frozen}, as frozen in {self.path.name}", remedy)
        chosen = data.of_contexts(self.tables["data"]["contexts"])
        trials = collect(made, asked, chosen, store, progress, until=Until(**rule) if rule else None)
        cost = {str(name): value for name, value in trials.attrs.items()}
        return StudyResult(self, self._marked(made, trials, found), tuple(found), cost)

    def _named(self, table: str, key: str, option: str) -> str:
        name: str = self.tables[table][key]
        if not name:
            raise InputError.plain(f"{self.path.name} names no {table} that can be loaded; pass {option}=")
        return name

    def _probe(self) -> Probe:
        """Make the probe from its frozen parameters."""
        about = self.tables["probe"]
        values = {**about["parameters"], **dict.fromkeys(about["unset"])}
        values["resampling"] = Resampling(**values["resampling"])
        if "protocol" in self.tables:
            values["protocol"] = Protocol.loaded(self._named("protocol", "file", "probe"))
        kind = find_probe(about["name"])
        return kind(**{name: value for name, value in values.items() if name in kind.__dataclass_fields__})

    def _marked(self, probe: Probe, trials: pd.DataFrame, found: Sequence[Departure]) -> pd.DataFrame:
        """Return the estimates, with q-values over the hypotheses and a note on departures."""
        metrics = self.tables["metrics"]
        wanted = [*metrics["primary"], *metrics["secondary"]]
        estimates = probe.estimate(trials, wanted, breakdowns=False)
        estimates = corrected(estimates, estimates["metric"].isin(metrics["primary"]))
        if not found:
            return estimates
        values = {"departures": "; ".join(map(str, found))}
        note = Note("departure", values)
        words = [f"{each}; {note}" if each else str(note) for each in estimates["note"].fillna("")]
        codes = [json.dumps([*json.loads(each or "[]"), ["departure", values]]) for each in estimates["notes"]]
        return estimates.assign(note=words, notes=codes)


@dataclass(frozen=True)
class StudyResult:
    """What a frozen study found: estimates, and departures from the plan; prints as its page.

    Attributes
    ----------
    study : FrozenStudy
        The study.
    estimates : pandas.DataFrame
        The estimates frame, with q-values over the rows of the hypotheses.
    departures : tuple of Departure
        How the run differs from what was frozen.
    cost : mapping
        Attributes of the trials, such as ``asked``, ``stored`` and ``saved``.
    """

    study: FrozenStudy
    estimates: pd.DataFrame
    departures: tuple[Departure, ...]
    cost: Mapping[str, Any]

    def outcomes(self) -> pd.DataFrame:
        """Return one row per hypothesis and cell, with its ``outcome``."""
        rows = [row for each in self.study.tables["hypotheses"] for row in self._outcomes(**each)]
        return pd.DataFrame(rows)

    def _outcomes(self, metric: str, direction: str, effect: float, **_: float) -> Iterator[dict[Any, Any]]:
        rows, alpha = self.estimates[self.estimates["metric"] == metric], self.study.tables["sampling"]["alpha"]
        found, named = findings(rows, matters={metric: effect}), conditions(rows)
        for row, q_value in zip(found.to_dict("records"), rows["q_value"], strict=True):
            side = row["finding"]
            if side in ("above", "below"):
                support = "supported" if direction in ("two-sided", side) else "contradicted"
                side = f"{support}, {side} the null" if q_value < alpha else "open"
            yield {**row, "q_value": q_value, "where": cell(row, named), "outcome": _OUTCOMES.get(side, side)}

    def __str__(self) -> str:
        values = {"tables": self.study.tables, "digest": self.study.digest, "file": self.study.path.name}
        shown = {"table": to_markdown(self.estimates), "departures": self.departures, "cost": self.cost}
        page = templates().get_template("study_results.md.j2")
        return page.render(**values, **shown, outcomes=self.outcomes().to_dict("records"))

    def save(self, stem: AnyPath) -> tuple[Path, Path]:
        """Write the estimates as STEM.csv and the page as STEM.md; return the paths."""
        files = Path(f"{stem}.csv"), Path(f"{stem}.md")
        write_csv(self.estimates, files[0])
        with replacing(files[1]) as file:
            file.write_text(str(self), encoding="utf-8")
        return files


def freeze(
    path: AnyPath,
    probe: Probe,
    judge: Judge | str,
    dataset: Dataset | str,
    *,
    hypotheses: Sequence[Hypothesis] | None = None,
    planned: Plan | None = None,
    contexts: int | None = None,
    until: Until | None = None,
    exclude: Sequence[str] = (),
    alpha: float = 0.05,
    seed: int = 0,
    data_path: str | Path | None = None,
    protocol: AnyPath | None = None,
) -> FrozenStudy:
    """Fix a study before its data: write it as TOML, and as Markdown for a preregistration beside it.

    Parameters
    ----------
    path : path
        The file, ``.toml``; a study that is there is not replaced. The Markdown has the same name.
    probe : Probe
        The probe, with all its parameters.
    judge, dataset : Judge and Dataset, or str
        By name, so that `FrozenStudy.run` can load them; else they must be passed to it.
    hypotheses : sequence of Hypothesis, optional
        Default: the primary metrics of the probe, two-sided.
    planned : Plan, optional
        From `biaslab.plan`: contexts, power, and the effect that they detect.
    contexts : int, optional
        Number of contexts, drawn at random; default: those of the plan or the rule, else all.
    until : Until, optional
        When to stop; default: the number of contexts is fixed.
    exclude : sequence of str
        Contexts that are left out.
    alpha : float
        Level over the tests of the hypotheses, at most .05; intervals have the level 1 − alpha.
    seed : int
        Random seed of the draw of contexts.
    data_path : path, optional
        File of a data set given by name.
    protocol : path, optional
        File of the probe's protocol, so that it can be loaded.

    Raises
    ------
    InputError
        If the file exists, a value is out of range, or a parameter of the probe cannot be written to a file.

    Examples
    --------
    >>> import tempfile
    >>> import biaslab as bl
    >>> probe = bl.probes.Position(["coherence"], [1], n_pairs=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = freeze(f"{folder}/study.toml", probe, "simulated:position=1", "graded", contexts=12)
    ...     study.run(progress=False).outcomes()["outcome"].tolist()
    ['supported, above the null']
    """
    target = require_file("path", Path(path).expanduser(), ".toml")
    if target.exists():
        raise InputError("path", str(target), "a new file", "a frozen study is not replaced")
    require_fits("alpha", alpha, float)
    if not 0 < alpha <= ALPHA:
        raise InputError("alpha", alpha, f"a number above 0, at most {ALPHA:g}")
    data = load_dataset(dataset, data_path) if isinstance(dataset, str) else dataset
    asks = load_judge(judge, data) if isinstance(judge, str) else judge
    probe = replace(probe, resampling=replace(probe.resampling, level=1 - alpha))
    require_fits("hypotheses", hypotheses, Sequence[Hypothesis] | None)
    require_fits("until", until, Until | None)
    tested = [each.table(probe) for each in hypotheses or map(Hypothesis, probe.primary)]
    names = [each["metric"] for each in tested]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError("hypotheses", repeated[0], "each metric once")
    until = until and rule_of(replace(until, metric=until.metric or names[0]), probe)
    chosen, available = _drawn(data, contexts, planned, until, exclude, seed)
    tables = _tables(probe, asks, chosen)
    others = [metric.name for metric in probe.metrics if metric.name not in names]
    tables["metrics"] = {"primary": names, "secondary": others, **tables["metrics"]}
    tables["hypotheses"] = tested
    tables["judge"] = {"name": judge if isinstance(judge, str) else "", **tables["judge"]}
    named = {"name": dataset if isinstance(dataset, str) else "", "path": str(data_path or "")}
    tables["data"] = {**named, "available": available, "excluded": list(exclude), "seed": seed, **tables["data"]}
    if "protocol" in tables:
        tables["protocol"]["file"] = str(protocol or "")
    about: dict[str, Any] = {} if planned is None else {"plan": str(planned)}
    if planned is not None and planned.effect > 0 and not (until and until.half_width):
        about |= {"power": round(_power(planned, until, chosen.n_contexts, alpha), 3), "effect": planned.effect}
    tables["sampling"] = {"contexts": chosen.n_contexts, "alpha": alpha, **about}
    tables["stopping"] = {} if until is None else {n: v for n, v in asdict(until).items() if v is not None}
    tables = {name: _plain(name, tables[name]) for name in (*_ORDER, "protocol") if name in tables}
    values = {**tables, "digests": {name: _digest(table) for name, table in tables.items()}}

    def dumps(value: Any) -> str:  # TOML's strings, numbers and lists are JSON's, but for this character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")

    text = templates().get_template("study.toml.j2").render(tables=values, dumps=dumps, date=date.today())
    with replacing(target) as file, replacing(target.with_suffix(".md")) as beside:
        file.write_text(text, encoding="utf-8")
        study = replace(FrozenStudy.read(file), path=target)
        beside.write_text(study.markdown(), encoding="utf-8")
    return study


_NEEDED = {
    "probe": ("name", "unset", "parameters", "design"), "metrics": ("primary", "secondary", "nulls"),
    "judge": ("name", "id"), "data": ("name", "path", "contexts"), "sampling": ("contexts", "alpha"),
}  # fmt: skip
_ORDER = ("hypotheses", "metrics", "probe", "judge", "sampling", "stopping", "versions", "data")


def _drawn(
    data: Dataset, contexts: int | None, planned: Plan | None, until: Until | None, exclude: Sequence[str], seed: int
) -> tuple[Dataset, int]:
    """Return the contexts of the study, drawn at random from those that are not left out, and how many there were."""
    names = list(dict.fromkeys(data.candidates["context_id"]))
    for name in set(exclude) - set(names):
        raise InputError("exclude", name, f"contexts of the data set, such as {names[0]}", did_you_mean(name, names))
    left = [name for name in names if name not in set(exclude)]
    require_count("seed", seed, 0)
    if contexts is not None:
        require_count("contexts", contexts, 1)
    most = until.most(len(left)) if until and (until.looks or until.contexts) else None
    if contexts and most and contexts != most:
        raise InputError("contexts", contexts, f"{most}, the most contexts of the rule, or None")
    wanted = contexts or most
    if wanted is None and planned is not None:
        enough, least = range(planned.contexts, len(left)), planned.power - ROUNDING
        wanted = next((n for n in enough if _power(planned, until, n, planned.alpha) >= least), len(left))
    wanted = wanted or len(left)
    if wanted > len(left):
        raise InputError("contexts", wanted, f"at most {len(left)}, the contexts that are not left out")
    drawn = np.random.default_rng(seed).choice(len(left), wanted, replace=False)
    return data.of_contexts([left[at] for at in sorted(drawn)]), len(names)


def _power(planned: Plan, until: Until | None, contexts: int, alpha: float) -> float:
    """Return the power for the planned effect with at most so many contexts; with a sequence, that of its end."""
    shift = float(special.ndtri(1 - planned.alpha / 2) + special.ndtri(planned.power))
    drift = shift * math.sqrt(contexts / planned.contexts)
    if until is not None:
        return until.power(contexts, drift, alpha)
    return float(special.ndtr(drift + special.ndtri(alpha / 2)))


def _tables(probe: Probe, judge: Judge, dataset: Dataset) -> dict[str, Any]:
    """Return what can differ between freezing and running."""
    values = {each.name: getattr(probe, each.name) for each in fields(probe) if each.init and each.name != "protocol"}
    settings = {each.name: getattr(probe.resampling, each.name) for each in fields(Resampling) if each.repr}
    clusters = {} if probe.resampling.clusters is None else {"clusters": dict(probe.resampling.clusters)}
    values["resampling"] = settings | clusters
    parameters = {name: _plain(f"probe.{name}", value) for name, value in values.items() if value is not None}
    keys = sorted({request_key(trial.request, judge.id) for trial in probe.design(dataset)})
    unset = [name for name, value in values.items() if value is None]
    about = {"name": probe.name, "parameters": parameters, "unset": unset, "design": _digest(keys)}
    whole = [dataset.name, dict(dataset.attributes), list(dataset.scale), dataset.noun]
    tables = {
        "probe": about,
        "judge": {"id": judge.id},
        "data": {"dataset": dataset.name, "attributes": _digest(whole), "contexts": _contexts(dataset)},
        "metrics": {"nulls": {metric.name: metric.null for metric in probe.metrics if metric.null is not None}},
        "versions": {"python": python_version()} | {name: version(name) for name in _PACKAGES if find_spec(name)},
    }
    if probe.protocol is not None:
        tables["protocol"] = {"name": probe.protocol.name, "digest": _digest(probe.protocol.id)}
    return tables


def _contexts(dataset: Dataset) -> dict[str, str]:
    """Return a digest of each context: its text, candidates and human scores, in their order."""
    parts: dict[str, list[Any]] = {}
    for frame in (dataset.candidates, dataset.human):
        for name, rows in frame.groupby("context_id", sort=False):
            parts.setdefault(str(name), []).append(rows.to_dict("split", index=False))
    return {name: _digest(part)[:_SHORT] for name, part in parts.items()}


def _plain(name: str, value: Any) -> Any:
    """Return a value as a file holds it; raise `InputError` for functions and other objects."""
    try:
        return json.loads(json.dumps(value))
    except TypeError as error:
        raise InputError(name, value, "text, numbers, or lists of these, which a file can hold") from error


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def _leaves(frozen: Any, present: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield where two nested tables differ, among the names of the present one, with both values in words."""
    if isinstance(frozen, Mapping) and isinstance(present, Mapping):
        for name in [name for name in {**frozen, **present} if where or name in present]:
            yield from _leaves(frozen.get(name), present.get(name), f"{where}.{name}".removeprefix("."))
    elif frozen != present:
        words = ["nothing" if value is None else str(value) for value in (frozen, present)]
        yield where, words[0], words[1]
