"""Show judgements as cards to filter, search and sort: prompt, reply, parsed value and human scores."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment

from biaslab.core.checks import require_one_of, require_probe, require_whole
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.interfaces import Design
from biaslab.core.output import AnyPath, Page, count
from biaslab.core.requests import Choice, Compare, Completion, Likelihood, Rank, Request
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply
from biaslab.prompts.parsing.thoughts import split_thought
from biaslab.report.evidence.trials import (
    SORTS,
    Evidence,
    behind,
    condition_columns,
    find,
    grouped,
    in_order,
    is_estimates,
    single_judgements,
)
from biaslab.report.wording import WORDS, templates
from biaslab.store import Store


def show(
    judgements: pd.DataFrame,
    trials: pd.DataFrame | None = None,
    *,
    store: Store | AnyPath | None = None,
    n: int = 6,
    sort: str = "flips",
    dataset: Dataset | None = None,
    probe: Design | None = None,
) -> CardPage:
    """Show judgements as cards: prompt, reply, parsed value and human scores.

    Parameters
    ----------
    judgements : pandas.DataFrame
        Trials, or rows of estimates.
    trials : pandas.DataFrame, optional
        For rows of estimates: the trials they were computed from. Shows the trials behind these rows.
    store : Store or path, optional
        The store with the prompts and replies. Default: the one named in ``attrs["store"]`` of trials from
        `biaslab.collect`, if it exists.
    n : int
        Maximum number of cards. A card shows both orders of a pair side by side, or the scores of one item.
    sort : {"flips", "ties", "unread", "effects", "trials"}
        What comes first: pairs whose winner changes with the order, ties, replies without a value, the largest effects,
        or the order of the trials. After these come flips, ties, unread replies and the rest, each sorted by effect:
        change of the probability with the order, spread of an item's scores, or distance from the human score.
    dataset : Dataset, optional
        The data that was judged; bundled data sets are found automatically. Used to mark candidates in the prompts.
    probe : Design, optional
        Rebuilds prompts that are in no store; needed if the probe's parameters were not the defaults.

    Returns
    -------
    Shown
        JupyterLab, VS Code and Colab show it with filters, search and sort; ``save`` writes a page, and ``widget``
        selects trials.

    Raises
    ------
    InputError
        If `n` or `sort` is not allowed, or trials are not given.
    TrialsError
        If a frame is empty or lacks a column, or the estimates have no trials.
    StoreError
        If the store is missing or cannot be read.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> probe = bl.probes.Position(attributes=["fluency"], templates=[1])
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, position=2.0), data, progress=False)
    >>> shown = show(trials, n=1)
    >>> shown.exhibits[0].outcome, len(shown.trials), shown.summary
    ('flip', 2, '1 of 30 cards')
    """
    require_whole("n", n, 1)
    require_one_of("sort", sort, SORTS)
    if probe is not None:
        require_probe(probe)
    chosen, notes = _trials(judgements, trials)
    rows = single_judgements(chosen)
    groups = grouped(rows)
    cards = in_order(groups, sort)
    kept = cards[:n]
    picked = rows.assign(card=groups["card"], outcome=groups["outcome"], effect=groups["effect"])
    picked = picked.assign(winner=groups["winner"])[groups["card"].isin(kept)]
    place = picked["card"].map({card: place for place, card in enumerate(kept)})
    picked = picked.assign(card=place).sort_values("card", kind="stable")
    store = _store_of(judgements if trials is None else trials) if store is None else store
    evidence = find(picked, store, dataset, probe)
    people = People(evidence.dataset)
    parts = picked.groupby("card", sort=False)
    exhibits = tuple(exhibit(part.drop(columns="card"), evidence, people) for _, part in parts)
    return CardPage(exhibits, picked.drop(columns="winner"), len(cards), (*notes, *evidence.missing))


def _store_of(trials: pd.DataFrame) -> Path | None:
    """Return the store named in the trials, if it exists."""
    named = trials.attrs.get("store")
    return Path(named) if named is not None and Path(named).exists() else None


def _trials(judgements: pd.DataFrame, trials: pd.DataFrame | None) -> tuple[pd.DataFrame, list[str]]:
    """Return the trials to show: the ones given, or those behind the estimates."""
    for name, frame in (("judgements", judgements), ("trials", trials)):
        if not isinstance(frame, pd.DataFrame) and not (name == "trials" and frame is None):
            remedy = "use estimates.iloc[[3]] for a frame of one row" if isinstance(frame, pd.Series) else ""
            raise InputError(name, frame, "a frame of trials or estimates", remedy)
    if not is_estimates(judgements):
        return judgements, []
    if trials is None:
        remedy = "pass the trials that they were computed from: show(estimates.iloc[[0]], trials=trials)"
        raise TrialsError.plain(f"estimates alone do not contain the judgements; {remedy}")
    return behind(judgements, trials)


_LONGEST = 20_000  # characters shown of one text
_LONGEST_THOUGHT = 4_000  # of a thought: it is background, and a page may have hundreds
_FOLDED = 400  # longer sources are folded
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: "␡"}
_PICTURES |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
_FILTERS = ("probe", "judge", "dataset", "attribute")


@dataclass(frozen=True, eq=False)
class CardPage(Page):
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
        return _rendered("evidence_page.html.j2", self)

    def _heading(self) -> str:
        return f"Judgements: {self.summary}"

    def _rows_at(self, places: list[int]) -> pd.DataFrame:
        """Return the judgements on the cards in these places, in their order."""
        ranks = self.trials["card"].map({card: rank for rank, card in enumerate(places)}).to_numpy(float)
        return self.trials.iloc[np.argsort(ranks, kind="stable")[: np.isfinite(ranks).sum()]]  # the others rank last

    def _repr_html_(self) -> str:
        return _rendered("cards.html.j2", self)  # without scripts, cards appear without filters

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


def _rendered(template: str, shown: CardPage) -> str:
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


def _different(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


@cache
def _templates() -> Environment:
    environment = templates("biaslab.report.evidence")
    environment.filters["visible"] = visible
    environment.tests["folded"] = lambda segment: segment.part == "source" and len(segment.text) > _FOLDED
    environment.globals |= {"longest_thought": _LONGEST_THOUGHT, "words": WORDS}
    return environment


_SIDES = 4  # judgements per card
_LETTERS = "XY"


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


def exhibit(card: pd.DataFrame, evidence: Evidence, people: People) -> Exhibit:
    """Build one card from its judgements.

    Parameters
    ----------
    card : pandas.DataFrame
        The judgements, with the columns of `biaslab.report.evidence.trials.grouped`.
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
    same = _conditions(first, [c for c in conditions if c not in differ])
    outcome, effect = str(first["outcome"]), _effect(first, pair)
    sides = tuple(_side(row, evidence, people, letters, differ) for _, row in chosen.iterrows())
    humans = tuple(people.lines(first, letters.values()))
    return Exhibit(where, same, outcome, effect, sides, len(card) - len(chosen), humans, float(first["effect"]))


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
    prompt = tuple(_prompt(request, str(row["context_id"]), shown, people))
    facts, bars = tuple(_facts(row, reply)), tuple(_bars(row, request, reply, len(shown) > 1))
    said = (thought, text, facts, bars, str(row["status"]), _read(row, shown))
    return Side(shown, _conditions(row, differ), prompt, *said, key)


