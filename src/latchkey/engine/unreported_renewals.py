"""Subscriptions whose end passed while notifications of their store could not arrive. Their store is asked before the
EXPIRATION event is emitted."""

from collections.abc import Iterable

from latchkey.database.pool import Connection
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.lifecycle import due_at
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.waits import EXPIRATION_WAITS, unreported
from latchkey.engine.storage import scans

# A project's id, the store, and the subscription's id there.
Unheard = frozenset[tuple[str, str, str]]


async def unheard(connection: Connection, customers: Iterable[Customer], now: Ms) -> Unheard:
    """The subscriptions that would end now because their store reported nothing, and whose store is still to be asked.
    No query if there are none, which is usual. Customers on a test clock live in another time."""
    asked: dict[str, list[Subscription]] = {}
    for customer in customers:
        if customer.test_clock_id is None:
            for subscription in unreported(customer, now):
                asked.setdefault(customer.project_id, []).append(subscription)
    found: set[tuple[str, str, str]] = set()
    for project_id, subscriptions in asked.items():
        ended = [(one.store, one.id, one.access_ends_at) for one in subscriptions]
        keys = await scans.still_to_ask(connection, project_id, ended, now - EXPIRATION_WAITS)
        found |= {(project_id, *key) for key in keys}
    return frozenset(found)


def may_wait(customers: Iterable[Customer], now: Ms) -> bool:
    """Whether any subscription would end now because its store reported nothing: then call `unheard`."""
    return any(True for customer in customers for _ in unreported(customer, now))


def passes_until(customer: Customer, waiting: Unheard, now: Ms) -> Ms:
    """How far time may pass for this customer: to just before the first end that has to wait."""
    if not waiting:
        return now
    waits = (one for one in unreported(customer, now) if (customer.project_id, one.store, one.id) in waiting)
    return min(((due_at(one) or now) - 1 for one in waits), default=now)
