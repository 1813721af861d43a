"""The atlas explorer: every estimate of every recorded judge, on one page that needs no server."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from biaslab.atlas import estimates_table
from biaslab.atlas.estimates_table import CONDITIONS, PEOPLE, contributions, estimates as all_estimates, of_models
from biaslab.atlas.judgements import JudgementNames
from biaslab.atlas.release_trend import dated_by, forms, has_fallen, one_each, regressed, released, with_judges
from biaslab.atlas.sources import SOURCES
from biaslab.core.errors import InputError
from biaslab.core.metrics import find_metric
from biaslab.core.output import AnyPath, Page, count
from biaslab.report.verdicts import classify
from biaslab.stats.estimate import notes_of
from biaslab.stats.frame import require_columns

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Environment

    from biaslab.atlas.estimates_table import Contribution

_NEEDED = (
    *("source", "probe", "judge", "dataset", "metric", "template", "subset", "estimate", "ci_low", "ci_high"),
    *("q_value", "n_contexts", "n_trials", "n_dropped", "method", "note", "repository", "version"),
)
_TITLE = "Atlas of recorded judges"


@dataclass(frozen=True, eq=False)
class Explorer(Page):
    """A page to filter and sort estimates of judges; displayed in JupyterLab.

    Attributes
    ----------
    estimates : pandas.DataFrame
        The rows of the page, from `biaslab.atlas.estimates`.
    added : tuple of Contribution
        Contributions outside the package that have some of these rows.
    """

    estimates: pd.DataFrame
    added: tuple[Contribution, ...] = ()
    _height: ClassVar[int] = 760

    def to_html(self) -> str:
        """Return a self-contained page."""
        versions = sorted(set(map(str, self.estimates["version"])))
        data = explorer_data(self.estimates, self.added) | {"versions": versions}
        facts = {"judges": self.estimates["judge"].nunique(), "sources": self.estimates["source"].nunique()}
        return _templates().get_template("explorer.html.j2").render(data=_script_safe(data), **facts)

    def _heading(self) -> str:
        return _TITLE

    def _rows_at(self, places: list[int]) -> pd.DataFrame:
        return self.estimates.iloc[places]

    def __repr__(self) -> str:
        judges, sources = (self.estimates[name].nunique() for name in ("judge", "source"))
        rows = count(len(self.estimates), "estimate")
        whose = f"{count(judges, 'judge')} from {count(sources, 'source')}"
        return f"Explorer: {rows} of {whose}; save(path) writes the page"


def explorer(estimates: pd.DataFrame | None = None, folder: AnyPath | None = None) -> Explorer:
    """Explore the atlas: filter and sort judge × metric × data, with intervals, findings and sources.

    Parameters
    ----------
    estimates : pandas.DataFrame, optional
        Rows of `biaslab.atlas.estimates`; by default all except single bins of the human score gap.
    folder : path, optional
        Folder of contributions made by `biaslab.atlas.add`; by default their rows are included.

    Returns
    -------
    Explorer
        Displayed in JupyterLab; ``save`` writes a self-contained page. Its last line is the call of
        `biaslab.atlas.estimates` that returns the displayed rows.

    Raises
    ------
    InputError
        If there are no rows, or the folder does not exist.
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import biaslab as bl
    >>> explorer(bl.atlas.estimates(metric="first_position_rate", source="mt_bench"))
    Explorer: 12 estimates of 9 judges from 1 source; save(path) writes the page
    """
    rows = all_estimates(breakdowns=False, folder=folder) if estimates is None else estimates
    require_columns(rows, _NEEDED, "estimates")
    if rows.empty:
        raise InputError.plain("estimates has no rows, expected: at least one row of atlas.estimates()")
    added = () if folder is None else tuple(contributions(folder))
    return Explorer(rows.reset_index(drop=True), added)


def _script_safe(data: Any) -> str:
    """Write data as JSON that cannot close its script element, whatever names it contains."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, select_autoescape

    loader = PackageLoader("biaslab.atlas")
    return Environment(loader=loader, autoescape=select_autoescape(["html.j2"]), trim_blocks=True, lstrip_blocks=True)


#: Values of conditions that carry no information.
_UNSAID = {"attribute": "overall", "template": "recorded", "configuration": "recorded"}
_NUMBERS = ("estimate", "ci_low", "ci_high", "bound_low", "bound_high", "q_value")
_COUNTS = ("n_contexts", "n_trials", "n_dropped")
_FEWEST_DATED = 12  # minimum number of dated judges for a trend


