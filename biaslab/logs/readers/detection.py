"""Detect the format of a log from the fields of its records, never from its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.checks import unknown
from biaslab.logs.readers import (
    all_responses,
    alpaca_eval,
    arena_hard,
    bracket_pairs,
    cobbler,
    collected,
    deepeval,
    galileo,
    helm,
    judgebench,
    langfuse,
    langsmith,
    llmbar,
    lm_eval_samples,
    mapping,
    mlflow_evaluate,
    mt_bench,
    openai_batch,
    openai_evals,
    opik,
    pandalm,
    phoenix,
    prometheus,
    promptfoo,
    promptfoo_tables,
    ragas,
    rankings,
    reife,
    self_recognition,
    socreval,
    store_export,
    summeval_pairs,
    summeval_scores,
    trulens,
)
from biaslab.logs.readers.overriding import Reader, overridden

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
    def read(self) -> Reader:
        """Return the reader, which takes rows, their source and a mapping."""
        return self.function if self.maps else overridden(self.function)


FORMATS: dict[str, Format] = {
    "collected": Format(collected.FIELDS, collected.read, "saved trials of biaslab"),
    "store_export": Format(store_export.FIELDS, store_export.read, "export of a biaslab store"),
    "reife": Format(reife.FIELDS, reife.read, "ReIFE results, with those of swapped outputs"),
    "alpaca_eval": Format(alpaca_eval.FIELDS, alpaca_eval.read, "AlpacaEval annotations.json"),
    "arena_hard": Format(arena_hard.FIELDS, arena_hard.read, "Arena-Hard judgements, two games"),
    "llmbar": Format(llmbar.FIELDS, llmbar.read, "LLMBar result.json"),
    "bracket_pairs": Format(bracket_pairs.FIELDS, bracket_pairs.read, "pair log with [[A]], [[B]], [[C]]"),
    "mt_bench": Format(mt_bench.FIELDS, mt_bench.read, "FastChat pairs of MT-Bench"),
    "mt_bench_winners": Format(mt_bench.WINNER_FIELDS, mt_bench.read_winners, "FastChat pairs of MT-Bench, no texts"),
    "mt_bench_single": Format(mt_bench.SINGLE_FIELDS, mt_bench.read_single, "FastChat scores of MT-Bench"),
    "all_responses": Format(all_responses.FIELDS, all_responses.read, "G-Eval, Closer Look: all_responses"),
    "socreval": Format(socreval.FIELDS, socreval.read, "scores of a reasoning model, several samples per item"),
    "prometheus": Format(prometheus.FIELDS, prometheus.read, "Prometheus sets with gpt4_score"),
    "summeval_pairs": Format(summeval_pairs.FIELDS, summeval_pairs.read, "pairs of SummEval summaries"),
    "summeval_scores": Format(summeval_scores.FIELDS, summeval_scores.read, "scores of SummEval summaries"),
    "rankings": Format(rankings.FIELDS, rankings.read, "rankings of lists, each candidate once in each position"),
    "judgebench": Format(judgebench.FIELDS, judgebench.read, "JudgeBench outputs, both orders"),
    "self_recognition": Format(
        self_recognition.FIELDS, self_recognition.read, "own summaries against others', both orders"
    ),
    "self_recognition_scores": Format(
        self_recognition.SCORE_FIELDS, self_recognition.read_scores, "exact scores of summaries"
    ),
    "cobbler": Format(cobbler.FIELDS, cobbler.read, "CoBBLEr true_order, both orders"),
    "openai_batch": Format(
        openai_batch.FIELDS, openai_batch.read, "output of OpenAI's batch API, with a mapping", maps=True
    ),
    "pandalm": Format(pandalm.FIELDS, pandalm.read, "PandaLM verdicts: idx and <judge>_result", pandalm.tells),
    "openai_evals": Format(openai_evals.FIELDS, openai_evals.read, "events of OpenAI evals, model-graded"),
    "promptfoo": Format(promptfoo.FIELDS, promptfoo.read, "promptfoo results.json", promptfoo.tells),
    "promptfoo_lines": Format(promptfoo.LINE_FIELDS, promptfoo.read, "promptfoo results.jsonl", promptfoo.tells),
    "promptfoo_table": Format(
        promptfoo_tables.FIELDS, promptfoo_tables.read, "promptfoo results.csv", promptfoo_tables.tells
    ),
    "galileo": Format(galileo.FIELDS, galileo.read, "Galileo records with metric_info", galileo.tells),
    "trulens": Format(trulens.FIELDS, trulens.read, "TruLens records with feedback", trulens.tells),
    "langfuse": Format(langfuse.FIELDS, langfuse.read, "Langfuse scores", langfuse.tells),
    "phoenix": Format(phoenix.FIELDS, phoenix.read, "Phoenix annotations of spans"),
    "phoenix_spans": Format(
        phoenix.SPAN_FIELDS, phoenix.read_spans, "OpenInference spans with evaluations", phoenix.tells_spans
    ),
    "opik": Format(opik.FIELDS, opik.read, "Opik traces with feedback scores"),
    "langsmith": Format(langsmith.FIELDS, langsmith.read, "LangSmith feedback of runs"),
    "langsmith_table": Format(
        langsmith.TABLE_FIELDS, langsmith.read_table, "LangSmith evaluation as a table", langsmith.tells_table
    ),
    "lm_eval_samples": Format(lm_eval_samples.FIELDS, lm_eval_samples.read, "samples of lm-evaluation-harness"),
    "helm": Format(helm.FIELDS, helm.read, "HELM per_instance_stats.json"),
    "helm_state": Format(helm.STATE_FIELDS, helm.read_state, "HELM scenario_state.json, judged annotations"),
    "deepeval": Format(deepeval.FIELDS, deepeval.read, "DeepEval test runs", deepeval.tells),
    "ragas": Format(ragas.FIELDS, ragas.read, "Ragas results", ragas.tells),
    "mlflow": Format(mlflow_evaluate.FIELDS, mlflow_evaluate.read, "MLflow evaluation tables", mlflow_evaluate.tells),
    "mapping": Format(
        frozenset({"context_id", "candidate_id"}), mapping.read_mapped, "any table, with a mapping", maps=True
    ),
    "cobbler_wins": Format(
        cobbler.WIN_FIELDS, cobbler.read_wins, "CoBBLEr preferences: wins of systems", cobbler.tells_wins
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
