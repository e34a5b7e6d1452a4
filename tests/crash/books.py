"""Check a database after a crash: nothing may be half written."""

from collections import Counter, defaultdict
from typing import Any

from msgspec import json

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import Customer
from latchkey.engine.due_transitions import next_due_at
from latchkey.engine.storage.state import decode

BEGINNINGS = {"INITIAL_PURCHASE", "NON_RENEWING_PURCHASE"}


async def audit(database: Database) -> tuple[dict[str, Customer], dict[str, list[dict[str, Any]]]]:
    """Check that customers and events agree and nothing is missing; gives every customer and its events."""
    # One moment: a purchase that was answered with 503 may commit while this reads.
    async with database.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        people = await connection.fetch("select id, app_user_id, state, next_due_at from customers")
        rows = await connection.fetch("select position, customer_id, sequence, body from events order by position")
        head = await connection.fetchval("select position from feeds")
        owned = await connection.fetch("select store, store_id, customer_id from purchase_owners")
        movements = await connection.fetch(
            "select customer_id, sum(amount)::bigint as amount from currency_transactions group by customer_id"
        )
        named = await connection.fetch("select app_user_id, customer_id from aliases")
    filed = {row["customer_id"]: row["amount"] for row in movements}

    assert len(rows) == head, "a position is missing in the feed"
    assert [row["position"] for row in rows] == list(range(1, head + 1)), "a position is missing in the feed"
    told: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        told[row["customer_id"]].append(json.decode(row["body"]))
    owners = {(row["store"], row["store_id"]): row["customer_id"] for row in owned}
    customers = {}
    for row in people:
        customer, events = decode(row["state"]), told[row["id"]]
        customers[customer.app_user_id] = customer
        assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
        assert customer.sequence == len(events)
        assert row["next_due_at"] == next_due_at(customer)
        bought = [event["original_transaction_id"] for event in events if event["type"] in BEGINNINGS]
        has = [one.id for one in customer.subscriptions] + [one.id for one in customer.purchases]
        assert Counter(bought) == Counter(has), "an event without its effect, or an effect without its event"
        for one in customer.subscriptions:
            assert owners[one.store, one.id] == row["id"]
        ended = {event["transaction_id"] for event in events if event["type"] == "EXPIRATION"}
        assert ended == {one.id for one in customer.purchases if one.expired is not None}
        moved = sum(
            event["amount"] * (1 if event["transaction_type"] == "credit" else -1)
            for event in events
            if event["type"] == "VIRTUAL_CURRENCY_TRANSACTION"
        )
        assert customer.balances.get("COIN", 0) == moved
        assert filed.get(row["id"], 0) == moved
    assert {row["customer_id"] for row in named} == {row["id"] for row in people}
    assert set(told) <= {row["id"] for row in people}
    return customers, {one.app_user_id: told[row["id"]] for row, one in zip(people, customers.values(), strict=True)}