def explorer_data(rows: pd.DataFrame, added: Sequence[Contribution] = ()) -> dict[str, Any]:
    """Return estimates in the format of the explorer's page.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of `biaslab.atlas.estimates`.
    added : sequence of Contribution
        Contributions outside the package that have some of these rows.

    Returns
    -------
    dict
        Distinct ``metrics``, ``judges``, ``sources`` and ``texts`` (data sets, conditions, methods and notes), and
        ``rows``, which refer to them by index: metric, judge, source, data set, form, conditions, plainest way (1 or
        0), finding (see `kinds`), the six numbers, the three counts, method, note, and the judge's name for
        `biaslab.load_judge` if its judgements are in the package. Primary metrics with enough dated judges also have
        ``fallen`` (whether the bias has) and ``line`` (its mean distance from the null in the first and the last
        month).
    """
    asked = forms(rows)
    plain = estimates_table.is_plain(rows)
    judgements = JudgementNames()
    metrics, judges, sources, texts = (_Places() for _ in range(4))
    table = []
    for record, form, is_whole, kind in zip(rows.to_dict("records"), asked, plain, kinds(rows), strict=True):
        table.append([
            metrics.of((record["probe"], record["metric"])),
            judges.of(record["judge"]),
            sources.of((record["source"], record["repository"])),
            texts.of(record["dataset"]),
            form,
            texts.of(_conditions(record)),
            int(is_whole),
            kind,
            *(_short(record.get(name)) for name in _NUMBERS),
            *(int(record[name]) for name in _COUNTS),
            texts.of(record["method"]),
            texts.of(record["note"]),
            texts.of(judgements.name(record)),
        ])  # fmt: skip
    return {
        "metrics": metrics.described(_metrics(rows.assign(asked=asked), added)),
        "judges": judges.described(_judges(added)),
        "sources": sources.described(_sources(added)),
        "texts": texts.described(str),
        "rows": table,
    }


def kinds(rows: pd.DataFrame) -> list[str]:
    """Return the finding on each estimate, tested as in its study; empty without a test.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of `biaslab.atlas.estimates`; q-values are over the tests of one judge.

    Returns
    -------
    list of {"above", "below", "none", "open", ""}
        See `biaslab.report.findings`.
    """
    tested = [
        "by_construction" in notes_of(row)
        or (row["q_value"] == row["q_value"] and find_metric(row["metric"], row["probe"]).null is not None)
        for row in rows.to_dict("records")
    ]
    found = iter(classify(rows[tested], as_tested=True))
    return [next(found).kind if is_tested else "" for is_tested in tested]


class _Places:
    """Distinct values, in the order of first occurrence."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}

    def of(self, thing: Hashable) -> int:
        return self._places.setdefault(thing, len(self._places))

    def described(self, describe: Callable[[Any], Any]) -> list[Any]:
        return [describe(thing) for thing in self._places]


def _conditions(record: Mapping[Any, Any]) -> str:
    conditions = ((name, record.get(name)) for name in CONDITIONS if name != "likelihood_judge")
    kept = [(name, value) for name, value in conditions if _is_recorded(value) and _UNSAID.get(name) != value]
    return " · ".join(f"{name.replace('_', ' ')} {_text(value)}" for name, value in kept)


def _is_recorded(value: Any) -> bool:
    return bool(value is not None and value != "" and value == value)  # NaN differs from itself


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _short(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def _metrics(rows: pd.DataFrame, added: Sequence[Contribution]) -> Callable[[tuple[str, str]], dict[str, Any]]:
    models = dated_by(rows[of_models(rows)], with_judges(released(), added))

    def describe(named: tuple[str, str]) -> dict[str, Any]:
        probe, name = named
        one = find_metric(name, probe)
        words = {"label": one.label, "unit": one.unit, "above": one.above, "below": one.below}
        facts = {"probe": probe, "name": name, "null": one.null, "primary": one.primary, **words}
        own = models[(models["probe"] == probe) & (models["metric"] == name)]
        return facts | (_fallen(own, one.null) if one.primary and one.null is not None else {})

    return describe


def _fallen(rows: pd.DataFrame, null: float) -> dict[str, Any]:
    """Return whether a bias has declined, and its mean distance from the null in the first and the last month."""
    rows = one_each(rows[rows["ci_high"] > rows["ci_low"]])
    if rows["judge"].nunique() < _FEWEST_DATED:
        return {}
    trend = regressed(rows, null)
    start, slope = trend["estimate"].iloc[:2]
    first_and_last = rows.sort_values("years")[["released", "years"]].iloc[[0, -1]]
    line = [[month, _short(max(0.0, start + slope * years))] for month, years in first_and_last.itertuples(index=False)]
    return {"fallen": has_fallen(trend, rows), "line": line}


def _judges(added: Sequence[Contribution]) -> Callable[[str], dict[str, Any]]:
    contributed = {judge["judge"]: judge for one in added for judge in one.judges}
    dated = contributed | released().set_index("judge").to_dict("index")

    def describe(name: str) -> dict[str, Any]:
        if re.fullmatch(PEOPLE, name):
            return {"name": name, "family": "people", "released": "", "reasons": "no"}
        about = dated.get(name, {})
        reasons = {True: "yes", False: "no"}.get(about.get("reasons", ""), "")
        return {"name": name, "reasons": reasons, **{key: about.get(key, "") for key in ("family", "released")}}

    return describe


def _sources(added: Sequence[Contribution]) -> Callable[[tuple[str, str]], dict[str, Any]]:
    new = {one.source["name"] for one in added}
    known = {one.name: (one.title, one.licence, one.carried) for one in SOURCES}
    added_sources = [one.source for one in [*added, *contributions()]]
    known |= {one["name"]: (one["title"], one["licence"], False) for one in added_sources}

    def describe(named: tuple[str, str]) -> dict[str, Any]:
        name, repository = named
        title, licence, carried = known.get(name, (name, "", False))
        facts = {"name": name, "title": title, "licence": licence, "carried": carried, "repository": repository}
        return facts | {"added": name in new}

    return describe
