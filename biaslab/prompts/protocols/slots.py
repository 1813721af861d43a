"""Prompt texts with slots, and what the arguments of `Protocol.from_template` become.

Data fill slots and nothing else: a candidate that contains ``{first}`` or ``{{ first }}`` is printed literally.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from string import Formatter
from typing import Any, Literal, get_args

import jinja2
from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.core.files import declared
from biaslab.core.requests import Role
from biaslab.core.scales import scale_named
from biaslab.prompts.protocols import readers
from biaslab.prompts.protocols.readers import Function, JsonPath, LabelReader, Pattern, VerdictReader

Syntax = Literal["braces", "format", "dollar", "jinja2"]

_NAME = r"[^\W\d]\w*"
_SLOT = {
    "braces": re.compile(rf"\{{({_NAME})\}}"),
    "format": re.compile(rf"(?<!\{{)\{{({_NAME})\}}"),
    "dollar": re.compile(rf"\{{\$({_NAME})\}}"),
}
_JINJA = re.compile(rf"\{{%|\{{\{{-?\s*{_NAME}[^{{}}\"']*\}}\}}")


@dataclass(frozen=True)
class SlotText:
    """A text with slots.

    Parameters
    ----------
    source : str
        The original text.
    syntax : {"braces", "format", "dollar", "jinja2"}
        How slots are written: ``{name}``, with all other braces literal; ``{name}`` as in `str.format`, with doubled
        braces for single ones; ``{$name}``; or a Jinja2 template, which is rendered in a sandbox.

    Raises
    ------
    InputError
        If the syntax is unknown, or Jinja2 cannot parse the text.

    Examples
    --------
    >>> text = SlotText('Rate {answer} as {"score": 1}.', "braces")
    >>> text.slots, text.fill({"answer": "{answer}"})
    (('answer',), 'Rate {answer} as {"score": 1}.')
    >>> SlotText("{% if hint %}{{ hint }}{% endif %}{{ text }}", "jinja2").slots
    ('hint', 'text')
    """

    source: str
    syntax: Syntax

    def __post_init__(self) -> None:
        require_one_of("syntax", self.syntax, get_args(Syntax))
        if self.syntax == "jinja2":
            _ = self.slots

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots, each once, in order of first occurrence."""
        if self.syntax == "jinja2":
            tree = _parse(self.source)
            free = meta.find_undeclared_variables(tree)
            return tuple(dict.fromkeys(node.name for node in tree.find_all(nodes.Name) if node.name in free))
        return tuple(dict.fromkeys(_SLOT[self.syntax].findall(self.source)))

    @cached_property
    def _parts(self) -> tuple[str, ...]:
        """Alternating literal text and slot names, for text in braces."""
        parts = _SLOT[self.syntax].split(self.source)
        if self.syntax == "format":
            parts[::2] = [part.replace("{{", "{").replace("}}", "}") for part in parts[::2]]
        return tuple(parts)

    def fill(self, values: Mapping[str, object]) -> str:
        """Return the text with its slots filled.

        Parameters
        ----------
        values : mapping of str to object
            A value for each slot.

        Raises
        ------
        InputError
            If a slot has no value, or a Jinja2 template fails or violates its sandbox.
        """
        missing = [name for name in self.slots if name not in values]
        if missing:
            raise InputError.plain(f"slot {missing[0]} of the template has no value")
        if self.syntax == "jinja2":
            return _render(self.source, values)
        return "".join(str(values[part]) if i % 2 else part for i, part in enumerate(self._parts))


def guess_syntax(source: str) -> Syntax:
    """Guess the slot syntax of a text.

    Examples
    --------
    >>> guess_syntax("Rate {{ text }}."), guess_syntax("Rate {$text}."), guess_syntax("Rate {text}.")
    ('jinja2', 'dollar', 'braces')
    >>> guess_syntax('Rate {text} as {{"score": 1}}.')
    'format'
    """
    if _SLOT["dollar"].search(source):
        return "dollar"
    single = _SLOT["format"].search(source)
    if single is None and _JINJA.search(source):
        return "jinja2"
    return "format" if "{{" in source and _is_format_string(source) else "braces"


def _is_format_string(source: str) -> bool:
    try:
        fields = [name for _, name, _, _ in Formatter().parse(source) if name is not None]
    except ValueError:
        return False
    return all(re.fullmatch(_NAME, name) for name in fields)


@lru_cache(maxsize=64)
def _environment() -> SandboxedEnvironment:
    return SandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)


def _parse(source: str) -> nodes.Template:
    try:
        tree = _environment().parse(source)
        _compiled(source)
    except (RecursionError, MemoryError, SyntaxError) as error:  # of Python, which compiles it
        raise InputError.plain("template is nested too deeply; simplify its expressions") from error
    except jinja2.TemplateSyntaxError as error:
        problem = f"template fails in line {error.lineno}: {error.message}"
        raise InputError.plain(f'{problem}; for one without Jinja2, choose syntax="braces"') from error
    return tree


