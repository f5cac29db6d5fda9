"""Whether what a file says has the types that the code says: a file may hold anything."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def follows(value: Any, hint: Any) -> bool:
    """
    >>> follows([1, 2], list[int]), follows(True, int), follows(1, float), follows({"a": None}, dict[str, str | None])
    (True, False, True, True)
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(follows(value, each) for each in inner)
    if origin is Literal:
        return isinstance(value, str | int | bool) and value in inner
    if origin is tuple:
        alike = len(inner) == 2 and inner[1] is Ellipsis
        hints = inner[:1] * len(value) if alike and isinstance(value, tuple) else inner
        return isinstance(value, tuple) and len(value) == len(hints) and all(map(follows, value, hints))
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            follows(k, inner[0]) and follows(x, inner[1]) for k, x in value.items()
        )
    if origin is not None and issubclass(origin, Sequence):
        return isinstance(value, origin) and all(follows(each, inner[0]) for each in value)
    if hint is Any:
        return True
    if hint in (int, float):  # numpy's, too; but True is no number here
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return isinstance(value, hint)


def typed(thing: T) -> T:
    """A dataclass, if the values of its fields have the types that it says.

    >>> @dataclasses.dataclass
    ... class Net:
    ...     width: int
    >>> typed(Net("wide"))
    Traceback (most recent call last):
    TypeError: width of Net must be int, not 'wide'
    """
    for name, hint in _hints(type(thing)).items():
        value = getattr(thing, name)
        if not follows(value, hint):
            shown = getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else str(hint)
            raise TypeError(f"{name} of {type(thing).__name__} must be {shown}, not {repr(value)[:80]}")
    return thing


def _hints(kind: type) -> dict[str, Any]:
    names = {each.name for each in dataclasses.fields(kind)}
    return {name: hint for name, hint in get_type_hints(kind).items() if name in names}
