"""Pages of a list that is in memory as a whole."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from latchkey.domain.refusal import NotFound

Item = TypeVar("Item")


def items_after(after: str | None, items: Sequence[Item], noun: str, name: Callable[[Item], str]) -> list[Item]:
    """The items that follow the one of this name; all of them if none is given."""
    if after is None:
        return list(items)
    names = [name(item) for item in items]
    if after not in names:
        raise NotFound(f"There is no {noun} {after!r} to start after.", param="starting_after")
    return list(items[names.index(after) + 1 :])
