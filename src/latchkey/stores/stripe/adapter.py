"""Stripe Billing behind the interface of all stores. A notification or a receipt only says where to look: how things
stand is always read from Stripe's API, in one pinned version."""

import hmac
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

from msgspec import structs

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.store import STRIPE
from latchkey.stores.adapter import (
    ActionTarget,
    AppReceipt,
    ConnectedApp,
    Extension,
    Incoming,
    Notification,
    StoreReading,
)
from latchkey.stores.errors import InvalidReceipt, Malformed, Misdirected
from latchkey.stores.http import StoreHttp
from latchkey.stores.selling import BegunCheckout, CheckoutOrder, Confirmation, PaymentForm, Sale
from latchkey.stores.stripe import checkout, credentials, notification, subscription
from latchkey.stores.stripe.actions import StripeActions
from latchkey.stores.stripe.api import StripeApi, UnknownObject
from latchkey.stores.stripe.reading import StripeReader
from latchkey.stores.stripe.refunds import gone_back
from latchkey.stores.stripe.resources import CheckoutSession
from latchkey.stores.stripe.selling import Selling
from latchkey.stores.stripe.sold import OFFERED_KEY, OFFERING_KEY, SELLER_KEY

STORE = STRIPE

# How the ids of items begin.
_IMPORTED = "si_"
_RECEIPT = re.compile(r"(sub|cs)_[A-Za-z0-9_]{8,250}", re.ASCII)
# The client secret of a payment that was sold in a form of a web page: only its buyer and Stripe know it. Its id alone
# is no receipt, because V1 shows it.
_PAYMENT = re.compile(r"(pi_[A-Za-z0-9]{8,100})_secret_[A-Za-z0-9]{8,200}", re.ASCII)
# Stripe lists its events for 30 days.
_LISTED_FOR: Ms = 30 * DAY - 60_000
_UNKNOWN = "Stripe knows no such object in this account and mode."


