"""How far the charts of projects have processed their feeds, and the next batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from latchkey.domain.charts.facts.subject import Origin
from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection, Record
from latchkey.storage.rolling.found import Count, Found, Seen, Stretch
from latchkey.storage.sql import query

_PROGRESS = query("charts_progress")
_START = query("start_charts")
_TAKE = query("take_charts")
_AWAIT = query("await_charts")
_NEWCOMERS = query("chart_newcomers")
_MARK = query("mark_for_charts")


class Progress(Struct, frozen=True):
    # The newest position of the feed.
    head: int
    # The last position that is in the charts, and when that event was committed.
    position: int
    rolled_to: Ms
    # Customers with keys up to this one are counted.
    counted: int
    # What a rebuild is doing: "clearing" or "summing". None if there is none.
    rebuilding: str | None


class Roll(Struct, frozen=True):
    """The progress of a project, locked by the transaction that processes the next batch."""

    project_id: str
    generation: UUID
    position: int
    rolled_to: Ms
    count: Count
    # Facts up to this instant are in the tail or the sums, later ones in `chart_ahead`.
    passed_to: Ms
    # The numbers of the last batch, and of the last combination of dimensions.
    batch: int
    dimension: int
    # How many rows the tail has, and when it was last folded.
    tail: int
    folded_at: Ms
    # What a rebuild is doing, and the last subject whose facts are in the sums again.
    rebuilding: str | None
    summed_to: UUID | None


class Batch(Struct, frozen=True):
    """What a project's next batch is about."""

    project_id: str
    catalog_version: int
    rates_version: int
    # How many events and marks, up to the limit.
    events: int
    marks: int
    # Of the last event; None if there is none. And of the feed's newest event.
    position: int | None
    head: int
    committed_at: Ms | None
    # The bodies of BILLING_ISSUE events.
    issues: tuple[bytes, ...]
    # The customers named by events and marks. Merged and erased customers are left out.
    customers: tuple[Found, ...]
    seen: Seen


class Newcomer(NamedTuple):
    project_id: str
    key: int
    first_id: str
    first_seen_at: Ms
    test_clock_id: str | None
    origin: Origin
    # Has purchases or enrollments; has attributes.
    bought: bool
    described: bool


async def load(connection: Connection, project_id: str) -> Progress | None:
    """None: there is no such project."""
    row = await connection.fetchrow(_PROGRESS, project_id)
    if row is None:
        return None
    return Progress(row["head"], row["position"], row["rolled_to"], row["counted"], row["rebuilding"])


async def start(connection: Connection, project_id: str | None = None) -> None:
    """Starts the charts of a project, or of all new ones."""
    await connection.execute(_START, project_id)


async def hold(connection: Connection, project_id: str, *, wait: bool) -> Roll | None:
    """Locks the project's charts. Without `wait`: None if another transaction holds them."""
    take = _AWAIT if wait else _TAKE
    row = await connection.fetchrow(take, project_id)
    if row is None:
        await start(connection, project_id)
        row = await connection.fetchrow(take, project_id)
    return None if row is None else roll_in(row)


async def newcomers(connection: Connection, stretches: Sequence[Stretch], limit: int) -> list[Newcomer]:
    """The next customers by their keys, up to `limit` of each project."""
    rows = await connection.fetch(
        _NEWCOMERS,
        [one.project_id for one in stretches],
        [one.counted for one in stretches],
        [one.until for one in stretches],
        limit,
    )
    return [
        Newcomer(
            row["project_id"],
            row["id"],
            row["original_app_user_id"],
            row["first_seen_at"],
            row["test_clock_id"],
            origin(row["last_seen_platform"], row["last_seen_app_version"], row["last_seen_country"]),
            row["bought"],
            row["described"],
        )
        for row in rows
    ]


async def mark(connection: Connection, customers: Sequence[tuple[str, int]]) -> None:
    """The next batch looks at these customers, given by project and key."""
    if customers:
        await connection.execute(_MARK, *zip(*customers, strict=True))


def origin(platform: str | None, app_version: str | None, country: str | None) -> Origin:
    return Origin(platform or "", app_version or "", country or "")


def roll_in(row: Record) -> Roll:
    return Roll(
        project_id=row["project_id"],
        generation=row["generation"],
        position=row["position"],
        rolled_to=row["rolled_to"],
        count=Count(
            counted=row["counted"], mark_id=row["mark_id"], mark_xid=row["mark_xid"], marked_at=row["marked_at"]
        ),
        passed_to=row["passed_to"],
        batch=row["batch"],
        dimension=row["dimension"],
        tail=row["tail"],
        folded_at=row["folded_at"],
        rebuilding=row["rebuilding"],
        summed_to=row["summed_to"],
    )
