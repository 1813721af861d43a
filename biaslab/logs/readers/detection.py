"""Detect the format of a log from the fields of its records, never from its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.checks import unknown
from biaslab.logs.readers import (
    alpaca_eval,
    bias_studies,
    general_formats,
    llmbar,
    promptfoo,
    score_studies,
)
from biaslab.logs.readers.mapping import LogReader, overridden, read_mapped
from biaslab.logs.readers.rows import LogSource, Rows
from biaslab.logs.readers.specs import FormatSpec, load_spec

_SEEN = 50  # records used for detection; several, so that a damaged one does not decide

#: All formats with a file in ``biaslab/logs/formats``; records are of the first that they have the fields of.
ORDER = (
    "collected", "store_export", "reife", "alpaca_eval", "arena_hard", "llmbar", "bracket_pairs", "mt_bench",
    "mt_bench_winners", "mt_bench_single", "all_responses", "socreval", "prometheus", "summeval_pairs",
    "summeval_scores", "rankings", "judgebench", "self_recognition", "self_recognition_scores", "cobbler",
    "openai_batch", "pandalm", "openai_evals", "promptfoo", "promptfoo_lines", "promptfoo_table", "galileo", "trulens",
    "langfuse", "phoenix", "phoenix_spans", "opik", "langsmith", "langsmith_table", "lm_eval_samples", "helm",
    "helm_state", "deepeval", "ragas", "mlflow", "mapping", "cobbler_wins",
)  # fmt: skip
#: Formats that need code, for what a spec cannot say.
_READERS: dict[str, Callable[[Rows, LogSource], pd.DataFrame]] = {
    "collected": general_formats.read_collected,
    "store_export": general_formats.read_store_export,
    "alpaca_eval": alpaca_eval.read_alpaca_eval,
    "llmbar": llmbar.read_llmbar,
    "all_responses": score_studies.read_all_responses,
    "socreval": score_studies.read_socreval,
    "summeval_scores": score_studies.read_summeval_scores,
    "rankings": general_formats.read_rankings,
    "self_recognition": bias_studies.read_self_recognition,
    "self_recognition_scores": bias_studies.read_self_recognition_scores,
    "cobbler": bias_studies.read_cobbler,
    "cobbler_wins": bias_studies.read_cobbler_wins,
    "promptfoo": promptfoo.read_promptfoo,
    "promptfoo_lines": promptfoo.read_promptfoo,
    "promptfoo_table": promptfoo.read_promptfoo_table,
}
#: Readers that take the mapping themselves.
_MAPPED: dict[str, LogReader] = {"openai_batch": general_formats.read_openai_batch, "mapping": read_mapped}
_TELLS: dict[str, Callable[[Sequence[Mapping[str, Any]]], bool]] = {
    "promptfoo": promptfoo.is_promptfoo,
    "promptfoo_lines": promptfoo.is_promptfoo,
    "promptfoo_table": promptfoo.is_promptfoo_table,
    "cobbler_wins": bias_studies.are_cobbler_wins,
}


class Format(NamedTuple):
    """A log format: its spec, its reader, and whether records that have its fields are of the format."""

    spec: FormatSpec
    read: LogReader
    tells: Callable[[Sequence[Mapping[str, Any]]], bool]


@cache
def _format(name: str) -> Format:
    spec = load_spec(name)
    read = _MAPPED.get(name) or overridden(_READERS.get(name, spec.read))
    return Format(spec, read, _TELLS.get(name, spec.tells))


def available() -> dict[str, str]:
    """Return all readable formats with a description."""
    return {name: load_spec(name).help for name in ORDER} | {
        "inspect": "Inspect logs, through inspect_ai",
        "table": "tables with common column names",
    }


def find_format(name: str) -> Format:
    """Return a format by name.

    Raises
    ------
    InputError
        If the format is unknown; the message lists all.
    """
    if not isinstance(name, str) or name not in ORDER:
        raise unknown("format", name, available())
    return _format(name)


def detect(records: Sequence[Mapping[str, Any]], mapped: bool) -> str | None:
    """Return the first format whose fields each occur in at least half of the first records, or None.

    With a mapping, a table of any other format is accepted as "mapping".
    """
    first = records[:_SEEN]
    seen = Counter(name for record in first for name in record)
    common = {name for name, count in seen.items() if 2 * count >= len(first)}
    for name in ORDER if first else ():
        known = _format(name)
        if any(fields <= common for fields in known.spec.fields) and known.tells(first):
            return name
    return "mapping" if mapped and common else None
