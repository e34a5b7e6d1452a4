"""A customer in a list, and where the next page starts."""

from dataclasses import dataclass

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.subjects.segments.rules.facets import Facets


@dataclass(frozen=True, slots=True)
class ListCursor:
    """After which customer a page begins."""

    value: int
    key: int


@dataclass(frozen=True, slots=True)
class ListEntry:
    key: int
    facets: Facets
    # The customer's own time.
    now: Ms
    # None outside a list.
    place: ListCursor | None
    # None: the customer was deleted a moment ago.
    app_user_id: str | None
    # Only if it was asked for.
    customer: Customer | None
