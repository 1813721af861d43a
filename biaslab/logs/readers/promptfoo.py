r"""Read the results of promptfoo, as JSON and as CSV.

promptfoo (``promptfoo eval --output results.json`` or ``.jsonl``): assertions that a model graded.

The results are in ``results.results``, or one per line: ``provider`` (id, label), ``vars``, ``promptIdx``, ``response``
(output) and ``gradingResult.componentResults``, each with ``score`` (0 to 1), ``reason`` and ``assertion`` (type,
metric, provider). Assertions by code (``contains``, ``equals`` …) are left out.

promptfoo's CSV (``promptfoo eval --output results.csv``, or a download): a column of outputs for each provider.

Columns of variables are the context, and each output is headed ``[PROVIDER] prompt``. The next columns are ``Status,
Score, Named Scores, Grader Reason, Comment``; earlier versions pack these into its cell: ``[PASS] (0.80, clarity:
0.90)``, then the answer and ``Pass Reason: …``, each after an empty line. Named scores are each an attribute; an output
without them has its score, the mean over assertions. The file does not say whether a model or code gave a score.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from biaslab.logs.readers.readings import BY_CODE, JudgedScore, number_of, score_trials
from biaslab.logs.readers.rows import CALL_FAILED, LogSource, Rows

_BY_MODEL = (
    "llm-rubric", "g-eval", "model-graded-closedqa", "model-graded-factuality", "factuality", "closed-qa",
    "answer-relevance", "context-faithfulness", "context-recall", "context-relevance", "conversation-relevance", "pi",
    "search-rubric", "agent-rubric",
)  # fmt: skip
_CHOICES = ("select-best", "max-score")


def is_promptfoo(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any record contains promptfoo results."""
    return any(
        "gradingResult" in result
        for record in records
        for result in _promptfoo_results(record)
        if isinstance(result, dict)
    )


