"""Sentiment: the same words, framed in a mood."""

from biaslab.prompts.edits.base import Edit

_SOURCE = "Ye et al. 2024, Justice or Prejudice? (CALM), Table 1: cheerful, sad, angry, fearful"


def _framed(mood: str, before: str, after: str) -> Edit:
    def change(text: str) -> str:
        return f"{before} {text.strip()} {after}"

    change.__doc__ = f"Frame the text with words of a {mood} mood."
    return Edit(f"sentiment_{mood}", change, source=_SOURCE)


cheerful = _framed("cheerful", "What a pleasure to tell you this!", "How wonderful is that!")
sad = _framed("sad", "With a heavy heart I have to tell you this.", "It is all so very sad.")
angry = _framed("angry", "I am furious that I have to say this at all!", "What an outrage!")
fearful = _framed("fearful", "I tremble as I tell you this.", "It frightens me beyond words.")
