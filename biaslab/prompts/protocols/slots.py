"""Prompt texts with slots: which slots a text has, and the text with these filled.

Data fill slots and nothing else: a candidate that contains ``{first}`` or ``{{ first }}`` is printed literally.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from string import Formatter
from typing import Literal, get_args

import jinja2
from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError

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
        return tuple(part if i % 2 else self._literal(part) for i, part in enumerate(parts))

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
            raise InputError("template", f"a slot {missing[0]} without a value", f"values for {', '.join(self.slots)}")
        if self.syntax == "jinja2":
            return _render(self.source, values)
        return "".join(str(values[part]) if i % 2 else part for i, part in enumerate(self._parts))

    def _literal(self, piece: str) -> str:
        return piece.replace("{{", "{").replace("}}", "}") if self.syntax == "format" else piece


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
        return _environment().parse(source)
    except jinja2.TemplateSyntaxError as error:
        raise InputError(
            "template", f"line {error.lineno}: {error.message}", "a Jinja2 template", 'or choose syntax="braces"'
        ) from error


@lru_cache(maxsize=256)
def _compiled(source: str) -> jinja2.Template:
    return _environment().from_string(source)


def _render(source: str, values: Mapping[str, object]) -> str:
    try:
        return _compiled(source).render(values)
    except (jinja2.UndefinedError, SecurityError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError("template", f"{type(error).__name__}: {error}", "a Jinja2 template that renders") from error