@lru_cache(maxsize=256)
def _compiled(source: str) -> jinja2.Template:
    return _environment().from_string(source)


def _render(source: str, values: Mapping[str, object]) -> str:
    try:
        return _compiled(source).render(values)
    except (jinja2.UndefinedError, SecurityError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InputError.plain(f"template cannot be rendered ({type(error).__name__}: {error})") from error


LONGEST_SCALE = 1000
_CANDIDATES = {"pair": ("first", "second"), "score": ("candidate",), "list": ("candidates",)}
#: Beginning and end of a turn: ChatML, Llama 3, and models like Zephyr and Phi.
_CHAT_MARKS = tuple(
    rf"(?sm){begins}(.*?)\s*(?={begins.replace('(', '(?:')}|{ends}|\Z)"
    for begins, ends in (
        (r"<\|im_start\|>\s*(system|user|assistant)[^\n]*\n", r"<\|im_end\|>"),
        (r"<\|start_header_id\|>\s*(system|user|assistant)\s*<\|end_header_id\|>", r"<\|eot_id\|>"),
        (r"^<\|(system|user|assistant)\|>\s*?\n", r"<\|end\|>|</s>|<\|endoftext\|>"),
    )
)
_WHAT = (
    "answer|response|resp|output|completion|candidate|summary|option|assistant|model|text|reply|prediction|solution|"
    "story|submission|translation|generation"
)
_ONE_OF_TWO = (
    rf"(?:{_WHAT})_?(?P<behind>a|b|1|2|one|two|another|other)(?:_(?:{_WHAT}))?"
    rf"|(?P<before>first|second|a|b)(?:_(?:{_WHAT}))?"
)
_FIRST = {"a", "1", "one", "first"}
_NAMES: dict[str, dict[str, str]] = declared("biaslab.prompts.protocols", "slot_names.toml")
_CONTEXTS = _NAMES["any"]["context"].split()
_SOURCE_OF, _SOURCE_OF_LISTS = (
    {name: source for source, names in _NAMES[form].items() for name in names.split()} for form in ("any", "list")
)


def as_turns(
    template: str | Path | Sequence[tuple[Role, str]], system: str, prefill: str, syntax: Syntax | None
) -> tuple[str, tuple[tuple[Role, SlotText], ...]]:
    """Return the name of the file that a template comes from, if any, and its messages."""
    stem, messages = "", template
    if isinstance(template, str) and "\n" not in template and len(template) < 1024 and Path(template).is_file():
        template = Path(template)
    if isinstance(template, Path):
        stem, messages = template.stem, read_text(template)
    turns: list[tuple[Role, str]] = list(split_chat(messages)) if isinstance(messages, str) else [*messages]  # type: ignore[misc]
    whole = [("system", system)] * bool(system) + turns + [("assistant", prefill)] * bool(prefill)
    if not any(role == "user" and text.strip() for role, text in whole):
        raise InputError("template", template, "a text, or messages including a user message")
    common = syntax or guess_syntax("\n".join(text for _, text in whole))
    return stem, tuple((role, SlotText(text, common)) for role, text in whole)  # type: ignore[misc]


def read_text(path: Path) -> str:
    """Return the content of a file.

    Raises
    ------
    InputError
        If it is not readable as UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("path", str(path), f"a text file in UTF-8 ({type(error).__name__})") from error


def split_chat(text: str) -> tuple[tuple[Role, str], ...]:
    r"""Split a text at chat marks; without any it is a single user message.

    Examples
    --------
    >>> split_chat("<|im_start|>system\nBe brief.\n<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>")
    (('system', 'Be brief.'), ('user', 'Hi'))
    """
    for mark in _CHAT_MARKS:
        turns = tuple((match[1], match[2].strip()) for match in re.finditer(mark, text))
        if turns:
            return tuple(turn for turn in turns if turn[1])  # type: ignore[misc] # the mark of a reply is no message
    return (("user", text),)


def guess_variables(
    slots: Sequence[str], form: str, variables: Mapping[str, str], values: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return what each slot shows: the given variable, the one its name suggests, or the column of that name.

    At most one slot is guessed to show the context; of ``{instruction}`` and ``{input}`` the second is a column.

    Raises
    ------
    InputError
        If a variable is given for a slot that the template does not have.

    Examples
    --------
    >>> guess_variables(["question", "answer_a", "answer_b", "hint"], "pair", {}, {})
    (('question', 'context'), ('answer_a', 'first'), ('answer_b', 'second'), ('hint', 'hint'))
    """
    for name, texts in (("variables", variables), ("values", values)):
        unused = [slot for slot in texts if slot not in slots]
        if unused:
            raise InputError(name, unused[0], f"slots of the template: {', '.join(slots) or 'it has none'}")
    shown = {slot: variables.get(slot) or _guess(slot, form) for slot in slots if slot not in values}
    if form == "pair" and "first" not in shown.values():  # "response" next to "response_another"
        shown = {slot: "first" if source == "candidate" else source for slot, source in shown.items()}
    contexts = [slot for slot, source in shown.items() if source == "context" and slot not in variables]
    if "context" in variables.values():
        main = ""
    else:
        main = min(contexts, key=lambda slot: _CONTEXTS.index(slot.lower()), default="")
    return tuple((slot, slot if slot in contexts and slot != main else source) for slot, source in shown.items())


def require_candidates(form: str, variables: Sequence[tuple[str, str]]) -> None:
    """Raise `InputError` unless every candidate has its own slot."""
    shown = {source: slot for slot, source in variables}
    for source in _CANDIDATES[form]:
        if source not in shown:
            who = f"candidate shown {source}" if form == "pair" else source
            slots = ", ".join(f"{slot} shows the {source}" for source, slot in shown.items()) or "it has no slots"
            remedy = f'name the slot: variables={{"SLOT": "{source}"}}'
            if form == "list":
                remedy = "one slot shows all: use {candidates}, or loop over it in Jinja2"
            raise InputError.plain(f"template does not show the {who} ({slots}); {remedy}")


def require_no_verdicts(*arguments: object) -> None:
    """Raise `InputError` if any argument specifies how pairs or scores are parsed."""
    if any(each is not None for each in arguments):
        allowed = "replies and names (verdicts, pattern, json, parse and scale apply to pairs and scores)"
        raise InputError("form", "list", allowed, 'such as replies="order", names="[{n}]"')


def _guess(slot: str, form: str) -> str:
    name = slot.lower()
    side = re.fullmatch(_ONE_OF_TWO, name) if form == "pair" else None
    if side:
        return "first" if (side["behind"] or side["before"]) in _FIRST else "second"
    if form == "list" and name in _SOURCE_OF_LISTS:
        return _SOURCE_OF_LISTS[name]
    return _SOURCE_OF.get(name, slot)


def reader_of(
    verdicts: Mapping[str, float] | None,
    pattern: str | Sequence[str] | None,
    writes: str,
    json: str | None,
    parse: Callable[[str], Any] | None,
    examples: Mapping[str, float] | None,
    scale: str | tuple[float, float] | None,
) -> VerdictReader:
    """Return the reader that the arguments describe.

    Raises
    ------
    InputError
        If they describe none, or several.
    """
    ways = {"pattern": pattern, "json": json, "parse": parse}
    chosen = [name for name, value in ways.items() if value is not None]
    if len(chosen) > 1:
        raise InputError("reader", " and ".join(chosen), "one of pattern, json, parse")
    if not isinstance(verdicts, Mapping | None):
        raise InputError("verdicts", verdicts, "reply → value", 'write verdicts={"[[A]]": 1, "[[B]]": 0}')
    meanings: readers.VerdictValues = tuple((str(label), float(value)) for label, value in (verdicts or {}).items())
    if parse is not None:
        return Function(parse, tuple((examples or verdicts or {}).items()))
    if pattern is not None:
        return Pattern((pattern,) if isinstance(pattern, str) else tuple(pattern), meanings, writes)
    if json is not None:
        return JsonPath(json, meanings)
    if meanings:
        return LabelReader(meanings)
    if isinstance(scale, str):
        return readers.FreeScore(scale)
    remedy = 'give verdicts={"[[A]]": 1, "[[B]]": 0}, a pattern, a JSON path, a function or scale="1-5"'
    raise InputError.plain(f"the meaning of replies is missing; {remedy}")


def points_of(form: str, reader: VerdictReader, scale: str | tuple[float, float] | None) -> tuple[float, ...]:
    """Return the values that replies can have, in ascending order."""
    if form == "list":
        return ()
    if reader.points:
        if form == "pair" and not 0 <= reader.points[0] < reader.points[-1] <= 1:
            raise InputError("verdicts", reader.points, "probabilities that the first wins: 1, 0, and 0.5 for a tie")
        return reader.points
    if form == "pair":
        raise InputError.plain('the meaning of replies is missing; give verdicts, such as {"A": 1, "B": 0}')
    if isinstance(scale, str):
        return scale_named(scale).values
    if scale is None:
        raise InputError("scale", scale, "a name such as '1-5', or two ends such as (0, 100)", "or give verdicts")
    if not scale[0] < scale[1]:
        raise InputError("scale", scale, "two ends, the lower one first")
    low, high = map(float, scale)
    whole = low.is_integer() and high.is_integer() and high - low <= LONGEST_SCALE
    return tuple(map(float, range(int(low), int(high) + 1))) if whole else (low, high)


def as_json(value: Any) -> Any:
    """Return a field in JSON-serialisable form."""
    if isinstance(value, Function):
        return [value.function.__module__, value.function.__qualname__, value.verdicts]
    if isinstance(value, VerdictReader | SlotText):
        return [type(value).__name__, *(as_json(getattr(value, each.name)) for each in fields(value))]  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [as_json(each) for each in value]
    return value
