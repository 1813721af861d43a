"""The atlas's table of estimates: its sources' and contributed ones, and those to compare a judge with.

They are made by `biaslab.atlas.add`; those in `FOLDER` are part of the atlas, and can be added by a pull request.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from biaslab.core.checks import fits
from biaslab.core.errors import InputError
from biaslab.core.files import DECODER, read_csv, write_csv
from biaslab.core.output import AnyPath, markdown, replacing, require_file
from biaslab.stats.frame import without_breakdowns

if TYPE_CHECKING:
    import pandas as pd

#: The file, next to this module; written by `tools/atlas/estimating.py`.
FILE = "estimates.csv"


def estimates(
    probe: str | Sequence[str] | None = None,
    metric: str | Sequence[str] | None = None,
    judge: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
    breakdowns: bool = True,
    folder: AnyPath | None = None,
) -> pd.DataFrame:
    """Return biaslab's estimates for recorded judges, including sources that cannot be redistributed.

    Parameters
    ----------
    probe, metric, judge, source : str or sequence of str, optional
        Rows to select; by default all. Judges include people: "expert-1", or "humans" for agreement between people.
    breakdowns : bool
        Include rows for single bins of the human score gap (column ``human_gap``).
    folder : path, optional
        Folder of contributions made by `biaslab.atlas.add`, whose rows are added to those of the package.

    Returns
    -------
    pandas.DataFrame
        The estimates frame, one scalar per row, with ``source`` (a name from `biaslab.atlas.sources`), ``repository``,
        and ``version`` (the version of biaslab that made the row). Conditions that do not apply are missing. Each
        judge was estimated separately on each data set; ``q_value`` is computed over the tests of one judge. No two
        rows have the same judge, data set, metric and conditions: P(A) and accuracy are for pairs judged in both
        orders (``probe`` "position"), and for all replies only if there are none. Estimates that are undefined, have
        no interval, or are based on fewer than eight contexts are omitted.

    Raises
    ------
    InputError
        If a name is unknown; the message lists the known ones. If the folder does not exist, or a contribution in it
        violates the schema.

    Examples
    --------
    >>> rows = estimates(metric="first_position_rate", judge="gpt-4-0613", source="mt_bench")
    >>> rows.loc[rows["probe"] == "position", ["dataset", "n_contexts"]].values.tolist()
    [['mt_bench', 80], ['mt_bench_repetition', 24]]
    """
    every = _read() if folder is None else _joined([_read(), *(one.estimates for one in contributions(folder))])
    rows = every
    for column, wanted in (("source", source), ("judge", judge), ("probe", probe), ("metric", metric)):
        if wanted is not None:
            rows = rows[rows[column].isin(_known(every, column, [wanted] if isinstance(wanted, str) else list(wanted)))]
    return (rows if breakdowns else without_breakdowns(rows)).reset_index(drop=True)


def _known(rows: pd.DataFrame, column: str, wanted: list[str]) -> list[str]:
    """Return the names; raise `InputError` if the table lacks one."""
    names = rows[column].unique().tolist()
    unknown = [name for name in wanted if name not in names]
    if unknown or not wanted:
        raise InputError(column, unknown or wanted, f"one or more of {', '.join(sorted(names))}")
    return wanted


def _joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables, without columns that are empty in all rows."""
    import pandas as pd

    filled = [table for table in tables if len(table)]
    whole = [table.dropna(axis=1, how="all") for table in filled]
    return pd.concat(whole, ignore_index=True) if filled[1:] else filled[0]


@cache
def _read(words: bool = True) -> pd.DataFrame:
    table = read_table(Path(__file__).with_name(FILE), words=words)
    return _joined([table, *(one.estimates for one in contributions())])


#: Conditions, in their order between metric and estimate.
CONDITIONS = (
    "attribute", "other", "template", "configuration", "form", "order", "scale", "answer", "subset", "own", "adjusted",
    "between", "component", "factor", "system", "scorer", "level", "coefficient", "human_gap", "score",
    "likelihood_judge",
)  # fmt: skip
_LETTERS, _MOST_WORDS = 60, 8  # maximum length of a label
_FORMULA = "=+@"  # first characters of a formula in a spreadsheet
_WORDS = ("method", "note", "notes", "repository")  # text columns, empty if missing


def write_estimates(estimates: pd.DataFrame, file: Path) -> None:
    """Write estimates for `biaslab.atlas.estimates`, with six significant digits."""
    write_csv(estimates, file, float_format="%.6g")


def read_table(file: Path, texts: Sequence[str] = (), words: bool = True) -> pd.DataFrame:
    """Read a file written by `write_estimates`; columns in ``texts`` are text, even if all values look like numbers.

    Without ``words``, methods, notes and repositories are left out, which takes a fifth of the time.
    """
    dtypes, read = dict.fromkeys((*_WORDS, *texts), "str"), None if words else lambda name: name not in _WORDS
    table = read_csv(file, low_memory=False, encoding="utf-8", dtype=dtypes, usecols=read)
    return table.fillna(dict.fromkeys(_WORDS, ""))


