"""What a judge refuses, asked as near to it as the judge can answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from biaslab.core import Adaptable, Design, Given, Judge, Request
from biaslab.core.errors import JudgeError, UnreachableError, UnsupportedRequestError
from biaslab.study.collecting.walk import Walk
from biaslab.study.collecting.windows import window_size, windows
from biaslab.study.spending.cost import unanswered

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.store.trials import TrialsFile


@dataclass
class Asked:
    """A design as it was asked in the end.

    Parameters
    ----------
    walk : Walk
        Asks it; its ``attrs`` say what is asked otherwise, and why.
    collect : callable
        `biaslab.collect`, for what the embedded model is asked first.
    """

    walk: Walk
    collect: Callable[..., Any]
    otherwise: list[str] = field(default_factory=list)
    name: str = ""

    def trials(self, probe: Design) -> pd.DataFrame | TrialsFile:
        """Ask what a design plans or, where the judge refuses that, the nearest one that it answers."""
        self.name = self.name or probe.name
        if self.otherwise:
            self.walk.attrs["otherwise"] = f"{self.name} {' and '.join(self.otherwise)}"
        try:
            return self.walk.trials(probe)
        except (UnsupportedRequestError, UnreachableError) as error:
            other = self._other(probe, error)
            if other is None:
                raise
            try:
                return self.trials(other)
            except UnsupportedRequestError as last:
                raise error from last  # the first one says what was wanted

    def _other(self, probe: Design, error: JudgeError) -> Design | None:
        """Return the nearest design without what was refused; where no server answers only one that is stored."""
        found = probe.nearest(error.request) if isinstance(probe, Adaptable) and error.request is not None else None
        if found is None:
            return None
        if self.walk.judge.reads_prompts:
            self.otherwise.append(f"{found.words} ({_reason(error)})")
        walk, other = self.walk, found.design
        if found.reads is not None:
            read = self.collect(found.reads, _reader(), walk.dataset, walk.kept, not walk.bar.disable)
            other = other.given(read, walk.dataset) if isinstance(other, Given) else other
        if isinstance(error, UnreachableError):
            left = self._first_unanswered(other)
            return other if left is None else self._other(other, UnreachableError(str(error), left))
        return other

    def _first_unanswered(self, design: Design) -> Request | None:
        for window in windows(design.design(self.walk.dataset), window_size(self.walk.judge)):
            left = unanswered(self.walk.judge, [trial.request for trial in window], self.walk.kept)
            if left:
                return left[0]
        return None


@cache
def _reader() -> Judge:
    """Return the embedded model, which reads texts for judges that give no probabilities of them."""
    from biaslab.judges import load_judge

    return load_judge("smollm2-135m")


def _reason(error: JudgeError) -> str:
    """Return why a judge refuses, without remedy and without the candidate at which that turned out."""
    said = error.__cause__ if isinstance(error.__cause__, JudgeError) else error
    return str(said).partition("; ")[0]
