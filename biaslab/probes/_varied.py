"""Build the chats for each variant of a prompt, including earlier verdicts as examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import numpy as np

from biaslab import prompts
from biaslab.core import About, Choice, Completion, Message, Request, Scalar, Trial
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale
from biaslab.core.schema import Dataset, count_words
from biaslab.measures.scoring.pointwise import Asking, Item, Question, about_scores
from biaslab.probes.base.pair_probe import draw, draw_of
from biaslab.prompts.variants import Form, Variant

#: Number of first contexts from which examples are taken, so that adding contexts does not change prompts.
_DONORS = 8
_SHOTS = 2
_VERDICT = 32  # tokens for the name of a candidate


class Example(NamedTuple):
    """An earlier question about another context, and its verdict."""

    prompt: str
    verdict: str
    score: float | None = None


@dataclass(frozen=True)
class Chats:
    """Build the chats in which variants ask about one attribute of a data set.

    Parameters
    ----------
    dataset : Dataset
        The data to judge, also the source of examples.
    items : mapping of str to sequence of Item
        Items by context, in the data set's order.
    attribute : str
        The attribute to judge.
    scale : Scale
        Scale of the scores.
    seed : int
        Random seed for drawing examples.
    """

    dataset: Dataset
    items: dict[str, list[Item]]
    attribute: str
    scale: Scale
    seed: int
    _examples: dict[Any, Example] = field(default_factory=dict, init=False, repr=False)

    @property
    def lends(self) -> bool:
        """Whether every context can get examples from other contexts."""
        return len(self._donors) > _SHOTS

    def rate(self, item: Item, variant: Variant) -> Question:
        """Return the question for the score of an item."""
        prompt = variant.rate(self.dataset, self.attribute, self.scale, item.text, item.context)
        shots = self._shots(item.context_id, variant, pair=False)
        previous = shots[-1].score if shots else None
        about = replace(about_scores(item, [self.attribute], self.scale, previous=previous), template=variant.name)
        return Question(item, self.attribute, self._chat(prompt, variant, shots), self.scale, about)

    def compare(self, first: Item, second: Item, variant: Variant, asking: Asking) -> Iterator[tuple[Request, int]]:
        """Yield the requests that compare two items, each with its replicate number."""
        prompt = variant.compare(self.dataset, self.attribute, first.text, second.text, first.context)
        chat = self._chat(prompt, variant, self._shots(first.context_id, variant, pair=True))
        about = About(
            first.context_id,
            (first.candidate_id, second.candidate_id),
            (first.text, second.text),
            (self.attribute,),
            bool(first.context.strip()),
            variant.names(self.dataset.noun),
            template=variant.name,
        )
        if asking.answer == "distribution":
            yield Choice(chat, about.labels, about), 0
            return
        for replicate in range(asking.replicates):
            yield Completion(chat, asking.temperature, _VERDICT, replicate, asking.seed, about), replicate

    def trials(
        self, context_id: str, form: Form, variants: Sequence[Variant], asking: Asking, n_items: int | None
    ) -> Iterator[Trial]:
        """Yield the trials of one context: its candidates, or pairs in both orders, under every variant."""
        items = self.items[context_id]
        if form == "score":
            for item, variant in product(draw(items, n_items, self.seed, context_id), variants):
                where = _named(form, variant) | {"words": count_words(item.text)}
                yield from self.rate(item, variant).trials(asking, where)
            return
        for pair in draw(list(combinations(items, 2)), n_items, self.seed, context_id):
            for (first, second), variant in product((pair, pair[::-1]), variants):
                yield from self._pair(first, second, variant, asking)

    def _pair(self, first: Item, second: Item, variant: Variant, asking: Asking) -> Iterator[Trial]:
        gap = first.human[self.attribute] - second.human[self.attribute]
        condition = _named("pair", variant) | {"answer": asking.answer, "human_gap": gap}
        names, labels = (first.candidate_id, second.candidate_id), variant.names(self.dataset.noun)
        for request, replicate in self.compare(first, second, variant, asking):
            yield Trial(request, first.context_id, self.attribute, *names, replicate, condition, labels)

    def _chat(self, prompt: str, variant: Variant, shots: Sequence[Example]) -> tuple[Message, ...]:
        """Return the messages of a chat: an optional system message, examples as earlier turns, and the prompt."""
        role = prompts.render("variant_system", noun=self.dataset.noun) if variant.system else ""
        opening = [Message("system", role)] if role else []
        turns = [Message(*turn) for shot in shots for turn in (("user", shot.prompt), ("assistant", shot.verdict))]
        return *opening, *turns, Message("user", prompt)

    def _shots(self, context_id: str, variant: Variant, pair: bool) -> list[Example]:
        """Return examples from two other contexts, in the variant's order."""
        if not variant.shots:
            return []
        donors = [name for name in self._donors if name != context_id][:_SHOTS]
        if len(donors) < _SHOTS:
            raise InputError(
                "dataset",
                self.dataset.name,
                f"at least {_SHOTS + 1} contexts with candidates of different human scores on {self.attribute}, "
                "to use as earlier verdicts in the chat",
                'remove "shots" from factors',
            )
        up, down = (self._lent(name, best, pair) for name, best in zip(donors, (True, False), strict=True))
        return [down, up] if variant.shots == "up" else [up, down]

    @cached_property
    def _donors(self) -> list[str]:
        able = (name for name in self.items if len({item.human[self.attribute] for item in self._rated(name)}) > 1)
        return sorted(islice(able, _DONORS), key=lambda name: float(draw_of(self.seed, name).random()))

    def _rated(self, context_id: str) -> list[Item]:
        return [item for item in self.items[context_id] if not math.isnan(item.human[self.attribute])]

    def _lent(self, *asked: Any) -> Example:
        if asked not in self._examples:
            self._examples[asked] = self._example(*asked)
        return self._examples[asked]

    def _example(self, context_id: str, best: bool, pair: bool) -> Example:
        """Make an example with the highest or lowest verdict; for pairs, with the first or second winning."""
        ordered = sorted(self._rated(context_id), key=lambda item: item.human[self.attribute], reverse=best)
        shown, other, base = ordered[0], ordered[-1], Variant("base", "base", rubric="none" if pair else "given")
        if pair:
            prompt = base.compare(self.dataset, self.attribute, shown.text, other.text, shown.context)
            return Example(prompt, base.names(self.dataset.noun)[0 if best else 1])
        low, high = self.dataset.scale
        unit = (shown.human[self.attribute] - low) / (high - low)
        values = np.array(self.scale.values)
        at = int(np.abs((values - self.scale.low) / (self.scale.high - self.scale.low) - unit).argmin())
        prompt = base.rate(self.dataset, self.attribute, self.scale, shown.text, shown.context)
        return Example(prompt, self.scale.labels[at], self.scale.values[at])


def _named(form: Form, variant: Variant) -> dict[str, Scalar]:
    return {"form": form, "template": variant.name, "factor": variant.factor}
