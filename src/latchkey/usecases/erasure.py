"""Erasing a customer: the person goes, what was sold stays in the books."""

from __future__ import annotations

from msgspec import UNSET, json, structs

from latchkey.domain.event import event_id
from latchkey.domain.identity import ERASED
from latchkey.domain.refusal import NotFound
from latchkey.storage import customers
from latchkey.storage.sql import query
from latchkey.usecases.changes import Changes
from latchkey.wire.event import Event

_BODIES = query("bodies_of_customer")
_REPLACE = query("replace_bodies")
_DECODER = json.Decoder(Event)
_ENCODER = json.Encoder()


async def erase(changes: Changes, project_id: str, app_user_id: str) -> None:
    """The customer, its ids and attributes are gone. Its events keep product, price and time under a pseudonym."""
    async with changes.db.transaction() as connection:
        asked = [(project_id, app_user_id)]
        await customers.share_clocks(connection, asked)
        stored = (await customers.lock(connection, asked)).get((project_id, app_user_id))
        if stored is None:
            raise NotFound(f"There is no customer {app_user_id!r}.", param="app_user_id")
        pseudonym = f"{ERASED}:{event_id(project_id, 'erased', stored.key)}"
        rows = await connection.fetch(_BODIES, project_id, stored.key)
        bodies = [_ENCODER.encode(anonymous(_DECODER.decode(row["body"]), pseudonym)) for row in rows]
        await connection.execute(_REPLACE, project_id, [row["id"] for row in rows], bodies)
        await customers.erase(connection, project_id, stored.key)


def anonymous(event: Event, pseudonym: str) -> Event:
    return structs.replace(
        event,
        app_user_id=pseudonym,
        original_app_user_id=pseudonym,
        aliases=[],
        subscriber_attributes=UNSET,
        transferred_to=UNSET if event.transferred_to is UNSET else [pseudonym],
        transferred_from=UNSET if event.transferred_from is UNSET else [ERASED],
    )
