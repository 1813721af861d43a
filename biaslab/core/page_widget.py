"""A page as a widget of JupyterLab, VS Code and Colab, whose selection is a DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

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
