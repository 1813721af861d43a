"""What tests of constructed logs share: answers, verdicts, and how a refusal's lines are tried as a user would."""

import json
import random
import shlex

import pandas as pd

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


def readings(file):
    """Return the trials of a file, or those of each line that its refusal shows, pasted; and whether it was read."""
    try:
        return [read_judgements(file)], True
    except InputError as error:
        lines = [line[line.index("--map") :] for line in str(error).splitlines() if "--map" in line]
    mappings = [dict(word.split("=", 1) for word in shlex.split(line) if word != "--map") for line in lines]
    return [read_judgements(file, mapping=mapping) for mapping in mappings], False


def values(trials):
    return trials["value"].round(6).tolist()
