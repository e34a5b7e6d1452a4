"""The unit of work without a database: it takes changes, and makes each event once, with a sequence."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import merge
from latchkey.domain.customers.intake import take_in
from latchkey.domain.customers.virtual_currency import settle_own
from latchkey.domain.events.customer_event import Event, EventType
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import Ms
from latchkey.domain.money.pinned_rates import pinned
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.engine.due_transitions import Step, steps
from latchkey.engine.render import event as render
from latchkey.wire import event as wire
from tests.domain.shop import CATALOG, NOON, someone

# Types about money. Each is emitted exactly once, whatever the order in which a store's notifications arrive.
MONEY = frozenset(
    {
        EventType.INITIAL_PURCHASE,
        EventType.RENEWAL,
        EventType.NON_RENEWING_PURCHASE,
        EventType.REFUND,
        EventType.REFUND_REVERSED,
        EventType.INVOICE_ISSUANCE,
    }
)


@dataclass(frozen=True, slots=True)
class Told:
    committed_at: Ms
    event: Event
    wire: wire.Event
    # The customer after the change that caused the event.
    after: Customer


@dataclass(slots=True)
class Book:
    customer: Customer = field(default_factory=someone)
    catalog: Catalog = CATALOG
    now: Ms = NOON
    told: list[Told] = field(default_factory=list)
    # The customer after every commit, oldest first.
    states: list[tuple[Ms, Customer]] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)
    # The last sequence of the customer that is being absorbed.
    _joining: int | None = None

    @classmethod
    def of(cls, seen: Subscription | Purchase, now: Ms | None = None) -> Book:
        """Of somebody whose first purchase this is."""
        book = cls()
        book.take_in(seen, now)
        return book

    def pass_time(self, until: Ms) -> list[EventType]:
        """Let time pass; gives the types of the new events."""
        first = len(self.told)
        for step in steps(self.customer, self.catalog, until):
            self._record(step)
        self.now = max(self.now, until)
        return self.types(first)

    def change(self, after: Customer, now: Ms | None = None) -> list[EventType]:
        """Make a change, and what follows from it at once; gives the types of the new events."""
        now = self.now if now is None else now
        self.now = max(self.now, now)
        first = len(self.told)
        self._record(Step(self.customer, settle_own(self.customer, after, self.catalog, now), now))
        self.pass_time(now)
        return self.types(first)

    def absorb(self, other: Book, now: Ms) -> list[EventType]:
        """Merge the other's customer into this one; gives the types of the new events."""
        other.pass_time(now)
        self.pass_time(now)
        merged = merge(other.customer, self.customer, now)
        self.customer, self._joining = merged.before, other.customer.sequence
        return self.change(merged.after, now)

    def take_in(self, seen: Subscription | Purchase, now: Ms | None = None) -> list[EventType]:
        """Let time pass until `now`, then take in a store's snapshot of a purchase; gives the types of its events."""
        now = self.now if now is None else now
        self.pass_time(now)
        return self.change(take_in(self.customer, seen, now), now)

    def types(self, first: int = 0) -> list[EventType]:
        return [one.event.type for one in self.told[first:]]

    @property
    def last(self) -> wire.Event:
        return self.told[-1].wire

    def holds(self, now: Ms | None = None) -> list[str]:
        return list(active(self.customer, self.catalog, self.now if now is None else now))

    @property
    def subscription(self) -> Subscription:
        (only,) = self.customer.subscriptions
        return only

    def _record(self, step: Step) -> None:
        committed_at = max(step.at, self.states[-1][0]) if self.states else step.at
        sequence = self.customer.sequence
        after = pinned(step.after, self.catalog.tariff).customer
        for event in diff(step.before, after):
            if event.id in self._known:
                continue
            self._known.add(event.id)
            numbers = [sequence] if self._joining is None else [self._joining, sequence]
            merged = list(zip(event.joined, numbers, strict=True)) if event.joined is not None else []
            sequence = max((sequence, *(number for _, number in merged))) + 1
            rendered = render(event, after, self.catalog, step.at, sequence, merged)
            self._joining = None
            self.told.append(Told(committed_at, event, rendered, after))
        self.customer = replace(after, sequence=sequence, currency_transactions=(), joined=())
        self.states.append((committed_at, self.customer))
