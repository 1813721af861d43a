"""What a reader knows of the file it reads, beside the records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A file that is being read.

    Parameters
    ----------
    file : str
        Its name, within its archive or folder where it has one.
    score_pattern : str, optional
        The user's regular expression for scores in texts.
    """

    file: str
    score_pattern: str | None = None
