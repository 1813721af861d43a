"""lm-evaluation-harness: logged samples (``samples_TASK_TIME.jsonl``, from ``--log_samples``).

``doc_id, target, resps, filtered_resps, metrics``, and a number for each name in ``metrics``. These are scores of the
evaluated model, 0 to 1, by the harness or by a judge that the task calls; the file does not say which, so metrics that
the harness is known to compute are left out. The file name gives the task, the folder name the model, and the filter
becomes the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from biaslab.logs.readers.judged_scores import BY_CODE, Judged, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"doc_id", "resps", "metrics"})
_NAME = re.compile(r"samples_(?P<task>.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?\.jsonl?")


#: Metrics that the harness computes itself.
_BY_CODE = re.compile(
    r"(?:exact_match|em|acc|acc_.*|f1|bleu.*|rouge.*|chrf.*|ter|mcc|perplexity|(?:word|byte)_perplexity|bits_per_byte"
    r"|mc[12]|brier_score|likelihood_diff|pct_stereotype|pass@\d+|(?:prompt|inst)_level_.*|wer|contains)(?:,.*)?$"
)


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per metric and sample."""
    folder, _, file = source.file.rpartition("/")
    named = _NAME.match(file)
    model = folder.rpartition("/")[2] or "model"

    def scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
        replies = record.get("filtered_resps") or [None]
        replies = replies[0] if isinstance(replies, list) else replies
        for metric in record["metrics"]:
            if _BY_CODE.match(metric):
                yield BY_CODE
                continue
            yield Judged(record["doc_id"], model, metric, record[metric], reply=replies, text=replies,
                         configuration=str(record.get("filter") or "recorded"))  # fmt: skip

    return score_trials(rows, source, scores, "lm_eval").assign(dataset=named["task"] if named else "lm_eval")
