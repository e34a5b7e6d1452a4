"""The new database has the same partitions as the old one. Each is made and dropped when the old one's was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Part(NamedTuple):
    number: int
    opened_at: int
    dropped_at: int | None


async def of(connection: Any) -> list[Part]:
    return [Part(*row) for row in await connection.fetch("select part, opened_at, dropped_at from parts order by part")]


async def follow(target: Any, wanted: Iterable[Part]) -> None:
    """Can be repeated."""
    there = {one.number: one for one in await of(target)}
    for part in sorted(wanted, key=lambda one: (one.number < 0, one.number)):
        if part.number not in there:
            await target.execute("select open_part($1, $2)", part.number, part.opened_at)
            there = {one.number: one for one in await of(target)}
        if part.dropped_at is not None and there[part.number].dropped_at is None:
            await target.execute("select drop_part($1, $2)", part.number, part.dropped_at)
