"""`subscription_status`: the specification's table of states as one function."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

ACTIVE = "active"
CANCELLED = "cancelled"
EXPIRED = "expired"
TRIAL = "trial"
PAUSED = "paused"
BILLING_ISSUE = "billing_issue"


class Standing(Struct, frozen=True):
    """The state of a subscription as an event type decides it."""

    status: str | None
    auto_renew: bool = True
    billing_issue: bool = False


def standing_after(event_type: str, any_active: bool, before: Standing) -> Standing:
    """Recomputed on every event, from the entitlements in the event."""
    if not any_active:
        return replace(before, status=EXPIRED, auto_renew=False)
    match event_type:
        case "TRIAL_STARTED":
            return Standing(TRIAL)
        case "SUBSCRIPTION_PAUSED":
            return replace(before, status=PAUSED, auto_renew=False)
        case "CANCELLATION":
            return replace(before, status=CANCELLED, auto_renew=False)
        case "BILLING_ISSUE":
            return replace(before, status=BILLING_ISSUE, billing_issue=True)
        case _:
            return Standing(ACTIVE)


def standing_after_reading(any_active: bool, before: Standing) -> Standing:
    """If V2 contradicts the record. V2 knows only about access."""
    return Standing(ACTIVE) if any_active else replace(before, status=EXPIRED, auto_renew=False)
