"""The background half of the journal: processes entries, and does what the stores want done in time.

Runs in the clock role. Several may run at once: an entry, a check or an acknowledgement is leased to one of them.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import structlog
from msgspec import MsgspecError, json
from msgspec.structs import replace

from latchkey.database.errors import OutageError
from latchkey.database.pool import Database
from latchkey.database.transient_errors import PASSING
from latchkey.domain.instants import DAY, HOUR, MINUTE, Ms
from latchkey.domain.refusal import OwnedByAnother, Refusal
from latchkey.domain.stores.store import STORES
from latchkey.domain.stores.waits import RECEIPTS_TAKE, history_since, is_given_up, retry_wait
from latchkey.engine import missing_rates
from latchkey.engine.batch import Batch
from latchkey.engine.changes import Changes
from latchkey.engine.due_work import Lookout, attempt, cancel_all, every
from latchkey.engine.storage import store_handles as handles
from latchkey.engine.storage.scans import Outlook
from latchkey.engine.storage.store_handles import Handle
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import CredentialsRefused, InvalidReceipt, StoreDown, StoreError
from latchkey.subjects.purchase_intake.rules import JournalEntry, JournalOutcome, NewEntry
from latchkey.subjects.purchase_intake.storage import connection_rows, journal_rows
from latchkey.subjects.purchase_intake.storage.connection_rows import StoreConnection
from latchkey.subjects.purchase_intake.usecases import purchase_intake
from latchkey.subjects.purchase_intake.usecases.app_receipts import ShownReceipt, withdraw
from latchkey.subjects.purchase_intake.usecases.batched_lookups import BatchedLookups
from latchkey.subjects.purchase_intake.usecases.journal import HEALED_DAYS, entry_of, file_entries
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections, note_check

AT_ONCE = 128
# Claimed at a time, and no more of an app that has so many under way, or of a store with twice as many. So a slow app
# has half of AT_ONCE at most, and a slow store leaves a quarter.
SHARE = 32
# Purchases read again at once by the safety net, so that the stores' quotas are respected.
CHECKS_AT_ONCE = 10
# Entries of a store's history that share one statement.
FILED_AT_ONCE = 500
NOT_PROVEN = "The store has not accepted this app's credentials, so the mistake may be in them."
NOT_KEPT = "The receipt was invalid and was not kept."
OF_ANOTHER_APP = "Another app of this project is connected to the same account, and the purchase belongs to it."
NO_CREDENTIALS = "The app has no credentials for its store. Save them, then process this entry again."

_FAILED = "chore of the stores failed"
_NOT_PROCESSED = "notifications not processed"
_NOT_READ = "history of notifications not read"

log = structlog.get_logger()


class Processor:
    def __init__(self, database: Database, connections: Connections, changes: Changes, now: Callable[[], Ms]) -> None:
        self._database = database
        self._connections = connections
        self._changes = changes
        self._desk = BatchedLookups(database)
        # What is finished at the same time shares one statement.
        self._finishing = Batch(self._finish, largest=AT_ONCE)
        self._now = now

    async def process_due(self, woken: asyncio.Event | None = None, stop: asyncio.Event | None = None) -> int:
        """Process entries until none is due. Returns how many there were. Those that fall due meanwhile are claimed
        when `woken` is set, and none any more once `stop` is."""
        more, count, full, rests_until = woken or asyncio.Event(), 0, False, 0.0
        loop = asyncio.get_running_loop()
        running: dict[int, JournalEntry] = {}
        # By app and by store.
        slots = Counter[str]()

        async def run(entry: JournalEntry) -> None:
            try:
                await attempt(_NOT_PROCESSED, lambda: self._process_one(entry))
            finally:
                running.pop(entry.id, None)
                slots.subtract(names := (entry.app_id, entry.store))
                if full or not running or any(slots[name] + 1 == _share(name) for name in names):
                    more.set()

        async def claim() -> None:
            nonlocal count, full, rests_until
            now, limit, began = self._now(), min(SHARE, AT_ONCE - len(running)), loop.time()
            busy = [name for name, taken in slots.items() if taken >= _share(name)]
            if busy and began < rests_until:
                loop.call_at(rests_until, more.set)
                return
            entries = await journal_rows.claim(self._database.hot, now, now + purchase_intake.LEASE, limit, busy)
            count, full = count + len(entries), len(entries) == limit
            for entry in entries:
                running[entry.id] = entry
                slots.update((entry.app_id, entry.store))
                tasks.create_task(run(entry))
            if full:
                more.set()
            if busy:
                # It passed over everything that waits of them. That may take a tenth of the time.
                rests_until = began + 10 * (loop.time() - began)

        async with asyncio.TaskGroup() as tasks:
            holding = tasks.create_task(self._hold(running))
            while True:
                more.clear()
                if len(running) < AT_ONCE and not (stop is not None and stop.is_set()):
                    await attempt(_NOT_PROCESSED, claim)
                if not running:
                    break
                await more.wait()
            holding.cancel()
        return count

    async def _process_one(self, entry: JournalEntry) -> None:
        outcome = await self.process(entry)
        if outcome is not None:
            await self._finishing.ask((entry, outcome))

    async def _finish(self, finished: list[tuple[JournalEntry, JournalOutcome]]) -> list[None]:
        await journal_rows.finish(self._database.hot, [outcome for _, outcome in finished], self._now())
        await self._note_found([entry for entry, of in finished if entry.source == "history" and of.event_ids])
        return [None] * len(finished)

    async def _note_found(self, entries: list[JournalEntry]) -> None:
        """The store's history had news that no notification had told. What is older than the credentials is no loss:
        nobody could have told it here."""
        for entry in entries:
            row = await connection_rows.load(self._database.hot, entry.project_id, entry.app_id)
            if row is not None and row.saved_at is not None and entry.occurred_at >= row.saved_at:
                await self._note_healing(entry, healed=True)

    async def _note_healing(self, read: JournalEntry | Handle, *, healed: bool) -> None:
        """The safety net has looked once more."""
        if healed:
            log.info("missing notification made good", store=read.store, app_id=read.app_id)
        await handles.note_healing(self._database.hot, read.project_id, read.app_id, self._now(), healed=healed)

    async def _hold(self, running: Mapping[int, JournalEntry]) -> None:
        def hold() -> Awaitable[None]:
            return journal_rows.hold(self._database.hot, running, self._now() + purchase_intake.LEASE)

        while True:
            await asyncio.sleep(purchase_intake.LEASE / 3000)
            await attempt("notifications not held", hold)

    async def process(self, entry: JournalEntry) -> JournalOutcome | None:
        """What became of one entry; None where it waits to be tried again."""
        try:
            return await self._process(entry)
        except StoreDown as error:
            return await self._again(entry, error.message, error.retry_after_ms)
        except CredentialsRefused as error:
            if (app := await self._connections.of_app(entry.project_id, entry.app_id)) is not None:
                await self._note_check(app, error)
            return await self._again(entry, error.message, None)
        except purchase_intake.ReceiptsFirst as error:
            await self._postpone(entry, error.message, RECEIPTS_TAKE)
            return None
        except PASSING:
            # Nothing was decided. The lease runs out and the entry is due again.
            return None
        except purchase_intake.OwnerErased as error:
            return JournalOutcome(id=entry.id, status="ignored", message=error.message)
        except (StoreError, Refusal) as error:
            return JournalOutcome(id=entry.id, status="failed", message=error.message)
        except Exception:
            log.exception("notification not processed", entry=entry.id, store=entry.store, kind=entry.kind)
            return JournalOutcome(
                id=entry.id, status="failed", message="Processing failed because of a bug; the log has the details."
            )

    async def _process(self, entry: JournalEntry) -> JournalOutcome:
        app, read_at = await self._connections.of_app(entry.project_id, entry.app_id), self._now()
        if app is None:
            return JournalOutcome(id=entry.id, status="failed", message=NO_CREDENTIALS)
        adapter = self._connections.adapters[app.store]
        taker = purchase_intake.Taker(
            self._changes, self._desk, adapter, app, receipts_since=purchase_intake.receipts_since(entry, read_at)
        )
        shown: ShownReceipt | None = None
        if entry.source == "receipt":
            try:
                shown = json.decode(entry.payload, type=ShownReceipt)
            except MsgspecError:
                return JournalOutcome(id=entry.id, status="ignored", message=NOT_KEPT)
            # Processed once more, it proves again what it has proved. Who owns the purchase by now stays its owner.
            taker = replace(
                taker,
                shown_by=shown.app_user_id,
                token=shown.token,
                restores=entry.finished_at is None,
                shown_at=entry.received_at,
                offering=shown.offering,
                product_ids=shown.product_ids,
            )
        try:
            reading = await (adapter.read_receipt(app, shown) if shown else adapter.read(app, entry.payload))
            taken = await taker.take(reading, read_at)
        except (InvalidReceipt, OwnedByAnother) as error:
            if isinstance(error, InvalidReceipt) and not app.proven:
                raise StoreDown(f"{error.message} {NOT_PROVEN}") from error
            if shown is not None:
                await withdraw(self._changes, app, shown)
            return JournalOutcome(id=entry.id, status="ignored", message=error.message)
        if reading.unread is not None:
            raise reading.unread
        if shown is not None:
            await withdraw(self._changes, app, shown)
        if not taken:
            nothing = OF_ANOTHER_APP if reading.seen else "It says nothing about a purchase."
            return JournalOutcome(id=entry.id, status="ignored", message=reading.note or nothing)
        return outcome_of(taken, reading.note if reading.seen else "", id=entry.id)

    async def _again(self, entry: JournalEntry, message: str, retry_after: Ms | None) -> JournalOutcome | None:
        now = self._now()
        if is_given_up(entry.received_at, entry.attempts, now):
            return JournalOutcome(id=entry.id, status="failed", message=message)
        await self._postpone(entry, message, retry_wait(entry.attempts, retry_after))
        return None

    async def _postpone(self, entry: JournalEntry, message: str, wait: Ms) -> None:
        await journal_rows.postpone(self._database.hot, entry.id, message, self._now() + wait)

    async def _note_check(self, app: ConnectedApp, error: CredentialsRefused) -> None:
        log.error("store refuses credentials", project_id=app.project_id, app_id=app.app_id, reason=error.message)
        refused = "refused", error.message, self._now(), False
        await connection_rows.note_check(self._database.hot, app.project_id, app.app_id, app.version, *refused)

    async def check_due(self) -> int:
        """The safety net: read purchases again whose store should have reported by now. Returns how many there were."""
        now = self._now()
        due = await handles.claim_checks(self._database.hot, now, now + 10 * MINUTE, CHECKS_AT_ONCE)
        await asyncio.gather(*(self._check(handle) for handle in due))
        return len(due)

    async def _check(self, handle: Handle) -> None:
        app, read_at = await self._connections.of_app(handle.project_id, handle.app_id), self._now()
        if app is None:
            return await self._check_at(handle, read_at + DAY)
        adapter = self._connections.adapters[app.store]
        try:
            reading = await adapter.read_again(app, handle.handle, handle.environment)
            taken = await purchase_intake.Taker(self._changes, self._desk, adapter, app).take(reading, read_at)
        except CredentialsRefused as error:
            await self._note_check(app, error)
            return await self._check_at(handle, self._now() + HOUR)
        except StoreDown as error:
            wait = max(retry_wait(handle.checks, error.retry_after_ms), MINUTE)
            return await self._check_at(handle, self._now() + wait)
        except (StoreError, Refusal) as error:
            log.warning("purchase not read again", store=handle.store, app_id=handle.app_id, reason=str(error))
            return await self._check_at(handle, None)
        except Exception:
            log.exception("purchase not read again", store=handle.store, app_id=handle.app_id)
            return await self._check_at(handle, self._now() + HOUR)
        if all(purchase.handle != handle.handle for purchase in reading.seen):
            # Nothing more is expected, or the store goes on under another handle: an import knew only an order.
            await self._check_at(handle, None)
        await self._note_healing(handle, healed=any(result.committed.events for result in taken))
        return None

    async def _check_at(self, handle: Handle, at: Ms | None) -> None:
        await handles.set_check(self._database.hot, handle, at)

    async def acknowledge_due(self) -> int:
        now = self._now()
        due = await handles.claim_acknowledgements(self._database.hot, now, now + 10 * MINUTE, CHECKS_AT_ONCE)
        await asyncio.gather(*(self._acknowledge(handle) for handle in due))
        return len(due)

    async def _acknowledge(self, handle: Handle) -> None:
        at: Ms | None = None
        app = await self._connections.of_app(handle.project_id, handle.app_id)
        if app is None:
            at = self._now() + HOUR
        else:
            subscription = handle.kind == "subscription"
            try:
                adapter = self._connections.adapters[app.store]
                await adapter.acknowledge(app, handle.handle, handle.product_id, subscription=subscription)
            except (StoreDown, CredentialsRefused) as error:
                at = self._now() + retry_wait(handle.acknowledge_attempts)
                log.warning("purchase not acknowledged", app_id=handle.app_id, reason=error.message)
            except StoreError as error:
                # The store does not want it any more: it was refunded or has ended.
                log.warning("purchase not acknowledged", app_id=handle.app_id, reason=error.message)
        await handles.set_acknowledge(self._database.hot, handle, at)

    async def read_histories(self) -> int:
        """Compare the stores' histories of notifications with the journal. Returns how many were missing."""
        missing = 0
        for app, row in await self._connections.all_connected():
            try:
                missing += await self._read_history(app, row)
            except (StoreError, *PASSING) as error:
                log.warning(_NOT_READ, app_id=app.app_id, reason=str(error))
            except Exception:
                log.exception(_NOT_READ, app_id=app.app_id)
        return missing

    async def _read_history(self, app: ConnectedApp, row: StoreConnection) -> int:
        """In windows, so that a reading that fails does not begin anew. A window after one with few entries is twice as
        long: most apps need one question for days."""
        now, missing, width = self._now(), 0, HOUR
        since = history_since(row.history_read_to, now)
        if since is None:
            return 0
        while since < now:
            until, found = min(since + width, now), list[NewEntry]()
            try:
                async for notification in self._connections.adapters[app.store].missed(app, since, until):
                    found.append(entry_of(app, notification, "history", now))
                    if len(found) == FILED_AT_ONCE:
                        missing += await self._file(found)
                        found, width = [], 0
            except CredentialsRefused as error:
                await self._note_check(app, error)
                return missing
            missing += await self._file(found)
            await connection_rows.note_history_read(self._database.hot, app.project_id, app.app_id, until)
            since, width = until, 2 * width or HOUR
        if row.check_result != "ok":
            # The store may accept by now what it refused: at Google, permissions take up to a day.
            await note_check(self._connections, app)
        return missing

    async def _file(self, found: list[NewEntry]) -> int:
        return sum(id is not None for id in await file_entries(self._database, found)) if found else 0


