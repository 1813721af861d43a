"""HELM: statistics of instances (``per_instance_stats.json``) and judged annotations (``scenario_state.json``).

``per_instance_stats.json``: a list of ``instance_id, train_trial_index, stats``, each with ``name.name`` and ``mean``.
Only statistics known to come from a judge, such as ``wildbench_score``, are read; the others are computed by code.
``scenario_state.json``: ``adapter_spec`` and ``request_states``, whose ``annotations`` have ``NAME_score`` and
``NAME_reasoning`` for each annotator. Scores range from 0 to 1, those of WildBench from 1 to 10; other scales need
``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from biaslab.logs.readers.judged_scores import BY_CODE, Judged, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"instance_id", "stats"})
STATE_FIELDS = frozenset({"adapter_spec", "request_states"})
_SCALES = {"wildbench": "1-10"}
_JUDGED = ("wildbench_score", "wildbench_score_rescaled", "omni_math_accuracy", "safety_score", "safety_gpt_score",
           "safety_llama_score", "annotation_")  # fmt: skip


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per judged statistic."""

    def scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
        for stat in record["stats"]:
            name = stat["name"]["name"]
            if not name.startswith(_JUDGED):
                yield BY_CODE
                continue
            scale = "1-10" if name == "wildbench_score" else "0-1"
            yield Judged(record["instance_id"], "model", name, stat.get("mean"), scale=scale)

    return score_trials(rows, source, scores, "helm")


def read_state(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per annotator and instance."""
    return score_trials(rows, source, _annotated, "helm")


def _annotated(record: Mapping[str, Any]) -> Iterator[Judged]:
    model = record["adapter_spec"].get("model") or record["adapter_spec"].get("model_deployment") or "model"
    for state in record["request_states"]:
        completions = (state.get("result") or {}).get("completions") or [{}]
        for task, annotation in (state.get("annotations") or {}).items():
            scale = _SCALES.get(task, "0-1")
            for name, score in annotation.items():
                if name != "score" and not name.endswith("_score"):
                    continue
                annotator = name.removesuffix("score").rstrip("_")
                reasons = (f"{annotator}_reasoning", "reasoning", f"{annotator}_explanation", "explanation")
                reason = next((annotation[why] for why in reasons if why in annotation), None)
                yield Judged(state["instance"]["id"], model, task, score, annotator or None, scale, reason,
                             completions[0].get("text"))  # fmt: skip
