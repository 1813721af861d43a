"""Names that columns of tables of judgements usually have, and what the values of their verdicts mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

Tokens = tuple[str, ...]

#: Pairs of words that tell the first of two candidates from the second, in names of columns and in verdicts.
SIDES = (("a", "b"), ("1", "2"), ("0", "1"), ("first", "second"), ("left", "right"), ("one", "two"), ("x", "y"))
TEXT = frozenset(
    [
        "answer",
        "response",
        "output",
        "completion",
        "text",
        "summary",
        "candidate",
        "reply",
        "generation",
        "story",
        "translation",
        "essay",
        "message",
        "option",
        "choice",
        "content",
        "result",
    ]
)
SYSTEM = frozenset(["model", "system", "generator", "bot", "agent", "assistant", "engine", "writer", "author"])
VERDICT = frozenset(
    [
        "winner",
        "preference",
        "preferred",
        "verdict",
        "label",
        "judgment",
        "judgement",
        "decision",
        "choice",
        "vote",
        "pick",
        "selection",
        "better",
        "best",
        "chosen",
        "outcome",
    ]
)
SCORE = frozenset(["score", "scores", "rating", "ratings", "grade", "mark", "marks", "points", "stars"])
HUMAN = frozenset(
    [
        "human",
        "humans",
        "annotator",
        "annotators",
        "annotation",
        "expert",
        "experts",
        "crowd",
        "people",
        "gold",
        "worker",
        "workers",
        "turker",
        "turkers",
        "rater",
        "raters",
        "user",
        "reference",
        "truth",
        "majority",
    ]
)
ATTRIBUTES = frozenset(
    [
        "accuracy",
        "adequacy",
        "clarity",
        "coherence",
        "completeness",
        "conciseness",
        "consistency",
        "correctness",
        "creativity",
        "depth",
        "engagement",
        "engagingness",
        "factuality",
        "faithfulness",
        "fluency",
        "groundedness",
        "harmlessness",
        "helpfulness",
        "honesty",
        "informativeness",
        "instruction",
        "interestingness",
        "naturalness",
        "overall",
        "quality",
        "readability",
        "relevance",
        "safety",
        "style",
        "truthfulness",
        "understandability",
        "usefulness",
    ]
)
CONTEXT = ("question_id", "prompt_id", "instruction_id", "query_id", "context_id", "doc_id", "document_id",
           "item_id", "question", "instruction", "query", "prompt", "user_prompt", "source", "document", "article",
           "conversation", "input", "task", "context", "item", "example_id", "sample_id", "instance_id", "id", "idx",
           "uid")  # fmt: skip
JUDGE = ("judge", "judge_model", "judge_name", "judge_id", "evaluator", "evaluator_model", "grader", "grader_model",
         "llm_judge", "scorer")  # fmt: skip
CANDIDATE = ("candidate_id", "system", "system_id", "model", "model_id", "model_name", "generator", "candidate",
             "answer_model", "response_model", "engine", "bot", "agent")  # fmt: skip
ANSWER = ("answer", "response", "output", "completion", "summary", "candidate", "reply", "generation", "text",
          "model_output", "model_answer", "model_response", "translation", "story", "essay")  # fmt: skip
ATTRIBUTE = ("attribute", "aspect", "criterion", "criteria", "dimension", "metric", "metric_name")
REPLICATE = ("replicate", "repetition", "rep", "run", "trial", "sample_index", "iteration")
TEMPLATE = ("template", "prompt_name", "prompt_version", "prompt_template", "judge_prompt_id", "configuration")
DATASET = ("dataset", "data_set", "benchmark")
#: Words of a column that says in which order two candidates were shown.
ORDER = frozenset(
    [
        "swap",
        "swapped",
        "swapping",
        "flipped",
        "reversed",
        "order",
        "position",
        "shown",
        "presented",
        "exchanged",
        "toggled",
    ]
)
#: Words of columns that hold the verdict of one order, and of the other one.
AS_STANDS = frozenset(["original", "forward", "normal", "unswapped", "ab"])
OTHER_ORDER = frozenset(["swapped", "swap", "reversed", "reverse", "backward", "flipped", "exchanged", "toggled", "ba"])
PEOPLE = ("annotator", "annotator_id", "rater", "rater_id", "worker", "worker_id", "user_id", "participant")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MODELS = re.compile(
    r"gpt|claude|gemini|gemma|llama|mistral|mixtral|qwen|deepseek|command|grok|kimi|opus|sonnet|haiku|palm|falcon"
    r"|vicuna|phi-?\d|jury|o[134](?:\b|-)",
    re.IGNORECASE,
)
_NOUN = r"(?:model|answer|response|assistant|output|option|summary|system|candidate|text|completion|choice|reply|story)"
_SIDE = re.compile(
    rf"(?:the |chatbot )?(?:assistant )?(?:{_NOUN} ?)?(a|b|x|y|0|1|2|first|second|left|right|one|two)"
    rf"(?: (?:one|{_NOUN}))?(?: wins| is better| better)?"
)
_TIES = frozenset({"tie", "ties", "tied", "draw", "equal", "same", "both", "neither", "no preference", "both good",
                   "both bad", "tie both bad", "equally good", "tie bothbad", "bothbad", "a=b", "b=a", "=",
                   })  # fmt: skip
_DEGREES = {"a>b": "first", "a>>b": "first", "b>a": "second", "b>>a": "second", "a<b": "second", "a<<b": "second"}
_DEGREES |= {"1>2": "first", "2>1": "second", ">": "first", "<": "second"}


def tokens(name: str) -> Tokens:
    """Return the words of a column's name, in small letters.

    Examples
    --------
    >>> tokens("answerA"), tokens("model_1.response"), tokens("humanWinner")
    (('answer', 'a'), ('model', '1', 'response'), ('human', 'winner'))
    """
    return tuple(word.lower() for word in _WORD.findall(name))


def find_pairs(names: Sequence[str]) -> dict[Tokens, tuple[str, str, int]]:
    """Return the columns that come in twos: what both are called → first, second, and the place in `SIDES`.

    Examples
    --------
    >>> find_pairs(["question", "answer_a", "answer_b", "winner"])
    {('answer',): ('answer_a', 'answer_b', 0)}
    """
    by_tokens = {tokens(name): name for name in names}
    pairs: dict[Tokens, tuple[str, str, int]] = {}
    for number, (one, two) in enumerate(SIDES):
        for words, name in by_tokens.items():
            for at, word in enumerate(words):
                other = (*words[:at], two, *words[at + 1 :])
                if word == one and other in by_tokens:
                    pairs.setdefault((*words[:at], *words[at + 1 :]), (name, by_tokens[other], number))
    return pairs


def both_orders(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the columns that hold the verdicts of one order and of the other; None where there are none.

    Examples
    --------
    >>> both_orders(["question", "winner", "winner_swapped"]), both_orders(["verdict_ab", "verdict_ba"])
    (('winner', 'winner_swapped'), ('verdict_ab', 'verdict_ba'))
    """
    beside = AS_STANDS | OTHER_ORDER | ORDER
    known = {name: set(tokens(name)) for name in names}
    for other, words in known.items():
        what = words - beside
        if words & OTHER_ORDER and what & (VERDICT | {"prediction", "result"}):
            for name, own in known.items():
                if name != other and own - beside == what and not own & OTHER_ORDER:
                    return name, other
    return None


