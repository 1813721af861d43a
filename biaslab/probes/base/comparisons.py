"""Comparisons with the prompts of `Position`, for probes that score single texts by default."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit

from biaslab import prompts
from biaslab.core.arrays import Floats
from biaslab.core.metrics import Metric
from biaslab.core.requests import Completion, Reasons, as_messages
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.ranking.pairs import is_pair
from biaslab.measures.scoring.pointwise import Item, drawn_items, ratings_by_item
from biaslab.probes.base.feature_probe import PairFeatureProbe
from biaslab.probes.base.probe import Cell, Part, Probe
from biaslab.probes.base.questions import read_reply
from biaslab.probes.position import Position
from biaslab.prompts.protocols import Protocol

Asks = Literal["pairs", "scores"]
#: Value for pairs in columns about scores; a blank would be lost in a text table.
BLANK: dict[str, Scalar] = {"scale": "pairs", "human": float("nan")}
#: Metrics on pairs that these probes share.
ACCURACY = Metric(
    "comparative_accuracy", "pairs ordered as the reference scores do", "share", null=0.5, quality=True, form="pair"
)
FIRST_RATE = Metric("first_position_rate", "P(A), decisions for the first", "share", null=0.5, form="pair")
ORDER_CONSISTENCY = Metric("order_consistency", "same winner in both orders", "share", form="pair")
RATES = (ACCURACY, FIRST_RATE, ORDER_CONSISTENCY)
RESAMPLING = Metric("resampling_change", "verdicts that differ between samples of one request", "share", form="pair")


@dataclass(frozen=True)
class PairOrScoreProbe(Probe):
    """Base for probes that score single texts, compare them with the prompts of `Position`, or both.

    Parameters
    ----------
    asks : sequence of {"pairs", "scores"}
        Score single candidates, compare all pairs in both orders, or both; a protocol's form overrides this.
    """

    asks: Sequence[Asks] = field(default=("scores",), kw_only=True)

    @abstractmethod
    def plan_pairs(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the comparisons of a data set."""

    @abstractmethod
    def plan_scores(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the scores of a data set."""

    def read_score(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Parse the reply to the question for a score."""
        return read_reply(self.protocol, trial, reply)

    @abstractmethod
    def measure_pairs(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of a cell of comparisons."""

    @abstractmethod
    def measure_scores(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of a cell of scores."""

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the comparisons, then the scores."""
        if "pairs" in self.asks:
            yield from self.plan_pairs(dataset)
        if "scores" in self.asks:
            yield from self.plan_scores(dataset)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score, or the probability that the first of a pair wins, and the status."""
        return self.read_score(trial, reply) if trial.opponent_id is None else read_reply(self.protocol, trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of comparisons, then of scores."""
        pairs = is_pair(cell.trials)
        for measure, rows in ((self.measure_pairs, pairs), (self.measure_scores, ~pairs)):
            if rows.any():
                yield from measure(cell if rows.all() else replace(cell, trials=cell.trials[rows]))


def comparing(probe: Any, template: Literal[1, 2] = 1) -> Position:
    """Return the `Position` probe that asks for pairs in both orders, with a template or the protocol of `probe`."""
    is_text = probe.answer == "text"
    answer = "verdict" if probe.answer == "score" else probe.answer
    protocol = probe.protocol if "pairs" in probe.asks else None
    asked: dict[str, Any] = {"replicates": probe.replicates if is_text else 1, "temperature": probe.temperature}
    asked |= {"templates": (template,), "answer": answer}
    return Position(probe.attributes, **asked, protocol=protocol, seed=probe.seed)


def pair_trials(
    position: Position, dataset: Dataset, condition: Mapping[str, Scalar], n_candidates: int | None = None
) -> Iterator[Trial]:
    """Plan both orders of each pair, or of those of the candidates drawn by the seed, with these condition columns."""
    drawn = {(item.context_id, item.candidate_id) for item in drawn_items(dataset, n_candidates, position.seed)}
    asked = {"protocol": position.protocol.id} if isinstance(position.protocol, Protocol) else {}
    fixed = {**BLANK, "answer": position.answer, **asked, **condition}
    for trial in position.design(dataset):
        if {(trial.context_id, trial.candidate_id), (trial.context_id, trial.opponent_id)} <= drawn:
            own = {name: value for name, value in trial.condition.items() if name != "template"}
            yield replace(trial, condition={**own, **fixed})


def reasoned(trial: Trial, dataset: Dataset, reasons: Reasons, max_tokens: int) -> Trial:
    """Return a text trial of a pair with reasons before or after the verdict; unchanged without reasons."""
    request = trial.request
    if reasons == "none" or not isinstance(request, Completion) or request.about is None:
        return trial
    first, second = request.about.texts
    context = dataset.rows[trial.context_id, trial.candidate_id]["context"]
    of = {"noun": dataset.noun, "attribute": trial.attribute, "reasons": reasons}
    prompt = prompts.render("reasoned_comparative", context=context, first=first, second=second, **of)
    about = replace(request.about, reasons=reasons)
    return replace(trial, request=replace(request, messages=as_messages(prompt), max_tokens=max_tokens, about=about))


def is_exact(trials: pd.DataFrame) -> bool:
    """Return whether pairs have exact probabilities rather than verdicts or shares of samples."""
    counted = "samples" in trials and trials["samples"].notna().any()
    return bool((trials["answer"] == "distribution").all()) and not counted


def has_degrees(protocol: object) -> bool:
    """Return whether a pair protocol has more than two verdicts, which one probability cannot represent."""
    return isinstance(protocol, Protocol) and len(protocol.points) > 2


def at_temperature(p: ArrayLike, temperature: float) -> Floats:
    """Return probabilities of two answers at another temperature: p^(1/T), normalised.

    ½, 0 and 1 do not change; at temperature 0 the likelier answer is certain.
    """
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-np.asarray(p, float))
    tempered = expit(odds / temperature) if temperature else np.heaviside(odds, 0.5)
    return np.asarray(tempered, float)


#: Function of a text, the attribute, and its single human ratings that returns the columns of the text.
PairColumns = Callable[[Item, str, Mapping[str, Scalar]], dict[str, Scalar]]

_OF_TRIALS = ("own", "likelihood_judge")


def ordered_pairs(
    probe: PairFeatureProbe, dataset: Dataset, columns: PairColumns, wanted: Callable[[Item, Item], bool] | None = None
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
    wanted : callable, optional
        Returns whether two texts are compared; default: all.
    """
    ratings = ratings_by_item(dataset)

    def of_both(first: Item, second: Item, attribute: str) -> dict[str, Scalar] | None:
        if wanted is not None and not wanted(first, second):
            return None
        keys = ((item, (item.context_id, item.candidate_id, attribute)) for item in (first, second))
        one, other = (columns(item, attribute, ratings.get(key, {})) for item, key in keys)
        others = {f"opponent_{name}": value for name, value in other.items() if name not in _OF_TRIALS}
        return {"asked": "pair", **one, **others}

    return comparing(probe, probe.template).pairs(dataset, of_both, (probe.template,))
