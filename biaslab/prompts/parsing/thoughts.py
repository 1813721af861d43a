"""Split the output of a reasoning model into its thought and its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from biaslab.core.trials import AT_LIMIT, DECLINED, Reply

_NAMES = r"(?:\w{1,16}[:_|]|\||ant)?(?:think(?:ing)?(?:_\w{1,8})?|thoughts?|reasoning|reflection|scratchpad)\|?"
#: Tags that open and close a thought, by model family; opening tags count only at the beginning of a line.
_PAIRS = (
    (rf"<(?:{_NAMES})\s?>", rf"<\|?/(?:{_NAMES})\s?>"),  # DeepSeek, Qwen, GLM, EXAONE, Seed; custom prompts
    (r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # OpenThinker, Sky-T1
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Command A
    (r"<unused94>(?:thought)?", "<unused95>"),  # MedGemma
    (r"<\|channel\|?>(?:analysis|commentary|thought)\b(?:<\|message\|>)?", r"<\|end\|>|<channel\|>"),  # gpt-oss, Gemma
)
_OPENS, _CLOSES = ("|".join(ends) for ends in zip(*_PAIRS, strict=True))
_FIRST = re.compile(r"[<\[◁]")  # beginning of a tag, searched first, because most texts have none
_TAG = re.compile(rf"(?P<open>{_OPENS})|(?:{_CLOSES})(?![`\"'”’])", re.IGNORECASE)
_LINE = re.compile(r"(?:\A|\n)[^\S\n]*(?:<\|start\|>assistant)?\Z")
_QUOTES = "`\"'“‘"
#: Text around an answer after a thought that belongs to neither.
_FRAME = re.compile(
    r"<\|start\|>assistant|<\|channel\|>final(?:<\|message\|>)?|<\|return\|>|"
    r"<\|(?:begin|end)_of_solution\|>|<\|(?:START|END)_RESPONSE\|>|</?response>"
)
_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_FIELD = re.compile(r"reasoning|thinking|thought", re.IGNORECASE)  # other names used by servers
_WORDS = ("text", "content", "thinking", "reasoning", "reasoning_content", "summary", "value")
_NO_WORDS = ("image_url", "image", "input_audio", "audio", "refusal", "tool_use", "tool_call")
#: Thoughts without tags: Granite 3, and gpt-oss without its channel marks.
_UNTAGGED = (
    re.compile(r"\A\s*Here(?: is|[’']s) my thought process:(.*?)(?:Here(?: is|[’']s) my response:(.*)|\Z)", re.DOTALL),
    re.compile(r"\A\s*analysis(?=[A-Z])(.*?)(?:assistantfinal(.*)|\Z)", re.DOTALL),
)


class Split(NamedTuple):
    """Thought (None without one), and the answer after it (empty if the text ends inside the thought)."""

    thought: str | None
    answer: str


def split_thought(text: str, *, opened: bool = False) -> Split:
    r"""Split a model's text into its thought and its answer.

    Parameters
    ----------
    text : str
        The model's output.
    opened : bool
        Whether the prompt opened the thought, as some chat templates do, so that the text begins inside it: without a
        closing tag there is then no answer.

    Returns
    -------
    Split
        ``thought``: the text inside think tags; None if there is no tag. ``answer``: the rest; text without tags is
        unchanged.

    Notes
    -----
    Tags are those of the common families, in any case: ``<think>``, ``<thinking>``, ``<reasoning>``, ``[THINK]``,
    ``◁think▷``, the channels of gpt-oss, and others. A thought without a closing tag was cut off, and there is no
    answer, whatever the text before it. A closing tag without an opening one ends a thought opened by the prompt.
    Thoughts may be nested. A tag in quotation marks or backticks, and an opening one within a line, is a mention.

    Examples
    --------
    >>> split_thought("<think>4 seems fair, or 3?</think>\n\nScore: 3")
    Split(thought='4 seems fair, or 3?', answer='Score: 3')
    >>> split_thought("It is vague.\n</think>\nScore: 2").answer, split_thought("<think>\nScore: 2, or").answer
    ('Score: 2', '')
    >>> split_thought("Score: 2")
    Split(thought=None, answer='Score: 2')
    """
    if (match := next(filter(None, (untagged.match(text) for untagged in _UNTAGGED)), None)) is not None:
        return Split(match[1].strip(), (match[2] or "").strip())
    thoughts: list[str] = []
    answers: list[str] = []
    depth, start, closed_at = int(opened), 0, -1
    seen, begin = opened, next(_tags(text)).end() if opens_thought(text) else 0
    for tag in _tags(text):
        seen = True
        if tag["open"] is not None:
            if depth == 0:
                answers.append(text[start : tag.start()])
                start, closed_at = tag.end(), -1
            depth += 1
        elif depth > 1:
            depth, closed_at = depth - 1, tag.end()
        else:
            if depth == 0:  # what seemed to be an answer was part of a thought
                thoughts, answers, start = [], [], begin
            thoughts.append(text[start : tag.start()])
            depth, start = 0, tag.end()
    if not seen:
        return Split(None, _FRAME.sub("", text) if _FRAME.match(text) else text)
    if depth and closed_at < 0:
        thoughts.append(text[start:])
        return Split(_joined(thoughts), "")
    if depth:  # an inner tag was not closed: the last closing tag ends the thought
        thoughts.append(text[start:closed_at])
        start = closed_at
    answers.append(text[start:])
    return Split(_joined(thoughts), _FRAME.sub("", "".join(answers)).strip())


def begins_inside(text: str) -> bool:
    r"""Return whether a text begins inside a thought that the prompt opened, and closes it.

    Examples
    --------
    >>> begins_inside("</think>\nScore: 2"), begins_inside("<think>2?</think>Score: 2"), begins_inside("Score: 2")
    (True, False, False)
    """
    first = next(_tags(text), None)
    return first is not None and first["open"] is None


def opens_thought(text: str) -> bool:
    r"""Return whether a text begins with an opening tag.

    Examples
    --------
    >>> opens_thought("<think>\n"), opens_thought("Score: 2")
    (True, False)
    """
    first = next(_tags(text), None)
    return first is not None and first["open"] is not None and not text[: first.start()].strip()


def begins_with_tag(text: str) -> bool:
    r"""Return whether a text begins with any thought tag, as when a server sends a thought twice.

    Examples
    --------
    >>> begins_with_tag("<think>3?</think>\n2"), begins_with_tag("</think>\n2"), begins_with_tag("2 </think>")
    (True, True, False)
    """
    first = next(_tags(text), None)
    return first is not None and not text[: first.start()].strip()


def split_message(message: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the text and the thought of a chat completion's message, each None if missing.

    Parameters
    ----------
    message : mapping
        With ``content``, a string, parts of content or None; and the thought in ``reasoning_content`` (DeepSeek, vLLM,
        SGLang, llama.cpp), ``reasoning`` (OpenRouter, Ollama, later vLLM) or parts of type ``"thinking"`` (Mistral).
        Think tags in the text are left to `split_thought`. If the model called a tool instead of writing text, the
        arguments are the text.

    Raises
    ------
    TypeError
        If the content has another type.

    Examples
    --------
    >>> split_message({"content": "Score: 3", "reasoning_content": "4 seems fair, or 3?"})
    ('Score: 3', '4 seems fair, or 3?')
    """
    content = message.get("content")
    names = [*_FIELDS, *(name for name in message if _FIELD.search(name) and name not in _FIELDS)]
    thought = next((words for name in names if (words := _words(message.get(name)))), None)
    content = [content] if isinstance(content, Mapping) else content
    if isinstance(content, list):
        thought = thought or "".join(_words(part) for part in content if _is_thought(part)) or None
        content = "".join(_words(part) for part in content if not _is_thought(part))
    content = content or _arguments(message, content)
    if not isinstance(content, str | None):
        raise TypeError(content)
    return content, thought


