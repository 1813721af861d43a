"""Content: padding, repetition, irrelevant sentences and fallacies; more words that say no more, or worse reasons."""

import re

from biaslab.prompts.edits.base import edit, split_sentences

_VERBOSITY = "Zheng et al. 2023, Judging LLM-as-a-Judge with MT-Bench, §3.3; Ye et al. 2024, CALM, Table 1"
_FILLERS = ("This is worth noting.", "It should be kept in mind.", "So much can be said here.")


@edit(source=_VERBOSITY)
def padding(text: str) -> str:
    """Put a sentence that says nothing behind every sentence."""
    parts = [sentence for sentence in split_sentences(text) if sentence.strip()]
    fill = (
        f"{sentence.rstrip()} {_FILLERS[i % 3]}{sentence[len(sentence.rstrip()) :]}" for i, sentence in enumerate(parts)
    )
    return "".join(fill)


@edit(source=_VERBOSITY)
def restating(text: str) -> str:
    """Say everything once more."""
    return f"{text.strip()} To say it once more: {text.strip()}"


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


@edit(source="Shi et al. 2023, Large Language Models Can Be Easily Distracted by Irrelevant Context", quality="lowered")
def irrelevant_sentence(text: str) -> str:
    """Add a sentence that has nothing to do with the matter."""
    return f"{text.rstrip()} Parrots can live for more than fifty years."


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
