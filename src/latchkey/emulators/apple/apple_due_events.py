"""What time brings: renewals, failed payments, the end of a grace period, the end of a subscription."""

from collections.abc import Iterator
from dataclasses import replace

from latchkey.domain.instants import DAY, Ms
from latchkey.emulators.apple.apple_books import (
    AppleBooks,
    ApplePurchase,
    AppleStatus,
    AppleStep,
    ExpirationIntent,
    kept,
    noticed,
)
from latchkey.emulators.apple.apple_purchases import renewed

# The App Store tries for so long to collect a payment.
BILLING_RETRY: Ms = 60 * DAY
_ENDED_BY = {
    ExpirationIntent.CANCELLED: "VOLUNTARY",
    ExpirationIntent.BILLING: "BILLING_RETRY",
    ExpirationIntent.PRICE_INCREASE: "PRICE_INCREASE",
    ExpirationIntent.NOT_FOR_SALE: "PRODUCT_NOT_FOR_SALE",
    ExpirationIntent.OTHER: None,
}


def due_events(books: AppleBooks) -> Iterator[tuple[Ms, str]]:
    """When time will next change each purchase."""
    for purchase in books.purchases.values():
        if (renewal := purchase.renewal) is None or purchase.status is None:
            continue
        at = {
            AppleStatus.ACTIVE: purchase.latest.expires_at,
            AppleStatus.GRACE: renewal.grace_ends_at,
            AppleStatus.BILLING_RETRY: renewal.retries_until,
        }.get(purchase.status)
        if at is not None:
            yield at, purchase.id


def expired(purchase: ApplePurchase, intent: ExpirationIntent) -> ApplePurchase:
    assert purchase.renewal is not None
    over = replace(
        purchase.renewal, intent=intent, retries_until=None, grace_ends_at=None, fails_with_grace=None, will_end=None
    )
    return replace(purchase, status=AppleStatus.EXPIRED, renewal=over)


def happen(books: AppleBooks, event: tuple[Ms, str]) -> AppleStep:
    at, id = event
    purchase = books.purchases[id]
    renewal = purchase.renewal
    assert renewal is not None
    if purchase.status is AppleStatus.BILLING_RETRY:
        return _end(books, at, purchase, ExpirationIntent.BILLING)
    if not renewal.auto_renew:
        return _end(books, at, purchase, ExpirationIntent.CANCELLED)
    if purchase.status is AppleStatus.GRACE:
        retried = replace(purchase, status=AppleStatus.BILLING_RETRY, renewal=replace(renewal, grace_ends_at=None))
        return kept(books, retried), (noticed("GRACE_PERIOD_EXPIRED", None, at, retried),)
    if renewal.will_end is not None:
        return _end(books, at, purchase, renewal.will_end)
    if renewal.fails_with_grace is not None:
        return _fail(books, at, purchase, renewal.fails_with_grace)
    return renewed(books, at, purchase)


def _fail(books: AppleBooks, at: Ms, purchase: ApplePurchase, grace_days: int) -> AppleStep:
    assert purchase.renewal is not None
    failed = replace(
        purchase.renewal,
        fails_with_grace=None,
        intent=ExpirationIntent.BILLING,
        grace_ends_at=at + grace_days * DAY if grace_days else None,
        retries_until=at + BILLING_RETRY,
    )
    status = AppleStatus.GRACE if grace_days else AppleStatus.BILLING_RETRY
    purchase = replace(purchase, status=status, renewal=failed)
    subtype = "GRACE_PERIOD" if grace_days else None
    return kept(books, purchase), (noticed("DID_FAIL_TO_RENEW", subtype, at, purchase),)


def _end(books: AppleBooks, at: Ms, purchase: ApplePurchase, intent: ExpirationIntent) -> AppleStep:
    purchase = expired(purchase, intent)
    return kept(books, purchase), (noticed("EXPIRED", _ENDED_BY[intent], at, purchase),)
