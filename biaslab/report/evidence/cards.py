"""Render cards as HTML to filter, search and sort: below a cell of a notebook, or on a page of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from jinja2 import Environment

from biaslab.core.output import count
from biaslab.core.page_widget import Page
from biaslab.report.evidence.exhibits import Exhibit
from biaslab.report.evidence.marking import Segment
from biaslab.report.wording import templates

_LONGEST = 20_000  # characters shown of one text
_LONGEST_THOUGHT = 4_000  # of a thought: it is background, and a page may have hundreds
_FOLDED = 400  # longer sources are folded
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: "␡"}
_PICTURES |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
_FILTERS = ("probe", "judge", "dataset", "attribute")


@dataclass(frozen=True, eq=False)
class Shown(Page):
    """Judgements as cards; JupyterLab, VS Code and Colab show them with filters, search and sort.

    Attributes
    ----------
    exhibits : tuple of Exhibit
        The cards.
    trials : pandas.DataFrame
        The judgements on the cards, one per row; ``card`` counts the cards from 0, ``outcome`` and ``effect`` are the
        card's.
    n_cards : int
        Number of cards that all judgements would give.
    missing : tuple of str
        What could not be shown, and the remedy.
    """

    exhibits: tuple[Exhibit, ...]
    trials: pd.DataFrame
    n_cards: int
    missing: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """Number of cards shown, and of how many."""
        shown = len(self.exhibits)
        return count(shown, "card") if shown == self.n_cards else f"{shown:,} of {count(self.n_cards, 'card')}"

    def to_html(self) -> str:
        """Return the cards as a self-contained page with filters."""
        return page_html(self)

    def _heading(self) -> str:
        return f"Judgements: {self.summary}"

    def _rows_at(self, places: list[int]) -> pd.DataFrame:
        """Return the judgements on the cards in these places, in their order."""
        ranks = self.trials["card"].map({card: rank for rank, card in enumerate(places)}).to_numpy(float)
        return self.trials.iloc[np.argsort(ranks, kind="stable")[: np.isfinite(ranks).sum()]]  # the others rank last

    def _repr_html_(self) -> str:
        return cards_html(self)

    def __repr__(self) -> str:
        lines = [self.summary, *(f"  {line}" for line in self.missing)]
        for one in self.exhibits:
            where = one.where
            head = f"{where['context_id']} · {where['attribute']}" + (f" · {one.conditions}" if one.conditions else "")
            lines.append(f"{one.outcome:6} {head}")
            lines += [f"       {side.condition + ': ' if side.condition else ''}"
                      f"{' then '.join(each.name for each in side.shown)} → {side.read} ({side.status})"
                      for side in one.sides]  # fmt: skip
        return "\n".join(lines)


def cards_html(shown: Shown) -> str:
    """Return the cards as escaped HTML for a notebook; without scripts, they appear without filters."""
    return _rendered("cards.html.j2", shown)


def page_html(shown: Shown) -> str:
    """Return a self-contained page with the cards and a short script for the filters."""
    return _rendered("evidence_page.html.j2", shown)


def _rendered(template: str, shown: Shown) -> str:
    """Fill a template with cards, and with the filters whose values differ among them."""
    options = {name: _different(one.where[name] for one in shown.exhibits) for name in _FILTERS}
    options["outcome"] = _different(one.outcome for one in shown.exhibits)
    options["status"] = _different(side.status for one in shown.exhibits for side in one.sides)
    several = {name: values for name, values in options.items() if len(values) > 1}
    return _templates().get_template(template).render(shown=shown, options=several, open_prompts=True)


def visible(text: object, longest: int = _LONGEST) -> str:
    r"""Make a text printable: replace control characters by symbols and lone surrogates by their codes.

    Examples
    --------
    >>> visible("a\x00b"), visible("a long thought", 6)
    ('a␀b', 'a long … (8 more characters)')
    """
    written = str(text).replace("\r\n", "\n").translate(_PICTURES)
    left_out = len(written) - longest
    return written if left_out <= 0 else f"{written[:longest]} … ({left_out:,} more characters)"


def is_folded(segment: Segment) -> bool:
    """Return whether a segment is a source long enough to be folded."""
    return segment.part == "source" and len(segment.text) > _FOLDED


def _different(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


@cache
def _templates() -> Environment:
    environment = templates("biaslab.report.evidence")
    environment.filters["visible"] = visible
    environment.tests["folded"] = is_folded
    environment.globals["longest_thought"] = _LONGEST_THOUGHT
    return environment
