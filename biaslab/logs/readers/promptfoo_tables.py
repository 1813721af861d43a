r"""promptfoo's CSV (``promptfoo eval --output results.csv``, or a download): a column of outputs for each provider.

Columns of variables are the context, and each output is headed ``[PROVIDER] prompt``. The next columns are
``Status, Score, Named Scores, Grader Reason, Comment``; earlier versions pack these into its cell, as in
``[PASS] (0.80, clarity: 0.90)\n\nThe answer.\n\nPass Reason: …``. Named scores are each an attribute; an output without
them has its score, the mean over assertions. The file does not say whether a model or code gave a score.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from biaslab.logs.readers.judged_scores import Judged, number_of, score_trials
from biaslab.logs.readers.rows import CALL_FAILED, Rows, Source

FIELDS: frozenset[str] = frozenset()
_BESIDE = ("Status", "Score", "Named Scores", "Grader Reason")
_PACKED = re.compile(
    r"\[(?P<status>PASS|FAIL|ERROR)\] \((?P<score>-?\d+\.\d+)(?:, (?P<named>.*?))?\)(?:\n\n(?P<rest>.*))?", re.DOTALL
)
_ONE_NAMED = re.compile(r"(.+?): (-?\d+\.\d+)(?:, |$)")
_BECAUSE = re.compile(r"(?:\A|\n\n)\s*(?:Pass|Fail) Reason: ")
_PROVIDER = re.compile(r"\[([^\]]+)\]\s")


class _Output(NamedTuple):
    """One output in a row: its text, status, score, named scores, and their reason."""

    text: str
    status: str
    score: float
    named: dict[str, Any]
    reason: str | None


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records contain outputs of promptfoo, with their status in the next column or in the same cell."""
    return any(_outputs(list(record), record) for record in records)


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per output and named score."""
    return score_trials(rows, source, _scores, "promptfoo")


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    names = list(record)
    outputs = _outputs(names, record)
    if not outputs:
        raise ValueError("no output")
    variables = {name: record[name] for name in names[: outputs[0]] if name != "Description"}
    systems = _systems([names[at] for at in outputs])
    for at, system in zip(outputs, systems, strict=True):
        output = _output(names, at, record)
        if output is None or output.status == "ERROR":
            yield CALL_FAILED
            continue
        scores = output.named or {"score": output.score}
        for attribute, score in scores.items():
            yield Judged(variables, system, attribute, score, reply=output.reason, text=output.text)


def _is_block(names: Sequence[str], at: int) -> bool:
    """Return whether a column of outputs is followed by those of its status, score and reason."""
    return tuple(name.partition(" #")[0] for name in names[at + 1 : at + 1 + len(_BESIDE)]) == _BESIDE


def _outputs(names: Sequence[str], record: Mapping[str, Any]) -> list[int]:
    """Return the places of columns of outputs."""
    blocks = [at for at in range(len(names)) if _is_block(names, at)]
    if blocks:
        return blocks
    cells = ((at, record[name]) for at, name in enumerate(names))
    return [at for at, cell in cells if isinstance(cell, str) and _PACKED.fullmatch(cell)]


def _output(names: Sequence[str], at: int, record: Mapping[str, Any]) -> _Output | None:
    """Return the output in a column of a row, with its status and scores; None if the provider gave none."""
    cell = record[names[at]]
    if not _is_block(names, at):
        return _unpacked(str(cell).replace("\r\n", "\n"))
    status, score, scores, reason = (record[name] for name in names[at + 1 : at + 1 + len(_BESIDE)])
    if not status:
        return None
    by_name = json.loads(scores) if scores else {}
    return _Output(str(cell or ""), str(status), number_of(score), dict(by_name), reason or None)


def _unpacked(cell: str) -> _Output | None:
    r"""Return the parts of a cell that has all.

    >>> _unpacked("[PASS] (0.80, clarity: 0.90)\n\nSo it is.\n\nPass Reason: clear")
    _Output(text='So it is.', status='PASS', score=0.8, named={'clarity': 0.9}, reason='clear')
    """
    match = _PACKED.fullmatch(cell)
    if match is None:
        return None
    named = {name: float(score) for name, score in _ONE_NAMED.findall(match["named"] or "")}
    rest = match["rest"] or ""
    because = next(reversed([*_BECAUSE.finditer(rest)]), None)
    text, reason = (rest, None) if because is None else (rest[: because.start()], rest[because.end() :])
    return _Output(text.strip(), match["status"], float(match["score"]), named, reason)


def _systems(headings: Sequence[str]) -> list[str]:
    """Return the providers of the outputs, from their headings, numbered if one has several prompts."""
    names = [_provider(heading) or f"output {at}" for at, heading in enumerate(headings, start=1)]
    seen: Counter[str] = Counter()
    systems = []
    for name in names:
        seen[name] += 1
        systems.append(name if names.count(name) == 1 else f"{name} (prompt {seen[name] - 1})")
    return systems


def _provider(heading: str) -> str | None:
    match = _PROVIDER.match(heading)
    if match is not None:
        return match[1]
    try:  # of early versions, the prompt as an object
        prompt = json.loads(heading)
    except ValueError:
        return None
    return str(prompt["provider"]) if isinstance(prompt, dict) and prompt.get("provider") else None
