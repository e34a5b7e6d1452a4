"""Changes to one customer. Changes to customers of one project that come at the same time share one transaction; a
refused one does not affect the others.

Most batches take two statements (`Changes._at_once`):
1. Look at what the changes are about, without locks: customers, the owners of claimed purchases, the catalog.
2. Apply the changes in the unit of work, which remembers what to write, and write it. This statement is a transaction
   of its own, and writes nothing if a customer has changed since the look.

A batch for which that is not enough, or that came too late, is done again under locks (`Changes._under_locks`):
1. Lock what the changes are about: test clocks, customers, the owners of claimed purchases.
2. Rehearse the changes to customers who do not exist yet, and create those whose change is not refused.
3. Apply each change in the unit of work.
4. Write: customers, their events, the deliveries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from latchkey import spans
from latchkey.database import transient_errors
from latchkey.database.errors import CollisionError, OutdatedError, StateVersionError
from latchkey.database.pool import Connection, Database
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer, LastSeen, own_now
from latchkey.domain.customers.identity import reclaimed, with_endings
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.lifecycle import Ending
from latchkey.domain.refusal import NotFound, OwnedByAnother, Refusal
from latchkey.domain.stores.test_store.billing import latest_moment
from latchkey.engine import missing_rates
from latchkey.engine.batch import Batch
from latchkey.engine.due_transitions import at_present
from latchkey.engine.reads import CustomerView
from latchkey.engine.storage import event_feed, records
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import Look, load_projects, look
from latchkey.engine.storage.records import PurchaseKey, Stored
from latchkey.engine.storage.store_handles import Handle
from latchkey.engine.storage.writes import DeliveryLease, Written, write_at_once
from latchkey.engine.unit_of_work import UnitOfWork, credits_of, lock_credited, may_wait, newcomer, unheard
from latchkey.spans import Span
from latchkey.wire.event import Event

_TRIES = 4
# Two transactions of a project wait for each other's commit. A batch that waits longer waits for a customer's lock, and
# must not hold up the other customers.
_STUCK_SECONDS = 0.05
# Batches of projects that are not busy are forgotten beyond this number.
_MOST_BATCHES = 1000
# For a customer who never changes by itself.
_NEVER: Ms = 1 << 62
# A project's id and an app user id in it.
CustomerRef: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Situation:
    """What a rule may look at when it decides."""

    customer: Customer
    catalog: Catalog
    now: Ms
    # What has ended the transactions of claimed purchases whose owner was erased.
    endings: tuple[Ending, ...] = ()


class Change(Struct, frozen=True, kw_only=True):
    project_id: str
    app_user_id: str
    # Pure: gives the customer afterwards, or raises a Refusal.
    apply: Callable[[Situation], Customer]
    create: bool = False
    # A store's purchases that this change would give to the customer.
    claims: frozenset[PurchaseKey] = frozenset()
    # Pure: what the store can be asked with, by the customer afterwards and the time.
    handle: Callable[[Customer, Ms], Handle] | None = None
    # Where the customer was seen with this. Not written where nothing else is; see `Committed.seen`.
    seen: LastSeen | None = None
    # The request's span, if its trace is kept.
    trace: Span | None = None

    @property
    def customer_ref(self) -> CustomerRef:
        return self.project_id, self.app_user_id


@dataclass(frozen=True, slots=True)
class Committed:
    customer: Customer
    catalog: Catalog
    now: Ms
    events: tuple[Event, ...] = ()
    created: bool = False
    # The row, as the change found it.
    stored: Stored | None = None
    # Until then the customer does not change by itself.
    quiet_until: Ms = 0
    # Whether it was written where the customer was seen.
    seen: bool = False

    def view(self, wall: Ms) -> CustomerView:
        """The customer as this change left it, for an answer that needs no second look."""
        assert self.stored is not None, "this was not made by Changes"
        assert self.stored.last_seen is not None, "this was not loaded for a change"
        now = wall if self.customer.test_clock_id is None else own_now(self.customer, self.now)
        # What falls due while the change is written down has happened for whoever reads the answer.
        customer = self.customer if now < self.quiet_until else at_present(self.customer, self.catalog, now)
        return CustomerView(self.stored.key, customer, self.catalog, now, self.stored.last_seen)


class Deliverer(Protocol):
    """Sends webhooks in this process."""

    def lease(self) -> DeliveryLease | None:
        """What to take new deliveries with. None: it is stopping, and other processes are to send them."""

    def committed(self, project_id: str, lease: DeliveryLease, written: Written) -> None:
        """This was written with the lease. It is sent in the background."""


class Changes:
    def __init__(
        self,
        database: Database,
        now: Callable[[], Ms],
        catalogs: Catalogs | None = None,
        *,
        measure: Callable[[int], None] = lambda _: None,
        deliverer: Deliverer | None = None,
    ) -> None:
        """`deliverer`: who sends what a change has to tell as soon as it is committed; if nobody, workers of other
        processes are notified."""
        self.database = database
        self._measure = measure
        self._deliverer = deliverer
        self.now = now
        self.catalogs = catalogs or Catalogs()
        # By project.
        self._batches: dict[str, Batch[Change, Committed | Refusal]] = {}

    async def make(self, change: Change) -> Committed:
        """Commit a change and say what came of it; a Refusal changes nothing."""
        if spans.tracer is not None and (span := spans.recorded()) is not None:
            change = replace(change, trace=span)
        for tries_left in reversed(range(_TRIES)):
            try:
                answer = await self._batch_of(change.project_id).ask(change)
            except CollisionError:
                if not tries_left:
                    raise
            else:
                if isinstance(answer, Refusal):
                    raise answer
                return answer
        raise AssertionError("unreachable")

    async def drain(self) -> None:
        for batch in list(self._batches.values()):
            await batch.drain()

    def _batch_of(self, project_id: str) -> Batch[Change, Committed | Refusal]:
        batch = self._batches.get(project_id)
        if batch is None:
            if len(self._batches) >= _MOST_BATCHES:
                self._batches = {id: one for id, one in self._batches.items() if one.is_busy}
            batch = self._batches[project_id] = Batch(
                self._commit,
                largest=64,
                stuck_after=_STUCK_SECONDS,
                splits_on=(CollisionError, StateVersionError),
                measure=self._measure,
            )
        return batch

    async def _commit(self, batch: list[Change]) -> Sequence[Committed | Refusal]:
        """Answers in the order of the batch, which is of one project."""
        answers = await self._at_once(batch)
        return answers if answers is not None else await self._under_locks(batch)

    async def _at_once(self, batch: list[Change]) -> Sequence[Committed | Refusal] | None:
        """None: nothing was written, and the batch needs locks."""
        wall, project_id = self.now(), batch[0].project_id
        async with self.database.at_hand() as connection:
            steps = _Steps(batch)
            seen = await look(connection, self.catalogs, project_id, _questions(batch))
            steps.done("look")
            if seen is None or _needs_locks(seen, wall):
                return None
            found = {(project_id, id): stored for id, stored in seen.found.items()}
            owners = {(project_id, *key): owner for key, owner in seen.owners.items()}
            ground = _Ground(wall, seen.catalog, {}, found, owners)
            rehearsals = _rehearsals(batch, ground)
            created = _created(rehearsals)
            for number, (ref, customer) in enumerate(created.items(), 1):
                found[ref] = Stored(-number, customer, LastSeen(customer.first_seen_at))
            unit = UnitOfWork(wall)
            outcomes = _outcomes(unit, ground, batch, rehearsals, set(created))
            plan = unit.plan()
            if not plan.is_one_statement:
                return None
            written = Written()
            await steps.keep(connection, plan.told, wall)
            lease = self._deliverer.lease() if self._deliverer is not None else None
            try:
                for writes in plan.writes:
                    written = await write_at_once(connection, writes, wall, lease)
            except OutdatedError:
                return None
            steps.done("write")
        if self._deliverer is not None and lease is not None:
            self._deliverer.committed(project_id, lease, written)
        missing_rates.count(plan.missing)
        return _answers(unit, ground, outcomes, plan.told, written.made)

    async def _under_locks(self, batch: list[Change]) -> Sequence[Committed | Refusal]:
        async with transient_errors.hot_transaction(self.database) as connection:
            steps = _Steps(batch)
            ground = await self._lock(connection, batch)
            steps.done("lock")
            rehearsals = _rehearsals(batch, ground)
            created = _created(rehearsals)
            if created:
                ground.found.update(await records.create(connection, list(created.values())))
            if created.keys() - ground.found.keys():
                raise CollisionError("a customer was created by another transaction")
            credited = await lock_credited(connection, ground.found.values(), ground.owners, ground.catalog)
            all_locked = (*ground.found.values(), *credited.values())
            customers = (stored.customer for stored in all_locked if stored is not None)
            silent = await unheard(connection, customers, ground.wall)
            unit = UnitOfWork(ground.wall, credited=credited, unheard=silent)
            outcomes = _outcomes(unit, ground, batch, rehearsals, set(created))
            told = await unit.commit(connection)
            await steps.keep(connection, told, ground.wall)
            steps.done("write")
        return _answers(unit, ground, outcomes, told)

    async def _lock(self, connection: Connection, batch: Sequence[Change]) -> _Ground:
        """Everything the batch is about, locked until the transaction ends. Always in this order: two transactions that
        lock in different orders could wait for each other."""
        asked = sorted({change.customer_ref for change in batch})
        project_id = batch[0].project_id
        projects = await load_projects(connection, self.catalogs, {project_id})
        clocks = await records.share_clocks(connection, asked)
        found = await records.lock(connection, asked)
        claims = [(change.project_id, *key) for change in batch for key in change.claims]
        owners = {purchase: owner.key for purchase, owner in (await records.owners(connection, claims)).items()}
        erased = [(store, id) for (_, store, id), owner in owners.items() if owner is None]
        endings = await records.lock_erased(connection, project_id, erased) if erased else {}
        if len(endings) < len(erased):
            raise CollisionError("a purchase without an owner was claimed by another transaction")
        # After the locks: to wait for them may have taken a while.
        return _Ground(self.now(), projects[project_id].catalog, clocks, found, owners, endings)


@dataclass(slots=True)
class _Ground:
    """What a batch of changes starts from."""

    wall: Ms
    catalog: Catalog
    # The time of each test clock that one of the customers lives on, by project and clock.
    clocks: dict[tuple[str, str], Ms]
    # The customers that exist. Those that the batch creates are added.
    found: dict[CustomerRef, Stored]
    # Who owns the purchases that are claimed: a customer's key, or None where the owner was erased.
    owners: Mapping[tuple[str, str, str], int | None]
    # What has ended the transactions of those that were erased.
    endings: Mapping[PurchaseKey, tuple[Ending, ...]] = field(default_factory=dict)

    def applied(self, change: Change, customer: Customer, now: Ms) -> Customer:
        endings = tuple(ending for key in change.claims for ending in self.endings.get(key, ()))
        return change.apply(Situation(customer, self.catalog, now, endings))

    def now_of(self, stored: Stored) -> Ms:
        """Not before what the test store has done for this customer: another process whose clock is ahead, or which was
        quicker, may have written a later instant than ours."""
        customer = stored.customer
        if customer.test_clock_id is not None:
            clock_now = self.clocks.get((customer.project_id, customer.test_clock_id))
            if clock_now is None:
                raise CollisionError("a customer on a test clock was created by another transaction")
            return own_now(customer, clock_now)
        return max(self.wall, latest_moment(customer.subscriptions))

    def erased(self, change: Change, me: int) -> frozenset[PurchaseKey]:
        """Those of the claimed purchases whose owner was erased. One that another customer owns refuses the change."""
        erased = set()
        for key in change.claims:
            owner = self.owners.get((change.project_id, *key), me)
            if owner is None:
                erased.add(key)
            elif owner != me:
                raise OwnedByAnother("The purchase belongs to another customer.")
        return frozenset(erased)


def _questions(batch: Iterable[Change]) -> Iterator[tuple[str, PurchaseKey | None]]:
    for change in batch:
        if change.claims:
            yield from ((change.app_user_id, claim) for claim in change.claims)
        else:
            yield change.app_user_id, None


def _needs_locks(seen: Look, wall: Ms) -> bool:
    """Whether a change needs more than a look: a test clock that must not move, the owner of virtual currency, a store
    that is to be asked first, or a purchase whose owner was erased."""
    found = [stored.customer for stored in seen.found.values()]
    return (
        any(customer.test_clock_id is not None for customer in found)
        or None in seen.owners.values()
        or may_wait(found, wall)
        or bool(credits_of(found, seen.catalog))
    )


class _Rehearsal(NamedTuple):
    """What a change makes of a customer who does not exist yet."""

    before: Customer
    after: Customer


class _Applied(NamedTuple):
    """A change that the unit of work will write."""

    stored: Stored
    now: Ms
    created: bool


def _rehearsals(batch: Sequence[Change], ground: _Ground) -> dict[int, _Rehearsal | Refusal]:
    """By index: the changes to customers who do not exist, tried before any of these customers is created, so that a
    request that is refused creates nobody."""
    newcomers: dict[CustomerRef, Customer] = {}
    rehearsals: dict[int, _Rehearsal | Refusal] = {}
    for index, change in enumerate(batch):
        ref = change.customer_ref
        if ref in ground.found:
            continue
        if not change.create:
            rehearsals[index] = NotFound(f"There is no customer {change.app_user_id!r}.", param="app_user_id")
            continue
        if ref not in newcomers:
            newcomers[ref] = newcomer(*ref, ground.wall)
        try:
            ground.erased(change, me=0)
            rehearsals[index] = _Rehearsal(newcomers[ref], ground.applied(change, newcomers[ref], ground.wall))
        except Refusal as refusal:
            rehearsals[index] = refusal
    return rehearsals


def _created(rehearsals: Mapping[int, _Rehearsal | Refusal]) -> dict[CustomerRef, Customer]:
    """The customers to create: those with a change that was not refused."""
    tried = (rehearsal.before for rehearsal in rehearsals.values() if isinstance(rehearsal, _Rehearsal))
    return {(customer.project_id, customer.app_user_id): customer for customer in tried}


def _outcomes(
    unit: UnitOfWork,
    ground: _Ground,
    batch: Sequence[Change],
    rehearsals: Mapping[int, _Rehearsal | Refusal],
    created: set[CustomerRef],
) -> list[_Applied | Refusal]:
    """Applies the changes. Of several changes to a customer who was created here, the first one created it."""
    outcomes: list[_Applied | Refusal] = []
    for index, change in enumerate(batch):
        ref, rehearsal = change.customer_ref, rehearsals.get(index)
        if ref not in ground.found:
            assert isinstance(rehearsal, Refusal), "only who was refused is not created"
            outcomes.append(rehearsal)
            continue
        stored = ground.found[ref]
        now = ground.now_of(stored)
        try:
            _apply(unit, ground, change, stored, now, index, rehearsal)
        except Refusal as refusal:
            outcomes.append(refusal)
        else:
            outcomes.append(_Applied(stored, now, ref in created))
            created.discard(ref)
    return outcomes


def _apply(
    unit: UnitOfWork,
    ground: _Ground,
    change: Change,
    stored: Stored,
    now: Ms,
    index: int,
    rehearsal: _Rehearsal | Refusal | None,
) -> None:
    catalog = ground.catalog
    customer = unit.catch_up(stored, catalog, now, tag=-1, spoken_of=change.claims)
    erased = ground.erased(change, stored.key)
    if isinstance(rehearsal, _Rehearsal) and rehearsal.before is customer:
        # No other change has touched the new customer, so the rehearsal is what happens.
        after = rehearsal.after
    else:
        after = ground.applied(change, customer, now)
    if erased:
        after = reclaimed(with_endings(after, ground.endings), now)
    unit.change(stored, after, catalog, now, tag=index)
    if erased:
        unit.take_over(stored, unit.current(stored), erased)
    if change.handle is not None:
        unit.remember(change.handle(unit.current(stored), ground.wall))
    if change.seen is not None:
        unit.visit(stored, change.seen)


def _answers(
    unit: UnitOfWork,
    ground: _Ground,
    outcomes: Sequence[_Applied | Refusal],
    told: Mapping[int, Sequence[Event]],
    keys: Sequence[int] = (),
) -> list[Committed | Refusal]:
    """`keys`: of the customers that were created without a row."""
    answers: list[Committed | Refusal] = []
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Refusal):
            answers.append(outcome)
            continue
        stored, now, created = outcome
        customer, due_at = unit.current(stored), unit.next_due_at(stored)
        quiet_until = _NEVER if due_at is None else due_at
        events = tuple(told.get(index, ()))
        seen = unit.writes_visit(stored)
        if stored.key < 0:
            stored = replace(stored, key=keys[-stored.key - 1])
        answers.append(Committed(customer, ground.catalog, now, events, created, stored, quiet_until, seen))
    return answers


class _Steps:
    """The spans of a batch of changes, while traces are on. Each request of the batch whose trace is kept gets its own,
    linked with the requests of the others."""

    def __init__(self, batch: Sequence[Change]) -> None:
        self._batch = batch
        self._spans = [change.trace for change in batch if change.trace is not None]
        self._since = time.time_ns()

    def done(self, name: str) -> None:
        """What was done since the step before."""
        began, self._since = self._since, time.time_ns()
        if self._spans and spans.tracer is not None:
            about = {"latchkey.batch.size": len(self._batch)}
            spans.tracer.shared(f"changes {name}", self._spans, began, self._since, about)

    async def keep(self, connection: Connection, told: Mapping[int, Sequence[Event]], now: Ms) -> None:
        """Remember the trace of each new event, for the process that delivers it. To be called before the change is
        committed: the event may be delivered at once. `told` has the events by place in the batch."""
        found = {
            event.id: change.trace.traceparent
            for place, change in enumerate(self._batch)
            if change.trace is not None
            for event in told.get(place, ())
        }
        if found:
            await event_feed.keep(connection, self._batch[0].project_id, found, now)


def unchanged(situation: Situation) -> Customer:
    """The change that only makes sure the customer exists."""
    return situation.customer
