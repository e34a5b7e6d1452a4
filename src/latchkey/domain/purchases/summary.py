"""What a subscription is at a moment, in one word.

The explanation of access, the picture of a customer's life and the test clock's page all use this word. Where several
words could apply, the first one in this order does:

1. Access runs: the grace period (nothing else keeps access open), then that nothing follows, then a failed payment,
   then a pause, then the renewal.
2. Access is over: the refund, then that nothing follows, then a failed payment, then a pause, then the renewal that
   has not been reported.

Whether it is a trial is not a standing: `current.period_type` says it, and a trial renews, ends or fails as paid time
does.
"""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from latchkey.domain.catalog import Catalog
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Period, PeriodType, Subscription


class SubscriptionState(StrEnum):
    # Access runs.
    RENEWS = "renews"
    # Renewal is off, or the store said that the subscription is over: access ends with the time that was paid for.
    ENDS = "ends"
    # A pause begins when the time that was paid for is over.
    PAUSES = "pauses"
    # The payment for the time after the running period failed, and the store tries again.
    PAYMENT_FAILED = "payment_failed"
    # The time that was paid for is over; the store keeps access open while it tries the payment again.
    IN_GRACE = "in_grace"

    # Access is over.
    PAUSED = "paused"
    # The store tries the payment again, and gives no access meanwhile.
    BILLING_RETRY = "billing_retry"
    # The store should have renewed it, and has not reported anything yet.
    OVERDUE = "overdue"
    # The last payment was given back, before access would have ended or after it.
    REFUNDED = "refunded"
    ENDED = "ended"


def standing_of(subscription: Subscription, now: Ms) -> SubscriptionState:
    current, status = subscription.current, subscription.status
    refunded = current.refunded_at is not None
    # No store renews, resumes or tries a payment again after a refund, not even after one that is dated ahead.
    goes_on = status.goes_on and not refunded
    if subscription.access_ends_at > now:
        if current.ends_at <= now:
            return SubscriptionState.IN_GRACE
        if not goes_on:
            return SubscriptionState.ENDS
        if status.billing_issue_at is not None:
            return SubscriptionState.PAYMENT_FAILED
        return SubscriptionState.PAUSES if status.pause is not None else SubscriptionState.RENEWS
    if refunded:
        return SubscriptionState.REFUNDED
    if not goes_on:
        return SubscriptionState.ENDED
    if status.billing_issue_at is not None:
        return SubscriptionState.BILLING_RETRY
    return SubscriptionState.PAUSED if status.pause is not None else SubscriptionState.OVERDUE


class SubscriptionStatus(StrEnum):
    TRIALING = "trialing"
    ACTIVE = "active"
    EXPIRED = "expired"
    IN_GRACE_PERIOD = "in_grace_period"
    IN_BILLING_RETRY = "in_billing_retry"
    PAUSED = "paused"


class AutoRenewal(StrEnum):
    WILL_RENEW = "will_renew"
    WILL_NOT_RENEW = "will_not_renew"
    WILL_CHANGE_PRODUCT = "will_change_product"
    WILL_PAUSE = "will_pause"
    HAS_ALREADY_RENEWED = "has_already_renewed"


_STATUS = {
    SubscriptionState.IN_GRACE: SubscriptionStatus.IN_GRACE_PERIOD,
    SubscriptionState.BILLING_RETRY: SubscriptionStatus.IN_BILLING_RETRY,
    SubscriptionState.PAUSED: SubscriptionStatus.PAUSED,
    # A renewal that the store has not reported is not paid as far as anybody knows.
    SubscriptionState.OVERDUE: SubscriptionStatus.EXPIRED,
    SubscriptionState.REFUNDED: SubscriptionStatus.EXPIRED,
    SubscriptionState.ENDED: SubscriptionStatus.EXPIRED,
}
_NOTHING_FOLLOWS = frozenset({SubscriptionState.ENDS, SubscriptionState.REFUNDED, SubscriptionState.ENDED})


class Summary(Struct, frozen=True, kw_only=True):
    """What V2 says of a subscription at a moment: its status, whether it renews, its dates, what it grants."""

    status: SubscriptionStatus
    auto_renewal: AutoRenewal
    gives_access: bool
    # None for a grant: no product of the catalog was bought.
    product_id: str | None
    next_product_id: str | None
    starts_at: Ms
    period_starts_at: Ms
    # None for a grant without an end.
    period_ends_at: Ms | None
    # Later than the end of the period only where the next one is paid already.
    ends_at: Ms | None
    entitlement_ids: tuple[str, ...]


