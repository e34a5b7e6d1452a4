"""How far the figures of a project have processed its feed, and the next events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.figures.newcomers import Count
from latchkey.storage.sql import query

_PROGRESS = query("figures_progress")
_BEHIND = query("figures_behind")
_START = query("start_figures")
_TAKE = query("take_figures")
_AWAIT = query("await_figures")
_NEXT_EVENTS = query("figures_next_events")
_TAKE_MARKS = query("take_figure_marks")
_CUSTOMERS = query("figures_customers")
_SAVE = query("save_figures")


@dataclass(frozen=True, slots=True)
class Progress:
    # The newest position of the feed.
    head: int
    # The last position that is in the figures, and when that event was committed.
    position: int
    rolled_to: Ms
    # Customers with keys up to this one are counted.
    counted: int


@dataclass(frozen=True, slots=True)
class Roll:
    """The progress of a project, locked by the transaction that processes the next batch."""

    position: int
    rolled_to: Ms
    count: Count
    # No transaction older than this one is still running.
    oldest_xid: int


@dataclass(frozen=True, slots=True)
class RolledEvent:
    position: int
    customer_key: int
    committed_at: Ms


@dataclass(frozen=True, slots=True)
class RolledCustomer:
    key: int
    # Decoded one by one: a customer that cannot be decoded must not stop the others.
    state: bytes


async def load(connection: Connection, project_id: str) -> Progress | None:
    """None: there is no such project."""
    row = await connection.fetchrow(_PROGRESS, project_id)
    if row is None:
        return None
    return Progress(head=row["head"], position=row["position"], rolled_to=row["rolled_to"], counted=row["counted"])


async def projects_behind(connection: Connection) -> list[str]:
    """Projects with events or customers that are not in the figures yet."""
    return [row["project_id"] for row in await connection.fetch(_BEHIND)]


async def hold(connection: Connection, project_id: str, *, wait: bool) -> Roll | None:
    """Locks the project's figures. Without `wait`: None if another transaction holds them."""
    take = _AWAIT if wait else _TAKE
    row = await connection.fetchrow(take, project_id)
    if row is None:
        await connection.execute(_START, project_id)
        row = await connection.fetchrow(take, project_id)
    return None if row is None else _roll(row)


async def next_events(connection: Connection, project_id: str, after: int, limit: int) -> list[RolledEvent]:
    return [
        RolledEvent(position=row["position"], customer_key=row["customer_id"], committed_at=row["committed_at"])
        for row in await connection.fetch(_NEXT_EVENTS, project_id, after, limit)
    ]


async def take_marks(connection: Connection, project_id: str, limit: int) -> list[int]:
    """Keys of customers who changed without an event. Deletes the marks."""
    return [row["customer_id"] for row in await connection.fetch(_TAKE_MARKS, project_id, limit)]


async def customers(connection: Connection, project_id: str, keys: Iterable[int]) -> list[RolledCustomer]:
    """All from one snapshot. Merged and erased customers are left out."""
    rows = await connection.fetch(_CUSTOMERS, project_id, sorted(keys))
    return [RolledCustomer(row["id"], row["state"]) for row in rows]


async def save(connection: Connection, project_id: str, position: int, rolled_to: Ms, count: Count) -> None:
    await connection.execute(
        _SAVE,
        project_id,
        position,
        rolled_to,
        count.counted,
        count.mark_id,
        count.mark_xid,
        count.marked_at,
    )


def _roll(row: Record) -> Roll:
    return Roll(
        position=row["position"],
        rolled_to=row["rolled_to"],
        count=Count(
            counted=row["counted"], mark_id=row["mark_id"], mark_xid=row["mark_xid"], marked_at=row["marked_at"]
        ),
        oldest_xid=row["oldest_xid"],
    )
