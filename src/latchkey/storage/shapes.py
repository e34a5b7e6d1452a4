"""The rules' dataclasses as structs: the same fields, properties and methods, made from the dataclasses themselves.

A struct is decoded in half the time of a frozen dataclass (2.2 µs for a subscriber instead of 4.3), and a hot read does
little else. It can be looked at and not changed: `dataclasses.replace` does not know it.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from types import FunctionType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec


@cache
def struct_of(shape: type) -> Any:
    """The struct that looks like this dataclass, and all that it is made of likewise."""
    types = get_type_hints(shape)
    return msgspec.defstruct(
        shape.__name__,
        [_field(field, types[field.name]) for field in dataclasses.fields(shape)],
        namespace={name: value for name, value in vars(shape).items() if _is_ours(name, value)},
        frozen=True,
        kw_only=True,
        gc=False,
    )


def _field(field: dataclasses.Field[Any], type: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if field.default is not dataclasses.MISSING:
        return field.name, _type(type), field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.name, _type(type), msgspec.field(default_factory=field.default_factory)
    return field.name, _type(type)


def _type(type: Any) -> Any:
    if dataclasses.is_dataclass(type):
        return struct_of(type)  # type: ignore[arg-type]  # a class: no annotation is an instance
    origin, parts = get_origin(type), tuple(_type(part) for part in get_args(type))
    if origin is None:
        return type
    return Union[parts] if origin in (Union, UnionType) else origin[parts]  # noqa: UP007 - made of what is known only now


def _is_ours(name: str, value: Any) -> bool:
    """A property or method that somebody wrote, not one that the dataclass made."""
    return isinstance(value, property | FunctionType) and not name.startswith("__")
