"""A test clock and the customers on it."""

from dataclasses import dataclass

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms


@dataclass(frozen=True, slots=True)
class TestClock:
    __test__ = False  # pytest would collect a class of this name

    id: str
    name: str
    now: Ms
    created_at: Ms


# `newest_clocks` counts the customers of a clock up to this number.
COUNTED = 100


@dataclass(frozen=True, slots=True)
class Inhabitant:
    customer: Customer
    # When this customer next changes by itself.
    next_due_at: Ms | None
