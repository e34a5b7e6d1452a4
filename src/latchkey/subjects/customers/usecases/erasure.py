"""Erasing a customer: personal data is deleted, sales stay in the charts."""

from collections.abc import Collection, Iterable

from msgspec import UNSET, structs
from msgspec.structs import replace

from latchkey.database import transient_errors
from latchkey.database.errors import CollisionError
from latchkey.database.pool import Connection
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.events.customer_event import event_id
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import NotFound
from latchkey.engine.changes import Changes
from latchkey.engine.due_transitions import next_due_at
from latchkey.engine.storage import records, state
from latchkey.engine.storage import store_handles as handles
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.storage.writes import Save, save
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.bulk_grants import usecases as bulk_grants
from latchkey.subjects.charts.usecases import keep_erased
from latchkey.subjects.checkout.usecases import checkouts
from latchkey.subjects.customers import storage
from latchkey.subjects.customers.storage import TransferEvent
from latchkey.subjects.customers.usecases.identities import again
from latchkey.wire.event import Event


async def erase(changes: Changes, project_id: str, app_user_id: str) -> None:
    """Deletes the customer, its ids and attributes. Its events keep product, price and time under a pseudonym. Its ids
    are also removed from customers who received purchases from it, and from the audit log."""
    await again(lambda: _erase(changes, project_id, app_user_id))


async def _erase(changes: Changes, project_id: str, app_user_id: str) -> None:
    async with transient_errors.hot_transaction(changes.database) as connection:
        customer = await state.load(connection, project_id, app_user_id)
        if customer is None:
            raise NotFound(f"There is no customer {app_user_id!r}.", param="app_user_id")
        ids = customer.aliases
        receivers = _receivers(await storage.transfers_from(connection, project_id, ids))
        asked = [(project_id, id) for id in {app_user_id, *receivers}]
        await records.share_clocks(connection, asked)
        locked = await records.lock(connection, asked)
        stored = locked.get((project_id, app_user_id))
        transfers = await storage.transfers_from(connection, project_id, ids)
        if stored is None or stored.customer.aliases != ids or _receivers(transfers) != receivers:
            raise CollisionError("the customer was changed by another transaction")
        pseudonym = f"{ERASED}:{event_id(project_id, 'erased', stored.key)}"
        own = await storage.events_of(connection, project_id, stored.key)
        rewritten = {one.event.id: forgotten_source(one.event) for one in transfers}
        rewritten |= {event.id: anonymous(event, pseudonym, ids) for event in own}
        await storage.replace_events(connection, project_id, rewritten)
        kept = [locked[project_id, id] for id in receivers if (project_id, id) in locked]
        await _forget_in(connection, kept, ids, changes.now())
        catalog = (await load_projects(connection, changes.catalogs, {project_id}))[project_id].catalog
        await keep_erased(connection, stored.key, stored.customer, catalog.chart_attributes)
        await handles.forget(connection, project_id, stored.key, ids)
        await checkouts.forget(connection, project_id, ids)
        await records.erase(connection, stored)
        await audit.forget(connection, project_id, ids, ERASED)
        await bulk_grants.forget(connection, project_id, ids, ERASED)


def _receivers(transfers: Iterable[TransferEvent]) -> set[str]:
    return {one.receiver for one in transfers if one.receiver is not None}


async def _forget_in(connection: Connection, receivers: list[records.Stored], ids: Collection[str], now: Ms) -> None:
    changed = [(one, without_source(one.customer, ids)) for one in receivers]
    await save(connection, [Save(one, after, next_due_at(after)) for one, after in changed], now)


def without_source(customer: Customer, ids: Collection[str]) -> Customer:
    """The customer without these ids as sources of its transfers."""
    return replace(
        customer,
        transfers=tuple(
            one if set(ids).isdisjoint(one.transferred_from) else replace(one, transferred_from=(ERASED,))
            for one in customer.transfers
        ),
    )


def forgotten_source(event: Event) -> Event:
    return structs.replace(event, transferred_from=[ERASED])


def anonymous(event: Event, pseudonym: str, ids: Collection[str]) -> Event:
    """The event without personal data. A TRANSFER keeps the ids of the other source customers: if it is still to be
    delivered, the receiver must re-read them, because they lost what was transferred."""
    sources = event.transferred_from
    own = isinstance(sources, list) and not set(ids).isdisjoint(sources)
    return structs.replace(
        event,
        app_user_id=pseudonym,
        original_app_user_id=pseudonym,
        aliases=[],
        subscriber_attributes=UNSET,
        transferred_to=[pseudonym] if event.transferred_to else event.transferred_to,
        transferred_from=[ERASED] if own else sources,
        merged_sequences=event.merged_sequences
        if event.merged_sequences is UNSET
        else [structs.replace(one, app_user_id=pseudonym) for one in event.merged_sequences],
    )
