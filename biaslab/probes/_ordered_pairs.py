"""Comparisons of texts in both orders, asked as `Position` asks them: with a store one reply serves both probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, groupby

from biaslab.core import Scalar, Trial
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, items, ratings_by_item
from biaslab.probes._pairs_too import comparing
from biaslab.probes.base import PairFeatureProbe

#: The columns of a text: from the text, the attribute, and its single human ratings.
Columns = Callable[[Item, str, Mapping[str, Scalar]], dict[str, Scalar]]

_OF_TRIALS = ("own", "likelihood_judge")


def ordered_pairs(
    probe: PairFeatureProbe,
    dataset: Dataset,
    columns: Columns,
    is_planned: Callable[[Item, Item], bool] | None = None,
) -> Iterator[Trial]:
    """Plan pairs of a context's texts in both orders, on each attribute.

    Parameters
    ----------
    probe : PairFeatureProbe
        Says how they are asked for.
    dataset : Dataset
        What is judged.
    columns : callable
        Returns the columns of a text; those of the one shown second are called ``opponent_…``, but for what is the
        trial's.
    is_planned : callable, optional
        Says of two texts whether they are compared; all are by default.
    """
    position, ratings = comparing(probe, probe.template), ratings_by_item(dataset)
    attributes = dataset.require_attributes(probe.attributes)
    for context_id, candidates in groupby(items(dataset), key=lambda item: item.context_id):
        for pair in combinations(candidates, 2):
            if is_planned is not None and not is_planned(*pair):
                continue
            for both in (pair, pair[::-1]):
                shown = [(item.candidate_id, item.text) for item in both]
                for attribute in attributes:
                    first, second = (
                        columns(item, attribute, ratings.get((context_id, item.candidate_id, attribute), {}))
                        for item in both
                    )
                    gap = both[0].human[attribute] - both[1].human[attribute]
                    asked = {"asked": "pair", "template": probe.template, "human_gap": gap, **first}
                    asked |= {f"opponent_{name}": value for name, value in second.items() if name not in _OF_TRIALS}
                    context = (context_id, both[0].context)
                    yield from position.ask_pair(
                        dataset, probe.template, attribute, context, (shown[0], shown[1]), asked
                    )
