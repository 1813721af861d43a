"""Pairs in probes that score single texts by default: how they are asked for, and told from scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from biaslab import prompts
from biaslab.core import Completion, Metric, Scalar, Trial
from biaslab.core.about import Reasons
from biaslab.core.messages import as_messages
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import drawn_items
from biaslab.probes.position import Position
from biaslab.prompts.protocols import Protocol

Asks = Literal["pairs", "scores"]
ASKS: tuple[Asks, ...] = ("pairs", "scores")
#: What stands in columns that say something of scores; a blank would be lost in a table of text.
BLANK: dict[str, Scalar] = {"scale": "pairs", "human": float("nan")}
#: What each of these probes says of verdicts on pairs beside its own metrics.
ACCURACY = Metric(
    "comparative_accuracy", "pairs ordered as the reference scores do", "share", null=0.5, quality=True, form="pair"
)
FIRST_RATE = Metric("first_position_rate", "P(A), decisions for the first", "share", null=0.5, form="pair")
ORDER_CONSISTENCY = Metric("order_consistency", "same winner in both orders", "share", form="pair")
RESAMPLING = Metric("resampling_change", "two samples of one request differ", "share", form="pair")


def comparing(probe: Any, template: int = 1) -> Position:
    """Return how a probe of scores asks for pairs: both orders of each, by a comparative template or its protocol."""
    is_text = probe.answer == "text"
    answer: Any = "verdict" if probe.answer == "score" else probe.answer
    return Position(
        probe.attributes,
        templates=(template,),
        answer=answer,
        replicates=probe.replicates if is_text else 1,
        temperature=probe.temperature,
        protocol=probe.protocol if "pairs" in probe.asks else None,
        seed=probe.seed,
    )


def pair_trials(position: Position, dataset: Dataset, condition: Mapping[str, Scalar]) -> Iterator[Trial]:
    """Plan both orders of every pair, with columns that say what a probe does with them."""
    asked = {"protocol": position.protocol.id} if isinstance(position.protocol, Protocol) else {}
    fixed = {**BLANK, "answer": position.answer, **asked, **condition}
    for trial in position.design(dataset):
        own = {name: value for name, value in trial.condition.items() if name != "template"}
        yield replace(trial, condition={**own, **fixed})


def drawn_pairs(dataset: Dataset, n_candidates: int | None, seed: int) -> Callable[[Trial], bool]:
    """Return what says whether both candidates of a trial are among those drawn from its context."""
    drawn = {(item.context_id, item.candidate_id) for item in drawn_items(dataset, n_candidates, seed)}
    return lambda trial: {(trial.context_id, trial.candidate_id), (trial.context_id, trial.opponent_id)} <= drawn


def reasoned(trial: Trial, dataset: Dataset, reasons: Reasons, max_tokens: int) -> Trial:
    """Return the trial of a pair in text with reasons before or after the verdict; as it is where none are asked."""
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
    """Return whether pairs have exact probabilities, neither verdicts nor shares of samples."""
    return bool((trials["answer"] == "distribution").all()) and not (
        "samples" in trials and trials["samples"].notna().any()
    )


def has_degrees(protocol: object) -> bool:
    """Return whether a protocol of pairs offers more than two verdicts, which one number cannot hold."""
    return isinstance(protocol, Protocol) and len(protocol.points) > 2


def at_temperature(p: ArrayLike, temperature: float) -> NDArray[np.float64]:
    """Return probabilities of two answers at another temperature, p^(1/T) over the sum of both.

    ½ stays, and so does certainty; at 0 the likelier answer is certain.
    """
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-np.asarray(p, float))
    tempered = expit(odds / temperature) if temperature else np.heaviside(odds, 0.5)
    return np.asarray(tempered, float)