def _is_thought(part: object) -> bool:
    """Return whether a part of a content is a thought: by its type, or by Google's mark."""
    return isinstance(part, Mapping) and bool(part.get("thought") or _FIELD.search(str(part.get("type", ""))))


def _arguments(message: Mapping[str, Any], content: Any) -> Any:
    """Return the arguments of a tool call, as JSON, or the content if there was none."""
    calls = message.get("tool_calls") or [{"function": message.get("function_call") or {}}]
    arguments = calls[0]["function"].get("arguments", content)
    return json.dumps(arguments) if isinstance(arguments, Mapping) else arguments


def answered(reply: Reply) -> Reply:
    """Return a reply with its thought separated from its text; unchanged if the text has no think tags.

    If the thought is separate already, tags count only at the beginning of the text, as when a server sends it twice.

    Examples
    --------
    >>> reply = answered(Reply(text="<think>A, or B?</think>B"))
    >>> reply.thought, reply.text
    ('A, or B?', 'B')
    """
    if not reply.text or (reply.thought is not None and not begins_with_tag(reply.text)):
        return reply
    thought, answer = split_thought(reply.text)
    if thought is None:
        return reply
    both = [each for each in (reply.thought, thought) if each]
    return replace(reply, thought=both[0] if len(both) == 2 and both[1] in both[0] else _joined(both), text=answer)


def is_cut_off(reply: Reply) -> bool:
    """Return whether a reply ends at its token limit, or inside its thought, whether shown or only counted.

    Examples
    --------
    >>> is_cut_off(Reply(text="", finish_reason="length")), is_cut_off(Reply(text="", thought="A, or"))
    (True, True)
    """
    thinks = bool(reply.thought) or (reply.text is not None and reply.usage.reasoning_tokens > 0)
    return reply.finish_reason == AT_LIMIT or (thinks and not reply.text and reply.finish_reason not in DECLINED)


def _words(value: Any) -> str:
    """Return the text of a thought or of a part of a content, which may be an object or a list of these."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_words, value))
    if not isinstance(value, Mapping) or value.get("type") in _NO_WORDS:
        return ""
    return next((words for name in _WORDS if (words := _words(value.get(name)))), "")


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of a text: opening ones at the beginning of a line, and closing ones that are not quoted."""
    for first in _FIRST.finditer(text):
        tag = _TAG.match(text, first.start())
        if tag is None:
            continue
        before = text[max(first.start() - 40, 0) : first.start()]
        if _LINE.search(before) if tag["open"] is not None else before[-1:] not in _QUOTES or not before:
            yield tag


def _joined(thoughts: list[str]) -> str:
    return "\n\n".join(filter(None, (thought.strip() for thought in thoughts)))
