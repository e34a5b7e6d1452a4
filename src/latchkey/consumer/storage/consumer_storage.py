"""All storage of the consumer in one object; and users' phones, by their push player id."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from sqlalchemy import delete, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.storage.consumer_database import ConsumerDatabase
from latchkey.consumer.storage.copies import Copies
from latchkey.consumer.storage.copy_tables import aliases, devices
from latchkey.consumer.storage.event_log import EventLog
from latchkey.consumer.storage.jobs import Jobs

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