class StripeAdapter:
    credential_form = credentials.FORM

    def __init__(self, now: Callable[[], Ms], http: StoreHttp | None = None, *, store: str = STORE) -> None:
        self.store = store
        self._now = now
        self.api = StripeApi(http or StoreHttp("Stripe", now))
        self._reader = StripeReader(self.api)
        self._acting = StripeActions(self.api, self._reader)
        self._selling = Selling(self.api, hosted=store == STORE)

    async def check_credentials(self, app: ConnectedApp) -> None:
        await self._reader.check(app)

    async def verify(self, app: ConnectedApp, incoming: Incoming) -> Notification:
        return notification.verify(app.credentials, incoming)

    async def read(self, app: ConnectedApp, payload: str) -> StoreReading:
        told = notification.decode(payload)
        try:
            if told.subscription is not None:
                return await self._subscription(app, told.subscription, told_at=told.created * 1000)
            if told.session is not None:
                return await self._session(app, told.session)
            if told.charge is not None or told.payment_intent is not None:
                return await self._payment(app, told)
        except UnknownObject:
            return StoreReading(note=_UNKNOWN)
        return StoreReading(note="An event about no purchase.")

    async def read_receipt(self, app: ConnectedApp, receipt: AppReceipt) -> StoreReading:
        token = receipt.token
        payment = _PAYMENT.fullmatch(token or "")
        if token is None or (_RECEIPT.fullmatch(token) is None and payment is None):
            raise InvalidReceipt("The receipt is not the id of a subscription (sub_…) or a checkout session (cs_…).")
        try:
            if payment is not None:
                return await self._sold(app, payment[1], secret=token)
            return await self._named(app, token)
        except UnknownObject:
            raise InvalidReceipt("Stripe knows no such purchase in this account and mode.") from None

    def looks_real(self, receipt: AppReceipt, now: Ms) -> bool:  # noqa: ARG002 - as every store
        return receipt.token is not None and _RECEIPT.fullmatch(receipt.token) is not None

    async def read_again(
        self,
        app: ConnectedApp,
        handle: str,
        environment: Environment,  # noqa: ARG002 - the key has only one mode
    ) -> StoreReading:
        try:
            if handle.startswith(_IMPORTED):
                return await self._imported(app, handle)
            return await self._named(app, handle.partition(subscription.ITEM)[0], whole=True)
        except UnknownObject:
            return StoreReading(note=_UNKNOWN)

    async def acknowledge(self, app: ConnectedApp, handle: str, product_id: str, *, subscription: bool) -> None:
        """Stripe waits for no acknowledgement."""

    async def cancel(self, app: ConnectedApp, target: ActionTarget) -> None:
        await self._acting.cancel(app, target)

    async def revoke(self, app: ConnectedApp, target: ActionTarget) -> None:
        await self._acting.revoke(app, target)

    async def refund(self, app: ConnectedApp, target: ActionTarget, *, revoke: bool) -> None:
        await self._acting.refund(app, target, revoke=revoke)

    async def extend(self, app: ConnectedApp, target: ActionTarget, extension: Extension) -> None:
        await self._acting.extend(app, target, extension)

    async def missed(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[Notification]:
        async for event in self._reader.events(app, max(since, until - _LISTED_FOR), until):
            try:
                yield notification.notification(app.credentials, event, {"source": "Stripe's list of events"})
            except (Malformed, Misdirected):
                continue

    # What `Sells` asks for.

    async def payment_form(self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None) -> PaymentForm:
        return await self._selling.payment_form(app, order, account_id)

    async def begin_sale(self, app: ConnectedApp, order: CheckoutOrder, account_id: str | None) -> BegunCheckout:
        return await self._selling.begin_sale(app, order, account_id)

    async def confirm_sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str | None) -> Confirmation:
        return await self._selling.confirm_sale(app, order, handle)

    async def sale(self, app: ConnectedApp, order: CheckoutOrder, handle: str) -> Sale:
        return await self._selling.sale(app, order, handle)

    async def close(self) -> None:
        await self.api.close()

    async def _named(self, app: ConnectedApp, id: str, *, whole: bool = False) -> StoreReading:
        if id.startswith("pi_"):
            return await self._sold(app, id)
        return await (self._subscription(app, id, whole=whole) if id.startswith("sub_") else self._session(app, id))

    async def _imported(self, app: ConnectedApp, item_id: str) -> StoreReading:
        """An import knew a subscription by its item only. It goes on under that id, and is asked about by its own."""
        found = await self._reader.subscription_of_item(app, item_id)
        reading = await self._subscription(app, found, whole=True)
        by_item = {one.imported_as: one for one in reading.seen}
        seen = by_item.get(item_id) or next((one for one in reading.seen if one.handle == found), None)
        if seen is None or not isinstance(seen.snapshot, Subscription):
            return replace(reading, seen=())
        return replace(reading, seen=(replace(seen, snapshot=structs.replace(seen.snapshot, id=item_id)),))

    async def _subscription(
        self, app: ConnectedApp, id: str, *, whole: bool = False, told_at: Ms | None = None
    ) -> StoreReading:
        found = await self._reader.subscription(app, id)
        around = await self._reader.around(app, found, whole=whole, told_at=told_at, read_at=self._now())
        return _with_sale(subscription.read(app.app_id, self.store, found, around), found.metadata)

    async def _session(self, app: ConnectedApp, id: str) -> StoreReading:
        session = await self._reader.session(app, id)
        if session.subscription is not None:
            return await self._subscription(app, session.subscription)
        return await self._paid(app, session)

    async def _sold(self, app: ConnectedApp, payment_intent: str, secret: str | None = None) -> StoreReading:
        """A payment without a checkout session: it was sold in a form of a web page, or it is nothing of ours."""
        intent = await self._reader.intent(app, payment_intent)
        if secret is not None and not hmac.compare_digest(intent.client_secret or "", secret):
            raise UnknownObject("The payment has another client secret.")
        session = checkout.session_of(intent)
        if session is None:
            return StoreReading(note="The payment was neither for a subscription nor at checkout.")
        return await self._paid(app, session)

    async def _paid(self, app: ConnectedApp, session: CheckoutSession) -> StoreReading:
        if note := checkout.why_nothing_follows(session):
            return StoreReading(note=note)
        paid = session.payment_intent
        charges = await self._reader.charges_of(app, paid) if paid is not None else ()
        back = gone_back(charges, await self._reader.disputes(app, charges))
        account = checkout.account_of(session, app.credentials.user_id_metadata_key)
        reading = checkout.read(app.app_id, self.store, session, charges, back, account)
        return _with_sale(reading, session.metadata or {})

    async def _payment(self, app: ConnectedApp, told: notification.StripeNotification) -> StoreReading:
        """What a refunded or disputed payment was for."""
        found = await self._reader.paid_subscription(app, told.charge, told.payment_intent)
        if found is not None:
            return await self._subscription(app, found)
        session = (
            await self._reader.session_of_payment(app, told.payment_intent) if told.payment_intent is not None else None
        )
        if session is not None:
            return await self._session(app, session)
        if told.payment_intent is not None:
            return await self._sold(app, told.payment_intent)
        return StoreReading(note="The payment was neither for a subscription nor at checkout.")


def _with_sale(reading: StoreReading, metadata: Mapping[str, str]) -> StoreReading:
    """With what our own checkout wrote to the metadata."""
    seller = metadata.get(SELLER_KEY)
    if not seller:
        return reading
    offering, offered = metadata.get(OFFERING_KEY), metadata.get(OFFERED_KEY)
    products = (offered,) if offered else ()
    seen = tuple(replace(one, sold_by=seller, offering=offering, offered=products) for one in reading.seen)
    return replace(reading, seen=seen)
