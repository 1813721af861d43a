from .about import About as About
from .declarations import Calibration as Calibration, Comparison as Comparison, Metric as Metric
from .keys import (
    canonical_json as canonical_json,
    request_fields as request_fields,
    request_from_fields as request_from_fields,
    request_json as request_json,
    request_key as request_key,
)
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
    Broad as Broad,
    Closable as Closable,
    Composed as Composed,
    Design as Design,
    Encoding as Encoding,
    Expanding as Expanding,
    Judge as Judge,
    Packing as Packing,
    Priced as Priced,
    Probe as Probe,
    Retrying as Retrying,
    Stoppable as Stoppable,
    breadth_of as breadth_of,
    goes_on as goes_on,
    one_by_one as one_by_one,
    packs_of as packs_of,
    require_kinds as require_kinds,
)
from .requests import (
    KINDS as KINDS,
    Choice as Choice,
    Completion as Completion,
    Likelihood as Likelihood,
    Message as Message,
    Messages as Messages,
    Prompt as Prompt,
    Request as Request,
    Score as Score,
    as_messages as as_messages,
    as_prompt as as_prompt,
)
from .trials import (
    DECLINED as DECLINED,
    STATUSES as STATUSES,
    Reply as Reply,
    Scalar as Scalar,
    Status as Status,
    Trial as Trial,
    Usage as Usage,
)
