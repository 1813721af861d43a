"""What tests of constructed logs share: texts, verdicts, and the readings that answer a proposal's question."""

import json
import random

import pandas as pd

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements

N = 48
_RANDOM = random.Random(44)
ASKED = [f"What does item {n} do?" for n in range(N)]
ONE = [f"first text number {n} " + "w " * (n % 7) for n in range(N)]
TWO = [f"other text number {n} " + "w " * (n % 5) for n in range(N)]
SIDES = [_RANDOM.choice(["first", "second", "first", "tie"]) for _ in range(N)]
AGAIN = [_RANDOM.choice(["first", "second", "first", "tie"]) for _ in range(N)]
DECIDED = [side if side != "tie" else "second" for side in SIDES]
FIVE = [1 + _RANDOM.randrange(5) for _ in range(N)]
OTHER = [1 + _RANDOM.randrange(5) for _ in range(N)]
UNIT = [_RANDOM.randrange(5) / 4 for _ in range(N)]
UNIT2 = [_RANDOM.randrange(5) / 4 for _ in range(N)]
WORTH = {"first": 1.0, "second": 0.0, "tie": 0.5}


def rows(make):
    return [make(n) for n in range(N)]


def wins(first, second, tie="tie", sides=SIDES):
    """Return the word of each verdict."""
    return [{"first": first, "second": second, "tie": tie}[side] for side in sides]


def worth(sides=SIDES):
    return [WORTH[side] for side in sides]


def written(folder, data, layout):
    """Write records as lines, as one JSON text, or as CSV, and return the file."""
    file = folder / f"log.{layout}"
    if layout == "csv":
        pd.DataFrame(data).to_csv(file, index=False)
    elif layout == "jsonl":
        file.write_text("\n".join(json.dumps(record, ensure_ascii=False) for record in data))
    else:
        file.write_text(json.dumps(data, ensure_ascii=False))
    return file


def answers(log, mapping=None):
    """Return the mappings of a proposal: its entries with each answer to its first question, and what else is open."""
    proposal = bl.logs.propose(log, mapping)
    first, *rest = proposal.questions
    others = {question.entry: question.options[0] for question in rest if question.required and question.options}
    return [dict(proposal.entries) | others | {first.entry: option} for option in first.options]


def readings(log):
    """Return the trials of a log, or those of each answer to its open question; and whether it was read at once."""
    try:
        return [read_judgements(log)], True
    except InputError:
        return [read_judgements(log, mapping=mapping) for mapping in answers(log)], False


def values(trials):
    return trials["value"].round(6).tolist()