def require_labels(rows: pd.DataFrame, columns: Sequence[str], where: str) -> None:
    """Raise `InputError` if a label is so long that it may be a text."""
    for name in (name for name in columns if name in rows):
        for label in rows[name].dropna().astype(str).unique():
            plain = label.isprintable() and not label.startswith(tuple(_FORMULA))
            if not plain or len(label) > _LETTERS or len(re.findall(r"\S+", label)) > _MOST_WORDS:
                allowed = f"short labels in {where}: one line of at most {_LETTERS} letters and {_MOST_WORDS} words"
                raise InputError(name, label, allowed, f"replace it by one word, such as --map {name}==mine")


#: Folder of the contributions that are part of the atlas.
FOLDER = Path(__file__).with_name("contributed_logs")
#: Version of the file format: raised when the meaning of a field changes.
SCHEMA = 1
#: Columns of labels, which a log may fill arbitrarily.
LABELS = ("source", "judge", "dataset", *(name for name in CONDITIONS if name != "score"))
_NUMBERS = ("estimate", "ci_low", "ci_high", "n_contexts", "n_trials", "n_dropped")
_NEEDED = ("source", "probe", "judge", "dataset", "metric", *_NUMBERS, "q_value", "method", "note", "version")
_FINITE, _LARGEST = ("estimate", "n_contexts", "n_trials", "n_dropped"), 1e300
_OF_SOURCE = ("name", "title", "repository", "licence")
_OF_LOG = ("digest", "judgements", "readable", "contexts", "formats", "duplicates")
#: When a judge was released; empty if unknown.
MONTH = re.compile(r"(?:20\d\d-(?:0[1-9]|1[0-2]))?")
_BOUNDS = ("q_value", "bound_low", "bound_high")


@dataclass(frozen=True, eq=False)
class Contribution:
    """Estimates from a log contributed to the atlas.

    Attributes
    ----------
    source : mapping of str to str
        ``name, title, repository, licence``.
    judges : tuple of mapping
        ``judge, family, released`` ("2026-01"), ``reasons`` (bool or None).
    log : mapping
        ``digest`` of the judgements, ``judgements, readable, contexts, formats, duplicates``, and ``carried``
        (whether the judgements are included as numbers).
    version : str
        Version of biaslab.
    estimates : pandas.DataFrame
        As returned by `biaslab.atlas.estimates`.
    """

    source: Mapping[str, str]
    judges: tuple[Mapping[str, Any], ...]
    log: Mapping[str, Any]
    version: str
    estimates: pd.DataFrame

    def save(self, folder: AnyPath) -> list[Path]:
        """Write ``NAME.json``, ``NAME.csv`` and the data card ``NAME.md``; return the files.

        `biaslab.atlas.add` also writes the judgements, ``NAME.parquet``, if their licence is open.

        Raises
        ------
        InputError
            If a label is too long for a name, or the folder cannot be created.
        """
        require_labels(self.estimates, LABELS, "estimates")
        stem = Path(folder) / self.source["name"]
        facts = {"schema": SCHEMA, "source": dict(self.source), "judges": [dict(one) for one in self.judges]}
        facts |= {"log": dict(self.log), "biaslab": self.version}
        texts = {".json": json.dumps(facts, indent=2, ensure_ascii=False) + "\n", ".md": self.card()}
        files = {ending: require_file("folder", f"{stem}{ending}") for ending in (".json", ".csv", ".md")}
        blank = {name: math.nan for name in _NEEDED if name not in self.estimates}  # such as q-values without a test
        write_estimates(self.estimates.assign(**blank), files[".csv"])
        for ending, text in texts.items():
            with replacing(files[ending]) as partial:
                partial.write_text(text, encoding="utf-8")
        return list(files.values())

    def card(self) -> str:
        """Return the data card as Markdown: judges, number of judgements, how they were read, and the licence."""
        log, source = self.log, {name: markdown(text) for name, text in self.source.items()}
        judges = [
            "* "
            + ", ".join(markdown(text) for text in (one["judge"], one["family"], one["released"]) if text)
            + (", reasons" if one["reasons"] else "")
            for one in self.judges
        ]
        counts = [
            f"* Judgements: {log['judgements']:,}, {log['readable']:,} of them readable",
            f"* Contexts: {log['contexts']:,}",
            f"* Duplicates dropped: {log['duplicates']:,}",
            f"* Read as: {markdown(', '.join(log['formats']))}",
            f"* Estimates: {len(self.estimates):,} with biaslab {markdown(self.version)}, of probes "
            + markdown(", ".join(sorted(set(self.estimates["probe"])))),
            f"* Digest of the judgements (SHA-256): {markdown(log['digest'])}",
        ]
        origin = [f"* Published at: {source['repository'] or 'not published'}", f"* Licence: {source['licence']}"]
        title = source["title"].rstrip(".") if source["title"] != source["name"] else "A log of judgements"
        parts = [f"# {source['name']}", f"{title}.", "\n".join(origin), "## Judges", "\n".join(judges)]
        carried = "are included as numbers" if log.get("carried") else "are not included under this licence"
        left_out = f"Texts, prompts and replies are left out: these files hold numbers. The judgements {carried}."
        parts += ["## Log", "\n".join(counts), left_out]
        return "\n\n".join(parts) + "\n"


