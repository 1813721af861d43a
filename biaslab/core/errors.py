"""The hierarchy of errors that biaslab raises on purpose.

::

    BiaslabError
    ├── InputError (also a ValueError)    a parameter, name or column is invalid
    │   ├── DatasetError                  a data set breaks the schema: names row and column
    │   └── TrialsError                   a trials or estimates frame lacks required content
    │       └── UnreadableLogError        more than half of a log gives no judgement
    ├── JudgeError                        a judge cannot answer; carries the request
    │   ├── UnsupportedRequestError       the judge does not answer this kind of request
    │   ├── PromptTooLongError            the prompt does not fit the context window
    │   ├── CutOffError                   replies end before their answer: a model that reasons needs more room
    │   ├── UnlabelledRepliesError        the first replies hold no label; quotes three of them
    │   ├── ModelLoadError                the model could not be loaded
    │   ├── ServerError                   a server refused, failed or answers nonsense; carries its status
    │   │   └── UnreachableError          there is no server, or it has gone
    │   └── OutOfMemoryError              one single request does not fit in memory
    ├── StoreError                        the store cannot be used; carries its path
    │   ├── ForeignStoreError             the file is something else, and was not modified
    │   └── CorruptStoreError             the file is a damaged store, and was not modified
    ├── BudgetExceededError               it is spent, with all answers stored, or too small to start
    ├── NotebookError                     a notebook failed while figures were regenerated
    ├── OutputError                       a file cannot be written, such as when the disk is full
    └── MissingDependencyError            an optional package is needed and not installed

    MissingDataWarning (a UserWarning)    more than 5 % of the judgements of a metric are missing
    SharedRequestsWarning (a UserWarning) contexts share requests, so they are resampled as one cluster
    RepeatedTextsWarning (a UserWarning)  contexts have the same text, so they are not independent
    ModelChangedWarning (a UserWarning)   a server says that it runs another model than before
    NearestDesignWarning (a UserWarning)  a judge refuses what was planned, and is asked the nearest that it can answer
    InexactLabelsWarning (a UserWarning)  a server's label probabilities depend on the order of requests, or contradict
                                          its texts

A message gives the name, the bad value or the problem, what is allowed and the remedy; the same facts are attributes.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from biaslab.core import Request

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


class BiaslabError(Exception):
    """Base of all errors raised on purpose; pickling keeps message and attributes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__new__, (type(self), *self.args), self.__dict__  # `__init__` would write the message again


class InputError(BiaslabError, ValueError):
    """A parameter, name or column is invalid.

    Parameters
    ----------
    name : str
        The parameter, column or option at fault.
    value : object
        The value that was refused.
    allowed : str
        What is allowed.
    remedy : str, optional
        What to do.

    Examples
    --------
    >>> str(InputError("level", 95, "a number between 0 and 1", "write 0.95"))
    'level is 95, allowed: a number between 0 and 1; write 0.95'
    """

    def __init__(self, name: str, value: object, allowed: str, remedy: str = "") -> None:
        self.name, self.value, self.allowed, self.remedy = name, value, allowed, remedy
        super().__init__(f"{name} is {_short(value)}, allowed: {allowed}" + (f"; {remedy}" if remedy else ""))

    @classmethod
    def plain(cls, sentence: str) -> Self:
        """Return an error with a message of its own, where the user wrote no value that could be quoted.

        Examples
        --------
        >>> str(InputError.plain("trials has no rows, expected: at least one comparison"))
        'trials has no rows, expected: at least one comparison'
        """
        error = cls.__new__(cls, sentence)
        error.name, error.value, error.allowed, error.remedy = "", None, "", ""
        return error


class DatasetError(InputError):
    """A data set violates the schema; the name gives row and column."""


class TrialsError(InputError):
    """A trials or estimates frame lacks required content."""


class UnreadableLogError(TrialsError):
    """More than half of a log could not be read, so the rest supports no finding."""


class JudgeError(BiaslabError):
    """A judge cannot answer.

    Parameters
    ----------
    reason : str
        What went wrong.
    request : Request, optional
        The request that could not be answered.
    remedy : str, optional
        What to do.
    """

    def __init__(self, reason: str, request: Request | None = None, *, remedy: str = "") -> None:
        self.reason, self.request, self.remedy = reason, request, remedy
        super().__init__(f"{reason}; {remedy}" if remedy else reason)


class UnsupportedRequestError(JudgeError):
    """The judge does not answer this kind of request."""


class PromptTooLongError(JudgeError):
    """The prompt does not fit the judge's context window; prompts are never truncated."""


class CutOffError(JudgeError):
    """Most of the first replies were cut off before the answer: a reasoning model needs a larger token limit."""


class UnlabelledRepliesError(JudgeError):
    """None of the first replies of a study holds a label, or most are refused or unparsable; quotes three of them."""


