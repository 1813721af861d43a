"""Pairs in probes that score single texts by default: how they are asked for, and told from scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from biaslab.core import Scalar, Trial
from biaslab.core.schema import Dataset
from biaslab.probes.base.own_protocol import protocol_column
from biaslab.probes.position import Position
from biaslab.prompts.protocols import Protocol

Asks = Literal["pairs", "scores"]
ASKS: tuple[Asks, ...] = ("pairs", "scores")
#: What stands in columns that say something of scores; a blank would be lost in a table of text.
BLANK: dict[str, Scalar] = {"scale": "pairs", "human": float("nan")}


def comparing(probe: Any) -> Position:
    """Return how a probe of scores asks for pairs: both orders of each, by comparative template 1 or its protocol."""
    is_text = probe.answer == "text"
    answer: Any = "verdict" if probe.answer == "score" else probe.answer
    return Position(
        probe.attributes,
        templates=(1,),
        answer=answer,
        replicates=probe.replicates if is_text else 1,
        temperature=probe.temperature,
        protocol=probe.protocol if "pairs" in probe.asks else None,
        seed=probe.seed,
    )


def pair_trials(position: Position, dataset: Dataset, condition: Mapping[str, Scalar]) -> Iterator[Trial]:
    """Plan both orders of every pair, with columns that say what a probe does with them."""
    fixed = {**BLANK, "answer": position.answer, **protocol_column(position.protocol), **condition}
    for trial in position.design(dataset):
        own = {name: value for name, value in trial.condition.items() if name != "template"}
        yield replace(trial, condition={**own, **fixed})


def is_pair(trials: pd.DataFrame) -> Any:
    """Return a mask of the trials that compare two candidates."""
    if "opponent_id" not in trials:
        return np.zeros(len(trials), bool)
    return (trials["opponent_id"].notna() & (trials["opponent_id"] != "")).to_numpy(bool)


def is_exact(trials: pd.DataFrame) -> bool:
    """Say whether pairs have exact probabilities, neither verdicts nor shares of samples."""
    return bool((trials["answer"] == "distribution").all()) and not (
        "samples" in trials and trials["samples"].notna().any()
    )


def has_degrees(protocol: object) -> bool:
    """Say whether a protocol of pairs offers more than two verdicts, whose probabilities one number does not hold."""
    return isinstance(protocol, Protocol) and len(protocol.points) > 2