def _share(name: str) -> int:
    return 2 * SHARE if name in STORES else SHARE


def outcome_of(taken: tuple[purchase_intake.IntakeResult, ...], note: str = "", *, id: int = 0) -> JournalOutcome:
    """`note` is what the adapter did besides reading, such as answering a question of the store."""
    events = tuple(event.id for result in taken for event in result.committed.events)
    return JournalOutcome(
        id=id,
        status="applied",
        message=note or ("" if events else "Known already: nothing changed."),
        app_user_id=taken[-1].committed.customer.app_user_id if taken else None,
        event_ids=events,
    )


async def run_stores(
    lookout: Lookout,
    processor: Processor,
    database: Database,
    now: Callable[[], Ms],
    kept_days: int,
    stop: asyncio.Event,
) -> None:
    """Until `stop` is set. New notifications are told by the database, everything else is found by the lookout."""
    woken = asyncio.Event()
    chores = [
        asyncio.create_task(_listen(database, woken)),
        asyncio.create_task(_wake(lookout, woken)),
        asyncio.create_task(_wake_at_end(stop, woken)),
        asyncio.create_task(_whenever(lookout, lambda seen: seen.acknowledgement_at, processor.acknowledge_due)),
        asyncio.create_task(_whenever(lookout, lambda seen: seen.check_at, processor.check_due)),
        asyncio.create_task(every(60.0, _FAILED, processor.read_histories)),
        asyncio.create_task(every(600.0, _FAILED, lambda: _prune(database, now(), kept_days))),
    ]
    try:
        while not stop.is_set():
            await attempt(_NOT_PROCESSED, lambda: processor.process_due(woken, stop))
            if not stop.is_set():
                await woken.wait()
    finally:
        await cancel_all(chores)


