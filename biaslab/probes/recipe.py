"""The recipe of Stureborg et al. (2024, §4) for scoring, compared with earlier ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, Literal

from biaslab.core.metrics import Metric, planted
from biaslab.core.scales import find_scale
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Status, Trial
from biaslab.measures.scoring.pointwise import ScoreAnswer
from biaslab.measures.scoring.scorers import GEval, Rating
from biaslab.probes.base.answers import Losses, parse_rate, token_count
from biaslab.probes.base.probe import LABEL_MASS, Cell, Metrics, Part, Probe, label_mass
from biaslab.stats.blocks import ITEM
from biaslab.stats.correlation import estimate_correlation

Rival = Literal["rate_explain", "g_eval"]
_RECIPE = "recipe"
_ADVICE = ("score 1-10, greedily, with the source, one attribute at a time, without reasons", "ask the earlier way")
_LEVELS: tuple[Literal["context", "dataset"], ...] = ("context", "dataset")
_COEFFICIENTS: tuple[Literal["spearman", "kendall"], ...] = ("spearman", "kendall")


@dataclass(frozen=True)
class Recipe(Probe):
    """Gain in agreement with humans of the recipe of Stureborg et al. (2024) over earlier ways of scoring.

    The recipe (Table 6): scale 1-10, no chain of thought, temperature 0, the source shown for every attribute, one
    attribute per request. The paper compares it on RoSE with GPT-4-Turbo. Further parameters:
    `biaslab.probes.base.Probe`.

    Parameters
    ----------
    against : sequence of {"rate_explain", "g_eval"}
        Rivals of the recipe: rate-explain, a rating followed by reasons (Chiang & Lee 2023), and/or G-Eval, the
        expected score with a detailed form (Liu et al. 2023).
    scale : str
        Scale of the recipe: a name in `biaslab.core.scales.SCALES`.
    rival_scale : str
        Scale of the rivals.
    levels : sequence of {"context", "dataset"}
        Level of agreement: averaged within contexts, and/or over all candidates.
    coefficients : sequence of {"spearman", "kendall"}
        Rank correlations with the mean human score.
    answer : {"distribution", "text"}
        Read exact label distributions: the likeliest label for the recipe, expected scores for the rivals. Or generate
        text: greedily for the recipe, and the mean of samples at temperature 1 for the rivals.
    samples : int
        With ``answer="text"``: samples per request of the rivals. The paper uses 10.
    steps, rival_steps : mapping of str to sequence of str
        Attribute → evaluation steps in the prompts of the recipe and of G-Eval. The paper's recipe has those of ACU's
        annotators (`biaslab.prompts.protocol_steps`), and its G-Eval steps written by the judge
        (`biaslab.scoring.StepWriting`). Default: none for the recipe, steps derived from the aspects for G-Eval.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is a score on its ``scale`` by its ``scorer``. There is one estimate for each judge × data
    set × attribute × answer, over candidates scored by all scorers; others are dropped and counted in
    ``n_dropped``. By ``level`` and ``coefficient``:

    - ``recipe_gain`` — correlation of the recipe with humans minus that of the scorer in ``against``. −2 to 2, null 0;
      above: the recipe helps. Primary. With ``answer="text"``, the rival's correlation is corrected to that of expected
      scores (means of infinitely many samples), so that sampling noise does not count against it. This needs at least
      two samples (`biaslab.stats.expected_agreement_loss`); with one, or with samples counted by the judge
      (`biaslab.Sampled`), the gain is undefined.
    - ``agreement`` — the correlations themselves (column ``scorer``). −1 to 1.

    By ``scorer``, over all requests:

    - ``parse_rate`` — share of answers with a readable score. 0–1.
    - ``label_mass`` — probability that all labels of the scale have together, of distributions. 0–1; low: the judge
      would rather say something else than a score.
    - ``tokens`` — input and output tokens per candidate and attribute, over all samples.

    Rate-explain can be read as an exact distribution too, because later reasons cannot affect the rating. Contexts in
    which a scorer gives all candidates the same score do not contribute to the gain.

    **Inference.** ``recipe_gain`` within contexts: t test and t interval (`biaslab.stats.agreement_loss`). Everything
    else: bootstrap or jackknife intervals and sign-flip tests over contexts; ``method`` says which.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Recipe(attributes=["coherence"], against=["g_eval"], levels=["context"], coefficients=["spearman"])
    >>> trials = bl.collect(probe, bl.SimulatedJudge(data, noise=1.0), data, progress=False)
    >>> probe.estimate(trials, ["agreement"])["scorer"].tolist()
    ['recipe', 'g_eval']
    """

    name = "recipe"
    cell = ("judge", "dataset", "attribute", "answer")
    conditions = ("scorer", "against", "level", "coefficient")
    columns = (
        *ITEM, "scorer", "human", "replicate", "value", "status", "tokens", "label_mass",
    )  # fmt: skip
    metrics = (
        Metric(
            "recipe_gain",
            "recipe minus rival",
            "correlation with the reference scores",
            null=0.0,
            above="agrees better with the reference scores by the recipe",
            below="agrees less with the reference scores by the recipe",
            advice=_ADVICE,
            use=("scores asked the earlier way", "scores asked by the recipe"),
            matters=0.1,
            primary=True,
            calibration=planted(  # without quality nothing is lost; with it, a coarse scale ties different candidates
                {"quality": 0.5, "noise": 0.0},
                fair={"quality": 0.0, "noise": 0.5, "sharpness": 8.0},
                parameters={
                    "against": ("rate_explain",),
                    "scale": "1-5",
                    "rival_scale": "1-100",
                    "levels": ("context",),
                    "coefficients": ("spearman",),
                    "answer": "text",
                    "samples": 3,
                },
            ),
        ),
        Metric("agreement", "correlation with the reference scores", null=0.0, quality=True),
        Metric("parse_rate", "answers with a score", "share"),
        LABEL_MASS,
        Metric("tokens", "price", "tokens per score"),
    )

    against: Sequence[Rival] = ("rate_explain", "g_eval")
    scale: str = "1-10"
    rival_scale: str = "1-5"
    levels: Sequence[Literal["context", "dataset"]] = _LEVELS
    coefficients: Sequence[Literal["spearman", "kendall"]] = _COEFFICIENTS
    answer: ScoreAnswer = "distribution"
    samples: int = 10
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    rival_steps: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        find_scale(self.scale)
        _ = self._scorers

    @cached_property
    def _scorers(self) -> dict[str, Rating | GEval]:
        """Scorers by name: the recipe, and its rivals."""
        n = self.samples if self.answer == "text" else 1
        answer, low, seed = self.answer, self.rival_scale, self.seed
        sampled: dict[str, Any] = {"answer": answer, "replicates": n, "temperature": 1.0, "seed": seed}
        scorers: dict[str, Rating | GEval] = {
            _RECIPE: Rating(self.attributes, self.scale, answer=answer, temperature=0.0, seed=seed, steps=self.steps),
            "rate_explain": Rating(self.attributes, low, "after", **sampled),
            "g_eval": GEval(self.attributes, low, self.rival_steps, **sampled),
        }
        return {name: scorer for name, scorer in scorers.items() if name in (_RECIPE, *self.against)}

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each candidate's score on each attribute by each scorer."""
        for name, scorer in self._scorers.items():
            for trial in scorer.design(dataset):
                yield replace(trial, condition={"scorer": name, **trial.condition})

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score as parsed by its scorer, and the status."""
        return self._scorers[str(trial.condition["scorer"])].read(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield gains and agreements by level and coefficient, then parse rate and cost of each scorer."""
        if cell.wants("recipe_gain", "agreement"):
            yield from self._agreements(cell)
        for scorer in self._scorers if cell.wants("parse_rate", "label_mass", "tokens") else ():
            asked = cell.trials[cell.trials["scorer"] == scorer]
            mass, cost = label_mass(asked.drop_duplicates(list(ITEM))), token_count(asked, asked["replicate"].nunique())
            price: Metrics = {"parse_rate": parse_rate(asked), "label_mass": mass, "tokens": cost}
            yield Part(price, (len(asked), 0), {"scorer": scorer})

    def _agreements(self, cell: Cell) -> Iterator[Part]:
        blocks = cell.blocks("scorer", list(self._scorers))
        losses = Losses.of(cell, blocks, "scorer", self.against, "samples=2 or more (the paper uses 10)")
        for level, coefficient in product(self.levels, self.coefficients):
            at, options = {"level": level, "coefficient": coefficient}, (self.resampling, level, coefficient)
            for rival in self.against:
                gain = losses.loss(cell, (_RECIPE, rival), level, coefficient)
                yield Part({"recipe_gain": gain}, blocks, at | {"against": rival})
            for scorer in self._scorers:
                agreement = partial(estimate_correlation, blocks, scorer, "human", *options)
                yield Part({"agreement": agreement}, blocks, at | {"scorer": scorer})
