"""Contribute a log to the atlas: estimate it, write its data card, and check it."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.atlas import estimates_table, judgements
from biaslab.atlas.estimates_table import CONDITIONS, FOLDER, MONTH, Contribution, estimates as all_estimates
from biaslab.atlas.judgements import OPEN_LICENCES, PERPLEXITIES, load_rows, require_row_labels, rows_file, save_rows
from biaslab.atlas.release_trend import released as known_dates
from biaslab.atlas.sources import SOURCES, AtlasSource
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.core.output import AnyPath
from biaslab.logs.audit import audit
from biaslab.logs.audit.run import audit_humans, measures
from biaslab.probes.base.probe import paired, scored
from biaslab.stats.frame import LEADING, TRAILING, without_breakdowns
from biaslab.stats.resample import Resampling

#: Known licences, by SPDX identifier; "none" for an unpublished log.
LICENCES = ("none", *OPEN_LICENCES, "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "GPL-3.0-only")
_OTHER_LICENCE = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")
_NAME = re.compile(r"[a-z][a-z0-9_]{1,39}")
_REPOSITORY = re.compile(r"(?:[\w.-]+/[\w.-]+|https://[^\s\"<>]+)?")
_UNNAMED = "unknown"  # data set of a log that does not name one
_KEY = ["context_id", "candidate_id", "opponent_id", "attribute", "template", "configuration", "value"]
_SAME = ["probe", "metric", "n_contexts", "n_trials", "estimate", "ci_low"]
_FEWEST_EQUAL = 5  # identical estimates from which on two logs count as the same
_SHARE_EQUAL = 0.5  # the same, as a share of the estimates
_TIE = 0.5


def add(
    log: pd.DataFrame | str | Path,
    source: str,
    licence: str,
    folder: AnyPath,
    judge: str | Mapping[str, str] | None = None,
    *,
    title: str = "",
    repository: str = "",
    family: str = "",
    released: str = "",
    reasons: bool | None = None,
    format: str | None = None,  # noqa: A002 - as of `biaslab.read_judgements`
    mapping: Mapping[str, Any] | str | Path | None = None,
    replace: bool = False,
    resampling: Resampling | None = None,
) -> Contribution:
    """Turn a log into a contribution to the atlas: estimates of its judges and a data card, without any text.

    Nothing is written unless more than half of the log can be read, the source has a new name and a licence, its
    judgements and estimates are new to the atlas and the folder, no judge has only ties, no two judges have the same
    judgements, and every label is short enough to be a name.

    If the licence allows redistribution, the judgements are written too, as numbers with codes for contexts, texts and
    annotators, so that `biaslab.atlas.check` can recompute the estimates.

    Parameters
    ----------
    log : pandas.DataFrame, str or Path
        Anything that `biaslab.read_judgements` accepts, or its result.
    source : str
        Name of the log in the atlas: lower-case letters, digits and underscores.
    licence : str
        SPDX identifier of the log's licence, ``"LicenseRef-…"`` for another one, "none" if it is not published.
    folder : path
        Where the files are written: ``SOURCE.json``, ``SOURCE.csv``, ``SOURCE.md`` and, under an open licence,
        ``SOURCE.parquet``.
    judge : str or mapping, optional
        The judge's name in the atlas; for a log with several judges, a mapping from the names in the log. By default
        the names in the log.
    title : str
        Description of the log in one line, with its paper.
    repository : str
        Where the log was published: "owner/name" on GitHub, or a URL.
    family, released, reasons : str, str, bool, optional
        For judges new to the atlas: family, release month ("2026-01"), and whether they are reasoning models.
    format, mapping
        As in `biaslab.read_judgements`.
    replace : bool
        Overwrite a contribution of the same name in the folder.
    resampling : Resampling, optional
        Settings of the estimates.

    Returns
    -------
    Contribution
        The contribution, as written.

    Raises
    ------
    InputError
        If a check fails.
    UnreadableLogError
        If more than half of the log could not be read.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import biaslab as bl
    >>> rows = [
    ...     (f"q{i}", *sides, sides[0] if i % 3 else "x") for i in range(30) for sides in (("x", "y"), ("y", "x"))
    ... ]
    >>> log = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "winner"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = add(log, "my_pairs", "CC0-1.0", folder, judge="my-judge", title="Thirty pairs")
    ...     mine = bl.atlas.estimates("position", "first_position_rate", "my-judge", folder=folder)
    >>> mine[["source", "estimate", "n_contexts"]].values.tolist()
    [['my_pairs', 0.833333, 30]]
    """
    _require_facts(source, licence, repository, released)
    contributed = estimates_table.contributions(folder) if Path(folder).is_dir() else []
    others = [one for one in [*contributed, *estimates_table.contributions()] if one.source["name"] != source]
    _require_new_name(source, Path(folder), replace)
    trials = _named(_read(log, format, mapping), judge)
    trials = trials.assign(dataset=trials["dataset"].where(trials["dataset"] != _UNNAMED, source))
    digest = _digest(trials)
    _require_new_judgements(digest, others)
    _require_own_verdicts(trials)
    trials = judgements.coded(trials)
    source_facts = AtlasSource(source, title or source, repository, licence, "", False, (), "", "")
    rows = estimate_source(trials, source_facts, resampling=resampling)
    if rows.empty:
        raise InputError.plain(f"no metric can be estimated from the {len(trials)} judgements; see `biaslab doctor`")
    existing = all_estimates()
    _require_new_estimates(rows, [existing[existing["source"] != source], *(one.estimates for one in others)])
    origin = {"name": source, "title": title or source, "repository": repository, "licence": licence}
    judges = tuple(_about(str(name), family, released, reasons) for name in trials["judge"].unique())
    is_open = licence in OPEN_LICENCES
    facts = _facts(trials, digest) | {"carried": is_open}
    contribution = Contribution(origin, judges, facts, version("biaslab"), rows)
    if is_open:
        require_row_labels(trials)
    contribution.save(folder)
    if is_open:
        save_rows(trials, folder, source)
    else:
        rows_file(folder, source).unlink(missing_ok=True)  # from a contribution that this one replaces
    return contribution


def _require_facts(source: str, licence: str, repository: str, released: str) -> None:
    if not _NAME.fullmatch(source):
        raise InputError("source", source, "lower-case letters, digits and underscores, at most 40", "such as my_pairs")
    if not _OTHER_LICENCE.fullmatch(licence):
        remedy = "use LicenseRef-NAME for another licence, none for an unpublished log"
        require_one_of("licence", licence, LICENCES, remedy)
    if not _REPOSITORY.fullmatch(repository):
        raise InputError("repository", repository, "owner/name on GitHub, or a URL that begins with https://")
    if not MONTH.fullmatch(released):
        raise InputError("released", released, "a month", "such as 2026-01")


def _require_new_name(source: str, folder: Path, replace: bool) -> None:
    existing = {one.name for one in SOURCES} | {one.source["name"] for one in estimates_table.contributions()}
    if source in existing and folder.resolve() != FOLDER.resolve():
        raise InputError("source", source, "a name not yet in the atlas", "see `biaslab atlas list`")
    if (folder / f"{source}.json").exists() and not replace:
        raise InputError("source", source, f"a name not yet in {folder}", "use --replace to overwrite it")


def _read(log: pd.DataFrame | str | Path, format: str | None, mapping: Any) -> pd.DataFrame:  # noqa: A002
    import pandas as pd

    from biaslab.logs.readers import read_judgements
    from biaslab.logs.readers.card import require_readable

    is_read = isinstance(log, pd.DataFrame) and {"probe", "status"} <= set(log.columns)
    trials: pd.DataFrame = log if is_read else read_judgements(log, format, mapping)  # type: ignore[assignment]
    require_readable(trials)
    return trials


def _named(trials: pd.DataFrame, judge: str | Mapping[str, str] | None) -> pd.DataFrame:
    """Return the trials with the judges' names in the atlas; for a mapping, only the judges in it."""
    inside = [str(name) for name in trials["judge"].unique()]
    if judge is None:
        return trials
    names = {inside[0]: judge} if isinstance(judge, str) and len(inside) == 1 else judge
    if isinstance(names, str):
        allowed = f"a name for each judge to add: {', '.join(inside)}"
        raise InputError("judge", judge, allowed, f"such as {inside[0]}={judge}")
    unknown = [name for name in names if name not in inside]
    if unknown:
        raise InputError("judge", unknown, f"judges of the log: {', '.join(inside)}")
    kept = trials[trials["judge"].isin(list(names))]
    renamed = kept.assign(judge=kept["judge"].map(dict(names)))
    renamed.attrs = dict(trials.attrs)
    return renamed


