"""How busy a process's connections are, for those who watch it."""

from typing import Any

from msgspec import Struct

from latchkey.database.pool import Database


class PoolUsage(Struct, frozen=True):
    most: int
    in_use: int
    idle: int
    # Callers that wait for a connection.
    waiting: int


def usage_of(database: Database) -> PoolUsage:
    """Of both pools together."""
    if not database.is_open:
        return PoolUsage(0, 0, 0, 0)
    hot = database.hot
    pools = (database.pool, hot.pool)
    # Those at hand are acquired for the pool, and idle for everybody else.
    idle = sum(pool.get_idle_size() for pool in pools) + len(hot.kept)
    size = sum(pool.get_size() for pool in pools)
    waiting = _waiting(database.pool) + max(_waiting(hot.pool), hot.waiting)
    return PoolUsage(sum(pool.get_max_size() for pool in pools), max(0, size - idle), idle, waiting)


def _waiting(pool: Any) -> int:
    """The driver counts them nowhere; its queue has a list of those who wait."""
    getters = getattr(getattr(pool, "_queue", None), "_getters", ())
    return sum(not getter.done() for getter in getters)
