"""Local copies in the database: found by any of a user's ids, locked per user, written as a whole."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace
from sqlalchemy import JSON, Boolean, bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.rules.lenient_json import storable
from latchkey.consumer.rules.record import Entitlement, LocalCopy, Subscription, empty_copy
from latchkey.consumer.storage import copy_tables
from latchkey.consumer.storage.batch_statements import InsertRows, Row, SelectByIds, SelectTogether, insert_together
from latchkey.consumer.storage.consumer_database import ConsumerDatabase

_JSON, _FLAGS = (
    [place for place, column in enumerate(copy_tables.subscriptions.columns) if isinstance(column.type, type)]
    for type in (JSON, Boolean)
)
_ACTIVE = Entitlement.__struct_fields__.index("is_active")


class LockedCopies(Struct, frozen=True):
    """Copies that are locked until the transaction ends."""

    # Maps every requested id to the id its copy is stored under.
    canonical: Mapping[str, str]
    copies: Mapping[str, LocalCopy]
    # Of the given events: those that were processed before, and those that are set aside.
    processed: frozenset[str] = frozenset()
    aside: frozenset[str] = frozenset()


class Copies:
    def __init__(self, database: ConsumerDatabase) -> None:
        self._database = database
        chosen = select(copy_tables.subscriptions).where(database.any_of(copy_tables.subscriptions.c.app_user_id))
        self._find = SelectByIds(database, chosen)
        self._lock = SelectByIds(database, chosen.order_by(copy_tables.subscriptions.c.app_user_id).with_for_update())
        theirs = select(copy_tables.entitlements).where(database.any_of(copy_tables.entitlements.c.app_user_id))
        self._rows = SelectByIds(database, theirs)
        named = select(copy_tables.aliases.c.alias, copy_tables.aliases.c.app_user_id)
        leading = named.where(database.any_of(copy_tables.aliases.c.alias))
        self._canonical = SelectByIds(database, leading)
        done, aside = copy_tables.processed_events.c.event_id, copy_tables.set_aside.c.event_id
        self._under_lock = SelectTogether(
            database, theirs, leading, *(select(id).where(database.any_of(id)) for id in (done, aside))
        )
        self._hold = database.insert(copy_tables.subscriptions).on_conflict_do_nothing()
        self._save = InsertRows(copy_tables.subscriptions, overwrite=True)
        self._save_row = InsertRows(copy_tables.entitlements, overwrite=True)
        self._name = database.upsert(copy_tables.aliases)
        self._move = [
            update(table).where(database.any_of(table.c.app_user_id)).values(app_user_id=bindparam("owner"))
            for table in (copy_tables.aliases, copy_tables.currency_transactions, copy_tables.invoices)
        ]
        self._drop = [
            delete(table).where(database.any_of(table.c.app_user_id))
            for table in (copy_tables.subscriptions, copy_tables.entitlements)
        ]

    async def find(self, connection: AsyncConnection, app_user_id: str) -> LocalCopy | None:
        """The user's copy, for any of the user's ids; not locked."""
        known = await self.owner_of(connection, app_user_id)
        records = [_subscription(row) for row in await self._find(connection, [known])]
        found = _copies(records, await self._rows(connection, [known]) if records else ()).get(known)
        return found if found is not None and found.subscription.exists else None

    async def lock(
        self,
        connection: AsyncConnection,
        ids: Collection[str],
        others: Collection[str] = (),
        events: Collection[str] = (),
    ) -> LockedCopies:
        """The copies of these users. For one of `ids` without a copy, an empty row is created and locked. Of the
        others, only existing copies. What happened to `events` before is read under the same locks."""
        asked = {id: storable(id) for id in {*ids, *others}}
        keys = set(asked.values())
        # Most ids are not aliases, so that is assumed until the aliases are read.
        canonical, is_read = _canonical_ids(asked, ()), False
        while True:
            wanted, needed = set(canonical.values()), {canonical[id] for id in ids}
            records = [_subscription(row) for row in await self._lock(connection, wanted)]
            # SQLite allows one writer at a time. PostgreSQL locks rows, so the row must exist.
            missing = set() if self._database.is_sqlite else needed - {record.app_user_id for record in records}
            if missing and not is_read:
                # An alias has no row of its own, and must not get one.
                settled, is_read = _canonical_ids(asked, await self._canonical(connection, keys)), True
                if settled != canonical:
                    canonical = settled
                    continue
            if missing:
                await connection.execute(self._hold, [{"app_user_id": id} for id in sorted(missing)])
                records += [_subscription(row) for row in await self._lock(connection, missing)]
            rows, named, processed, aside = await self._under_lock(connection, wanted, keys, events, events)
            settled, is_read = _canonical_ids(asked, named), True
            if settled == canonical:
                copies = {id: empty_copy(id) for id in needed} | _copies(records, rows)
                return LockedCopies(
                    canonical, copies, *(frozenset(row[0] for row in rows) for rows in (processed, aside))
                )
            # Some ids are aliases, or another transaction added one while we waited for the lock.
            canonical = settled

    async def save(
        self,
        connection: AsyncConnection,
        changed: Iterable[tuple[LocalCopy, LocalCopy]],
        *with_them: tuple[InsertRows, Sequence[Row]],
    ) -> None:
        """Write the copies that changed, and other new rows with them."""
        records: list[Row] = []
        rows: list[Row] = []
        for before, after in changed:
            if after.subscription != before.subscription:
                records.append(replace(after.subscription, revision=before.subscription.revision + 1))
            owner = after.subscription.app_user_id
            rows += [
                {"app_user_id": owner, **asdict(row)}
                for id, row in after.entitlements.items()
                if before.entitlements.get(id) != row
            ]
        await insert_together(self._database, connection, (*with_them, (self._save, records), (self._save_row, rows)))

    async def name(self, connection: AsyncConnection, app_user_id: str, others: Collection[str]) -> None:
        """These other ids are the same customer. Everything stored under them moves to the one id."""
        known = await self._canonical(connection, others)
        fresh = sorted(set(others) - {alias for alias, owner in known if owner == app_user_id})
        if not fresh:
            return
        await connection.execute(self._name, [{"alias": id, "app_user_id": app_user_id} for id in fresh])
        # Aliases of these ids become aliases of the one id, which is no alias itself.
        for statement in self._move:
            await connection.execute(statement, {"ids": fresh, "owner": app_user_id})
        await self.remove_alias(connection, app_user_id)
        for dropping in self._drop:
            await connection.execute(dropping, {"ids": fresh})
        theirs = self._database.any_of(copy_tables.enrollments.c.app_user_id)
        moved = (await connection.execute(select(copy_tables.enrollments).where(theirs), {"ids": fresh})).all()
        if moved:
            insert = self._database.insert(copy_tables.enrollments).on_conflict_do_nothing()
            await connection.execute(insert, [{**row._mapping, "app_user_id": app_user_id} for row in moved])
            await connection.execute(delete(copy_tables.enrollments).where(theirs), {"ids": fresh})

    async def remove_alias(self, connection: AsyncConnection, app_user_id: str) -> None:
        """The id is a customer's own id now."""
        await connection.execute(delete(copy_tables.aliases).where(copy_tables.aliases.c.alias == app_user_id))

    async def owner_of(self, connection: AsyncConnection, app_user_id: str) -> str:
        """The id that the customer's copy is stored under, for any of the customer's ids."""
        key = storable(app_user_id)
        return _canonical_ids({app_user_id: key}, await self._canonical(connection, [key]))[app_user_id]


def _canonical_ids(asked: Mapping[str, str], named: Iterable[Any]) -> dict[str, str]:
    """The id of the copy for every id: the customer whose alias it is, else the id itself, as it is stored."""
    known = dict(named)
    return {id: known.get(key, key) for id, key in asked.items()}


def _copies(records: Iterable[Subscription], rows: Iterable[Sequence[Any]]) -> dict[str, LocalCopy]:
    held: dict[str, dict[str, Entitlement]] = {}
    for row in rows:
        entitlement = _entitlement(row[1:])
        held.setdefault(row[0], {})[entitlement.entitlement_id] = entitlement
    return {record.app_user_id: LocalCopy(record, held.get(record.app_user_id, {})) for record in records}


def _subscription(row: Sequence[Any]) -> Subscription:
    values = list(row)
    for place in _JSON:
        # PostgreSQL's driver has decoded it already.
        if isinstance(values[place], str):
            values[place] = msgspec.json.decode(values[place])
    for place in _FLAGS:
        values[place] = bool(values[place])
    return Subscription(*values)


def _entitlement(row: Sequence[Any]) -> Entitlement:
    values = list(row)
    values[_ACTIVE] = bool(values[_ACTIVE])
    return Entitlement(*values)