def third_candidate(names: Sequence[str], pairs: Mapping[Tokens, tuple[str, str, int]]) -> str | None:
    """Return a column of a third candidate beside two, such as ``answer_c``."""
    known = {tokens(name): name for name in names}
    for words in pairs:
        for third in ("c", "3", "third"):
            for at in range(len(words) + 1):
                if (name := known.get((*words[:at], third, *words[at:]))) is not None:
                    return name
    return None


def first_named(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the columns whose names are among the known ones, in the order of these."""
    by_name = {"_".join(tokens(name)): name for name in reversed(list(names))}
    return [by_name[name] for name in known if name in by_name]


def is_model(name: str) -> bool:
    """Return whether a column is called as a language model is."""
    return _MODELS.search(name) is not None


def side_of(value: str) -> str | None:
    """Return "first", "second" or "tie" for a verdict that names a place; None for another one.

    ``0`` is none of them: it is the first of two counted from 0, or a tie.

    Examples
    --------
    >>> side_of("A"), side_of("[[B]]"), side_of("model_b"), side_of("Response 1"), side_of("tie (bothbad)")
    ('first', 'second', 'second', 'first', 'tie')
    >>> side_of("gpt-4") is None, side_of("0") is None
    (True, True)
    """
    plain = " ".join(re.sub(r"[\[\]*\"'().:_\-]", " ", value).lower().split())
    if plain in _TIES or plain.replace(" ", "") in _TIES:
        return "tie"
    if plain.replace(" ", "") in _DEGREES:
        return _DEGREES[plain.replace(" ", "")]
    match = _SIDE.fullmatch(plain)
    if match is None or match[1] == "0":
        return None
    return "first" if match[1] in {one for one, _ in SIDES if one != "0"} else "second"


def meanings(values: Counter[str], sides: int) -> dict[str, str] | None:
    """Return what the values of a verdict mean; None where one of several readings is possible.

    Parameters
    ----------
    values : Counter
        Values of the column, and how often each stands there.
    sides : int
        The place in `SIDES` of what the two candidates are called by.

    Examples
    --------
    >>> meanings(Counter("ABC"), 0), meanings(Counter("01"), 2), meanings(Counter("012"), 0)
    ({'A': 'first', 'B': 'second', 'C': 'tie'}, {'0': 'first', '1': 'second'}, None)
    """
    stripped = {value.strip() for value in values}
    if SIDES[sides] == ("0", "1") and stripped & {"0", "1"}:
        known = {"0": "first", "1": "second"} | ({"2": "tie"} if "2" in stripped else {})
        return {value: known.get(value) or side_of(value) or "" for value in sorted(stripped)}
    if "0" in stripped or "-1" in stripped:
        return None
    read = {value: side for value in sorted(stripped) if (side := side_of(value)) is not None}
    for third, one, two in (("C", "A", "B"), ("c", "a", "b"), ("3", "1", "2"), ("[[C]]", "[[A]]", "[[B]]")):
        if third in stripped and {one, two} & stripped and "tie" not in read.values():
            read[third] = "tie"
    return read
