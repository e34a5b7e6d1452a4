"""Notifications from stores: checked, written to the journal, and only then answered. Processing follows."""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import fields

from latchkey.database.errors import InvalidValueError
from latchkey.database.pool import Database
from latchkey.domain.formats import instant
from latchkey.domain.instants import Ms
from latchkey.domain.problem import ProblemKind, ProjectProblem, isolated
from latchkey.domain.refusal import NotFound, found
from latchkey.domain.stores.store import STORES
from latchkey.engine.batch import Batch
from latchkey.engine.storage import records
from latchkey.stores.adapter import ConnectedApp, Incoming, Notification
from latchkey.subjects.projects.usecases import list_apps
from latchkey.subjects.purchase_intake.rules import JournalEntry, JournalFilter, NewEntry, Source, Status, is_silent
from latchkey.subjects.purchase_intake.storage import connection_rows, journal_rows
from latchkey.subjects.purchase_intake.storage.connection_rows import StoreConnection
from latchkey.subjects.purchase_intake.usecases import store_connections
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections

_NOTED_EVERY_MS = 1_000
_OF_A_NOTIFICATION = tuple(field.name for field in fields(Notification))


class NotConnected(Exception):
    """The app has no credentials, so nothing can be checked. The store should try again later."""


class NotificationInbox:
    """Takes notifications in. Those that arrive at the same time share one statement."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._batch = filing(connections.database)
        # When it was last written that an app is notified: once a second is enough.
        self._noted: dict[tuple[str, str], Ms] = {}

    async def receive(self, token: str, body: bytes, headers: Mapping[str, str]) -> bool:
        """False: it was in the journal already. Raises a StoreError where it must not be believed."""
        known, now = await self._connections.by_token(token), self._connections.now()
        app = found(known, "There is no such notification URL. Copy it again from the app's settings.")
        if app.credentials is None:
            raise NotConnected
        adapter = self._connections.adapters[app.store]
        notification = await adapter.verify(app, Incoming(body=body, headers=headers, received_at=now))
        is_new = await self._batch.ask(entry_of(app, notification, "notification", now)) is not None
        await self._note(app.project_id, app.app_id, now)
        return is_new

    async def _note(self, project_id: str, app_id: str, now: Ms) -> None:
        # After a crash before this the store sends again, and it is noted then.
        if abs(now - self._noted.get((project_id, app_id), 0)) > _NOTED_EVERY_MS:
            self._noted[project_id, app_id] = now
            async with self._connections.database.at_hand() as connection:
                await connection_rows.note_notified(connection, project_id, app_id, now)

    async def drain(self) -> None:
        await self._batch.drain()


def filing(database: Database, *, apart: float = 0.0) -> Batch[NewEntry, int | None]:
    """Entries that come at the same time share one statement."""
    return Batch(partial(file_entries, database), largest=128, splits_on=(InvalidValueError,), apart=apart)


async def file_entries(database: Database, entries: list[NewEntry]) -> list[int | None]:
    """The id of each that is new."""
    filed = await journal_rows.file(database.hot, entries)
    return [filed.pop((entry.project_id, entry.app_id, entry.external_id), None) for entry in entries]


def entry_of(app: ConnectedApp, notification: Notification, source: Source, now: Ms) -> NewEntry:
    return NewEntry(
        project_id=app.project_id,
        app_id=app.app_id,
        store=app.store,
        source=source,
        received_at=now,
        next_at=now,
        **{name: getattr(notification, name) for name in _OF_A_NOTIFICATION},
    )


PREFIX = "ntf_"
MOST_COUNTED = 1000
# A purchase token of Google Play has about 150 characters.
_BEGINNING = 16
# The largest id that the database holds.
_LARGEST = 2**63 - 1


def name_of(entry: JournalEntry) -> str:
    return f"{PREFIX}{entry.id}"


def subject_of(entry: JournalEntry, *, trusted: bool) -> str | None:
    """Which purchase an entry is about. Who may not write sees only the beginning of a purchase token: shown as a
    receipt, a whole one would move the purchase to another customer."""
    if trusted or entry.subject is None or entry.source == "receipt" or not STORES[entry.store].names_are_receipts:
        return entry.subject
    return entry.subject[:_BEGINNING] + "…"


async def page(
    database: Database, project_id: str, wanted: JournalFilter, *, after: str | None, limit: int
) -> list[JournalEntry]:
    """Newest first."""
    async with database.acquire() as connection:
        before = None
        if after is not None:
            before = _number(after, "starting_after")
            known = await journal_rows.load(connection, project_id, before)
            found(known, f"There is no notification {after!r} to start after.", "starting_after")
        return await journal_rows.page(connection, project_id, before, wanted, limit)


async def load(database: Database, project_id: str, id: str) -> JournalEntry:
    known = await journal_rows.load(database, project_id, _number(id, "notification_id"))
    return found(known, f"There is no notification {id!r}.", "notification_id")


async def known_customers(database: Database, project_id: str, entries: list[JournalEntry]) -> frozenset[str]:
    """Those of the entries' app user ids that a customer has: a forged receipt may name any id."""
    named = {(project_id, entry.app_user_id) for entry in entries if entry.app_user_id is not None}
    return frozenset(id for _, id in await records.known_ids(database, sorted(named)))


