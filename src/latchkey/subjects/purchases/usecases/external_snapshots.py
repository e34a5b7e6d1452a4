"""Takes in a snapshot of a purchase in a store that has no adapter here: somebody's server sends it with a secret key.

The same rules apply as to what the adapters read (`purchase_intake.py`). The difference: nobody can ask such a store,
so the sender says as of which moment the snapshot is, and whose the purchase is.
"""

from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.formats import instant
from latchkey.domain.instants import MINUTE, Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.reconciliation import settle, settle_purchase
from latchkey.domain.purchases.reference import v2_id
from latchkey.domain.purchases.subscription import Moment, Status, Subscription
from latchkey.domain.refusal import Conflict, Invalid, NotFound
from latchkey.domain.stores.store import PROMOTIONAL, STORES, TEST_STORE
from latchkey.engine.changes import Change, Committed, Situation
from latchkey.engine.storage import state
from latchkey.subjects.customers.usecases.identities import claimed, hand_over
from latchkey.subjects.projects.usecases import load_app
from latchkey.subjects.purchase_intake.usecases.batched_lookups import BatchedLookups
from latchkey.subjects.purchases import rules
from latchkey.subjects.purchases.usecases.lookup import LookupServices
from latchkey.wire.event import Event

Outcome = Literal["applied", "unchanged", "overtaken"]

# The sender's clock may be ahead of ours by this much. A moment in the future would make every true one after it old.
CLOCKS_DIFFER: Ms = 5 * MINUTE


class ExternalSnapshot(Struct, frozen=True, kw_only=True):
    bought: Subscription | Purchase
    as_of: Ms
    # None: whoever owns it.
    app_user_id: str | None
    # Whether a purchase that another customer owns moves to `app_user_id`.
    transfer: bool = False
    # False: it is only about payments.
    tells_status: bool = True
    # The end of access, where a subscription ended before the end of its last period.
    ended_at: Ms | None = None


class Fed(Struct, frozen=True):
    outcome: Outcome
    # As V2 names the purchase.
    id: str
    events: tuple[Event, ...]


async def feed(services: LookupServices, project_id: str, snapshot: ExternalSnapshot) -> Fed:
    bought = snapshot.bought
    _check_store(services, bought.store)
    if bought.app_id is not None:
        app = await load_app(services.database, project_id, bought.app_id)
        if app.store != bought.store:
            raise Invalid(f"The app {app.id} belongs to the store {app.store!r}, not {bought.store!r}.", param="app_id")
    key = bought.store, bought.id

    async def attempt() -> Committed:
        change = Change(
            project_id=project_id,
            app_user_id=await _buyer(services, project_id, snapshot),
            apply=partial(applied, snapshot=snapshot),
            create=True,
            claims=frozenset({key}),
        )
        return await services.changes.make(change)

    async def take_over() -> Committed | None:
        nonlocal snapshot
        buyer = snapshot.app_user_id
        if buyer is None:
            # It has just changed hands: look again.
            return None
        if not snapshot.transfer:
            raise Conflict(
                "The purchase belongs to another customer. Send transfer: true to move it, or leave app_user_id "
                "out to tell how it stands, whoever owns it.",
                param="app_user_id",
            ) from None
        if await _is_late(services, project_id, snapshot):
            # Repeated, or late: a newer snapshot has told whose it is.
            snapshot = replace(snapshot, app_user_id=None)
            return None
        return await hand_over(services.changes, project_id, buyer, key)

    committed = await claimed(attempt, take_over)
    return Fed(_outcome(committed, snapshot), v2_id(bought), committed.events)


def _check_store(services: LookupServices, store: str) -> None:
    if store in services.stores.adapters:
        raise Invalid(
            f"Latchkey reads the {STORES[store].title} itself: connect an app with its credentials, and its purchases "
            "arrive by notification.",
            param="store",
        )
    if store in (TEST_STORE, PROMOTIONAL):
        raise Invalid(f"The store {store!r} is built into Latchkey. Choose another name.", param="store")


async def _buyer(services: LookupServices, project_id: str, snapshot: ExternalSnapshot) -> str:
    bought = snapshot.bought
    owner = await BatchedLookups(services.database).owner(project_id, (bought.store, bought.id))
    if owner is not None and owner.key is None and not (snapshot.transfer and snapshot.app_user_id is not None):
        raise Conflict(
            "The customer whom this purchase belonged to was deleted. Send transfer: true to give it to app_user_id.",
            param="app_user_id",
        )
    if snapshot.app_user_id is not None:
        return snapshot.app_user_id
    if owner is None or owner.app_user_id is None:
        raise Invalid("The purchase is not known yet: name the buyer with app_user_id.", param="app_user_id")
    return owner.app_user_id


