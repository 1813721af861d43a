"""What helps where objects are made by the million: frozen dataclasses that are quick to make, and no collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

Made = TypeVar("Made")
_HASH = "_hash"
_MANY = 10_000  # new objects, to look at which takes as long as to say that they are old


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(kind: type[Made]) -> type[Made]:
    """Make a class a frozen dataclass whose objects are made several times as fast as those of `dataclasses`.

    What that writes for a frozen class calls ``object.__setattr__`` for each field. Here fields go straight into the
    object's ``__dict__``; everything else is as there.

    Examples
    --------
    >>> @frozen
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> Point(1.0), Point(1.0) == Point(1.0, 0.0)
    (Point(x=1.0, y=0.0), True)
    >>> Point(1.0).x = 2.0
    Traceback (most recent call last):
    ...
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """
    made: Any = dataclass(frozen=True)(kind)
    names: dict[str, Any] = {"missing": MISSING}
    given, lines = ["self"], ["held = self.__dict__"]
    for each in fields(made):
        default = f"default_{each.name}"
        if each.default_factory is not MISSING:
            names[default] = each.default_factory
            given.append(f"{each.name}=missing")
            lines.append(f"held[{each.name!r}] = {default}() if {each.name} is missing else {each.name}")
            continue
        if each.default is not MISSING:
            names[default] = each.default
        given.append(each.name if each.default is MISSING else f"{each.name}={default}")
        lines.append(f"held[{each.name!r}] = {each.name}")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n    ".join(lines)
    exec(f"def __init__({', '.join(given)}):\n    {body}\n", names)  # noqa: S102 - as dataclasses does
    names["__init__"].__annotations__ = made.__init__.__annotations__
    names["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    made.__init__ = names["__init__"]
    return made  # type: ignore[no-any-return]


def hashed_once(kind: type[Made]) -> type[Made]:
    """Let the objects of a frozen dataclass remember their hash.

    A copy in another process computes its own; what else an object remembers, under a name that begins with an
    underscore, is not carried there either.

    Examples
    --------
    >>> @hashed_once
    ... @frozen
    ... class Point:
    ...     x: float
    >>> {Point(1.0): "here"}[Point(1.0)], hash(Point(2.0)) == hash((2.0,))
    ('here', True)
    """
    computed = kind.__hash__

    def remembered(self: Any) -> int:
        held = self.__dict__
        known: int | None = held.get(_HASH)
        if known is None:
            known = held[_HASH] = computed(self)
        return known

    def without(self: Any) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    kind.__hash__, kind.__getstate__ = remembered, without  # type: ignore[method-assign]
    return kind


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector from looking again and again at many new objects that are in no cycle.

    What was made meanwhile counts as old afterwards, so that only the collector's rare full rounds look at it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # that nobody else freezes takes a while to see
                gc.freeze()
                gc.unfreeze()
            gc.enable()
