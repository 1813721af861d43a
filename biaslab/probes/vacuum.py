"""What a judge says of nothing: its dark current, the prior that content-free prompts show (Zhao et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from biaslab.core import Calibration, Comparison, Metric, Reply, Scalar, Status, Trial
from biaslab.core.checks import require_one_of, require_some_of, require_whole
from biaslab.core.errors import InputError
from biaslab.core.scales import find_scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.dark_current import dark_log_odds
from biaslab.measures.ranking.order_odds import is_counted, log_odds
from biaslab.measures.scoring.pointwise import Asking, Item, Question, drawn_items, read_score
from biaslab.probes.base import LABEL_MASS, Cell, PairProbe, Part, label_mass
from biaslab.probes.base.pair_probe import draw_of
from biaslab.stats import Estimate, Ratio, Resampling, each_cell, has_value, logistic_model, usable

Nothing = Literal["identical", "empty", "shuffled", "named"]
NOTHINGS: tuple[Nothing, ...] = ("identical", "empty", "shuffled", "named")
_WHOLE = "text itself"
_UNIT = (0.0, 1.0)


@dataclass(frozen=True)
class Vacuum(PairProbe):
    """Compare two candidates that are the same, or nothing, and score nothing: whatever a judge says is its own.

    Its further parameters are those of `biaslab.probes.base.PairProbe`.

    Parameters
    ----------
    nothing : sequence of {"identical", "empty", "shuffled", "named"}
        What is shown twice: a candidate; no words at all; a candidate's words in random order, twice another one; a
        candidate with a name in brackets, each name once in each place.
    asks : sequence of {"pairs", "scores"}
        Compare nothing with nothing, score nothing and the text itself, or both.
    n_candidates : int, optional
        Candidates a context, drawn by seed and context, that are shown twice or shuffled; None takes all.
    names : tuple of str
        Two names, of *named*, such as those of authors.
    template : {1, 2}
        Comparative template.
    scale : str
        One of `biaslab.core.scales.SCALES`.

    Raises
    ------
    InputError
        If a value lies outside its range.

    Notes
    -----
    A trial's ``value`` is the probability that the first wins, or a score. Both orders of a pair are one prompt, which
    is asked once, but for *named*; ``nothing`` says what was shown. What a judge answers here no candidate can have
    caused: as the dark current of a detector, it is there in every other answer too. Estimates, one a judge × data set
    × attribute × ``nothing``:

    ``dark_first_rate`` (primary; 0–1, null ½)
        Share of decisions, ties aside, for what stands first. A distribution decides for its likelier label.
    ``dark_first_logit`` (null 0)
        Mean log odds of the first, in logits; of verdicts those of their share. This is the content-free prior:
        `biaslab.ranking.content_free` takes it out of other comparisons (Zhao et al. 2021 average probabilities).
    ``name_logit`` (null 0)
        Log odds of the first of ``names`` against the second, behind the same text in both places.
    ``tie_rate`` (0–1)
        Share of ties; with ``ties=True`` and two equal candidates anything below 1 is a wrong answer.
    ``dark_score``
        Mean score of nothing, in points of the scale, and of the text itself beside it.
    ``dark_score_drop`` (null 0)
        Mean score of the text itself less that of nothing, item by item, in points. Near 0 the judge does not read.
    ``score_share`` (0–1; by ``score``)
        How much of the probability, or which share of the answers, each label has.
    ``label_mass`` (0–1)
        Probability that the labels have together.

    ``dark_first_rate`` is the position bias between candidates of which neither is better, where it is largest. With
    candidates that differ it shows in fewer decisions: `Position` measures those. That an empty or shuffled text is out
    of the ordinary may change what a judge does, so the kinds of nothing are told apart; where they disagree, take the
    prior of *identical*, whose prompts are the likest to real ones.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Vacuum(["coherence"], nothing=["identical"])
    >>> judge = bl.SimulatedJudge(data, position=0.8)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["dark_first_logit"])
    >>> round(float(estimates.loc[0, "estimate"]), 3)
    0.8
    """

    name: ClassVar[str] = "vacuum"
    conditions: ClassVar[tuple[str, ...]] = ("nothing", "template", "scale", "score")
    columns: ClassVar[tuple[str, ...]] = (*pairs.PAIR, "asked", "nothing", "label_mass")
    needs: ClassVar[str] = "pairs of two equal candidates, asked by this probe"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "dark_first_rate",
            "P(A) where both are the same",
            "share",
            null=0.5,
            above="prefers the first of two equal candidates",
            below="prefers the second of two equal candidates",
            advice="ask every pair in both orders, or take its content-free prior out",
            matters=0.1,
            primary=True,
            calibration=Calibration(
                fair={"quality": 1.0, "noise": 1.0, "context_noise": 0.5},
                planted={"quality": 1.0, "noise": 1.0, "context_noise": 0.5, "position": 0.45},
                parameters={"nothing": ("identical",), "asks": ("pairs",), "n_candidates": 3},
            ),
            comparison=Comparison("verdicts on pairs of the same", ("nothing",)),
        ),
        Metric("dark_first_logit", "log odds of the first, both the same", "logits", null=0.0),
        Metric("name_logit", "log odds of the first name, same text", "logits", null=0.0),
        Metric("tie_rate", "ties", "share"),
        Metric("dark_score", "score of nothing", "points"),
        Metric("dark_score_drop", "score of the text less that of nothing", "points", null=0.0, quality=True),
        Metric("score_share", "answers with this score", "share"),
        LABEL_MASS,
    )

    nothing: Sequence[Nothing] = NOTHINGS
    asks: Sequence[Literal["pairs", "scores"]] = field(default=("pairs", "scores"), kw_only=True)
    n_candidates: int | None = field(default=1, kw_only=True)
    names: tuple[str, str] = field(default=("GPT-4", "Llama 2"), kw_only=True)
    template: int = field(default=1, kw_only=True)
    scale: str = field(default="1-5", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_some_of("nothing", self.nothing, NOTHINGS)
        require_some_of("asks", self.asks, ("pairs", "scores"))
        require_whole("n_candidates", self.n_candidates, 1, optional=True)
        require_one_of("template", self.template, (1, 2))
        if len(self.names) != 2 or len({*map(str.strip, self.names), ""}) != 3:
            raise InputError("names", self.names, "two names that differ")
        find_scale(self.scale)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan pairs of the same, and the scores of nothing and of the text itself."""
        attributes = dataset.require_attributes(self.attributes)
        first: set[str] = set()
        for item in drawn_items(dataset, self.n_candidates, self.seed):
            kinds = [kind for kind in self.nothing if kind != "empty" or item.context_id not in first]
            first.add(item.context_id)
            shown = {kind: _shown(item, kind, self.seed) for kind in kinds}
            if "pairs" in self.asks:
                for (kind, both), attribute in product(shown.items(), attributes):
                    yield from self._compare(dataset, item, attribute, kind, both)
            if "scores" in self.asks:
                single: dict[str, str] = {
                    kind: both[0] for kind, both in shown.items() if kind in ("empty", "shuffled")
                }
                for (name, text), attribute in product({_WHOLE: item.text, **single}.items(), attributes):
                    yield from self._score(dataset, item, attribute, name, text)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the first wins, or the score, and the status."""
        return super().read(trial, reply) if trial.opponent_id is not None else read_score(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield what is said of each kind of nothing: of pairs, then of scores."""
        for (asked, nothing), found in each_cell(cell.trials, ("asked", "nothing")):
            if asked == "pair":
                at = {"nothing": nothing, "template": found["template"].iloc[0], "scale": "", "score": np.nan}
                yield Part(_of_pairs(found, str(nothing), cell.resampling), _counts(found), at)
            elif asked == "score":
                yield from self._of_scores(replace(cell, trials=found), cell.trials, str(nothing))

    def _compare(
        self, dataset: Dataset, item: Item, attribute: str, kind: Nothing, both: tuple[str, str]
    ) -> Iterator[Trial]:
        """Yield the question which of two of the same is better."""
        context, (one, two) = (item.context_id, item.context), both
        pair = (item.candidate_id, one), (item.candidate_id, two)
        for first, second in (self.names, self.names[::-1]) if kind == "named" else (("", ""),):
            told = {"asked": "pair", "nothing": kind, "template": self.template, "named_first": first}
            edits = (first, second) if kind == "named" else () if kind == "identical" else (kind, kind)
            yield from self.ask_pair(
                dataset, self.template, attribute, context, pair, told, headings=(first, second), edits=edits
            )

    def _score(self, dataset: Dataset, item: Item, attribute: str, kind: str, text: str) -> Iterator[Trial]:
        """Yield the question for a score, and of an exact distribution the probability of each label."""
        shown, edit = replace(item, text=text), "" if kind == _WHOLE else kind
        question = Question.rate(dataset, shown, [attribute], find_scale(self.scale), edit=edit)
        asking = Asking(self.answer, self.replicates, self.temperature, seed=self.seed)
        told: dict[str, Scalar] = {"nothing": kind, "named_first": ""}
        yield from question.trials(asking, {"asked": "score", **told})
        if self.answer == "distribution":
            yield from question.label_trials({"asked": "label", **told})

    def _of_scores(self, cell: Cell, everything: pd.DataFrame, nothing: str) -> Iterator[Part]:
        """Yield mean, drop and distribution of the scores of one kind of nothing."""
        scores, scale = cell.trials, str(cell.trials["scale"].iloc[0])
        at: dict[str, Any] = {"nothing": nothing, "template": "", "scale": scale, "score": np.nan}
        read = usable(scores)
        mean = Ratio(read["context_id"], read["value"], np.ones(len(read)), missing="undefined: no score was read")
        yield Part({"dark_score": mean, "label_mass": label_mass(scores)}, _counts(scores), at)
        if nothing != _WHOLE and cell.wants("dark_score_drop"):
            both = everything[(everything["asked"] == "score") & everything["nothing"].isin([_WHOLE, nothing])]
            blocks = cell.blocks("nothing", [_WHOLE, nothing], (), both, nothing)
            drop = blocks[_WHOLE] - blocks[nothing]
            yield Part({"dark_score_drop": Ratio(blocks["context_id"], drop, np.ones(len(drop)), 0.0)}, blocks, at)
        if not cell.wants("score_share"):
            return
        labels = usable(everything[(everything["asked"] == "label") & (everything["nothing"] == nothing)])
        for score in sorted(scale_named(scale).values):
            given = labels[labels["label"] == score] if len(labels) else read
            share = given["value"] if len(labels) else (read["value"] == score).astype(float)
            found = Ratio(given["context_id"], share, np.ones(len(given)), bounds=_UNIT)
            yield Part({"score_share": found}, _counts(scores), {**at, "score": float(score)})


