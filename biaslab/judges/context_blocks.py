"""Cut requests into blocks of whole contexts, whose prompts share their beginnings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from biaslab.core import Request

#: Requests of a block at most. A context of more is cut: one more prompt of so many shares what the others share.
LARGEST = 1024
_FEW = 128  # contexts are put together up to so many requests, so that a block is worth its way
_EACH = 8  # blocks of each replica at least where contexts allow it, so that all are done at about one time


def blocks_of(requests: Iterable[Request], replicas: int) -> list[list[Request]]:
    """Cut different requests into blocks of whole contexts.

    Parameters
    ----------
    requests : iterable of Request
        What is asked; of equal ones the first. A request tells its context by its ``about``; one that does not is a
        context of its own.
    replicas : int
        How many judges answer blocks at the same time.

    Returns
    -------
    list of list of Request
        Every request once. A context lies in one block unless it has more than `LARGEST` requests; then it is cut into
        blocks of its own. Contexts stand in the order of their first requests, their requests in the order given.

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
    """Return the number of requests that makes about 16 blocks a replica, so that little idles at the end."""
    return 2 * _EACH * _FEW * replicas


def _by_context(requests: Iterable[Request]) -> list[list[Request]]:
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
