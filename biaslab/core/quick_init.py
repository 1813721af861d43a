"""Initialise frozen dataclasses of which one is made per judgement in a third of the time."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from typing import TypeVar

Kind = TypeVar("Kind", bound=type)


def quick_init(kind: Kind) -> Kind:
    """Decorate a frozen dataclass: its ``__init__`` fills ``__dict__`` instead of calling ``object.__setattr__``.

    A field with a default factory may also be None, which stands for what the factory makes. Made as `dataclass` makes
    its own, from source: 1.3 instead of 3.5 microseconds for a `Trial`.

    Examples
    --------
    >>> from dataclasses import dataclass, field
    >>> @quick_init
    ... @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     names: tuple = field(default_factory=tuple)
    >>> Point(1.0), Point(x=2.0, names=None)
    (Point(x=1.0, names=()), Point(x=2.0, names=()))
    """
    values, parameters, lines, annotations = {}, ["self"], [], {"return": "None"}
    for each in fields(kind):
        made = each.default_factory is not MISSING
        values[f"_{each.name}"] = each.default_factory if made else each.default
        needed = not made and each.default is MISSING
        parameters.append(each.name if needed else f"{each.name}={None if made else f'_{each.name}'}")
        value = f"_{each.name}() if {each.name} is None else {each.name}" if made else each.name
        lines.append(f"held[{each.name!r}] = {value}")
        annotations[each.name] = f"{each.type}{' | None' * made}"
    checks = ["self.__post_init__()"] if hasattr(kind, "__post_init__") else []
    body = "\n  ".join(["held = self.__dict__", *lines, *checks])
    source = f"def make({', '.join(values)}):\n def __init__({', '.join(parameters)}):\n  {body}\n return __init__"
    scope: dict[str, object] = {}
    exec(source, vars(sys.modules[kind.__module__]), scope)  # noqa: S102 - of names of fields alone
    init = scope["make"](**values)  # type: ignore[operator]
    init.__annotations__, init.__qualname__ = annotations, f"{kind.__qualname__}.__init__"
    kind.__init__ = init  # type: ignore[misc]
    return kind
