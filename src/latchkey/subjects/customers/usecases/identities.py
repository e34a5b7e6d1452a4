"""Operations on two customers: logging in, transferring purchases, restoring a purchase of another customer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from latchkey.database import transient_errors
from latchkey.database.errors import CollisionError
from latchkey.database.pool import Connection, Database
from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers import identity
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import LogIn
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import OwnedByAnother, Refusal, found
from latchkey.engine.changes import Changes, Committed
from latchkey.engine.storage import records
from latchkey.engine.storage.read_rows import ProjectCatalog, load_projects
from latchkey.engine.storage.records import PurchaseKey, Stored
from latchkey.engine.unit_of_work import UnitOfWork, newcomer, purchase_keys, unheard
from latchkey.subjects.customers import storage
from latchkey.subjects.customers.storage import Alias
from latchkey.wire.event import Event

_TRIES = 4
# How often a purchase may change hands while it is taken in.
_CLAIMS = 8
_turns: WeakValueDictionary[tuple[str, PurchaseKey], asyncio.Lock] = WeakValueDictionary()
T = TypeVar("T")


async def log_in(changes: Changes, project_id: str, app_user_id: str, new_app_user_id: str) -> Committed:
    """The app's user is now `new_app_user_id`; the data of an anonymous user is merged if the rules allow it."""
    return await again(lambda: _log_in(changes, project_id, app_user_id, new_app_user_id, identity.log_in))


async def join(changes: Changes, project_id: str, app_user_id: str, new_app_user_id: str) -> Committed:
    """Both ids are the same person, as a device says: an anonymous customer is merged. Everything else is refused."""

    def decide(current: Customer, target: Customer | None) -> LogIn:
        decided = identity.join(current, target)
        if decided is LogIn.SWITCH:
            raise Refusal("Only an anonymous user can become another id.", param="app_user_id")
        return decided

    return await again(lambda: _log_in(changes, project_id, app_user_id, new_app_user_id, decide))


async def transfer(
    changes: Changes, project_id: str, source_id: str, target_id: str, app_ids: Collection[str] | None = None
) -> Committed:
    """Moves the purchases of one customer to another, and emits TRANSFER for the receiving one. With `app_ids`, only
    those that were made in one of these apps."""
    return await again(lambda: _transfer(changes, project_id, source_id, target_id, app_ids))


async def list_aliases(database: Database, project_id: str, customer_key: int) -> list[Alias]:
    """All ids of a customer, sorted."""
    return sorted(await storage.aliases(database, project_id, customer_key), key=lambda alias: alias.id)


def turn(project_id: str, key: PurchaseKey) -> asyncio.Lock:
    """Held by whoever takes a purchase over from its owner and then changes it. Those who show one purchase at the same
    time would otherwise take it from each other until they give up. Customers in other processes may still meet."""
    return _turns.setdefault((project_id, key), asyncio.Lock())


async def claimed(
    attempt: Callable[[], Awaitable[Committed]], take_over: Callable[[], Awaitable[Committed | None]]
) -> Committed:
    """Makes a change that claims a purchase. While another customer owns it, it is taken over first."""
    told: tuple[Event, ...] = ()
    for _ in range(_CLAIMS):
        try:
            done = await attempt()
        except OwnedByAnother:
            moved = await take_over()
            told += moved.events if moved is not None else ()
        else:
            return replace(done, events=(*told, *done.events))
    raise CollisionError("the purchase changes hands faster than it can be taken in")


async def restore(
    changes: Changes, project_id: str, app_user_id: str, key: PurchaseKey, check: Callable[[Catalog, Customer], None]
) -> Committed | None:
    """`app_user_id` presented a purchase that belongs to another customer. Returns None if the owner changed meanwhile;
    the caller must then look again. `check` may refuse after looking at the project's catalog and the owner."""

    async def merges(pair: _Pair, owner: Customer) -> bool:
        check(pair.project.catalog, owner)
        if not identity.came_from_an_app(owner, key):
            raise OwnedByAnother("The purchase belongs to another customer; the operator made it, not an app.")
        # An anonymous owner is merged: it is the same person, before they signed in.
        if identity.belongs_to(owner, app_user_id):
            return True
        if not identity.may_move(pair.project.restore_behavior, owner, pair.now):
            raise OwnedByAnother("The purchase belongs to another customer, and this project keeps it there.")
        return False

    return await again(lambda: _take_over(changes, project_id, app_user_id, key, merges))


async def hand_over(changes: Changes, project_id: str, app_user_id: str, key: PurchaseKey) -> Committed | None:
    """As `restore`, but the operator wants it: no rule is asked."""

    async def merges(*_: object) -> bool:
        return False

    return await again(lambda: _take_over(changes, project_id, app_user_id, key, merges))


async def redeem(
    changes: Changes,
    project_id: str,
    buyer_id: str,
    app_user_id: str,
    key: PurchaseKey,
    claim: Callable[[Connection], Awaitable[None]],
) -> Committed | None:
    """As `restore`, for who has proved to be the anonymous buyer, who is merged. A purchase that has become somebody's
    meanwhile stays there. `claim` may refuse, and what it writes is committed with the merge."""

    async def merges(pair: _Pair, owner: Customer) -> bool:
        if buyer_id not in owner.aliases or not identity.belongs_to(owner, app_user_id):
            raise OwnedByAnother("The purchase belongs to another customer.")
        await claim(pair.connection)
        return True

    return await again(lambda: _take_over(changes, project_id, app_user_id, key, merges))


