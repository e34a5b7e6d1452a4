"""Everything that one transaction changes: customers, their purchases and balances, and the resulting events."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import replace

from latchkey.database.pool import Connection
from latchkey.domain.catalog import Catalog
from latchkey.domain.charts.period_rows import changed_rows, failure
from latchkey.domain.customers import customer as customers_customer
from latchkey.domain.customers.customer import Customer, LastSeen, merged_visits, put_purchase, told_until
from latchkey.domain.customers.virtual_currency import credited_before, movement_id, movement_ids, settle, unsettled
from latchkey.domain.events.customer_event import Event
from latchkey.domain.events.diff import diff
from latchkey.domain.instants import Ms
from latchkey.domain.money.pinned_rates import pinned
from latchkey.domain.purchases.lifecycle import due_at
from latchkey.domain.purchases.purchase import PurchaseKind
from latchkey.domain.purchases.reference import underivable_transactions
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.waits import EXPIRATION_WAITS, unreported
from latchkey.engine import missing_rates
from latchkey.engine.due_transitions import Step, next_due_at, steps
from latchkey.engine.render import event as render
from latchkey.engine.storage import records, scans
from latchkey.engine.storage.event_feed import known as known_events
from latchkey.engine.storage.records import PurchaseKey, Stored
from latchkey.engine.storage.store_handles import Handle
from latchkey.engine.storage.writes import (
    Names,
    Owned,
    Save,
    TransactionOwner,
    Writes,
    coins,
    keep_names,
    new_names,
    write,
)
from latchkey.wire.event import Event as WireEvent

# Subscriptions whose end passed while notifications of their store could not arrive: its store is asked before the
# EXPIRATION event is emitted. A project's id, the store, and the subscription's id there.
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
    return min(((due_at(wait) or now) - 1 for wait in waits), default=now)


class _Entry(Struct):
    stored: Stored
    current: Customer
    # Merged into another customer: its events are still written, but its row is gone.
    gone: bool = False
    # Where the customer was seen with this, and whether that is written.
    seen: LastSeen | None = None
    is_saved: bool = False
    # When `due_of` next changes by itself; usually that is `current`.
    due_at: Ms | None = None
    due_of: Customer | None = None

    def next_due_at(self) -> Ms | None:
        """Computed once for each state of the customer."""
        if self.due_of is not self.current:
            self.due_at, self.due_of = next_due_at(self.current), self.current
        return self.due_at


class _Told(Struct):
    entry: _Entry
    event: Event
    customer: Customer
    catalog: Catalog
    at: Ms
    tag: int


class Plan(NamedTuple):
    """What a unit of work writes."""

    # In the order of the projects' ids.
    writes: list[Writes]
    names: Names
    # Purchases whose row already exists, with another owner or none, and the key of the new owner.
    moved: list[tuple[str, str, str, int]]
    # Payments without an exchange rate: project, currency and day.
    missing: set[tuple[str, str, int]]
    # The new events by tag.
    told: dict[int, list[WireEvent]]

    @property
    def is_one_statement(self) -> bool:
        """Whether `writes` of one project is all there is to write."""
        others = self.names.ids or self.names.emails or self.moved or missing_rates.fresh(self.missing)
        return len(self.writes) <= 1 and not others


class UnitOfWork(Struct):
    now: Ms
    _entries: dict[tuple[str, int], _Entry] = field(default_factory=dict)
    _told: list[_Told] = field(default_factory=list)
    # For purchases that changed owners: who was credited with their virtual currency; None if erased.
    credited: Mapping[tuple[str, str, str], Stored | None] = field(default_factory=dict)
    # Subscriptions that do not end before their store was asked.
    unheard: Unheard = frozenset()
    # Maps the customer that a merge kept to the customer it absorbed.
    _absorbed: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    # Purchases whose row already exists, with another owner or none.
    _moved: list[tuple[str, str, str, int]] = field(default_factory=list)
    # Payments without an exchange rate: project, currency and day.
    _missing: set[tuple[str, str, int]] = field(default_factory=set)
    # By project.
    _catalogs: dict[str, Catalog] = field(default_factory=dict)
    # Of several about one purchase token or original transaction the last one counts.
    _handles: dict[tuple[str, str, str], Handle] = field(default_factory=dict)

    def current(self, stored: Stored) -> Customer:
        return self._entry(stored).current

    def next_due_at(self, stored: Stored) -> Ms | None:
        """When the customer next changes by itself."""
        return self._entry(stored).next_due_at()

    def record(self, stored: Stored, step: Step, catalog: Catalog, tag: int = 0) -> None:
        """Records one step at one instant. `tag` identifies the request that caused it. New payments get their terms
        here, so that every path gives them."""
        entry = self._entry(stored)
        after, missing = pinned(step.after, catalog.tariff)
        entry.current = after
        self._catalogs[after.project_id] = catalog
        if missing:
            self._missing.update((after.project_id, *one) for one in missing)
        # On a test clock a store may be ahead. What is told later is then not dated earlier.
        latest = told_until(step.before) if after.test_clock_id is not None else 0
        for event in diff(step.before, after):
            if event.at < latest:
                event = replace(event, at=latest)
            self._told.append(_Told(entry, event, after, catalog, step.at, tag))

    def catch_up(
        self, stored: Stored, catalog: Catalog, now: Ms, tag: int = 0, spoken_of: frozenset[PurchaseKey] = frozenset()
    ) -> Customer:
        """Applies what has fallen due by `now` first, each at its own instant. `spoken_of`: what their store says of
        these purchases is applied next, so none of them ends for lack of a report."""
        entry = self._entry(stored)
        customer, due = entry.current, entry.next_due_at()
        if due is None or due > now:
            return customer
        waiting = self.unheard
        if spoken_of:
            waiting |= {(customer.project_id, *key) for key in spoken_of}
        for step in steps(customer, catalog, passes_until(customer, waiting, now)):
            self.record(stored, step, catalog, tag)
        return self.current(stored)

    def change(self, stored: Stored, after: Customer, catalog: Catalog, now: Ms, tag: int = 0) -> Customer:
        """Applies a requested change, and what follows from it at once."""
        before = self.current(stored)
        others: dict[int, tuple[Stored, Customer]] = {}
        for purchase in unsettled(before, after, catalog):
            place = (after.project_id, purchase.store, purchase.id)
            creditor = self.credited.get(place, stored)
            if creditor is None:
                continue
            if before.purchase(purchase.store, purchase.id) is None and place in self.credited:
                # Its owner was erased, and before that somebody was credited, perhaps this very customer.
                after = put_purchase(after, credited_before(purchase))
                continue
            if creditor.key == stored.key:
                after, settled = settle(after, purchase, now)
            else:
                _, other = others.get(creditor.key) or (creditor, self.catch_up(creditor, catalog, now, tag=-1))
                other, settled = settle(other, purchase, now)
                others[creditor.key] = creditor, other
            after = put_purchase(after, settled)
        self.record(stored, Step(before, after, now), catalog, tag)
        for creditor, other in others.values():
            self.record(creditor, Step(self.current(creditor), other, now), catalog, tag=-1)
        return self.catch_up(stored, catalog, now, tag)

    def adopt(self, stored: Stored, after: Customer, catalog: Catalog) -> None:
        """Records a change that is not told: what an import says of the past."""
        self._catalogs[after.project_id] = catalog
        self._entry(stored).current = after

    def take_over(self, stored: Stored, customer: Customer, keys: frozenset[PurchaseKey]) -> None:
        """The customer now owns purchases of another one. This alone emits no event."""
        self._entry(stored).current = customer
        self._moved.extend((customer.project_id, store, id, stored.key) for store, id in keys)

    def remember(self, handle: Handle) -> None:
        """A store told of a purchase now, and can be asked about it with this."""
        self._handles[handle.project_id, handle.store, handle.handle] = handle

    def visit(self, stored: Stored, seen: LastSeen) -> None:
        """The customer was seen. On a test clock another time counts than the one of the visit."""
        if stored.last_seen is not None and stored.customer.test_clock_id is None:
            self._entry(stored).seen = merged_visits(stored.last_seen, seen)

    def writes_visit(self, stored: Stored) -> bool:
        entry = self._entry(stored)
        return entry.seen is not None and entry.is_saved

    def absorb(self, source: Stored, target: Stored, merged: Customer) -> None:
        """`source` is merged into `target`; the rows of its ids have been moved already."""
        entry = self._entry(target)
        entry.stored = replace(target, customer=replace(target.customer, aliases=merged.aliases))
        self.take_over(target, merged, purchase_keys(source.customer))
        project_id = source.customer.project_id
        self._entries[project_id, source.key].gone = True
        self._absorbed[project_id, target.key] = project_id, source.key

    async def commit(self, connection: Connection) -> dict[int, list[WireEvent]]:
        """Writes everything, in a transaction that has locked the customers. Events that already exist are not written
        again. Returns the new ones by tag."""
        asked = [(told.entry.current.project_id, told.event.id) for told in self._told]
        plan = self.plan(await known_events(connection, asked))
        await keep_names(connection, plan.names, self.now)
        await records.move_purchases(connection, plan.moved)
        for writes in plan.writes:
            await write(connection, writes, self.now)
        await missing_rates.note(connection, plan.missing)
        return plan.told

    def plan(self, known: AbstractSet[tuple[str, str]] = frozenset()) -> Plan:
        """What to write. `known`: project and id of events that already exist."""
        written = set(known)
        by_project: dict[str, Writes] = {}
        by_tag: dict[int, list[WireEvent]] = defaultdict(list)
        sequences = {key: entry.stored.customer.sequence for key, entry in self._entries.items()}
        for told in self._told:
            project_id = told.customer.project_id
            if (project_id, told.event.id) in written:
                continue
            written.add((project_id, told.event.id))
            key = project_id, told.entry.stored.key
            merged = self._merged(told.event, key, sequences)
            above = told.catalog.sequence_floor
            sequences[key] = max((above, sequences[key], *(number for _, number in merged))) + 1
            event = render(told.event, told.customer, told.catalog, told.at, sequences[key], merged)
            writes = by_project.setdefault(project_id, Writes(project_id))
            writes.events.append((key[1], event))
            if (failed := failure(told.event)) is not None:
                writes.failures.append(failed)
            by_tag[told.tag].append(event)
        saved: list[Save] = []
        moved = {claim[:3] for claim in self._moved}
        # New customers in the order of the numbers that stand for their keys: -1, -2, …
        for key, entry in sorted(self._entries.items(), key=lambda one: -one[0][1]):
            if entry.gone:
                continue
            before = entry.stored
            after = replace(entry.current, sequence=sequences[key], currency_transactions=(), joined=())
            writes = by_project.setdefault(key[0], Writes(key[0]))
            writes.coins += coins(before.key, before.customer.balances, entry.current)
            if before.key >= 0 and after == before.customer:
                continue
            entry.is_saved = True
            saved.append(Save(before, after, entry.next_due_at(), entry.seen))
            (writes.created if before.key < 0 else writes.saved).append(saved[-1])
            if after.subscriptions is not before.customer.subscriptions or after.purchases != before.customer.purchases:
                _add_purchases(writes, before, after, moved)
                writes.periods += changed_rows(before.key, before.customer, after, self._catalogs[key[0]])
            # Customer lists follow the feed and would miss what changed without an event.
            if sequences[key] == before.customer.sequence and (
                key in self._absorbed or entry.seen is not None or _bought(after) != _bought(before.customer)
            ):
                writes.marked.append(before.key)
        for handle in self._handles.values():
            by_project.setdefault(handle.project_id, Writes(handle.project_id)).handles.append(handle)
        ordered = [writes for _, writes in sorted(by_project.items())]
        return Plan(ordered, new_names(saved), self._moved, self._missing, by_tag)

    def _merged(
        self, event: Event, key: tuple[str, int], sequences: dict[tuple[str, int], int]
    ) -> tuple[tuple[str, int], ...]:
        """The customers merged by this event, each with the sequence of its last event before."""
        if event.joined is None:
            return ()
        keys = (self._absorbed[key], key) if len(event.joined) > 1 else (key,)
        return tuple(zip(event.joined, (sequences[one] for one in keys), strict=True))

    def _entry(self, stored: Stored) -> _Entry:
        key = stored.customer.project_id, stored.key
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(stored, stored.customer)
        return entry


def _bought(customer: Customer) -> tuple[object, object]:
    return customer.subscriptions, customer.purchases


def _add_purchases(writes: Writes, before: Stored, after: Customer, moved: AbstractSet[tuple[str, str, str]]) -> None:
    """The owners of new purchases, and new periods whose id does not tell which subscription they belong to."""
    for store, id in purchase_keys(after) - purchase_keys(before.customer):
        if (after.project_id, store, id) not in moved:
            writes.owned.append(Owned(before.key, store, id))
    known = {(subscription.store, subscription.id): subscription for subscription in before.customer.subscriptions}
    for subscription in after.subscriptions:
        old = known.get((subscription.store, subscription.id))
        if subscription is not old:
            new = underivable_transactions(subscription) - (
                underivable_transactions(old) if old is not None else frozenset()
            )
            writes.transactions += (TransactionOwner(subscription.store, id, subscription.id) for id in new)


def purchase_keys(customer: Customer) -> frozenset[PurchaseKey]:
    """Everything that can be found by a store's id, or by a grant's. Another customer can show what a store knows."""
    bought = {(subscription.store, subscription.id) for subscription in customer.subscriptions}
    bought.update(
        (purchase.store, purchase.id) for purchase in customer.purchases if purchase.kind is not PurchaseKind.TEMPORARY
    )
    return frozenset(bought)


def newcomer(project_id: str, app_user_id: str, now: Ms, test_clock_id: str | None = None) -> Customer:
    return customers_customer.newcomer(project_id, app_user_id, now, test_clock_id, record=uuid4().hex)


async def lock_credited(
    connection: Connection,
    changed: Iterable[Stored],
    owners: Mapping[tuple[str, str, str], int | None],
    catalog: Catalog,
) -> dict[tuple[str, str, str], Stored | None]:
    """Who was credited with the virtual currency of purchases that came from another customer; locked too. Of purchases
    whose owner was erased only those that somebody else was credited with: the others credit whoever claims them."""
    asked = credits_of((one.customer for one in changed), catalog)
    erased = {
        key: (movement_id(key[1], key[2], 0),) for key, owner in owners.items() if owner is None and key not in asked
    }
    if not asked and not erased:
        return {}
    found = await records.lock_credited(connection, asked | erased)
    return {key: stored for key, stored in found.items() if stored is not None or key in asked}


def credits_of(changed: Iterable[Customer], catalog: Catalog) -> dict[tuple[str, str, str], Sequence[str]]:
    """Purchases of virtual currency that may have come from another customer, with the ids of their credits and debits.
    Only a customer who ever received a transfer can have such purchases."""
    found: dict[tuple[str, str, str], Sequence[str]] = {}
    for after in changed:
        if after.transfers:
            for purchase in after.purchases:
                product = catalog.products.get(purchase.product_id)
                credits = purchase.credited_code is not None or (product is not None and product.credits is not None)
                if purchase.kind is PurchaseKind.ONE_TIME and credits:
                    found[after.project_id, purchase.store, purchase.id] = movement_ids(purchase)
    return found
