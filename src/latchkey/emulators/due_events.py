"""What time brings in a store's books: every event at its own time, oldest first."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

B = TypeVar("B")
N = TypeVar("N")
# The moment, and what the store needs to know of the event.
DueEvent = tuple[Any, ...]


def advance(
    books: B,
    until: int,
    due_events: Callable[[B], Iterable[DueEvent]],
    happen: Callable[[B, DueEvent], tuple[B, tuple[N, ...]]],
) -> tuple[B, tuple[N, ...]]:
    """Everything that happens up to and with `until`. One event may bring about another."""
    notices: list[N] = []
    while due := [event for event in due_events(books) if event[0] <= until]:
        books, new = happen(books, min(due))
        notices.extend(new)
    return books, tuple(notices)
