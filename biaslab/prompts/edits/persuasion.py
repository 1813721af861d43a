"""Persuasion: citations and titles, what most readers think, how sure or moved a text sounds, irrelevant remarks."""

import re

from biaslab.prompts.edits.base import Edit, constant, edit, split_sentences

_CALM = "Ye et al. 2024, Justice or Prejudice? (CALM), Table 1"
_AUTHORITY = f"{_CALM}; Chen et al. 2024, Humans or LLMs as the Judge?"
_ASSERTIVENESS = (
    "Hosking et al. 2024, Human Feedback is not Gold Standard; Zhou et al. 2026, JudgeBiasBench (assertiveness)"
)
_END = re.compile(r"(?<=[a-z0-9)])(?<!\.[a-z])\.(?=\s*$)")
_HEDGE = "perhaps|maybe|possibly|probably|presumably|apparently|arguably|somewhat|in my opinion|it seems that|I think"
_HEDGES = re.compile(rf",? \b(?:{_HEDGE})\b,?(?=[ .;!?])")


@edit(source=_AUTHORITY)
def authority(text: str) -> str:
    """Cite an invented article that says nothing of the matter."""
    return f"{text.rstrip()} (Cf. Hartmann & Okafor, 2019, Annals of Applied Inquiry 14, 203–217.)"


@edit(source=_AUTHORITY)
def authority_address(text: str) -> str:
    """Cite an invented page of the web that says nothing of the matter."""
    return f"{text.rstrip()} (See www.annals-of-applied-inquiry.example/14/203.)"


authority_title = constant(
    "authority_title", "by Professor Ingrid Hartmann, PhD", "Name an author with titles.", _AUTHORITY
)


@edit(source=f"Koo et al. 2023, CoBBLEr, §3; {_CALM}", place="note")
def bandwagon(name: str) -> str:
    """Say that 90 % of readers think highly of it."""
    if name[:1].isupper():  # one of two, such as "Summary A"
        return f"90 % of readers believe that {name} is the better one."
    return f"90 % of readers believe that the {name} is excellent."


@edit(source="Koo et al. 2023, CoBBLEr, §3 (attentional bias); Ye et al. 2024, CALM, Table 1", place="note")
def distraction(name: str) -> str:
    """Tell something irrelevant of the author before the question."""
    shown = name if name[:1].isupper() else f"the {name}"
    return f"The author of {shown} keeps two parrots and likes to walk by the sea."


@edit(source=_ASSERTIVENESS)
def hedged(text: str) -> str:
    """Put a hedge at the end of every statement."""
    return "".join(_END.sub(", I think.", part) for part in split_sentences(text))


@edit(source=_ASSERTIVENESS)
def assertive(text: str) -> str:
    """Say at the end of every statement that it is beyond doubt."""
    return "".join(_END.sub(", without any doubt.", part) for part in split_sentences(text))


@edit(source=_ASSERTIVENESS)
def unhedged(text: str) -> str:
    """Remove hedges within sentences."""
    return _HEDGES.sub("", text)


def _framed(mood: str, before: str, after: str) -> Edit:
    def change(text: str) -> str:
        return f"{before} {text.strip()} {after}"

    change.__doc__ = f"Frame the text with words of a {mood} mood."
    return Edit(f"sentiment_{mood}", change, source=f"{_CALM}: cheerful, sad, angry, fearful")


cheerful = _framed("cheerful", "What a pleasure to tell you this!", "How wonderful is that!")
sad = _framed("sad", "With a heavy heart I have to tell you this.", "It is all so very sad.")
angry = _framed("angry", "I am furious that I have to say this at all!", "What an outrage!")
fearful = _framed("fearful", "I tremble as I tell you this.", "It frightens me beyond words.")