def _prompt(
    request: Request | None, context: str, shown: Sequence[Candidate], people: People
) -> list[tuple[str, tuple[Segment, ...]]]:
    """Return role and segments of each message, or the data set's texts if the prompt is unknown."""
    about = getattr(request, "about", None)
    texts: dict[SegmentRole, str] = {"source": people.source(context)}
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


@dataclass(frozen=True)
class Candidate:
    """A candidate on a card: its letter, the same in both orders, and its name."""

    letter: str
    name: str
    system: str = ""


class People:
    """Texts and human scores of a data set by context and candidate; empty without a data set.

    Parameters
    ----------
    dataset : Dataset, optional
        The data that was judged.
    """

    def __init__(self, dataset: Dataset | None) -> None:
        self._items: dict[tuple[str, str], tuple[str, str]] = {}
        self._sources: dict[str, str] = {}
        self._scores: dict[tuple[str, str, str], list[float]] = {}
        if dataset is None:
            return
        columns = ("context_id", "candidate_id", "text", "system", "context")
        for context, candidate, text, system, source in zip(*(dataset.candidates[c] for c in columns), strict=True):
            self._items[context, candidate] = (text, system)
            self._sources[context] = source
        rated = dataset.human
        for key, part in rated.groupby(["context_id", "candidate_id", "attribute"], sort=False)["score"]:
            self._scores[key] = part.tolist()  # type: ignore[index]

    def text(self, context: str, candidate: str) -> str:
        """Return the text of a candidate, or an empty string."""
        return self._items.get((context, candidate), ("", ""))[0]

    def system(self, context: str, candidate: str) -> str:
        """Return the system that wrote a candidate, or an empty string."""
        return self._items.get((context, candidate), ("", ""))[1]

    def source(self, context: str) -> str:
        """Return the text of a context, or an empty string."""
        return self._sources.get(context, "")

    def lines(self, trial: pd.Series, shown: Collection[Candidate]) -> Iterator[str]:
        """Yield the human scores of each candidate in words, from the data set or else from the trial."""
        context, attribute = str(trial["context_id"]), str(trial["attribute"])
        carried = {0: trial.get("human"), 1: trial.get("opponent_human")}
        any_score = False
        for place, one in enumerate(shown):
            scores = self._scores.get((context, one.name, attribute), [])
            mean = carried[place] if carried[place] is not None and not pd.isna(carried[place]) else None
            name = f"{one.letter} {one.name}".strip()
            if scores:
                any_score = True
                single = f" ({' '.join(f'{score:g}' for score in scores)})" if len(scores) > 1 else ""
                yield f"{name}: {sum(scores) / len(scores):.3g}{single}"
            elif mean is not None:
                any_score = True
                yield f"{name}: {float(mean):.3g}"
        gap = trial.get("human_gap")
        if not any_score and len(shown) > 1 and gap is not None and not pd.isna(gap):
            first, second = (one.letter for one in shown)
            higher = "as high as" if gap == 0 else f"{abs(float(gap)):.3g} {'above' if gap > 0 else 'below'}"
            yield f"{first} {higher} {second}"