def read_promptfoo(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per model-graded assertion."""
    return score_trials(rows, source, _promptfoo_scores, "promptfoo")


def _promptfoo_results(record: Mapping[str, Any]) -> Sequence[Any]:
    if "gradingResult" in record:
        return [record]
    results = record.get("results")
    inner = results.get("results") if isinstance(results, dict) else results
    return inner if isinstance(inner, list) else []


def _promptfoo_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    for result in _promptfoo_results(record):
        grading, provider = result["gradingResult"], result["provider"]
        if grading is None:
            yield CALL_FAILED
            continue
        name = provider.get("label") or provider["id"] if isinstance(provider, dict) else provider
        prompt = result.get("promptIdx") or 0
        candidate = f"{name} (prompt {prompt})" if prompt else name
        output = (result.get("response") or {}).get("output")
        counts: Counter[str] = Counter()
        for component in grading.get("componentResults") or [grading]:
            assertion = component.get("assertion") or {}
            kind = str(assertion.get("type", "")).removeprefix("not-")
            if kind in _CHOICES:
                yield "a choice among outputs, which is no score"
                continue
            if kind not in _BY_MODEL:
                yield BY_CODE
                continue
            attribute = assertion.get("metric") or kind
            counts[attribute] += 1
            attribute = attribute if counts[attribute] == 1 else f"{attribute} {counts[attribute]}"
            grader = assertion.get("provider")
            judge = grader.get("id") if isinstance(grader, dict) else grader
            yield JudgedScore(
                _question(result["vars"]),
                candidate,
                attribute,
                component["score"],
                judge,
                reply=component.get("reason"),
                text=output,
            )


def _question(variables: Any) -> Any:
    """Return the variables of a prompt; of a single one its value, so that labels of questions match."""
    return next(iter(variables.values())) if isinstance(variables, dict) and len(variables) == 1 else variables


_BESIDE = ("Status", "Score", "Named Scores", "Grader Reason")
_PACKED = re.compile(
    r"\[(?P<status>PASS|FAIL|ERROR)\] \((?P<score>-?\d+\.\d+)(?:, (?P<named>.*?))?\)(?:\n\n(?P<rest>.*))?", re.DOTALL
)
_ONE_NAMED = re.compile(r"(.+?): (-?\d+\.\d+)(?:, |$)")
_BECAUSE = re.compile(r"(?:\A|\n\n)\s*(?:Pass|Fail) Reason: ")
_PROVIDER = re.compile(r"\[([^\]]+)\]\s")


class _PromptfooTableOutput(NamedTuple):
    """One output in a row: its text, status, score, named scores, and their reason."""

    text: str
    status: str
    score: float
    named: dict[str, Any]
    reason: str | None


def is_promptfoo_table(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records contain outputs of promptfoo, with their status in the next column or in the same cell."""
    return any(_promptfoo_table_outputs(list(record), record) for record in records)


def read_promptfoo_table(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per output and named score."""
    return score_trials(rows, source, _promptfoo_table_scores, "promptfoo")


def _promptfoo_table_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    names = list(record)
    outputs = _promptfoo_table_outputs(names, record)
    if not outputs:
        raise ValueError("no output")
    variables = {name: record[name] for name in names[: outputs[0]] if name != "Description"}
    systems = _promptfoo_table_systems([names[at] for at in outputs])
    for position, system in zip(outputs, systems, strict=True):
        output = _promptfoo_table_output(names, position, record)
        if output is None or output.status == "ERROR":
            yield CALL_FAILED
            continue
        scores = output.named or {"score": output.score}
        for attribute, score in scores.items():
            yield JudgedScore(variables, system, attribute, score, reply=output.reason, text=output.text)


def _is_block(names: Sequence[str], at: int) -> bool:
    """Return whether a column of outputs is followed by those of its status, score and reason."""
    return tuple(name.partition(" #")[0] for name in names[at + 1 : at + 1 + len(_BESIDE)]) == _BESIDE


def _promptfoo_table_outputs(names: Sequence[str], record: Mapping[str, Any]) -> list[int]:
    """Return the places of columns of outputs."""
    blocks = [at for at in range(len(names)) if _is_block(names, at)]
    if blocks:
        return blocks
    cells = ((at, record[name]) for at, name in enumerate(names))
    return [at for at, cell in cells if isinstance(cell, str) and _PACKED.fullmatch(cell)]


def _promptfoo_table_output(names: Sequence[str], at: int, record: Mapping[str, Any]) -> _PromptfooTableOutput | None:
    """Return the output in a column of a row, with its status and scores; None if the provider gave none."""
    cell = record[names[at]]
    if not _is_block(names, at):
        return _unpacked(str(cell).replace("\r\n", "\n"))
    status, score, scores, reason = (record[name] for name in names[at + 1 : at + 1 + len(_BESIDE)])
    if not status:
        return None
    by_name = json.loads(scores) if scores else {}
    return _PromptfooTableOutput(str(cell or ""), str(status), number_of(score), dict(by_name), reason or None)


def _unpacked(cell: str) -> _PromptfooTableOutput | None:
    r"""Return the parts of a cell that has all.

    >>> _unpacked("[PASS] (0.80, clarity: 0.90)\n\nSo it is.\n\nPass Reason: clear")
    _PromptfooTableOutput(text='So it is.', status='PASS', score=0.8, named={'clarity': 0.9}, reason='clear')
    """
    match = _PACKED.fullmatch(cell)
    if match is None:
        return None
    named = {name: float(score) for name, score in _ONE_NAMED.findall(match["named"] or "")}
    rest = match["rest"] or ""
    because = next(reversed([*_BECAUSE.finditer(rest)]), None)
    text, reason = (rest, None) if because is None else (rest[: because.start()], rest[because.end() :])
    return _PromptfooTableOutput(text.strip(), match["status"], float(match["score"]), named, reason)


def _promptfoo_table_systems(headings: Sequence[str]) -> list[str]:
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
