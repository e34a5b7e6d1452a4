"""Whether the local copy says what the service says: entitlements and their ends, the active flag, the status."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from latchkey.client.client import Client
from latchkey.client.client_errors import NotFound
from latchkey.consumer.reference_consumer import Consumer
from latchkey.consumer.rules.record import LocalCopy
from latchkey.consumer.storage.consumer_storage import ConsumerStorage
from latchkey.now import real_now
from latchkey.wire.v1 import Subscriber
from latchkey.wire.v2 import never_ends

# The specification's table of states; every other type means `active`.
TABLE = {
    "TRIAL_STARTED": "trial",
    "SUBSCRIPTION_PAUSED": "paused",
    "CANCELLATION": "cancelled",
    "BILLING_ISSUE": "billing_issue",
}


@dataclass(slots=True)
class Verdict:
    users: int = 0
    active: int = 0
    right: int = 0
    # What is wrong, by user id.
    wrong: dict[str, str] = field(default_factory=dict)
    # The customer's current id, for every id that the service knows.
    customers: dict[str, str] = field(default_factory=dict, repr=False)
    statuses: Counter[str] = field(default_factory=Counter)
    # How many statuses follow from the last event by the table, and how many from a re-read of V1.
    by_table: int = 0
    by_reading: int = 0

    def spread(self, ids: set[str]) -> set[str]:
        """These ids, and every other id of the same customers."""
        theirs = {self.customers[id] for id in ids if id in self.customers}
        return ids | {id for id, customer in self.customers.items() if customer in theirs}


async def compare(store: ConsumerStorage, client: Client, ids: Sequence[str]) -> Verdict:
    """Compare the copy of every id with V2. Ends are compared in whole seconds, as webhooks write them."""
    verdict = Verdict()
    events = [event async for event in client.events()]
    read = {id: seen for id, seen in zip(ids, await _together(client, ids), strict=True) if seen is not None}
    verdict.customers = {id: seen.customer_id for id, seen in read.items()}
    named = {id for event in events for id in (event.app_user_id, event.original_app_user_id, *event.aliases)}
    last = {read[event.app_user_id].customer_id: event.type for event in events if event.app_user_id in read}
    async with store.database.reading() as connection:
        for id, seen in read.items():
            copy = await store.copies.find(connection, id)
            if copy is None and (id != seen.customer_id or id not in named):
                # No event has named this id since it belongs to the customer. Without a local record, the consumer asks
                # V2.
                continue
            _judge(verdict, id, copy, seen, last.get(seen.customer_id))
    return verdict


async def answers(consumer: Consumer, client: Client, ids: Sequence[str]) -> dict[str, str]:
    """Where the consumer's answer differs from V2, for every id."""
    wrong = {}
    for id, seen in zip(ids, await _together(client, ids), strict=True):
        if seen is None:
            # The service does not know it; the consumer keeps its copy, as the specification allows.
            continue
        view = await consumer.view(id)
        held = set(view.held)
        if held != set(seen.held):
            wrong[id] = f"the consumer says {sorted(held)} ({view.source}), the service {sorted(seen.held)}"
    return wrong


@dataclass(frozen=True, slots=True)
class _Seen:
    """A user as the service shows it; V1 only where the user holds anything."""

    customer_id: str
    held: dict[str, int | None]
    subscriber: Subscriber | None


async def _seen(client: Client, id: str) -> _Seen | None:
    try:
        customer = await client.customer(id)
    except NotFound:
        return None
    held = customer.active_entitlements
    assert held.next_page is None
    subscriber = (await client.subscriber(id)).subscriber if held.items else None
    return _Seen(customer.id, {item.entitlement_id: _second(item.expires_at) for item in held.items}, subscriber)


async def _together(client: Client, ids: Sequence[str]) -> list[_Seen | None]:
    few = asyncio.Semaphore(16)

    async def one(id: str) -> _Seen | None:
        async with few:
            return await _seen(client, id)

    return await asyncio.gather(*(one(id) for id in ids))


def _judge(verdict: Verdict, id: str, copy: LocalCopy | None, seen: _Seen, last_type: str | None) -> None:
    service, subscriber = seen.held, seen.subscriber
    verdict.users += 1
    verdict.active += bool(service)
    if copy is None:
        # A customer who never bought anything is in no event.
        if service or last_type is not None:
            verdict.wrong[id] = f"there is no local record, the service says {service}"
        else:
            verdict.right += 1
        return
    known = copy.subscription
    local = {id: _second(row.expires_at) for id, row in copy.entitlements.items() if row.is_active}
    by_table = "expired" if not service else TABLE.get(last_type or "", "active")
    by_reading = "expired" if subscriber is None else _status_read(subscriber, service)
    problems = []
    if local != service or set(known.entitlements) != set(service):
        problems.append(f"entitlements {local}, record {sorted(known.entitlements)}, service {service}")
    if known.is_active != bool(service):
        problems.append(f"is_active {known.is_active}")
    if known.subscription_status not in {by_table, by_reading}:
        problems.append(f"status {known.subscription_status}, table {by_table}, V1 {by_reading}")
    if known.stale:
        problems.append("a re-read is due")
    if problems:
        verdict.wrong[id] = f"{'; '.join(problems)} (last event {last_type}, applied {known.last_webhook_event_type})"
        return
    verdict.right += 1
    verdict.statuses[str(known.subscription_status)] += 1
    verdict.by_table += known.subscription_status == by_table
    verdict.by_reading += known.subscription_status != by_table


def _status_read(subscriber: Subscriber, held: Mapping[str, int | None]) -> str:
    """The status by the table, of the subscription that gives the longest access, as V1 describes it."""
    longest = max(held, key=lambda id: (float("inf") if held[id] is None else held[id], id))
    subscription: Any = subscriber.subscriptions.get(subscriber.entitlements[longest].product_identifier)
    if subscription is None:
        return "active"
    if subscription.billing_issues_detected_at is not None:
        return "billing_issue"
    if subscription.auto_resume_date is not None:
        return "paused"
    if subscription.unsubscribe_detected_at is not None:
        return "cancelled"
    return "trial" if subscription.period_type == "trial" else "active"


def _second(at: int | None) -> int | None:
    """Rounded up, as webhooks write ends; access that never ends has an end 200 years ahead in V2."""
    return None if never_ends(at, real_now()) or at is None else -(-at // 1000)
