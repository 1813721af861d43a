"""Source labels: who is said to have written it, rightly or wrongly."""

import zlib

from biaslab.prompts.edits.base import constant, edit

_SOURCE = (
    "Panickssery et al. 2024, LLM Evaluators Recognize and Favor Their Own Generations (labels right, wrong, random); "
    "Germani & Spitale 2025, Source framing triggers systematic bias in large language models"
)
_LABELS = {"own": "written by yourself", "other": "written by another AI model", "human": "written by a human"}

own, other, human = (constant(f"source_{who}", label, f"Say: {label}.", _SOURCE) for who, label in _LABELS.items())


@edit(source=_SOURCE, place="heading")
def source_random(text: str) -> str:
    """Draw one of the labels own, other and human; the same whenever the text is the same."""
    return sorted(_LABELS.values())[zlib.crc32(text.encode("utf-8", "replace")) % len(_LABELS)]
