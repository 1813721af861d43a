"""The nouns everything else is made of: requests, replies, trials, and what a judge and a probe are.

Examples
--------
>>> request = Choice("Which is better, A or B?", labels=("A", "B"))
>>> request.messages
(Message(role='user', content='Which is better, A or B?'),)
>>> request_key(request, judge_id="some judge")[:12]
'af4ca9f8ceea'
"""

from biaslab.core.about import About
from biaslab.core.declarations import Calibration, Comparison, Metric
from biaslab.core.keys import canonical_json, request_fields, request_from_fields, request_json, request_key
from biaslab.core.metrics import declare_metrics, difference_of, find_metric, import_declared, is_primary
from biaslab.core.nearest import Adaptable, Given, Nearest, ends_begun, reading_text
from biaslab.core.protocols import (
    LIMITS,
    PRICES,
    Broad,
    Closable,
    Composed,
    Design,
    Encoding,
    Expanding,
    Judge,
    Packing,
    Priced,
    Probe,
    Retrying,
    Stoppable,
    breadth_of,
    goes_on,
    one_by_one,
    packs_of,
    require_kinds,
)
from biaslab.core.requests import (
    KINDS,
    Choice,
    Completion,
    Likelihood,
    Message,
    Messages,
    Prompt,
    Request,
    Score,
    as_messages,
    as_prompt,
)
from biaslab.core.trials import DECLINED, STATUSES, Reply, Scalar, Status, Trial, Usage

__all__ = [
    "DECLINED",
    "KINDS",
    "LIMITS",
    "PRICES",
    "STATUSES",
    "About",
    "Adaptable",
    "Broad",
    "Calibration",
    "Choice",
    "Closable",
    "Comparison",
    "Completion",
    "Composed",
    "Design",
    "Encoding",
    "Expanding",
    "Given",
    "Judge",
    "Likelihood",
    "Message",
    "Messages",
    "Metric",
    "Nearest",
    "Packing",
    "Priced",
    "Probe",
    "Prompt",
    "Reply",
    "Request",
    "Retrying",
    "Scalar",
    "Score",
    "Status",
    "Stoppable",
    "Trial",
    "Usage",
    "as_messages",
    "as_prompt",
    "breadth_of",
    "canonical_json",
    "declare_metrics",
    "difference_of",
    "ends_begun",
    "find_metric",
    "goes_on",
    "import_declared",
    "is_primary",
    "one_by_one",
    "packs_of",
    "reading_text",
    "request_fields",
    "request_from_fields",
    "request_json",
    "request_key",
    "require_kinds",
]