def _digest(trials: pd.DataFrame) -> str:
    """Return a SHA-256 of the judgements that does not depend on their order, format or the judge's name."""
    rows = trials[[name for name in _KEY if name in trials]]
    lines = sorted("\t".join(map(str, row)) for row in rows.itertuples(index=False))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _require_new_judgements(digest: str, others: list[Contribution]) -> None:
    same = next((one for one in others if one.log["digest"] == digest), None)
    if same is not None:
        raise InputError.plain(f"these judgements are already in the atlas, under the name {same.source['name']}")


def _require_own_verdicts(trials: pd.DataFrame) -> None:
    """Raise `InputError` if a judge has only ties, or two judges have the same judgements."""
    digests: dict[str, str] = {}
    for judge, part in trials.groupby("judge"):
        valid = part.loc[part["status"].isin(["ok", "tie"])]
        pairs = valid[valid["opponent_id"].notna()]
        if len(valid) > 1 and len(pairs) == len(valid) and (valid["value"] == _TIE).all():
            number = f"all {len(valid)} judgements of {judge} are ties"
            remedy = "failed calls are often saved as ties; select the other judges with --judge"
            raise InputError.plain(f"{number}; {remedy}")
        digest = _digest(part)
        if digest in digests:
            number = f"all {len(part)} judgements of {judge} equal those of {digests[digest]}"
            remedy = f"one file may have two names; select one: --judge {judge}=NAME"
            raise InputError.plain(f"{number}; {remedy}")
        digests[digest] = str(judge)


