"""What a read sees: a customer at a moment, with the catalog and the traces of the last visit."""

from __future__ import annotations

from msgspec import Struct

from latchkey.domain.catalog import Catalog
from latchkey.domain.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers import LastSeen

__all__ = ["LastSeen", "View"]


class View(Struct, frozen=True, gc=False):
    # The key of the customer's row.
    key: int
    customer: Customer
    catalog: Catalog
    # The customer's own present: its test clock's where it lives on one.
    now: Ms
    last_seen: LastSeen
