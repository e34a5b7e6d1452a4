"""All storage of the consumer in one object."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from latchkey.consumer.storage.consumer_database import ConsumerDatabase
from latchkey.consumer.storage.copies import Copies
from latchkey.consumer.storage.event_log import EventLog
from latchkey.consumer.storage.jobs import Jobs
from latchkey.consumer.storage.registered_devices import RegisteredDevices

T = TypeVar("T")


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
