"""A wire type made of an object that has attributes of the same names."""

from typing import Any, TypeVar

from msgspec import UNSET, Struct, convert

Shape = TypeVar("Shape", bound=Struct)


def shaped(shape: type[Shape], item: object, **others: Any) -> Shape:
    """Every field has the value of the attribute of its name; `others` are those that have another name or value."""
    names = (name for name in shape.__struct_fields__ if name not in others and hasattr(item, name))
    given = {name: value for name, value in others.items() if value is not UNSET}
    return convert({name: getattr(item, name) for name in names} | given, shape, from_attributes=True)
