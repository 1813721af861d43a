r"""Load a mapping and read a table with it, or override by it the columns that a format's reader found.

A mapping gives, for each column of the trials, one of the forms in `biaslab.logs.readers.expressions`: ``"field"``, a
field or dotted path; ``"=text"``, a constant; ``"field~expression"``, the first group of a regular expression searched
in the field; ``"field | 0 -> tie, 1 -> a"``, the meaning of its values. Fields that have the name of a trials column
need no entry. One of these outcomes is required:

``winner``
    The candidate that won: its identifier, "first", "second" or "tie".
``p_first``
    Probability that the candidate shown first wins, 0 to 1.
``score``
    A number on the ``scale``, such as "1-5", which is required too.
``reply``
    The judge's text. For pairs, ``[[A]]`` or "A" is the first, B the second, C a tie; for scores, it states a score.

Further entries are optional:

``replicate``
    A field with integers, or ``=#`` to number repeated judgements in the order of the file.
``swapped``
    True if the candidate of a row was shown second. In ``winner``, "first" and "second" then mean positions as shown,
    and "candidate" and "opponent" the columns of the row.
``shown_first``
    The candidate that was shown first, in the form of ``winner``; with any other value, the order is unknown.
``winner_swapped``
    For rows with verdicts of both orders: the verdict in the other order, read like ``winner`` of a swapped row. Each
    row becomes two judgements.
``person``
    Who gave the scores, in a log of people without a judge; such a log has no judge's verdict.
``preference``
    The candidate that humans prefer, in the form of ``winner``: a gold label, or a list or several fields with one
    entry per person. It becomes ``human_gap``, -1 to 1.
``ratings``
    Human scores of a candidate: a list, or several fields. Their mean becomes ``human``.
``text``, ``opponent_text``
    The judged texts, which become ``words`` and ``opponent_words``.

Several columns of verdicts or scores, ``score = ["tone", "style"]``, are read one after the other; other entries can
then be tables with a value for each, such as ``scale = { tone = "=0-2", style = "=1-5" }``.

A record that does not match a required expression becomes a row without a value, with the status "unparsable"; an
identifier then falls back to the whole field.

A mapping is a dictionary, a TOML file, or a function of the table::

    # mapping of verdicts.json
    join = "annotators.json on idx"          # a second file, relative to this one
    explode = "games"                        # one row per item of a list
    judge = "=GPT-3.5"                       # like --map judge==GPT-3.5
    context_id = "idx"
    winner = { field = "games.verdict", values = { 1 = "first", 2 = "second", 0 = "tie" } }
    preference = ["annotator1", "annotator2", "annotator3"]

``format`` and ``score_pattern`` are allowed too. Names and expressions are checked when the file is loaded.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools
from biaslab.core.errors import InputError
from biaslab.core.scales import scale_named
from biaslab.logs.readers import readings
from biaslab.logs.readers.cells import items_in, read_value
from biaslab.logs.readers.documents import iter_documents, read_frame, read_rows
from biaslab.logs.readers.expressions import KINDS, LISTS, NO_WINNER, OPEN, TEXTS, columns_of, parse_expression
from biaslab.logs.readers.flatten import are_annotations, by_item
from biaslab.logs.readers.readings import OF_PAIRS, OF_SCORES, OUTCOMES
from biaslab.logs.readers.rows import Log, LogSource, Rows, field_names
from biaslab.logs.readers.trials import COLUMNS, SCHEMA, trials_of

_SHOWN = 6  # verdicts shown in a message

#: Columns that must be mapped explicitly, because fields with these names rarely have this meaning.
_EXPLICIT = (*TEXTS, "person", "samples", "label_mass", "swapped", "shown_first", "winner_swapped")
#: Columns of trials that can distinguish columns of verdicts.
DISTINGUISHING = ("judge", "attribute", "replicate", "template", "configuration")
_UNMAPPED = ("probe", "value", "status", "key", "p_first_label", "p_both_orders")
NAMES = tuple(dict.fromkeys((*OUTCOMES, *(c for c in COLUMNS if c not in _UNMAPPED), "preference", *_EXPLICIT)))


def with_preference(columns: dict[str, pd.Series], swapped: pd.Series | None = None) -> dict[str, pd.Series]:
    """Convert ``preference`` to ``human_gap``, unless that is mapped; `swapped` flags exchanged rows."""
    if "preference" not in columns:
        return columns
    rest = {name: column for name, column in columns.items() if name != "preference"}
    if "human_gap" in rest:
        return rest
    named, (first, second) = columns["preference"], (rest["candidate_id"], rest["opponent_id"])
    listed = [row if isinstance(row, list) else [] for row in named]
    if named.dtype == "str":  # a constant
        listed = [[text] for text in named]
    return rest | {"human_gap": readings.human_gaps(listed, first, second, swapped)}


def as_shown(columns: dict[str, pd.Series]) -> dict[str, pd.Series]:
    """Exchange candidate and opponent in rows that were shown in the other order."""
    if "shown_first" in columns:
        ahead = readings.sides(columns.pop("shown_first"), columns["candidate_id"], columns["opponent_id"])
        known = pd.Series(np.isin(ahead, (0.0, 1.0)), index=columns["candidate_id"].index)
        columns["order_known"] = columns.get("order_known", known) & known
        columns["swapped"] = pd.Series(ahead == 0.0, index=known.index)
    elif "swapped" in columns and "opponent_id" in columns:
        _require_fixed_columns(columns)
    if "swapped" not in columns:
        return columns
    swapped = columns["swapped"]
    exchanged = {
        name: columns[name].where(~swapped, columns[other])
        for one, two in (("candidate_id", "opponent_id"), ("words", "opponent_words"))
        if one in columns and two in columns
        for name, other in ((one, two), (two, one))
    }
    if "human_gap" in columns:
        exchanged["human_gap"] = columns["human_gap"].where(~swapped, -columns["human_gap"])
    return columns | exchanged


def _require_fixed_columns(columns: Mapping[str, pd.Series]) -> None:
    """Raise `InputError` if the candidates of swapped rows are exchanged already, so that swapping undoes the order."""
    swapped = columns["swapped"].to_numpy(bool)
    names = ("context_id", "candidate_id", "opponent_id")
    context, one, two = (columns[name].astype(str).to_numpy() for name in names)
    here, turned = (pd.MultiIndex.from_arrays(pair) for pair in ([context, one, two], [context, two, one]))
    fixed, exchanged = (int(rows[swapped].isin(here[~swapped]).sum()) for rows in (here, turned))
    if exchanged > fixed:
        held = f"{exchanged} pairs have their candidates exchanged in swapped rows already"
        remedy = "the columns hold the order shown: leave swapped out of the mapping"
        raise InputError("mapping['swapped']", held, "a flag beside columns that stay as they are", remedy)


def read_mapped(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return one trial per record, or two if it has both orders; with an ``opponent_id``, trials are pairs.

    Raises
    ------
    InputError
        If context, candidate, outcome or scale is neither in the file nor mapped.
    """
    return read_entries(rows, source, completed(rows, mapping))


