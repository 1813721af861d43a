"""Screen a judge for the most common biases in one call, with the cost announced first."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core import Choice, Judge, as_judge, find_metric
from biaslab.core.checks import require_study
from biaslab.core.errors import BiaslabError, InputError, JudgeError, NearestDesignWarning
from biaslab.core.output import number
from biaslab.core.schema import Dataset
from biaslab.judges.function import judge_of
from biaslab.probes.base import Probe
from biaslab.probes.position import Position
from biaslab.report.card import Card
from biaslab.report.common_biases import Given, choose_probes, draw_texts
from biaslab.report.measuring import Measured, measure_all
from biaslab.report.summary import STATUS
from biaslab.report.wording import correction
from biaslab.stats import corrected
from biaslab.store import Store
from biaslab.study.spending.announcement import Announcement, foresee_all
from biaslab.study.spending.budget import Budget, budget_of
from biaslab.study.spending.cost import unanswered

#: Metrics printed below the biases: stability and decisiveness of the answers.
_ALSO_PRINTED = ("order_consistency", "resampling_consistency", "tie_rate", "sample_alpha")


@dataclass(frozen=True, eq=False)
class Screen:
    """Result of `screen`: JupyterLab shows the card, and ``print`` the findings.

    Attributes
    ----------
    estimates : pandas.DataFrame
        Estimates of all probes; q-values are over the tests of this screen.
    card : biaslab.report.Card
        The bias card.
    trials : pandas.DataFrame
        One row per judgement of any probe; columns that a probe lacks are empty. ``attrs`` has the numbers ``asked``
        and ``stored``, ``tokens`` and ``dollars``.
    planned : Announcement or None
        The planned requests; None if the store held all replies.
    """

    estimates: pd.DataFrame = field(repr=False)
    card: Card = field(repr=False)
    trials: pd.DataFrame = field(repr=False)
    planned: Announcement | None

    def __str__(self) -> str:
        rows = self.card.biases.to_dict("records")
        lines = [f"{row['probe']}, {row['label']}: {STATUS[row['status']][1]}: {row['verdict']}" for row in rows]
        lines += [f"also: {words}" for words in self._other_metrics()]
        lines += [f"{probe} not measured: {why}" for _, probe, why in self.card.unmeasured]
        lines += [words for _, _, words in self.card.otherwise]
        return "\n".join([*lines, f"“found” means q < .05 over {correction(self.card.cells)} on this card"])

    def _repr_html_(self) -> str:
        return self.card._repr_html_()

    def _other_metrics(self) -> Iterator[str]:
        shown = self.estimates[self.estimates["metric"].isin(_ALSO_PRINTED) & self.estimates["estimate"].notna()]
        for row in shown.drop_duplicates(["probe", "metric", "attribute"]).to_dict("records"):
            metric = find_metric(row["metric"], row["probe"])
            low, value, high = (number(row[name], 2) for name in ("ci_low", "estimate", "ci_high"))
            yield f"{row['probe']}, {metric.axis}, {row['attribute']}: {value} [{low}, {high}]"


def screen(
    judge: Judge | Callable[..., Any],
    dataset: Dataset,
    protocol: Given | Sequence[Given] | None = None,
    *,
    contexts: int = 24,
    candidates: int = 3,
    attributes: Sequence[str] | None = None,
    own: str | None = None,
    store: Store | str | PathLike[str] | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    progress: bool = True,
    say: Callable[[str], object] | None = None,
    reference: str | pd.DataFrame | None = "atlas",
) -> Screen:
    """Measure the most common biases: position, length, consistency, round numbers, self-preference.

    The judge determines what is measured. A judge that compares pairs (a pair protocol, a function of two texts) is
    asked about every pair of the drawn candidates in both orders; a judge that scores is asked for each candidate's
    score; a judge that does both is asked for both. Probes with the same request share one reply. The number of
    requests, their tokens and (if prices are known) their price are announced before the first request.

    Parameters
    ----------
    judge : Judge or function
        The judge. A function becomes a `biaslab.FunctionJudge`.
    dataset : Dataset
        The data to judge.
    protocol : Protocol, path, or sequence of them, optional
        Prompt and parser to use instead of biaslab's own: one for pairs, one for scores, or both. Only biases in these
        forms are measured.
    contexts : int
        Maximum number of contexts; uses the first ones.
    candidates : int
        Candidates per context, drawn at random; at least 2.
    attributes : sequence of str, optional
        Attributes to judge; default: the data set's first.
    own : str, optional
        The system of the data set that is the judge itself. Without it, self-preference is not measured.
    store : Store or path, optional
        Store of replies; default: a temporary one.
    budget : Budget, optional
        Budget for all probes together. The screen does not start if the budget does not cover it, unless the budget is
        ``partial``. Default: the judge's own limits and prices, if any.
    seed : int
        Random seed.
    progress : bool
        Show progress bars and announce the requests.
    say : callable, optional
        Receives the announcement and progress, one line at a time; default with ``progress``: standard error.
    reference : {"atlas"}, pandas.DataFrame or None
        Judges to compare with; see `biaslab.report.card`.

    Returns
    -------
    Screen
        With ``estimates``, ``card`` and ``trials``. The card lists what could not be measured, with the reason.

    Raises
    ------
    InputError
        If an argument is out of range, or two protocols have the same form.
    BudgetExceededError
        Before asking, if the budget does not cover the screen.
    BiaslabError
        If nothing could be measured; the message gives the first reason.

    Notes
    -----
    Scores use the scale 1-100, or that of the protocol. If the judge gives no label probabilities, each score is
    sampled three times; verdicts of a protocol are asked twice, unless its temperature is 0. A server is asked one
    question before the announcement, because only its reply shows whether it returns label probabilities.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded")
    >>> found = bl.screen(bl.SimulatedJudge(data, position=2.0, noise=1.0), data, progress=False)
    >>> found.card.biases.set_index("probe").loc["position", "status"]
    'bias'
    >>> found.planned.requests == found.trials.attrs["asked"]
    True
    """
    asked = judge_of(judge)
    require_study(Position(), asked, dataset)
    data = draw_texts(dataset, contexts, candidates, own, seed)
    probes, missing = choose_probes(asked, data, protocol, attributes, own, seed)
    measured = Measured(
        missing=missing, everything=True, say=say or (_write_line if progress else _ignore), progress=progress
    )
    with _store_path(store) as path, warnings.catch_warnings():
        warnings.simplefilter("ignore", NearestDesignWarning)  # shown on the card
        _see_how_it_answers(asked, probes, data, path)
        planned = measure_all(asked, probes, data, path, measured, budget or budget_of(asked))
    if not measured.frames:
        raise next(iter(measured.ended.values()), BiaslabError(f"nothing could be measured: {measured.missing[-1][2]}"))
    return _screened(measured, planned, reference)


def plan_screen(
    judge: Judge | Callable[..., Any],
    dataset: Dataset,
    protocol: Given | Sequence[Given] | None = None,
    *,
    contexts: int = 24,
    candidates: int = 3,
    attributes: Sequence[str] | None = None,
    own: str | None = None,
    store: Store | str | PathLike[str] | None = None,
    budget: Budget | None = None,
    seed: int = 0,
) -> Announcement | None:
    """Plan a `screen` with the same arguments: count its requests without asking.

    Assumes that a server returns label probabilities unless it is known not to.

    Returns
    -------
    Announcement or None
        Requests, tokens and price; prints as one line. None if the store holds all replies.

    Raises
    ------
    InputError, BudgetExceededError
        As in `screen`.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded")
    >>> planned = plan_screen(bl.SimulatedJudge(data), data, contexts=10, budget=bl.Budget(prices={"input": 1.0}))
    >>> planned.requests
    90
    """
    asked = judge_of(judge)
    require_study(Position(), asked, dataset)
    data = draw_texts(dataset, contexts, candidates, own, seed)
    probes, _ = choose_probes(asked, data, protocol, attributes, own, seed)
    with _store_path(store) as path:
        return foresee_all(probes, asked, data, path, budget or budget_of(asked))


def _see_how_it_answers(judge: Judge, probes: Sequence[Probe], data: Dataset, store: Path) -> None:
    """Ask a server one question for label probabilities, so that it is known whether it returns them."""
    server = as_judge(judge)
    if server.prices is None or server.asks:
        return
    with suppress(InputError, JudgeError), Store(store) as kept:
        designs = chain.from_iterable(probe.design(data) for probe in probes)
        first = next((trial.request for trial in designs if isinstance(trial.request, Choice)), None)
        if first is not None and unanswered(judge, [first], kept):
            list(kept.wrap(judge).ask([first]))


def _screened(measured: Measured, planned: Announcement | None, reference: str | pd.DataFrame | None) -> Screen:
    """Combine the results into a `Screen`."""
    frames = [frame.dropna(axis=1, how="all") for frame in measured.frames]
    estimates = pd.concat(frames, ignore_index=True).reindex(
        columns=list(dict.fromkeys(name for frame in measured.frames for name in frame))
    )
    trials = pd.concat(measured.trials, ignore_index=True)
    sums = {
        name: sum(each.attrs[name] for each in measured.trials) for name in ("asked", "stored", "tokens", "dollars")
    }
    trials.attrs.update(sums)
    return Screen(corrected(estimates), measured.card(reference), trials, planned)


@contextmanager
def _store_path(store: Store | str | PathLike[str] | None) -> Iterator[Path]:
    """Yield the path of the store, or of a temporary one."""
    if store is not None:
        yield Path(store.path if isinstance(store, Store) else store)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "judgements.sqlite"


def _write_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _ignore(line: str) -> None:
    """Discard a message."""
