"""Samples of a score drawn from its exact distribution, the same ones whenever they are drawn."""

from __future__ import annotations

import math

import numpy as np

from biaslab.core import Reply, Request, Status, Trial, request_key
from biaslab.core.scales import find_scale
from biaslab.stats import tempered


def drawn_score(trial: Trial, reply: Reply, temperature: float, use: str) -> tuple[float, Status]:
    """Draw one score from a label distribution at a temperature, and return it with its status.

    The distribution is inverted at a random number that depends on the request and on what it is for alone.
    """
    p = tempered(reply.logprobs or (), temperature)
    if np.isnan(p).any() or not len(p):
        return math.nan, "refused"
    at = random_number(trial.request, use) / 2**52
    drawn = int(np.searchsorted(p.cumsum(), at * p.sum(), side="right"))
    scores = np.array(find_scale(str(trial.condition["scale"])).values)
    return float(scores[min(drawn, len(p) - 1)]), "ok"


def random_number(request: Request, use: str) -> int:
    """Return a random whole number below 2**52 that depends on a request and what it is for."""
    return int(request_key(request, use)[:13], 16)
