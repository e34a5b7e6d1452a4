"""Stripe Billing behind the interface of all stores. A notification or a receipt only says where to look: how things
stand is always read from Stripe's API, in one pinned version."""

import hmac
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from msgspec.structs import replace

from latchkey.domain.catalog import ListedPrice, ProductType
from latchkey.domain.instants import DAY, Duration, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.store import STRIPE
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.stores.adapter import (
    ActionTarget,
    AppReceipt,
    ConnectedApp,
    Extension,
    Incoming,
    Notification,
    StoreReading,
)
from latchkey.stores.errors import ActionRefused, InvalidReceipt, Malformed, Misdirected
from latchkey.stores.http import StoreHttp, in_path
from latchkey.stores.stripe import checkout, credentials, notification, subscription
from latchkey.stores.stripe.amounts import gone_back
from latchkey.stores.stripe.api import StripeApi, UnknownObject
from latchkey.stores.stripe.reading import StripeReader
from latchkey.stores.stripe.resources import CheckoutSession, ItemOfSubscription, StripeSubscription
from latchkey.stores.stripe.selling import OFFERED_KEY, OFFERING_KEY, SELLER_KEY, Selling, SoldPrice

STORE = STRIPE

# How the ids of items begin.
_IMPORTED = "si_"
_RECEIPT = re.compile(r"(sub|cs)_[A-Za-z0-9_]{8,250}", re.ASCII)
# The client secret of a payment that was sold in a form of a web page: only its buyer and Stripe know it. Its id alone
# is no receipt, because V1 shows it.
_PAYMENT = re.compile(r"(pi_[A-Za-z0-9]{8,100})_secret_[A-Za-z0-9]{8,200}", re.ASCII)
# Stripe lists its events for 30 days.
_LISTED_FOR: Ms = 30 * DAY - 60_000
# Stripe takes a trial of this length at most.
_LONGEST_EXTENSION: Ms = 730 * DAY
_UNKNOWN = "Stripe knows no such object in this account and mode."
_NO_SALE = "The payment was neither for a subscription nor at checkout."


