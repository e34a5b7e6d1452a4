"""A struct of the wire from an object that has the same names."""

from typing import Any, TypeVar

from msgspec import Struct

Shape = TypeVar("Shape", bound=Struct)


def from_attributes(shape: type[Shape], source: object, **others: Any) -> Shape:
    """The fields of `shape` with the values that `source` has under the same names. `others` are named differently
    there, or written differently here. Too slow for a read of an app."""
    names = [name for name in shape.__struct_fields__ if name not in others and hasattr(source, name)]
    return shape(**{name: getattr(source, name) for name in names}, **others)
