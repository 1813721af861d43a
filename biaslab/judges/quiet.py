"""Loading without bars and notices."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' loading bars and notices out of notebooks, and put its settings back."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with _without_bars():
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _without_bars() -> contextlib.AbstractContextManager[object]:
    """Drop the bar of GGUF files, which heeds no setting: what is written to stderr and, in a notebook, displayed."""
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.utils.capture import capture_output

        return capture_output(stdout=False)
    return contextlib.redirect_stderr(io.StringIO())
