"""The App Store behind the interface that every store has."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from latchkey.domain.instants import DAY, HOUR, LATEST, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.stores import errors
from latchkey.stores.adapter import (
    ActionTarget,
    AppReceipt,
    ConnectedApp,
    Extension,
    Incoming,
    Notification,
    SeenPurchase,
    StoreReading,
)
from latchkey.stores.apple import connect, credentials, payloads
from latchkey.stores.apple.api import AppStoreApi, Declined, LastTransaction, UnknownTransaction
from latchkey.stores.apple.credentials import AppleCredentials
from latchkey.stores.apple.receipts import is_receipt, open_receipt
from latchkey.stores.apple.snapshots import STORE, Renewal, purchases
from latchkey.stores.http import StoreHttp

LARGEST_BODY = 1024 * 1024
# Apple waits this long for an answer to a consumption request.
_CONSUMPTION_ANSWERED_WITHIN: Ms = 12 * HOUR
_APPS_KEPT = 1024
_NO_CANCELLATION = "Apple lets only the customer cancel: in the subscriptions of their Apple account."
_NO_REFUND = "Apple alone refunds: the customer asks Apple for it."
_MOST_DAYS = 90
# What Apple's refusals mean.
_REFUSALS = {
    4030004: "The subscription cannot be extended as it stands: only one that is active and paid can.",
    4030005: "Apple has extended this subscription twice in the last 365 days, and does not extend it more often.",
    4030007: "A subscription that came by family sharing is extended with the one that was paid.",
}


class _Body(msgspec.Struct):
    signed_payload: str = msgspec.field(name="signedPayload")


@dataclass(frozen=True, slots=True)
class _Connection:
    """What is made from an app's credentials, until they change."""

    credentials: AppleCredentials = field(repr=False)
    opener: payloads.Opener
    api: AppStoreApi


