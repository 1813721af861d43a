"""A small study, and whatever is made of one, for functions that are called with right and wrong arguments."""

import math
from functools import cached_property

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import biaslab as bl
from biaslab.distill import examples
from biaslab.measures.scoring.pointwise import Item
from biaslab.probes.base.cell import Cell
from biaslab.stats import Ratio


class World:
    """A small study and whatever is made of one, each made once."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0

    data = cached_property(lambda self: bl.load_dataset("graded", limit=6))
    judge = cached_property(lambda self: bl.SimulatedJudge(self.data, noise=0.5, position=0.5))
    probe = cached_property(lambda self: bl.probes.Position(["coherence"], [1], n_pairs=2, resampling=self.resampling))
    resampling = cached_property(lambda self: bl.Resampling(n=100))
    trials = cached_property(lambda self: self.collect(self.probe))
    planned = cached_property(lambda self: list(self.probe.design(self.data)))
    estimates = cached_property(lambda self: self.probe.estimate(self.trials))
    comparative = cached_property(lambda self: self.collect(bl.probes.Comparative(["coherence"])))
    comparisons = cached_property(lambda self: bl.ranking.comparisons_of(self.comparative))
    rated = cached_property(lambda self: self.collect(bl.scoring.Rating(["coherence"], answer="text")))
    rated_5 = cached_property(lambda self: self.collect(bl.scoring.Rating(["coherence"], scale="1-5", answer="text")))
    scores = cached_property(lambda self: bl.scoring.scores(self.rated))
    reply = cached_property(lambda self: next(iter(self.judge.ask([self.planned[0].request])))[1])
    ratio = cached_property(lambda self: Ratio(["a", "a", "b", "c"], [1.0, 0, 1, 1], [1.0, 1, 1, 1]))
    many = cached_property(lambda self: self.make_many())
    examples = cached_property(lambda self: examples(self.rated, self.data))

    def collect(self, probe, judge=None):
        return bl.collect(probe, judge or self.judge, self.data, progress=False)

    def path(self, end=""):
        self.count += 1
        return self.folder / f"made{self.count}{end}"

    def axes(self):
        plt.close("all")
        return bl.plots.intervals(self.estimates, "first_position_rate")

    def make_many(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"context_id": np.repeat([f"c{i}" for i in range(12)], 5)})
        frame["system"] = [f"s{i}" for i in range(5)] * 12
        frame["candidate_id"] = frame["system"]
        frame["human"] = rng.normal(size=60)
        frame["kind"] = ["a", "b", "a", "b", "a"] * 12
        return frame.assign(
            one=frame["human"] + rng.normal(size=60),
            two=frame["human"] + 2 * rng.normal(size=60),
            won=(rng.random(60) < 0.5).astype(float),
        )

    def probe_of(self, kind):
        made = bl.probes.available()
        chosen = next(each for each in made.values() if each.__name__ == kind)
        attributes = {} if kind == "Anchoring" else {"attributes": ["coherence"]}
        return chosen(**attributes, resampling=self.resampling)

    def trials_of(self, kind):
        held = self.__dict__.setdefault("_trials", {})
        if kind not in held:
            held[kind] = self.collect(self.probe_of(kind))
        return held[kind]

    def cell_of(self, kind):
        probe, trials = self.probe_of(kind), self.trials_of(kind)
        where = {name: trials[name].iloc[0] for name in probe.cell}
        part = trials[np.logical_and.reduce([trials[name] == value for name, value in where.items()])]
        chosen = tuple(metric.name for metric in probe.metrics)
        return Cell(part, where, chosen, True, "what is measured)", self.resampling)

    def item(self):
        row = self.data.candidates.iloc[0]
        texts = [str(row.get(name, "")) for name in ("context_id", "context", "candidate_id", "system", "text")]
        return Item(*texts, reference="", human={"coherence": 3.0})

    def two_judges(self):
        return [self.trials, self.trials.assign(judge="another")]


def value(made):
    return lambda _: made


def case(world):
    return bl.mitigation.Case(world.probe, "first_position_rate", "mine", world.trials, world.trials)


def empty(world):
    return world.collect(bl.probes.Vacuum(["coherence"], nothing=["empty"], asks=["pairs"]))


def reward(world):
    return next(iter(bl.distill.Reward(["coherence"]).design(world.data)))


def settings():
    return dict(bl.distill.Settings().__dict__)


def step(world):
    return next(iter(bl.scoring.StepWriting(["coherence"]).design(world.data)))


def steps(world):
    frame = world.trials.head(1).assign(reply="1. Read it.\n2. Score it.", status="ok", attribute="coherence")
    return frame.assign(value=math.nan)


def likelihoods(world):
    probe = bl.probes.Familiarity(["coherence"], asks="likelihoods")
    return world.collect(probe)
