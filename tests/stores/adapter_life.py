"""One customer whom notifications of a store are about, as the core takes them in."""

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer, let_time_pass
from latchkey.domain.customers.intake import take_in
from latchkey.domain.events.customer_event import Event
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.reconciliation import settle, settle_purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.stores.adapter import Adapter, ConnectedApp, SeenPurchase, StoreReading
from tests.domain.shop import someone
from tests.stores.google.play import Json


@dataclass
class Life:
    adapter: Adapter
    app: ConnectedApp
    now: Callable[[], Ms]
    customer: Customer = field(default_factory=someone)
    # Every event that was told, by its id: an id is told once.
    told: dict[str, Event] = field(default_factory=dict)
    # Under which id a purchase token goes on.
    ids: dict[str, str] = field(default_factory=dict)

    async def hear(self, notification: Json) -> list[str]:
        """What is told when this notification is processed now."""
        reading = await self.adapter.read(self.app, msgspec.json.encode(notification).decode())
        return await self.take(reading)

    async def read_again(self, token: str) -> list[str]:
        return await self.take(await self.adapter.read_again(self.app, token, Environment.PRODUCTION))

    async def take(self, reading: StoreReading) -> list[str]:
        if any(not seen.complete and self._has_a_gap(seen) for seen in reading.seen):
            reading = await self.adapter.read_again(self.app, reading.seen[0].handle, Environment.PRODUCTION)
        now, before = self.now(), self.customer
        for seen in reading.seen:
            self.customer = self._after(seen, now)
        return self._tell(before)

    @property
    def subscription(self) -> Subscription:
        (only,) = self.customer.subscriptions
        return only

    def has_access(self) -> bool:
        now = self.now()
        ends = [subscription.access_ends_at for subscription in self.customer.subscriptions]
        ends += [purchase.access_ends_at or now + 1 for purchase in self.customer.purchases]
        return any(end > now for end in ends)

    def _after(self, seen: SeenPurchase, now: Ms) -> Customer:
        snapshot = seen.snapshot
        if not isinstance(snapshot, Subscription):
            known = self.customer.purchase(snapshot.store, snapshot.id)
            return take_in(self.customer, settle_purchase(known, snapshot, read_at=now), now)
        snapshot = replace(snapshot, id=self._id(seen, snapshot.id))
        before = self.customer.subscription(snapshot.store, snapshot.id)
        return take_in(self.customer, settle(before, snapshot, now, unordered=seen.unordered), now)

    def _id(self, seen: SeenPurchase, own: str) -> str:
        known = [self.ids[handle] for handle in (seen.handle, *seen.replaces) if handle in self.ids]
        return self.ids.setdefault(seen.handle, known[0] if known else own)

    def _has_a_gap(self, seen: SeenPurchase) -> bool:
        assert isinstance(seen.snapshot, Subscription)
        before = self.customer.subscription(seen.snapshot.store, self._id(seen, seen.snapshot.id))
        numbers = {period.number for period in before.periods} if before is not None else set()
        return seen.snapshot.current.number - 1 not in numbers

    def _tell(self, before: Customer) -> list[str]:
        self.customer = let_time_pass(self.customer, self.now())
        new = [event for event in diff(before, self.customer) if event.id not in self.told]
        self.told |= {event.id: event for event in new}
        return [_named(event) for event in new]


def _named(event: Event) -> str:
    """A type, with the reason or the product that it is about."""
    reason = event.cancellation_reason or event.expiration_reason
    said = [str(reason)] if reason is not None else []
    if event.new_product_id is not None:
        said = [f"{event.product_id}>{event.new_product_id}"]
    if event.is_trial_conversion:
        said.append("CONVERSION")
    return " ".join([event.type, *said])
