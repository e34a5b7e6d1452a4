"""Customers whose purchases changed without an event, marked for the figures."""

from __future__ import annotations

from collections.abc import Sequence

from latchkey.storage.database import Connection
from latchkey.storage.sql import query

_ADD = query("mark_for_figures")


async def add(connection: Connection, changed: Sequence[tuple[str, int]]) -> None:
    """Each entry: the project's id and the customer's key."""
    if changed:
        await connection.execute(_ADD, [project for project, _ in changed], [key for _, key in changed])
