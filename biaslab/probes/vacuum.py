"""Content-free prior: a judge's answers when there is nothing to judge (Zhao et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.metrics import Comparison, Figure, Metric, planted
from biaslab.core.scales import find_scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Scalar, Trial
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.debiasing import dark_log_odds
from biaslab.measures.ranking.pairs import is_counted, log_odds
from biaslab.measures.scoring.pointwise import AnswerSettings, Item, Question, drawn_items
from biaslab.probes.base.probe import LABEL_MASS, Cell, Metrics, Part, label_mass, mean_of
from biaslab.probes.base.questions import PairProbe, draw_of
from biaslab.stats.blocks import each_cell, has_value, usable
from biaslab.stats.estimate import Estimate, because
from biaslab.stats.frame import warn_missing
from biaslab.stats.missing import completed
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import logistic_model
from biaslab.stats.resample import Resampling

Nothing = Literal["identical", "empty", "shuffled", "named"]
NOTHINGS: tuple[Nothing, ...] = get_args(Nothing)
_WHOLE = "text itself"


@dataclass(frozen=True)
class Vacuum(PairProbe):
    """Content-free prior: a judge's preference between equal candidates, and its score of an empty text.

    The candidates cannot cause these answers; like the dark current of a detector, they are part of every other answer.
    Further parameters: `biaslab.probes.base.PairProbe`.

    Parameters
    ----------
    nothing : sequence of {"identical", "empty", "shuffled", "named"}
        What to show: the same candidate twice; two empty texts; a candidate's words in two random orders; a candidate
        twice with names in brackets, each name once in each position.
    asks : sequence of {"pairs", "scores"}
        Compare content-free pairs, score content-free texts and the text itself, or both.
    n_candidates : int, optional
        Candidates per context to show twice or shuffle, drawn by seed and context; None: all.
    names : tuple of str
        The two names for *named*, such as names of authors.
    template : {1, 2}
        Comparative template.
    scale : str
        One of `biaslab.core.scales.SCALES`.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    A trial's ``value`` is the probability that the first wins, or a score. Both orders of a pair give the same prompt,
    which is asked once, except for *named*. There is one estimate for each judge × data set × attribute × ``nothing``
    (the kind of content-free input):

    - ``dark_first_rate`` — share of decisions (ties excluded) for the candidate shown first. 0–1, null ½; above:
      primacy. Primary. A distribution decides for its likelier label.
    - ``dark_first_logit`` — mean log odds of the first, in logits; for verdicts, the log odds of their share. Null 0.
      The content-free prior that `biaslab.ranking.content_free` subtracts from other comparisons (Zhao et al. 2021
      average probabilities).
    - ``name_logit`` — log odds of the first of ``names`` against the second, with the same text, over both positions.
      Null 0.
    - ``tie_rate`` — share of ties. 0–1; with ``ties=True`` and two equal candidates, anything below 1 is wrong.
    - ``dark_score`` — mean score of content-free texts, and of the text itself for comparison, in points of the scale.
    - ``dark_score_drop`` — mean score of the text itself minus that of the content-free text, paired by item, in
    points.
      Null 0; near 0: the judge ignores the text.
    - ``score_share`` — share of the probability, or of the answers, at each label (column ``score``). 0–1.
    - ``label_mass`` — total probability of all labels. 0–1.

    ``dark_first_rate`` is the position bias when neither candidate is better, where it is largest; between different
    candidates it affects fewer decisions (`Position`). Empty or shuffled texts are unusual, which may itself change the
    judge's behaviour, so the kinds are reported separately. If they disagree, prefer *identical*, whose prompts are
    closest to real ones.

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

    name = "vacuum"
    conditions = ("nothing", "template", "scale", "score")
    columns = (*pairs.PAIR, "asked", "nothing", "label_mass")
    asks_for = ("pair", "score")
    needs = "pairs of two equal candidates, asked by this probe"
    metrics = (
        Metric(
            "dark_first_rate",
            "P(A) where both are the same",
            "share",
            null=0.5,
            above="prefers the first of two equal candidates",
            below="prefers the second of two equal candidates",
            advice="ask every pair in both orders, or subtract the content-free prior",
            use="equal candidates shown in one order only",
            matters=0.1,
            primary=True,
            form="pair",
            calibration=planted({"position": 0.45}, {"nothing": ("identical",), "asks": ("pairs",), "n_candidates": 3}),
            comparison=Comparison("verdicts on pairs of the same", ("nothing",)),
        ),
        Metric("dark_first_logit", "log odds of the first, both the same", "logits", null=0.0, form="pair"),
        Metric("name_logit", "log odds of the first name, same text", "logits", null=0.0, form="pair"),
        Metric("tie_rate", "ties", "share"),
        Metric("dark_score", "score of nothing", "points", form="score"),
        Metric("dark_score_drop", "score of the text less that of nothing", "points", null=0.0, form="score"),
        Metric("score_share", "answers with this score", "share"),
        LABEL_MASS,
    )
    figures = (
        Figure("first", "dark_first_rate", by="nothing", hue="attribute"),
        Figure("scores", "score_share", x="score", hue="nothing", col="attribute"),
    )

    nothing: Sequence[Nothing] = NOTHINGS
    asks: Sequence[Literal["pairs", "scores"]] = field(default=("pairs", "scores"), kw_only=True)
    n_candidates: int | None = field(default=1, kw_only=True)
    names: tuple[str, str] = field(default=("GPT-4", "Llama 2"), kw_only=True)
    template: Literal[1, 2] = field(default=1, kw_only=True)
    scale: str = field(default="1-5", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.names) != 2 or len({*map(str.strip, self.names), ""}) != 3:
            raise InputError("names", self.names, "two different names")
        find_scale(self.scale)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan content-free pairs, and scores of content-free texts and of the text itself."""
        attributes = dataset.require_attributes(self.attributes)
        first: set[str] = set()
        for item in drawn_items(dataset, self.n_candidates, self.seed):
            variants = [kind for kind in self.nothing if kind != "empty" or item.context_id not in first]
            first.add(item.context_id)
            shown = {kind: _shown(item, kind, self.seed) for kind in variants}
            if "pairs" in self.asks:
                for (kind, both), attribute in product(shown.items(), attributes):
                    yield from self._compare(dataset, item, attribute, kind, both)
            if "scores" in self.asks:
                single = {str(kind): both[0] for kind, both in shown.items() if kind in ("empty", "shuffled")}
                for (name, text), attribute in product({_WHOLE: item.text, **single}.items(), attributes):
                    yield from self._score(dataset, item, attribute, name, text)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics of each kind of content-free input: of pairs, then of scores."""
        for (asked, nothing), trials in each_cell(cell.trials, ("asked", "nothing")):
            if asked == "pair":
                at = {"nothing": nothing, "template": trials["template"].iloc[0], "scale": "", "score": np.nan}
                lost = int((~has_value(trials)).sum())
                warn_missing(cell.named(str(nothing)), lost, len(trials), "no verdict could be read")
                metrics = _of_pairs(trials, str(nothing), cell.resampling)
                yield cell.part(metrics, trials, at, partial(_extremes, trials))
            elif asked == "score":
                yield from self._of_scores(replace(cell, trials=trials), cell.trials, str(nothing))

    def _compare(
        self, dataset: Dataset, item: Item, attribute: str, kind: Nothing, both: tuple[str, str]
    ) -> Iterator[Trial]:
        """Yield the comparisons of two equal candidates."""
        pair = replace(item, text=both[0]), replace(item, text=both[1])
        for first, second in (self.names, self.names[::-1]) if kind == "named" else (("", ""),):
            condition = {"asked": "pair", "nothing": kind, "template": self.template, "named_first": first}
            edits = (first, second) if kind == "named" else () if kind == "identical" else (kind, kind)
            yield from self.ask_pair(dataset, self.template, attribute, pair, condition, (first, second), edits=edits)

    def _score(self, dataset: Dataset, item: Item, attribute: str, kind: str, text: str) -> Iterator[Trial]:
        """Yield the trial of a score, or of each label for an exact distribution."""
        shown, edit = replace(item, text=text), "" if kind == _WHOLE else kind
        question = Question.rate(dataset, shown, [attribute], find_scale(self.scale), edit=edit)
        how: Literal["text", "distribution"] = "text" if self.answer == "text" else "distribution"
        asking = AnswerSettings(how, self.replicates, self.temperature, seed=self.seed)
        condition: dict[str, Scalar] = {"nothing": kind, "named_first": ""}
        yield from question.trials(asking, {"asked": "score", **condition})
        if self.answer == "distribution":
            yield from question.label_trials({"asked": "label", **condition})

    def _of_scores(self, cell: Cell, everything: pd.DataFrame, nothing: str) -> Iterator[Part]:
        """Yield mean, drop and distribution of the scores of one kind of content-free text."""
        scores, scale = cell.trials, str(cell.trials["scale"].iloc[0])
        at: dict[str, Any] = {"nothing": nothing, "template": "", "scale": scale, "score": np.nan}
        read = usable(scores)
        mean = mean_of(read, read["value"], missing=because("no_readable_score", "no score was read"))
        yield Part({"dark_score": mean, "label_mass": label_mass(scores)}, scores, at)
        if nothing != _WHOLE and cell.wants("dark_score_drop"):
            both = everything[(everything["asked"] == "score") & everything["nothing"].isin([_WHOLE, nothing])]
            blocks = cell.blocks("nothing", [_WHOLE, nothing], (), both, nothing)
            width = scale_named(scale).high - scale_named(scale).low
            drop = mean_of(blocks, blocks[_WHOLE] - blocks[nothing], 0.0, (-width, width))
            yield Part({"dark_score_drop": drop}, blocks, at)
        if not cell.wants("score_share"):
            return
        labels = usable(everything[(everything["asked"] == "label") & (everything["nothing"] == nothing)])
        for score in sorted(scale_named(scale).values):
            answers = labels[labels["label"] == score] if len(labels) else read
            share = answers["value"] if len(labels) else (read["value"] == score).astype(float)
            metrics = {"score_share": mean_of(answers, share, None, (0.0, 1.0))}
            yield Part(metrics, scores, {**at, "score": float(score)})