def _require_new_estimates(rows: pd.DataFrame, tables: list[pd.DataFrame]) -> None:
    """Raise `InputError` if a source in the atlas has the same estimates to all digits."""
    rounded = rows[_SAME].round({"estimate": 5, "ci_low": 5}).dropna().drop_duplicates()
    for table in tables:
        existing = table[[*_SAME, "source", "judge"]].round({"estimate": 5, "ci_low": 5}).drop_duplicates()
        matches = rounded.merge(existing, on=_SAME).groupby(["source", "judge"]).size()
        if len(matches) and matches.max() >= max(_FEWEST_EQUAL, _SHARE_EQUAL * len(rounded)):
            name, who = matches.sort_values().index[-1]
            number = f"{matches.max()} of {len(rounded)} estimates equal those of {who} from {name}"
            raise InputError.plain(f"the log is not new to the atlas: {number}")


def _about(name: str, family: str, released: str, reasons: bool | None) -> dict[str, Any]:
    dated = known_dates().set_index("judge")
    if name in dated.index:
        row = dated.loc[name]
        return {"judge": name, "family": row["family"], "released": row["released"], "reasons": bool(row["reasons"])}
    return {"judge": name, "family": family, "released": released, "reasons": reasons}


def _facts(trials: pd.DataFrame, digest: str) -> dict[str, Any]:
    readable = int(trials["status"].isin(["ok", "tie"]).sum())
    formats = sorted(set(map(str, trials.attrs.get("files", {}).values()))) or ["a table"]
    counts = {"judgements": len(trials), "readable": readable}
    counts["contexts"] = len(trials[["dataset", "context_id"]].drop_duplicates())
    return {"digest": digest, **counts, "formats": formats, "duplicates": int(trials.attrs.get("duplicates", 0))}


