"""Failed payments and pauses of the past, from a customer's events: its state keeps only those of the present."""

from __future__ import annotations

from msgspec import UNSET

from latchkey.domain.customers.life import FailedPayment, Past
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Reason
from latchkey.storage.customer_lists import troubles
from latchkey.storage.customer_lists.troubles import Trouble
from latchkey.storage.customers.records import PurchaseKey
from latchkey.storage.database import Database

# Enough for years of monthly trouble.
MOST = 200


async def past_of(database: Database, project_id: str, customer_key: int) -> Past:
    async with database.acquire() as connection:
        return read_past(await troubles.past(connection, project_id, customer_key, MOST))


def read_past(found: list[Trouble]) -> Past:
    failed: dict[PurchaseKey, tuple[FailedPayment, ...]] = {}
    paused: dict[PurchaseKey, tuple[Ms, ...]] = {}
    for one in reversed(found):
        event = one.event
        if event.store is None or event.original_transaction_id is UNSET:
            continue
        key = event.store.lower(), event.original_transaction_id
        if one.type == "BILLING_ISSUE":
            until = event.grace_period_expires_at_ms
            issue = FailedPayment(one.at, until if isinstance(until, int) else None)
            failed[key] = (*failed.get(key, ()), issue)
        elif one.type == "EXPIRATION" and event.expiration_reason == Reason.SUBSCRIPTION_PAUSED:
            paused[key] = (*paused.get(key, ()), one.at)
    return Past(failed, paused)
