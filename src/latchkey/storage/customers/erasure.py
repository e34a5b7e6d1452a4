"""The events that erasing a customer rewrites."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from msgspec import json

from latchkey.storage.database import Connection
from latchkey.storage.sql import query
from latchkey.wire.event import Event

_OF_CUSTOMER = query("events_of_customer")
_TRANSFERS = query("transfers_from")
_REPLACE = query("replace_bodies")

_DECODER = json.Decoder(Event)
_ENCODER = json.Encoder()


@dataclass(frozen=True, slots=True)
class Transfer:
    event: Event
    # The current id of the customer who received the purchases; None if that customer was erased.
    receiver: str | None


async def events_of(connection: Connection, project_id: str, customer_key: int) -> list[Event]:
    """Every event of the customer, including those of customers merged into it."""
    rows = await connection.fetch(_OF_CUSTOMER, project_id, customer_key, -1, None)
    return [_DECODER.decode(row["body"]) for row in rows]


async def transfers_from(connection: Connection, project_id: str, ids: Collection[str]) -> list[Transfer]:
    """TRANSFER events of purchases that came from one of these ids."""
    rows = await connection.fetch(_TRANSFERS, project_id, ids)
    return [Transfer(_DECODER.decode(row["body"]), row["app_user_id"]) for row in rows]


async def replace_events(connection: Connection, project_id: str, events: Mapping[str, Event]) -> None:
    """New bodies, by event id."""
    bodies = [_ENCODER.encode(event) for event in events.values()]
    await connection.execute(_REPLACE, project_id, list(events), bodies)