#: Outcomes of a check.
EQUAL, DIFFERENT, UPDATED, NOT_CARRIED = "equal", "different", "updated", "not carried"
_CELL = ("source", "probe", "judge", "dataset", "metric", *CONDITIONS)
_COMPARED = ("estimate", "ci_low", "ci_high", "q_value", "n_contexts", "n_trials", "n_dropped")
_CLOSE = 2e-5  # relative; the table has six significant digits


def check(folder: AnyPath = FOLDER, *, update: bool = False, resampling: Resampling | None = None) -> pd.DataFrame:
    """Recompute the estimates of contributions from their judgements, and compare.

    Parameters
    ----------
    folder : path
        Folder of files written by `biaslab.atlas.add`; by default the contributions in the package.
    update : bool
        Overwrite estimates and data card if they differ, for example after an estimator has changed.
    resampling : Resampling, optional
        The one passed to `biaslab.atlas.add`.

    Returns
    -------
    pandas.DataFrame
        One row per contribution: ``source``; ``estimates`` and ``judgements`` (counts); ``outcome``: *equal*,
        *different*, *updated* (differed and was overwritten), or *not carried* (the licence does not allow
        redistribution); and ``why`` it is not equal.

    Raises
    ------
    InputError
        If there is no such folder, or a file in it violates the schema.

    Examples
    --------
    >>> check().columns.tolist()
    ['source', 'estimates', 'judgements', 'outcome', 'why']
    """
    place = Path(folder)
    rows = []
    for one in estimates_table.contributions(place):
        why, again = _compared(one, place, resampling)
        outcome = DIFFERENT if why else EQUAL if again is not None else NOT_CARRIED
        if update and why and again is not None:
            again.save(place)
            outcome = UPDATED
        if outcome == NOT_CARRIED:
            why = f"judgements under the licence {one.source['licence']} are left out"
        rows.append((one.source["name"], len(one.estimates), int(one.log["judgements"]), outcome, why))
    return pd.DataFrame(rows, columns=["source", "estimates", "judgements", "outcome", "why"])


def _compared(one: Contribution, folder: Path, resampling: Resampling | None) -> tuple[str, Contribution | None]:
    """Return the differences and the recomputed contribution; None if its judgements are not included."""
    name = one.source["name"]
    if not one.log.get("carried"):
        return "", None
    if not rows_file(folder, name).is_file():
        return f"{rows_file(folder, name).name} is missing", None
    trials = load_rows(folder, name)
    if len(trials) != one.log["judgements"]:
        return f"{len(trials)} judgements, but the data card says {one.log['judgements']}", None
    about = one.source
    source = AtlasSource(name, about["title"], about["repository"], about["licence"], "", True, (), "", "")
    again = estimate_source(trials, source, resampling=resampling)
    recomputed = replace(one, estimates=again, version=str(again["version"].iloc[0]))
    return _difference(one.estimates, again) or _card_difference(one, folder), recomputed


def _difference(stored: pd.DataFrame, again: pd.DataFrame) -> str:
    """Describe the cells in which two tables of estimates differ; empty if there are none."""
    tables = [_by_cell(table) for table in (stored, again)]
    missing, added = (len(a.index.difference(b.index)) for a, b in (tables, tables[::-1]))
    if missing or added:
        return f"{missing} of {len(stored)} estimates do not come out again, and {added} are new"
    first, second = (table.sort_index() for table in tables)
    close = np.isclose(first.to_numpy(), second.to_numpy(), rtol=_CLOSE, atol=1e-6, equal_nan=True)
    places = np.flatnonzero(~close.all(axis=1))
    if not len(places):
        return ""
    row, column = int(places[0]), int(np.argmin(close[places[0]]))
    where = dict(zip(_CELL, first.index[row], strict=True))
    values = [f"{table.to_numpy()[row, column]:.6g}" for table in (first, second)]
    number = f"{len(places)} of {len(stored)} estimates differ"
    return f"{number}, such as {where['metric']} of {where['judge']}: {_COMPARED[column]} {values[0]}, now {values[1]}"


