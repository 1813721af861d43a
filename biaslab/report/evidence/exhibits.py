"""Build the content of cards: prompt, reply, parsed value and human scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.core import Choice, Compare, Completion, Likelihood, Rank, Reply, Request
from biaslab.core.output import count
from biaslab.prompts.parsing.thoughts import split_thought
from biaslab.report.evidence.finding import Evidence
from biaslab.report.evidence.grouping import condition_columns
from biaslab.report.evidence.marking import Segment, marked
from biaslab.report.evidence.people import Candidate, People

if TYPE_CHECKING:
    from biaslab.report.evidence.marking import Part

_SIDES = 4  # judgements per card
_LETTERS = "XY"
OUTCOME_WORDS = {
    "flip": "flips: the decision changes with the order",
    "tie": "a tie",
    "unread": "no value read from a reply",
    "plain": "",
}
STATUS_WORDS = {
    "ok": "✓ read",
    "tie": "= tie",
    "refused": "⊘ refused",
    "unparsable": "? not readable",
    "out_of_range": "↯ out of range",
    "unusable": "⊘ unusable probabilities",
    "cut_off": "✂ cut off",
}


@dataclass(frozen=True)
class Bar:
    """Probability of one answer."""

    label: str
    share: float
    likeliest: bool = False


@dataclass(frozen=True)
class Side:
    """One judgement.

    Parameters
    ----------
    shown : tuple of Candidate
        The candidates in the order shown.
    condition : str
        How the judge was asked, if that differs within the card.
    prompt : tuple
        Role and segments of each message; empty if unknown.
    thought : str, optional
        The judge's thinking before its answer, if known.
    reply : str, optional
        The reply, without the thinking.
    facts : tuple of str
        Facts about the reply: stop reason, number of samples, model.
    bars : tuple of Bar
        Probabilities of the answers.
    status, read : str
        Status and parsed value of the reply.
    key : str
        Key of the trial.
    """

    shown: tuple[Candidate, ...]
    condition: str
    prompt: tuple[tuple[str, tuple[Segment, ...]], ...]
    thought: str | None
    reply: str | None
    facts: tuple[str, ...]
    bars: tuple[Bar, ...]
    status: str
    read: str
    key: str

    @property
    def status_words(self) -> str:
        """The status in words."""
        return STATUS_WORDS.get(self.status, self.status)


@dataclass(frozen=True)
class Exhibit:
    """A card: both orders of a pair side by side, or the scores of one item."""

    where: Mapping[str, str]
    conditions: str
    outcome: str
    effect: str
    sides: tuple[Side, ...]
    more: int
    humans: tuple[str, ...]
    size: float = math.nan  # of the effect

    @property
    def outcome_words(self) -> str:
        """The outcome in words."""
        return OUTCOME_WORDS[self.outcome]

    @property
    def statuses(self) -> str:
        """The statuses on the card, each once."""
        return " ".join(dict.fromkeys(side.status for side in self.sides))


def exhibit(card: pd.DataFrame, evidence: Evidence, people: People) -> Exhibit:
    """Build one card from its judgements.

    Parameters
    ----------
    card : pandas.DataFrame
        The judgements, with the columns of `biaslab.report.evidence.grouping.grouped`.
    evidence : Evidence
        Prompts and replies.
    people : People
        Human scores.
    """
    chosen = _chosen(card)
    first = card.iloc[0]
    pair = isinstance(first.get("opponent_id"), str) and first["opponent_id"] != ""
    named = [str(first["candidate_id"]), *([str(first["opponent_id"])] if pair else [])]
    context = str(first["context_id"])
    letters = {name: Candidate(_LETTERS[i] if pair else "", name, people.system(context, name))
               for i, name in enumerate(named)}  # fmt: skip
    conditions = condition_columns(card)
    differ = [c for c in conditions if len(card[c].astype(str).unique()) > 1]
    where = {name: str(first.get(name, "")) for name in ("probe", "judge", "dataset", "context_id", "attribute")}
    return Exhibit(
        where,
        _conditions(first, [c for c in conditions if c not in differ]),
        str(first["outcome"]),
        _effect(first, pair),
        tuple(_side(row, evidence, people, letters, differ) for _, row in chosen.iterrows()),
        len(card) - len(chosen),
        tuple(people.lines(first, letters.values())),
        float(first["effect"]),
    )


def _chosen(card: pd.DataFrame) -> pd.DataFrame:
    """Choose the judgements that fit on a card: unread ones first, then the lowest and highest values; in order."""
    if len(card) <= _SIDES:
        return card
    unread = card.index[~card["status"].isin(["ok", "tie"])][: _SIDES - 2]
    order = card["value"].dropna().sort_values(kind="stable").index
    extremes = [index for pair in zip(order, order[::-1], strict=True) for index in pair]
    kept = list(dict.fromkeys([*unread, *extremes]))[:_SIDES]
    return card.loc[[index for index in card.index if index in kept]]


def _side(
    row: pd.Series, evidence: Evidence, people: People, letters: Mapping[str, Candidate], differ: Sequence[str]
) -> Side:
    """Build one judgement of a card."""
    key = str(row.get("key", ""))
    request, reply = evidence.requests.get(key), evidence.replies.get(key)
    names = [str(row["candidate_id"]), str(row.get("opponent_id", ""))]
    shown = tuple(letters[name] for name in names if name in letters)
    thought, text = _thought_and_answer(row, reply)
    return Side(
        shown,
        _conditions(row, differ),
        tuple(_prompt(request, str(row["context_id"]), shown, people)),
        thought,
        text,
        tuple(_facts(row, reply)),
        tuple(_bars(row, request, reply, len(shown) > 1)),
        str(row["status"]),
        _read(row, shown),
        key,
    )


def _prompt(
    request: Request | None, context: str, shown: Sequence[Candidate], people: People
) -> list[tuple[str, tuple[Segment, ...]]]:
    """Return role and segments of each message, or the data set's texts if the prompt is unknown."""
    about = getattr(request, "about", None)
    texts: dict[Part, str] = {"source": people.source(context)}
    for part, place in (("first", 0), ("second", 1)):
        if len(shown) > place:
            known = about.texts[place] if about is not None and len(about.texts) > place else ""
            texts[part] = known or people.text(context, shown[place].name)  # type: ignore[index]
    if request is None:
        pieces = [Segment(part, text) for part, text in texts.items() if text]
        return [("texts of the data set", tuple(pieces))] if pieces else []
    if isinstance(request, Choice | Completion):
        turns: list[tuple[str, str]] = [(turn.role, turn.content) for turn in request.messages]
    elif isinstance(request, Likelihood):
        turns = [("given", request.given), ("text to be scored", request.text)]
    elif isinstance(request, Rank):
        listed = [(f"shown at position {place}", text) for place, text in enumerate(request.texts, 1)]
        turns = [("source", request.source), ("reference", request.reference), *listed]
    elif isinstance(request, Compare):
        shown_texts = (("shown first", request.first), ("shown second", request.second))
        turns = [("source", request.source), ("reference", request.reference), *shown_texts]
    else:
        turns = [("source", request.source), ("reference", request.reference), ("text to be scored", request.text)]
    return [(role, tuple(marked(text, texts))) for role, text in turns if text]


