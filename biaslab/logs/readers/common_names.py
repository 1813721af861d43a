"""Common names of columns, and common words for verdicts and grades."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from biaslab.logs.readers.rows import NUMERAL

Tokens = tuple[str, ...]

#: Pairs of words for the first and the second of two candidates, in column names and in verdicts.
SIDES = (("a", "b"), ("1", "2"), ("0", "1"), ("first", "second"), ("left", "right"), ("one", "two"), ("x", "y"),
         ("chosen", "rejected"))  # fmt: skip
CHOSEN = 7
"""Index in `SIDES` of candidates that are named by human preference, which does not imply an order."""

TEXT = frozenset(["answer", "response", "output", "completion", "text", "summary", "candidate", "reply", "generation",
                  "story", "translation", "essay", "message", "option", "choice", "content", "result"])  # fmt: skip
SYSTEM = frozenset(
    [
        "model",
        "system",
        "generator",
        "bot",
        "agent",
        "assistant",
        "engine",
        "writer",
        "author",
        "assignment",
        "models",
        "systems",
        "generators",
        "assistants",
    ]
)
VERDICT = frozenset(["winner", "preference", "preferred", "verdict", "label", "judgment", "judgement", "decision",
                     "choice", "vote", "pick", "selection", "better", "best", "chosen", "outcome", "prediction",
                     "predicted", "pred", "labels", "verdicts", "winners", "preferences", "judgements",
                     "judgments"])  # fmt: skip
SCORE = frozenset(["score", "scores", "rating", "ratings", "grade", "mark", "marks", "points", "stars"])
HUMAN = frozenset(["human", "humans", "annotator", "annotators", "annotation", "annotations", "expert", "experts",
                   "crowd", "people", "gold", "worker", "workers", "turker", "turkers", "rater", "raters", "user",
                   "reference", "truth", "majority"])  # fmt: skip
ATTRIBUTES = frozenset(["accuracy", "adequacy", "adherence", "clarity", "coherence", "completeness", "complexity",
                        "conciseness",
                        "consistency", "correctness", "creativity", "depth", "empathy", "engagement", "engagingness",
                        "factuality", "faithfulness", "fluency", "grammar", "groundedness", "harmlessness",
                        "helpfulness", "honesty", "informativeness", "insightfulness", "instruction", "interestingness",
                        "likability", "naturalness", "novelty", "overall", "politeness", "quality", "readability",
                        "relevance", "safety", "specificity", "style", "tone", "toxicity", "truthfulness",
                        "understandability", "usefulness", "verbosity"])  # fmt: skip
CONTEXT = ("question_id", "prompt_id", "instruction_id", "query_id", "context_id", "doc_id",
           "document_id", "item_id", "task_id", "problem_id", "question", "q", "instruction", "query",
           "prompt", "user_prompt", "source", "src", "document", "article", "conversation", "input",
           "task", "context", "item", "example_id", "sample_id", "instance_id", "id", "idx", "session_id",
           "conversation_id", "case_id", "test_id", "trace_id", "input_id", "inputs", "qid", "uuid",
           "uid", "span_id", "run_id", "key", "doc", "problem", "post", "passage", "dialogue",
           "dialogue_id", "record_id", "request_id", "entry_id", "row_id", "pair_id", "comparison_id",
           "battle_id")  # fmt: skip
#: Those of `CONTEXT` that hold what was asked itself.
ASKED = ("question", "q", "instruction", "query", "prompt", "user_prompt", "source", "src", "document",
         "article", "input", "doc", "problem", "post", "passage", "dialogue")  # fmt: skip
#: Words next to one of a known name that change nothing: ``user_input``, ``actual_output``, ``prompt text``.
_PLAIN = frozenset(["text", "texts", "full", "user", "original", "actual", "evaluated", "generated", "inference",
                    "final", "llm", "model", "bot", "student", "predicted", "the", "raw", "string", "content", "value",
                    "request", "case", "asked", "shown", "message", "test", "node", "span", "trace"])  # fmt: skip
JUDGE = ("judge", "judge_model", "judge_name", "judge_id", "evaluator", "evaluator_model", "grader", "grader_model",
         "llm_judge", "scorer")  # fmt: skip
CANDIDATE = ("candidate_id", "system", "system_id", "model", "model_id", "model_name", "generator", "candidate",
             "answer_model", "response_model", "engine", "bot", "agent")  # fmt: skip
ANSWER = ("answer", "hypothesis", "mt", "response", "output", "completion", "summary", "candidate",
          "reply", "generation", "text", "model_output", "model_answer", "model_response", "translation",
          "story", "essay", "outputs")  # fmt: skip
ATTRIBUTE = ("attribute", "aspect", "criterion", "criteria", "dimension", "metric", "metric_name")
REPLICATE = ("replicate", "repetition", "rep", "run", "trial", "sample_index", "iteration")
TEMPLATE = ("template", "prompt_name", "prompt_version", "prompt_template", "judge_prompt_id", "configuration")
DATASET = ("dataset", "data_set", "benchmark")
#: Words in names of columns that give the order in which two candidates were shown.
ORDER = frozenset(["swap", "swapped", "swapping", "flipped", "reversed", "order", "position", "shown", "presented",
                   "exchanged", "toggled"])  # fmt: skip
#: Words in names of columns with the verdicts in one order and in the other.
AS_STANDS = frozenset(["original", "forward", "normal", "unswapped", "ab"])
OTHER_ORDER = frozenset(["swapped", "swap", "reversed", "reverse", "backward", "flipped", "exchanged", "toggled", "ba"])
#: Words in names of people, in addition to `HUMAN`.
PERSONS = frozenset(["author", "authors", "mturk", "crowdworker", "participant", "volunteer", "student"])
PEOPLE = ("annotator", "annotator_id", "rater", "rater_id", "worker", "worker_id", "user_id", "participant")

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_MODELS = re.compile(
    r"gpt|claude|gemini|gemma|llama|mistral|mixtral|qwen|deepseek|command|grok|kimi|opus|sonnet|haiku|palm|falcon"
    r"|vicuna|prometheus|judgelm|auto-?j\b|selene|skywork|nemotron|olmo|wizardlm|zephyr|tulu|starling|internlm|glm-?\d"
    r"|phi-?\d|jury|o[134](?:\b|-)",
    re.IGNORECASE,
)
_OF_JUDGES = frozenset(["judge", "evaluator", "grader", "scorer"])
JUDGES = frozenset(["judge", "judges", "evaluator", "evaluators", "grader", "graders", "llms", "jury", "jurors"])
"""Words in names of objects that hold something for each judge."""

CONVERSATIONS = frozenset(["conversation", "conv", "dialogue", "dialog", "transcript", "messages", "chat"])
_PERSON_FIELDS = ("user_id", "annotator", "annotator_id", "worker_id", "completed_by", "annotated_by")
_INPUTS, _OUTPUTS = ("input", "inputs"), ("output", "outputs")
_OF_REFERENCES = frozenset(["reference", "expected", "gold", "ideal", "target", "truth"])


def tokens(name: str) -> Tokens:
    """Return the words of a column name, in lower case.

    Examples
    --------
    >>> tokens("answerA"), tokens("model_1.response"), tokens("humanWinner")
    (('answer', 'a'), ('model', '1', 'response'), ('human', 'winner'))
    """
    return tuple(word.lower() for word in _WORD.findall(name))


def find_pairs(names: Sequence[str]) -> dict[Tokens, tuple[str, str, int]]:
    """Return pairs of columns: shared name → first, second, and index in `SIDES`.

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
    """Return the columns with the verdicts in one order and in the other, or None.

    Examples
    --------
    >>> both_orders(["question", "winner", "winner_swapped"]), both_orders(["verdict_ab", "verdict_ba"])
    (('winner', 'winner_swapped'), ('verdict_ab', 'verdict_ba'))
    """
    order_words = AS_STANDS | OTHER_ORDER | ORDER
    known = {name: set(tokens(name)) for name in names}
    for other, words in known.items():
        noun = words - order_words
        if words & OTHER_ORDER and noun & (VERDICT | {"prediction", "result"}):
            for name, own in known.items():
                if name != other and own - order_words == noun and not own & OTHER_ORDER:
                    return name, other
    return None


