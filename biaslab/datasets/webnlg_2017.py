"""WebNLG 2017: English texts by 9 systems from RDF triples, crowd means of three attributes (path needed)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.datasets._files import DECLARED, from_rows, need_path, read_columns, read_number, text_key

ATTRIBUTES: dict[str, str] = DECLARED["webnlg_2017"]
SCALE = (1.0, 3.0)
#: The human texts, which were rated too, and are the reference of the others.
REFERENCE = "webnlg"
#: Metrics in the file for every text, by the columns that contain them.
METRICS = {"bleu": "BLEU", "meteor": "METEOR", "ter": "TER"}
_COLUMNS = ("mr", "team", "text")
_EMPTY = ("", "null")
REMEDY = "get all_data_final_averaged.csv (gitlab.com/webnlg/webnlg-human-evaluation)"


def load(path: str | Path | None = None, systems: Sequence[str] | None = None) -> Dataset:
    """Load the human evaluation of the WebNLG 2017 challenge, used by Liusie et al. (2024).

    Parameters
    ----------
    path : str or Path
        The table of mean ratings, ``all_data_final_averaged.csv``, with the columns ``mr`` (the triples, separated by
        ``<br>``), ``team``, ``text``, ``fluency``, ``grammar``, ``semantics``; other columns are ignored.
    systems : sequence of str, optional
        Teams to keep; by default all except the human texts, "webnlg".

    Returns
    -------
    Dataset
        Noun ``"text"``, scale 1-3; ``context`` has one triple per line, ``subject | predicate | object``,
        ``reference`` is the human text, and ``annotator`` is ``crowd_mean``. Missing outputs (an empty text, or
        "null") are dropped, and ``provenance`` gives their number. The file has nine systems, of which the paper uses
        eight without naming them.

    Raises
    ------
    InputError
        If no path is given, or a system is unknown.
    DatasetError
        If a column is missing or a rating is not a number from 1 to 3; the message names file, row and column.

    References
    ----------
    Gardent et al. 2017, *The WebNLG Challenge: Generating Text from RDF Data*, INLG; Shimorina et al. 2018, *WebNLG
    Challenge: Human Evaluation Results*.

    Examples
    --------
    >>> data = load("all_data_final_averaged.csv")  # doctest: +SKIP
    """
    file = need_path(path, REMEDY)
    table = _read(file, tuple(ATTRIBUTES))
    known = list(dict.fromkeys(table["team"]))
    chosen = list(systems) if systems is not None else [team for team in known if team != REFERENCE]
    if not chosen or set(chosen) - set(known):
        raise InputError("systems", list(systems or ()), f"some of {', '.join(known)}")
    human_texts = table[table["team"] == REFERENCE].set_index("key")["text"].to_dict()
    rated = table[table["team"].isin(chosen)]
    kept = rated[~rated["text"].isin(_EMPTY)]
    candidates, human = [], []
    for row, values in kept.iterrows():
        key, team = values["key"], values["team"]
        triples = "\n".join(part.strip() for part in values["mr"].split("<br>"))
        candidates.append((key, triples, team, team, values["text"], human_texts.get(key, "")))
        for name in ATTRIBUTES:
            score = read_number(values[name], f"{file}, row {row}, column {name!r}", *SCALE)
            human.append((key, team, name, "crowd_mean", score))
    paper = "WebNLG 2017 human evaluation (Gardent et al. 2017; Shimorina et al. 2018)"
    provenance = f"{paper}. {len(chosen)} systems; {len(rated) - len(kept)} texts without words left out."
    return from_rows("webnlg_2017", candidates, human, ATTRIBUTES, SCALE, "text", provenance)


def published_scores(path: str | Path | None, dataset: Dataset) -> pd.DataFrame:
    """Read the metrics in the file for every text: BLEU, METEOR, and TER with reversed sign.

    Parameters
    ----------
    path : str or Path
        As in `load`.
    dataset : Dataset
        As returned by `load`; its candidates are scored.

    Returns
    -------
    pandas.DataFrame
        A scores frame (`biaslab.scoring.scores`), in which higher is better; ``judge`` is "webnlg 2017". Computing
        METEOR requires WordNet, so only its published values are available. If the file lacks a metric, it has no
        rows.

    Raises
    ------
    DatasetError
        If a score is not a number.
    """
    file = need_path(path, REMEDY)
    table = _read(file, ())
    items = dataset.candidates[["context_id", "candidate_id"]]
    parts = [items.iloc[:0].assign(scorer="", judge="", dataset="", attribute="", score=0.0)]
    for column, metric in METRICS.items():
        if column not in table:
            continue
        sign = -1.0 if column == "ter" else 1.0
        read = {
            (key, team): sign * read_number(value, f"{file}, row {row}, column {column!r}", 0.0)
            for row, key, team, value in zip(table.index, table["key"], table["team"], table[column], strict=True)
        }
        values = [read.get(item, float("nan")) for item in items.itertuples(index=False, name=None)]
        whose = {"scorer": f"{metric} (reference)", "judge": "webnlg 2017", "dataset": dataset.name}
        parts += [items.assign(**whose, attribute=name, score=values) for name in dataset.attributes]
    columns = ["scorer", "judge", "dataset", "attribute", "context_id", "candidate_id", "score"]
    return pd.concat(parts, ignore_index=True)[columns]


def _read(file: Path, attributes: tuple[str, ...]) -> pd.DataFrame:
    """Return the table with stripped texts, and the key of each set of triples."""
    table = read_columns(file, (*_COLUMNS, *attributes), REMEDY)
    for name in _COLUMNS:
        table[name] = table[name].astype(str).str.strip()
    return table.assign(key=table["mr"].map(text_key))
