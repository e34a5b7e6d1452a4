"""A test clock and the customers on it."""

from msgspec import Struct

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms


class TestClock(Struct, frozen=True):
    __test__ = False  # pytest would collect a class of this name

    id: str
    name: str
    now: Ms
    created_at: Ms


# `newest_clocks` counts the customers of a clock up to this number.
COUNTED = 100


class Inhabitant(Struct, frozen=True):
    customer: Customer
    # When this customer next changes by itself.
    next_due_at: Ms | None
