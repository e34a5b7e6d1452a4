"""What taking in a purchase asks beside the customer. Purchases that are taken in at the same time share one statement
for each."""

from collections.abc import Sequence

from latchkey.database.pool import Database
from latchkey.engine.batch import Batch
from latchkey.engine.storage import records
from latchkey.engine.storage.records import Owner
from latchkey.subjects.purchase_intake.storage import connection_rows

# A project's id, the store, and the purchase's id there.
_Purchase = tuple[str, str, str]
# A project's id and an app user id.
_Place = tuple[str, str]


class BatchedLookups:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._owners: Batch[_Purchase, Owner | None] = Batch(self._find_owners)
        self._known: Batch[tuple[_Place, ...], frozenset[str]] = Batch(self._find_known)
        self._digests: Batch[_Place, str | None] = Batch(self._find_digests)

    async def owner(self, project_id: str, key: records.PurchaseKey) -> Owner | None:
        """None: nobody ever owned the purchase."""
        return await self._owners.ask((project_id, *key))

    async def known_ids(self, project_id: str, app_user_ids: Sequence[str]) -> frozenset[str]:
        """Those of the ids that a customer has."""
        return await self._known.ask(tuple((project_id, app_user_id) for app_user_id in app_user_ids))

    async def id_of_digest(self, project_id: str, digest: str) -> str | None:
        """The app user id with this SHA-256, if a customer has it."""
        return await self._digests.ask((project_id, digest))

    async def connected(self, project_id: str, app_id: str) -> bool:
        """Whether the app has credentials. Asked only where one app is notified of what another one has sold."""
        async with self._database.at_hand() as connection:
            known = await connection_rows.load(connection, project_id, app_id)
        return known is not None and known.credentials is not None

    async def _find_owners(self, asked: list[_Purchase]) -> list[Owner | None]:
        async with self._database.at_hand() as connection:
            found = await records.owners(connection, asked)
        return [found.get(one) for one in asked]

    async def _find_known(self, asked: list[tuple[_Place, ...]]) -> list[frozenset[str]]:
        async with self._database.at_hand() as connection:
            known = await records.known_ids(connection, [place for places in asked for place in places])
        return [frozenset(place[1] for place in places if place in known) for places in asked]

    async def _find_digests(self, asked: list[_Place]) -> list[str | None]:
        async with self._database.at_hand() as connection:
            found = await records.ids_of_digests(connection, asked)
        return [found.get(one) for one in asked]
