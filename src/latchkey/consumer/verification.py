"""The verification rule: when V2 must be asked instead of trusting the local copy."""

from __future__ import annotations

from enum import StrEnum

from latchkey.consumer.instants import DAY, HOUR, Ms
from latchkey.consumer.record import Subscription

ENDS_SOON = 24 * HOUR
JUST_CANCELLED = 2 * DAY
TOO_OLD = HOUR


class Reason(StrEnum):
    NO_RECORD = "no local record exists"
    ENDS_SOON = "it ends within 24 hours"
    BILLING_ISSUE = "there is a billing issue"
    JUST_CANCELLED = "it was cancelled less than 48 hours ago"
    TOO_OLD = "it was last updated more than an hour ago"


def reasons_to_verify(
    subscription: Subscription | None, now: Ms, *, only_if_still_ahead: bool = False
) -> tuple[Reason, ...]:
    """Every condition that applies; none means the local copy answers. `only_if_still_ahead` is the specification's
    variant: an end in the past is not a reason to verify."""
    if subscription is None or not subscription.exists:
        return (Reason.NO_RECORD,)
    found = []
    ends_at, cancelled_at, updated = subscription.expires_at, subscription.cancelled_at, subscription.last_updated
    if ends_at is not None and ends_at < now + ENDS_SOON and not (only_if_still_ahead and ends_at <= now):
        found.append(Reason.ENDS_SOON)
    if subscription.billing_issue:
        found.append(Reason.BILLING_ISSUE)
    if cancelled_at is not None and now - cancelled_at < JUST_CANCELLED:
        found.append(Reason.JUST_CANCELLED)
    if updated is not None and now - updated > TOO_OLD:
        found.append(Reason.TOO_OLD)
    return tuple(found)
