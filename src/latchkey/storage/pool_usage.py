"""How busy a process's connections are, for those who watch it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from latchkey.storage.database import Database


class PoolUsage(Struct, frozen=True):
    most: int
    in_use: int
    idle: int
    # Callers that wait for a connection.
    waiting: int


def usage_of(database: Database) -> PoolUsage:
    pool, at_hand = database.current()
    if pool is None:
        return PoolUsage(0, 0, 0, 0)
    # Those at hand are acquired for the pool, and idle for everybody else.
    idle = pool.get_idle_size() + len(at_hand.kept)
    return PoolUsage(pool.get_max_size(), max(0, pool.get_size() - idle), idle, max(_waiting(pool), at_hand.waiting))


def _waiting(pool: Any) -> int:
    """The driver counts them nowhere; its queue has a list of those who wait."""
    getters = getattr(getattr(pool, "_queue", None), "_getters", ())
    return sum(not getter.done() for getter in getters)
