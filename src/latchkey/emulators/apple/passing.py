"""What time brings: renewals, failed payments, the end of a grace period, the end of a subscription."""

from __future__ import annotations

from dataclasses import replace

from latchkey.domain.instants import DAY, Ms
from latchkey.emulators.apple.buying import kept, noticed, product_of, renewal_offer, started
from latchkey.emulators.apple.state import Intent, Life, Notice, Purchase, Status, Step

# The App Store tries for so long to collect a payment.
BILLING_RETRY: Ms = 60 * DAY
_ENDED_BY = {
    Intent.CANCELLED: "VOLUNTARY",
    Intent.BILLING: "BILLING_RETRY",
    Intent.PRICE_INCREASE: "PRICE_INCREASE",
    Intent.NOT_FOR_SALE: "PRODUCT_NOT_FOR_SALE",
    Intent.OTHER: None,
}


def due_at(purchase: Purchase) -> Ms | None:
    """When time will next change this purchase, if it ever will."""
    renewal = purchase.renewal
    if renewal is None:
        return None
    match purchase.status:
        case Status.ACTIVE:
            return purchase.latest.expires_at
        case Status.GRACE:
            return renewal.grace_ends_at
        case Status.BILLING_RETRY:
            return renewal.retries_until
        case _:
            return None


def advance(life: Life, until: Ms) -> Step:
    """Everything that happens up to and with `until`, each at its own time, oldest first."""
    told: list[Notice] = []
    while True:
        due = [(at, one.id) for one in life.purchases.values() if (at := due_at(one)) is not None and at <= until]
        if not due:
            return life, tuple(told)
        at, id = min(due)
        life, notices = _pass(life, at, life.purchases[id])
        told.extend(notices)


def expired(purchase: Purchase, intent: Intent) -> Purchase:
    assert purchase.renewal is not None
    over = replace(
        purchase.renewal,
        intent=intent,
        retries_until=None,
        grace_ends_at=None,
        fails_with_grace=None,
        will_end=None,
    )
    return replace(purchase, status=Status.EXPIRED, renewal=over)


def _pass(life: Life, at: Ms, purchase: Purchase) -> Step:
    renewal = purchase.renewal
    assert renewal is not None
    if purchase.status is Status.BILLING_RETRY:
        return _end(life, at, purchase, Intent.BILLING)
    if not renewal.auto_renew:
        return _end(life, at, purchase, Intent.CANCELLED)
    if purchase.status is Status.GRACE:
        retried = replace(purchase, status=Status.BILLING_RETRY, renewal=replace(renewal, grace_ends_at=None))
        return kept(life, retried), (noticed("GRACE_PERIOD_EXPIRED", None, at, retried),)
    if renewal.will_end is not None:
        return _end(life, at, purchase, renewal.will_end)
    if renewal.fails_with_grace is not None:
        return _fail(life, at, purchase, renewal.fails_with_grace)
    return _renew(life, at, purchase)


def _renew(life: Life, at: Ms, purchase: Purchase) -> Step:
    renewal = purchase.renewal
    assert renewal is not None
    offer, rest = renewal_offer(renewal)
    product = product_of(life, renewal.product_id)
    life, next = started(life, at, product, offer, family=purchase.family, reason="RENEWAL")
    purchase = replace(
        purchase, transactions=(*purchase.transactions, next), renewal=replace(rest, price_increase=None)
    )
    return kept(life, purchase), (noticed("DID_RENEW", None, at, purchase),)


def _fail(life: Life, at: Ms, purchase: Purchase, grace_days: int) -> Step:
    assert purchase.renewal is not None
    failed = replace(
        purchase.renewal,
        fails_with_grace=None,
        intent=Intent.BILLING,
        grace_ends_at=at + grace_days * DAY if grace_days else None,
        retries_until=at + BILLING_RETRY,
    )
    status = Status.GRACE if grace_days else Status.BILLING_RETRY
    purchase = replace(purchase, status=status, renewal=failed)
    subtype = "GRACE_PERIOD" if grace_days else None
    return kept(life, purchase), (noticed("DID_FAIL_TO_RENEW", subtype, at, purchase),)


def _end(life: Life, at: Ms, purchase: Purchase, intent: Intent) -> Step:
    purchase = expired(purchase, intent)
    return kept(life, purchase), (noticed("EXPIRED", _ENDED_BY[intent], at, purchase),)
