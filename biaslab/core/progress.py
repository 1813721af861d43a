"""Progress bars that leave a line of text in notebooks, because widgets are lost when a notebook is reopened."""

from __future__ import annotations

from functools import cache
from typing import Any

from tqdm import tqdm as plain
from tqdm.auto import tqdm


def progress_bar(*args: Any, **options: Any) -> plain[Any]:
    """Create a tqdm bar; a notebook keeps its final state as text, or nothing with ``leave=False``.

    Parameters
    ----------
    *args, **options
        Arguments of ``tqdm.auto.tqdm``.

    Examples
    --------
    >>> with progress_bar(total=2, disable=True) as bar:
    ...     _ = bar.update()
    """
    bar: plain[Any] = _kind()(*args, **options)
    return bar


class Postfix:
    """Show the dollars spent and the judge's retries after a progress bar."""

    def __init__(self, bar: plain[Any]) -> None:
        self._bar, self._spent, self._retries = bar, "", ""

    def retried(self, words: str) -> None:
        """Show a retry at once; called from the judge's thread."""
        self._retries = words
        self._show(refresh=True)

    def spent(self, dollars: float) -> None:
        """Show the dollars spent at the next redraw."""
        self._spent = f"${dollars:,.2f}"
        self._show(refresh=False)

    def _show(self, refresh: bool) -> None:
        self._bar.set_postfix_str("; ".join(filter(None, (self._spent, self._retries))), refresh=refresh)


@cache
def _kind() -> Any:
    """Return the class of bars: tqdm's or, in a notebook, one whose widget becomes text when closed."""
    if not any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__):
        return tqdm
    from IPython.display import display

    class Bar(tqdm):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, display=False, **options)
            self.place: Any = None if self.disable else display(self.container, display_id=True)  # type: ignore[no-untyped-call, attr-defined]

        def close(self) -> None:
            running = not self.disable
            super().close()
            if running:
                self.place.update({"text/plain": str(self)} if self.leave else {}, raw=True)
                self.container.close()  # type: ignore[attr-defined]

    return Bar
