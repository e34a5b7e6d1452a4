"""A copy of a frozen dataclass with some fields replaced.

Does the same as `dataclasses.replace` in less than half the time, for classes with slots. A purchase makes about ten
such copies, and the standard function was an eighth of its CPU time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
_new = object.__new__


class _Shape(NamedTuple):
    read: Callable[[Any], tuple[Any, ...]]
    places: Mapping[str, int]
    setters: tuple[Callable[[Any, Any], None], ...]


_shapes: dict[type, _Shape | None] = {}


def replace(value: T, /, **changes: Any) -> T:
    cls = type(value)
    try:
        shape = _shapes[cls]
    except KeyError:
        shape = _shapes[cls] = _shape(cls)
    if shape is None:
        return dataclasses.replace(value, **changes)  # type: ignore[type-var]  # raises for what is no dataclass
    read, places, setters = shape
    fields = list(read(value))
    try:
        for name, changed in changes.items():
            fields[places[name]] = changed
    except KeyError as error:
        raise TypeError(f"{cls.__name__} has no field {error}.") from None
    copy = _new(cls)
    for put, field in zip(setters, fields, strict=True):
        put(copy, field)
    return copy


def _shape(cls: type) -> _Shape | None:
    """None: the class needs the standard function."""
    if not dataclasses.is_dataclass(cls) or "__slots__" not in cls.__dict__ or hasattr(cls, "__post_init__"):
        return None
    fields = dataclasses.fields(cls)
    if len(fields) < 2 or not all(one.init for one in fields):
        return None
    names = [one.name for one in fields]
    setters = tuple(getattr(cls, name).__set__ for name in names)
    return _Shape(attrgetter(*names), {name: place for place, name in enumerate(names)}, setters)