async def _wake(lookout: Lookout, woken: asyncio.Event) -> None:
    """For notifications that are tried again, and those for which the database's NOTIFY was lost."""
    while await lookout.until(lambda seen: seen.notification_at) is not None:
        woken.set()


async def _wake_at_end(stop: asyncio.Event, woken: asyncio.Event) -> None:
    await stop.wait()
    woken.set()


async def _listen(database: Database, woken: asyncio.Event) -> None:
    while True:
        try:
            async with journal_rows.listening(database, woken.set) as lost:
                woken.set()
                await lost.wait()
        except OutageError:
            await asyncio.sleep(0.5)


async def _whenever(
    lookout: Lookout, due: Callable[[Outlook], Ms | None], work: Callable[[], Awaitable[object]]
) -> None:
    """One batch a second: the stores allow some thousand calls a minute, and notifications come first."""
    while await lookout.until(due) is not None:
        await attempt(_FAILED, work)
        await asyncio.sleep(1.0)


async def _prune(database: Database, now: Ms, kept_days: int) -> None:
    """Old entries, and counts that are neither shown nor compared with a limit any more."""
    while await journal_rows.prune(database, now - kept_days * DAY):
        pass
    await handles.prune_healings(database, now - HEALED_DAYS * DAY)
    await connection_rows.prune_temporary_grants(database, now // HOUR - 1)
    await missing_rates.prune(database, now)