def _by_cell(table: pd.DataFrame) -> pd.DataFrame:
    cells = table.reindex(columns=list(_CELL)).astype("str").replace({"nan": "", "<NA>": "", "None": ""})
    numbers = table.reindex(columns=list(_COMPARED)).astype(float)
    return numbers.set_index(pd.MultiIndex.from_frame(cells))


def _card_difference(one: Contribution, folder: Path) -> str:
    card = folder / f"{one.source['name']}.md"
    same = card.is_file() and card.read_text(encoding="utf-8") == one.card()
    return "" if same else f"{card.name} is not the data card of the other files"


#: The model whose log perplexities are used for familiarity.
READER = "smollm2-135m"
#: Minimum number of contexts: the package's intervals are calibrated for eight contexts or more.
FEWEST_CONTEXTS = 8
_READ = 0.95  # minimum share of judgements with a log perplexity for estimating familiarity
TEXT = ["dataset", "context_id", "candidate_id"]
_COUNTS = ("n_contexts", "n_trials", "n_dropped", "seed")
#: Metrics reported for each subset of a data set, besides agreement with the gold label (`biaslab.audit`).
_OF_SUBSETS = ("first_position_rate", "order_consistency")
_PERSON = r"(?:expert|annotator)-\d+"  # judges that are one of several people
_NEVER_SAID = ("rules",)  # a condition that no log records
_NOT_COMPARED = ("score_share",)  # a distribution, which other metrics summarise
_OF_OTHERS = ("human_alpha", "alpha_gap")  # about the people it is compared with: reported for all


_DETAIL = ("other_judge", "left_out", "verdict", "label", "group", "member")


