"""A receipt of a real store, shown by a phone: journalled, checked with the store, and taken in for whoever shows it.

A purchase is never lost here: what cannot be checked now stays in the journal and is processed later. And none is given
away: only what the store vouches for becomes a purchase. While a connected store does not answer, a receipt of the
right form gives temporary access, within limits; an answer that cannot be used gives none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from latchkey.domain.customers.customer import Attribute, Customer, not_later_than, with_attributes
from latchkey.domain.instants import HOUR, Ms
from latchkey.domain.refusal import OwnedByAnother, Refusal
from latchkey.domain.stores.waits import RECEIPT_ANSWERED_WITHIN, retry_wait
from latchkey.storage.stores import connections as storage
from latchkey.storage.stores import journal
from latchkey.storage.stores.journal import Outcome
from latchkey.stores import errors
from latchkey.stores.adapter import ConnectedApp, Reading
from latchkey.usecases.customers.receipts import CannotCheck, InvalidReceipt
from latchkey.usecases.engine.changes import Change, Changes, Committed, Situation, unchanged
from latchkey.usecases.stores.connections import Connections
from latchkey.usecases.stores.desk import Desk
from latchkey.usecases.stores.incoming import file_entries
from latchkey.usecases.stores.processing import NO_CREDENTIALS, NOT_PROVEN, outcome_of
from latchkey.usecases.stores.receipt_limit import ReceiptLimit
from latchkey.usecases.stores.shown import ShownReceipt
from latchkey.usecases.stores.stand_ins import give
from latchkey.usecases.stores.taking import Taker

NOT_NOW = "The store cannot be asked now. Keep the purchase, and send it again later."


@dataclass(frozen=True, slots=True)
class TemporaryGrants:
    """What may be given while a store cannot be asked."""

    enabled: bool = True
    # At most this many for one app in one hour.
    per_hour: int = 100


@dataclass(frozen=True, slots=True)
class Answered:
    committed: Committed
    # By product: whether the app should use up what was bought.
    consume: Mapping[str, bool]


class Receipts:
    def __init__(
        self, connections: Connections, changes: Changes, grants: TemporaryGrants, limit: ReceiptLimit
    ) -> None:
        self._connections = connections
        self._changes = changes
        self._desk = Desk(connections.database)
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
    ) -> Answered:
        """`address` is the phone's, if one sent it: only so much of what it sends is kept without the store's word."""
        now = self._connections.now()
        attributes = not_later_than(now, attributes)
        entry = shown.entry(project_id, app_id, store, now, next_at=now + RECEIPT_ANSWERED_WITHIN)
        size = len(entry.payload)
        kept = address is None or self._limit.keeps(app_id, address, size, now)
        [id] = await file_entries(self._connections.database, [entry]) if kept else [None]
        known = await self._connections.of_app(project_id, app_id)
        if known is None or known.connected is None:
            await self._finish(id, Outcome(id=id or 0, status="failed", message=NO_CREDENTIALS))
            raise CannotCheck(
                "This app is not connected to its store: credentials are missing. Keep the purchase, and send it again."
            )
        app = known.connected
        adapter = self._connections.adapters[app.store]
        try:
            reading = await adapter.read_receipt(app, shown.receipt)
            taker = Taker(
                self._changes,
                self._desk,
                adapter,
                app,
                shown_by=shown.app_user_id,
                attributes=dict(attributes),
                offering=shown.offering,
                product_ids=shown.product_ids,
            )
            taken = await taker.take(reading, now)
        except errors.InvalidReceipt as error:
            if not known.proven:
                # The receipt does not fit the credentials, and the store has not accepted those either.
                await self._postpone(id, f"{error.message} {NOT_PROVEN}")
                raise CannotCheck(NOT_NOW) from error
            await self._finish(id, Outcome(id=id or 0, status="ignored", message=error.message))
            raise InvalidReceipt(error.message, param="fetch_token") from error
        except OwnedByAnother as error:
            await self._finish(id, Outcome(id=id or 0, status="ignored", message=error.message))
            raise
        except Refusal as error:
            await self._finish(id, Outcome(id=id or 0, status="failed", message=error.message))
            raise
        except errors.StoreError as error:
            await self._postpone(id, error.message)
            if not kept:
                # The phone has the only copy.
                raise CannotCheck(NOT_NOW) from error
            return await self._meanwhile(app, shown, attributes, error, proven=known.proven)
        if not kept:
            [id] = await file_entries(self._connections.database, [entry])
        elif address is not None:
            self._limit.verified(app_id, address, size, now)
        if not taken:
            await self._finish(id, Outcome(id=id or 0, status="ignored", message=reading.note))
            return Answered(await self._noted(project_id, shown.app_user_id, attributes, reading), {})
        await self._finish(id, outcome_of(id or 0, taken))
        committed = taken[-1].committed
        if reading.app_version not in (None, committed.customer.original_application_version):
            committed = await self._noted(project_id, shown.app_user_id, attributes, reading)
        return Answered(committed, {product: consume for one in taken for product, consume in one.consume})

    async def _meanwhile(
        self,
        app: ConnectedApp,
        shown: ShownReceipt,
        attributes: Mapping[str, Attribute],
        error: errors.StoreError,
        *,
        proven: bool,
    ) -> Answered:
        """The store cannot be asked. Access for a day at most, if this may be real and the limits allow it."""
        adapter = self._connections.adapters[app.store]
        now = self._connections.now()
        may = self._grants.enabled and isinstance(error, errors.NoAnswer) and adapter.looks_real(shown.receipt, now)
        if not may or not proven or not shown.product_ids:
            raise CannotCheck(NOT_NOW) from error
        async with self._connections.database.at_hand() as connection:
            others = await journal.shown_by_another(connection, app.project_id, shown.subject, shown.app_user_id)
        # One token, one customer: a token that somebody else has shown may be copied.
        if others or not await self._within_cap(app, now):
            raise CannotCheck(NOT_NOW) from error
        return Answered(await give(self._changes, app, shown, attributes), {})

    async def _within_cap(self, app: ConnectedApp, now: Ms) -> bool:
        async with self._connections.database.at_hand() as connection:
            return await storage.take_temporary_grant(
                connection, app.project_id, app.app_id, now // HOUR, self._grants.per_hour
            )

    async def _noted(
        self, project_id: str, app_user_id: str, attributes: Mapping[str, Attribute], reading: Reading
    ) -> Committed:
        def noted(situation: Situation) -> Customer:
            customer = with_attributes(unchanged(situation), attributes)
            version = reading.app_version or customer.original_application_version
            return replace(customer, original_application_version=version)

        return await self._changes.make(
            Change(project_id=project_id, app_user_id=app_user_id, apply=noted, create=True)
        )

    async def _finish(self, id: int | None, outcome: Outcome) -> None:
        if id is not None:
            async with self._connections.database.at_hand() as connection:
                await journal.finish(connection, [outcome], self._connections.now())

    async def _postpone(self, id: int | None, message: str) -> None:
        if id is not None:
            async with self._connections.database.at_hand() as connection:
                await journal.postpone(connection, id, message, self._connections.now() + retry_wait(1))
