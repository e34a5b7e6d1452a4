"""Promotional grants: access given by the operator, with or without an end."""

from msgspec.structs import replace

from latchkey.domain import formats
from latchkey.domain.customers.customer import Customer, put_purchase, with_purchase
from latchkey.domain.events.customer_event import event_id
from latchkey.domain.instants import Duration, Ms, add
from latchkey.domain.money.amounts import FREE
from latchkey.domain.purchases.purchase import Environment, Purchase, PurchaseKind
from latchkey.domain.refusal import Refusal
from latchkey.domain.stores.store import PROMOTIONAL

STORE = PROMOTIONAL
# Prefix of the product ids of grants. No product in a catalog may begin with it.
PREFIX = "rc_promo_"
# Used as the duration of a grant whose end was given as a date.
CUSTOM = "custom"

DURATIONS: dict[str, Duration | None] = {
    "daily": Duration(days=1),
    "three_day": Duration(days=3),
    "weekly": Duration(days=7),
    "two_week": Duration(days=14),
    "monthly": Duration(months=1),
    "two_month": Duration(months=2),
    "three_month": Duration(months=3),
    "six_month": Duration(months=6),
    "yearly": Duration(months=12),
    "lifetime": None,
}


def in_words(duration: str) -> str:
    """1 month"""
    length = DURATIONS[duration]
    return formats.in_words(length) if length is not None else "for ever"


def end_of(duration: str, now: Ms) -> Ms | None:
    length = DURATIONS[duration]
    return add(now, length) if length is not None else None


def product_of(entitlement_id: str, duration: str) -> str:
    """The product id under which a grant is listed. No duration is a suffix of another, so the entitlement in it is
    unambiguous."""
    return f"{PREFIX}{entitlement_id}_{duration}"


def grant(
    customer: Customer,
    entitlement_id: str,
    ends_at: Ms | None,
    now: Ms,
    *,
    duration: str | None = None,
    id: str | None = None,
) -> Customer:
    """Gives the entitlement until `ends_at`, or for ever. Grants are independent; the one that ends last counts.
    `duration` is the name of the length, if the caller chose one by name. `id` names the grant; one that exists
    is not given again."""
    if id is not None and customer.purchase(STORE, id) is not None:
        return customer
    if ends_at is not None and ends_at <= now:
        raise Refusal("The grant would end in the past.", param="expires_at")
    # A transfer removes grants, so their number alone could repeat. Every grant emits an event, so the sequence
    # differs.
    number = sum(purchase.kind is PurchaseKind.PROMOTIONAL for purchase in customer.purchases) + 1
    what = (customer.record, "grant", entitlement_id, customer.sequence, number, now)
    return with_purchase(
        customer,
        Purchase(
            kind=PurchaseKind.PROMOTIONAL,
            store=STORE,
            id=id or event_id(customer.project_id, *what),
            product_id=product_of(entitlement_id, duration or ("lifetime" if ends_at is None else CUSTOM)),
            environment=Environment.SANDBOX if customer.test_clock_id else Environment.PRODUCTION,
            purchased_at=now,
            price=FREE,
            ends_at=ends_at,
            entitlement_id=entitlement_id,
        ),
    )


def revoke(customer: Customer, entitlement_id: str, now: Ms) -> Customer:
    """Ends every active promotional grant of this entitlement."""
    for purchase in customer.purchases:
        running = purchase.access_ends_at is None or purchase.access_ends_at > now
        if purchase.kind is PurchaseKind.PROMOTIONAL and purchase.entitlement_id == entitlement_id and running:
            customer = put_purchase(customer, replace(purchase, revoked_at=now))
    return customer