SegmentRole = Literal["words", "source", "first", "second"]


class Segment(NamedTuple):
    """A piece of a prompt and its role: the probe's wording, the source, or a candidate."""

    part: SegmentRole
    text: str


def marked(prompt: str, texts: Mapping[SegmentRole, str]) -> list[Segment]:
    """Split a prompt into the probe's wording, the source and the candidates.

    Parameters
    ----------
    prompt : str
        The text of one message.
    texts : mapping
        Texts to find: "source", "first" and "second" candidate; blank ones are skipped.

    Returns
    -------
    list of Segment
        Concatenated they give the prompt. Texts that are not found are not marked.

    Notes
    -----
    A candidate may repeat a sentence of the source or contain the other candidate. Therefore the source is located
    first, then the first candidate, outside the source if possible, then the second, after the first if possible.

    Examples
    --------
    >>> [tuple(s) for s in marked("It rains. A: Rain. B: Sun.", {"source": "It rains.", "first": "Rain."})]
    [('source', 'It rains.'), ('words', ' A: '), ('first', 'Rain.'), ('words', ' B: Sun.')]
    """
    taken: list[tuple[int, int, SegmentRole]] = []
    after = 0
    for part in ("source", "first", "second"):
        text = texts.get(part, "").strip()  # templates may strip whitespace
        start = _free(prompt, text, taken, after)
        if start < 0 and after:
            start = _free(prompt, text, taken, 0)
        if start >= 0:
            taken.append((start, start + len(text), part))
            after = start + len(text) if part == "first" else after
    return _cut(prompt, sorted(taken))


def _free(prompt: str, text: str, taken: Sequence[tuple[int, int, SegmentRole]], after: int) -> int:
    """Return the position of the first occurrence that overlaps no mark, or -1."""
    start = prompt.find(text, after) if text else -1
    while start >= 0:
        over = [end for begin, end, _ in taken if begin < start + len(text) and start < end]
        if not over:
            return start
        start = prompt.find(text, max(over))
    return -1


def _cut(prompt: str, marks: Sequence[tuple[int, int, SegmentRole]]) -> list[Segment]:
    segments: list[Segment] = []
    start_of_rest = 0
    for start, end, part in marks:
        segments += [Segment("words", prompt[start_of_rest:start]), Segment(part, prompt[start:end])]
        start_of_rest = end
    segments.append(Segment("words", prompt[start_of_rest:]))
    return [segment for segment in segments if segment.text]
