"""Infer the scale of scores in tables: the usual scale that ends at the maximum, or else a refusal that asks for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from biaslab.logs.readers.attribute_columns import attribute_of
from biaslab.logs.readers.field_values import NUMERAL
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import FEW, Table

_TOPS = (5, 10, 100, 7)  # maxima of scales that start at 1, or at 0 if a score is 0
_ENDS = {1, 3, 4, *_TOPS}  # maxima of an attribute's own scale
_FEW_BELOW = 5  # maximum number of steps below 0
_NEGATIVE = 0.1  # share of scores that may be errors
_SMALLER, _MANY = 0.75, 20  # ratio of maxima at which scales may differ, and scores needed for that


def add_scale(table: Table, entries: Entries, columns: Sequence[str], attribute: str | None = None) -> Refusal | None:
    """Add the scale of numeric columns to a mapping, or return a refusal if it is unclear.

    All columns share one scale, unless the scores of an attribute end so much lower that its scale may differ.
    """
    if "scale" in table.given or not columns:
        return None
    if attribute is None and (flags := _flags_beside_scores(table, columns)):
        table.own_scales |= dict.fromkeys(flags, "=0-1")
        table.notes.append(f"scale 0-1 of {', '.join(flags)}, which are from 0 to 1")
        columns = [name for name in columns if name not in flags]
    scale = _scale(table, columns)
    groups = _by_attribute(table, columns, attribute)
    own = {about: max(values) for about, values in groups.items() if len(values) >= _MANY}
    if isinstance(scale, Refusal):
        apart = attribute is None and own and min(own.values()) <= _SMALLER * max(own.values())
        return _refuse_unequal_scales(table, columns) or scale if apart else scale
    top = float(scale.rpartition("-")[2])
    other = {about: high for about, high in own.items() if high <= _SMALLER * top and high in _ENDS}
    if other:
        scales = {about: f"1-{other.get(about, top):.0f}" if other.get(about, top) > 1 else "0-1" for about in groups}
        whole = ("if all have one scale", {"scale": scale})
        lower = ", ".join(f"{high:g}" for high in other.values())
        reason = f"the scores of {', '.join(other)} end at {lower}, others at {top:g}"
        if attribute is not None:
            return Refusal(reason, (whole, ("if each has its own", {"scale": {"field": attribute, "values": scales}})))
        each = tuple(
            (f"only {name}", {"score": name, "attribute": f"={about}", "scale": f"={scales[about]}"})
            for name in columns
            if (about := attribute_of(table, name)) in scales
        )
        return Refusal(reason, (whole, *each[:4]))
    entries["scale"] = scale
    return None


def _flags_beside_scores(table: Table, columns: Sequence[str]) -> list[str]:
    """Return the columns with scores from 0 to 1, if those of all other columns start at 1."""
    values = {name: {float(value) for value in table.present(name) if NUMERAL.fullmatch(value)} for name in columns}
    flags = [name for name in columns if 0 <= min(values[name]) < 1 and max(values[name]) <= 1 < len(values[name])]
    rest = [values[name] for name in columns if name not in flags]
    return flags if flags and rest and min(map(min, rest)) >= 1 and max(map(max, rest)) > 1 else []


def _refuse_unequal_scales(table: Table, columns: Sequence[str]) -> Refusal | None:
    """Ask for one of several columns with very different maxima, and for its scale."""
    options: list[tuple[str, Entries]] = []
    for name in columns:
        about, alone = {"score": name, "attribute": f"={attribute_of(table, name)}"}, _scale(table, [name])
        if isinstance(alone, Refusal):
            options += [(f"only {name}, {when}", {**about, **scale}) for when, scale in alone.options[:2]]
        else:
            table.notes.pop()  # the note on the scale, which applies only if the table is read
            options.append((f"only {name}", {**about, "scale": alone}))
    return Refusal(f"the scores of {', '.join(columns)} end far apart", tuple(options)) if options else None


def other_scale_of_people(table: Table, scale: str, people: Sequence[str]) -> Refusal | None:
    """Ask for the scale of human scores if it may differ from the judge's; None otherwise."""
    values = [float(value) for name in people for value in table.present(name) if NUMERAL.fullmatch(value)]
    bottom, _, top = scale.rpartition("-")
    if not values or not NUMERAL.fullmatch(top) or not NUMERAL.fullmatch(bottom):
        return None
    low, high = min(values), max(values)
    smaller = high <= _SMALLER * float(top) and high in {1, 3, *_TOPS} and len(values) >= _MANY
    if float(bottom) <= low and high <= float(top) and not smaller:
        return None
    own = f"{0 if low < 1 else 1}-{max(high, 1):g}"
    options = tuple((f"if theirs is {each}", {"human_scale": f"={each}"}) for each in dict.fromkeys((own, scale)))
    return Refusal(f"people's scores run from {low:g} to {high:g}, and the judge's scale is {scale}", options)


def _by_attribute(table: Table, columns: Sequence[str], attribute: str | None) -> dict[str, list[float]]:
    groups: dict[str, list[float]] = defaultdict(list)
    for name in columns:
        abouts = (
            table.columns[attribute]
            if attribute is not None
            else [attribute_of(table, name)] * len(table.columns[name])
        )
        for about, value in zip(abouts, table.columns[name], strict=True):
            if about is not None and value is not None and NUMERAL.fullmatch(value):
                groups[about].append(float(value))
    return groups


def _scale(table: Table, scores: Sequence[str]) -> str | Refusal:
    """Return the usual scale that ends at the largest score, or a refusal if there is none."""
    values = [float(value) for name in scores for value in table.present(name) if NUMERAL.fullmatch(value)]
    low, high = min(values), max(values)
    if low >= 0 and (high in _TOPS or (low < high <= 1)):
        scale = f"{0 if low < 1 else 1}-{max(high, 1):.0f}"
        table.notes.append(
            f"scale {scale}, because the scores range from {low:g} to {high:g} (--map scale==LOW-HIGH if not)"
        )
        return f"={scale}"
    whole = all(value.is_integer() for value in values)
    starts = min((value for value in values if value >= 0), default=0)
    tops = [*([int(high)] if whole and 1 < high <= FEW else []), *(top for top in sorted(_TOPS) if top >= high)]
    ends = list(dict.fromkeys(tops))[:3] or [100]
    start = 0 if starts < 1 or (high > 10 and not whole) else 1
    options = tuple((f"if it ends at {top}", {"scale": f"={start}-{top}"}) for top in ends)
    none = ", if negative numbers are no scores" if low < 0 else ""
    if sum(value < 0 for value in values) > _NEGATIVE * len(values):
        if whole and len(scores) == 1 and -low == high <= _FEW_BELOW:
            steps = {f"{low:.0f}": "1", f"{high:.0f}": f"{2 * high + 1:.0f}"}
            moved = {"score": {"field": scores[0], "values": steps}, "scale": f"=1-{2 * high + 1:.0f}"}
            said = f"the scores range from {low:g} to {high:g}, and scales start at 0 or 1"
            return Refusal(said, ((f"if they are steps, of which {low:g} is the lowest", moved),))
        return Refusal(f"the scores range from {low:g} to {high:g}: negative numbers, such as rewards, are on no scale")
    return Refusal(f"the scores range from {low:g} to {high:g}, which fits no common scale{none}", options)
