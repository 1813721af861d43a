"""Where the sentences and lines of a text end, for edits that work on sentences."""

import re
from itertools import pairwise

_TITLES = "".join(rf"(?<!\b{title})" for title in ("Mr", "Ms", "Mrs", "Dr", "St", "Prof", "[A-Z]"))
_END = re.compile(rf"{_TITLES}[.!?][\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])|\n+")


def split(text: str) -> list[str]:
    """Cut a text behind each sentence and line; joined, the pieces are the text again.

    Examples
    --------
    >>> split("Rain fell. Mr. Hale ran.")
    ['Rain fell. ', 'Mr. Hale ran.']
    """
    cuts = [0, *(found.end() for found in _END.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts) if start < end]
