"""Cut requests into blocks of whole contexts, whose prompts share prefixes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from biaslab.core import Request

#: Maximum number of requests per block. Larger contexts are split, at the cost of one more shared prefix per block.
LARGEST = 1024
_FEW = 128  # contexts are joined up to this number of requests, so that a block is worth sending
_EACH = 8  # minimum number of blocks per replica, if contexts allow it, so that all finish at about the same time


def blocks_of(requests: Iterable[Request], replicas: int) -> list[list[Request]]:
    """Cut distinct requests into blocks of whole contexts.

    Parameters
    ----------
    requests : iterable of Request
        The requests; of equal ones only the first is used. A request's context comes from its ``about``; without one,
        it is its own context.
    replicas : int
        Number of judges that answer blocks in parallel.

    Returns
    -------
    list of list of Request
        Every request once. A context lies in one block unless it has more than `LARGEST` requests, in which case it is
        split into blocks of its own. Contexts are in the order of their first requests, and their requests in the
        given order.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> requests = [trial.request for trial in bl.probes.Position(templates=[1]).design(data)]
    >>> [len(block) for block in blocks_of(requests, replicas=2)]
    [120, 120, 120, 120, 120, 120]
    """
    contexts = _by_context(requests)
    wanted = math.ceil(sum(map(len, contexts)) / (_EACH * replicas))
    return list(_joined(contexts, min(max(wanted, 1), _FEW)))


def breadth_of_blocks(replicas: int) -> int:
    """Return the number of requests that gives about 16 blocks per replica, so that little time is idle at the end."""
    return 2 * _EACH * _FEW * replicas


def _by_context(requests: Iterable[Request]) -> list[list[Request]]:
    """Group distinct requests by context; a request without one is its own context."""
    contexts: dict[object, list[Request]] = {}
    for place, request in enumerate(dict.fromkeys(requests)):
        key = place if request.about is None else request.about.context_id
        contexts.setdefault(key, []).append(request)
    return list(contexts.values())


def _joined(contexts: Sequence[list[Request]], enough: int) -> Iterator[list[Request]]:
    """Join contexts until a block has enough requests, and cut blocks that are too large."""
    block: list[Request] = []
    for context in contexts:
        if block and len(context) > LARGEST:
            yield block
            block = []
        block += context
        if len(block) >= enough:
            yield from (block[start : start + LARGEST] for start in range(0, len(block), LARGEST))
            block = []
    if block:
        yield block
