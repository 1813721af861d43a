"""Commands made from functions: options come from the signature, their help from the numpydoc "Parameters"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from inspect import Parameter, Signature, getdoc, signature
from os import PathLike
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from biaslab.core.errors import InputError
from biaslab.core.files import declared

_Function = TypeVar("_Function", bound=Callable[..., Any])
OptionTexts = Mapping[str, tuple[str | None, str]]

_SHORT = {"param": "-p", "yes": "-y"}
_SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\w[\w, ]*?)(?: : (.*))?\n((?: +.*\n?|\n)+)", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.])\s+(?=[A-Z])")

_DECLARED = declared("biaslab.cli", "words.toml")
#: Metavariable and help of options that mean the same in every command that does not document them itself.
COMMON: OptionTexts = {name: (about.get("metavar"), about["help"]) for name, about in _DECLARED["options"].items()}
#: Words that people type instead of a command, and the commands that answer.
COMMANDS_OF_WORDS = {word: commands for words, commands in _DECLARED["commands"].items() for word in words.split()}


class CommandGroup(TyperGroup):
    """Commands, which suggest one for a word of the field that is none of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and its arguments."""
        word = args[0].lower().replace("_", "-")
        if word not in self.commands and word in COMMANDS_OF_WORDS:
            ctx.fail(f"No such command {args[0]!r}. For {word}, see: biaslab {COMMANDS_OF_WORDS[word]}")
        return super().resolve_command(ctx, args)


def command(
    app: typer.Typer, name: str | None = None, calls: str = "", takes: Sequence[str] = ()
) -> Callable[[_Function], _Function]:
    """Add a function to an app as a command.

    Positional-only parameters become arguments, and all others options: ``order_unknown`` is ``--order-unknown``, and
    ``all_`` is ``--all``. A parameter whose type is a dataclass stands for one option per field. The "Parameters"
    section of the docstring gives the help; the type written there is the metavariable. The text before it is the help
    of the command.

    Parameters
    ----------
    app : Typer
        The app, or a group of commands.
    name : str, optional
        Name of the command; default: that of the function.
    calls : str
        A function of the package, such as ``"biaslab.study.planning:plan"``, which the command calls. Its parameters
        named in `takes` become options, too; the command receives them as ``**options``. It is imported when the
        options are needed.
    takes : sequence of str
        Names of these parameters.
    """

    def add(function: _Function) -> _Function:
        class Command(TyperCommand):
            """A command that builds its options when they are first needed."""

            def __init__(self, **settings: Any) -> None:
                super().__init__(**settings)
                del self.params

            @cached_property
            def params(self) -> list[Any]:  # type: ignore[override]
                built = typer.Typer(add_completion=False)
                built.command()(_flat(function, calls, takes))
                full = typer.main.get_command(built)
                self.callback = full.callback
                return full.params

        words = (getdoc(function) or "").partition("\n\nParameters\n---")[0]
        app.command(name or function.__name__.replace("_", "-"), cls=Command, help=words)(lambda: None)
        return function

    return add


def _flat(function: Callable[..., Any], calls: str, takes: Sequence[str]) -> Callable[..., Any]:
    """Return a function with a parameter per option, as Typer expects it, that calls the given one."""
    hints, texts = get_type_hints(function, include_extras=True), parameter_texts(function)
    groups: dict[str, Any] = {}
    positional: list[str] = []
    options: list[Parameter] = []
    for each in signature(function).parameters.values():
        hint = hints[each.name]
        if each.kind is Parameter.VAR_KEYWORD:
            options += _taken(resolve_name(calls), takes, texts)
        elif is_dataclass(hint):
            groups[each.name] = hint
            inner, own = get_type_hints(hint), {**parameter_texts(groups[each.name]), **texts}
            options += [_option(field.name, inner[field.name], field.default, own) for field in fields(hint)]
        elif each.kind is Parameter.POSITIONAL_ONLY:
            positional.append(each.name)
            metavar, words = _text(each.name, texts)
            argument = typer.Argument(_default(each), metavar=metavar, help=words)
            options.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=argument, annotation=hint))
        else:
            options.append(_option(each.name, hint, _default(each), texts))

    def run(**values: Any) -> Any:
        _require_apart(values, positional)
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        return function(*[values.pop(name) for name in positional], **values)

    run.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return run


#: Options whose file is written.
_WRITTEN = ("out", "people", "page", "macros", "checklist", "write", "freeze", "junit", "trials")


def _require_apart(values: Mapping[str, Any], positional: Sequence[str]) -> None:
    """Raise `InputError` if a file that is to be written is one that is read."""
    given = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    paths = [(name, path) for name, each in given.items() for path in each if isinstance(path, Path)]
    read = {path.resolve() for name, path in paths if name in positional or name not in _WRITTEN}
    for name, path in paths:
        if name in _WRITTEN and name not in positional and path.resolve() in read:
            raise InputError(name, str(path), "another file than those that are read")


def _taken(function: Callable[..., Any], names: Sequence[str], texts: OptionTexts) -> Iterator[Parameter]:
    """Yield options for parameters of a function of the package; the help is the first sentence of their text."""
    annotations = {name: function.__annotations__[name] for name in names}  # others may be known to type checkers only
    hints = get_type_hints(SimpleNamespace(__annotations__=annotations), vars(resolve_name(function.__module__)))
    own = {name: (None, _SENTENCE_END.split(text)[0]) for name, (_, text) in parameter_texts(function).items()}
    for name in names:
        yield _option(name, _simple(hints[name]), _default(signature(function).parameters[name]), {**own, **texts})


def _simple(hint: Any) -> Any:
    """Return the type of an option for a parameter that also takes objects: a path, a list, or the type itself."""
    members = get_args(hint) or (hint,)
    if any(get_origin(member) is PathLike or member is Path for member in members):
        return Path | None
    listed = next((member for member in members if get_origin(member) is Sequence), None)
    return hint if listed is None else list[get_args(listed)[0]] | None  # type: ignore[misc]


def _default(parameter: Parameter) -> Any:
    return ... if parameter.default is Parameter.empty else parameter.default


def _option(name: str, hint: Any, default: Any, texts: OptionTexts) -> Parameter:
    if get_origin(hint) is Annotated:  # declared in full
        return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
    metavar, words = _text(name, texts)
    flag = name.strip("_").replace("_", "-")
    flags = [f"--{flag}/--no-{flag}" if hint == bool | None else f"--{flag}"]
    option = typer.Option(default, *flags, *filter(None, [_SHORT.get(name)]), metavar=metavar, help=words)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=option, annotation=hint)


def _text(name: str, texts: OptionTexts) -> tuple[str | None, str]:
    return texts[name] if name in texts else COMMON[name]


def parameter_texts(function: Callable[..., Any]) -> dict[str, tuple[str | None, str]]:
    """Return the type and the text of each parameter in a numpydoc docstring."""
    parts = _SECTION.split(f"{getdoc(function)}\n")
    section = dict(zip(parts[1::2], parts[2::2], strict=True)).get("Parameters", "")
    return {
        name: (kind or None, " ".join(text.split()).replace("``", ""))
        for names, kind, text in _ENTRY.findall(section)
        for name in names.split(", ")
    }