def _of_pairs(found: pd.DataFrame, nothing: str, resampling: Resampling) -> dict[str, Ratio | partial[Estimate]]:
    """Return what pairs of the same tell."""
    read = usable(found)
    won = pairs.decisions(read)
    named = {"name_logit": partial(_name_log_odds, found, resampling)} if nothing == "named" else {}
    return {
        **named,
        "dark_first_rate": pairs.first_position_rate(read["context_id"], won),
        "dark_first_logit": partial(dark_log_odds, found, resampling),
        "tie_rate": pairs.tie_rate(read["context_id"], won),
        "label_mass": label_mass(found),
    }


def _name_log_odds(found: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the log odds of the name that is asked first against the other, wherever it stands."""
    names = found["named_first"].drop_duplicates().tolist()
    read = usable(found)
    both = read.groupby(["context_id", "candidate_id", "replicate"])["value"].transform("size") == len(names)
    whole = read[both]
    sign, p = np.where(whole["named_first"] == names[0], 1.0, -1.0), whole["value"].to_numpy(float)
    if is_counted(whole):
        verdicts = pd.DataFrame({"context_id": whole["context_id"], "won": p, "first": 1.0, "name": sign})
        made = logistic_model(verdicts, "won", ["first", "name"], resampling)["name"]
    else:
        lean = sign * log_odds(p)
        missing = "undefined: no text was judged with both names in both places"
        made = Ratio(whole["context_id"], lean, np.ones(len(p)), 0.0, missing=missing, inference="t").estimate(
            resampling
        )
    return replace(made, note="; ".join(filter(None, (made.note, " against ".join(map(str, names))))))


def _counts(trials: pd.DataFrame) -> tuple[int, int]:
    entering = int(has_value(trials).sum())
    return entering, len(trials) - entering


def _shown(item: Item, kind: Nothing, seed: int) -> tuple[str, str]:
    """Return what is shown first and second."""
    if kind in ("identical", "named"):
        return item.text, item.text
    if kind == "empty":
        return "", ""
    words = np.array(item.text.split(), object)
    rng = draw_of(seed, f"{item.context_id}\0{item.candidate_id}")
    one, two = (" ".join(rng.permutation(words)) for _ in range(2))
    return one, two
