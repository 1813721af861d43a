"""Effects of decoding on scores: temperature, reasons and averaging (Stureborg et al. 2024, §3.5, Figs. 6, 11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from biaslab.core import Calibration, Choice, Comparison, Figure, Metric, Reply, Status, Trial
from biaslab.core.checks import require_one_of, require_some_of, require_whole
from biaslab.core.errors import InputError
from biaslab.core.scales import find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.ranking.pairs import is_pair
from biaslab.measures.scoring.pointwise import read_score
from biaslab.probes._pairs_too import ACCURACY, ASKS, FIRST_RATE, ORDER_CONSISTENCY, Asks
from biaslab.probes._swept_pairs import SweptPairs, swept_pair_parts
from biaslab.probes._swept_scores import STEP, SweptScores
from biaslab.probes.base import LABEL_MASS, Cell, Part, planted
from biaslab.probes.base.answers import COLUMNS
from biaslab.probes.base.pair_probe import read_pair
from biaslab.probes.base.score_probe import draw_score

_TEXT: dict[str, Any] = {"scale": "1-100", "answer": "text"}
_PAIRS: dict[str, Any] = {"asks": ("pairs",), "answer": "text", "samples": 1}
_VERDICTS = Comparison("single verdicts on pairs", ("cot", "temperature"))


@dataclass(frozen=True)
class Sweep(SweptScores):
    """Effects of temperature, reasons before the score, and averaging of samples on agreement with humans.

    Every candidate is scored, or every pair compared, at several temperatures, with and without reasons.
    Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    scale : str
        Name in `biaslab.core.scales.SCALES`.
    temperatures : sequence of float
        Different temperatures, in any order; 0 is greedy and asked only once, because its samples are equal.
    cot : sequence of bool
        Without reasons, with reasons before the score (CoT, chain of thought), or both.
    samples : int
        Maximum samples per request; means are over 1, 2, 4 ... and all of them.
    answer : {"distribution", "text"}
        Without reasons: read the exact label distribution, which covers all temperatures and numbers of samples, or
        sample texts. With reasons, answers are always texts.
    max_tokens : int
        Maximum tokens of an answer with reasons.
    second_step : bool
        If a reply has reasons but no score, as often with small models, ask for the score in a second step: the judge
        sees the question and its own reasons, even if cut off, and gives only the score. Costs one short request per
        such reply, which plans do not include.
    n_candidates : int, optional
        Candidates per context, drawn at random; default: all.
    asks : sequence of {"pairs", "scores"}
        Score single candidates, compare all pairs in both orders, or both. Pairs have no second step.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is a score, or the probability of its ``label`` if label distributions are read. The temperature
    then applies to labels of several tokens as a whole, but in sampling token by token (`biaslab.stats.labels`).

    If the judge counts k samples instead of reading the distribution (`biaslab.Sampled`), they count as temperature 1,
    and means use at most k. Other temperatures are asked as texts in a second round, 0 greedily, because k counts do
    not determine the likeliest answer.

    In the second step (column ``step``: 2) the score is drawn from the label distribution given the reasons, at the
    temperature of the reasons, with a random number that depends on the seed, the request, the temperature and the
    replicate. With ``answer="text"``, and for judges that count samples, it is a text. Blank replies stay without a
    score.

    There is one estimate for each judge × data set × attribute × scale × ``cot`` (*CoT*, *no CoT*) × ``temperature`` ×
    ``samples`` averaged (NaN if a metric is not about averages):

    - ``cot_shift`` — ``agreement`` with CoT minus that without, for means of all samples, over items scored both ways.
      −2 to 2, null 0; above: reasons help. Primary, one per temperature; paired t test over contexts
      (`biaslab.stats.ratio.Ratio.difference`). Both sides have the noise of the same number of samples: reasons that
      only make a judge more certain help like more samples, and less the more are averaged.
    - ``temperature_shift`` — ``agreement`` at the highest temperature minus that at the lowest, for means of all
      samples. −2 to 2, null 0. Primary, one with and one without CoT.
    - ``agreement`` — Kendall's τ-b with the mean human score within contexts, averaged over contexts and over the
      randomness of the samples (32 draws from an exact distribution; all available groups of N texts). −1 to 1.
    - ``alpha`` — Krippendorff's interval α between samples, the noise floor of everything else. −1 to 1. For exact
      distributions, the limit of infinitely many samples: 1 − variance within items / total variance. 1 at temperature
      0, unless two labels are equally likely.
    - ``parse_rate`` — share of answers with a readable score; with reasons, in the first step. 0–1.
    - ``tokens`` — input and output tokens for one score averaged over ``samples``, in both steps; an exact distribution
      is paid once, whatever the temperature and the number of samples.
    - ``label_mass`` — total probability of all labels, of exact distributions at temperature 1. 0–1.

    For **pairs** (``scale`` is "pairs"), compared by comparative template 1 in both orders, with or without reasons
    before the verdict. Metrics refer to *single verdicts* at a temperature; exact probabilities, which one request
    gives for all temperatures, represent infinitely many of them. Contrasts are over pairs with verdicts in both
    settings and both orders; others are dropped and counted in ``n_dropped``:

    - ``cot_accuracy_shift`` — ``comparative_accuracy`` with CoT minus that without, at one temperature. −1 to 1, null
      0; above: reasons help. Primary.
    - ``temperature_accuracy_shift`` — ``comparative_accuracy`` at the highest temperature minus that at the lowest. −1
      to 1, null 0. Primary, one with and one without CoT. Below 0 for any judge that detects quality, because sampling
      adds noise.
    - ``cot_first_shift``, ``temperature_first_shift`` — the same for ``first_position_rate``. −1 to 1, null 0; above:
      more primacy.
    - ``comparative_accuracy`` — share of decisions between candidates with different human scores that agree with
      humans; ties excluded. 0–1, null ½.
    - ``first_position_rate`` — P(A), the share of decisions for the candidate shown first. 0–1, null ½.
    - ``order_consistency`` — probability that verdicts in the two orders name the same winner. 0–1.
    - ``alpha`` — Krippendorff's nominal α between samples of one pair in one order, as in `Consistency`. −1 to 1.
    - ``parse_rate``, ``tokens``, ``label_mass`` — as above, per verdict.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Sweep(attributes=["coherence"], temperatures=[0, 1])
    >>> estimates = probe.estimate(bl.collect(probe, bl.SimulatedJudge(data), data, progress=False), ["alpha"])
    >>> exact = estimates[estimates["cot"] == "no CoT"].set_index("temperature")["estimate"]
    >>> bool(exact[0.0] > 0.9 > exact[1.0])
    True
    """

    name = "sweep"
    cell = ("judge", "dataset", "attribute", "scale")
    conditions = ("cot", "temperature", "samples")
    columns = (*COLUMNS, "cot", "temperature", "label", "label_mass", "tokens")
    needs = "scores at several temperatures, with and without reasons"
    asks_for = ("pair", "score")
    metrics = (
        Metric("agreement", "agreement with the reference scores", "Kendall's τ-b", null=0.0, form="score"),
        Metric("alpha", "agreement between samples", "Krippendorff's α", null=0.0),
        Metric("parse_rate", "answers with a score", "share"),
        Metric("tokens", "tokens for one score"),
        LABEL_MASS,
        Metric(
            "cot_shift",
            "with reasons minus without",
            "Kendall's τ-b",
            null=0.0,
            above="agrees better with the reference scores after giving reasons",
            below="agrees less with the reference scores after giving reasons",
            advice=("ask for reasons before the score", "ask for the score alone, without reasons"),
            use=("scores without reasons", "scores after reasons"),
            matters=0.1,
            form="score",
            primary=True,
            calibration=planted(  # reasons push scores to the top of the scale, where candidates tie
                {"reason_first": 1.5},
                _TEXT | {"temperatures": (1.0,), "samples": 2},
                fair={"noise": 0.3, "sharpness": 4.0},
            ),
        ),
        Metric(
            "temperature_shift",
            "highest minus lowest temperature",
            "Kendall's τ-b",
            null=0.0,
            above="agrees better with the reference scores at a high temperature",
            below="agrees less with the reference scores at a high temperature",
            advice=(
                "use the highest temperature of the study, and average samples",
                "use the lowest temperature of the study",
            ),
            use=("scores at a low temperature", "scores at a high temperature"),
            matters=0.1,
            form="score",
            primary=True,
            calibration=Calibration(  # without quality, agreement does not depend on the temperature
                fair={"quality": 0.0, "noise": 1.0, "sharpness": 4.0},
                planted={"noise": 0.5, "sharpness": 4.0},
                parameters=_TEXT | {"temperatures": (0.0, 1.0), "samples": 1, "cot": (False,)},
            ),
        ),
        Metric(
            "cot_accuracy_shift",
            "accuracy on pairs with reasons minus without",
            "share",
            null=0.0,
            above="orders more pairs as the reference scores do after giving reasons",
            below="orders fewer pairs as the reference scores do after giving reasons",
            advice=("ask for reasons before the verdict", "ask for the verdict alone, without reasons"),
            matters=0.05,
            use=("verdicts without reasons", "verdicts after reasons"),
            form="pair",
            primary=True,
            calibration=planted(  # reasons make the judge choose the first, whatever its quality
                {"reason_first": 0.65}, _PAIRS | {"temperatures": (1.0,)}
            ),
            comparison=Comparison("verdicts on pairs with and without reasons", ("temperature",)),
        ),
        Metric(
            "temperature_accuracy_shift",
            "accuracy on pairs, highest minus lowest temperature",
            "share",
            null=0.0,
            above="orders more pairs as the reference scores do at a high temperature",
            below="orders fewer pairs as the reference scores do at a high temperature",
            advice=(
                "use the highest temperature of the study, and average samples",
                "use the lowest temperature of the study",
            ),
            matters=0.05,
            use=("verdicts at a low temperature", "verdicts at a high temperature"),
            form="pair",
            primary=True,
            calibration=Calibration(
                fair={"quality": 0.0, "noise": 1.0},
                planted={"quality": 0.3, "noise": 0.5},
                parameters=_PAIRS | {"temperatures": (0.0, 1.0), "cot": (False,)},
            ),
        ),
        Metric("cot_first_shift", "P(A) with reasons minus without", "share", null=0.0, form="pair"),
        Metric("temperature_first_shift", "P(A), highest minus lowest temperature", "share", null=0.0, form="pair"),
        *(replace(metric, comparison=_VERDICTS) for metric in (ACCURACY, FIRST_RATE, ORDER_CONSISTENCY)),
    )
    figures = (
        Figure("agreement", "agreement", x="temperature", hue="cot", col="attribute"),
        Figure("shifts", ("cot_shift", "temperature_shift"), by=("cot", "temperature"), col="attribute"),
        Figure(
            "shifts_of_pairs",
            ("cot_accuracy_shift", "temperature_accuracy_shift"),
            by=("cot", "temperature"),
            col="attribute",
        ),
        Figure("tokens", "tokens", x="temperature", hue="cot", col="attribute"),
    )

    asks: Sequence[Asks] = field(default=("scores",), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        find_scale(self.scale)
        temperatures = self.temperatures
        if isinstance(temperatures, str) or not temperatures or len(set(temperatures)) < len(temperatures):
            raise InputError("temperatures", temperatures, "a list of different numbers")
        require_some_of("cot", self.cot, (False, True))
        require_whole("samples", self.samples, 1)
        require_some_of("asks", self.asks, ASKS)
        require_whole("n_candidates", self.n_candidates, 2 if "pairs" in self.asks else 1, optional=True)
        require_one_of("answer", self.answer, ("distribution", "text"))
        for temperature in temperatures:
            self._asking(temperature, True)

    def design(self, dataset: Dataset, trials: pd.DataFrame | None = None) -> Iterator[Trial]:
        """Plan all scores and pairs for each attribute, with and without reasons, at each temperature.

        Given the trials so far, plan texts at temperatures not covered by counted samples, and the second step for
        replies with reasons only.
        """
        compared = scored = None
        if trials is not None:
            pairs = is_pair(trials)
            compared, scored = trials[pairs], trials[~pairs]
        if "pairs" in self.asks:
            yield from self._pairs(dataset, compared)
        if "scores" in self.asks:
            yield from self._scores(dataset, scored)

    def _pairs(self, dataset: Dataset, trials: pd.DataFrame | None) -> Iterator[Trial]:
        """Plan all pairs or, given their trials, texts at temperatures not covered by counted samples."""
        pairs = SweptPairs(self.attributes, self.n_candidates, self.seed, self.max_tokens, self.samples)
        if trials is None:
            yield from pairs.trials(dataset, self.cot, self.temperatures, self.answer == "distribution")
        elif temperatures := self._not_counted(trials):
            yield from pairs.trials(dataset, (False,), temperatures, exact=False)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score in a text or the probability of the trial's label, and the status.

        For a second step, the score drawn from the label distribution; for a pair, the probability that the first wins.
        """
        if trial.opponent_id is not None:
            return read_pair(trial, reply)
        if trial.condition.get(STEP) == 2 and isinstance(trial.request, Choice):
            temperature = float(trial.condition["temperature"])  # type: ignore[arg-type]
            use = f"sweep, seed {self.seed}, temperature {temperature:g}, sample {trial.replicate}"
            return draw_score(trial, reply, temperature, use)
        return read_score(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each setting and number of samples, then the differences between settings."""
        if is_pair(cell.trials).any():
            yield from swept_pair_parts(cell, self.temperatures)
            return
        yield from self._measure_scores(cell)
