"""A customer of a batch, and how far a roller has counted the customers of a project by their keys."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers.state_format import decode


class Found:
    """As stored. Decoded when it is needed: one that cannot be decoded must not stop the others, so whoever needs it
    handles the error."""

    def __init__(self, project_id: str, key: int, state: bytes, last_seen_at: Ms, country: str | None) -> None:
        self.project_id = project_id
        self.key = key
        self.last_seen_at = last_seen_at
        self.country = country
        self._state = state

    @cached_property
    def customer(self) -> Customer:
        return decode(self._state)


class Count(Struct, frozen=True):
    """Customers up to key `counted` are counted; those up to `mark_id` are next."""

    counted: int
    mark_id: int | None
    mark_xid: int | None
    marked_at: Ms | None


class Seen(Struct, frozen=True):
    """What the transaction of a batch sees of a project's customers and of other transactions."""

    # The highest key of a customer; 0 if there is none.
    newest: int
    # Its own transaction id: higher than that of every transaction that had changed anything before the batch began.
    xid: int
    # Every transaction before this one has ended.
    oldest_xid: int


class Stretch(Struct, frozen=True):
    """Customers to count: those with keys after `counted`, up to `until`."""

    project_id: str
    counted: int
    until: int


class Counted(Struct, frozen=True):
    customers: int
    # The highest key that was counted.
    last: int