def read_entries(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials of a mapping to which no field of the file is added."""
    whole = dict(mapping)
    if "person" in mapping:
        whole = {name: entry for name, entry in whole.items() if name != "person"} | {"judge": mapping["person"]}
    parts = by_column(whole)
    if len(parts) > 1:
        return pd.concat([_read_once(rows, source, own) for own in parts])
    if "winner_swapped" in whole:
        return _in_both_orders(rows, source, whole)
    return _read_once(rows, source, whole)


def by_column(mapping: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one mapping for each column of verdicts or scores.

    An entry that is a table with the names of these columns has a value for each. Unless one says otherwise, the name
    of the column is the attribute.

    Examples
    --------
    >>> both = {"score": {"fields": ["tone", "style"]}, "scale": {"tone": "=0-2", "style": "=1-5"}}
    >>> by_column(both)[1]
    {'score': {'fields': ['style']}, 'scale': '=1-5', 'attribute': '=style'}
    """
    outcome = next((name for name in OUTCOMES if name in mapping), None)
    entry = mapping.get(outcome) if outcome is not None else None
    fields = entry.get("fields") if isinstance(entry, Mapping) else None
    if outcome is None or not isinstance(entry, Mapping) or not isinstance(fields, list) or len(fields) < 2:
        return [dict(mapping)]
    parts = []
    for column in fields:
        own = {n: each.get(column) if _is_by_column(each, fields) else each for n, each in mapping.items()}
        own = {name: each for name, each in own.items() if each is not None} | {outcome: {**entry, "fields": [column]}}
        if not any(_is_by_column(mapping.get(name), fields) for name in DISTINGUISHING) and "attribute" not in own:
            own["attribute"] = f"={column}"
        parts.append(own)
    return parts


def _is_by_column(entry: Any, fields: Sequence[str]) -> bool:
    return isinstance(entry, Mapping) and bool(entry) and set(entry) <= set(fields)


def completed(rows: Rows, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with the fields that map themselves, in a table with the columns of trials."""
    if not (rows.has("context_id") and rows.has("candidate_id")):
        return dict(mapping)
    names = [name for name in NAMES if name not in _EXPLICIT]
    return {name: name for name in names if _maps_itself(rows, name, mapping)} | dict(mapping)


def _maps_itself(rows: Rows, name: str, mapping: Mapping[str, Any]) -> bool:
    """Return whether a field maps itself: it has a column's name and type, and competes with no mapped outcome."""
    if not rows.has(name) or (name in OUTCOMES and name != "reply" and set(OUTCOMES) & set(mapping)):
        return False
    if name in LISTS:
        return True
    values = [value for value in rows.values(name) if value is not None and value != ""]
    return not values or any(read_value(value, KINDS.get(name, "any")) is not None for value in values)


def _in_both_orders(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return two trials per record, one for the verdict in each order."""
    if "swapped" in mapping or "winner" not in mapping or "opponent_id" not in mapping:
        allowed = "used with opponent_id and winner (the verdict in the row's order), and without swapped"
        raise InputError("mapping['winner_swapped']", mapping["winner_swapped"], allowed)
    as_stands = {name: expression for name, expression in mapping.items() if name != "winner_swapped"}
    other = as_stands | {"winner": mapping["winner_swapped"], "swapped": "=true"}
    return pd.concat([_read_once(rows, source, each, both=True) for each in (as_stands, other)])


def _read_once(rows: Rows, source: LogSource, mapping: Mapping[str, Any], both: bool = False) -> pd.DataFrame:
    """Return one trial per record; with ``both``, human preferences refer to the record's first candidate."""
    is_pair = "opponent_id" in mapping
    outcome = next((name for name in (*(OF_PAIRS if is_pair else OF_SCORES), *OUTCOMES) if name in mapping), None)
    _require_entries(rows, source, mapping, outcome)
    columns, unmatched = columns_of(rows, mapping)
    if is_pair:
        if both:
            columns = as_shown(with_preference(columns))
        else:
            columns = as_shown(columns)
            columns = with_preference(columns, columns.get("swapped"))
        rows.leave_out(columns["candidate_id"] == columns["opponent_id"], "a candidate is compared with itself")
    elif "ratings" in columns and "scale" in columns:
        columns.setdefault("human_scale", columns["scale"])
    if outcome is None:
        reading = pd.DataFrame({"value": np.nan, "status": "unparsable"}, index=range(len(rows.records)))
    else:
        read = readings.read_pair if is_pair else readings.read_score
        reading = read(columns, outcome, source)
        if outcome == "winner":
            _note_unknown(rows, columns["winner"][reading["status"] == "unparsable"])
    kept = {name: column for name, column in columns.items() if name in COLUMNS}
    trials = trials_of({**kept, **reading}, pd.RangeIndex(len(rows.records)))
    return without_value(trials, unmatched)


def _note_unknown(rows: Rows, words: pd.Series) -> None:
    """Count verdicts that name neither candidate of their row."""
    known = Counter(word.strip() for word in words.dropna() if word.strip() != NO_WINNER)
    if known:
        shown = ", ".join(word for word, _ in known.most_common(_SHOWN))
        rows.log.unmatched[f"winner names neither candidate; give the meaning of its values ({shown})"] += known.total()


def _require_entries(rows: Rows, source: LogSource, mapping: Mapping[str, Any], outcome: str | None) -> None:
    """Raise `InputError` unless all required columns are mapped; human ratings alone need no judge's score."""
    missing = [name for name in ("context_id", "candidate_id") if name not in mapping]
    alone = outcome is None and not ("ratings" in mapping and "opponent_id" not in mapping)
    if missing or alone:
        wanted = [*missing, *([f"one of {', '.join(OUTCOMES)}"] if alone else [])]
        remedy = f"the file has {field_names(rows.records)}; write for example context_id=question"
        raise InputError(f"mapping of {source.file}", dict(mapping), f"entries for {' and '.join(wanted)}", remedy)
    if outcome is not None and "opponent_id" not in mapping and "scale" not in mapping:
        raise InputError("mapping", dict(mapping), "an entry for scale", "such as scale='=1-5'")


def without_value(trials: pd.DataFrame, unmatched: Bools) -> pd.DataFrame:
    """Make rows that the mapping did not match unparsable, without a value."""
    if not unmatched.any():
        return trials
    kept = trials["value"].where(~unmatched)
    return trials.assign(value=kept, status=trials["status"].where(~unmatched, "unparsable"))


LogReader = Callable[[Rows, LogSource, Mapping[str, Any]], pd.DataFrame]
_OF_THE_VERDICT = ("label_mass", "p_first_label", "p_both_orders")  # void if the format's verdict is replaced


def overridden(read: Callable[[Rows, LogSource], pd.DataFrame]) -> LogReader:
    """Wrap a format's reader so that a mapping can override its columns.

    A mapped ``winner``, ``p_first``, ``score`` or ``reply`` replaces the format's verdict; a mapped ``scale`` is used
    to read scores.
    """

    def reader(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
        scale = constant_scale(mapping)
        trials = _rescaled(read(rows, replace(source, scale=scale)), scale)
        named = {name: expression for name, expression in mapping.items() if name != "scale"}
        return _replaced(trials, rows, source, named) if named and len(trials) else trials

    return reader


def constant_scale(mapping: Mapping[str, Any]) -> str | None:
    """Return the scale that a mapping gives for a log of a known format; raise `InputError` if it is no constant."""
    if "scale" not in mapping:
        return None
    if (scale := parse_expression("scale", mapping["scale"]).constant) is None:
        raise InputError("mapping['scale']", mapping["scale"], "a constant for a known format, such as '=1-5'")
    return scale_named(scale).name


def _rescaled(trials: pd.DataFrame, scale: str | None) -> pd.DataFrame:
    """Set the user's scale on scores that were read on another one, and check that they lie on it."""
    if scale is None or trials.empty:
        return trials
    other = (trials["opponent_id"].isna() & (trials["scale"] != scale)).to_numpy()
    if other.any():
        usable = other & trials["status"].eq("ok").to_numpy()
        verdicts = readings.parse_texts(trials.loc[usable, "value"], readings.number_on(scale_named(scale)))
        for name in verdicts:
            trials.loc[usable, name] = verdicts[name].to_numpy()
        trials.loc[other, "scale"] = scale
    return trials


def _replaced(trials: pd.DataFrame, rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    columns, unmatched = columns_of(rows, mapping)
    places = trials.index.to_numpy()
    aligned = {name: column.iloc[places].set_axis(trials.index) for name, column in columns.items()}
    whole = {name: aligned.get(name, trials[name]) for name in ("candidate_id", "opponent_id")} | aligned
    if "human_gap" not in aligned:
        whole = with_preference(whole)
    if "ratings" in aligned and "human_scale" not in aligned:
        whole["human_scale"] = trials["scale"]
    defaults = {name: SCHEMA[name].default for name in whole if name in SCHEMA}  # of records that it does not match
    texts = {name: whole[name].fillna(text) for name, text in defaults.items() if isinstance(text, str)}
    replaced = trials.assign(**{name: texts.get(name, whole[name]) for name in defaults})
    outcome = next((name for name in OUTCOMES if name in mapping), None)
    if outcome is not None:
        replaced = _read_again(replaced, aligned[outcome], outcome, source)
    return without_value(replaced, unmatched[places])


def _read_again(trials: pd.DataFrame, outcome_column: pd.Series, outcome: str, source: LogSource) -> pd.DataFrame:
    """Replace the format's verdict or score by the reading of the mapped column."""
    whole, named, parts = trials.reset_index(drop=True), outcome_column.reset_index(drop=True), []
    for is_pair, subset in whole.groupby(whole["opponent_id"].notna()):
        columns = {str(name): subset[name] for name in subset} | {outcome: named[subset.index]}
        read = readings.read_pair if is_pair else readings.read_score
        parts.append(read(columns, outcome, source))
    reading = pd.concat(parts).sort_index().set_axis(trials.index)
    return trials.assign(**reading, **dict.fromkeys(_OF_THE_VERDICT, np.nan))


OPTIONS = ("format", "score_pattern", "explode", "join", "ignore")


@dataclass(frozen=True)
class LogMapping:
    """A user's mapping of a log: columns, format and reshaping.

    Parameters
    ----------
    columns : mapping
        Column of the trials → expression.
    format : str, optional
        Format of the log.
    score_pattern : str, optional
        A regular expression that extracts scores from texts.
    shape : Shape or callable, optional
        Reshaping of records before they are read; a function takes their table and returns a new one.
    ignored : tuple of str
        Columns that have no role.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None
    score_pattern: str | None = None
    shape: Shape | TableFunction | None = None
    ignored: tuple[str, ...] = ()


def make_mapping(mapping: Mapping[str, Any] | str | Path | TableFunction | None) -> LogMapping:
    """Load and check a mapping.

    Raises
    ------
    InputError
        If the file is not TOML, or a name or an expression is invalid.

    Examples
    --------
    >>> make_mapping({"judge": "=me", "format": "llmbar"}).format
    'llmbar'
    """
    if isinstance(mapping, str | Path):
        return _made(read_mapping_file(mapping), str(mapping))
    if callable(mapping):
        return LogMapping(shape=mapping)
    if mapping is not None and not isinstance(mapping, Mapping):
        allowed = "columns of trials with their fields, a TOML file, or a function of a data frame"
        remedy = 'such as {"context_id": "question", "judge": "=me"}'
        raise InputError.plain(f"mapping has the type {type(mapping).__name__}, expected: {allowed}; {remedy}")
    return _made(dict(mapping or {}), "mapping")


def read_mapping_file(path: str | Path) -> dict[str, Any]:
    """Return the content of a mapping file; a joined file is resolved relative to its folder.

    Raises
    ------
    InputError
        If the file does not exist or is not TOML.
    """
    file = Path(path)
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("mapping", str(path), "a mapping, or an existing TOML file") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        remedy = 'write for example context_id = "question"'
        raise InputError("mapping", str(path), f"a TOML file ({error})", remedy) from error
    if isinstance(entries.get("join"), str):
        entries["join"] = str(file.parent / entries["join"])  # absolute paths are unchanged
    return entries


def _made(entries: dict[str, Any], name: str) -> LogMapping:
    if is_open := [key for key, value in entries.items() if _is_open(value)]:
        allowed = "a column, a constant such as '=gpt-4', or the meaning of a value"
        raise InputError(f"{name}: {is_open[0]}", entries[is_open[0]], allowed, f"still open: {', '.join(is_open)}")
    columns = {
        key: {"fields": value} if isinstance(value, list) and key in (*LISTS, *OUTCOMES) else value
        for key, value in entries.items()
        if key not in OPTIONS
    }
    if unknown := [key for key in columns if key not in NAMES]:
        raise InputError(name, unknown, f"some of {', '.join((*OPTIONS, *NAMES))}")
    if {"judge", "person"} <= set(columns):
        raise InputError(f"{name}: person", columns["person"], "no person next to a judge", "map one of the two")
    _require_columns(columns, name)
    for own in by_column(columns):
        for key, value in own.items():
            parse_expression(key, value)
    for option in ("format", "score_pattern"):
        if not isinstance(entries.get(option), str | None):
            raise InputError(f"{name}: {option}", entries[option], "a text")
    pattern = entries.get("score_pattern")
    if pattern is not None:
        readings.compiled(pattern, "score_pattern")
    shape = make_shape(entries.get("explode"), entries.get("join"))
    return LogMapping(columns, entries.get("format"), pattern, shape, _ignored(entries.get("ignore"), name))


def _require_columns(columns: Mapping[str, Any], name: str) -> None:
    """Raise `InputError` unless lists of columns are texts, and tables by column have a value for each."""
    outcome = next((each for each in OUTCOMES if each in columns), "")
    entry = columns.get(outcome)
    fields = entry.get("fields", []) if isinstance(entry, Mapping) else []
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise InputError(f"{name}: {outcome}", fields, "names of columns")
    if len(fields) > 1 and "winner_swapped" in columns:
        raise InputError(f"{name}: winner_swapped", columns["winner_swapped"], "used with a single column of winner")
    for key, value in columns.items():
        several = isinstance(value, Mapping) and len(fields) > 1 and bool(set(value) & set(fields))
        if several and key not in LISTS and set(value) != set(fields):
            raise InputError(f"{name}: {key}", dict(value), f"a value for each of {', '.join(fields)}")


def _is_open(value: Any) -> bool:
    """Return whether a value of a mapping holds a `?` in place of what the user has to say."""
    if isinstance(value, Mapping):
        return any(map(_is_open, value.values()))
    return value == OPEN or (isinstance(value, list) and OPEN in value)


def _ignored(names: Any, name: str) -> tuple[str, ...]:
    listed = names.split(",") if isinstance(names, str) else names or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise InputError(f"{name}: ignore", names, "names of columns")
    return tuple(each.strip() for each in listed if each.strip())


TableFunction = Callable[[pd.DataFrame], pd.DataFrame]
_JOIN = re.compile(r"(?P<file>.+?)\s+on\s+(?P<left>[^=\s]+)(?:\s*=\s*(?P<right>\S+))?\s*")
_TOGETHER = "+"  # between fields with parallel lists
_NUMBER = "#"  # suffix of an exploded field: the index in its list, or the key in its object


@dataclass(frozen=True)
class Shape:
    """Reshaping steps, applied in this order.

    Parameters
    ----------
    explode : tuple of str
        Fields or paths to explode, one after the other: lists into one row per item, objects into one row per key. The
        item replaces the list, and ``field#`` is its index, from 0, or its key. ``answers+scores`` explodes two lists
        of the same length together.
    joined : mapping of str to dict, optional
        Records of another file, by the value of the field to join on.
    on : str
        The field of this file to join on.
    """

    explode: tuple[str, ...] = ()
    joined: Mapping[str, dict[str, Any]] | None = None
    on: str = ""

    def of(self, rows: Rows) -> Rows:
        """Return the reshaped records, refusing those without a join partner or a list."""
        if self.joined is not None:
            rows = _merged(rows, self.joined, self.on)
        for name in self.explode:
            rows = _exploded(rows, name)
        return rows


def make_shape(explode: Any, join: Any) -> Shape | None:
    """Return the reshaping in a mapping, or None.

    Parameters
    ----------
    explode : str or list of str, optional
        Fields, separated by commas.
    join : str, optional
        ``"FILE on FIELD"`` or ``"FILE on FIELD=ITS FIELD"``.

    Raises
    ------
    InputError
        If one has another form, or the file cannot be read.
    """
    if explode is None and join is None:
        return None
    fields = explode.split(",") if isinstance(explode, str) else explode if isinstance(explode, list) else []
    named = tuple(field.strip() for field in fields if isinstance(field, str) and field.strip())
    if explode is not None and not named:
        raise InputError("mapping['explode']", explode, "names of fields with lists, separated by commas")
    if join is None:
        return Shape(named)
    match = _JOIN.fullmatch(join) if isinstance(join, str) else None
    if match is None:
        raise InputError("mapping['join']", join, "'FILE on FIELD' or 'FILE on FIELD=FIELD OF THE OTHER FILE'")
    return Shape(named, _by_value(Path(match["file"]), match["right"] or match["left"]), match["left"])


def shaped(chunks: Iterator[Rows], shape: Shape | TableFunction | None) -> Iterator[Rows]:
    """Yield reshaped chunks, skipping empty ones."""
    if shape is not None:
        chunks = map(shape.of, chunks) if isinstance(shape, Shape) else _through(list(chunks), shape)
    return (rows for rows in chunks if rows.records)


def _through(chunks: list[Rows], function: TableFunction) -> Iterator[Rows]:
    """Apply the user's function to a table of all records, with dotted names of nested fields, and yield its rows."""
    if not chunks:
        return
    lines = list(chain.from_iterable(rows.lines for rows in chunks))
    log, unit = chunks[0].log, chunks[0].log.unit
    table = pd.json_normalize(list(chain.from_iterable(rows.records for rows in chunks)))
    result = function(table.set_axis(pd.Index(lines, name=unit)))
    if not isinstance(result, pd.DataFrame):
        raise InputError.plain(f"mapping returned a {type(result).__name__}, not a pandas.DataFrame")
    kept = result.index.isin(lines).all()
    start = 0
    for rows in read_frame(result, log):
        end = start + len(rows.records)
        yield Rows(rows.records, result.index[start:end].tolist() if kept else rows.lines, log, chunks[0].textual)
        start = end
    log.unit = unit if kept else log.unit


def _by_value(path: Path, field: str) -> dict[str, dict[str, Any]]:
    """Return the records of a file by the value of a field, which must be unique."""
    records: dict[str, dict[str, Any]] = {}
    for document in iter_documents(path):
        for rows in read_rows(document, Log(document.name)):
            if are_annotations(rows.records):
                items = by_item(rows.records[0])
                rows = Rows(items, range(1, len(items) + 1), rows.log, textual=False)
            for value, record in zip(rows.take(field, "name"), rows.records, strict=True):
                if isinstance(value, str) and records.setdefault(value, record) is not record:
                    where, remedy = f"{field} = {value}", "join on a field that identifies the records"
                    raise InputError("mapping['join']", where, f"unique values in {path}", remedy)
    if not records:
        raise InputError("mapping['join']", str(path), f"a file whose records have the field {field}")
    return records


def _merged(rows: Rows, joined: Mapping[str, dict[str, Any]], on: str) -> Rows:
    """Join the fields of the other file to each record, refusing records without a match; the log's fields win."""
    values = rows.take(on, "id")
    alone = rows.good & ~values.isin(list(joined)).to_numpy()
    for place in np.flatnonzero(alone).tolist():
        rows.log.refuse(rows.lines[place], f"no record to join for {on} = {values[place]}")
    rows.good &= ~alone
    places = np.flatnonzero(rows.good).tolist()
    records = [joined[values[place]] | rows.records[place] for place in places]
    return Rows(records, [rows.lines[place] for place in places], rows.log, rows.textual)


def _exploded(rows: Rows, field: str) -> Rows:
    """Return one row per item of a list, or of parallel lists, or per key of an object; refuse records without."""
    several = _TOGETHER in field and not rows.has(field)
    fields = [name.strip() for name in field.split(_TOGETHER)] if several else [field]
    lists = [[items_in(value, rows.textual) for value in rows.values(name)] for name in fields]
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    alike = np.zeros(len(rows.records), bool)
    for place, own in enumerate(zip(*lists, strict=True)):
        alike[place] = None not in own and len({len(items or ()) for items in own}) == 1
        for items in zip(*(items or () for items in own), strict=True) if alike[place] else ():
            record = rows.records[place]
            for name, (key, item) in zip(fields, items, strict=True):
                record = {**_with_item(record, name, item), f"{name}{_NUMBER}": key}
            records.append(record)
            lines.append(rows.lines[place])
    why = "are not lists of the same length" if several else "is neither a list nor an object"
    rows.refuse(~alike, f"{' and '.join(fields)} {why}")
    return Rows(records, lines, rows.log, rows.textual)


def _with_item(record: dict[str, Any], path: str, item: Any) -> dict[str, Any]:
    """Return the record with an item at a path, or in a field with that exact name; unchanged parts are shared."""
    first, dot, rest = path.partition(".")
    if path in record or not dot or not isinstance(record.get(first), dict):
        return {**record, path: item}
    return {**record, first: _with_item(record[first], rest, item)}
