"""Raise `InputError` that names the argument if a public function is called with a wrong type.

`checked` costs a call next to nothing as long as nothing fails. What escapes a function and is no error of biaslab is
looked at once more: where an argument is not what its annotation says, `biaslab.core.errors.InputError` names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, update_wrapper
from types import FunctionType
from typing import Any, TypeVar, cast, overload

from biaslab.core.errors import BiaslabError

Made = TypeVar("Made", bound=Callable[..., Any])
_PASSES = (BiaslabError, Warning, StopIteration, GeneratorExit)


@overload
def checked(made: Made) -> Made: ...
@overload
def checked(*, eager: bool = ...) -> Callable[[Made], Made]: ...
def checked(made: Any = None, *, eager: bool = False) -> Any:
    """Decorate a function, or a class and its public methods, so that errors name the wrong argument.

    Parameters
    ----------
    made : function or class
        One whose parameters are annotated.
    eager : bool
        Compare the arguments with the annotations although nothing fails, for what would be kept and fail later: those
        of a function before it is called, those of a class after its own checks, which say more. Takes some
        microseconds an argument, so it is not for what is made for every request.

    Raises
    ------
    InputError
        From whatever is called, if an argument does not fit its annotation; `TrialsError` if a frame is another one.

    Examples
    --------
    >>> @checked
    ... def half(number: float) -> float:
    ...     return number / 2
    >>> half("4")
    Traceback (most recent call last):
    ...
    biaslab.core.errors.InputError: number is '4', allowed: a number; write it without quotes
    """
    if made is None:
        return lambda later: checked_class(later, eager) if inspect.isclass(later) else checked_function(later, eager)
    return checked_class(made) if inspect.isclass(made) else checked_function(made)


def checked_class(kind: type[Any], eager: bool = False) -> type[Any]:
    """Add such errors to a class and its own public methods; return the class."""
    own = vars(kind)
    if inspect.isfunction(own.get("__init__")):
        kind.__init__ = _wrapped(own["__init__"], after=eager)
    check_methods(kind)
    return kind


def check_methods(kind: type[Any]) -> None:
    """Add such errors to a class's own public methods."""
    for name, method in list(vars(kind).items()):
        if name.startswith("_") or getattr(method, "__isabstractmethod__", False):
            continue
        if isinstance(method, classmethod | staticmethod):
            setattr(kind, name, type(method)(checked_function(method.__func__)))
        elif inspect.isfunction(method):
            setattr(kind, name, checked_function(method))


def checked_fields(kind: type[Any]) -> None:
    """Compare the fields of a frozen dataclass with their annotations, after its own checks.

    For a base whose subclasses are not decorated. What is left at its default is not compared.
    """
    own = kind.__post_init__

    def checks(self: Any) -> None:
        tried(self)
        if type(self) is kind:
            told(self)

    def told(self: Any) -> None:
        changed = {name: value for name, value in vars(self).items() if value is not getattr(kind, name, _PASSES)}
        blame(kind.__init__, (self,), changed)

    def tried(self: Any) -> None:
        try:
            own(self)
        except _PASSES:
            raise
        except Exception:
            told(self)
            raise

    kind.__post_init__ = checks


def checked_function(function: Made, eager: bool = False) -> Made:
    """Add such errors to one function, once."""
    if getattr(function, "__checked__", False) or not inspect.isfunction(inspect.unwrap(function)):
        return function
    return cast("Made", _wrapped(function, before=eager))


def _wrapped(function: Any, before: bool = False, after: bool = False) -> Any:
    """Wrap a function to check its arguments when it fails and, optionally, before or after the call.

    The wrapper has the namespace of the function's module, so that its doctests are found as those of any other; what
    `call` needs is therefore in its closure.
    """
    passes, blamed, fault = _PASSES, blame, Exception

    def call(*args: Any, **kwargs: Any) -> Any:
        """Call the function; if it fails, report the wrong argument."""
        if before:
            blamed(function, args, kwargs)
        try:
            result = function(*args, **kwargs)
        except passes:
            raise
        except fault as error:
            blamed(function, args, kwargs, error)
            raise
        if after:
            blamed(function, args, kwargs)
        return result

    made = _iterated(function) if inspect.isgeneratorfunction(function) and not before else call
    namespace = inspect.unwrap(function).__globals__
    wrapper = FunctionType(made.__code__, namespace, function.__name__, None, made.__closure__)
    update_wrapper(wrapper, function)
    wrapper.__checked__ = True  # type: ignore[attr-defined]
    for name in ("cache_clear", "cache_info"):  # of what functools.cache made
        if hasattr(function, name):
            setattr(wrapper, name, getattr(function, name))
    return wrapper


def _iterated(function: Any) -> Any:
    """Return a generator function that checks its arguments if iteration fails."""
    passes, blamed, fault = _PASSES, blame, Exception

    def iterate(*args: Any, **kwargs: Any) -> Any:
        try:
            return (yield from function(*args, **kwargs))
        except passes:
            raise
        except fault as error:
            blamed(function, args, kwargs, error)
            raise

    return iterate


def blame(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception | None = None) -> None:
    """Raise the error about the first wrong argument, if any.

    Parameters
    ----------
    function : function
        What was called.
    args, kwargs
        With what.
    error : Exception, optional
        What escaped it. Only then are values looked at too: whether there is nothing in them, or no number.

    Raises
    ------
    InputError
        Names the argument, its value, what is allowed and what to do.
    """
    if isinstance(error, _PASSES):
        return
    from biaslab.core.kinds import hints, wrong_column, wrong_frame, wrong_kind, wrong_value

    try:
        bound = _signature(function).bind(*args, **kwargs)
    except TypeError:  # the call itself is wrong, and Python says so
        return
    expected = hints(function, next(iter(args), None))
    named = _named(bound)
    faults = [wrong_kind(name, value, expected[name]) for name, value in named if name in expected]
    if error is not None:
        faults += [*(wrong_frame(*each) for each in named), wrong_column(named, error)]
        # a function that was given may be what failed, for reasons of its own
        faults += [wrong_value(*each) for each in named if not any(inspect.isroutine(value) for _, value in named)]
    for fault in faults:
        if fault is not None:
            raise fault from error


@cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def _named(bound: inspect.BoundArguments) -> list[tuple[str, Any]]:
    """Return the arguments of a call with their names; those of ``*args`` share one."""
    named: list[tuple[str, Any]] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        several = value if kind is inspect.Parameter.VAR_POSITIONAL else (value,)
        if kind is not inspect.Parameter.VAR_KEYWORD:
            named += [(name, each) for each in several]
    return [(name, value) for name, value in named if name not in ("self", "cls")]
