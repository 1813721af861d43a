"""Common column names in tables of judgements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

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
#: Words beside one of a known name that change nothing: ``user_input``, ``actual_output``, ``prompt text``.
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


def beside_a_person(names: Sequence[str], name: str) -> bool:
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
