"""Subscriptions whose end passed while notifications of their store could not arrive. Their store is asked before the
EXPIRATION event is emitted.

A renewing subscription ends by itself if its store reports nothing for some hours. After an outage that proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.lifecycle import awaits_renewal, due_at
from latchkey.domain.purchases.subscription import Subscription
from latchkey.storage.database import Connection
from latchkey.storage.stores import handles

# How long the end waits for a store that was asked and did not answer.
LONGEST: Ms = 1 * DAY

# A project's id, the store, and the subscription's id there.
Unheard = frozenset[tuple[str, str, str]]


async def unheard(connection: Connection, customers: Iterable[Customer], now: Ms) -> Unheard:
    """The subscriptions that would end now because their store reported nothing, and whose store is still to be asked.
    No query if there are none, which is usual. Customers on a test clock live in another time."""
    asked: dict[str, list[Subscription]] = {}
    for customer in customers:
        if customer.test_clock_id is None:
            for one in _silent(customer, now):
                asked.setdefault(customer.project_id, []).append(one)
    found: set[tuple[str, str, str]] = set()
    for project_id, silent in asked.items():
        ended = [(one.store, one.id, one.access_ends_at) for one in silent]
        told = await handles.still_to_ask(connection, project_id, ended, now - LONGEST)
        found |= {(project_id, *key) for key in told}
    return frozenset(found)


def may_wait(customers: Iterable[Customer], now: Ms) -> bool:
    """Whether any subscription would end now because its store reported nothing: then call `unheard`."""
    return any(True for one in customers for _ in _silent(one, now))


def passes_until(customer: Customer, waiting: Unheard, now: Ms) -> Ms:
    """How far time may pass for this customer: to just before the first end that has to wait."""
    if not waiting:
        return now
    ends = (due_at(one) or now for one in _silent(customer, now) if (customer.project_id, one.store, one.id) in waiting)
    return min((end - 1 for end in ends), default=now)


def _silent(customer: Customer, now: Ms) -> Iterator[Subscription]:
    for one in customer.subscriptions:
        if one.expired is None and awaits_renewal(one) and (due := due_at(one)) is not None and due <= now:
            yield one
