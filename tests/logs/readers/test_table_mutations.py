"""Mutations of the fifteen small tables: no raw exception, and no change of meaning in silence."""

import json
import random
from pathlib import Path

import pandas as pd
import pytest

from biaslab.core.errors import BiaslabError
from biaslab.logs.readers import propose, read_judgements

TABLES = Path(__file__).parents[3].parent / "shared" / "data" / "tables"
FILES = sorted(file.name for file in TABLES.glob("f*"))
DAMAGE = (None, "", "N/A", "???", -1, 99, True, [], {}, "a b c d e f g h", "0", "é" * 40)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not FILES, reason="needs ../shared/data/tables")]


def records_of(name):
    text = (TABLES / name).read_text(encoding="utf-8")
    if name.endswith("csv"):
        return pd.read_csv(TABLES / name, dtype=str, keep_default_na=False).to_dict("records")
    return [json.loads(line) for line in text.splitlines()] if name.endswith("jsonl") else json.loads(text)


def outcome(log):
    """Return what was read, as a multiset of judgements; None if the log was refused or asked about."""
    try:
        trials = read_judgements(log)
    except BiaslabError:
        return None
    columns = ["context_id", "candidate_id", "opponent_id", "attribute", "judge", "value", "human", "human_gap"]
    return sorted(map(repr, trials[columns].round(6).itertuples(index=False, name=None)))


def saved(folder, records, place):
    file = folder / f"{place}.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    return file


def reordered(records, rng):
    return [dict(rng.sample(list(record.items()), len(record))) for record in rng.sample(records, len(records))]


def with_neutral_column(records, rng):
    name = rng.choice(["tstamp", "latency", "request_hash", "cost"])
    return [{**record, name: rng.randrange(10**9, 10**10)} for record in records]


def in_an_object(records, _):
    return {"results": records, "meta": {"version": 2}}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", [reordered, with_neutral_column, in_an_object])
def test_meaning_survives_changes_of_form(name, change, tmp_path):
    records = records_of(name)
    if isinstance(records, dict):
        pytest.skip("a single object")
    wanted = outcome(saved(tmp_path, records, "whole"))
    rng = random.Random(7)
    for place in range(2):
        found = outcome(saved(tmp_path, change(records, rng), place))
        assert found is None or found == wanted


NAMES = ["score", "winner", "judge", "human_label", "id", "a", "model", "order", "", "x.y[]"]
#: What happens to all rows, by the name of a column and a generator.
CHANGES = [
    lambda rows, name, _: [row.pop(name, None) for row in rows],
    lambda rows, name, rng: [row.update({rng.choice(NAMES): row.pop(name, None)}) for row in rows],
    lambda rows, name, _: [row.update({f"{name}_2": row.get(name)}) for row in rows],
    lambda rows, name, rng: [row.update({name: rng.choice(DAMAGE)}) for row in rows],
    lambda rows, name, rng: rng.choice(rows).update({name: rng.choice(DAMAGE)}),
    lambda rows, name, rng: rows.__delitem__(slice(rng.randrange(1, len(rows) + 1), None)),
]


def damaged(records, rng):
    """Change names and cells, drop or repeat columns and rows."""
    copy = json.loads(json.dumps(records))
    rows = next(iter(copy.values())) if isinstance(copy, dict) and all(map(is_rows, copy.values())) else copy
    rows = [rows] if isinstance(rows, dict) else rows
    for _ in range(rng.randrange(1, 4)):
        rng.choice(CHANGES)(rows, rng.choice(list(rng.choice(rows)) or ["x"]), rng)
    return copy


def is_rows(value):
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


@pytest.mark.parametrize("number", [50, pytest.param(200, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", FILES)
def test_damage_never_raises_an_error_of_python(name, number, tmp_path):
    records, rng = records_of(name), random.Random(name)
    for place in range(number):
        file = saved(tmp_path, damaged(records, rng), place)
        for act in (read_judgements, propose):
            try:
                repr(act(file))
            except BiaslabError:
                continue