def contributions(folder: AnyPath = FOLDER) -> list[Contribution]:
    """Return the contributions in a folder, by name.

    Raises
    ------
    InputError
        If the folder does not exist, or a file violates the schema.

    Examples
    --------
    >>> [one.source["name"] for one in contributions()]
    []
    """
    place = Path(folder)
    if not place.is_dir():
        raise InputError("folder", str(folder), "a folder of files written by `biaslab atlas add`")
    return [read_contribution(file) for file in sorted(place.glob("*.json"))]


def read_contribution(file: Path) -> Contribution:
    """Return the contribution in a JSON file and the CSV file next to it.

    Raises
    ------
    InputError
        If one is missing, or violates the schema.
    """
    try:
        facts: Any = DECODER.decode(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(file, f"JSON ({error})") from error
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        remedy = "a newer biaslab wrote it: upgrade, or add the log again"
        raise InputError("folder", str(file), f"a contribution of schema {SCHEMA}", remedy)
    source, log, judges = (cast(Any, facts.get(name)) for name in ("source", "log", "judges"))
    whole = isinstance(source, dict) and isinstance(log, dict) and isinstance(judges, list)
    if not whole or set(_OF_SOURCE) - set(source) or set(_OF_LOG) - set(log) or source["name"] != file.stem:
        raise _refused(file, f"an object with source, named as the file ({', '.join(_OF_SOURCE)}), judges and log")
    counts = [value for name, value in log.items() if name in _OF_LOG and name not in ("digest", "formats")]
    plain = fits(list(source.values()), Sequence[str]) and fits(log["digest"], str) and fits(counts, Sequence[int])
    if not plain or not fits(log["formats"], Sequence[str]) or not all(_is_judge(one) for one in judges):
        raise _refused(file, "texts in source, counts in log, and judges with family, month of release and reasons")
    if not file.with_suffix(".csv").is_file():
        raise _refused(file, f"one with its estimates in {file.stem}.csv next to it")
    estimates = _checked_table(file.with_suffix(".csv"))
    return Contribution(source, tuple(judges), log, str(facts.get("biaslab", "")), estimates)


def _is_judge(facts: Any) -> bool:
    texts = isinstance(facts, dict) and [facts.get(name) for name in ("judge", "family", "released")]
    known = texts and fits(texts, Sequence[str]) and MONTH.fullmatch(facts["released"])
    return bool(known) and fits(facts.get("reasons"), bool | None)


def _checked_table(file: Path) -> pd.DataFrame:
    """Return the estimates in a file, checking that they are numbers, of one source, with short labels."""
    rows = read_table(file, LABELS)
    missing = [name for name in _NEEDED if name not in rows]
    if missing:
        raise _refused(file, f"a table with the columns {', '.join(missing)}")
    wrong = [name for name in (*_NUMBERS, *_BOUNDS) if name in rows and rows[name].dtype.kind not in "if"]
    wrong = wrong or [name for name in _FINITE if not rows[name].between(-_LARGEST, _LARGEST).all()]
    if wrong or set(rows["source"]) != {file.stem}:
        raise _refused(file, f"numbers in {', '.join(wrong or ['estimate'])}, and {file.stem} as the only source")
    require_labels(rows, LABELS, str(file))
    return rows


def _refused(file: Path, allowed: str) -> InputError:
    return InputError("folder", str(file), allowed, "add the log again with `biaslab atlas add`")


#: Judges that are people, individually or together.
PEOPLE = r"(?:expert|annotator)-\d+|annotators' mean|humans"
#: Reward models, which score texts alone: no position bias by construction.
_REWARDS = "judgebench"
#: For sources with several ways of asking, some of them remedies: the plain one.
_PLAINEST = {"llmbar": "Vanilla", "self_recognition": "recorded", "small_judges": "baseline"}


@cache
def reference() -> pd.DataFrame:
    """Return the atlas's estimates that a judge is compared with.

    Excludes people, subsets of data sets, and the position bias of reward models, which have none by construction. Of
    LLMBar's ten prompts, most of which are remedies, only the plain one is used, and of pairs that include a judge's
    own text, those without author names.

    Returns
    -------
    pandas.DataFrame
        Rows of `biaslab.atlas.estimates`, without words, with the name of the source as ``dataset``.
    """
    rows = _read(words=False)
    return rows[of_models(rows)].assign(dataset=rows["source"])


def of_models(rows: pd.DataFrame) -> pd.Series:
    """Return whether estimates are of models that could be biased, asked in the plainest way: see `reference`."""
    free = (rows["source"] == _REWARDS) & (rows["probe"] == "position")
    return ~rows["judge"].str.fullmatch(PEOPLE) & is_plain(rows) & ~free


def is_plain(rows: pd.DataFrame) -> pd.Series:
    """Return whether estimates are of whole data sets, asked in the plainest way if a source has several."""
    plain = rows["subset"].isna()
    for source, template in _PLAINEST.items():
        plain &= (rows["source"] != source) | rows["template"].isna() | (rows["template"] == template)
    return plain
