"""What a read sees: a customer at a moment, with the catalog and the traces of the last visit."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.catalog import Catalog
from latchkey.domain.customer import Customer
from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class LastSeen:
    at: Ms
    platform: str | None = None
    platform_version: str | None = None
    app_version: str | None = None
    country: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    # The key of the customer's row.
    key: int
    customer: Customer
    catalog: Catalog
    # The customer's own present: its test clock's where it lives on one.
    now: Ms
    last_seen: LastSeen
