"""What the vendor's web SDK takes for active in a V1 answer: its rules as of version 1.63.1, in our own words."""

from datetime import datetime

from latchkey.domain.instants import Ms
from latchkey.wire.event import Entitlement
from latchkey.wire.v1 import Subscriber


def active_in_web_sdk(subscriber: Subscriber, now: Ms) -> set[str]:
    return {id for id, one in subscriber.entitlements.items() if _is_active(subscriber, one, now)}


def _is_active(subscriber: Subscriber, entitlement: Entitlement, now: Ms) -> bool:
    product_id = entitlement.product_identifier
    if product_id in subscriber.subscriptions:
        return entitlement.expires_date is None or later(entitlement.expires_date, now)
    # The SDK ignores the end of access from a one-time purchase, and throws if there is no purchase.
    assert product_id in subscriber.non_subscriptions, f"{product_id} is nowhere: the SDK throws"
    return True


def later(date: str, now: Ms) -> bool:
    return datetime.fromisoformat(date).timestamp() * 1000 > now