class ModelLoadError(JudgeError):
    """The model could not be loaded."""


class ServerError(JudgeError):
    """A server rejected a request permanently, or failed more often than allowed.

    Parameters
    ----------
    reason : str
        What went wrong. Never contains the API key.
    request : Request, optional
        The request that could not be answered.
    remedy : str, optional
        What to do.
    status : int, optional
        The HTTP status, if there was one.
    words : str, optional
        The message of the server, if it sent one.
    """

    def __init__(
        self, reason: str, request: Request | None = None, *, remedy: str = "", status: int | None = None,
        words: str = "",
    ) -> None:  # fmt: skip
        self.status, self.words = status, words
        super().__init__(reason, request, remedy=remedy)


class UnreachableError(ServerError):
    """There is no server, or it has gone: every further request would fail too."""


class OutOfMemoryError(JudgeError):
    """A single request does not fit in memory, so halving the batch does not help.

    Parameters
    ----------
    reason : str
        What went wrong.
    request : Request, optional
        The request that could not be answered.
    remedy : str, optional
        What to do.
    index : int
        Index of the sequence in the batch that did not fit; the judge maps it to the request.
    """

    def __init__(self, reason: str, request: Request | None = None, *, remedy: str = "", index: int = 0) -> None:
        self.index = index
        super().__init__(reason, request, remedy=remedy)


class StoreError(BiaslabError):
    """A store cannot be used.

    Parameters
    ----------
    message : str
        What went wrong and what to do.
    path : str or Path
        The store's file.
    """

    def __init__(self, message: str, path: str | Path) -> None:
        self.path = Path(path)
        super().__init__(message)


class ForeignStoreError(StoreError):
    """The file is not a biaslab store; it was not modified."""


class CorruptStoreError(StoreError):
    """The file is a damaged biaslab store; it was not modified."""


class BudgetExceededError(BiaslabError):
    """The budget is spent (all replies so far are stored), or does not cover the run (nothing was asked).

    Parameters
    ----------
    reason : str
        What went wrong.
    remedy, options : str, optional
        What to do, in Python and on the command line.
    """

    def __init__(self, reason: str, remedy: str = "", options: str = "") -> None:
        self.reason, self.remedy, self.options = reason, remedy, options or remedy
        super().__init__("; ".join(filter(None, (reason, remedy))))


class NotebookError(BiaslabError):
    """A notebook failed while regenerating figures."""


class OutputError(BiaslabError):
    """A file cannot be written, for example because the disk is full; the previous version is unchanged.

    Parameters
    ----------
    path : str or Path
        The file.
    error : OSError
        The cause.

    Examples
    --------
    >>> print(OutputError("estimates.csv", OSError(28, "No space left on device")))
    cannot write estimates.csv (No space left on device); free some space, or use another file
    """

    def __init__(self, path: str | os.PathLike[str], error: OSError) -> None:
        self.path = Path(path)
        why = error.strerror or str(error)
        super().__init__(f"cannot write {path} ({why}); free some space, or use another file")


class MissingDependencyError(BiaslabError, ImportError):
    """A required optional package is not installed."""


class MissingDataWarning(UserWarning):
    """More than 5 % of the judgements of a metric are missing, which may bias its estimate.

    Parameters
    ----------
    facts : str
        The metric, how many judgements are missing, and why.
    consequence : str
        What this may do to the estimate.
    """

    def __init__(self, facts: str, consequence: str = "") -> None:
        super().__init__("; ".join(filter(None, (facts, consequence))))
        self.facts = facts


class SharedRequestsWarning(UserWarning):
    """Contexts share requests and are therefore not independent: they count as one cluster."""


class RepeatedTextsWarning(UserWarning):
    """Contexts have the same text and are therefore not independent, unless they are clustered."""


class ModelChangedWarning(UserWarning):
    """A server reports another model, or another build of it, than before."""


class NearestDesignWarning(UserWarning):
    """A judge refuses a design and is asked the nearest one that it can answer."""


class InexactLabelsWarning(UserWarning):
    """A server's log-probabilities depend on the order of requests, or contradict its texts.

    In the first case labels are read from its top tokens; `biaslab.Reply.unseen` and `biaslab.Reply.bounded` hold the
    resulting bounds, as for any other server.
    """


def _short(value: object, limit: int = 120) -> str:
    if hasattr(value, "columns") and hasattr(value, "shape"):  # a frame, whose repr would fill the page
        rows, columns = value.shape
        return f"a {type(value).__name__} of {rows} rows and {columns} columns"
    text = " ".join(repr(value).split()) if hasattr(value, "shape") else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def warn(message: str | Warning, category: type[Warning]) -> None:
    """Warn at the calling line outside biaslab, whatever the depth of the call stack."""
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - before Python 3.12 warnings cannot skip a package by themselves
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
