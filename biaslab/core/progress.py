"""Progress bars that leave a line of text in a notebook, not a widget, which a notebook opened again cannot show."""

from __future__ import annotations

from functools import cache
from typing import Any

from tqdm import tqdm as plain
from tqdm.auto import tqdm


def progress_bar(*given: Any, **options: Any) -> plain[Any]:
    """Make a bar of tqdm; a notebook keeps how it looked at its end, or nothing with ``leave=False``.

    Parameters
    ----------
    *given, **options
        Passed to ``tqdm.auto.tqdm``.

    Examples
    --------
    >>> with progress_bar(total=2, disable=True) as bar:
    ...     _ = bar.update()
    """
    bar: plain[Any] = _kind()(*given, **options)
    return bar


class Postfix:
    """The text behind a progress bar: what is spent so far, and the judge's retries."""

    def __init__(self, bar: plain[Any]) -> None:
        self._bar, self._spent, self._retries = bar, "", ""

    def retried(self, words: str) -> None:
        """Say at once that the judge asks again; called from its thread."""
        self._retries = words
        self._show(refresh=True)

    def spent(self, dollars: float) -> None:
        """Say what is spent, when the bar is drawn next."""
        self._spent = f"${dollars:,.2f}"
        self._show(refresh=False)

    def _show(self, refresh: bool) -> None:
        self._bar.set_postfix_str("; ".join(filter(None, (self._spent, self._retries))), refresh=refresh)


@cache
def _kind() -> Any:
    """Return the class of bars: that of tqdm or, in a notebook, one whose widget becomes text when it is closed."""
    if not any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__):
        return tqdm
    from IPython.display import display

    class Bar(tqdm):  # type: ignore[type-arg]
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, display=False, **options)
            self.place: Any = None if self.disable else display(self.container, display_id=True)  # type: ignore[no-untyped-call, attr-defined]

        def close(self) -> None:
            running = not self.disable
            super().close()
            if running:
                self.place.update({"text/plain": str(self)} if self.leave else {}, raw=True)
                self.container.close()  # type: ignore[attr-defined]

    return Bar
