"""Replies of the test store."""

from msgspec import Struct

from latchkey.wire.v2 import Customer


class EventReference(Struct, frozen=True, kw_only=True):
    id: str
    type: str


class TestStoreResult(Struct, frozen=True, kw_only=True):
    """The events that a test-store action caused."""

    __test__ = False  # pytest would collect it because of its name

    events: list[EventReference]
    customer: Customer