def third_candidate(names: Sequence[str], pairs: Mapping[Tokens, tuple[str, str, int]]) -> str | None:
    """Return the column of a third candidate, such as ``answer_c``, or None."""
    known = {tokens(name): name for name in names}
    for words in pairs:
        for third in ("c", "3", "third"):
            for at in range(len(words) + 1):
                if (name := known.get((*words[:at], third, *words[at:]))) is not None:
                    return name
    return None


def first_named(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the columns with a known name, in the order of the known names.

    The last part of a dotted path counts too, as in ``"input.question"``, unless it belongs to a judge or a reference.
    """
    by_name: dict[str, str] = {}
    for name in names:
        head, dot, tail = name.rpartition(".")
        if dot and not set(tokens(head)) & (_OF_JUDGES | _OF_REFERENCES):
            by_name.setdefault("_".join(tokens(tail)), name)
    by_name |= {"_".join(tokens(name)): name for name in reversed(list(names))}
    return [by_name[name] for name in dict.fromkeys(known) if name in by_name]


def _last(name: str) -> str:
    """Return the last part of a path; the whole path if it belongs to a judge or a reference."""
    head, _, tail = name.rpartition(".")
    return name if set(tokens(head)) & (_OF_JUDGES | _OF_REFERENCES) else tail


def like_question(name: str) -> bool:
    """Return whether a column is named like a question, apart from words without meaning.

    Examples
    --------
    >>> like_question("Prompt text"), like_question("inference_instruction"), like_question("prompt_tokens")
    (True, True, False)
    """
    asked = {*ASKED, "inputs", "history"}
    *_, head, tail = ("", *name.split("."))
    if head.lower() in _INPUTS and len(tail) == 1:
        return True
    parts = [set(tokens(part)) for part in (name, _last(name))]
    return any(bool(words & asked) and words <= asked | _PLAIN for words in parts)


def like_answer(name: str) -> bool:
    """Return whether a column is named like an answer, apart from words without meaning.

    Examples
    --------
    >>> like_answer("actual_output"), like_answer("prediction_text"), like_answer("expected_output")
    (True, True, False)
    """
    *_, head, _ = ("", *name.split("."))
    if head.lower() in _OUTPUTS:  # a field of an output, with any name
        return True
    words = {word for word in tokens(_last(name)) if word not in _PLAIN}
    return bool(words) and all(word in {"prediction", "pred"} or is_text([word]) for word in words)


def like_system(name: str) -> bool:
    """Return whether a column is named like a system, such as ``generation_model``, and not like a judge."""
    words = set(tokens(name))
    rest = words - SYSTEM - {"name", "id"}
    return bool(words & SYSTEM) and not words & (_OF_JUDGES | PERSONS) and all(is_text([word]) for word in rest)


def like_judge(name: str) -> bool:
    """Return whether a column is named like a judge, such as ``evaluation_model``."""
    words = set(tokens(name))
    judging = {"judge", "judging", "evaluator", "evaluation", "eval", "grader", "grading", "scorer", "scoring", "rater"}
    models = {"model", "llm", "name", "engine"}
    return bool(words & judging) and bool(words & models) and words <= judging | models


def also_names_a_person(names: Sequence[str], name: str) -> bool:
    """Return whether the object with a judgement, such as ``responses.0.value``, also names a person."""
    head, dot, _ = name.rpartition(".")
    return bool(dot) and any(f"{head}.{person}" in names for person in _PERSON_FIELDS)


def is_text(words: Iterable[str]) -> bool:
    """Return whether words of a column's name denote texts, such as ``("responses",)``."""
    return any(word in TEXT or word.removesuffix("s") in TEXT for word in words)


def is_compared(words: Iterable[str]) -> bool:
    """Return whether words of the name of one of two columns say that it holds texts or whole conversations."""
    return is_text(words) or bool(set(words) & CONVERSATIONS)


def is_model(name: str) -> bool:
    """Return whether a name contains that of a language model."""
    return _MODELS.search(name) is not None


_KNOWN = 0.9  # share of words among a column's values from which numbers among them count as errors
_NOUN = (
    r"(?:model|answer|response|assistant|output|option|summary|system|candidate|text|completion|choice|reply|story"
    r"|translation)"
)
_DEGREE = (
    r"(?:much|far|slightly|significantly|somewhat|clearly|strongly|weakly|marginally|moderately|considerably|definitely"
    r"|a bit|a little)"
)
_PLACE = r"(?:a|b|x|y|0|1|2|first|second|left|right|one|two)"
_SIDE = re.compile(
    rf"(?:i )?(?:{_DEGREE} )?(?:(?:prefers?|preferred|favou?rs?) )?(?:the |chatbot )?(?:assistant )?(?:{_NOUN} ?)?"
    rf"({_PLACE})(?:\+{{1,2}})?(?: (?:one|{_NOUN}))?"
    rf"(?: wins| won| {_DEGREE}| (?:is |was )?(?:{_DEGREE} )?(?:better|preferred|best|superior)"
    rf"(?: than (?:the )?(?:{_NOUN} ?)?{_PLACE}(?: {_NOUN})?)?)?"
)
_ALIKE = r"(?:the same|same|equal|equally|similar|comparable|equivalent|tied)"
_TIE = re.compile(
    rf"(?:it s |it is )?(?:a )?(?:tie|ties|tied|draw)(?: (?!.*\b{_PLACE}\b).*)?"
    rf"|(?:(?:both|the two|they) )?(?:{_NOUN}s? )?(?:are )?(?:(?:about|roughly|nearly|almost|of) )*{_ALIKE}"
    rf"(?: (?:quality|good|bad|well|poor))?"
    rf"|(?:both|neither)(?: of them)?(?: {_NOUN}s?)?(?: (?:are |is )?(?:equally )?(?:good|bad|better|poor|fine|wrong))?"
    r"|unentschieden|gleichstand|gleich(?: gut)?|empate|égalité|egalité|ex aequo|pareggio"
    r"|gelijkspel|remis|ничья|平局|引き分け"
    r"|no (?:clear |strong )?(?:preference|difference)|a ?[=~≈] ?b|b ?[=~≈] ?a|a==b|1 ?= ?2|=|all bad|all good|bothbad"
)
_DEGREES = {"a>b": "first", "a>>b": "first", "b>a": "second", "b>>a": "second", "a<b": "second", "a<<b": "second"}
_DEGREES |= {"1>2": "first", "2>1": "second", ">": "first", "<": "second"}
_PICTURES = str.maketrans({"👈": "left", "👉": "right", "⬅": "left", "➡": "right", "🤝": "tie", "🅰": "a", "🅱": "b",
                           "✅": "", "✔": "", "✓": "", "🏆": "", "⭐": "",
                           "\ufe0f": ""})  # fmt: skip
_MARKS = re.compile(r"[\[\]*\"'().:_\-!]")


def side_of(value: str) -> str | None:
    """Return "first", "second" or "tie" for a verdict that names a position; None otherwise.

    ``0`` gives None because it is ambiguous: the first, counted from 0, or a tie.

    Examples
    --------
    >>> side_of("A"), side_of("[[B]]"), side_of("model_b"), side_of("Response 1"), side_of("tie (bothbad)")
    ('first', 'second', 'second', 'first', 'tie')
    >>> side_of("A is slightly better"), side_of("Strongly prefer B"), side_of("B++"), side_of("about the same")
    ('first', 'second', 'second', 'tie')
    >>> side_of("gpt-4") is None, side_of("0") is None, side_of("-2") is None
    (True, True, True)
    """
    if NUMERAL.fullmatch(value):
        return {"1": "first", "2": "second"}.get(value.strip())
    plain = " ".join(_MARKS.sub(" ", value.lower().translate(_PICTURES)).split())
    if _TIE.fullmatch(plain):
        return "tie"
    if plain.replace(" ", "") in _DEGREES:
        return _DEGREES[plain.replace(" ", "")]
    match = _SIDE.fullmatch(plain)
    if match is None or match[1] == "0":
        return None
    return "first" if match[1] in {one for one, _ in SIDES if one != "0"} else "second"


def meanings(values: Counter[str], sides: int) -> dict[str, str] | None:
    """Return the meaning of a verdict column's values; None if it is ambiguous.

    Parameters
    ----------
    values : Counter
        Counts of the column's values.
    sides : int
        Index in `SIDES` of the words that distinguish the two candidate columns.

    Examples
    --------
    >>> meanings(Counter("ABC"), 0), meanings(Counter("01"), 2), meanings(Counter("012"), 0)
    ({'A': 'first', 'B': 'second', 'C': 'tie'}, {'0': 'first', '1': 'second'}, None)
    """
    stripped = {value.strip() for value in values}
    numerals = {value for value in stripped if NUMERAL.fullmatch(value)}
    if sum(n for value, n in values.items() if value.strip() in numerals) <= (1 - _KNOWN) * values.total():
        stripped, numerals = stripped - numerals, set()  # rare numbers among words are error codes
    if SIDES[sides] == ("0", "1") and "0" in numerals:
        known = {"0": "first", "1": "second"} | ({"2": "tie"} if "2" in numerals else {})
        return None if numerals - set(known) else {v: known.get(v) or side_of(v) or "" for v in sorted(stripped)}
    counted = {"1", "2", "3"} if SIDES[sides] == ("1", "2") else {"1", "2"}
    if numerals - counted or (numerals and SIDES[sides] == ("0", "1")):
        return None
    read = {value: side for value in sorted(stripped) if (side := side_of(value)) is not None}
    for third, one, two in (("C", "A", "B"), ("c", "a", "b"), ("3", "1", "2"), ("[[C]]", "[[A]]", "[[B]]")):
        if third in stripped and {one, two} & stripped and "tie" not in read.values():
            read[third] = "tie"
    return read


#: Words for the worse of two grades, for one in between, and for the better; tools agree on their direction.
_OF_TWO = (
    ("fail", "failed", "false", "no", "incorrect", "wrong", "i", "n", "unacceptable", "irrelevant", "unrelated",
     "not relevant", "not correct", "hallucinated", "hallucination", "unfaithful", "unsupported", "not supported",
     "inconsistent", "unsafe", "unhelpful", "invalid", "bad", "👎", "❌", "✗", "✘"),
    ("partial", "partially", "partly", "partially correct", "partially relevant", "partially supported", "somewhat",
     "p", "mixed", "maybe", "borderline"),
    ("pass", "passed", "true", "yes", "correct", "right", "c", "y", "acceptable", "relevant", "factual", "faithful",
     "supported", "fully supported", "fully correct", "fully relevant", "consistent", "safe", "helpful", "valid",
     "good", "👍", "✅", "✓", "✔"),
)  # fmt: skip
#: Ladders of grades, from the worst; words at one step mean the same.
_LADDERS = (
    _OF_TWO,
    (("terrible", "awful", "unusable"), ("very bad", "very poor"), ("bad", "poor", "weak"),
     ("mediocre", "below average"), ("fair", "ok", "okay", "average", "acceptable", "neutral", "adequate"),
     ("above average",), ("good", "strong"), ("very good", "great"),
     ("excellent", "outstanding", "perfect", "exceptional")),
    (("strongly disagree",), ("disagree",), ("somewhat disagree", "slightly disagree"),
     ("neutral", "neither agree nor disagree", "neither", "undecided"), ("somewhat agree", "slightly agree"),
     ("agree",), ("strongly agree",)),
    (("none", "not at all", "never"), ("very low", "minimal"), ("low", "minor", "slightly", "rarely"),
     ("medium", "moderate", "mid", "sometimes", "moderately"), ("high", "major", "often", "very"),
     ("very high", "severe", "always", "extremely", "critical")),
    tuple((grade,) for grade in ("f", "e", "d-", "d", "d+", "c-", "c", "c+", "b-", "b", "b+", "a-", "a", "a+")),
)  # fmt: skip
_LETTERS = frozenset("abcdef")
_STARS = frozenset("★⭐☆\ufe0f ")


def worth_of_two(values: Iterable[str]) -> dict[str, int] | None:
    """Return 1 for the better of two grades and 0 for the worse; None if their words do not say which is better.

    Examples
    --------
    >>> worth_of_two(["Pass", "Fail"]), worth_of_two(["factual", "hallucinated"]), worth_of_two(["A", "B"])
    ({'Pass': 1, 'Fail': 0}, {'factual': 1, 'hallucinated': 0}, None)
    """
    places = {value: (_plain(value) in _OF_TWO[2]) - (_plain(value) in _OF_TWO[0]) for value in values}
    if len(places) != 2 or set(places.values()) != {-1, 1}:
        return None
    return {value: int(place > 0) for value, place in places.items()}


def worth_between(values: Iterable[str]) -> dict[str, float] | None:
    """Return 0, 0.5 and 1 for words such as incorrect, partially correct and correct; None unless all three occur.

    Examples
    --------
    >>> worth_between(["C", "P", "I"]), worth_between(["Poor", "Good", "Excellent"])
    ({'I': 0, 'P': 0.5, 'C': 1}, None)
    """
    steps = {value: next((at for at, words in enumerate(_OF_TWO) if _plain(value) in words), -1) for value in values}
    if set(steps.values()) != {0, 1, 2}:
        return None
    return {value: (0, 0.5, 1)[at] for value, at in sorted(steps.items(), key=lambda each: each[1])}


def ranks(values: Iterable[str]) -> dict[str, int] | None:
    """Return the rank of each grade, from 1 for the worst; None unless all words are from one ladder, or all are stars.

    Stars rank by their number. Letters that skip one, such as A and C, rank among all of A, B, C, D and F; other grades
    rank among those given.

    Examples
    --------
    >>> ranks(["Good", "Poor", "Excellent"]), ranks(["★★★☆☆", "★☆☆☆☆"]), ranks(["red", "blue"])
    ({'Poor': 1, 'Good': 2, 'Excellent': 3}, {'★☆☆☆☆': 1, '★★★☆☆': 3}, None)
    """
    distinct = list(dict.fromkeys(values))
    if distinct and all(set(value) <= _STARS and value.strip() for value in distinct):
        stars = {value: sum(sign in "★⭐" for sign in value) for value in distinct}
        return dict(sorted(stars.items(), key=lambda each: each[1]))
    for ladder in _LADDERS:
        place = {word: at for at, words in enumerate(ladder) for word in words}
        if len(distinct) > 1 and all(_plain(value) in place for value in distinct):
            steps = {value: place[_plain(value)] for value in distinct}
            used = sorted(set(steps.values()))
            if ladder is _LADDERS[-1] and not _is_whole(steps):
                used = [at for at, (grade,) in enumerate(ladder) if grade in "abcdf" or at in used]
            return {value: used.index(at) + 1 for value, at in sorted(steps.items(), key=lambda each: each[1])}
    return None


def is_graded(name: str) -> bool:
    """Return whether a column's name suggests grades by a judge."""
    words = set(tokens(name))
    graded = SCORE | VERDICT | ATTRIBUTES | {"correct", "passed", "pass", "evaluation", "assessment"}
    return bool(words & graded) and not words & HUMAN


def _is_whole(steps: dict[str, int]) -> bool:
    """Return whether the letters start at A and skip none."""
    letters = sorted({_plain(value)[0] for value in steps})
    return letters == sorted(_LETTERS)[: len(letters)] and "a" in letters


def _plain(value: str) -> str:
    return " ".join(value.lower().replace("_", " ").replace("\ufe0f", "").split()).strip(" .!")
