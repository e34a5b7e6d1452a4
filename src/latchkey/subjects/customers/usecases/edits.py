"""What is done to a customer: attributes, grants by the operator, and erasing: personal data is deleted, sales stay in
the charts. And a project's customers, page by page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import UNSET
from msgspec.structs import replace

from latchkey.database import transient_errors
from latchkey.database.errors import CollisionError
from latchkey.domain.customers import promotion
from latchkey.domain.customers.customer import (
    MAX_COUNT,
    Attribute,
    Customer,
    not_later_than,
    set_now,
    visible,
    with_shown_attributes,
)
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.events.customer_event import event_id
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Refusal, found
from latchkey.engine.changes import Change, Changes, Committed, Situation
from latchkey.engine.due_transitions import next_due_at
from latchkey.engine.storage import records, state, store_handles
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.storage.writes import Save, save
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.bulk_grants import usecases as bulk_grants
from latchkey.subjects.charts.usecases import keep_erased
from latchkey.subjects.checkout.usecases import checkouts
from latchkey.subjects.customers import storage
from latchkey.subjects.customers.storage import TransferEvent
from latchkey.subjects.customers.usecases.identities import again
from latchkey.subjects.imports.usecases import runs as imports
from latchkey.subjects.webhooks.usecases import registry as webhooks
from latchkey.wire.event import Event


async def set_attributes(
    changes: Changes, project_id: str, app_user_id: str, attributes: Mapping[str, Attribute], *, create: bool
) -> Committed:
    # The wall clock, even for a customer on a test clock: the sender's device has no other clock.
    dated = not_later_than(changes.now(), attributes)

    def noted(situation: Situation) -> Customer:
        return with_shown_attributes(situation.customer, dated)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=noted, create=create))


async def put_attributes(
    changes: Changes, project_id: str, app_user_id: str, values: Mapping[str, str | None]
) -> Committed:
    """An operator sets attributes of an existing customer now; null deletes one."""
    # The wall clock, as for those that phones send.
    now = changes.now()

    def noted(situation: Situation) -> Customer:
        after = set_now(situation.customer, values, now)
        # A merge and an import may exceed the limit. Such customers may still change and delete attributes.
        if len(visible(after)) > max(MAX_COUNT, len(visible(situation.customer))):
            raise Refusal(f"A customer has at most {MAX_COUNT} attributes.", param="attributes")
        return after

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=noted))


async def grant(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    entitlement_id: str,
    *,
    ends_at: Ms | None = None,
    duration: str | None = None,
    counted_from: Ms | None = None,
    create: bool = False,
) -> Committed:
    """Until `ends_at`, or for a named duration from now (or from `counted_from`), or for ever."""

    def granted(situation: Situation) -> Customer:
        _known(situation, entitlement_id)
        end = promotion.end_of(duration, counted_from or situation.now) if duration is not None else ends_at
        return promotion.grant(situation.customer, entitlement_id, end, situation.now, duration=duration)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=granted, create=create))


async def revoke(changes: Changes, project_id: str, app_user_id: str, entitlement_id: str) -> Committed:
    """Ends every active promotional grant of this entitlement; purchases are not affected."""

    def revoked(situation: Situation) -> Customer:
        _known(situation, entitlement_id)
        return promotion.revoke(situation.customer, entitlement_id, situation.now)

    return await changes.make(Change(project_id=project_id, app_user_id=app_user_id, apply=revoked))


def _known(situation: Situation, entitlement_id: str) -> None:
    known = entitlement_id in situation.catalog.entitlements
    found(known, f"There is no entitlement {entitlement_id!r} in this project.", "entitlement_id")


list_customers = storage.page


async def erase(changes: Changes, project_id: str, app_user_id: str) -> None:
    """Deletes the customer, its ids and attributes. Its events keep product, price and time under a pseudonym. Its ids
    are also removed from customers who received purchases from it, from the audit log and the log of deliveries."""
    await again(lambda: _erase(changes, project_id, app_user_id))


async def _erase(changes: Changes, project_id: str, app_user_id: str) -> None:
    async with transient_errors.hot_transaction(changes.database) as connection:
        customer = await state.load(connection, project_id, app_user_id)
        ids = found(customer, f"There is no customer {app_user_id!r}.", "app_user_id").aliases
        # The log of years, before anybody has to wait for these customers.
        read_until = await audit.forget(connection, project_id, ids, ERASED)
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
        rewritten = {transfer.event.id: replace(transfer.event, transferred_from=[ERASED]) for transfer in transfers}
        rewritten |= {event.id: anonymous(event, pseudonym, ids) for event in own}
        await storage.replace_events(connection, project_id, rewritten)
        kept = [locked[project_id, id] for id in receivers if (project_id, id) in locked]
        changed = [(receiver, without_source(receiver.customer, ids)) for receiver in kept]
        await save(connection, [Save(one, after, next_due_at(after)) for one, after in changed], changes.now())
        catalog = (await load_projects(connection, changes.catalogs, {project_id}))[project_id].catalog
        await keep_erased(connection, stored.key, stored.customer, catalog.chart_attributes)
        await store_handles.forget(connection, project_id, stored.key, ids)
        await checkouts.forget(connection, project_id, ids)
        await audit.forget(connection, project_id, ids, ERASED, after=read_until)
        await bulk_grants.forget(connection, project_id, ids, ERASED)
        await imports.forget(connection, project_id)
        # Late: whoever records the outcome of a delivery waits for the lanes.
        await webhooks.forget(connection, project_id, list(rewritten))
        await records.erase(connection, stored)


def _receivers(transfers: Iterable[TransferEvent]) -> set[str]:
    return {transfer.receiver for transfer in transfers if transfer.receiver is not None}


def without_source(customer: Customer, ids: Collection[str]) -> Customer:
    """The customer without these ids as sources of its transfers."""
    gone = set(ids)
    forgotten = (
        transfer if gone.isdisjoint(transfer.transferred_from) else replace(transfer, transferred_from=(ERASED,))
        for transfer in customer.transfers
    )
    return replace(customer, transfers=tuple(forgotten))


def anonymous(event: Event, pseudonym: str, ids: Collection[str]) -> Event:
    """The event without personal data. A TRANSFER keeps the ids of the other source customers: if it is still to be
    delivered, the receiver must re-read them, because they lost what was transferred."""
    sources = event.transferred_from
    own = isinstance(sources, list) and not set(ids).isdisjoint(sources)
    return replace(
        event,
        app_user_id=pseudonym,
        original_app_user_id=pseudonym,
        aliases=[],
        subscriber_attributes=UNSET,
        transferred_to=[pseudonym] if event.transferred_to else event.transferred_to,
        transferred_from=[ERASED] if own else sources,
        merged_sequences=event.merged_sequences
        if event.merged_sequences is UNSET
        else [replace(merged_sequence, app_user_id=pseudonym) for merged_sequence in event.merged_sequences],
    )
