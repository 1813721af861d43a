"""Raise `InputError` that names the argument if a public function is called with a wrong type.

`checked` costs next to nothing as long as a call succeeds. If an exception that is not biaslab's own escapes, the
arguments are compared with their annotations, and a mismatch raises `biaslab.core.errors.InputError`.
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
        The function or class to decorate; its parameters are annotated.
    eager : bool
        Compare the arguments with the annotations even if nothing fails, for values that are stored and would fail
        later: before the call for a function, after its own checks (whose messages are more specific) for a class.
        Takes some microseconds per argument, so do not use it on what is created for every request.

    Raises
    ------
    InputError
        From the decorated callable, if an argument does not fit its annotation; `TrialsError` if it is the wrong
        frame.

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
    """Decorate a class and its own public methods; return the class."""
    own = vars(kind)
    if inspect.isfunction(own.get("__init__")):
        kind.__init__ = _wrapped(own["__init__"], after=eager)
    check_methods(kind)
    return kind


def check_methods(kind: type[Any]) -> None:
    """Decorate a class's own public methods."""
    for name, method in list(vars(kind).items()):
        if name.startswith("_") or getattr(method, "__isabstractmethod__", False):
            continue
        if isinstance(method, classmethod | staticmethod):
            setattr(kind, name, type(method)(checked_function(method.__func__)))
        elif inspect.isfunction(method):
            setattr(kind, name, checked_function(method))


def checked_fields(kind: type[Any]) -> None:
    """Compare the fields of a frozen dataclass with their annotations, after its own checks.

    For a base class whose subclasses are not decorated. Fields left at their defaults are skipped.
    """
    own = kind.__post_init__

    def checks(self: Any) -> None:
        check(self)
        if type(self) is kind:
            compare(self)

    def compare(self: Any) -> None:
        changed = {name: value for name, value in vars(self).items() if value is not getattr(kind, name, _PASSES)}
        blame(kind.__init__, (self,), changed)

    def check(self: Any) -> None:
        try:
            own(self)
        except _PASSES:
            raise
        except Exception:
            compare(self)
            raise

    kind.__post_init__ = checks


def checked_function(function: Made, eager: bool = False) -> Made:
    """Decorate one function; a second call has no effect."""
    if getattr(function, "__checked__", False) or not inspect.isfunction(inspect.unwrap(function)):
        return function
    return cast("Made", _wrapped(function, before=eager))


def _wrapped(function: Any, before: bool = False, after: bool = False) -> Any:
    """Wrap a function to check its arguments when it fails and, optionally, before or after the call.

    The wrapper shares the namespace of the function's module so that doctest finds its examples; whatever `call` needs
    is therefore in its closure.
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

    replacement = _iterated(function) if inspect.isgeneratorfunction(function) and not before else call
    namespace = inspect.unwrap(function).__globals__
    wrapper = FunctionType(replacement.__code__, namespace, function.__name__, None, replacement.__closure__)
    update_wrapper(wrapper, function)
    wrapper.__checked__ = True  # type: ignore[attr-defined]
    for name in ("cache_clear", "cache_info"):  # attributes added by functools.cache
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
        The function that was called.
    args, kwargs
        Its arguments.
    error : Exception, optional
        The exception that escaped. Only if there is one are values checked as well: empty, or not finite.

    Raises
    ------
    InputError
        Names the argument, its value, what is allowed and the remedy.
    """
    if isinstance(error, _PASSES):
        return
    from biaslab.core.kinds import hints, wrong_column, wrong_frame, wrong_kind, wrong_value

    try:
        bound = _signature(function).bind(*args, **kwargs)
    except TypeError:  # the call itself does not match the signature; Python's message says so
        return
    expected = hints(function, next(iter(args), None))
    named = _named(bound)
    faults = [wrong_kind(name, value, expected[name]) for name, value in named if name in expected]
    if error is not None:
        faults += [*(wrong_frame(*each) for each in named), wrong_column(named, error)]
        # a callback passed as an argument may have failed for reasons of its own
        faults += [wrong_value(*each) for each in named if not any(inspect.isroutine(value) for _, value in named)]
    for fault in faults:
        if fault is not None:
            raise fault from error


@cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def _named(bound: inspect.BoundArguments) -> list[tuple[str, Any]]:
    """Return the arguments of a call by parameter name; those of ``*args`` share one name."""
    named: list[tuple[str, Any]] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        several = value if kind is inspect.Parameter.VAR_POSITIONAL else (value,)
        if kind is not inspect.Parameter.VAR_KEYWORD:
            named += [(name, each) for each in several]
    return [(name, value) for name, value in named if name not in ("self", "cls")]
