"""Read Inspect logs through its package.

Inspect logs (``.eval`` or JSON), read with the package ``inspect_ai`` if it is installed.

Every score is a judgement: the context is the sample, the candidate the evaluated model, the attribute the scorer, and
the replicate the epoch. C, P and I (correct, partial, incorrect) are 1, ½ and 0 on the scale "0-1"; numbers need a
``scale`` in the mapping. Each comparison by `biaslab.logs.inspect_extension.pair_graded` gives two judgements of a
pair, one per order.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from biaslab.core.errors import InputError, MissingDependencyError
from biaslab.logs.readers.documents import LogDocument, is_inspect_archive

PAIR = "biaslab_pair"
"""Metadata field of a score that contains the comparison in both orders."""

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WINNERS = {1.0: "first", 0.0: "second", 0.5: "tie"}


def is_inspect(document: LogDocument) -> bool:
    """Return whether a file is an Inspect log."""
    if document.data.startswith(b"PK\x03\x04"):
        return is_inspect_archive(document.data)
    head = document.data[:4096]
    return head.lstrip()[:1] == b"{" and b'"eval"' in head and b'"version"' in head and not _is_lines(document.data)


def _is_lines(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data.lstrip().partition(b"\n")[0]), dict) and b"\n" in data.strip()
    except ValueError:
        return False


def read_records(document: LogDocument) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the sample number and one record per score.

    Raises
    ------
    MissingDependencyError
        If ``inspect_ai`` is not installed.
    InputError
        If it cannot read the log.
    """
    try:
        from inspect_ai.log import read_eval_log  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        why = "reading Inspect logs needs the package inspect_ai: pip install inspect_ai"
        raise MissingDependencyError(why) from error
    suffix = ".eval" if document.data.startswith(b"PK") else ".json"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"log{suffix}"
        file.write_bytes(document.data)
        try:
            log = read_eval_log(str(file))
        except Exception as error:  # any error of the other package on a damaged file
            allowed = f"a valid Inspect log ({type(error).__name__})"
            raise InputError("path", document.name, allowed, "download it again") from error
    for number, sample in enumerate(log.samples or [], start=1):
        for scorer, score in (sample.scores or {}).items():
            kept = (score.metadata or {}).get(PAIR)
            if isinstance(kept, dict):
                about = {"context_id": str(sample.id), "replicate": sample.epoch - 1, "attribute": scorer}
                about |= {"dataset": str(log.eval.task), "judge": kept.get("judge")}
                yield from ((number, record) for record in pair_records(kept, about, str(log.eval.model)))
            else:
                yield number, _record(log, sample, scorer, score)


def pair_records(kept: Mapping[str, Any], about: Mapping[str, Any], answer: str) -> list[dict[str, Any]]:
    """Return the two judgements of a pair: with the answer shown first, and with it shown second.

    Parameters
    ----------
    kept : mapping
        ``opponent``, the name of the other answer; ``first``, the probability that the answer shown first won, in each
        order; ``words, opponent_words, human_gap``.
    about : mapping
        Columns shared by both judgements.
    answer : str
        The name of the answer.

    Examples
    --------
    >>> [(one["candidate_id"], one["winner"]) for one in pair_records({"opponent": "x", "first": [1.0, 0.5]}, {}, "me")]
    [('me', 'first'), ('x', 'tie')]
    """
    sides, words = (answer, str(kept.get("opponent"))), (kept.get("words"), kept.get("opponent_words"))
    gap, first = kept.get("human_gap"), kept.get("first")
    records, values = [], first if isinstance(first, list) else []
    for value, (one, two), sign in zip(values, ((0, 1), (1, 0)), (1, -1), strict=False):
        shown = {"candidate_id": sides[one], "opponent_id": sides[two]}
        lengths = {"words": words[one], "opponent_words": words[two]}
        gaps = {"human_gap": sign * gap if isinstance(gap, int | float) else None}
        records.append({**about, **shown, **lengths, **gaps, "winner": _WINNERS.get(value)})
    return records


def _record(log: Any, sample: Any, scorer: str, score: Any) -> dict[str, Any]:
    graded = isinstance(score.value, str) and score.value in GRADES
    value = GRADES[score.value] if graded else score.value
    record = {
        "context_id": str(sample.id),
        "candidate_id": str(log.eval.model),
        "replicate": sample.epoch - 1,
        "attribute": scorer,
        "judge": _grader(log, scorer),
        "dataset": str(log.eval.task),
        "score": value if isinstance(value, int | float) and not isinstance(value, bool) else None,
        "said": score.explanation or score.answer,
    }
    return record | ({"scale": "0-1"} if graded else {})


def _grader(log: Any, scorer: str) -> str:
    """Return the model that a scorer asks, or the scorer itself if the log names none."""
    roles = getattr(log.eval, "model_roles", None) or {}
    role = roles.get("grader")
    options = next((s.options or {} for s in (log.eval.scorers or []) if s.name == scorer), {})
    named = options.get("model") or getattr(role, "model", None)
    named = named.get("model") if isinstance(named, dict) else named
    return str(named) if named else f"inspect/{scorer}"
