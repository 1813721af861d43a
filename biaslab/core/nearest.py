"""Find the nearest design that a judge can answer when it refuses a request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from biaslab.core.protocols import Design
from biaslab.core.requests import Choice, Completion, Request

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.core.schema import Dataset


@dataclass(frozen=True)
class Nearest:
    """Another design for the same bias, without the requests that a judge refused.

    Parameters
    ----------
    design : Design
        The design to use instead.
    words : str
        How it differs, as a verb phrase that follows the name of the design: "reads text instead of …".
    reads : Design, optional
        The design for the embedded model, asked first; ``design`` is then `Given`, and receives its trials.
    omits : str
        What it leaves out, as such a phrase; unlike ``words``, also reported for judges that read no prompts.
    """

    design: Design
    words: str
    reads: Design | None = None
    omits: str = ""


@runtime_checkable
class Adaptable(Protocol):
    """Optional: the design has an alternative to requests that a judge refuses."""

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design without such requests; None if the bias cannot be measured without them."""


@runtime_checkable
class Given(Protocol):
    """Optional: the design continues from the trials of another model."""

    def given(self, read: pd.DataFrame, dataset: Dataset) -> Design:
        """Return the design with the trials of the other model."""


def reading_text(design: Any, refused: Request, **changes: object) -> Nearest | None:
    """Return the same design with ``answer="text"`` instead of label probabilities.

    Parameters
    ----------
    design : dataclass
        Has a parameter ``answer``.
    refused : Request
        A request that the judge refuses.
    **changes
        Further parameters to change.

    Returns
    -------
    Nearest or None
        None if the refused request is not a `Choice`, or the design already reads text.

    Examples
    --------
    >>> import biaslab as bl
    >>> nearest = reading_text(bl.probes.Position(), Choice("A or B?", ("A", "B")))
    >>> nearest.design.answer, nearest.words
    ('text', 'reads text instead of label probabilities')
    """
    if not isinstance(refused, Choice) or getattr(design, "answer", None) != "distribution":
        return None
    return Nearest(replace(design, answer="text", **changes), "reads text instead of label probabilities")


def ends_begun(request: Request) -> bool:
    """Return whether a request ends with the beginning of an answer.

    Examples
    --------
    >>> ends_begun(Choice([("user", "How good is it?"), ("assistant", "Score:")], ("1", "2")))
    True
    """
    return isinstance(request, Choice | Completion) and request.messages[-1].role == "assistant"
