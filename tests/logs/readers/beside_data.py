"""What tests of the figures beside the published data share: the figures, and how an estimate is looked up."""

import warnings

import biaslab as bl
from biaslab.core.errors import MissingDataWarning

QUICK = bl.Resampling(n=100)

#: Attribute, level of measurement, and Krippendorff's alpha of SummEval's three experts, 1200 items.
EXPERT_ALPHAS = [
    ("coherence", "interval", 0.5756),
    ("consistency", "interval", 0.8989),
    ("coherence", "ordinal", 0.5744),
    ("consistency", "ordinal", 0.8146),
    ("coherence", "nominal", 0.1607),
    ("consistency", "nominal", 0.5363),
]
#: Judge and prompt of LLMBar, first-position rate and order consistency over 419 pairs.
LLMBAR = [
    ("gpt-4", "Vanilla", 0.5119, 0.9284),
    ("falcon-180b-chat", "Vanilla", 0.7757, 0.4153),
    ("gpt-4", "Swap", 0.5131, 0.9642),
    ("chatgpt", "Vanilla", 0.6468, 0.6587),
]


def audit(trials, *only):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        return bl.audit(trials, only=only, resampling=QUICK)


def value(estimates, metric, **where):
    rows = estimates[estimates["metric"] == metric]
    for column, wanted in where.items():
        rows = rows[rows[column].isna() if wanted is None else rows[column] == wanted]
    assert len(rows) == 1, rows
    return rows["estimate"].iloc[0]
