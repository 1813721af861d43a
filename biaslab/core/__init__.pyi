from .about import About as About
from .declarations import (
    Calibration as Calibration,
    Comparison as Comparison,
    Figure as Figure,
    Metric as Metric,
)
from .keys import (
    canonical_json as canonical_json,
    request_fields as request_fields,
    request_from_fields as request_from_fields,
    request_json as request_json,
    request_key as request_key,
)
from .messages import Message as Message, Messages as Messages, as_messages as as_messages
from .metrics import (
    declare_metrics as declare_metrics,
    difference_of as difference_of,
    find_metric as find_metric,
    import_declared as import_declared,
    is_primary as is_primary,
)
from .nearest import (
    Adaptable as Adaptable,
    Given as Given,
    Nearest as Nearest,
    ends_begun as ends_begun,
    reading_text as reading_text,
)
from .protocols import (
    LIMITS as LIMITS,
    PRICES as PRICES,
    BaseJudge as BaseJudge,
    Closable as Closable,
    Design as Design,
    Judge as Judge,
    Pack as Pack,
    Probe as Probe,
    Stoppable as Stoppable,
    as_judge as as_judge,
    is_sequential as is_sequential,
    require_kinds as require_kinds,
)
from .requests import (
    EACH_ALONE as EACH_ALONE,
    KINDS as KINDS,
    Choice as Choice,
    Compare as Compare,
    Completion as Completion,
    Likelihood as Likelihood,
    Prompt as Prompt,
    Rank as Rank,
    Request as Request,
    Score as Score,
    as_prompt as as_prompt,
    thinking_of as thinking_of,
    with_thinking as with_thinking,
)
from .thinking import (
    EFFORTS as EFFORTS,
    ThinkingBudget as ThinkingBudget,
    as_thinking as as_thinking,
    thinking_tokens as thinking_tokens,
)
from .trials import (
    AT_LIMIT as AT_LIMIT,
    DECLINED as DECLINED,
    STATUSES as STATUSES,
    UNUSABLE as UNUSABLE,
    Reply as Reply,
    Scalar as Scalar,
    Status as Status,
    Trial as Trial,
    Usage as Usage,
)
