"""Ask about items with several user-defined prompts, for `biaslab.probes.Template`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, groupby, product
from os import PathLike
from typing import Any, Literal

from biaslab.core import Scalar, Trial
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset, count_words
from biaslab.measures.scoring.pointwise import Asking, Item, items
from biaslab.probes.base.own_protocol import protocol_question
from biaslab.probes.base.pair_probe import draw
from biaslab.probes.position import Position
from biaslab.prompts.protocols import Protocol


def settled_by(own: Sequence[Protocol | str | PathLike[str]]) -> dict[str, Any]:
    """Return the probe parameters that follow from the protocols.

    Raises
    ------
    InputError
        If there are fewer than two, or they differ in form or scale.
    """
    protocols = tuple(map(Protocol.loaded, own))
    names = ", ".join(protocol.id for protocol in protocols)
    if len({protocol.id for protocol in protocols}) < max(len(protocols), 2):
        raise InputError("protocols", names, "at least two different protocols")
    if len({protocol.form for protocol in protocols}) > 1:
        raise InputError("protocols", names, "protocols of the same form, pair or score")
    form = Protocol.of_form(protocols[0], "pair", "score").form
    scales = {protocol.scale.name for protocol in protocols} if form == "score" else {"1-5"}
    if len(scales) > 1:
        raise InputError("protocols", names, f"protocols with the same scale, not {' and '.join(sorted(scales))}")
    answer = "text" if any(protocol.answer == "text" for protocol in protocols) else "distribution"
    return {"protocols": protocols, "form": form, "scale": scales.pop(), "answer": answer}


@dataclass(frozen=True)
class OwnPrompts:
    """Questions by several protocols about the same items.

    Parameters
    ----------
    protocols : sequence of Protocol
        Protocols of the same form and scale.
    dataset : Dataset
        The data to judge.
    attributes : sequence of str
        Attributes to judge.
    asking : Asking
        How to ask; temperature and length come from each protocol.
    n_items : int or None
        Candidates, or pairs, per context.
    """

    protocols: Sequence[Protocol]
    dataset: Dataset
    attributes: Sequence[str]
    asking: Asking
    n_items: int | None

    def trials(self) -> Iterator[Trial]:
        """Yield each drawn item, or pair in both orders, under each protocol."""
        for context_id, group in groupby(items(self.dataset), key=lambda item: item.context_id):
            candidates, ways = list(group), product(self.attributes, self.protocols)
            if self.protocols[0].form == "score":
                chosen = draw(candidates, self.n_items, self.asking.seed, context_id)
                for (attribute, protocol), item in product(ways, chosen):
                    yield from self._score(protocol, attribute, item)
            else:
                drawn = draw(list(combinations(candidates, 2)), self.n_items, self.asking.seed, context_id)
                for (attribute, protocol), pair in product(ways, drawn):
                    for first, second in (pair, pair[::-1]):
                        yield from self._compare(protocol, attribute, first, second)

    @cached_property
    def _comparing(self) -> dict[str, Position]:
        """Pair protocols, by id."""
        answer: Literal["text", "distribution"] = "text" if self.asking.answer == "text" else "distribution"
        options = {"replicates": self.asking.replicates, "seed": self.asking.seed, "answer": answer}
        return {
            protocol.id: Position(self.attributes, protocol=protocol, **options)  # type: ignore[arg-type]
            for protocol in self.protocols
        }

    def _score(self, protocol: Protocol, attribute: str, item: Item) -> Iterator[Trial]:
        question = protocol_question(protocol, self.dataset, item, attribute, self.attributes)
        asking = replace(self.asking, temperature=protocol.temperature, max_tokens=protocol.max_tokens)
        where: dict[str, Scalar] = {
            "form": "score",
            "template": protocol.id,
            "factor": "protocol",
            "words": count_words(item.text),
        }
        return question.trials(asking, where)

    def _compare(self, protocol: Protocol, attribute: str, first: Item, second: Item) -> Iterator[Trial]:
        asks = self._comparing[protocol.id]
        gap = first.human[attribute] - second.human[attribute]
        where: dict[str, Scalar] = {"form": "pair", "factor": "protocol", "answer": asks.answer, "human_gap": gap}
        shown = (first.candidate_id, first.text), (second.candidate_id, second.text)
        return asks.ask_pair(self.dataset, 1, attribute, (first.context_id, first.context), shown, where)
