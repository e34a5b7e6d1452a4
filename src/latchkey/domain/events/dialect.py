"""The dialects of a webhook, and the event types of each.

`latchkey` is the default. `revenuecat` is for receivers that were written for that service: it has no types of its own
for trials and refunds.
"""

from enum import StrEnum

from latchkey.domain.events.customer_event import EventType


class Dialect(StrEnum):
    LATCHKEY = "latchkey"
    REVENUECAT = "revenuecat"


_OTHER_TYPE = {
    EventType.TRIAL_STARTED.value: EventType.INITIAL_PURCHASE.value,
    EventType.TRIAL_CANCELLED.value: EventType.CANCELLATION.value,
    EventType.REFUND.value: EventType.CANCELLATION.value,
}


def vendor_type(type: str, *, continues: bool) -> str:
    """The type of an event in the `revenuecat` dialect. A purchase that goes on with a subscription, after a trial or
    after a lapse, is a renewal there."""
    if continues and type == EventType.INITIAL_PURCHASE:
        return EventType.RENEWAL.value
    return _OTHER_TYPE.get(type, type)


def vendor_selectors(type: str, *, continues: bool) -> tuple[str, ...]:
    """The `event_types` that select the event in the `revenuecat` dialect: that dialect's type; and TRIAL_STARTED,
    TRIAL_CANCELLED and REFUND, which select those events alone."""
    vendor = vendor_type(type, continues=continues)
    return (vendor, type) if type in _OTHER_TYPE else (vendor,)


def selected(types: tuple[str, ...], type: str, *, continues: bool, dialect: str) -> bool:
    """Whether a webhook with these `event_types` gets the event; no types means all."""
    selectors = (type,) if dialect == Dialect.LATCHKEY else vendor_selectors(type, continues=continues)
    return not types or not set(types).isdisjoint(selectors)
