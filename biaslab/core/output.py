"""Output for readers: numbers, names, tables, pages and progress bars; files are written atomically."""

from __future__ import annotations

import glob
import math
import os
import re
import textwrap
import time
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tqdm import tqdm as plain
from tqdm.auto import tqdm

from biaslab.core.checks import require_extra
from biaslab.core.errors import InputError, OutputError

if TYPE_CHECKING:
    import pandas as pd

#: A path, as a text or an object.
AnyPath = str | PathLike[str]
MISSING = "–"
_ABANDONED = 7 * 24 * 3600  # seconds since the last write


def count(number: int, noun: str) -> str:
    """Format a count with its noun, in the plural if needed.

    Examples
    --------
    >>> count(1, "figure"), count(2000, "reply")
    ('1 figure', '2,000 replies')
    """
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else plural}"


def number(value: Any, digits: int = 3) -> str:
    """Format a number with a proper minus sign and without negative zero; an en dash if missing.

    Values that lie halfway between two digits, up to floating-point error, are rounded as exact halves.

    Examples
    --------
    >>> number(-0.12345), number(-0.0001), number(float("nan")), number(0.9375 - 1e-15)
    ('−0.123', '0.000', '–', '0.938')
    """
    if value is None or math.isnan(value):
        return MISSING
    value = float(f"{value:.12g}")
    text = f"{value:,.{digits}f}" if abs(value) < 1e6 else f"{value:.{digits}g}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text.replace("-", "−")


