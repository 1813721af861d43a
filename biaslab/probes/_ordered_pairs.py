"""Plan comparisons of texts in both orders with the prompts of `Position`, so that probes can share stored replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, groupby

from biaslab.core import Scalar, Trial
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import Item, items, ratings_by_item
from biaslab.probes._pairs_too import comparing
from biaslab.probes.base import PairFeatureProbe

#: Function of a text, the attribute, and its single human ratings that returns the columns of the text.
Columns = Callable[[Item, str, Mapping[str, Scalar]], dict[str, Scalar]]

_OF_TRIALS = ("own", "likelihood_judge")


def ordered_pairs(
    probe: PairFeatureProbe,
    dataset: Dataset,
    columns: Columns,
    is_planned: Callable[[Item, Item], bool] | None = None,
) -> Iterator[Trial]:
    """Plan the pairs of each context's texts in both orders, for each attribute.

    Parameters
    ----------
    probe : PairFeatureProbe
        The probe, which sets how pairs are asked for.
    dataset : Dataset
        The data to judge.
    columns : callable
        Returns the columns of a text; those of the text shown second are prefixed with ``opponent_``, except for
        columns of the trial.
    is_planned : callable, optional
        Returns whether two texts are compared; default: all.
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
