"""Pause the garbage collector while millions of objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 10_000  # new objects: looking at them takes as long as declaring them old


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector while many objects without cycles are created.

    What was made meanwhile counts as old afterwards, so that only the collector's rare full rounds look at it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # that nobody else freezes takes a while to see
                gc.freeze()
                gc.unfreeze()
            gc.enable()
