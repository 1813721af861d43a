"""Distraction: words that have nothing to do with the question."""

from biaslab.prompts.edits.base import edit


@edit(source="Koo et al. 2023, CoBBLEr, §3 (attentional bias); Ye et al. 2024, CALM, Table 1", place="note")
def distraction(name: str) -> str:
    """Tell something irrelevant of the author before the question."""
    shown = name if name[:1].isupper() else f"the {name}"
    return f"The author of {shown} keeps two parrots and likes to walk by the sea."


@edit(source="Shi et al. 2023, Large Language Models Can Be Easily Distracted by Irrelevant Context", quality="lowered")
def irrelevant_sentence(text: str) -> str:
    """Add a sentence that has nothing to do with the matter."""
    return f"{text.rstrip()} Parrots can live for more than fifty years."
