"""Erasing a customer: the person goes, what was sold stays in the books."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import asyncpg
from msgspec import UNSET, json, structs

from latchkey.domain.customer import Customer
from latchkey.domain.event import event_id
from latchkey.domain.identity import ERASED
from latchkey.domain.refusal import NotFound
from latchkey.storage import customers
from latchkey.storage.sql import query
from latchkey.usecases.changes import Changes, load_projects
from latchkey.usecases.figures_roller import settle
from latchkey.usecases.identities import again
from latchkey.usecases.passing_time import next_due_at
from latchkey.wire.event import Event

_STATE = query("customer_state")
_BODIES = query("bodies_of_customer")
_TRANSFERS = query("transfers_from")
_REPLACE = query("replace_bodies")
_DECODER = json.Decoder(Event)
_ENCODER = json.Encoder()


async def erase(changes: Changes, project_id: str, app_user_id: str) -> None:
    """The customer, its ids and attributes are gone. Its events keep product, price and time under a pseudonym, and
    whoever received purchases from it has them from nobody."""
    await again(lambda: _erase(changes, project_id, app_user_id))


async def _erase(changes: Changes, project_id: str, app_user_id: str) -> None:
    async with changes.db.transaction() as connection:
        state = await connection.fetchval(_STATE, project_id, app_user_id)
        if state is None:
            raise NotFound(f"There is no customer {app_user_id!r}.", param="app_user_id")
        ids = customers.decode(state).aliases
        receivers = {row["app_user_id"] for row in await connection.fetch(_TRANSFERS, project_id, ids)} - {None}
        asked = [(project_id, id) for id in {app_user_id, *receivers}]
        await customers.share_clocks(connection, asked)
        locked = await customers.lock(connection, asked)
        stored = locked.get((project_id, app_user_id))
        transfers = await connection.fetch(_TRANSFERS, project_id, ids)
        if (
            stored is None
            or stored.customer.aliases != ids
            or {row["app_user_id"] for row in transfers} - {None} != receivers
        ):
            raise asyncpg.SerializationError("the customer was changed by another transaction")
        pseudonym = f"{ERASED}:{event_id(project_id, 'erased', stored.key)}"
        own = await connection.fetch(_BODIES, project_id, stored.key)
        bodies = {row["id"]: forgotten_source(_DECODER.decode(row["body"])) for row in transfers}
        bodies |= {row["id"]: anonymous(_DECODER.decode(row["body"]), pseudonym) for row in own}
        await connection.execute(
            _REPLACE, project_id, list(bodies), [_ENCODER.encode(body) for body in bodies.values()]
        )
        await _forget_in(connection, [locked[project_id, id] for id in receivers if (project_id, id) in locked], ids)
        project = (await load_projects(connection, changes.catalogs, {project_id}))[project_id]
        await settle(connection, project_id, stored.customer, project.catalog)
        await customers.erase(connection, project_id, stored.key)


async def _forget_in(connection: Any, receivers: list[customers.Stored], ids: Collection[str]) -> None:
    changed = [(one, without_source(one.customer, ids)) for one in receivers]
    await customers.save(connection, [(one, after, next_due_at(after)) for one, after in changed])


def without_source(customer: Customer, ids: Collection[str]) -> Customer:
    """The customer that has received purchases from these ids, and no longer knows from whom."""
    return replace(
        customer,
        transfers=tuple(
            one if set(ids).isdisjoint(one.transferred_from) else replace(one, transferred_from=(ERASED,))
            for one in customer.transfers
        ),
    )


def forgotten_source(event: Event) -> Event:
    return structs.replace(event, transferred_from=[ERASED])


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
