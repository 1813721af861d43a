"""The diagnosis of a log, and its display as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from biaslab.core.output import count
from biaslab.logs.audit.additions import PAIRS, SCORES, STUDY
from biaslab.logs.audit.holdings import Holdings

_WIDTH = 100
_NEEDS = "needs "


@dataclass(frozen=True)
class Diagnosis:
    """Result of `biaslab.doctor`: the format of a log and what can be estimated from it.

    Parameters
    ----------
    reading : tuple of str
        Lines that describe how the log was read.
    holdings : Holdings
        Counts of the log's content.
    unread : pandas.DataFrame
        One row per kind of unreadable reply: ``status, n, examples`` (at most five).
    advice : tuple of str
        Suggestions for reading the unreadable replies.
    biases : pandas.DataFrame
        One row per judge and metric: ``judge, probe, metric, label, estimable, n_contexts``, and, if it cannot be
        estimated, ``why`` and ``addition``, the smallest addition to the log that would allow it.
    command : str
        The next command to run.
    """

    reading: tuple[str, ...]
    holdings: Holdings
    unread: pd.DataFrame
    advice: tuple[str, ...]
    biases: pd.DataFrame
    command: str

    def __str__(self) -> str:
        """Return the diagnosis as text: what was read, what can or cannot be estimated and why, and the next step."""
        lines = [*self.reading, *_holdings(self.holdings), *self._unread(), *self._estimable(), *self._lacking()]
        return "\n".join([*lines, "", f"next: {self.command}"])

    __repr__ = __str__

    def _unread(self) -> Iterator[str]:
        if self.unread.empty:
            return
        yield from ("", "not read:")
        for row in self.unread.to_dict("records"):
            yield f"  {row['status']}: {row['n']:,}"
            yield from (f"    {example!r}" for example in row["examples"])
        yield from (f"  {line}" for line in self.advice if not line.startswith(("'", '"')))

    def _estimable(self) -> Iterator[str]:
        known = self.biases[self.biases["estimable"]]
        yield from ("", "can be estimated:" if len(known) else "no bias can be estimated")
        for (probe, label), part in known.groupby(["probe", "label"], sort=False):
            of = _of_judges(part["judge"], self.biases["judge"])
            yield from wrapped(f"+ {_name(probe)}: {label}, {part['n_contexts'].sum():,} contexts{of}")

    def _lacking(self) -> Iterator[str]:
        lacking = self.biases[~self.biases["estimable"] & (self.biases["addition"] != "")]
        if lacking.empty:
            return
        yield from ("", "cannot be estimated, grouped by what would allow it:")
        whole, named = self.biases["judge"], []
        for (addition, probe, why), part in lacking.groupby(["addition", "probe", "why"], sort=False):
            named.append((str(addition), f"{_name(probe)}{_of_judges(part['judge'], whole)}", str(why)))
        yield from lacking_lines(named)


def lacking_lines(named: Sequence[tuple[str, str, str]], width: int = _WIDTH) -> Iterator[str]:
    r"""Yield lines that list each addition to a log and the estimates it would allow.

    Parameters
    ----------
    named : sequence of (str, str, str)
        The addition, the estimate that it would allow, and why the log does not allow this estimate yet. Additions with
        the same text before a colon are one step. Reasons that start with "needs" repeat the addition and are omitted.
    width : int
        Characters per line.

    Examples
    --------
    >>> named = [("judge 9 pairs again", "a", "too few"), ("score items: 9", "b", "needs scores"),
    ...     ("score items: 12", "c", "needs scores"), ("judge 9 pairs again", "d", "needs more pairs")]
    >>> print("\n".join(lacking_lines(named)))
      – judge 9 pairs again: d
        a: too few
      – score items
        b: 9
        c: 12
    """
    steps: dict[str, list[tuple[str, str]]] = {}
    for addition, name, why in named:
        step, _, detail = (addition, "", "") if addition == STUDY else addition.partition(": ")
        steps.setdefault(step, []).append((name, detail or ("" if why.startswith(_NEEDS) or step == STUDY else why)))
    last = (SCORES, PAIRS, STUDY)  # more work than additions to existing judgements, so listed last
    for step in sorted(steps, key=lambda step: last.index(step) if step in last else -1):
        parts = steps[step]
        plain = ", ".join(dict.fromkeys(name for name, reason in parts if not reason))
        yield from wrapped(f"– {step}{plain and ': '}{plain}", width=width)
        reasons: dict[str, list[str]] = {}
        for name, reason in parts:
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            yield from wrapped(f"{', '.join(dict.fromkeys(names))}: {reason}", 4, width) if reason else ()


def wrapped(text: str, indent: int = 2, width: int = _WIDTH) -> list[str]:
    """Wrap a list item with a hanging indent."""
    start = " " * indent
    return textwrap.wrap(
        text, width, initial_indent=start, subsequent_indent=f"{start}  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _holdings(counts: Holdings) -> list[str]:
    nouns = {"judge": counts.judges, "context": counts.contexts, "candidate": counts.candidates,
             "attribute": counts.attributes, "prompt": counts.prompts, "replicate": counts.replicates}  # fmt: skip
    lines = ["  " + ", ".join(count(number, noun) for noun, number in nouns.items())]
    if counts.pairs:
        orders = {"in both orders": counts.both_orders, "in one order": counts.one_order,
                  "in unknown order": counts.unknown_order}  # fmt: skip
        shown = ", ".join(f"{number:,} {order}" for order, number in orders.items() if number)
        known = f"with human preference {counts.rated_pairs:,}, with lengths {counts.long_pairs:,}"
        lines.append(f"  {count(counts.pairs, 'pair')}: {shown}; {known}")
    if counts.scores:
        known = f"with human scores {counts.rated_items:,}, with lengths {counts.long_items:,}"
        lines.append(f"  {counts.scores:,} scores of {count(counts.items, 'item')}: {known}")
    if counts.annotators:
        lines.append(f"  at most {count(counts.annotators, 'annotator')} per item")
    return lines


def _name(probe: object) -> str:
    return str(probe).replace("_", " ")


def _of_judges(some: pd.Series, whole: pd.Series) -> str:
    """Name the judges of some rows in brackets, or count them if more than three; empty if these are all judges."""
    judges = some.drop_duplicates()
    total = whole.nunique()
    if len(judges) == total:
        return ""
    return f" ({', '.join(map(str, judges))})" if len(judges) <= 3 else f" ({len(judges)} of {total} judges)"
