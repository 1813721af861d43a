"""What `SelfPreference` asks: pairs with an own text in both orders, scores and likelihoods, each with its writers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby

from biaslab.core import About, Likelihood, Scalar, Trial
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Asking, Item, Question, items, ratings_by_item
from biaslab.probes.position import Position

#: What trials of a text's likelihood are called in the column ``asked``.
READ = "likelihood"


@dataclass(frozen=True)
class OwnTexts:
    """The texts of a data set, some of them a judge's own.

    Parameters
    ----------
    dataset : Dataset
        What is judged.
    own : str or None
        The judge's own system; None takes every one for it.
    """

    dataset: Dataset
    own: str | None

    def pairs(self, asking: Position, attributes: tuple[str, ...]) -> Iterator[Trial]:
        """Plan all pairs of texts of two systems, one of them the judge's own, in both orders."""
        [template] = asking.templates
        for context_id, group in groupby(items(self.dataset), key=lambda item: item.context_id):
            for pair in combinations(group, 2):
                one, two = (item.system for item in pair)
                if one == two or self.own not in (None, one, two):
                    continue
                for first, second in (pair, pair[::-1]):
                    shown = (first.candidate_id, first.text), (second.candidate_id, second.text)
                    for attribute in attributes:
                        gap = first.human[attribute] - second.human[attribute]
                        told = {"asked": "pair", "template": template, "human_gap": gap, **self.known(first, attribute)}
                        other = {f"opponent_{name}": value for name, value in self._known(second, attribute).items()}
                        context = (context_id, first.context)
                        yield from asking.ask_pair(self.dataset, template, attribute, context, shown, told | other)

    def scores(self, questions: Iterator[Question], asking: Asking) -> Iterator[Trial]:
        """Plan the score of every text."""
        for question in questions:
            yield from question.trials(asking, {"asked": "score", **self.known(question.item, question.attribute)})

    def likelihoods(self, questions: Iterator[Question]) -> Iterator[Trial]:
        """Plan the likelihood of every text, for each attribute once more."""
        for question in questions:
            item, attribute = question.item, question.attribute
            about = About(item.context_id, (item.candidate_id,), (item.text,), (attribute,), source=False)
            told = {"asked": READ, **self.known(item, attribute)}
            request = Likelihood(item.text, about=about)
            yield Trial(request, item.context_id, attribute, item.candidate_id, condition=told)

    def known(self, item: Item, attribute: str) -> dict[str, Scalar]:
        """Return the columns of a text: who wrote it, what humans think of it, and which texts are the judge's own."""
        return {"own": self.own or "", **self._known(item, attribute)}

    def _known(self, item: Item, attribute: str) -> dict[str, Scalar]:
        single = self._ratings.get((item.context_id, item.candidate_id, attribute), {})
        return {"system": item.system, "human": item.human[attribute], **single}

    @cached_property
    def _ratings(self) -> dict[tuple[object, ...], dict[str, Scalar]]:
        return ratings_by_item(self.dataset)
