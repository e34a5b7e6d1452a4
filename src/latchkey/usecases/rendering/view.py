"""What a read sees: a customer at a moment, with the catalog and the latest visit."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers import records as customers
from latchkey.storage.customers.records import LastSeen
from latchkey.storage.engine.reads import Row
from latchkey.usecases.engine.passing_time import at_present

__all__ = ["LastSeen", "Row", "View", "glance_at", "look_at"]


class View(Struct, frozen=True, gc=False):
    # The key of the customer's row.
    key: int
    customer: Customer
    catalog: Catalog
    # The customer's present time: that of its test clock, if it lives on one.
    now: Ms
    last_seen: LastSeen


def look_at(row: Row, now: Ms) -> View:
    return _view(row, customers.decode, now)


def glance_at(row: Row, now: Ms) -> View:
    """The same for rendering only; see `storage.customers.glance`."""
    return _view(row, customers.glance, now)


def _view(row: Row, decode: Callable[[bytes], Customer], now: Ms) -> View:
    """The customer with everything that is due by now, though the clock role may not have written it yet."""
    own_now = now if row.clock_now is None else row.clock_now
    if row.due_at is None or row.due_at > own_now:
        customer = decode(row.state)
    else:
        customer = at_present(customers.decode(row.state), row.catalog, own_now)
    return View(row.key, customer, row.catalog, own_now, row.last_seen)
