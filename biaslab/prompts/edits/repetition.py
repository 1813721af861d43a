"""Repetition in place of an answer."""

from biaslab.prompts.edits._sentences import split
from biaslab.prompts.edits.base import edit

_SOURCE = "Zheng et al. 2023, MT-Bench, §3.3 (repetitive list); Park et al. 2024, OffsetBias, §3 (EvalBiasBench)"


@edit(source=_SOURCE, quality="lowered", reads="context")
def question_repeated(context: str) -> str:
    """Give the question, or the source, back as the answer."""
    return context.strip()


@edit(source=_SOURCE, quality="lowered")
def first_sentence_repeated(text: str) -> str:
    """Say the first sentence three times, and nothing else."""
    first = next((part.strip() for part in split(text) if part.strip()), "")
    return " ".join([first] * 3) if first else text