async def _is_late(services: LookupServices, project_id: str, snapshot: ExternalSnapshot) -> bool:
    """Whether the owner has the purchase from a newer snapshot."""
    key = snapshot.bought.store, snapshot.bought.id
    owner = await BatchedLookups(services.database).owner(project_id, key)
    if owner is None or owner.app_user_id is None:
        return False
    customer = await state.load(services.database, project_id, owner.app_user_id)
    if customer is None:
        return False
    subscription = customer.subscription(*key)
    if subscription is None:
        return snapshot.as_of < _told_at(customer.purchase(*key))
    # A snapshot of payments alone leaves the status as it is.
    told = (subscription.status.as_of, *(period.as_of for period in subscription.periods))
    return snapshot.as_of < max(told).at


def applied(situation: Situation, snapshot: ExternalSnapshot) -> Customer:
    """The customer after the snapshot. Refuses one that contradicts what is known."""
    customer = situation.customer
    if snapshot.as_of > situation.now + CLOCKS_DIFFER:
        here = instant(situation.now, seconds=True)
        raise Invalid(f"as_of: It is in the future. The time here is {here}.", param="as_of")
    seen = _completed(customer, snapshot)
    rules.check_conflicts(customer, seen, snapshot.as_of)
    _check_products(situation, seen)
    if isinstance(seen, Purchase):
        return take_in(customer, settle_purchase(customer.purchase(seen.store, seen.id), seen), situation.now)
    return take_in(customer, settle(customer.subscription(seen.store, seen.id), seen, situation.now), situation.now)


def _completed(customer: Customer, snapshot: ExternalSnapshot) -> Subscription | Purchase:
    """With what the snapshot leaves out because it is known."""
    seen = snapshot.bought
    if isinstance(seen, Purchase):
        return seen
    before = customer.subscription(seen.store, seen.id)
    if not seen.periods:
        if before is None:
            raise NotFound(
                f"The subscription {seen.id!r} is not known yet: send its periods too.", param="subscription.periods"
            )
        # The one that ran at that moment.
        begun = [period for period in before.periods if period.purchased_at <= snapshot.as_of]
        seen = replace(seen, periods=(begun[-1] if begun else before.periods[0],))
    if snapshot.ended_at is not None and snapshot.ended_at < seen.current.ends_at:
        ends_at = max(snapshot.ended_at, seen.current.purchased_at)
        cut = replace(seen.current, ends_at=ends_at, as_of=Moment(snapshot.as_of))
        seen = replace(seen, periods=(*seen.periods[:-1], cut))
    if not snapshot.tells_status and before is not None:
        seen = replace(seen, status=_after_payment(before, seen, snapshot.as_of))
    return seen


def _after_payment(before: Subscription, seen: Subscription, as_of: Ms) -> Status:
    """The known status, after a snapshot of payments alone. A newer period was paid for: that made good what was
    missing, ended a pause, and began what had been announced."""
    status = before.status
    if seen.current.purchased_at <= before.current.purchased_at or as_of <= status.as_of.at:
        return status
    announced = status.next_product_id if status.next_product_id != seen.current.product_id else None
    moment = Moment(status.as_of.at, status.as_of.revision + 1)
    return replace(
        status, as_of=moment, billing_issue_at=None, grace_ends_at=None, pause=None, next_product_id=announced
    )


def _check_products(situation: Situation, seen: Subscription | Purchase) -> None:
    """Only of what is new: the products of the past may be gone."""
    if isinstance(seen, Purchase):
        if situation.customer.purchase(seen.store, seen.id) is None:
            _check_product(situation, seen.product_id, "purchase.product_id")
        return
    before = situation.customer.subscription(seen.store, seen.id)
    known = {period.id for period in before.periods} if before is not None else set()
    for period in seen.periods:
        if period.id not in known:
            _check_product(situation, period.product_id, "subscription.periods")
    if seen.status.next_product_id is not None:
        _check_product(situation, seen.status.next_product_id, "subscription.next_product_id")


def _check_product(situation: Situation, product_id: str, param: str) -> None:
    if situation.catalog.find(product_id) is None:
        raise NotFound(f"There is no product {product_id!r} in this project. Create it first.", param=param)


def _outcome(committed: Committed, snapshot: ExternalSnapshot) -> Outcome:
    assert committed.stored is not None
    key = snapshot.bought.store, snapshot.bought.id
    before, after = committed.stored.customer, committed.customer
    was, now = before.subscription(*key) or before.purchase(*key), after.subscription(*key) or after.purchase(*key)
    if was != now:
        return "applied"
    overtaken = snapshot.tells_status and snapshot.as_of < _told_at(now)
    return "overtaken" if overtaken else "unchanged"


def _told_at(bought: Subscription | Purchase | None) -> Ms:
    if isinstance(bought, Subscription):
        return bought.status.as_of.at
    return bought.told_at or 0 if bought is not None else 0
