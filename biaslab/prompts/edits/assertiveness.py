"""Assertiveness: how sure a text sounds of what it says."""

import re

from biaslab.prompts.edits._sentences import split
from biaslab.prompts.edits.base import edit

_SOURCE = "Hosking et al. 2024, Human Feedback is not Gold Standard; Zhou et al. 2026, JudgeBiasBench (assertiveness)"
_END = re.compile(r"(?<=[a-z0-9)])(?<!\.[a-z])\.(?=\s*$)")
_HEDGE = "perhaps|maybe|possibly|probably|presumably|apparently|arguably|somewhat|in my opinion|it seems that|I think"
_HEDGES = re.compile(rf",? \b(?:{_HEDGE})\b,?(?=[ .;!?])")


@edit(source=_SOURCE)
def hedged(text: str) -> str:
    """Put a hedge at the end of every statement."""
    return "".join(_END.sub(", I think.", part) for part in split(text))


@edit(source=_SOURCE)
def assertive(text: str) -> str:
    """Say at the end of every statement that it is beyond doubt."""
    return "".join(_END.sub(", without any doubt.", part) for part in split(text))


@edit(source=_SOURCE)
def unhedged(text: str) -> str:
    """Take out the hedges that stand within sentences."""
    return _HEDGES.sub("", text)
