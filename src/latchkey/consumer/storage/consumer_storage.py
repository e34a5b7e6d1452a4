"""All storage of the consumer in one object. Events: processed ones, those set aside, and the data of some of them for
the app. Users' phones, by their push player id."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from msgspec.structs import asdict
from sqlalchemy import delete, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.rules.event_handlers import CurrencyRow, EnrollmentRow, Handling, InvoiceRow
from latchkey.consumer.rules.received_event import ReceivedEvent
from latchkey.consumer.rules.timestamps import Ms
from latchkey.consumer.storage.batch_statements import InsertRows, Row, SelectByIds
from latchkey.consumer.storage.consumer_database import ConsumerDatabase
from latchkey.consumer.storage.copies import Copies
from latchkey.consumer.storage.copy_tables import (
    ProcessedEvent,
    SetAside,
    aliases,
    currency_transactions,
    devices,
    enrollments,
    event_bodies,
    invoices,
    processed_events,
    progress,
    set_aside,
)
from latchkey.consumer.storage.jobs import Jobs

ERROR_LENGTH = 2000


class EventLog:
    def __init__(self, database: ConsumerDatabase) -> None:
        self._database = database
        # The primary key guarantees that no event is processed twice, whatever the locks did.
        self._record = InsertRows(processed_events)
        known = processed_events.c.event_id
        self._known = SelectByIds(database, select(known).where(database.any_of(known)))
        self._take_back = delete(set_aside).where(database.any_of(set_aside.c.event_id))
        self._transact = database.insert(currency_transactions).on_conflict_do_nothing()
        self._invoice = database.insert(invoices).on_conflict_do_nothing()
        self._keep = database.insert(event_bodies).on_conflict_do_nothing()
        enroll = database.insert(enrollments)
        self._enroll = enroll.on_conflict_do_update(
            index_elements=["app_user_id", "experiment_id"],
            set_={"variant_id": enroll.excluded.variant_id, "enrolled_at": enroll.excluded.enrolled_at},
            where=enrollments.c.enrolled_at <= enroll.excluded.enrolled_at,
        )
        put = database.insert(set_aside)
        self._set_aside = put.on_conflict_do_update(
            index_elements=["event_id"],
            set_={
                "error": put.excluded.error,
                "attempts": set_aside.c.attempts + 1,
                "last_attempt_at": put.excluded.last_attempt_at,
            },
        )
        self._note = database.upsert(progress)

    async def processed(self, connection: AsyncConnection, ids: Collection[str]) -> set[str]:
        return {row[0] for row in await self._known(connection, ids)}

    def recorded(self, done: Sequence[ReceivedEvent], now: Ms) -> tuple[InsertRows, list[Row]]:
        """The rows that say that these were processed, for `Copies.save`."""
        return self._record, [
            ProcessedEvent(event.id, event.type, event.app_user_id, event.fields.environment, now) for event in done
        ]

    async def note(self, connection: AsyncConnection, handled: Sequence[Handling]) -> None:
        """Stores the currency transactions, enrollments and invoices of the events."""
        for kind, statement in (
            (CurrencyRow, self._transact),
            (EnrollmentRow, self._enroll),
            (InvoiceRow, self._invoice),
        ):
            if rows := [asdict(handling.row) for handling in handled if isinstance(handling.row, kind)]:
                await connection.execute(statement, rows)

    async def keep(self, connection: AsyncConnection, events: Sequence[ReceivedEvent], now: Ms) -> None:
        """Stores the bodies of events with fields that could not be used."""
        rows = [
            {"event_id": event.id, "unread_fields": ",".join(event.unread), "body": event.body, "received_at": now}
            for event in events
        ]
        if rows:
            await connection.execute(self._keep, rows)

    async def put_aside(self, connection: AsyncConnection, event: ReceivedEvent, error: str, now: Ms) -> None:
        row = SetAside(event.id, event.type, event.app_user_id, error[:ERROR_LENGTH], 1, now, now, event.body)
        await connection.execute(self._set_aside, asdict(row))

    async def take_back(self, connection: AsyncConnection, ids: Collection[str]) -> None:
        """Removes events that have been processed after all."""
        if ids:
            await connection.execute(self._take_back, {"ids": sorted(ids)})

    async def list_set_aside(self, *, after: str | None = None, limit: int = 100) -> list[SetAside]:
        chosen = select(set_aside).order_by(set_aside.c.event_id).limit(limit)
        if after is not None:
            chosen = chosen.where(set_aside.c.event_id > after)
        async with self._database.reading() as connection:
            return [SetAside(**row._mapping) for row in await connection.execute(chosen)]

    async def one_set_aside(self, event_id: str) -> SetAside | None:
        async with self._database.reading() as connection:
            row = (await connection.execute(select(set_aside).where(set_aside.c.event_id == event_id))).first()
        return SetAside(**row._mapping) if row is not None else None

    async def count_set_aside(self) -> int:
        async with self._database.reading() as connection:
            return await connection.scalar(select(func.count()).select_from(set_aside)) or 0

    async def balances(self, connection: AsyncConnection, app_user_id: str) -> dict[str, int | float]:
        table = currency_transactions.c
        total = select(table.currency, func.sum(table.amount)).where(table.app_user_id == app_user_id)
        rows: Any = await connection.execute(total.group_by(table.currency))
        # Whole amounts as integers, others rounded to remove binary fractions.
        return {currency: int(amount) if amount == int(amount) else round(amount, 9) for currency, amount in rows}

    async def experiments(self, connection: AsyncConnection, app_user_id: str) -> dict[str, str]:
        table = enrollments.c
        rows = await connection.execute(
            select(table.experiment_id, table.variant_id).where(table.app_user_id == app_user_id)
        )
        return {row.experiment_id: row.variant_id for row in rows}

    async def invoices(self, connection: AsyncConnection, app_user_id: str) -> list[bytes]:
        table = invoices.c
        found = select(table.body).where(table.app_user_id == app_user_id).order_by(table.issued_at, table.event_id)
        return list((await connection.scalars(found)).all())

    async def progress(self, name: str) -> str | None:
        async with self._database.reading() as connection:
            found: str | None = await connection.scalar(select(progress.c.value).where(progress.c.name == name))
            return found

    async def set_progress(self, name: str, value: str, now: Ms) -> None:
        row = {"name": name, "value": value, "updated_at": now}
        await self._database.write(lambda connection: connection.execute(self._note, row))


T = TypeVar("T")


class RegisteredDevices:
    def __init__(self, database: ConsumerDatabase) -> None:
        self._database = database
        # The phone belongs to the user who registered it last.
        self._register = database.upsert(devices, "app_user_id", "platform", "language", "last_seen_at")

    async def register(self, row: dict[str, Any], most: int) -> bool:
        """Store the phone, keeping the user's `most` phones that were seen last; returns whether it is new."""

        async def work(connection: AsyncConnection) -> bool:
            mine = devices.c.app_user_id == row["app_user_id"]
            known = await connection.scalar(
                select(devices.c.player_id).where(devices.c.player_id == row["player_id"], mine)
            )
            await connection.execute(self._register, row)
            newest = select(devices.c.player_id).where(mine)
            newest = newest.order_by(devices.c.last_seen_at.desc(), devices.c.player_id).limit(most)
            kept = (await connection.scalars(newest)).all()
            await connection.execute(delete(devices).where(mine, devices.c.player_id.not_in(kept)))
            return known is None

        return await self._database.write(work)

    async def of_user(self, app_user_id: str) -> list[dict[str, Any]]:
        mine = select(devices).where(devices.c.app_user_id == app_user_id).order_by(devices.c.last_seen_at.desc())
        async with self._database.reading() as connection:
            return [dict(row._mapping) for row in await connection.execute(mine)]

    async def forget(self, app_user_id: str, player_id: str) -> bool:
        theirs = delete(devices).where(devices.c.player_id == player_id, devices.c.app_user_id == app_user_id)
        return await self._database.write(lambda connection: _changed(connection, theirs))

    async def remove(self, player_ids: Collection[str]) -> None:
        """Delete phones that the push provider does not know."""
        if player_ids:
            gone = delete(devices).where(devices.c.player_id.in_(sorted(player_ids)))
            await self._database.write(lambda connection: connection.execute(gone))

    async def player_ids(self, connection: AsyncConnection, app_user_id: str) -> list[str]:
        """A customer's phones, under any of the customer's ids."""
        others = select(aliases.c.alias).where(aliases.c.app_user_id == app_user_id)
        theirs = or_(devices.c.app_user_id == app_user_id, devices.c.app_user_id.in_(others))
        found = select(devices.c.player_id).where(theirs).order_by(devices.c.registered_at, devices.c.player_id)
        return list((await connection.scalars(found)).all())


async def _changed(connection: AsyncConnection, statement: Any) -> bool:
    return bool((await connection.execute(statement)).rowcount)


class ConsumerStorage:
    def __init__(self, url: str) -> None:
        self.database = ConsumerDatabase(url)
        self.copies = Copies(self.database)
        self.events = EventLog(self.database)
        self.jobs = Jobs(self.database)
        self.devices = RegisteredDevices(self.database)

    async def of_customer(self, app_user_id: str, read: Callable[[AsyncConnection, str], Awaitable[T]]) -> T:
        """What is stored under the customer's id, for any of the customer's ids."""
        async with self.database.reading() as connection:
            owner = await self.copies.owner_of(connection, app_user_id)
            return await read(connection, owner)

    async def close(self) -> None:
        await self.database.close()
