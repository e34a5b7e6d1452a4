"""Events as lists show them."""

from typing import NamedTuple

from msgspec import Struct

from latchkey.domain.events.customer_event import EventDelivery
from latchkey.domain.instants import Ms


class DeliveryTally(NamedTuple):
    """How many webhooks have received an event, have it pending, or failed for good."""

    delivered: int = 0
    waiting: int = 0
    failed: int = 0


_NONE = DeliveryTally()


class ListedEvent(Struct, frozen=True):
    position: int
    id: str
    # The customer's key and sequence when the event was created; its deliveries are stored under these.
    key: int
    sequence: int
    type: str
    environment: str
    occurred_at: Ms
    committed_at: Ms
    app_user_id: str
    product_id: str | None
    # The customer who has this app user id now, if there is one, and that customer's test clock.
    owner: int | None
    test_clock_id: str | None
    deliveries: DeliveryTally = _NONE


class EventFilter(Struct, frozen=True, kw_only=True):
    type: str | None = None
    environment: str | None = None
    # Any of the customer's ids.
    customer_id: str | None = None

    def matches(self, event: ListedEvent) -> bool:
        """Whether its type and environment are those asked for."""
        return self.type in (None, event.type) and self.environment in (None, event.environment)


class EventDetails(Struct, frozen=True):
    event: ListedEvent
    body: bytes
    deliveries: list[EventDelivery]

    @property
    def delivered(self) -> bytes:
        """The request body, byte for byte as receivers get it."""
        return b'{"api_version":"1.0","event":' + self.body + b"}"
