"""A page about rows of a frame: saved as a file, shown as a widget whose selection is a DataFrame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from biaslab.core.checks import require_extra
from biaslab.core.output import replacing, require_file

if TYPE_CHECKING:
    import pandas as pd

_SCRIPT = """
export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.title = model.get("title");
    frame.setAttribute("sandbox", "allow-scripts allow-downloads allow-popups");
    frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 0`;
    const hear = (event) => {
      if (event.source !== frame.contentWindow || !Array.isArray(event.data?.biaslab)) return;
      model.set("shown", event.data.biaslab);
      model.save_changes();
    };
    window.addEventListener("message", hear);
    frame.srcdoc = model.get("page");
    el.append(frame);
    return () => window.removeEventListener("message", hear);
  },
};
"""


class Page(ABC):
    """A self-contained page about rows of a frame, which needs no server and fetches nothing."""

    _height: ClassVar[int] = 560  # pixels of its frame in a notebook

    @abstractmethod
    def to_html(self) -> str:
        """Return the page."""

    @abstractmethod
    def _heading(self) -> str:
        """Return the title of the frame around the page."""

    @abstractmethod
    def _rows_at(self, places: list[int]) -> pd.DataFrame:
        """Return the rows in the places that the page reports as displayed."""

    def _repr_html_(self) -> str:
        page = escape(self.to_html(), quote=True)
        style = f"width: 100%; height: {self._height}px; border: 0"
        allowed = "allow-scripts allow-downloads allow-popups"
        return f'<iframe title="{self._heading()}" sandbox="{allowed}" style="{style}" srcdoc="{page}"></iframe>'

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page to a file and return its path.

        Raises
        ------
        InputError
            If the path does not end in ``.html``, or its folder cannot be created.
        """
        target = require_file("path", path, ".html")
        with replacing(target) as partial:
            partial.write_text(self.to_html(), encoding="utf-8")
        return target

    def widget(self) -> Any:
        """Return the page as an anywidget widget, whose ``selection`` is the frame of the displayed rows.

        Raises
        ------
        MissingDependencyError
            If anywidget is not installed.

        Examples
        --------
        >>> widget = page.widget()  # doctest: +SKIP
        >>> widget.selection  # doctest: +SKIP
        """
        require_extra("widgets", "a page as a widget")
        return widget_class()(self.to_html(), self._heading(), self._rows_at)


@cache
def widget_class() -> Any:
    """Return the class of the widget, which can be made only where anywidget is installed."""
    import anywidget
    import traitlets

    class PageWidget(anywidget.AnyWidget):
        """A page in a frame of its own; ``selection`` follows its filters and its order.

        Attributes
        ----------
        page, title : str
            The page, and its name for those who do not see it.
        shown : list of int
            Places of what is shown, as it is sorted; ``observe`` tells when they change.
        height : int
            Of the frame, in pixels.
        """

        _esm = _SCRIPT
        page = traitlets.Unicode().tag(sync=True)
        title = traitlets.Unicode().tag(sync=True)
        shown = traitlets.List(traitlets.Int()).tag(sync=True)
        height = traitlets.Int(760).tag(sync=True)

        def __init__(self, page: str, title: str, rows: Callable[[list[int]], pd.DataFrame]) -> None:
            self._rows = rows
            super().__init__(page=page, title=title)

        @property
        def selection(self) -> pd.DataFrame:
            """The rows that are shown, in their order; none before the page has been seen."""
            return self._rows(self.shown)

    return PageWidget
