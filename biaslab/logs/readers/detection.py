"""Detect the format of a log from the fields of its records, never from its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.checks import unknown
from biaslab.logs.readers import (
    bias_studies,
    evaluation_tools,
    general_formats,
    judge_benchmarks,
    leaderboards,
    mapping,
    platforms,
    score_studies,
)
from biaslab.logs.readers.mapping import LogReader, overridden

_SEEN = 50  # records used for detection; several, so that a damaged one does not decide


class Format(NamedTuple):
    """A log format: its identifying fields, reader, one-line description, and an optional further test.

    The reader handles the mapping itself (``maps``), or a mapping overrides its result.
    """

    fields: frozenset[str]
    function: Callable[..., pd.DataFrame]
    help: str
    tells: Callable[[Sequence[Mapping[str, Any]]], bool] | None = None
    maps: bool = False

    @property
    def read(self) -> LogReader:
        """Return the reader, which takes rows, their source and a mapping."""
        return self.function if self.maps else overridden(self.function)


FORMATS: dict[str, Format] = {
    "collected": Format(general_formats.COLLECTED_FIELDS, general_formats.read_collected, "saved trials of biaslab"),
    "store_export": Format(
        general_formats.STORE_EXPORT_FIELDS, general_formats.read_store_export, "export of a biaslab store"
    ),
    "reife": Format(
        judge_benchmarks.REIFE_FIELDS, judge_benchmarks.read_reife, "ReIFE results, with those of swapped outputs"
    ),
    "alpaca_eval": Format(
        leaderboards.ALPACA_EVAL_FIELDS, leaderboards.read_alpaca_eval, "AlpacaEval annotations.json"
    ),
    "arena_hard": Format(
        leaderboards.ARENA_HARD_FIELDS, leaderboards.read_arena_hard, "Arena-Hard judgements, two games"
    ),
    "llmbar": Format(judge_benchmarks.LLMBAR_FIELDS, judge_benchmarks.read_llmbar, "LLMBar result.json"),
    "bracket_pairs": Format(
        leaderboards.BRACKET_PAIRS_FIELDS, leaderboards.read_bracket_pairs, "pair log with [[A]], [[B]], [[C]]"
    ),
    "mt_bench": Format(leaderboards.MT_BENCH_FIELDS, leaderboards.read_mt_bench, "FastChat pairs of MT-Bench"),
    "mt_bench_winners": Format(
        leaderboards.MT_BENCH_WINNER_FIELDS, leaderboards.read_mt_bench_winners, "FastChat pairs of MT-Bench, no texts"
    ),
    "mt_bench_single": Format(
        leaderboards.MT_BENCH_SINGLE_FIELDS, leaderboards.read_mt_bench_single, "FastChat scores of MT-Bench"
    ),
    "all_responses": Format(
        score_studies.ALL_RESPONSES_FIELDS, score_studies.read_all_responses, "G-Eval, Closer Look: all_responses"
    ),
    "socreval": Format(
        score_studies.SOCREVAL_FIELDS,
        score_studies.read_socreval,
        "scores of a reasoning model, several samples per item",
    ),
    "prometheus": Format(
        score_studies.PROMETHEUS_FIELDS, score_studies.read_prometheus, "Prometheus sets with gpt4_score"
    ),
    "summeval_pairs": Format(
        score_studies.SUMMEVAL_PAIRS_FIELDS, score_studies.read_summeval_pairs, "pairs of SummEval summaries"
    ),
    "summeval_scores": Format(
        score_studies.SUMMEVAL_SCORES_FIELDS, score_studies.read_summeval_scores, "scores of SummEval summaries"
    ),
    "rankings": Format(
        general_formats.RANKINGS_FIELDS,
        general_formats.read_rankings,
        "rankings of lists, each candidate once in each position",
    ),
    "judgebench": Format(
        judge_benchmarks.JUDGEBENCH_FIELDS, judge_benchmarks.read_judgebench, "JudgeBench outputs, both orders"
    ),
    "self_recognition": Format(
        bias_studies.SELF_RECOGNITION_FIELDS,
        bias_studies.read_self_recognition,
        "own summaries against others', both orders",
    ),
    "self_recognition_scores": Format(
        bias_studies.SELF_RECOGNITION_SCORE_FIELDS,
        bias_studies.read_self_recognition_scores,
        "exact scores of summaries",
    ),
    "cobbler": Format(bias_studies.COBBLER_FIELDS, bias_studies.read_cobbler, "CoBBLEr true_order, both orders"),
    "openai_batch": Format(
        general_formats.OPENAI_BATCH_FIELDS,
        general_formats.read_openai_batch,
        "output of OpenAI's batch API, with a mapping",
        maps=True,
    ),
    "pandalm": Format(
        judge_benchmarks.PANDALM_FIELDS,
        judge_benchmarks.read_pandalm,
        "PandaLM verdicts: idx and <judge>_result",
        judge_benchmarks.is_pandalm,
    ),
    "openai_evals": Format(
        evaluation_tools.OPENAI_EVALS_FIELDS, evaluation_tools.read_openai_evals, "events of OpenAI evals, model-graded"
    ),
    "promptfoo": Format(
        evaluation_tools.PROMPTFOO_FIELDS,
        evaluation_tools.read_promptfoo,
        "promptfoo results.json",
        evaluation_tools.is_promptfoo,
    ),
    "promptfoo_lines": Format(
        evaluation_tools.PROMPTFOO_LINE_FIELDS,
        evaluation_tools.read_promptfoo,
        "promptfoo results.jsonl",
        evaluation_tools.is_promptfoo,
    ),
    "promptfoo_table": Format(
        evaluation_tools.PROMPTFOO_TABLE_FIELDS,
        evaluation_tools.read_promptfoo_table,
        "promptfoo results.csv",
        evaluation_tools.is_promptfoo_table,
    ),
    "galileo": Format(
        platforms.GALILEO_FIELDS, platforms.read_galileo, "Galileo records with metric_info", platforms.is_galileo
    ),
    "trulens": Format(
        platforms.TRULENS_FIELDS, platforms.read_trulens, "TruLens records with feedback", platforms.is_trulens
    ),
    "langfuse": Format(platforms.LANGFUSE_FIELDS, platforms.read_langfuse, "Langfuse scores", platforms.is_langfuse),
    "phoenix": Format(platforms.PHOENIX_FIELDS, platforms.read_phoenix, "Phoenix annotations of spans"),
    "phoenix_spans": Format(
        platforms.PHOENIX_SPAN_FIELDS,
        platforms.read_phoenix_spans,
        "OpenInference spans with evaluations",
        platforms.are_phoenix_spans,
    ),
    "opik": Format(platforms.OPIK_FIELDS, platforms.read_opik, "Opik traces with feedback scores"),
    "langsmith": Format(platforms.LANGSMITH_FIELDS, platforms.read_langsmith, "LangSmith feedback of runs"),
    "langsmith_table": Format(
        platforms.LANGSMITH_TABLE_FIELDS,
        platforms.read_langsmith_table,
        "LangSmith evaluation as a table",
        platforms.is_langsmith_table,
    ),
    "lm_eval_samples": Format(
        evaluation_tools.LM_EVAL_FIELDS, evaluation_tools.read_lm_eval, "samples of lm-evaluation-harness"
    ),
    "helm": Format(evaluation_tools.HELM_FIELDS, evaluation_tools.read_helm, "HELM per_instance_stats.json"),
    "helm_state": Format(
        evaluation_tools.HELM_STATE_FIELDS,
        evaluation_tools.read_helm_state,
        "HELM scenario_state.json, judged annotations",
    ),
    "deepeval": Format(
        evaluation_tools.DEEPEVAL_FIELDS,
        evaluation_tools.read_deepeval,
        "DeepEval test runs",
        evaluation_tools.is_deepeval,
    ),
    "ragas": Format(
        evaluation_tools.RAGAS_FIELDS, evaluation_tools.read_ragas, "Ragas results", evaluation_tools.is_ragas
    ),
    "mlflow": Format(platforms.MLFLOW_FIELDS, platforms.read_mlflow, "MLflow evaluation tables", platforms.is_mlflow),
    "mapping": Format(
        frozenset({"context_id", "candidate_id"}), mapping.read_mapped, "any table, with a mapping", maps=True
    ),
    "cobbler_wins": Format(
        bias_studies.COBBLER_WIN_FIELDS,
        bias_studies.read_cobbler_wins,
        "CoBBLEr preferences: wins of systems",
        bias_studies.are_cobbler_wins,
    ),
}


def available() -> dict[str, str]:
    """Return all readable formats with a description."""
    return {name: known.help for name, known in FORMATS.items()} | {
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
    if not isinstance(name, str) or name not in FORMATS:
        raise unknown("format", name, available())
    return FORMATS[name]


def _looks(known: Format, records: Sequence[Mapping[str, Any]]) -> bool:
    return bool(records) and (known.tells is None or known.tells(records[:_SEEN]))


def detect(records: Sequence[Mapping[str, Any]], mapped: bool) -> str | None:
    """Return the first format whose fields each occur in at least half of the first records, or None.

    With a mapping, a table of any other format is accepted as "mapping".
    """
    seen = Counter(name for record in records[:_SEEN] for name in record)
    common = {name for name, count in seen.items() if 2 * count >= min(len(records), _SEEN)}
    match = next((name for name, known in FORMATS.items() if known.fields <= common and _looks(known, records)), None)
    return match or ("mapping" if mapped and common else None)