async def reprocess(database: Database, project_id: str, id: str, now: Ms) -> JournalEntry:
    """It waits again and is processed at once. Doing it twice changes nothing."""
    await journal_rows.reprocess(database, project_id, now, None, None, None, _number(id, "notification_id"))
    return await load(database, project_id, id)


async def reprocess_since(
    database: Database, project_id: str, since: Ms, status: Status | None, app_id: str | None, now: Ms
) -> int:
    return await journal_rows.reprocess(database, project_id, now, since, status, app_id, None)


async def count_failed(database: Database, project_id: str) -> int:
    """How many failed, at most `MOST_COUNTED`: the journal may hold millions."""
    return await journal_rows.count_failed(database, project_id, MOST_COUNTED)


def _number(id: str, param: str) -> int:
    digits = id.removeprefix(PREFIX)
    if id.startswith(PREFIX) and digits.isascii() and digits.isdigit() and int(digits[:20]) <= _LARGEST:
        return int(digits[:20])
    raise NotFound(f"There is no notification {id[:100]!r}.", param=param)


# Apps that are looked at.
MOST_APPS = 200
HEALED_DAYS = 30


class StoreHealth(Struct, frozen=True, kw_only=True):
    """How a project's apps stand with their stores: what an operator has to do, and what the safety net made good."""

    problems: tuple[ProjectProblem, ...] = ()
    # Of the last `HEALED_DAYS` days: purchases that were read again, and those in which something was missing.
    checks: int = 0
    healed: int = 0


async def standing_of(connections: Connections, project_id: str) -> StoreHealth:
    apps = await list_apps(connections.database, project_id, limit=MOST_APPS)
    connected = await store_connections.load_some(connections, project_id, apps)
    if not connected:
        return StoreHealth()
    problems = [
        problem
        for app in apps
        if (one := connected.get(app.id)) is not None
        and (problem := _problem(app.name, one.row, connections.now())) is not None
    ]
    if failed := await count_failed(connections.database, project_id):
        count = f"{MOST_COUNTED:,} or more" if failed >= MOST_COUNTED else f"{failed:,}"
        problems.append(
            ProjectProblem(
                id="journal",
                kind=ProblemKind.NOTIFICATIONS,
                title="Store notifications could not be processed.",
                words=f"There {'is' if failed == 1 else 'are'} {count} in the journal.",
                path="journal?status=failed",
                link="See why",
            )
        )
    healings = (await store_connections.healings(connections, project_id, HEALED_DAYS)).values()
    return StoreHealth(
        problems=tuple(problems),
        checks=sum(healing.checks for healing in healings),
        healed=sum(healing.healed for healing in healings),
    )


def _problem(app: str, row: StoreConnection, now: Ms) -> ProjectProblem | None:
    """The worst one of an app: without credentials there are no notifications either."""
    store, name, setup = STORES[row.store].title, isolated(app), f"apps/{row.app_id}/setup"
    if row.credentials is None:
        return ProjectProblem(
            id=f"credentials/{row.app_id}",
            kind=ProblemKind.STORE,
            title=f"{name} has no {store} credentials.",
            words="Receipts and notifications get status 503, so buyers get no access.",
            path=setup,
            link="Connect it",
            is_urgent=True,
        )
    if row.check_result == "refused":
        return ProjectProblem(
            id=f"credentials/{row.app_id}",
            kind=ProblemKind.STORE,
            title=f"The {store} refuses the credentials of {name}.",
            words=row.check_message,
            path=setup,
            link="Save other credentials",
            is_urgent=True,
        )
    if is_silent(row.notified_days, row.last_notified_at, now):
        return ProjectProblem(
            id=f"silence/{row.app_id}",
            kind=ProblemKind.NOTIFICATIONS,
            title=f"The {store} has stopped sending notifications for {name}.",
            words=f"They came on {row.notified_days} days in a row, the last one {instant(row.last_notified_at or 0)}. "
            "Until they come again, changes are found late, by asking the store.",
            path=f"apps/{row.app_id}",
            link="Compare the notification URL",
        )
    return None
