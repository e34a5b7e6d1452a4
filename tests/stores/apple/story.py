"""A customer as Apple's notifications make it: verified, read, settled, taken in, and the difference told as events."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from latchkey.domain.customers.customer import Customer, let_time_pass, newcomer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.events.customer_event import Event
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.reconciliation import settle, settle_purchase
from latchkey.domain.purchases.subscription import Moment, Subscription
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.apple.adapter import AppleAdapter
from tests.stores.apple.app_store import START, incoming


def day(number: float) -> Ms:
    return START + round(number * DAY)


@dataclass
class Story:
    """A customer as Apple's notifications make it."""

    adapter: AppleAdapter
    app: ConnectedApp
    customer: Customer = field(default_factory=lambda: newcomer("proj_1", "ann", START))

    async def hears(self, signed: str) -> list[Event]:
        """Takes in what Apple sends as soon as it was signed, and returns what happened."""
        kept = await self.adapter.verify(self.app, incoming(signed))
        reading = await self.adapter.read(self.app, kept.payload)
        now, before = kept.occurred_at, self.customer
        for seen in reading.seen:
            snapshot: Subscription | Purchase
            if isinstance(seen.snapshot, Subscription):
                known = self.customer.subscription("app_store", seen.snapshot.id)
                snapshot = settle(known, seen.snapshot, now, unordered=seen.unordered)
            else:
                snapshot = settle_purchase(self.customer.purchase("app_store", seen.snapshot.id), seen.snapshot)
            self.customer = take_in(self.customer, snapshot, now)
        self.customer = let_time_pass(self.customer, now)
        return list(diff(before, self.customer))

    def waits_until(self, on: float) -> None:
        self.customer = let_time_pass(self.customer, day(on))

    def state(self) -> tuple[object, ...]:
        """How things stand, without the moments at which each was told."""
        quiet = Moment(0)
        return (
            *(
                replace(
                    subscription,
                    status=replace(subscription.status, as_of=quiet, renewal_off_at=None),
                    periods=tuple(
                        replace(p, as_of=quiet, money_back=()) if p.refunded_at is None else replace(p, as_of=quiet)
                        for p in subscription.periods
                    ),
                )
                for subscription in self.customer.subscriptions
            ),
            *(replace(purchase, told_at=None) for purchase in self.customer.purchases),
        )
