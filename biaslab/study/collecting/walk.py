"""The one walk of every study: design → ask → read → trials, window by window and round by round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from biaslab.core import BaseJudge, Design, Reply, Request, Trial, is_sequential, request_key
from biaslab.core.errors import InputError, JudgeError
from biaslab.store import Store
from biaslab.store.trials import TrialsFile
from biaslab.store.trials.column_types import Columns, Part
from biaslab.store.trials.writing import require_target, writing
from biaslab.study.collecting.first_walk import Plan, Survey, survey
from biaslab.study.collecting.judged import judged
from biaslab.study.collecting.windows import window_size, windows
from biaslab.study.spending.affordable import Charge
from biaslab.study.spending.announcement import Forecast
from biaslab.study.spending.budget import Budget
from biaslab.study.spending.cost import unanswered
from biaslab.study.spending.spent import Postfix, Spent

if TYPE_CHECKING:
    from tqdm import tqdm

    from biaslab.datasets import Dataset

_IS_KEPT = "kept if a store was given"


@dataclass
class Walk:
    """One run: who is asked about what, what it has spent so far, and where its trials go.

    Parameters
    ----------
    judge : BaseJudge
        Who is asked.
    dataset : Dataset
        What is judged.
    kept : Store, optional
        Where replies are kept.
    budget : Budget, optional
        What the run may spend.
    bar, postfix
        The progress bar, and what stands behind it.
    tells : bool
        Say what is going to be asked.
    out : path, optional
        The file of the trials, which then are in memory only as long as it takes.
    attrs : dict
        What is told of the trials; ``asked`` and ``stored`` are added.
    """

    judge: BaseJudge
    dataset: Dataset
    kept: Store | None
    budget: Budget | None
    bar: tqdm[Any]
    postfix: Postfix
    tells: bool = False
    out: str | PathLike[str] | None = None
    attrs: dict[str, Any] = field(default_factory=lambda: {"asked": 0, "stored": 0})
    models: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.source = self.judge if self.kept is None else self.kept.wrap(self.judge)
        self.spent = Spent(self.budget or Budget(), self.source)

    def trials(self, probe: Design) -> pd.DataFrame | TrialsFile:
        """Ask what a design plans, round by round."""
        self.bar.reset(total=0)
        self._requests = 0
        study = {"probe": probe.name, "judge": self.judge.id, "dataset": self.dataset.name}
        more, plan = is_sequential(probe), partial(probe.design, self.dataset)
        found = self._surveyed(probe, plan, begins=True)
        if not found.trials:
            raise InputError("probe", probe, "a design of at least one judgement", "give more contexts or candidates")
        replies = getattr(probe, "keeps_replies", False)
        columns = Columns(found.kinds, replies, found.first)
        target = None if self.out is None else require_target(self.out, columns, study, grows=more)
        self._begin(found)
        if target is not None and not more:
            with writing(target, columns, self.attrs) as file:
                for part in self._judged(probe, columns, study, found, plan):
                    file.write(part)
                self._tell()
            return TrialsFile(target)
        frames = [columns.frame(list(self._judged(probe, columns, study, found, plan)))]
        kinds = found.kinds
        while more:
            so_far = pd.concat(frames, ignore_index=True)
            plan = partial(probe.design, self.dataset, so_far)  # type: ignore[call-arg]
            found = self._surveyed(probe, plan, begins=False)
            if not found.trials:
                break
            self._begin(found)
            columns = Columns(found.kinds, replies, found.first)
            frames.append(columns.frame(list(self._judged(probe, columns, study, found, plan))))
            kinds = {name: kinds.get(name, set()) | found.kinds.get(name, set()) for name in {**kinds, **found.kinds}}
        frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
        self._tell()
        frame.attrs.update(self.attrs)
        if target is None:
            return frame
        whole = Columns(kinds, replies, [str(name) for name in frame.loc[:, :"replicate"]])
        with writing(target, whole, self.attrs) as file:
            file.write((pa.Table.from_pandas(frame[list(whole.names)], preserve_index=False), {}))
        return TrialsFile(target)

    def _tell(self) -> None:
        asked = self.spent.requests
        self.attrs |= {"asked": asked, "stored": max(self._requests - asked, 0)}

    def _surveyed(self, probe: Design, plan: Plan, begins: bool) -> Survey:
        """Walk through a design, and refuse it or say what it asks; nothing is asked yet."""
        charge = None if self.budget is None else Charge(self.budget, self.judge)
        forecast = Forecast(self.judge) if self.tells and begins else None
        asks = False

        def count(requests: list[Request], trials: list[Trial]) -> None:
            nonlocal asks
            missing = unanswered(self.judge, requests, self.kept)
            asks |= bool(missing)
            if charge is not None:
                charge.add(missing, trials)
            if forecast is not None:
                forecast.add(missing)

        counts = charge is not None or forecast is not None
        found = survey(plan, self.source, window_size(self.judge), count if counts else None)
        if charge is not None:
            self.spent.require(charge, asks, begins)
        if forecast is not None and forecast.requests:
            stored = found.requests - forecast.requests
            planned = forecast.announcement(stored, self.budget, is_sequential(probe))
            self.bar.write(f"{probe.name}: {planned}")
        return found

    def _begin(self, found: Survey) -> None:
        self._requests += found.requests
        self._answered, self._planned = 0, found.requests
        self.bar.total = (self.bar.total or 0) + found.requests

    def _judged(
        self, probe: Design, columns: Columns, study: Mapping[str, str], found: Survey, plan: Plan
    ) -> Iterator[Part]:
        """Ask and read a round, window by window."""
        again: dict[str, Reply] = {}
        for window in windows(plan(), window_size(self.judge)) if found.whole is None else [found.whole]:
            requests = list(dict.fromkeys([trial.request for trial in window]))
            shared = [each for each in requests if hash(each) in found.shared] if found.shared else []
            keys = {each: request_key(each, study["judge"]) for each in shared}
            replies = {each: again[key] for each, key in keys.items() if key in again}
            for part in self._affordable([each for each in requests if each not in replies] if replies else requests):
                self._ask(part, replies)
            if len(replies) < len(requests) or any(each not in replies for each in requests):
                raise JudgeError(f"the judge {self.judge.id!r} left requests unanswered")
            again |= {key: replies[each] for each, key in keys.items()}
            yield judged(probe, columns, study, window, replies)

    def _affordable(self, requests: list[Request]) -> Iterator[list[Request]]:
        """Cut requests so that none is asked, not even with others in one pack, that a budget does not have."""
        start = 0
        while start < len(requests):
            left = len(requests) if self.spent.budget.requests is None else self.spent.requests_left
            yield requests[start : start + left]
            start += left

    def _ask(self, requests: list[Request], replies: dict[Request, Reply]) -> None:
        """Ask some requests and add the replies."""
        with closing(self.source.packs(requests)) as packs:
            for pack in packs:
                replies.update(pack)
                arrived = [reply for _, reply in pack]
                self.models.update([reply.model for reply in arrived if reply.model is not None])
                self.spent.count(arrived)
                if self.spent.budget.prices is not None:
                    self.postfix.spent(self.spent.dollars())
                self.bar.update(len(pack))
                self._answered += len(pack)
                if self._answered < self._planned:
                    answered = f"{self._answered} of {self._planned} requests are answered"
                    self.spent.stop_at_limit(f"{answered}, and {_IS_KEPT}")
