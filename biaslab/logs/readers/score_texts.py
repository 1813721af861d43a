"""Ask how texts with numbers are read as scores: as replies of a judge, or with decimal commas."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from biaslab.logs.readers.field_values import NUMERAL
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import FEW, Table

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COMMA = re.compile(r"[-+]?\d+,\d+")
_OUT_OF = re.compile(r"\d\s*(?:/|out of)\s*(\d+)")


def of_texts(table: Table, entries: Entries, names: Sequence[str]) -> Refusal:
    """Refuse columns of texts with numbers, with a mapping for each possible scale."""
    for name in names:
        if (refusal := _of_decimal_commas(table, entries, name)) is not None:
            return refusal
    options = tuple(
        (f"if {name} is on a scale of {scale.removeprefix('=')}", {**entries, "reply": name, "scale": scale})
        for name in names[:3] for scale in _scales_of_texts(table, name)
    )  # fmt: skip
    return Refusal(f"{', '.join(names)} {'holds' if len(names) == 1 else 'hold'} texts with numbers", options)


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
