"""What the customer page shows: the customer, entitlements with reasons, possible actions, the timeline, and the team's
notes. Notes are erased with the customer; a merge keeps those of both."""

from collections.abc import Callable
from typing import Protocol
from uuid import uuid4

from msgspec import UNSET, Struct
from msgspec.structs import replace

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import Attribute, Customer, visible
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind, Reason
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Invalid, Refusal, found
from latchkey.domain.stores.store import Store, store_of
from latchkey.engine.changes import Changes
from latchkey.engine.reads import CustomerView, Reader
from latchkey.engine.storage import event_feed
from latchkey.engine.storage.records import PurchaseKey
from latchkey.subjects.currencies.usecases import Balance, balances
from latchkey.subjects.customers import storage
from latchkey.subjects.customers.rules.explanation import Explanation, explain_all
from latchkey.subjects.customers.rules.spend import Spend, spend_of
from latchkey.subjects.customers.rules.subscription_timeline import FailedPayment, Past
from latchkey.subjects.customers.storage import Movement, Note, TimelineEvent
from latchkey.wire.event import Event

LONGEST_NOTE = 4000
MOST_NOTES = 200
NO_NOTE = "There is no such note of yours."


async def add_note(
    database: Database, project_id: str, customer_key: int, account_id: str, author: str, text: str, now: Ms
) -> str:
    """Returns the note's id."""
    text, id = checked(text), f"note_{uuid4().hex[:24]}"
    async with database.transaction() as connection:
        if len(await storage.notes_of(connection, project_id, customer_key, MOST_NOTES)) >= MOST_NOTES:
            raise Refusal(f"A customer has at most {MOST_NOTES} notes. Delete one first.")
        added = await storage.add_note(connection, project_id, customer_key, id, account_id, author, text, now)
        found(added, "There is no such customer any more.")
    return id


async def change_note(
    database: Database, project_id: str, customer_key: int, id: str, account_id: str, text: str, now: Ms
) -> None:
    """Only its author may."""
    changed = await storage.change_note(database, project_id, customer_key, id, account_id, checked(text), now)
    found(changed, NO_NOTE, "note_id")


async def delete_note(database: Database, project_id: str, customer_key: int, id: str, account_id: str) -> None:
    """Only its author may."""
    found(await storage.delete_note(database, project_id, customer_key, id, account_id), NO_NOTE, "note_id")