async def _log_in(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    new_app_user_id: str,
    decide: Callable[[Customer, Customer | None], LogIn],
) -> Committed:
    wall = changes.now()
    async with transient_errors.hot_transaction(changes.database) as connection:
        pair = await _Pair.locked(changes, connection, project_id, (app_user_id, new_app_user_id), wall)
        current, target = pair.found.get(app_user_id), pair.found.get(new_app_user_id)
        before = current.customer if current else newcomer(project_id, app_user_id, pair.now)
        match decide(before, target.customer if target else None):
            case LogIn.NOTHING:
                assert target is not None
                return Committed(target.customer, pair.project.catalog, pair.now)
            case LogIn.ADD_ID:
                stored = current or await _create(connection, before)
                return await pair.add_id(stored, new_app_user_id, created=True)
            case LogIn.MERGE:
                assert target is not None
                if current is not None:
                    return await pair.merge(current, target)
                return await pair.add_id(target, app_user_id)
            case LogIn.SWITCH:
                if target is not None:
                    return Committed(target.customer, pair.project.catalog, pair.now)
                made = await _create(connection, newcomer(project_id, new_app_user_id, wall))
                return Committed(made.customer, pair.project.catalog, wall, created=True)


async def _transfer(
    changes: Changes, project_id: str, source_id: str, target_id: str, app_ids: Collection[str] | None
) -> Committed:
    async with transient_errors.hot_transaction(changes.database) as connection:
        pair = await _Pair.locked(changes, connection, project_id, (source_id, target_id), changes.now())
        source = found(pair.found.get(source_id), f"There is no customer {source_id!r}.", "customer_id")
        target = found(pair.found.get(target_id), f"There is no customer {target_id!r}.", "target_customer_id")
        keys = None if app_ids is None else identity.bought_in(source.customer, app_ids)
        return await pair.transfer(source, target, keys)


async def _take_over(
    changes: Changes,
    project_id: str,
    app_user_id: str,
    key: PurchaseKey,
    merges: Callable[[_Pair, Customer], Awaitable[bool]],
) -> Committed | None:
    wall = changes.now()
    async with transient_errors.hot_transaction(changes.database) as connection:
        owner_id = await records.owner_of(connection, project_id, key)
        if owner_id is None:
            return None
        # Both are locked in the same order everywhere. Only under the lock is it certain who owns the purchase.
        pair = await _Pair.locked(changes, connection, project_id, (owner_id, app_user_id), wall)
        source, target = pair.found.get(owner_id), pair.found.get(app_user_id)
        if source is None or key not in purchase_keys(source.customer) or source is target:
            return None
        whole = await merges(pair, source.customer)
        if target is None:
            target = await _create(connection, newcomer(project_id, app_user_id, wall))
        return await (pair.merge(source, target) if whole else pair.transfer(source, target, frozenset({key})))


class _Pair(Struct, frozen=True):
    """Two customers locked by one transaction, with one `now` for both."""

    connection: Connection
    found: dict[str, Stored]
    project: ProjectCatalog
    now: Ms
    unit: UnitOfWork

    @classmethod
    async def locked(
        cls, changes: Changes, connection: Connection, project_id: str, ids: tuple[str, str], wall: Ms
    ) -> _Pair:
        asked = sorted({(project_id, id) for id in ids})
        project = (await load_projects(connection, changes.catalogs, {project_id}))[project_id]
        clocks = await records.share_clocks(connection, asked)
        locked = await records.lock(connection, asked)
        now = max(clocks.values(), default=wall)
        stored_by_id = {id: stored for (_, id), stored in locked.items()}
        silent = await unheard(connection, (stored.customer for stored in locked.values()), wall)
        return cls(connection, stored_by_id, project, now, UnitOfWork(wall, unheard=silent))

    async def add_id(self, stored: Stored, app_user_id: str, *, created: bool = False) -> Committed:
        """Adds an unused id. Emits an event if the customer has access: a receiver may know that id as one without."""
        customer = self.unit.catch_up(stored, self.project.catalog, self.now)
        if active(customer, self.project.catalog, self.now):
            after = identity.told_of_id(customer, app_user_id, self.now)
        else:
            after = identity.add_id(customer, app_user_id)
        return replace(await self._changed(stored, after), created=created)

    async def merge(self, source: Stored, target: Stored) -> Committed:
        catalog = self.project.catalog
        old, kept = (self.unit.catch_up(stored, catalog, self.now, tag=-1) for stored in (source, target))
        merged = identity.merge(old, kept, self.now)
        await records.absorb(self.connection, kept.project_id, source.key, target.key)
        self.unit.absorb(source, target, merged.before)
        return await self._changed(target, merged.after)

    async def transfer(self, source: Stored, target: Stored, keys: frozenset[PurchaseKey] | None) -> Committed:
        catalog = self.project.catalog
        old, new = (self.unit.catch_up(stored, catalog, self.now, tag=-1) for stored in (source, target))
        moved = identity.transfer(old, new, self.now, keys=keys)
        self.unit.take_over(source, moved.source, frozenset())
        self.unit.take_over(target, moved.target_before, purchase_keys(old) - purchase_keys(moved.source))
        return await self._changed(target, moved.target)

    async def _changed(self, stored: Stored, after: Customer) -> Committed:
        after = self.unit.change(stored, after, self.project.catalog, self.now)
        told = await self.unit.commit(self.connection)
        return Committed(after, self.project.catalog, self.now, tuple(told.get(0, ())))


async def _create(connection: Connection, customer: Customer) -> Stored:
    made = await records.create(connection, [customer])
    if not made:
        raise CollisionError("the id was taken by another transaction")
    return next(iter(made.values()))


async def again(attempt: Callable[[], Awaitable[T]]) -> T:
    """Retries after a collision with another transaction."""
    for tries_left in reversed(range(_TRIES)):
        try:
            return await attempt()
        except CollisionError:
            if not tries_left:
                raise
    raise AssertionError("unreachable")
