"""Customers as the API lists them. The stored state is not read: a page costs one index scan."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, json

from latchkey.database.pool import Connection, Executor
from latchkey.database.rows import fetches_all, returns_row
from latchkey.database.sql import query
from latchkey.domain.events.customer_event import EventDelivery
from latchkey.domain.instants import Ms
from latchkey.engine.storage.records import folded
from latchkey.wire.event import Event
from latchkey.wire.v2 import ListedCustomer


class Alias(Struct, frozen=True):
    id: str
    created_at: Ms


async def page(
    connection: Executor, project_id: str, *, after: str | None = None, limit: int = 100, email: str | None = None
) -> list[ListedCustomer]:
    """By id; `after` is the last id of the page before. With `email`, those whose attribute $email is this address, in
    any case."""
    if email is None:
        rows = await connection.fetch(query("list_customers"), project_id, after, limit)
    else:
        rows = await connection.fetch(query("list_customers_by_email"), project_id, after, limit, folded(email))
    return [ListedCustomer(**row) for row in rows]


# All ids of a customer.
aliases = fetches_all(Alias, query("aliases_of_customer"))
_MAX = 2**63 - 1


# The place of an event in a customer's timeline: its position, and the customer's key and sequence when it was created.
# Higher is newer. This one is after every event.
END = (_MAX, 0, _MAX)


# The place of a currency transaction among a customer's: its time, key and code. This one is after every movement.
LAST_MOVEMENT = (_MAX, "", "")


class TimelineEvent(Struct, frozen=True):
    id: str
    # The customer's key and sequence when the event was created; its deliveries are stored under these.
    customer_key: int
    sequence: int
    type: str
    environment: str
    occurred_at: Ms
    # The event exactly as delivered, as JSON.
    body: bytes
    deliveries: Sequence[EventDelivery] = ()


class Movement(Struct, frozen=True):
    key: str
    code: str
    amount: int
    balance: int
    at: Ms
    reference: str | None


async def place_of(connection: Connection, project_id: str, event_id: str) -> tuple[int, ...] | None:
    row = await connection.fetchrow(query("event_by_id"), project_id, event_id)
    return None if row is None else tuple(row)


newest = fetches_all(TimelineEvent, query("newest_events_of_customer"))
movements = fetches_all(Movement, query("movements_of_customer"))

_DECODER = json.Decoder(Event)
_ENCODER = json.Encoder()


class TransferEvent(Struct, frozen=True):
    event: Event
    # The current id of the customer who received the purchases; None if that customer was erased.
    receiver: str | None


async def events_of(connection: Connection, project_id: str, customer_key: int) -> list[Event]:
    """Every event of the customer, including those of customers merged into it."""
    rows = await connection.fetch(query("events_of_customer"), project_id, customer_key, -1, None)
    return [_DECODER.decode(row["body"]) for row in rows]


async def transfers_from(connection: Connection, project_id: str, ids: Collection[str]) -> list[TransferEvent]:
    """TRANSFER events of purchases that came from one of these ids."""
    rows = await connection.fetch(query("transfers_from"), project_id, ids)
    return [TransferEvent(_DECODER.decode(row["body"]), row["app_user_id"]) for row in rows]


async def replace_events(connection: Connection, project_id: str, events: Mapping[str, Event]) -> None:
    """New bodies, by event id."""
    bodies = [_ENCODER.encode(event) for event in events.values()]
    await connection.execute(query("replace_bodies"), project_id, list(events), bodies)


class Note(Struct, frozen=True):
    id: str
    account_id: str
    # The author's e-mail address when it was written.
    author: str
    body: str
    created_at: Ms
    edited_at: Ms | None


# False: there is no such customer any more.
add_note = returns_row(query("add_note"))
# False: there is no such note of this account.
change_note = returns_row(query("change_note"))
delete_note = returns_row(query("delete_note"))
notes_of = fetches_all(Note, query("notes_of_customer"))


async def past(connection: Executor, project_id: str, key: int, limit: int) -> list[Event]:
    """The latest events about trouble, newest first; also those of customers that were merged into this one."""
    rows = await connection.fetch(query("past_troubles_of_customer"), project_id, key, limit)
    return [_DECODER.decode(row["body"]) for row in rows]
