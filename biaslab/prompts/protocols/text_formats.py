"""Plain-text judge prompts that describe the format of replies: arguments of `Protocol.from_template`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from biaslab.core.errors import InputError
from biaslab.prompts.protocols.free_readers import FreeScore
from biaslab.prompts.protocols.pattern_readers import Pattern
from biaslab.prompts.protocols.readers import FirstOf

Arguments = dict[str, Any]
GRADES = {"A>>B": 1.0, "A>B": 0.75, "A=B": 0.5, "B>A": 0.25, "B>>A": 0.0}
GRADES |= {"B<<A": 1.0, "B<A": 0.75, "B=A": 0.5, "A<B": 0.25, "A<<B": 0.0}
_ENDS = r"(?![\w]|\.\d)"
_SCORE = rf"[(\[]?([1-5]){_ENDS}"
#: Prometheus 2 (Kim et al. 2024): a score, or the letter of the better response, as in its own parser.
RESULT: dict[str, Arguments] = {
    "score": {
        "form": "score",
        "scale": (1, 5),
        "pattern": [
            rf"(?i)\[result\]\s*(?:(?:score|result)\b\s*)?(?:of\b|:)?\s*{_SCORE}",
            rf"(?i)\b(?:score|result|response)\s*(?:of\b|:)?\s*{_SCORE}[)\]]?\W*\Z",
        ],
    },
    "pair": {
        "verdicts": {"A": 1.0, "B": 0.0},
        "pattern": [
            (
                r"(?i)(?:\[result\](?:\s+response)?:?|\[result:|\[response(?=\s)|^result\b:?)\s*[(\[*]*([AB])"
                r"(?:(?=[)\].*])|(?!\s+or\b)(?=\s)|\Z)"
            ),
        ],
        "choose": "first",
    },
}
_MARK = re.compile(r"\[\[\s*([^\[\]\n]{1,12}?)\s*\]\]")
_SPAN = re.compile(r"\(?\b(\d+) ?(?:-|–|~|to) ?(\d+)\b")


def _wild_bench(text: str) -> Arguments | None:
    """WildBench (Lin et al. 2024): a JSON object with a score."""
    if re.search(r"\{\$candidate_A\}", text) and '"choice"' in text:
        grades = {"A++": 1.0, "A+": 0.75, "A=B": 0.5, "B+": 0.25, "B++": 0.0}
        return {"json": "choice", "verdicts": grades if "A++" in text else {"A": 1.0, "B": 0.0, "tie": 0.5}}
    if not re.search(r"\{\$model_output\}", text) or '"score"' not in text:
        return None
    return {"form": "score", "scale": _scale_of(text), "json": "score"}


def _g_eval(text: str) -> Arguments | None:
    """G-Eval (Liu et al. 2023): an evaluation form whose reply begins with the score."""
    if "Evaluation Form" not in text:
        return None
    scale = _scale_of(text)
    name = f"{scale[0]}-{scale[1]}"
    start = Pattern((r"\A\s*(\d+(?:\.\d+)?)(?![\w/])",))
    return {"form": "score", "scale": name, "reader": FirstOf((start, FreeScore(name))), "max_tokens": 16}


def _llm_bar(text: str) -> Arguments | None:
    """LLMBar (Zeng et al. 2024), and similar prompts: ``Output (a)`` or ``Output (b)``."""
    if "Output (a)" not in text or "Output (b)" not in text:
        return None
    last = "Therefore, {} is better" if "Therefore, Output (a) is better" in text else "{}"
    verdicts = {last.format("Output (a)"): 1.0, last.format("Output (b)"): 0.0}
    return {"verdicts": verdicts, "max_tokens": 1024 if last != "{}" else 16}


def _rating(text: str) -> Arguments | None:
    """Recognise a prompt that asks only for a whole number on a scale."""
    match = re.search(r"ONLY the score[^.\n]*between (\d+) and (\d+)", text)
    return {"form": "score", "scale": f"{match[1]}-{match[2]}"} if match else None


def _judge_lm(text: str) -> Arguments | None:
    """JudgeLM (Zhu et al. 2023), and Vicuna's earlier prompt: the first line has two scores."""
    if not re.search(r"two values indicating the scores", text):
        return None
    number = r"(\d+(?:\.\d+)?)"
    return {"pattern": rf"\A\s*{number}[ ,]+{number}[ .]*$", "writes": "{} {}", "choose": "first"}


def _panda_lm(text: str) -> Arguments | None:
    """PandaLM (Wang et al. 2023): the reply begins with 1, 2 or Tie."""
    if "### Response 1:" not in text or not text.rstrip().endswith("### Evaluation:"):
        return None
    return {"pattern": r"\A\s*(1|2|Tie)\b", "verdicts": {"1": 1.0, "2": 0.0, "Tie": 0.5}}


def _prometheus(text: str) -> Arguments | None:
    """Prometheus 2 (Kim et al. 2024), in a file of its own."""
    if "[RESULT]" not in text:
        return None
    return RESULT["pair" if re.search(r"response_?b\b", text, re.IGNORECASE) else "score"]


def _auto_j(text: str) -> Arguments | None:
    """Auto-J (Li et al. 2024): the last "final decision is" counts."""
    if "final decision is Response 1 / Response 2 / Tie" not in text:
        return None
    verdicts = {"Response 1": 1.0, "Response 2": 0.0, "Tie": 0.5}
    return {"pattern": r"(?i)final decision is\s+[*\"]*(Response 1|Response 2|Tie)\b", "verdicts": verdicts}


def _marks(text: str) -> Arguments | None:
    """MT-Bench's verdicts in double brackets (Zheng et al. 2023), Arena-Hard's, and similar prompts."""
    marks = dict.fromkeys(_MARK.findall(text))
    if {"A>B", "B>A"} <= set(marks) <= set(GRADES):
        meant = {mark: GRADES[mark] for mark in marks}
        ends = {0.75: 1.0, 0.25: 0.0} if "A>>B" not in meant else {}
        graded = {mark: ends.get(value, value) for mark, value in meant.items()}
        return {"verdicts": graded, "pattern": r"\[\[\s*([AB<>=]+)\s*\]\]"}
    letters = {"A": 1.0, "B": 0.0, "1": 1.0, "2": 0.0, "C": 0.5, "Tie": 0.5, "tie": 0.5, "T": 0.5}
    pair = next(({*ends} for ends in (("A", "B"), ("1", "2")) if {*ends} <= set(marks)), None)
    if pair is None or not set(marks) - pair <= {"C", "Tie", "tie", "T"}:
        return None
    return {"verdicts": {f"[[{mark}]]": letters[mark] for mark in marks}}


def _scale_of(text: str) -> tuple[int, int]:
    match = _SPAN.search(text)
    if match is None:
        raise InputError("scale", None, "a scale stated in the text, such as (1-5)", "pass scale='1-5'")
    return int(match[1]), int(match[2])


TEXT_FORMATS: tuple[Callable[[str], Arguments | None], ...] = (
    _wild_bench, _g_eval, _llm_bar, _rating, _judge_lm, _panda_lm, _prometheus, _auto_j, _marks,
)  # fmt: skip