def _of_pairs(trials: pd.DataFrame, nothing: str, resampling: Resampling) -> Metrics:
    """Return the metrics of pairs of equal candidates."""
    read = usable(trials)
    won = pairs.decisions(read)
    named = {"name_logit": partial(_name_log_odds, trials, resampling)} if nothing == "named" else {}
    return {
        **named,
        "dark_first_rate": pairs.first_position_rate(read["context_id"], won),
        "dark_first_logit": partial(dark_log_odds, trials, resampling),
        "tie_rate": pairs.tie_rate(read["context_id"], won),
        "label_mass": label_mass(trials),
    }


def _extremes(trials: pd.DataFrame) -> dict[str, tuple[Ratio, Ratio]]:
    """Return the rate with all missing verdicts for the second, and for the first."""
    both = (completed(trials, value) for value in (0.0, 1.0))
    least, most = (pairs.first_position_rate(each["context_id"], pairs.decisions(each)) for each in both)
    return {"dark_first_rate": (least, most)}


def _name_log_odds(trials: pd.DataFrame, resampling: Resampling) -> Estimate:
    """Return the log odds of the first name against the other, over both positions."""
    names = trials["named_first"].drop_duplicates().tolist()
    read = usable(trials)
    both = read.groupby(["context_id", "candidate_id", "replicate"])["value"].transform("size") == len(names)
    whole = read[both]
    sign, p = np.where(whole["named_first"] == names[0], 1.0, -1.0), whole["value"].to_numpy(float)
    if is_counted(whole):
        verdicts = pd.DataFrame({"context_id": whole["context_id"], "won": p, "first": 1.0, "name": sign})
        logit = logistic_model(verdicts, "won", ["first", "name"], resampling)["name"]
    else:
        missing = because("no_text_in_all_positions", "no text was judged with both names in both positions")
        logit = mean_of(whole, sign * log_odds(p), 0.0, missing=missing, inference="t").estimate(resampling)
    return logit.noted(" against ".join(map(str, names)))


def _shown(item: Item, kind: Nothing, seed: int) -> tuple[str, str]:
    """Return the texts to show first and second."""
    if kind in ("identical", "named"):
        return item.text, item.text
    if kind == "empty":
        return "", ""
    words = np.array(item.text.split(), object)
    rng = draw_of(seed, f"{item.context_id}\0{item.candidate_id}")
    one, two = (" ".join(rng.permutation(words)) for _ in range(2))
    return one, two
