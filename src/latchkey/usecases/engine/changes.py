"""Changes to one customer. Changes that come at the same time share one transaction; a refused one does not affect
the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import reclaimed
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.refusal import NotFound, OwnedByAnother, Refusal
from latchkey.storage import collisions
from latchkey.storage.catalog.catalogs import Catalogs
from latchkey.storage.customers import records as customers
from latchkey.storage.customers.records import PurchaseKey, Stored
from latchkey.storage.database import Connection, Database
from latchkey.storage.engine.project_settings import Project as Project
from latchkey.storage.engine.project_settings import load_projects as load_projects
from latchkey.storage.errors import CollisionError, StateVersionError
from latchkey.usecases.engine.batch import Batch
from latchkey.usecases.engine.newcomers import newcomer
from latchkey.usecases.engine.passing_time import at_present
from latchkey.usecases.engine.unit_of_work import UnitOfWork
from latchkey.usecases.rendering.view import View
from latchkey.wire.event import Event

_TRIES = 4


@dataclass(frozen=True, slots=True)
class Situation:
    """What a rule may look at when it decides."""

    customer: Customer
    catalog: Catalog
    now: Ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    project_id: str
    app_user_id: str
    # Pure: gives the customer afterwards, or raises a Refusal.
    apply: Callable[[Situation], Customer]
    create: bool = False
    # A store's purchases that this change would give to the customer.
    claims: frozenset[PurchaseKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Committed:
    customer: Customer
    catalog: Catalog
    now: Ms
    events: tuple[Event, ...] = ()
    created: bool = False
    # The row, as the change found it.
    stored: Stored | None = None

    def view(self, wall: Ms) -> View:
        """The customer as this change left it, for an answer that needs no second look."""
        assert self.stored is not None, "this was not made by Changes"
        assert self.stored.last_seen is not None, "this was not loaded for a change"
        now = wall if self.customer.test_clock_id is None else self.now
        # What falls due while the change is written down has happened for whoever reads the answer.
        customer = at_present(self.customer, self.catalog, now)
        return View(self.stored.key, customer, self.catalog, now, self.stored.last_seen)


class Changes:
    def __init__(self, database: Database, now: Callable[[], Ms], catalogs: Catalogs | None = None) -> None:
        self.database = database
        self.now = now
        self.catalogs = catalogs or Catalogs()
        self._batch: Batch[Change, Committed | Refusal] = Batch(
            self._commit, largest=64, under_way=2, splits_on=(CollisionError, StateVersionError)
        )

    async def make(self, change: Change) -> Committed:
        """Commit a change and say what came of it; a Refusal changes nothing."""
        for tries_left in reversed(range(_TRIES)):
            try:
                answer = await self._batch.ask(change)
            except CollisionError:
                if not tries_left:
                    raise
            else:
                if isinstance(answer, Refusal):
                    raise answer
                return answer
        raise AssertionError("unreachable")

    async def drain(self) -> None:
        await self._batch.drain()

    async def _commit(self, batch: list[Change]) -> Sequence[Committed | Refusal]:
        wall = self.now()
        async with collisions.transaction(self.database) as connection:
            asked = sorted({(change.project_id, change.app_user_id) for change in batch})
            projects = await load_projects(connection, self.catalogs, {change.project_id for change in batch})
            clocks = await customers.share_clocks(connection, asked)
            found = await customers.lock(connection, asked)
            claims = [(change.project_id, *key) for change in batch for key in change.claims]
            owners = await customers.owners(connection, claims)
            newcomers = {place: newcomer(*place, wall) for place in asked if place not in found}
            tried = {
                index: _try(change, newcomers[place], projects[change.project_id].catalog, wall, owners)
                for index, change in enumerate(batch)
                if (place := (change.project_id, change.app_user_id)) in newcomers
            }
            wanted = {
                (one.before.project_id, one.before.app_user_id): one.before
                for one in tried.values()
                if isinstance(one, _Tried)
            }
            created = await _create(connection, found, wanted)
            if any(_clock_of(one) not in clocks for one in found.values() if one.customer.test_clock_id):
                # Another process has just made a customer on a clock while we were about to make it.
                clocks = await customers.share_clocks(connection, asked)
            unit = UnitOfWork(connection, wall, credited=await _credited(connection, found.values(), projects))
            answers: list[Refusal | tuple[Stored, Catalog, Ms, bool]] = []
            for index, change in enumerate(batch):
                stored = found.get((change.project_id, change.app_user_id))
                catalog = projects[change.project_id].catalog
                trial = tried.get(index)
                if stored is None:
                    missing = NotFound(f"There is no customer {change.app_user_id!r}.")
                    answers.append(trial if isinstance(trial, Refusal) else missing)
                    continue
                clock = stored.customer.test_clock_id
                now = wall if clock is None else clocks[change.project_id, clock]
                try:
                    _apply(unit, change, stored, catalog, now, owners, index, trial)
                    new = (change.project_id, change.app_user_id) in created
                    created.discard((change.project_id, change.app_user_id))
                    answers.append((stored, catalog, now, new))
                except Refusal as refusal:
                    answers.append(refusal)
            told = await unit.commit()
        return [
            answer
            if isinstance(answer, Refusal)
            else Committed(
                unit.current(answer[0]), answer[1], answer[2], tuple(told.get(index, ())), answer[3], answer[0]
            )
            for index, answer in enumerate(answers)
        ]


def _clock_of(stored: Stored) -> tuple[str, str | None]:
    return stored.customer.project_id, stored.customer.test_clock_id


def _apply(
    unit: UnitOfWork,
    change: Change,
    stored: Stored,
    catalog: Catalog,
    now: Ms,
    owners: dict[tuple[str, str, str], int | None],
    index: int,
    trial: _Tried | Refusal | None,
) -> None:
    customer = unit.catch_up(stored, catalog, now, tag=-1)
    erased = _erased(change, owners, stored.key)
    if isinstance(trial, _Tried) and trial.before is customer:
        # Nobody else has touched the newcomer, so what was tried on it is what happens.
        after = trial.after
    else:
        after = change.apply(Situation(customer, catalog, now))
    if erased:
        after = reclaimed(after, now)
    unit.change(stored, after, catalog, now, tag=index)
    if erased:
        unit.take_over(stored, unit.current(stored), erased)


def _erased(change: Change, owners: dict[tuple[str, str, str], int | None], me: int) -> frozenset[PurchaseKey]:
    """Those of the claimed purchases whose owner was erased. One that somebody else owns refuses the change."""
    erased = set()
    for key in change.claims:
        owner = owners.get((change.project_id, *key), me)
        if owner is None:
            erased.add(key)
        elif owner != me:
            raise OwnedByAnother("The purchase belongs to another customer.")
    return frozenset(erased)


@dataclass(frozen=True, slots=True)
class _Tried:
    before: Customer
    after: Customer


def _try(
    change: Change, fresh: Customer, catalog: Catalog, now: Ms, owners: dict[tuple[str, str, str], int | None]
) -> _Tried | Refusal:
    """What a change does to a customer that does not exist yet, or why it comes to nothing. Asked before one is made,
    so that a refused request leaves nobody behind."""
    if not change.create:
        return NotFound(f"There is no customer {change.app_user_id!r}.", param="app_user_id")
    try:
        _erased(change, owners, me=0)
        return _Tried(fresh, change.apply(Situation(fresh, catalog, now)))
    except Refusal as refusal:
        return refusal


async def _credited(
    connection: Connection, changed: Iterable[Stored], projects: Mapping[str, Project]
) -> dict[tuple[str, str, str], Stored | None]:
    """Who was credited with the virtual currency of purchases that came from somebody else, locked too. Only who has
    ever received a transfer can have such purchases, so nobody else costs a query."""
    asked: dict[tuple[str, str, str], Purchase] = {}
    for stored in changed:
        customer = stored.customer
        if customer.transfers:
            products = projects[customer.project_id].catalog.products
            for one in customer.purchases:
                product = products.get(one.product_id)
                if one.kind is PurchaseKind.ONE_TIME and product is not None and product.credits is not None:
                    asked[customer.project_id, one.store, one.id] = one
    if not asked:
        return {}
    return await customers.lock_credited(connection, asked)


async def _create(
    connection: Connection, found: dict[tuple[str, str], Stored], wanted: dict[tuple[str, str], Customer]
) -> set[tuple[str, str]]:
    """Make the customers that are wanted and missing, add them to `found`, and say which were made."""
    made: set[tuple[str, str]] = set()
    for _ in range(_TRIES):
        missing = sorted(wanted.keys() - found.keys())
        if not missing:
            break
        fresh = await customers.create(connection, [wanted[place] for place in missing])
        found.update(fresh)
        made.update(fresh)
        # Somebody else was quicker with the rest: look again.
        if late := wanted.keys() - found.keys():
            found.update(await customers.lock(connection, late))
    return made


def unchanged(situation: Situation) -> Customer:
    """The change that only makes sure the customer exists."""
    return situation.customer
