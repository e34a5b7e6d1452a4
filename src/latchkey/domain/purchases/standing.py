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

from __future__ import annotations

from enum import StrEnum

from latchkey.domain.instants import Ms
from latchkey.domain.purchases.subscription import Subscription


class Standing(StrEnum):
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


def standing_of(subscription: Subscription, now: Ms) -> Standing:
    current, status = subscription.current, subscription.status
    refunded = current.refunded_at is not None
    # No store renews, resumes or tries a payment again after a refund, not even after one that is dated ahead.
    goes_on = status.goes_on and not refunded
    if subscription.access_ends_at > now:
        if current.ends_at <= now:
            return Standing.IN_GRACE
        if not goes_on:
            return Standing.ENDS
        if status.billing_issue_at is not None:
            return Standing.PAYMENT_FAILED
        return Standing.PAUSES if status.pause is not None else Standing.RENEWS
    if refunded:
        return Standing.REFUNDED
    if not goes_on:
        return Standing.ENDED
    if status.billing_issue_at is not None:
        return Standing.BILLING_RETRY
    return Standing.PAUSED if status.pause is not None else Standing.OVERDUE
