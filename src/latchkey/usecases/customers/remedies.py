"""What an operator can do about a purchase: which actions are possible, and doing them.

The use cases behind it find a purchase by its product and take the newest one, so only that one is offered.
"""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Refusal
from latchkey.storage.customers.records import PurchaseKey
from latchkey.stores.test_store.billing import STORE
from latchkey.usecases.customers import subscriptions
from latchkey.usecases.engine.changes import Changes, Committed
from latchkey.usecases.sandbox import store as test_store


@dataclass(frozen=True, slots=True)
class Remedies:
    refund: bool = False
    extend: bool = False
    # Whether a promotional grant can be revoked or extended.
    revoke: bool = False
    # Where the action has to be done instead, as text.
    elsewhere: str = ""


def remedies(customer: Customer, now: Ms) -> dict[PurchaseKey, Remedies]:
    """For every purchase and grant of this customer, by store and id."""
    found = {(one.store, one.id): _of_subscription(customer, one, now) for one in customer.subscriptions}
    return found | {(one.store, one.id): _of_purchase(customer, one, now) for one in customer.purchases}


async def refund(changes: Changes, customer: Customer, key: PurchaseKey, now: Ms) -> Committed:
    """Refunds the current period of a subscription, or a one-time purchase; access ends at once."""
    if not remedies(customer, now).get(key, Remedies()).refund:
        raise Refusal("This purchase cannot be refunded here.")
    subscription = customer.subscription(*key)
    if subscription is not None:
        product_id = subscription.current.product_id
        return await subscriptions.refund(changes, customer.project_id, customer.app_user_id, product_id)
    purchase = customer.purchase(*key)
    assert purchase is not None, "what can be refunded was bought"
    action = test_store.Action(
        name="refund", app_user_id=customer.app_user_id, new_id=purchase.id, product_id=purchase.product_id
    )
    return await test_store.act(changes, customer.project_id, action)


async def extend(
    changes: Changes, customer: Customer, key: PurchaseKey, now: Ms, *, until: Ms | None = None, by: Ms | None = None
) -> Committed:
    """Moves the end of the current period to `until`, or by `by`."""
    subscription = customer.subscription(*key)
    if subscription is None or not remedies(customer, now)[key].extend:
        raise Refusal("This subscription cannot be extended here.")
    product_id = subscription.current.product_id
    return await subscriptions.defer(changes, customer.project_id, customer.app_user_id, product_id, until=until, by=by)


def _of_subscription(customer: Customer, one: Subscription, now: Ms) -> Remedies:
    if one.store != STORE:
        return Remedies(elsewhere=f"To refund or extend it, use the store: {one.store}.")
    same = [other for other in customer.subscriptions if other.current.product_id == one.current.product_id]
    if one is not max(same, key=lambda other: other.current.order) or one.current.refunded_at is not None:
        return Remedies()
    return Remedies(refund=one.current.price.micros > 0, extend=one.access_ends_at > now)


def _of_purchase(customer: Customer, one: Purchase, now: Ms) -> Remedies:
    runs = one.access_ends_at is None or one.access_ends_at > now
    if one.kind is PurchaseKind.PROMOTIONAL:
        return Remedies(revoke=runs)
    if one.kind is PurchaseKind.TEMPORARY:
        return Remedies()
    if one.store != STORE:
        return Remedies(elsewhere=f"To refund it, use the store: {one.store}.")
    same = [other for other in customer.purchases if other.product_id == one.product_id and other.kind is one.kind]
    newest = max(same, key=lambda other: other.purchased_at)
    return Remedies(refund=one is newest and one.refunded_at is None)