def summary_of(bought: Subscription | Purchase, catalog: Catalog, now: Ms) -> Summary:
    """Of a subscription, a promotional grant or a prepaid plan."""
    return (
        _of_purchase(bought, catalog, now) if isinstance(bought, Purchase) else _of_subscription(bought, catalog, now)
    )


def gives_access(bought: Subscription | Purchase, now: Ms) -> bool:
    if isinstance(bought, Purchase):
        return bought.access_ends_at is None or bought.access_ends_at > now
    return any(end_of(bought, period) > now for period in bought.periods)


def end_of(subscription: Subscription, period: Period) -> Ms:
    """When the access of one of its periods ends: with the grace period, or with a refund."""
    return subscription.access_ends_at if period is subscription.current else period.access_ends_at


def granted_by(bought: Subscription | Purchase, catalog: Catalog, now: Ms) -> tuple[str, ...]:
    """The entitlements of the products that run; of the last one if none does."""
    if isinstance(bought, Purchase):
        return (bought.entitlement_id,) if bought.entitlement_id else tuple(sorted(catalog.grants(bought.product_id)))
    running = [period for period in bought.periods if end_of(bought, period) > now] or [bought.current]
    return tuple(sorted({id for period in running for id in catalog.grants(period.product_id)}))


def purchase_status(purchase: Purchase) -> Literal["owned", "refunded"]:
    """`refunded` also where it was taken back in another way, such as the end of family sharing."""
    return "refunded" if purchase.refunded_at is not None or purchase.revoked_at is not None else "owned"


def _of_subscription(subscription: Subscription, catalog: Catalog, now: Ms) -> Summary:
    current, running = subscription.current, _running(subscription, now)
    standing, access = standing_of(subscription, now), gives_access(subscription, now)
    ahead = running is not current
    trial = running.period_type is PeriodType.TRIAL
    runs = SubscriptionStatus.TRIALING if trial else SubscriptionStatus.ACTIVE
    status = runs if ahead else _STATUS.get(standing, runs)
    if access and status is SubscriptionStatus.EXPIRED:
        # The last period is over, by a refund, while an earlier one still runs.
        status = SubscriptionStatus.ACTIVE
    next_product = subscription.status.next_product_id if standing is SubscriptionState.RENEWS else None
    period_end = running.access_ends_at
    return Summary(
        status=status,
        auto_renewal=AutoRenewal.HAS_ALREADY_RENEWED if ahead else _renewal(standing, next_product),
        gives_access=access,
        product_id=running.product_id,
        next_product_id=next_product,
        starts_at=subscription.started_at,
        period_starts_at=running.starts_at,
        period_ends_at=period_end,
        ends_at=current.access_ends_at if ahead else period_end,
        entitlement_ids=granted_by(subscription, catalog, now),
    )


def _running(subscription: Subscription, now: Ms) -> Period:
    """The last period, or the one before it while that one runs: a store may charge for the next period early."""
    current = subscription.current
    if len(subscription.periods) > 1 and current.starts_at > now and current.refunded_at is None:
        before = subscription.periods[-2]
        if before.access_ends_at > now:
            return before
    return current


def _renewal(standing: SubscriptionState, next_product: str | None) -> AutoRenewal:
    if standing in _NOTHING_FOLLOWS:
        return AutoRenewal.WILL_NOT_RENEW
    if standing is SubscriptionState.PAUSES:
        return AutoRenewal.WILL_PAUSE
    return AutoRenewal.WILL_CHANGE_PRODUCT if next_product is not None else AutoRenewal.WILL_RENEW


def _of_purchase(purchase: Purchase, catalog: Catalog, now: Ms) -> Summary:
    access, end = gives_access(purchase, now), purchase.access_ends_at
    return Summary(
        status=SubscriptionStatus.ACTIVE if access else SubscriptionStatus.EXPIRED,
        auto_renewal=AutoRenewal.WILL_NOT_RENEW,
        gives_access=access,
        product_id=None if purchase.kind is PurchaseKind.PROMOTIONAL else purchase.product_id,
        next_product_id=None,
        starts_at=purchase.purchased_at,
        period_starts_at=purchase.purchased_at,
        period_ends_at=end,
        ends_at=end,
        entitlement_ids=granted_by(purchase, catalog, now),
    )
