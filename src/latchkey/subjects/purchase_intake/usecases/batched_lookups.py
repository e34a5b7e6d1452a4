"""What taking in a purchase asks beside the customer. Purchases that are taken in at the same time share one statement
for each."""

from collections.abc import Sequence

from latchkey.database.pool import Database
from latchkey.domain.instants import Ms
from latchkey.engine.batch import Batch
from latchkey.engine.storage import records
from latchkey.engine.storage.records import Owner
from latchkey.subjects.purchase_intake.storage import connection_rows, journal_rows

# A project's id, the store, and the purchase's id there.
_Purchase = tuple[str, str, str]
# A project's id and an app user id.
_Place = tuple[str, str]
# Ids of a project and an app, since when the receipts came, now, and the end of a lease that begins now.
_Receipts = tuple[str, str, Ms, Ms, Ms]


class BatchedLookups:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._owners: Batch[_Purchase, Owner | None] = Batch(self._find_owners)
        self._known: Batch[tuple[_Place, ...], frozenset[str]] = Batch(self._find_known)
        self._digests: Batch[_Place, str | None] = Batch(self._find_digests)
        self._receipts: Batch[_Receipts, bool] = Batch(self._hurry_receipts)

    async def owner(self, project_id: str, key: records.PurchaseKey) -> Owner | None:
        """None: nobody ever owned the purchase."""
        return await self._owners.ask((project_id, *key))

    async def known_ids(self, project_id: str, app_user_ids: Sequence[str]) -> frozenset[str]:
        """Those of the ids that a customer has."""
        return await self._known.ask(tuple((project_id, app_user_id) for app_user_id in app_user_ids))

    async def id_of_digest(self, project_id: str, digest: str) -> str | None:
        """The app user id with this SHA-256, if a customer has it."""
        return await self._digests.ask((project_id, digest))

    async def hurry_receipts(self, project_id: str, app_id: str, since: Ms, now: Ms, lease_until: Ms) -> bool:
        """Have the receipts processed that could not be checked when they were shown. False: there are none."""
        return await self._receipts.ask((project_id, app_id, since, now, lease_until))

    async def connected(self, project_id: str, app_id: str) -> bool:
        """Whether the app has credentials. Asked only where one app is notified of what another one has sold."""
        known = await connection_rows.load(self._database.hot, project_id, app_id)
        return known is not None and known.credentials is not None

    async def _find_owners(self, asked: list[_Purchase]) -> list[Owner | None]:
        found = await records.owners(self._database.hot, asked)
        return [found.get(one) for one in asked]

    async def _find_known(self, asked: list[tuple[_Place, ...]]) -> list[frozenset[str]]:
        known = await records.known_ids(self._database.hot, [place for places in asked for place in places])
        return [frozenset(place[1] for place in places if place in known) for places in asked]

    async def _find_digests(self, asked: list[_Place]) -> list[str | None]:
        found = await records.ids_of_digests(self._database.hot, asked)
        return [found.get(one) for one in asked]

    async def _hurry_receipts(self, asked: list[_Receipts]) -> list[bool]:
        # Most questions are the same one, asked at different times. The latest counts.
        latest = {question[:3]: question for question in sorted(asked)}
        async with self._database.at_hand() as connection:
            found = {
                place: await journal_rows.hurry_receipts(connection, *question) for place, question in latest.items()
            }
        return [found[question[:3]] for question in asked]
