"""Raise `InputError` that names the argument wherever the public interface is called with one of a wrong type.

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
    """Give a function, or a class with its public methods, errors that name the argument that is wrong.

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
    biaslab.core.errors.InputError: number is '4', allowed: a number; give a number, without quotes
    """
    if made is None:
        return lambda given: checked_class(given, eager) if inspect.isclass(given) else checked_function(given, eager)
    return checked_class(made) if inspect.isclass(made) else checked_function(made)


def checked_class(kind: type[Any], eager: bool = False) -> type[Any]:
    """Give a class and the public methods that it defines such errors; returns the class itself."""
    own = vars(kind)
    if inspect.isfunction(own.get("__init__")):
        kind.__init__ = _wrapped(own["__init__"], _kept if eager else _tried)
    check_methods(kind)
    return kind


def check_methods(kind: type[Any]) -> None:
    """Give the public methods that a class defines itself such errors."""
    for name, method in list(vars(kind).items()):
        if name.startswith("_") or getattr(method, "__isabstractmethod__", False):
            continue
        if isinstance(method, classmethod | staticmethod):
            setattr(kind, name, type(method)(checked_function(method.__func__)))
        elif inspect.isfunction(method):
            setattr(kind, name, checked_function(method))


def checked_fields(kind: type[Any]) -> None:
    """Let a class of frozen dataclasses compare its fields with their annotations, after what checks it has itself.

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
    """Give one function such errors, once."""
    if getattr(function, "__checked__", False) or not inspect.isfunction(inspect.unwrap(function)):
        return function
    return cast(
        "Made", _wrapped(function, _asked if eager else _iterated if inspect.isgeneratorfunction(function) else _tried)
    )


def _wrapped(function: Any, how: Callable[[Any], Any]) -> Any:
    """Wrap a function, in the namespace of its module, so that its doctests are found as those of any other."""
    made = how(function)
    namespace = inspect.unwrap(function).__globals__
    wrapper = FunctionType(made.__code__, namespace, function.__name__, None, made.__closure__)
    update_wrapper(wrapper, function)
    wrapper.__checked__ = True  # type: ignore[attr-defined]
    for name in ("cache_clear", "cache_info"):  # of what functools.cache made
        if hasattr(function, name):
            setattr(wrapper, name, getattr(function, name))
    return wrapper


def _tried(function: Any) -> Any:
    """Call, and look at the arguments where the call fails."""
    passes, blamed, fault = _PASSES, blame, Exception

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except passes:
            raise
        except fault as error:
            blamed(function, args, kwargs, error)
            raise

    return call


def _iterated(function: Any) -> Any:
    """Iterate, and look at the arguments where that fails."""
    passes, blamed, fault = _PASSES, blame, Exception

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return (yield from function(*args, **kwargs))
        except passes:
            raise
        except fault as error:
            blamed(function, args, kwargs, error)
            raise

    return call


def _asked(function: Any) -> Any:
    """Look at the arguments, then call."""
    blamed, tried = blame, _tried(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        blamed(function, args, kwargs)
        return tried(*args, **kwargs)

    return call


def _kept(function: Any) -> Any:
    """Call, which has checks of its own, then look at the arguments, which an object keeps."""
    blamed, tried = blame, _tried(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        tried(*args, **kwargs)
        blamed(function, args, kwargs)

    return call


def blame(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception | None = None) -> None:
    """Raise the error about the first argument that is not what it should be; return where all are.

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
        given = _signature(function).bind(*args, **kwargs)
    except TypeError:  # the call itself is wrong, and Python says so
        return
    expected = hints(function, next(iter(args), None))
    named = _named(given)
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


def _named(given: inspect.BoundArguments) -> list[tuple[str, Any]]:
    """Return the arguments that were given, each of several under one name."""
    found: list[tuple[str, Any]] = []
    for name, value in given.arguments.items():
        kind = given.signature.parameters[name].kind
        several = value if kind is inspect.Parameter.VAR_POSITIONAL else (value,)
        if kind is not inspect.Parameter.VAR_KEYWORD:
            found += [(name, each) for each in several]
    return [(name, value) for name, value in found if name not in ("self", "cls")]
