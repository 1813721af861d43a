"""Add a log to the atlas: check it, estimate it, and write its data card."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.atlas.contributed import FOLDER, Contribution, contributions
from biaslab.atlas.contributed_rows import OPEN_LICENCES, coded, require_row_labels, rows_file, save_rows
from biaslab.atlas.estimates_table import estimates as all_estimates
from biaslab.atlas.release_trend import released as known_dates
from biaslab.atlas.sources import SOURCES, Source
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.stats import Resampling

#: Known licences, by SPDX identifier; "none" for an unpublished log.
LICENCES = ("none", *OPEN_LICENCES, "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "GPL-3.0-only")
_OTHER_LICENCE = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")
_NAME = re.compile(r"[a-z][a-z0-9_]{1,39}")
_REPOSITORY = re.compile(r"(?:[\w.-]+/[\w.-]+|https://[^\s\"<>]+)?")
_MONTH = re.compile(r"(?:20\d\d-(?:0[1-9]|1[0-2]))?")
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
    folder: str | PathLike[str],
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
    from biaslab.atlas.estimating import estimate_source

    _require_facts(source, licence, repository, released)
    contributed = contributions(folder) if Path(folder).is_dir() else []
    others = [one for one in [*contributed, *contributions()] if one.source["name"] != source]
    _require_new_name(source, Path(folder), replace)
    trials = _named(_read(log, format, mapping), judge)
    trials = trials.assign(dataset=trials["dataset"].where(trials["dataset"] != _UNNAMED, source))
    digest = _digest(trials)
    _require_new_judgements(digest, others)
    _require_own_verdicts(trials)
    trials = coded(trials)
    source_facts = Source(source, title or source, repository, licence, "", False, (), "", "")
    rows = estimate_source(trials, source_facts, resampling=resampling)
    if rows.empty:
        raise InputError(
            "log",
            f"{len(trials)} judgements",
            "a log from which a metric can be estimated",
            "see `biaslab doctor`",
        )
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
        require_one_of(
            "licence", licence, LICENCES, "use LicenseRef-NAME for another licence, none for an unpublished log"
        )
    if not _REPOSITORY.fullmatch(repository):
        raise InputError("repository", repository, "owner/name on GitHub, or a URL that begins with https://")
    if not _MONTH.fullmatch(released):
        raise InputError("released", released, "a month", "such as 2026-01")


def _require_new_name(source: str, folder: Path, replace: bool) -> None:
    existing = {one.name for one in SOURCES} | {one.source["name"] for one in contributions()}
    if source in existing and folder.resolve() != FOLDER.resolve():
        raise InputError("source", source, "a name not yet in the atlas", "see `biaslab atlas list`")
    if (folder / f"{source}.json").exists() and not replace:
        raise InputError("source", source, f"a name not yet in {folder}", "use --replace to overwrite it")


def _read(log: pd.DataFrame | str | Path, format: str | None, mapping: Any) -> pd.DataFrame:  # noqa: A002
    import pandas as pd

    from biaslab.logs.readers import read_judgements
    from biaslab.logs.readers.unread import require_readable

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
        raise InputError(
            "judge",
            judge,
            f"a name for each judge to add: {', '.join(inside)}",
            f"such as {inside[0]}={judge}",
        )
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
        raise InputError(
            "log",
            same.source["name"],
            "judgements that are new to the atlas",
            "they were already added under this name",
        )


def _require_own_verdicts(trials: pd.DataFrame) -> None:
    """Raise `InputError` if a judge has only ties, or two judges have the same judgements."""
    digests: dict[str, str] = {}
    for judge, part in trials.groupby("judge"):
        valid = part.loc[part["status"].isin(["ok", "tie"])]
        pairs = valid[valid["opponent_id"].notna()]
        if len(valid) > 1 and len(pairs) == len(valid) and (valid["value"] == _TIE).all():
            number = f"all {len(valid)} judgements of {judge} are ties"
            remedy = "failed calls are often saved as ties; select the other judges with --judge"
            raise InputError("log", number, "judgements that name a winner at least once", remedy)
        digest = _digest(part)
        if digest in digests:
            number = f"all {len(part)} judgements of {judge} equal those of {digests[digest]}"
            remedy = f"one file may have two names; select one: --judge {judge}=NAME"
            raise InputError("log", number, "judges with different judgements", remedy)
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
            raise InputError("log", number, "a log that is new to the atlas")


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
