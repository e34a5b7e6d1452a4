"""Limits on receipts that no shared key has to pay for: by address, and by user from that address, in each process.

All phones of an app share one public key, so the key is no measure. The user's own count includes the address, or
anybody who knows a user's id could use up that user's receipts. Whoever is over a limit gets 503: a phone keeps its
purchase and tries again, and what does not stop does not fill the journal. Nor does what nobody has verified: the
journal takes so many bytes of it for each app and address in a day. Beyond that a receipt is kept only if the store
vouches for it.

A receipt is filed in the journal once, with what became of it. One that is to be tried again is filed before the phone
is answered; one that was dealt with is filed in the same second, with others. A phone that gets no answer, because a
process has died, sends it again.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

import structlog
from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.customers.customer import Attribute, Customer, LastSeen, not_later_than, with_shown_attributes
from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.domain.refusal import OwnedByAnother, Refusal
from latchkey.domain.stores.waits import retry_wait
from latchkey.engine.changes import Change, Changes, Committed, Situation, unchanged
from latchkey.engine.rate_limits import RecentCounts
from latchkey.stores import errors
from latchkey.stores.adapter import ConnectedApp, StoreReading
from latchkey.subjects.purchase_intake.rules import JournalOutcome, NewEntry, Status
from latchkey.subjects.purchase_intake.storage import connection_rows, journal_rows
from latchkey.subjects.purchase_intake.usecases.app_receipts import CannotCheck, RejectedReceipt, ShownReceipt, give
from latchkey.subjects.purchase_intake.usecases.batched_lookups import BatchedLookups
from latchkey.subjects.purchase_intake.usecases.journal import filing
from latchkey.subjects.purchase_intake.usecases.notifications import NO_CREDENTIALS, NOT_PROVEN, outcome_of
from latchkey.subjects.purchase_intake.usecases.purchase_intake import IntakeResult, Taker
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections

log = structlog.get_logger()

# A phone that restores shows every purchase it holds, each on its own.
PER_USER = 120
# Many phones share an address behind a carrier's or an office's gateway.
PER_ADDRESS = 600
# What an entry of the journal takes beside the receipt.
_ROW = 1_000
# Seconds between two statements that file what was dealt with.
_FILED_EVERY = 0.25


class ReceiptLimit:
    def __init__(self, unverified_bytes: int, per_user: int = PER_USER, per_address: int = PER_ADDRESS) -> None:
        self._unverified_bytes = unverified_bytes
        self._per_user = per_user
        self._per_address = per_address
        self._counts = RecentCounts()
        self._unverified = RecentCounts(span=DAY)

    def takes(self, project_id: str, app_user_id: str, address: str, now: Ms) -> bool:
        """Count a receipt. False: one of the two limits is used up in this minute."""
        who = (address, project_id, app_user_id)
        return self._counts.within(now, (who, self._per_user), (address, self._per_address))

    def keeps(self, app_id: str, address: str, size: int, now: Ms) -> bool:
        """Count a receipt of this size that nobody has verified. False: it must not be kept."""
        who, amount = (app_id, address), size + _ROW
        if self._unverified.count(who, now, amount) <= self._unverified_bytes:
            return True
        self._unverified.count(who, now, -amount)
        return False


class TemporaryGrants(Struct, frozen=True):
    """What may be given while a store cannot be asked."""

    enabled: bool = True
    # At most this many for one app in one hour.
    per_hour: int = 100


class Receipts:
    def __init__(
        self, connections: Connections, changes: Changes, grants: TemporaryGrants, limit: ReceiptLimit
    ) -> None:
        self._connections = connections
        self._changes = changes
        self._desk = BatchedLookups(connections.database)
        self._filing = filing(connections.database)
        self._finished = filing(connections.database, apart=_FILED_EVERY)
        self._grants = grants
        self._limit = limit

    async def take(
        self,
        project_id: str,
        app_id: str,
        store: str,
        shown: ShownReceipt,
        attributes: Mapping[str, Attribute],
        address: str | None = None,
        seen: LastSeen | None = None,
    ) -> IntakeResult:
        """`address` is the phone's, if one sent it: only so much of what it sends is kept without the store's word.
        `seen`: where its user was seen with it."""
        now = self._connections.now()
        attributes = not_later_than(now, attributes)
        entry = shown.entry(project_id, app_id, store, now)
        unverified = partial(self._file_unverified, entry, address)
        app = await self._connections.of_app(project_id, app_id)
        if app is None:
            await unverified("failed", NO_CREDENTIALS)
            raise CannotCheck(
                "This app is not connected to its store: credentials are missing. Keep the purchase, and send it again."
            )
        adapter = self._connections.adapters[app.store]
        try:
            reading = await adapter.read_receipt(app, shown)
            taker = Taker(
                self._changes,
                self._desk,
                adapter,
                app,
                shown_by=shown.app_user_id,
                token=shown.token,
                attributes=dict(attributes),
                offering=shown.offering,
                product_ids=shown.product_ids,
                app_version=reading.app_version,
                seen=seen,
            )
            taken = await taker.take(reading, now)
        except errors.InvalidReceipt as error:
            if not app.proven:
                # The receipt does not fit the credentials, and the store has not accepted those either.
                await unverified("waiting", f"{error.message} {NOT_PROVEN}")
                raise CannotCheck from error
            await unverified("ignored", error.message)
            raise RejectedReceipt(error.message, param="fetch_token") from error
        except Refusal as error:
            await unverified("ignored" if isinstance(error, OwnedByAnother) else "failed", error.message)
            raise
        except errors.StoreError as error:
            if not await unverified("waiting", error.message):
                # The phone has the only copy.
                raise CannotCheck from error
            return await self._meanwhile(app, shown, attributes, error)
        except Exception:
            # Nobody knows what it is worth: the background tries again, and says what is wrong.
            await unverified("waiting", "")
            raise
        if reading.unread is None:
            self._file(entry, outcome_of(taken) if taken else JournalOutcome(status="ignored", message=reading.note))
        elif not await unverified("waiting", reading.unread.message):
            raise CannotCheck from reading.unread
        if not taken:
            return IntakeResult(await self._noted(project_id, shown.app_user_id, attributes, reading), {})
        consume = {product: used_up for result in taken for product, used_up in result.consume.items()}
        return IntakeResult(taken[-1].committed, consume)

    async def _meanwhile(
        self, app: ConnectedApp, shown: ShownReceipt, attributes: Mapping[str, Attribute], error: errors.StoreError
    ) -> IntakeResult:
        """The store cannot be asked. Access for a day at most, if this may be real and the limits allow it."""
        adapter = self._connections.adapters[app.store]
        now = self._connections.now()
        most = self._grants.per_hour if self._grants.enabled else 0
        may = most > 0 and isinstance(error, errors.NoAnswer) and adapter.looks_real(shown, now)
        if not may or not app.proven or not shown.product_ids:
            raise CannotCheck from error
        hot, project = self._connections.database.hot, app.project_id
        # One token, one customer: a token that somebody else has shown may be copied.
        if await journal_rows.shown_by_another(hot, project, shown.subject, shown.app_user_id):
            raise CannotCheck from error
        count = partial(connection_rows.take_temporary_grant, hot, project, app.app_id, now // HOUR, most)
        return IntakeResult(await give(self._changes, app, shown, attributes, count), {})

    async def _noted(
        self, project_id: str, app_user_id: str, attributes: Mapping[str, Attribute], reading: StoreReading
    ) -> Committed:
        def noted(situation: Situation) -> Customer:
            customer = with_shown_attributes(unchanged(situation), attributes)
            version = reading.app_version or customer.original_application_version
            return replace(customer, original_application_version=version)

        return await self._changes.make(
            Change(project_id=project_id, app_user_id=app_user_id, apply=noted, create=True)
        )

    async def _file_unverified(self, entry: NewEntry, address: str | None, status: Status, message: str) -> bool:
        """False: it was not kept, because the address has used up its budget."""
        if address is not None and not self._limit.keeps(entry.app_id, address, len(entry.payload), entry.received_at):
            return False
        await self._filing.ask(self._filed(entry, JournalOutcome(status=status, message=message)))
        return True

    def _file(self, entry: NewEntry, outcome: JournalOutcome) -> None:
        def check(filing: asyncio.Future[int | None]) -> None:
            if not filing.cancelled() and (error := filing.exception()) is not None:
                log.warning("receipt not in the journal", app_id=entry.app_id, reason=str(error))

        self._finished.ask(self._filed(entry, outcome)).add_done_callback(check)

    def _filed(self, entry: NewEntry, outcome: JournalOutcome) -> NewEntry:
        now = self._connections.now()
        waits = outcome.status == "waiting"
        return replace(
            entry,
            status=outcome.status,
            message=outcome.message,
            app_user_id=outcome.app_user_id or entry.app_user_id,
            event_ids=outcome.event_ids,
            next_at=now + retry_wait(1) if waits else now,
            finished_at=None if waits else now,
        )

    async def drain(self) -> None:
        await self._finished.drain()
