"""What a customer has paid in all, and what was given back: by currency as it was paid, and in USD."""

from collections import defaultdict

from msgspec import Struct

from latchkey.domain.customers.customer import Customer
from latchkey.domain.purchases.purchase import Environment
from latchkey.subjects.segments.rules.facets import payments


class Sum(Struct, frozen=True):
    """In millionths of its currency."""

    currency: str
    paid: int = 0
    returned: int = 0
    payments: int = 0

    @property
    def kept(self) -> int:
        return self.paid - self.returned


class Spend(Struct, frozen=True):
    environment: Environment
    # The currency with the most payments first.
    by_currency: tuple[Sum, ...]
    # Of the payments that could be converted.
    usd: Sum
    # How many could not.
    unconverted: int


def spend_of(customer: Customer, environment: Environment) -> Spend | None:
    """None if nothing was paid there."""
    found: dict[str, Sum] = defaultdict(lambda: Sum(""))
    usd, unconverted = Sum("USD"), 0
    for one in payments(customer, environment):
        currency, before = one.price.currency, found[one.price.currency]
        found[currency] = Sum(
            currency, before.paid + one.price.micros, before.returned + one.returned, before.payments + 1
        )
        if one.usd is None or one.returned_usd is None:
            unconverted += 1
        else:
            usd = Sum("USD", usd.paid + one.usd, usd.returned + one.returned_usd, usd.payments + 1)
    if not found:
        return None
    ordered = sorted(found.values(), key=lambda one: (-one.payments, one.currency))
    return Spend(environment, tuple(ordered), usd, unconverted)
