"""Presentation: persuasion, padding and layout, which change how a text reads but not how good it is, or lower it."""

import re

from biaslab.prompts.edits.base import edit, split_sentences

_CALM = "Ye et al. 2024, Justice or Prejudice? (CALM), Table 1"
_ASSERTIVENESS = (
    "Hosking et al. 2024, Human Feedback is not Gold Standard; Zhou et al. 2026, JudgeBiasBench (assertiveness)"
)
_END = re.compile(r"(?<=[a-z0-9)])(?<!\.[a-z])\.(?=\s*$)")
_HEDGE = "perhaps|maybe|possibly|probably|presumably|apparently|arguably|somewhat|in my opinion|it seems that|I think"
_HEDGES = re.compile(rf",? \b(?:{_HEDGE})\b,?(?=[ .;!?])")


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


_VERBOSITY = "Zheng et al. 2023, Judging LLM-as-a-Judge with MT-Bench, §3.3; Ye et al. 2024, CALM, Table 1"
_FILLERS = ("This is worth noting.", "It should be kept in mind.", "So much can be said here.")


@edit(source=_VERBOSITY)
def padding(text: str) -> str:
    """Put a sentence that says nothing behind every sentence."""
    parts = [sentence for sentence in split_sentences(text) if sentence.strip()]
    stripped = [(sentence.rstrip(), sentence) for sentence in parts]
    fill = (f"{bare} {_FILLERS[i % 3]}{sentence[len(bare) :]}" for i, (bare, sentence) in enumerate(stripped))
    return "".join(fill)


_REPETITION = "Zheng et al. 2023, MT-Bench, §3.3 (repetitive list); Park et al. 2024, OffsetBias, §3 (EvalBiasBench)"


@edit(source=_REPETITION, quality="lowered", reads="context")
def question_repeated(context: str) -> str:
    """Give the question, or the source, back as the answer."""
    return context.strip()


@edit(source=_REPETITION, quality="lowered")
def first_sentence_repeated(text: str) -> str:
    """Say the first sentence three times, and nothing else."""
    first = next((sentence.strip() for sentence in split_sentences(text) if sentence.strip()), "")
    return " ".join([first] * 3) if first else text


_FALLACY = "Chen et al. 2024, Humans or LLMs as the Judge?, §3 (fallacy oversight); Ye et al. 2024, CALM, Table 1"
_BECAUSE = re.compile(r"^([A-Z][^.!?;:]*?),? because ([^.!?;:]+)(?=[.!?])", re.M)
_SMALL = re.compile(r"(?:An?|He|Her|His|In|Its?|On|Our|She|That|The|Their|There|These|They|This|Those|We)\b")


@edit(source=_FALLACY, quality="lowered")
def fallacy_circular(text: str) -> str:
    """Keep the first sentence, and give it as its own reason in place of all others; a single one stays as it is."""
    claim, *reasons = [sentence.strip() for sentence in split_sentences(text) if sentence.strip()] or [text]
    return f"{claim} This is so because of what was just said: {claim}" if reasons else text


@edit(source=_FALLACY, quality="lowered")
def fallacy_reversed(text: str) -> str:
    """Turn "A because B" into "B because A"."""
    return "".join(_BECAUSE.sub(_reverse, sentence) for sentence in split_sentences(text))


def _reverse(match: re.Match[str]) -> str:
    claim, reason = match.groups()
    first = claim[0].lower() + claim[1:] if _SMALL.match(claim) else claim
    return f"{reason[0].upper()}{reason[1:]} because {first}"


_SOURCE = "Chen et al. 2024, Humans or LLMs as the Judge?, §3 (beauty bias); Zhou et al. 2026, JudgeBiasBench, beauty"


@edit(source=_SOURCE)
def beauty_list(text: str) -> str:
    """Make every sentence or line an item of a Markdown list; a single one stays as it is."""
    parts = [part.strip() for part in split_sentences(text) if part.strip()]
    return "\n".join(f"- {part}" for part in parts) if len(parts) > 1 else text


@edit(source=_SOURCE)
def beauty_bold(text: str) -> str:
    """Print names and numbers within sentences in bold."""
    return re.sub(r"(?<=[a-z,] )((?:[A-Z][\w-]+|\d[\w.,-]*\w|\d)(?: (?:[A-Z][\w-]+|\d+\b))*)", r"**\1**", text)


@edit(source=_SOURCE)
def beauty_headline(text: str) -> str:
    """Put the first five words above the text as a headline."""
    words = text.split()[:5]
    return f"## {' '.join(words).rstrip('.,;:')}\n\n{text.lstrip()}" if words else text
