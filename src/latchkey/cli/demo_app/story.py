"""What the page shows of a user: only from the consumer's local copy, as an app's own server would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from latchkey.cli.demo_app.arrivals import Arrival
from latchkey.consumer import LocalCopy
from latchkey.consumer.instants import Ms

ENTITLEMENT = "pro"

State = Literal["free", "pro", "trouble", "cancelled", "ended"]

_STATES: dict[str | None, State] = {
    "active": "pro",
    "trial": "pro",
    "paused": "cancelled",
    "billing_issue": "trouble",
    "cancelled": "cancelled",
    "expired": "ended",
}


class Story(Struct, frozen=True, kw_only=True):
    user: str
    state: State
    # The time of the user's test clock.
    now: Ms
    until: Ms | None
    # Newest first.
    events: Sequence[Arrival]


def tell(user: str, copy: LocalCopy | None, now: Ms, events: Sequence[Arrival]) -> Story:
    known = copy.subscription if copy is not None else None
    held = copy.entitlements.get(ENTITLEMENT) if copy is not None else None
    return Story(
        user=user,
        state=_STATES.get(known.subscription_status, "free") if known is not None and known.exists else "free",
        now=now,
        until=held.expires_at if held is not None else None,
        events=events,
    )
