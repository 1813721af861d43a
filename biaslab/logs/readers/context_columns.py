"""Find the columns of a table that identify its items."""

from __future__ import annotations

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import COUNTS, FEW, Table, fields_of

_OTHERS = named.VERDICT | named.SCORE | named.HUMAN | named.TEXT | named.SYSTEM | named.ATTRIBUTES
_PER_ROW = 0.9  # different texts per row; if fewer, texts are repeated on purpose
_FEWEST_TEXTS = 4  # minimum number of different texts; fewer are instructions that items share
_PARTS_OF_ITEMS = ("turn", "task", "category", "subset", "domain", "split", "language", "lang", "source_dataset")


def context_of(table: Table) -> str | None:
    """Return the column or columns that identify items, or None; constant columns and, if possible, row numbers do not.

    If an identifier has several texts, the column that distinguishes them is added; if there is none, the text is used.
    """
    if "context_id" in table.given:
        return "context_id" if "context_id" in table.names else str(table.given["context_id"])
    possible = named.first_named(table.names, named.CONTEXT)
    possible += [name for name in table.names if name not in possible and named.like_question(name)]
    if len(table.rows.records) > 1:
        possible = [name for name in possible if table.distinct(name) > 1]
    texts = [name for name in possible if name.lower() not in ("id", "idx", "uid")]
    chosen = next(iter([*texts, *possible]), None)
    if chosen is None or len(table.rows.records) < 2:
        return chosen
    if (input_ := _input_of(table, chosen)) is not None:
        return f"{chosen}, {input_}"
    asked = next((name for name in texts if name != chosen and _is_asked(name)), None)
    parts = [name for name in named.first_named(table.names, _PARTS_OF_ITEMS)
             if name != chosen and 1 < table.distinct(name) <= FEW]  # fmt: skip
    if asked is None:
        turn = [name for name in parts if named.first_named([name], ("turn",)) and not table.is_within(name, chosen)]
        return f"{chosen}, {turn[0]}" if turn else chosen
    if not table.is_within(asked, chosen):
        for part in parts:
            if table.is_within(asked, chosen, part):
                return f"{part}, {chosen}"
        return asked
    rows = len(table.present(chosen))
    per_row = table.distinct(chosen) == rows and _FEWEST_TEXTS <= table.distinct(asked) <= _PER_ROW * rows
    return asked if per_row else chosen


def _input_of(table: Table, instruction: str) -> str | None:
    """Return the column with the input of an instruction, if an instruction occurs with several inputs."""
    if "instruction" not in named.tokens(instruction):
        return None
    inputs = [name for name in named.first_named(table.names, ("input",)) if not table.is_numeric(name)]
    return next((name for name in inputs if name not in table.used and not table.is_within(name, instruction)), None)


def no_context(table: Table, entries: Entries) -> Refusal:
    """Refuse a table without a column for the item, suggesting one."""
    taken = {*fields_of(entries), *table.used}
    rest = [name for name in table.names if name not in taken and not name.endswith("#")]
    words = {name: set(named.tokens(name)) - ({"id"} if named.tokens(name)[-1:] == ("id",) else set()) for name in rest}
    possible = [name for name in rest if table.distinct(name) > 1 and not words[name] & (_OTHERS | COUNTS)]
    most = max(map(table.distinct, possible), default=0)
    varied = [name for name in possible if 2 * table.distinct(name) >= most]
    varied.sort(
        key=table.is_numeric
    )  # texts first, in the order of the table, in which a question comes before answers
    options = tuple((f"if {name} identifies the items", {"context_id": name}) for name in varied[:1])
    return Refusal(f"no column has a common name for the item (question, prompt, …): {', '.join(rest)}", options)


def _is_asked(name: str) -> bool:
    """Return whether a column's name says that it contains the question itself."""
    return bool(named.first_named([name], named.ASKED)) or named.like_question(name)
