"""A struct of the wire from an object that has attributes of the same names."""

from functools import cache
from typing import Any, TypeVar

from msgspec import UNSET, Struct, convert, structs

Shape = TypeVar("Shape", bound=Struct)

_fields = cache(structs.fields)


def from_attributes(shape: type[Shape], source: object, **others: Any) -> Shape:
    """The fields of `shape` with the values that `source` has under the same names; what is nested is converted, too.
    `others` are named differently there, or written differently here: they are taken as they are. Too slow for a read
    of an app."""
    values = {
        field.name: convert(value, field.type, from_attributes=True)
        for field in _fields(shape)
        if field.name not in others and (value := getattr(source, field.name, UNSET)) is not UNSET
    }
    return shape(**values, **others)
