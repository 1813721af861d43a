"""Ask how texts with numbers are read as scores: as replies of a judge, or with decimal commas."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from biaslab.logs.readers.field_values import NUMERAL
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import FEW, KNOWN, Table

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COMMA = re.compile(r"[-+]?\d+,\d+")
_SAID = re.compile(r"\b(?:rating|score|grade)\W{1,8}\d", re.IGNORECASE)
_SEVERAL = 2  # scores in an object
_OUT_OF = re.compile(r"\d\s*(?:/|out of)\s*(\d+)")


def of_texts(table: Table, entries: Entries, names: Sequence[str]) -> Refusal:
    """Refuse columns of texts with numbers, with a mapping for each possible scale."""
    for name in names:
        if (refusal := _of_decimal_commas(table, entries, name)) is not None:
            return refusal
    for name in names:
        if (refusal := _of_objects(table, entries, name)) is not None:
            return refusal
    options = tuple(
        (f"if {name} is on a scale of {scale.removeprefix('=')}", {**entries, "reply": name, "scale": scale})
        for name in names[:3] for scale in _scales_of_texts(table, name)
    )  # fmt: skip
    return Refusal(f"{', '.join(names)} {'holds' if len(names) == 1 else 'hold'} texts with numbers", options)


def says_scores(table: Table, name: str) -> bool:
    """Return whether nearly all texts of a column say a score, as in "Rating: [[7]]"."""
    values = table.present(name)
    return bool(values) and sum(_SAID.search(value) is not None for value in values) >= KNOWN * len(values)


def _of_objects(table: Table, entries: Entries, name: str) -> Refusal | None:
    """Ask which of several scores in JSON objects is meant; None unless nearly all texts are such objects."""
    objects = [made for text in table.present(name) if isinstance(made := _loaded(text), dict)]
    counts = Counter(key for each in objects for key, value in each.items() if type(value) in (int, float))
    keys = [key for key, number in counts.items() if number >= KNOWN * len(table.present(name))]
    if len(keys) < _SEVERAL:
        return None
    high = max(each[key] for each in objects for key in keys if type(each.get(key)) in (int, float))
    ends = next((f"=1-{top}" if top > 1 else "=0-1" for top in (1, 5, 10, 100) if high <= top), "=1-100")
    scale = {} if "scale" in table.given else {"scale": ends}
    options = tuple(
        (
            f"only {key}",
            {**entries, "score": f'{name}~"{re.escape(key)}"\\s*:\\s*(-?[0-9.]+)', "attribute": f"={key}"} | scale,
        )
        for key in keys[:4]
    )
    return Refusal(f"{name} holds objects with several scores ({', '.join(keys[:4])})", options)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _of_decimal_commas(table: Table, entries: Entries, name: str) -> Refusal | None:
    """Ask whether texts such as 4,5 are numbers with decimal commas; None for other texts."""
    texts = {value for value in table.valued(name) if not NUMERAL.fullmatch(value)}
    if not texts or not all(_COMMA.fullmatch(text) for text in texts):
        return None
    said = f"{name} has numbers with commas, such as {min(texts)}"
    values = sorted(set(table.valued(name)), key=lambda text: float(text.replace(",", ".")))
    numbers = {value: value.replace(",", ".") for value in values}
    if len(numbers) > FEW:
        return Refusal(f"{said}: replace the commas by points, or save the file with semicolons between its fields")
    ends = next((f"=1-{top}" if float(numbers[values[0]]) >= 1 else f"=0-{top}" for top in (1, 5, 10, 100)
                 if float(numbers[values[-1]]) <= top), None)  # fmt: skip
    scale = {} if "scale" in table.given or ends is None else {"scale": ends}
    entries = {**entries, "score": {"field": name, "values": numbers}, **scale}
    return Refusal(said, (("if they are decimal commas", entries),))


def _scales_of_texts(table: Table, name: str) -> list[str]:
    """Return the possible scales of scores in texts: the one that the texts name, or usual ones."""
    if "scale" in table.given:
        return [str(table.given["scale"])]
    texts = table.present(name)
    ends = Counter(match[1] for text in texts if (match := _OUT_OF.search(text)))
    if ends:
        return [f"=1-{ends.most_common(1)[0][0]}"]
    if any("%" in text for text in texts):
        return ["=0-100"]
    highest = max((float(number) for text in texts for number in _NUMBER.findall(text)), default=0)
    return [f"=1-{top}" for top in (5, 10, 100) if top >= highest][:2]