def estimate_source(
    trials: pd.DataFrame,
    source: AtlasSource,
    perplexities: pd.DataFrame | None = None,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Estimate everything that the trials of one source allow.

    Parameters
    ----------
    trials : pandas.DataFrame
        As returned by `biaslab.atlas.sources.AtlasSource.read` or `biaslab.atlas.trials`.
    source : Source
        Their source.
    perplexities : pandas.DataFrame, optional
        ``dataset, context_id, candidate_id, log_perplexity``, in nats per token, of judged texts; their scores are
        also analysed with `biaslab.probes.Familiarity`.
    resampling : Resampling, optional
        Settings of all estimates.

    Returns
    -------
    pandas.DataFrame
        The estimates frame with ``source``, ``repository`` and ``version`` (of biaslab), by judge and data set, first
        for the whole data set and then for its subsets, one row per cell. Estimates are omitted if they are undefined,
        have no interval (for example slopes given human scores if the judge's scores reach the top of their scale), or
        are based on fewer than `FEWEST_CONTEXTS` contexts.
    """
    draws = resampling or Resampling()
    rows = trials.drop(columns=list(PERPLEXITIES), errors="ignore")
    rows = rows if perplexities is None else _with_perplexities(rows, perplexities)
    rows.attrs = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)  # reported in the table by `n_dropped` and the bounds
        parts = [estimates for _, part in rows.groupby(["judge", "dataset"]) for estimates in _of_judge(part, draws)]
        parts += _of_people(rows, draws)
    whole = pd.concat([part for part in parts if len(part)], ignore_index=True)
    repository = source.repository.removeprefix("github.com/")
    return tidy(whole.assign(source=source.name, repository=repository, version=version("biaslab")))


def _of_judge(trials: pd.DataFrame, resampling: Resampling) -> Iterator[pd.DataFrame]:
    """Yield the audits of one judge on one data set: for the whole, for its subsets, and with perplexities."""
    only = [name for name in measures(resampling) if name != "one_order" or not _in_both_orders(trials)]
    whole = _by_configuration(_over_all_items(audit(trials, only=only, resampling=resampling)), trials)
    person = whole["judge"].str.fullmatch(_PERSON) & whole["metric"].isin(_OF_OTHERS)
    yield whole[~person]
    pairs = paired(trials)
    subsets = sorted(set(pairs["subset"].fillna("")) - {""})
    for subset in subsets if len(subsets) > 1 else ():
        one = pairs[pairs["subset"] == subset]
        estimates = without_breakdowns(audit(one, only=["position"], resampling=resampling))
        yield estimates[estimates["metric"].isin(_OF_SUBSETS)].assign(subset=subset)


def _over_all_items(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return the estimates without those of groups, of single verdicts and of people, which are many."""
    detail = [name for name in _DETAIL if name in estimates]
    kept = estimates[detail].isna().all(axis=1)
    if "rater" in estimates:
        kept &= estimates["rater"].ne("people")
    return estimates[kept].drop(columns=[*detail, "rater"], errors="ignore")


def _in_both_orders(trials: pd.DataFrame) -> bool:
    """Return whether a pair was judged in both orders, so that position bias needs no model of quality."""
    pairs = trials[trials["opponent_id"].notna()]
    shown = set(zip(pairs["context_id"], pairs["candidate_id"], pairs["opponent_id"], strict=True))
    return any((context, second, first) in shown for context, first, second in shown)


def _of_people(trials: pd.DataFrame, resampling: Resampling) -> Iterator[pd.DataFrame]:
    """Yield agreement between people whose ratings are judgements of the source."""
    people = trials[trials["judge"].str.fullmatch(_PERSON)]
    for _, part in people.groupby("dataset"):
        sides = part["candidate_id"].str.cat(part["opponent_id"].fillna(""), sep="|")
        yield audit_humans(part.assign(ratings="", candidate_id=sides), resampling)


def _with_perplexities(trials: pd.DataFrame, perplexities: pd.DataFrame) -> pd.DataFrame:
    by_text = perplexities.set_index(TEXT)["log_perplexity"]
    values = by_text.reindex(pd.MultiIndex.from_frame(trials[TEXT])).to_numpy()
    return trials.assign(log_perplexity=values) if np.mean(~np.isnan(values)) >= _READ else trials


def _by_configuration(estimates: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Name the configuration of each estimate, which audits append to the attribute if there are several."""
    names = scored(trials)[["attribute", "configuration"]].drop_duplicates()
    joined = names["attribute"] + " (" + names["configuration"] + ")"
    attribute, configuration = (dict(zip(joined, names[name], strict=True)) for name in names)
    only = names["configuration"].unique().tolist()
    configurations = estimates["attribute"].map(configuration)
    if len(only) == 1 and only != ["recorded"]:  # the only configuration of a judge
        configurations = configurations.fillna(only[0])
    declared = estimates.get("configuration")
    return estimates.assign(
        attribute=estimates["attribute"].map(lambda name: attribute.get(name, name)),
        configuration=configurations if declared is None else configurations.where(configurations.notna(), declared),
        likelihood_judge=np.where(estimates["probe"] == "familiarity", READER, ""),
    )


def tidy(estimates: pd.DataFrame) -> pd.DataFrame:
    """Keep estimates that are defined, have an interval and enough contexts, in a fixed order of non-empty columns."""
    rows = estimates.drop(columns=list(_NEVER_SAID), errors="ignore")
    rows = rows[~rows["metric"].isin(_NOT_COMPARED)]
    known = rows[["estimate", "ci_low", "ci_high"]].notna().all(axis=1)
    kept = rows[known & (rows["n_contexts"] >= FEWEST_CONTEXTS)]
    fixed = ("source", *LEADING, *CONDITIONS, *TRAILING, "repository", "version")
    others = sorted(set(kept.columns) - set(fixed))
    if others:
        raise InputError("estimates", others, f"conditions among {', '.join(CONDITIONS)}", "add them to CONDITIONS")
    blank = {name: kept[name].replace("", np.nan) for name in CONDITIONS if name in kept}
    filled = kept.assign(**blank).dropna(axis="columns", how="all")
    counts: Mapping[str, str] = {name: "int64" for name in _COUNTS if name in filled}
    columns = [name for name in fixed if name in filled]
    return filled[columns].astype(counts).reset_index(drop=True)
