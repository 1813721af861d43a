"""Positional bias in lists: does a judge of k candidates prefer some positions? (Tang et al. 2024; Sun et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from biaslab.core.checks import require_sampling
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Nearest
from biaslab.core.metrics import Comparison, Figure, Metric, planted
from biaslab.core.output import AnyPath, percent
from biaslab.core.requests import EACH_ALONE, About, Completion, Rank, Request
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.ranking import lists
from biaslab.measures.ranking.lists import LIST, ListBlocks, balanced_orders, list_blocks
from biaslab.probes.base.probe import LABEL_MASS, Cell, Metrics, Part, Probe, settle
from biaslab.probes.base.questions import NO_PROMPT, VerdictAnswer, draw_of
from biaslab.prompts.protocols import Protocol, list_protocol
from biaslab.stats.estimate import because, by_construction
from biaslab.stats.ratio import Ratio

_RANKED = "direct ranking"
_LONGEST = 20
#: No noise between contexts: with it, a judge that is fair in log odds would choose the first more than 1/k of the
#: time.
_PREFERS_FIRST = planted({"position": 0.6}, {"k": 3}, {"quality": 1.0, "noise": 1.0})
_FIRST_IN_LOGITS = replace(_PREFERS_FIRST, conservative=("text",))
_VERDICTS = Comparison("verdicts on lists", ("k",))
_OFTEN, _SELDOM = "picks a place more often than one in k", "picks a place less often than one in k"


def place_called_best(estimates: pd.DataFrame) -> str | None:
    """Say which place of the list wins most often, and how often; None without estimates."""
    rows = estimates[(estimates["metric"] == "place_rate") & estimates["estimate"].notna()]
    if rows.empty:
        return None
    most = rows.iloc[int(rows["estimate"].to_numpy().argmax())]
    where = f"{{judge}}: the candidate in place {most['place']:.0f} of {most['k']:.0f} is called best"
    return f"{where} in {percent(most['estimate'], 2)} of lists (fair: {percent(1 / most['k'], 2)})"


@dataclass(frozen=True)
class ListPosition(Probe):
    """Positional bias of a judge that sees k candidates at once and chooses the best or ranks them.

    Every list is shown in balanced orders: each candidate is once in each position (`biaslab.ranking.balanced_orders`).
    Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    k : int
        Candidates per list, 2 to 20. Contexts with more use k drawn at random; contexts with fewer are skipped.
    ranks : bool
        Ask for a ranking instead of the best candidate; the answer is then text.
    neighbours : bool
        Balance neighbours too, which takes twice as many orders if k is odd.
    answer : {"distribution", "text", "verdict"}
        Read the probability of each candidate's name, or generate and parse text; or show the texts to a judge that
        takes no prompt (`biaslab.core.Rank`).
    replicates : int
        With ``answer="text"``: samples of each request.
    temperature : float
        With ``answer="text"``: 0 is greedy; replicates are then equal.
    protocol : Protocol or path, optional
        Prompt and parser: a `biaslab.Protocol` of the form list, which also sets whether to ask for the best or a
        ranking. Its id is in the column ``template``.

    Raises
    ------
    InputError
        If a value is out of range, the protocol has another form, or no context has k candidates.

    Notes
    -----
    A trial is a candidate in its position in one order; its ``value`` is the probability that it is best (0 or 1 for
    text), or its rank. There is one estimate for each judge × data set × attribute × prompt × k, over lists with
    readable replies in all orders. Replies that omit, repeat or invent a candidate get a status, and their list is
    dropped and counted in ``n_dropped``.

    - ``first_place_excess`` — share of decisions for the candidate shown first, minus 1/k. −1/k to 1 − 1/k, null 0;
      above: primacy. Primary. An exact distribution decides for its likeliest candidate; each of several samples is a
      decision.
    - ``last_place_excess`` — the same for the last position. Null 0; above: recency.
    - ``first_place_logit`` — advantage of the first position over the others in log odds, independent of the
      candidates' quality. Null 0. From probabilities, a mean balanced by design; from decisions, Mantel-Haenszel with
      two orders of a list as stratum.
    - ``place_rank_correlation`` — for rankings: mean Spearman correlation of position and rank. −1 to 1, null 0; above:
      earlier candidates are ranked better.
    - ``same_best`` — share of pairs of orders with the same best candidate. 0–1.
    - ``resampling_same_best`` — its noise floor: how often two samples of one request agree. 0–1.
    - ``rank_consistency`` — for rankings: mean Kendall's τ between two orders. −1 to 1.
    - ``resampling_rank_consistency`` — its noise floor, between replicates. −1 to 1.
    - ``place_rate``, ``mean_rank`` — P(best | position), fair value 1/k, and the mean rank, for each ``place``.
    - ``label_mass`` — total probability of all labels. 0–1.

    With k = 2, the results equal those of `biaslab.probes.Position`.

    **Inference.** Clustered by context. ``first_place_excess``, ``last_place_excess``, ``first_place_logit`` and
    ``place_rank_correlation``: t tests. Everything else: bootstrap intervals.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> judge = bl.SimulatedJudge(data, quality=1.0, position=0.8)
    >>> probe = ListPosition(["coherence"], k=4)
    >>> trials = bl.collect(probe, judge, data, progress=False)
    >>> round(float(probe.estimate(trials, ["first_place_logit"])["estimate"].item()), 2)
    0.8
    """

    name = "list_position"
    unprompted = frozenset({Rank})
    protocol_forms = ("list",)
    cell = ("judge", "dataset", "attribute", "template", "k")
    conditions = ("place",)
    columns = (*LIST, "label_mass")
    metrics = (
        Metric(
            "first_place_excess",
            "decisions for the first place less 1/k",
            "share",
            null=0.0,
            above="prefers the candidate shown first",
            below="avoids the candidate shown first",
            advice="ask every list in balanced orders and average",
            use="lists shown in one order only",
            matters=0.05,
            primary=True,
            calibration=_PREFERS_FIRST,
            comparison=_VERDICTS,
        ),
        Metric(
            "last_place_excess",
            "decisions for the last place less 1/k",
            "share",
            null=0.0,
            above="prefers the candidate shown last",
            below="avoids the candidate shown last",
            matters=0.05,
            comparison=_VERDICTS,
        ),
        Metric("first_place_logit", "advantage of the first place", "logits", null=0.0, calibration=_FIRST_IN_LOGITS),
        Metric("place_rank_correlation", "correlation of place and rank", "correlation", null=0.0),
        Metric("same_best", "same best in two orders", "share", comparison=_VERDICTS),
        Metric("resampling_same_best", "same best in two samples of one request", "share"),
        Metric("rank_consistency", "Kendall's τ of two orders", "correlation", comparison=_VERDICTS),
        Metric("resampling_rank_consistency", "Kendall's τ of two samples of one request", "correlation"),
        Metric("place_rate", "P(best | place)", "share", above=_OFTEN, below=_SELDOM),
        Metric("mean_rank", "mean rank of a place", "rank"),
        LABEL_MASS,
    )
    figures = (Figure("place_rate", "place_rate", x="place", hue="attribute", col="k", says=place_called_best),)

    k: int = 4
    ranks: bool = False
    neighbours: bool = False
    answer: VerdictAnswer = field(default="distribution", kw_only=True)
    replicates: int = field(default=1, kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)
    protocol: Protocol | AnyPath | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol is None and self.ranks and self.answer == "distribution":
            settle(self, {"answer": "text"})
        if not 2 <= self.k <= _LONGEST:
            raise InputError("k", self.k, f"a whole number from 2 to {_LONGEST}")
        require_sampling(self.answer, self.replicates, self.temperature)

    @property
    def asking(self) -> Protocol:
        """The given protocol, or biaslab's own."""
        own = list_protocol(self.ranks, self.answer == "distribution")
        return self.protocol if isinstance(self.protocol, Protocol) else own

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, a verdict instead of text."""
        if isinstance(refused, Completion) and self.answer == "text":
            shown = replace(self, answer="verdict", protocol=None, replicates=1)
            return Nearest(shown, "shows the texts without a prompt")
        return super().nearest(refused)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan each context's list in balanced orders, for each attribute and replicate."""
        attributes = dataset.require_attributes(self.attributes)
        groups = dataset.candidates.groupby("context_id", sort=False)["candidate_id"]
        lists = {str(context): list(names) for context, names in groups if len(names) >= self.k}
        if not lists:
            most = int(groups.size().max())
            raise InputError("k", self.k, f"at most {most}, the number of candidates in the largest context")
        for context_id, names in lists.items():
            chosen = draw_of(self.seed, context_id).permutation(len(names))[: self.k]
            orders = balanced_orders([sorted(names)[at] for at in chosen], self.neighbours)
            for attribute in attributes:
                for number, order in enumerate(orders):
                    for replicate in range(self.replicates):
                        yield from self._ask(dataset, attribute, context_id, order, number, replicate)

    def _ask(
        self, dataset: Dataset, attribute: str, context_id: str, order: tuple[str, ...], number: int, replicate: int
    ) -> Iterator[Trial]:
        """Yield a trial for each position in one order; they share a request."""
        rows = [dataset.rows[context_id, name] for name in order]
        texts, context = tuple(row["text"] for row in rows), rows[0]["context"]
        source = bool(context.strip())
        if self.answer == "verdict":
            about = About(context_id, order, texts, (attribute,), source)
            template = _RANKED if self.ranks else NO_PROMPT
            request: Request = Rank(texts, context, rows[0]["reference"], attribute, about)
        else:
            asking = self.asking
            template = asking.name if self.protocol is None else asking.id
            labels = asking.list_labels(self.k)
            source = source and "context" in asking.sources
            about = About(context_id, order, texts, (attribute,), source, labels, protocol=asking)
            shown = asking.show(dataset, attribute, context_id, order, texts)
            request = asking.request(shown, about, replicate, self.seed, self.answer == "distribution")
            if isinstance(request, Completion):
                request = replace(request, temperature=self.temperature)
        shared: dict[str, Scalar] = {"template": template, "k": self.k, "ranked": int(self.ranks), "list_order": number}
        for place, name in enumerate(order, 1):
            yield Trial(request, context_id, attribute, name, None, replicate, {**shared, "place": place})

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the trial's candidate is best, or its rank, and the status."""
        value, status = self._read(trial.request, reply)
        return value[int(trial.condition["place"] or 0) - 1], status

    def _read(self, request: Request, reply: Reply) -> tuple[tuple[float, ...], Status]:
        if not isinstance(request, Rank):
            return self.asking.read_list(reply, self.k)
        if reply.logprobs is not None:
            shares, status = list_protocol().read_list(reply, self.k)
            return (_ranks(shares) if self.ranks else shares), status
        if reply.text == "" or reply.text is None:
            return (math.nan,) * self.k, "refused"
        if self.ranks:
            return list_protocol(True).parse_list(reply.text, self.k)
        return replace(list_protocol(), choose="first").parse_list(reply.text, self.k)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metrics over all positions and, if no metric was named, some by position."""
        blocks = list_blocks(cell.trials, cell.what)
        counts = (blocks.n_trials, blocks.n_dropped)
        yield Part(self._metrics(cell, blocks), counts, {"place": np.nan})
        for place in range(blocks.k) if cell.everything else ():
            by_place: Metrics = {"place_rate": lists.place_rate(blocks, place)}
            if blocks.ranked:
                by_place["mean_rank"] = lists.mean_rank(blocks, place)
            yield Part(by_place, counts, {"place": place + 1})

    def _metrics(self, cell: Cell, blocks: ListBlocks) -> Metrics:
        metrics: Metrics = {
            "first_place_excess": lambda: lists.place_excess(blocks, 0, cell.resampling),
            "last_place_excess": lambda: lists.place_excess(blocks, -1, cell.resampling),
            "first_place_logit": lambda: lists.first_place_logit(blocks, cell.resampling),
            "same_best": lambda: lists.same_best(blocks),
            "resampling_same_best": lambda: lists.same_best_resampled(blocks),
            "label_mass": _label_mass(blocks),
        }
        if blocks.ranked:
            metrics["place_rank_correlation"] = lambda: lists.spearman_place_rank(blocks)
            metrics["rank_consistency"] = lambda: lists.rank_consistency(blocks)
            metrics["resampling_rank_consistency"] = lambda: lists.rank_consistency_resampled(blocks)
        if (cell.trials["template"] == EACH_ALONE).all() and len(blocks.context) and _is_free(blocks):
            n = len(set(blocks.context))
            words = f"each text is scored alone, so the order changes none of {len(blocks.context):,} lists"
            for name in ("first_place_excess", "last_place_excess", "first_place_logit"):
                metrics[name] = by_construction(0.0, n, words)
        return metrics


def _ranks(shares: tuple[float, ...]) -> tuple[float, ...]:
    """Return the rank of each share, 1 for the largest; ties get their mean rank."""
    values = np.array(shares)
    return tuple(np.sum(values > one) + (np.sum(values == one) + 1) / 2 for one in values)


def _is_free(blocks: ListBlocks) -> bool:
    """Return whether no candidate's value changes with its position."""
    values = blocks.by_candidate(blocks.value)
    return bool(np.allclose(values, values[:, :1], rtol=0, atol=1e-6))


def _label_mass(blocks: ListBlocks) -> Ratio:
    mass = blocks.label_mass.mean(axis=1)
    known = np.isfinite(mass)
    missing = because("text_answers", "answers are text")
    return Ratio(blocks.context, np.nan_to_num(mass), known, bounds=(0.0, 1.0), missing=missing)