class StripeAdapter(Selling):
    credential_form = credentials.FORM

    def __init__(self, now: Callable[[], Ms], http: StoreHttp | None = None, *, store: str = STORE) -> None:
        self.store = store
        self._now = now
        super().__init__(StripeApi(http or StoreHttp("Stripe", now)), hosted=store == STORE)
        self._reader = StripeReader(self.api)

    async def check_credentials(self, app: ConnectedApp) -> None:
        await self._reader.check(app)

    async def products(self, app: ConnectedApp) -> tuple[StoreProduct, ...]:
        """Each price of a product is a product of the catalog, as purchases name it."""
        return tuple(map(_sold, await self._reader.everything(app, "prices", SoldPrice, expand=["data.product"])))

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
                return await self._refunded(app, told)
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

    async def read_again(self, app: ConnectedApp, handle: str, environment: Environment) -> StoreReading:  # noqa: ARG002 - the key has only one mode
        try:
            if handle.startswith(_IMPORTED):
                return await self._imported(app, handle)
            return await self._named(app, _subscription_of(handle), whole=True)
        except UnknownObject:
            return StoreReading(note=_UNKNOWN)

    async def acknowledge(self, app: ConnectedApp, handle: str, product_id: str, *, subscription: bool) -> None:
        """Stripe waits for no acknowledgement."""

    async def cancel(self, app: ConnectedApp, target: ActionTarget) -> None:
        found = await self._alone(app, target)
        if not found.cancel_at_period_end:
            await self.api.act(app, "post", f"subscriptions/{found.id}", cancel_at_period_end=True)

    async def revoke(self, app: ConnectedApp, target: ActionTarget) -> None:
        await self._alone(app, target)
        await self.refund(app, target, revoke=True)

    async def refund(self, app: ConnectedApp, target: ActionTarget, *, revoke: bool) -> None:
        payment = await self._refundable(app, target)
        await self.api.act(app, "post", "refunds", **payment)
        if revoke and target.subscription and target.latest:
            await self.api.act(app, "delete", f"subscriptions/{in_path(_subscription_of(target.handle))}")

    async def extend(self, app: ConnectedApp, target: ActionTarget, extension: Extension) -> None:
        """By a trial: Stripe charges nothing until its end, and then begins the next period."""
        found = await self._alone(app, target)
        if found.status not in ("active", "trialing"):
            raise ActionRefused("Stripe extends only a subscription that is active or in its trial.")
        end = found.items.data[0].current_period_end * 1000
        # From the end that the caller knows: whoever asks again because the answer was lost extends once.
        known = target.ends_at if target.ends_at is not None else end
        until = extension.until if extension.until is not None else known + (extension.by or 0)
        if until == end and until > known:
            return
        if not end < until <= end + _LONGEST_EXTENSION:
            raise ActionRefused("Stripe moves the end of a period to a later time, by two years at most.")
        until_s, path = -(-until // 1000), f"subscriptions/{found.id}"
        await self.api.act(app, "post", path, trial_end=until_s, proration_behavior="none")

    async def missed(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[Notification]:
        async for event in self._reader.events(app, max(since, until - _LISTED_FOR), until):
            try:
                yield notification.notification(app.credentials, event, {"source": "Stripe's list of events"})
            except (Malformed, Misdirected):
                continue

    async def close(self) -> None:
        await self.api.close()

    async def _alone(self, app: ConnectedApp, target: ActionTarget) -> StripeSubscription:
        """The subscription, if it has only one item: Stripe acts on all of them."""
        try:
            found = await self._reader.subscription(app, _subscription_of(target.handle))
        except UnknownObject as error:
            raise ActionRefused(error.message) from None
        if len(found.items.data) != 1:
            raise ActionRefused("It was bought together with others, and Stripe acts on all of them at once.")
        if found.status == "canceled":
            raise ActionRefused("The subscription has ended.")
        return found

    async def _refundable(self, app: ConnectedApp, target: ActionTarget) -> dict[str, Any]:
        """What a refund names: a payment intent, or a charge without one."""
        together = "It was paid together with others, and Stripe gives back all of it."
        paid = target.transaction_id
        if subscription.ITEM in paid:
            raise ActionRefused(together)
        if target.subscription:
            if not paid.startswith("in_") or "/" in paid:
                raise ActionRefused("There is no payment of its own for this period.")
            try:
                invoice = await self._reader.invoice(app, paid)
                found = await self._reader.payments_of(app, paid)
            except UnknownObject as error:
                raise ActionRefused(error.message) from None
            if len({line.item_id for line in invoice.lines.data if not line.is_proration}) > 1:
                raise ActionRefused(together)
            if not found:
                raise ActionRefused("Nothing was paid for this period.")
            if len(found) > 1:
                raise ActionRefused("The invoice was paid in several parts. Give them back in Stripe's dashboard.")
            paid = found[0]
        return {"payment_intent": paid} if paid.startswith("pi_") else {"charge": paid}

    async def _named(self, app: ConnectedApp, id: str, *, whole: bool = False) -> StoreReading:
        if id.startswith("pi_"):
            return await self._sold(app, id)
        return await (self._subscription(app, id, whole=whole) if id.startswith("sub_") else self._session(app, id))

    async def _imported(self, app: ConnectedApp, item_id: str) -> StoreReading:
        """An import knew a subscription by its item only. It goes on under that id, and is asked about by its own."""
        found = (await self.api.get(app, f"subscription_items/{in_path(item_id)}", ItemOfSubscription)).subscription
        reading = await self._subscription(app, found, whole=True)
        by_item = {purchase.imported_as: purchase for purchase in reading.seen}
        seen = by_item.get(item_id) or next((purchase for purchase in reading.seen if purchase.handle == found), None)
        if seen is None or not isinstance(seen.snapshot, Subscription):
            return replace(reading, seen=())
        return replace(reading, seen=(replace(seen, snapshot=replace(seen.snapshot, id=item_id)),))

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
            return StoreReading(note=_NO_SALE)
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

    async def _refunded(self, app: ConnectedApp, told: notification.StripeNotification) -> StoreReading:
        found = await self._reader.paid_subscription(app, told.charge, told.payment_intent)
        if found is not None:
            return await self._subscription(app, found)
        if told.payment_intent is None:
            return StoreReading(note=_NO_SALE)
        session = await self._reader.session_of_payment(app, told.payment_intent)
        return await (self._session(app, session) if session is not None else self._sold(app, told.payment_intent))


def _with_sale(reading: StoreReading, metadata: Mapping[str, str]) -> StoreReading:
    """With what our own checkout wrote to the metadata."""
    seller = metadata.get(SELLER_KEY)
    if not seller:
        return reading
    offering, offered = metadata.get(OFFERING_KEY), metadata.get(OFFERED_KEY)
    products = (offered,) if offered else ()
    seen = tuple(replace(purchase, sold_by=seller, offering=offering, offered=products) for purchase in reading.seen)
    return replace(reading, seen=seen)


def _subscription_of(handle: str) -> str:
    return handle.partition(subscription.ITEM)[0]


_INTERVALS = {"day": Duration(days=1), "week": Duration(days=7), "month": Duration(months=1), "year": Duration(12)}


def _sold(price: SoldPrice) -> StoreProduct:
    every, product = price.recurring, price.product
    unit = _INTERVALS.get(every.interval) if every is not None else None
    count = every.interval_count if every is not None else 0
    return StoreProduct(
        id=price.sold_as,
        name=" ".join(filter(None, (product.name, f"({price.nickname})" if price.nickname else ""))),
        type=ProductType.ONE_TIME if every is None else ProductType.SUBSCRIPTION,
        on_sale=product.active and price.active,
        duration=Duration(unit.months * count, unit.days * count) if unit is not None else None,
        # Without one the price has tiers, or the buyer chooses it.
        prices=(ListedPrice(price.price),) if price.unit_amount is not None else (),
    )
