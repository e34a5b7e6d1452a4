"""Makes a msgspec struct out of a dataclass of the rules, so that reads decode a customer faster.

`struct_of(Customer)` is a struct with the same fields, properties and methods as the dataclass `Customer`. The types of
its fields are converted likewise: its subscriptions are structs of `Subscription`, and so on. `unseen` names fields to
leave out, which the decoder then skips. The rules work with such a struct as with the dataclass, as long as they only
read: `dataclasses.replace` does not know it.

Why: a struct is decoded in half the time of a frozen dataclass (2.2 µs for a subscriber instead of 4.3), and in a third
without the fields that no read shows. Only `customers/state_format.py` uses it, in `decode_for_reading`.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from types import FunctionType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

# By class; a test holds the names to the dataclasses.
Unseen: TypeAlias = tuple[tuple[type, frozenset[str]], ...]


@cache
def struct_of(shape: type, unseen: Unseen = ()) -> Any:
    """The struct that looks like this dataclass, and all that it is made of likewise, but for the `unseen` fields."""
    types = get_type_hints(shape)
    hidden: frozenset[str] = dict(unseen).get(shape, frozenset())
    return msgspec.defstruct(
        shape.__name__,
        [_field(field, types[field.name], unseen) for field in dataclasses.fields(shape) if field.name not in hidden],
        namespace={name: value for name, value in vars(shape).items() if _is_ours(name, value)},
        frozen=True,
        kw_only=True,
        gc=False,
    )


def _field(field: dataclasses.Field[Any], type: Any, unseen: Unseen) -> tuple[str, Any] | tuple[str, Any, Any]:
    if field.default is not dataclasses.MISSING:
        return field.name, _type(type, unseen), field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.name, _type(type, unseen), msgspec.field(default_factory=field.default_factory)
    return field.name, _type(type, unseen)


def _type(type: Any, unseen: Unseen) -> Any:
    if dataclasses.is_dataclass(type):
        return struct_of(type, unseen)  # type: ignore[arg-type]  # a class: no annotation is an instance
    origin, parts = get_origin(type), tuple(_type(part, unseen) for part in get_args(type))
    if origin is None:
        return type
    return Union[parts] if origin in (Union, UnionType) else origin[parts]  # noqa: UP007 - made of what is known only now


def _is_ours(name: str, value: Any) -> bool:
    """A property or method that somebody wrote, not one that the dataclass made."""
    return isinstance(value, property | FunctionType) and not name.startswith("__")