def checked(text: str) -> str:
    """Plain text. Browsers send line breaks as CR LF."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if not text:
        raise Invalid("A note needs some text.", param="text")
    if len(text) > LONGEST_NOTE:
        raise Invalid(f"A note has at most {LONGEST_NOTE:,} characters.", param="text")
    if any((char < " " and char not in "\n\t") or char == "\x7f" for char in text):
        raise Invalid("A note is plain text, without control characters.", param="text")
    return text


class Remedies(Struct, frozen=True):
    refund: bool = False
    cancel: bool = False
    extend: bool = False
    # Whether a promotional grant can be revoked or extended.
    revoke: bool = False
    # The store to use instead, where it takes no orders from Latchkey.
    elsewhere: Store | None = None


def remedies(customer: Customer, now: Ms) -> dict[PurchaseKey, Remedies]:
    """For every purchase and grant of this customer, by store and id."""
    periodic = {
        (subscription.store, subscription.id): _of_subscription(subscription, now)
        for subscription in customer.subscriptions
    }
    return periodic | {(purchase.store, purchase.id): _of_purchase(purchase, now) for purchase in customer.purchases}


def _of_subscription(one: Subscription, now: Ms) -> Remedies:
    store = store_of(one.store)
    if not store.takes_orders:
        return Remedies(elsewhere=store)
    runs = one.access_ends_at > now
    refund = one.current.price.micros > 0 and one.current.refunded_at is None
    return Remedies(refund=refund, cancel=runs and one.status.goes_on, extend=runs)


def _of_purchase(one: Purchase, now: Ms) -> Remedies:
    runs = one.access_ends_at is None or one.access_ends_at > now
    if one.kind is not PurchaseKind.ONE_TIME:
        return Remedies(revoke=runs and one.kind is PurchaseKind.PROMOTIONAL)
    store = store_of(one.store)
    return Remedies(refund=one.refunded_at is None) if store.takes_orders else Remedies(elsewhere=store)


# Enough for years of monthly trouble.
MOST = 200


def read_past(events: list[Event]) -> Past:
    failed: dict[PurchaseKey, tuple[FailedPayment, ...]] = {}
    paused: dict[PurchaseKey, tuple[Ms, ...]] = {}
    for event in reversed(events):
        if event.store is None or event.original_transaction_id is UNSET:
            continue
        key, at = (event.store.lower(), event.original_transaction_id), event.event_timestamp_ms
        if event.type == "BILLING_ISSUE":
            until = event.grace_period_expires_at_ms
            failed[key] = (*failed.get(key, ()), FailedPayment(at, until if isinstance(until, int) else None))
        elif event.type == "EXPIRATION" and event.expiration_reason == Reason.SUBSCRIPTION_PAUSED:
            paused[key] = (*paused.get(key, ()), at)
    return Past(failed, paused)


class Profile(Struct, frozen=True):
    view: CustomerView
    # One for every entitlement of the project and every one the customer ever had: active first, never granted last.
    explanations: list[Explanation]
    balances: list[Balance]
    attributes: dict[str, Attribute]
    remedies: dict[PurchaseKey, Remedies]
    # What was paid in production, and in the sandbox; without those where nothing was.
    spent: list[Spend]
    past: Past
    notes: list[Note]


class ProfileServices(Protocol):
    """What these use cases need of the services."""

    @property
    def database(self) -> Database: ...

    @property
    def now(self) -> Callable[[], Ms]: ...

    @property
    def reader(self) -> Reader: ...

    @property
    def changes(self) -> Changes: ...


async def load_profile(services: ProfileServices, project_id: str, customer_id: str) -> Profile:
    view = await services.reader.view(project_id, customer_id, services.now())
    customer = view.customer
    explained = explain_all(customer, view.catalog, view.now)
    return Profile(
        view,
        sorted(explained, key=lambda one: (not one.has_access, one.reason == "never_granted", one.entitlement_id)),
        await balances(services.changes, project_id, customer.app_user_id),
        visible(customer),
        remedies(customer, view.now),
        [spent for one in Environment if (spent := spend_of(customer, one)) is not None],
        read_past(await storage.past(services.database, project_id, view.key, MOST)),
        await storage.notes_of(services.database, project_id, view.key, MOST_NOTES),
    )


class Timeline(Struct, frozen=True):
    events: list[TimelineEvent]
    # The next page begins after the event with this id.
    before: str | None


class Movements(Struct, frozen=True):
    items: list[Movement]
    more: bool


async def timeline(
    database: Database, project_id: str, key: int, *, before: str | None = None, limit: int = 25
) -> Timeline:
    """A page of the events of the customer with this key; `before` is the id of the last event seen."""
    async with database.acquire() as connection:
        place: tuple[int, ...] = storage.END
        if before is not None:
            known = await storage.place_of(connection, project_id, before)
            place = found(known, f"There is no event {before!r} to go on from.", "before")
        events = await storage.newest(connection, project_id, key, *place, limit + 1)
        shown = events[:limit]
        sent = await event_feed.deliveries(
            connection, project_id, [(event.customer_key, event.sequence) for event in shown]
        )
    shown = [replace(event, deliveries=sent.get(event.id, ())) for event in shown]
    return Timeline(shown, shown[-1].id if len(events) > limit else None)


async def movements(
    database: Database, project_id: str, key: int, *, before: tuple[Ms, str, str] | None = None, limit: int = 50
) -> Movements:
    """Credits and debits of virtual currency, newest first; `before` is (at, key, code) of the last one seen."""
    items = await storage.movements(database, project_id, key, *(before or storage.LAST_MOVEMENT), limit + 1)
    return Movements(items[:limit], len(items) > limit)
