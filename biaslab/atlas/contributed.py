"""Contributions: results from other people's logs, as a JSON file of facts and a CSV file of estimates, without text.

They are made by `biaslab.atlas.add`; those in `FOLDER` are part of the atlas, and can be added by a pull request.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from biaslab.atlas.estimates_csv import CONDITIONS, read_table, require_labels, write_estimates
from biaslab.core.errors import InputError
from biaslab.core.output import replacing, require_file
from biaslab.core.strict_json import DECODER

if TYPE_CHECKING:
    import pandas as pd

#: Folder of the contributions that are part of the atlas.
FOLDER = Path(__file__).with_name("contributed_logs")
#: Version of the file format: raised when the meaning of a field changes.
SCHEMA = 1
#: Columns of labels, which a log may fill arbitrarily.
LABELS = ("source", "judge", "dataset", *(name for name in CONDITIONS if name != "score"))
_NUMBERS = ("estimate", "ci_low", "ci_high", "n_contexts", "n_trials", "n_dropped")
_NEEDED = ("source", "probe", "judge", "dataset", "metric", *_NUMBERS, "q_value", "method", "note", "version")
_OF_SOURCE = ("name", "title", "repository", "licence")
_OF_LOG = ("digest", "judgements", "readable", "contexts", "formats", "duplicates")


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

    def save(self, folder: str | PathLike[str]) -> list[Path]:
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
        blank = {
            name: math.nan for name in _NEEDED if name not in self.estimates
        }  # for example q-values without a test
        write_estimates(self.estimates.assign(**blank), files[".csv"])
        for ending, text in texts.items():
            with replacing(files[ending]) as partial:
                partial.write_text(text, encoding="utf-8")
        return list(files.values())

    def card(self) -> str:
        """Return the data card as Markdown: judges, number of judgements, how they were read, and the licence."""
        log, source = self.log, self.source
        judges = [
            "* " + ", ".join(filter(None, (one["judge"], one["family"], one["released"], one["reasons"] and "reasons")))
            for one in self.judges
        ]
        counts = [
            f"* Judgements: {log['judgements']:,}, {log['readable']:,} of them readable",
            f"* Contexts: {log['contexts']:,}",
            f"* Duplicates dropped: {log['duplicates']:,}",
            f"* Read as: {', '.join(log['formats'])}",
            f"* Estimates: {len(self.estimates):,} with biaslab {self.version}, of probes "
            + ", ".join(sorted(set(self.estimates["probe"]))),
            f"* Digest of the judgements (SHA-256): `{log['digest']}`",
        ]
        origin = [f"* Published at: {source['repository'] or 'not published'}", f"* Licence: {source['licence']}"]
        title = source["title"].rstrip(".") if source["title"] != source["name"] else "A log of judgements"
        parts = [f"# {source['name']}", f"{title}.", "\n".join(origin), "## Judges", "\n".join(judges)]
        carried = "are included as numbers" if log.get("carried") else "are not included under this licence"
        left_out = f"Texts, prompts and replies are left out: these files hold numbers. The judgements {carried}."
        parts += ["## Log", "\n".join(counts), left_out]
        return "\n\n".join(parts) + "\n"


def contributions(folder: str | PathLike[str] = FOLDER) -> list[Contribution]:
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
    except (OSError, ValueError) as error:
        raise _refused(file, f"JSON ({error})") from error
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        remedy = "a newer biaslab wrote it: upgrade, or add the log again"
        raise InputError("folder", str(file), f"a contribution of schema {SCHEMA}", remedy)
    source, log, judges = (cast(Any, facts.get(name)) for name in ("source", "log", "judges"))
    whole = isinstance(source, dict) and isinstance(log, dict) and isinstance(judges, list)
    if not whole or set(_OF_SOURCE) - set(source) or set(_OF_LOG) - set(log) or source["name"] != file.stem:
        raise _refused(file, f"an object with source, named as the file ({', '.join(_OF_SOURCE)}), judges and log")
    if not file.with_suffix(".csv").is_file():
        raise _refused(file, f"one with its estimates in {file.stem}.csv beside it")
    estimates = _checked_table(file.with_suffix(".csv"))
    return Contribution(source, tuple(judges), log, str(facts.get("biaslab", "")), estimates)


def _checked_table(file: Path) -> pd.DataFrame:
    """Return the estimates in a file, checking that they are numbers, of one source, with short labels."""
    rows = read_table(file, LABELS)
    missing = [name for name in _NEEDED if name not in rows]
    if missing:
        raise _refused(file, f"a table with the columns {', '.join(missing)}")
    wrong = [name for name in _NUMBERS if rows[name].dtype.kind not in "if"]
    if wrong or rows["estimate"].isna().any() or set(rows["source"]) != {file.stem}:
        raise _refused(file, f"numbers in {', '.join(wrong or ['estimate'])}, and {file.stem} as the only source")
    require_labels(rows, LABELS, str(file))
    return rows


def _refused(file: Path, allowed: str) -> InputError:
    return InputError("folder", str(file), allowed, "add the log again with `biaslab atlas add`")