def interval(low: Any, high: Any, digits: int = 3) -> str:
    """Format an interval; an en dash if there is none.

    Examples
    --------
    >>> interval(0.3412, 0.402)
    '[0.341, 0.402]'
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return MISSING
    return f"[{number(low, digits)}, {number(high, digits)}]"


def with_interval(row: Mapping[Any, Any], digits: int = 3, whole: bool = False) -> str:
    """Format an estimate with its interval, if it has one; see `estimate_and_interval`.

    Examples
    --------
    >>> with_interval({"estimate": 0.4712, "ci_low": 0.43, "ci_high": 0.51}, 2)
    '0.47 [0.43, 0.51]'
    """
    estimate, bounds = estimate_and_interval(row, digits, whole)
    return estimate + (f" {bounds}" if bounds != MISSING else "")


def estimate_and_interval(row: Mapping[Any, Any], digits: int = 3, whole: bool = False) -> tuple[str, str]:
    """Format an estimate and its interval; whole numbers, such as ranks, without decimals unless tied.

    Examples
    --------
    >>> estimate_and_interval({"estimate": 1.5, "ci_low": 1.0, "ci_high": 2.0}, whole=True)
    ('1.5', '[1, 2]')
    """
    shown = number(row["estimate"], int(row["estimate"] % 1 != 0) if whole else digits)
    return shown, interval(row["ci_low"], row["ci_high"], 0 if whole else digits)


def percent(share: float, digits: int = 4) -> str:
    """Format a share as a percentage with the given number of significant digits.

    Examples
    --------
    >>> percent(0.95), percent(0.03769, digits=2), percent(1, 2)
    ('95 %', '3.8 %', '100 %')
    """
    return f"{float(f'{100 * share:.{digits}g}'):g} %"


def wrapped(line: str, width: int, hang: int = 2) -> list[str]:
    """Wrap a line at words, with its indent before each part, and a hanging indent more after the first.

    Examples
    --------
    >>> wrapped("  - one or two", 10)
    ['  - one or', '    two']
    """
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line.strip(), width, initial_indent=indent, subsequent_indent=indent + " " * hang,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def html_table(caption: str, facts: Iterable[Sequence[str]], style: str = "") -> str:
    """Format name–value facts as an HTML table; ``style`` is the CSS of its cells.

    Examples
    --------
    >>> html_table("a judge", [("position", "0.5")]).count("<tr>")
    1
    """
    kind = f' style="{style}"' if style else ""
    rows = "".join(f"<tr><th{kind}>{escape(name)}</th><td{kind}>{escape(value)}</td></tr>" for name, value in facts)
    return f'<table><caption style="white-space: nowrap">{escape(caption)}</caption>{rows}</table>'


def require_file(name: str, target: AnyPath, *endings: str) -> Path:
    """Check the path of an output file, creating its folder if missing, and return it.

    Parameters
    ----------
    name : str
        Parameter or option that gave the path, for the message.
    target : str or path
        The path.
    *endings : str
        Allowed endings; any if none is given.

    Raises
    ------
    InputError
        If the ending is not allowed, the path is a folder, or its folder cannot be created.

    Examples
    --------
    >>> require_file("out", "estimates.txt", ".csv")
    Traceback (most recent call last):
    ...
    biaslab.core.errors.InputError: out is 'estimates.txt', allowed: a file that ends in .csv; such as estimates.csv
    """
    place = Path(target)
    if endings and place.suffix not in endings:
        remedy = f"such as {place.with_suffix(endings[0]).name}"
        raise InputError(name, str(target), f"a file that ends in {', '.join(endings)}", remedy)
    try:
        place.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        allowed = "a file in a folder that exists or can be created"
        raise InputError(name, str(target), allowed, f"use another path ({error.strerror})") from error
    if place.is_dir():
        raise InputError(name, str(target), "a file, not a folder", "add a file name")
    return place


@contextmanager
def replacing(target: AnyPath) -> Iterator[Path]:
    """Yield a temporary path; on success its file replaces the target, on error it is deleted.

    Temporary files left by killed processes are removed after a week without writing.

    Raises
    ------
    OutputError
        If the file cannot be written; the message names the target.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "table.csv") as partial:
    ...         _ = partial.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['table.csv']
    """
    place = Path(target)
    for abandoned in place.parent.glob(f".{glob.escape(place.name)}.*.partial"):  # left by a process that was killed
        with suppress(OSError):
            if time.time() - abandoned.stat().st_mtime > _ABANDONED:
                abandoned.unlink()
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")  # two processes may write the same target
    try:
        yield partial
        partial.replace(place)
    except OSError as error:
        raise OutputError(target, error) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


#: Names as people write them: of data sets, of ways of asking, and of recent judges.
NAMES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
TITLES, WAYS = NAMES["datasets"], NAMES["configurations"]


def title(dataset: str) -> str:
    """Return the data set that a log's name begins with, as papers write it; else the name.

    Examples
    --------
    >>> title("mt_bench_repetition"), title("graded (constructed)")
    ('MT-Bench', 'graded (constructed)')
    """
    name = _longest(dataset)
    return dataset if name is None else TITLES[name]


def written(dataset: str) -> str:
    """Return the name of a data set as papers write it, including the subset.

    Examples
    --------
    >>> written("mt_bench_repetition"), written("xsum"), written("graded (constructed)")
    ('MT-Bench repetition', 'XSum', 'graded (constructed)')
    """
    name = _longest(dataset)
    return dataset if name is None else " ".join([TITLES[name], *dataset.removeprefix(name).replace("_", " ").split()])


def _longest(dataset: str) -> str | None:
    return next((name for name in sorted(TITLES, key=len, reverse=True) if dataset.startswith(name)), None)


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|&~$])")


def markdown(text: object) -> str:
    r"""Escape text for Markdown, including table cells.

    Examples
    --------
    >>> print(markdown("a|b <c> *d*"))
    a\|b \<c\> \*d\*
    """
    return _MARKDOWN.sub(r"\\\1", " ".join(str(text).split()))


class PrintedText:
    """Something that prints as text, which a notebook shows as it is printed."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


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

    def save(self, path: AnyPath) -> Path:
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

        _esm = Path(__file__).with_name("frame.js").read_text(encoding="utf-8")
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