class AppleAdapter:
    store = STORE
    credential_form = credentials.FORM

    def __init__(self, now: Callable[[], Ms], http: StoreHttp | None = None) -> None:
        self._now = now
        self._http = http or StoreHttp("Apple", now)
        self._connection = lru_cache(maxsize=_APPS_KEPT)(self._connect)

    async def check_credentials(self, app: ConnectedApp) -> None:
        """Has Apple send a test notification, and opens it with the root certificates if it is there already. An app
        that is not in the App Store yet is known to the sandbox only."""
        connection = self._connection(app)
        refused: errors.CredentialsRefused | None = None
        for environment in connection.api.environments:
            try:
                token = await connection.api.request_test(environment)
            except errors.CredentialsRefused as error:
                refused = error
                continue
            signed = await connection.api.test_sent(token, environment) if token is not None else None
            if signed is not None:
                _open_own(connection.opener, signed)
            return
        if refused is not None:
            raise refused

    async def products(self, app: ConnectedApp) -> tuple[StoreProduct, ...]:
        return await connect.list_products(self._http, app.credentials, self._now())

    async def verify(self, app: ConnectedApp, incoming: Incoming) -> Notification:
        if len(incoming.body) > LARGEST_BODY:
            raise errors.Malformed("This is too long for a notification of the App Store.")
        wrong = "This is not an App Store Server Notification of version 2: a JSON object with signedPayload."
        signed = errors.read_json(incoming.body, _Body, errors.Malformed(wrong)).signed_payload
        return _journalled(self._connection(app).opener, signed)

    async def read(self, app: ConnectedApp, payload: str) -> StoreReading:
        notice = payloads.reopened(payload)
        note = await self._answered(app, notice)
        if notice.transaction is None:
            return StoreReading(note=note or f"{notice.payload.kind} is about no purchase.")
        about = notice.payload.about
        renewals = []
        if notice.renewal is not None:
            status = about.status if about is not None else None
            renewals.append(Renewal(payloads.shaped(notice.renewal, payloads.RenewalInfo), status))
        transaction = payloads.shaped(notice.transaction, payloads.AppleTransaction)
        return StoreReading(seen=purchases(app.app_id, (transaction,), renewals, complete=False), note=note)

    async def read_receipt(self, app: ConnectedApp, receipt: AppReceipt) -> StoreReading:
        token = (receipt.token or "").strip()
        connection = self._connection(app)
        try:
            if not token and receipt.app_transaction:
                told = connection.opener.app_transaction(receipt.app_transaction.strip())
                version = told.original_application_version
                return StoreReading(note="The app was downloaded; nothing has been bought.", app_version=version)
            if payloads.is_jws(token):
                transaction = connection.opener.transaction(token)
                version = _app_version(connection.opener, receipt.app_transaction)
                seen = purchases(app.app_id, (transaction,), complete=False)
                reading = StoreReading(seen=seen, app_version=version)
                return await self._restored(app, connection, transaction, reading) if receipt.whole else reading
        except (errors.NotAuthentic, payloads.NotSigned, errors.Misdirected) as error:
            raise errors.InvalidReceipt(f"The receipt proves no purchase. {error.message}") from None
        except errors.Malformed as error:
            raise errors.StoreDown(f"Apple signed it in a form that Latchkey cannot read. {error.message}") from None
        if not token:
            raise errors.InvalidReceipt("There is no receipt.")
        return await self._storekit_1(app, connection, token)

    def looks_real(self, receipt: AppReceipt, now: Ms) -> bool:
        """A StoreKit 1 receipt with a purchase in it, or a transaction that has not ended by its own word. Signatures
        are checked before Apple is asked."""
        token = (receipt.token or "").strip()
        if not payloads.is_jws(token):
            return bool(token) and is_receipt(token)
        try:
            told = payloads.shaped(payloads.payload_of(token), payloads.AppleTransaction)
        except errors.Malformed:
            return False
        over = told.revocation_date is not None or (told.expires_date or LATEST) <= now
        return not over and set(receipt.product_ids) == {told.product_id}

    async def read_again(self, app: ConnectedApp, handle: str, environment: Environment) -> StoreReading:
        seen = await self._everything(app, self._connection(app), handle, environment)
        found = tuple(purchase for purchase in seen if purchase.handle == handle)
        return StoreReading(seen=found, note="" if found else "Apple no longer lists this purchase.")

    async def acknowledge(self, app: ConnectedApp, handle: str, product_id: str, *, subscription: bool) -> None:
        """Apple takes nothing back that was not acknowledged; the app finishes its transactions itself."""

    async def cancel(self, app: ConnectedApp, target: ActionTarget) -> None:  # noqa: ARG002 - as every store
        raise errors.ActionRefused(_NO_CANCELLATION)

    async def revoke(self, app: ConnectedApp, target: ActionTarget) -> None:  # noqa: ARG002
        raise errors.ActionRefused(_NO_REFUND)

    async def refund(self, app: ConnectedApp, target: ActionTarget, *, revoke: bool) -> None:  # noqa: ARG002
        raise errors.ActionRefused(_NO_REFUND)

    async def extend(self, app: ConnectedApp, target: ActionTarget, extension: Extension) -> None:
        days = _days(target, extension)
        body = {"extendByDays": days, "extendReasonCode": extension.reason, "requestIdentifier": str(uuid4())}
        try:
            await self._connection(app).api.extend(target.handle, body, target.environment)
        except UnknownTransaction as error:
            raise errors.ActionRefused(error.message) from None
        except Declined as declined:
            if not declined.code:
                # Not an answer in Apple's form: nobody knows.
                raise
            raise errors.ActionRefused(_REFUSALS.get(declined.code, declined.message)) from None

    async def missed(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[Notification]:
        connection = self._connection(app)
        refused: list[errors.CredentialsRefused] = []
        for environment in connection.api.environments:
            try:
                async for signed in connection.api.notifications(since, until, environment):
                    try:
                        yield _journalled(connection.opener, signed)
                    except (errors.Misdirected, errors.Malformed):
                        # Refused when it was sent, for the same reason.
                        continue
                    except errors.NotAuthentic as error:
                        raise _wrong_roots(error) from None
            except errors.CredentialsRefused as error:
                # Production knows nothing of an app that is not in the App Store yet.
                refused.append(error)
        if len(refused) == len(connection.api.environments):
            raise refused[0]

    async def close(self) -> None:
        await self._http.close()

    def _connect(self, app: ConnectedApp) -> _Connection:
        api = AppStoreApi(self._http, app.credentials, self._now)
        return _Connection(app.credentials, payloads.Opener(app.credentials), api)

    async def _answered(self, app: ConnectedApp, notice: payloads.OpenedNotification) -> str:
        """Answers a consumption request where that is set up. Says what was done."""
        payload, transaction = notice.payload, notice.transaction
        if payload.notification_type != "CONSUMPTION_REQUEST" or transaction is None:
            return ""
        connection = self._connection(app)
        consumption = connection.credentials.consumption
        if consumption is None:
            return "Apple asks how far the purchase was used. No answer is set up."
        if self._now() - payload.signed_date > _CONSUMPTION_ANSWERED_WITHIN:
            return "Apple asked how far the purchase was used, too long ago for an answer."
        try:
            id = payloads.shaped(transaction, payloads.AppleTransaction).transaction_id
            await connection.api.answer_consumption(id, consumption.body(), notice.environment)
        except (Declined, UnknownTransaction) as error:
            return f"The answer to Apple's question how far the purchase was used was not taken. {error.message}"
        return "Apple was told how far the purchase was used."

    async def _restored(
        self, app: ConnectedApp, connection: _Connection, shown: payloads.AppleTransaction, reading: StoreReading
    ) -> StoreReading:
        """StoreKit 2 shows one transaction when a customer restores, and leaves the others to the server."""
        id, environment = shown.transaction_id, reading.seen[0].snapshot.environment
        try:
            return replace(reading, seen=await self._everything(app, connection, id, environment, shown))
        except errors.StoreError as error:
            return replace(reading, unread=error)

    async def _storekit_1(self, app: ConnectedApp, connection: _Connection, token: str) -> StoreReading:
        # In a thread: a receipt may have megabytes, and whoever sends it is not known.
        opened = await asyncio.to_thread(open_receipt, token, connection.credentials.root_certificates)
        if opened.bundle_id != connection.credentials.bundle_id:
            raise errors.InvalidReceipt("The receipt proves no purchase. It is from another app.")
        if opened.transaction_id is None:
            return StoreReading(note="The receipt lists no purchase.")
        refused: list[UnknownTransaction | Declined | errors.CredentialsRefused] = []
        for environment in connection.api.environments:
            try:
                return StoreReading(seen=await self._everything(app, connection, opened.transaction_id, environment))
            except (UnknownTransaction, Declined, errors.CredentialsRefused) as error:
                refused.append(error)
        # An app that is not in the App Store yet is refused by production. Only if nobody takes the key it is no good.
        nobody = all(isinstance(one, errors.CredentialsRefused) for one in refused)
        kind = errors.CredentialsRefused if nobody else errors.StoreDown
        raise kind(f"Apple does not say what the receipt is worth. {' '.join(one.message for one in refused)}")

    async def _everything(
        self,
        app: ConnectedApp,
        connection: _Connection,
        transaction_id: str,
        environment: Environment,
        shown: payloads.AppleTransaction | None = None,
    ) -> tuple[SeenPurchase, ...]:
        """All purchases of the customer who made this transaction. The history is read first: what happens between the
        two requests is then in the second answer."""
        signed = await connection.api.history(transaction_id, environment)
        try:
            transactions = [connection.opener.transaction(one) for one in signed]
            if shown is not None:
                # Consumables are used up by now: an app sends each one before it finishes it.
                transactions = [shown, *(one for one in transactions if one.type != payloads.CONSUMABLE)]
            last: list[LastTransaction] = []
            if any(transaction.is_subscription for transaction in transactions):
                last = await connection.api.statuses(transaction_id, environment)
            transactions += [connection.opener.transaction(one.signed_transaction_info) for one in last]
            renewals = [Renewal(connection.opener.renewal(one.signed_renewal_info), one.status) for one in last]
        except errors.NotAuthentic as error:
            raise _wrong_roots(error) from None
        except (errors.Misdirected, errors.Malformed) as error:
            raise errors.StoreDown(f"Apple answered something unexpected. {error.message}") from None
        return purchases(app.app_id, transactions, renewals, complete=True)


def _days(target: ActionTarget, extension: Extension) -> int:
    if not target.subscription or target.ends_at is None:
        raise errors.ActionRefused("Only a subscription that renews can be extended.")
    by = extension.by if extension.by is not None else (extension.until or 0) - target.ends_at
    days, rest = divmod(by, DAY)
    if rest or not 1 <= days <= _MOST_DAYS:
        raise errors.ActionRefused(f"Apple extends a subscription by whole days, from 1 to {_MOST_DAYS}.")
    return days


def _journalled(opener: payloads.Opener, signed: str) -> Notification:
    notice = opener.notification(signed)
    payload, transaction = notice.payload, notice.transaction
    subject = None
    if transaction is not None:
        try:
            subject = payloads.shaped(transaction, payloads.AppleTransaction).handle
        except errors.Malformed:
            # It is authentic, so it is kept. Processing will say what is wrong with it.
            subject = None
    about = payload.about
    return Notification(
        external_id=payload.notification_uuid,
        kind=payload.kind,
        environment=notice.environment,
        occurred_at=payload.signed_date,
        subject=subject,
        payload=signed,
        checked={
            "signature": "valid, under a root certificate of the credentials",
            "bundle_id": about.bundle_id if about is not None else "",
            "app_apple_id": str(about.app_apple_id) if about is not None and about.app_apple_id else "not told",
            "environment": notice.environment.value,
        },
    )


def _open_own(opener: payloads.Opener, signed: str) -> None:
    """What Apple's own server gave out must open with the credentials."""
    try:
        opener.notification(signed)
    except errors.NotAuthentic as error:
        raise _wrong_roots(error) from None
    except errors.Misdirected as error:
        raise errors.CredentialsRefused(f"Apple knows another app by this key. {error.message}") from None
    except errors.Malformed as error:
        raise errors.StoreDown(f"Apple answered something unexpected. {error.message}") from None


def _app_version(opener: payloads.Opener, signed: str | None) -> str | None:
    """The version that an app transaction beside a receipt tells. A wrong one is no reason to refuse the receipt."""
    try:
        return opener.app_transaction(signed.strip()).original_application_version if signed else None
    except (errors.NotAuthentic, errors.Misdirected, errors.Malformed):
        return None


def _wrong_roots(error: errors.NotAuthentic) -> errors.CredentialsRefused:
    return errors.CredentialsRefused(f"root_certificates do not fit what Apple signs. {error.message}")
