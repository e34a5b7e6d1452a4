"""What a customer's events say of failed payments and pauses of the past. The state keeps only those of the present."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import json

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query
from latchkey.wire.event import Event

_PAST = query("past_troubles_of_customer")


@dataclass(frozen=True, slots=True)
class Trouble:
    type: str
    at: Ms
    event: Event


async def past(connection: Connection, project_id: str, key: int, limit: int) -> list[Trouble]:
    """The latest ones, newest first; also those of customers that were merged into this one."""
    rows = await connection.fetch(_PAST, project_id, key, limit)
    return [Trouble(row["type"], row["occurred_at"], json.decode(row["body"], type=Event)) for row in rows]
