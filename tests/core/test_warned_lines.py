"""A warning names the line of the caller's own code, however deep in the package it was raised."""

import inspect
import warnings

import pytest

import biaslab as bl
from biaslab.core.errors import MissingDataWarning, ModelChangedWarning
from biaslab.stats.blocks import warn_shared

DATA = bl.load_dataset("graded", limit=8)
PROBE = bl.probes.Position(attributes=["fluency"], templates=[1])
TRIALS = bl.collect(PROBE, bl.SimulatedJudge(DATA, position=1.0), DATA, progress=False)


class TwoModels:
    """A judge whose server changes its model on the way."""

    id = "two models"

    def __init__(self):
        self.inner = bl.SimulatedJudge(DATA)
        self.kinds = self.inner.kinds

    def check(self, requests):
        self.inner.check(requests)

    def ask(self, requests):
        for number, (request, reply) in enumerate(self.inner.ask(requests)):
            parts = {name: getattr(reply, name) for name in inspect.signature(bl.Reply).parameters}
            yield request, bl.Reply(**parts | {"model": f"model-{number % 2}"})


def lost(trials):
    trials = trials.copy()
    rows = trials["context_id"].isin(trials["context_id"].unique()[:2])
    return trials.assign(
        value=trials["value"].where(~rows), status=trials["status"].astype(object).where(~rows, "refused")
    )


@pytest.mark.parametrize(
    ("call", "category"),
    [
        (lambda: PROBE.estimate(lost(TRIALS)), MissingDataWarning),
        (lambda: warn_shared("position", {"a": 0, "b": 0}), UserWarning),
        (lambda: bl.collect(PROBE, TwoModels(), DATA, progress=False), ModelChangedWarning),
    ],
)
def test_warnings_name_the_line_of_the_caller(call, category):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    named = [one for one in caught if issubclass(one.category, category)]
    assert named
    assert {one.filename for one in named} == {__file__}
    assert {one.lineno for one in named} == {inspect.getsourcelines(call)[1]}