def _thought_and_answer(row: pd.Series, reply: Reply | None) -> tuple[str | None, str | None]:
    """Return thinking and answer, also if the text holds both, separated by tags."""
    text = reply.text if reply is not None else row.get("reply")
    if not isinstance(text, str):
        return reply.thought if reply is not None else None, None
    if reply is not None and reply.thought is not None:
        return reply.thought, text
    return split_thought(text)


def _facts(row: pd.Series, reply: Reply | None) -> list[str]:
    facts = []
    if reply is not None and reply.finish_reason not in (None, "stop"):
        facts.append(f"ended by: {reply.finish_reason}")
    if reply is not None and reply.usage.reasoning_tokens:
        facts.append(f"a thought of {count(reply.usage.reasoning_tokens, 'token')}")
    samples = row.get("samples")
    if samples is not None and not pd.isna(samples):
        facts.append(f"shares of {samples:.0f} samples")
    if reply is not None and reply.model:
        facts.append(reply.model)
    return facts


def _bars(row: pd.Series, request: Request | None, reply: Reply | None, pair: bool) -> list[Bar]:
    """Return the probability of each answer; for pairs without a stored reply, of first and second."""
    if reply is not None and reply.logprobs is not None and isinstance(request, Choice):
        shares = [math.exp(level) for level in reply.logprobs]
        labels = [label.strip() for label in request.labels]
        top = max(shares)
        bars = [Bar(label, share, share == top) for label, share in zip(labels, shares, strict=True)]
        rest = 1 - sum(shares)
        return [*bars, Bar("anything else", rest)] if rest > 0.005 else bars
    value = row["value"]
    if pair and reply is None and row["status"] == "ok" and 0 < value < 1:  # the ½ of a tie is not a probability
        return [Bar("first", value, value > 0.5), Bar("second", 1 - value, value < 0.5)]
    return []


def _read(row: pd.Series, shown: Sequence[Candidate]) -> str:
    """Return the parsed value in words: the winner, or the score."""
    value = row["value"]
    if pd.isna(value):
        return "no value"
    if len(shown) < 2:
        return f"{value:.4g}"
    if row["status"] == "tie" or np.isnan(row["winner"]):
        return "neither"
    place = 0 if value > 0.5 else 1
    certain = "" if value in (0.0, 1.0) else f", p(first) {value:.2f}".replace("0.", ".")
    return f"{shown[place].letter} {shown[place].name}, shown {('first', 'second')[place]}{certain}"


def _effect(first: pd.Series, pair: bool) -> str:
    """Describe the change of a pair's probability with the order; empty for scores."""
    effect = first["effect"]
    if pd.isna(effect):
        return ""
    return f"swapping the order changes p by {effect:.2f}".replace("0.", ".") if pair else ""


def _conditions(row: pd.Series, columns: Sequence[str]) -> str:
    return ", ".join(f"{c} {row[c]:g}" if isinstance(row[c], float) else f"{c} {row[c]}" for c in columns
                     if not pd.isna(row[c]) and str(row[c]) not in ("", "recorded"))  # fmt: skip
