"""All storage of the consumer in one object."""

from __future__ import annotations

from latchkey.consumer.storage.copies import Copies
from latchkey.consumer.storage.database import Database
from latchkey.consumer.storage.devices import Devices
from latchkey.consumer.storage.events import Events
from latchkey.consumer.storage.jobs import Jobs


class Store:
    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.copies = Copies(self.database)
        self.events = Events(self.database)
        self.jobs = Jobs(self.database)
        self.devices = Devices(self.database)

    async def close(self) -> None:
        await self.database.close()
