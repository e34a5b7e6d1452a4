"""Google Play behind the interface of all stores. A notification or a receipt only says where to look: the state of a
purchase is always read from the Android Publisher API."""

import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.stores.store_product import StoreProduct
from latchkey.now import real_now
from latchkey.stores.adapter import (
    ActionTarget,
    AppReceipt,
    ConnectedApp,
    Extension,
    GivenBack,
    Incoming,
    Notification,
    StoreReading,
)
from latchkey.stores.errors import ActionRefused, InvalidReceipt, StoreDown
from latchkey.stores.google import credentials, line, periods, push, resources, subscription
from latchkey.stores.google.line import Chain, Earlier
from latchkey.stores.google.products import list_products
from latchkey.stores.google.publisher import AccessTokens, Gone, Publisher, UnknownPurchase
from latchkey.stores.google.push import GoogleCertificates
from latchkey.stores.http import StoreHttp

# Purchase tokens have some 150 to 200 of these signs. Google promises no form, so what is only possible is asked about.
_POSSIBLE = re.compile(r"[!-~]{1,2000}")
# Of an order. No purchase token looks like this.
_ORDER = re.compile(r"GPA\.\d{4}-\d{4}-\d{4}-\d{5}(\.\.\d+)?")
_USUAL = re.compile(r"[A-Za-z0-9._-]{24,1000}")
# Voided purchases are listed for 30 days.
_VOIDED_FOR: Ms = 30 * DAY - 60_000
# Google names the purchase before for as long as a subscription lives. Whoever upgrades more often than this while
# none of the purchases between is known goes on under a new id.
_LONGEST_CHAIN = 10
_MOST_REPLACED = 2_000
_LONGEST_EXTENSION: Ms = 365 * DAY
_TOO_OLD = "Google no longer tells of this purchase: it ended more than 60 days ago."


class GoogleAdapter:
    store = subscription.STORE
    credential_form = credentials.FORM

    def __init__(self, now: Callable[[], Ms], http: StoreHttp | None = None) -> None:
        self._now = now
        self._http = http = http or StoreHttp("Google", now)
        # Tokens and certificates live by the real time, also where the service follows the clock of a store emulator.
        self._certificates = GoogleCertificates(http, real_now)
        self._tokens = AccessTokens(http, real_now)
        self._publisher = Publisher(http, self._tokens, now)
        # Replaced purchases, which do not change any more, by app and token. None: Google no longer tells of it.
        self._replaced: OrderedDict[tuple[str, str], resources.SubscriptionPurchase | None] = OrderedDict()

    async def check_credentials(self, app: ConnectedApp) -> None:
        self._tokens.forget(app)
        await self._publisher.check(app)

    async def products(self, app: ConnectedApp) -> tuple[StoreProduct, ...]:
        return await list_products(self._publisher, app)

    async def verify(self, app: ConnectedApp, incoming: Incoming) -> Notification:
        return await push.verify(app.credentials, incoming, self._certificates)

    async def read(self, app: ConnectedApp, payload: str) -> StoreReading:
        said = push.decode(payload)
        try:
            if (one := said.subscription_notification) is not None:
                asked = one.notification_type == push.PAUSE_SCHEDULE_CHANGED
                at = resources.millis(said.event_time_millis)
                return await self._subscription(app, one.purchase_token, ask_for_pause=asked, told_at=at)
            if (bought := said.one_time_product_notification) is not None:
                return await self._product(app, bought.purchase_token)
            if (voided := said.voided_purchase_notification) is not None:
                try:
                    return await self._voided(app, voided)
                except Gone:
                    return await self._refunded_later(app, voided)
        except UnknownPurchase:
            return StoreReading(note="Google knows no such purchase.")
        except Gone:
            return StoreReading(note=_TOO_OLD)
        if said.test_notification is not None:
            return StoreReading(note="A test notification: the connection works.")
        return StoreReading(note="A notification that this version of Latchkey does not know.")

    async def read_receipt(self, app: ConnectedApp, receipt: AppReceipt) -> StoreReading:
        if receipt.token is None or _POSSIBLE.fullmatch(receipt.token) is None or "#" in receipt.token:
            raise InvalidReceipt("The receipt has no purchase token of Google Play.")
        try:
            return await self._either(app, receipt.token)
        except UnknownPurchase:
            raise InvalidReceipt("Google knows no purchase with this token in this app.") from None
        except Gone:
            return StoreReading(note=_TOO_OLD)

    def looks_real(self, receipt: AppReceipt, now: Ms) -> bool:  # noqa: ARG002 - as every store
        return receipt.token is not None and _USUAL.fullmatch(receipt.token) is not None

    async def read_again(self, app: ConnectedApp, handle: str, environment: Environment) -> StoreReading:  # noqa: ARG002 - a token says it itself
        try:
            token = await self._token_of_order(app, handle) if _ORDER.fullmatch(handle) else _token_of(handle)
            return await self._either(app, token, with_history=True)
        except UnknownPurchase:
            return StoreReading(note="Google knows no such purchase.")
        except Gone:
            return StoreReading(note=_TOO_OLD)

    async def acknowledge(self, app: ConnectedApp, handle: str, product_id: str, *, subscription: bool) -> None:
        # A prepaid plan is a one-time purchase to Latchkey and a subscription to Google. Only those have a base plan.
        name, plan, _ = product_id.partition(":")
        token, is_subscription = _token_of(handle), subscription or bool(plan)
        try:
            await self._publisher.acknowledge(app, token, name, subscription=is_subscription)
        except Gone:
            return
        except UnknownPurchase:
            # Also the answer to a second acknowledgement, or to one of a purchase that was cancelled meanwhile.
            if await self._waits(app, token, is_subscription):
                raise StoreDown("Google does not take the acknowledgement of a purchase that waits for it.") from None

    # A purchase of several items has one token, and Google acts on all of them. Latchkey knows each item as a
    # subscription of its own, so it refuses to act on one of several.

    async def cancel(self, app: ConnectedApp, target: ActionTarget) -> None:
        purchase = await self._alone(app, target)
        if purchase.is_prepaid:
            raise ActionRefused("A prepaid plan does not renew, so there is nothing to cancel.")
        await self._publisher.cancel(app, target.handle)

    async def revoke(self, app: ConnectedApp, target: ActionTarget) -> None:
        await self._alone(app, target)
        await self._publisher.revoke(app, target.handle)

    async def refund(self, app: ConnectedApp, target: ActionTarget, *, revoke: bool) -> None:
        _not_one_of_several(target)
        if target.transaction_id.startswith(subscription.NO_ORDER):
            raise ActionRefused("Google names no order for this purchase, so there is no payment to give back.")
        await self._publisher.refund(app, target.transaction_id, revoke=revoke)

    async def extend(self, app: ConnectedApp, target: ActionTarget, extension: Extension) -> None:
        purchase = await self._alone(app, target)
        ends_at = purchase.items[0].ends_at
        desired = extension.until if extension.until is not None else ends_at + (extension.by or 0)
        if not ends_at < desired <= ends_at + _LONGEST_EXTENSION:
            raise ActionRefused("Google moves the end of a subscription to a later time, by a year at most.")
        await self._publisher.defer(app, target.handle, etag=purchase.etag, by=desired - ends_at)

    async def missed(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[Notification]:
        """Google keeps no history of notifications, but a list of voided purchases."""
        since = max(since, self._now() - _VOIDED_FOR)
        if since >= until:
            return
        async for purchase in self._publisher.voided(app, since, until):
            if purchase.purchase_token:
                yield _notification(app, purchase, until)

    async def close(self) -> None:
        await self._http.close()

    async def _alone(self, app: ConnectedApp, target: ActionTarget) -> resources.SubscriptionPurchase:
        """The subscription, if nothing else was bought with it."""
        _not_one_of_several(target)
        try:
            purchase = await self._publisher.subscription(app, target.handle)
        except (UnknownPurchase, Gone) as error:
            raise ActionRefused(error.message) from None
        if len(purchase.items) != 1:
            raise ActionRefused("It was bought together with others, and Google acts on all of them at once.")
        if purchase.is_replaced:
            raise ActionRefused("Another purchase has replaced this one, and Latchkey has not heard of it yet.")
        return purchase

    async def _either(
        self, app: ConnectedApp, token: str, *, with_history: bool = False, beside: tuple[str, ...] = ()
    ) -> StoreReading:
        """A token does not say whether it is of a subscription. Only if Google knows neither, there is no purchase."""
        try:
            return await self._subscription(app, token, with_history=with_history, beside=beside)
        except UnknownPurchase:
            return await self._product(app, token)

    async def _token_of_order(self, app: ConnectedApp, order_id: str) -> str:
        """An import may know a purchase only by its last order. Without the right to read orders there is no token, and
        the purchase waits until the app shows it."""
        order = await self._publisher.order(app, order_id)
        if order is None or not order.purchase_token:
            raise UnknownPurchase("Google knows no such order, or does not tell of orders.")
        return order.purchase_token

    async def _subscription(
        self,
        app: ConnectedApp,
        token: str,
        *,
        ask_for_pause: bool = False,
        with_history: bool = False,
        beside: tuple[str, ...] = (),
        told_at: Ms | None = None,
    ) -> StoreReading:
        purchase = await self._publisher.subscription(app, token)
        if note := subscription.why_nothing_follows(purchase):
            return StoreReading(note=note)
        chain, topped_up = await self._chain(app, purchase)
        needed = (*line.running_orders(purchase), *beside)
        welcome = (*line.orders_of(topped_up), *line.earlier_orders(purchase, chain, whole=with_history))
        orders = await self._publisher.orders(app, needed, welcome)
        told_of, resume = False, None
        if (ask_for_pause or with_history) and purchase.subscription_state == resources.ACTIVE:
            told_of, resume = await self._publisher.planned_pause(app, purchase.items[0].product_id, token)
        around = subscription.PurchaseContext(
            orders=orders,
            chain=chain,
            topped_up=topped_up,
            tells_of_pause=told_of,
            planned_resume=resume,
            with_history=with_history,
            at=told_at or self._now(),
        )
        return subscription.read_subscription(app.app_id, token, purchase, around)

    async def _chain(self, app: ConnectedApp, purchase: resources.SubscriptionPurchase) -> tuple[Chain, Earlier]:
        """The purchases that one replaced, newest first: an upgrade has a new token, which names the one before it. A
        prepaid plan is no subscription to Latchkey: what follows it begins anew. The prepaid purchases that it, or the
        first of the chain, has replaced come second."""
        chain: dict[str, resources.SubscriptionPurchase | None] = {}
        topped_up: dict[str, resources.SubscriptionPurchase] = {}
        token = purchase.linked_purchase_token
        while token and len(chain) < _LONGEST_CHAIN and token not in chain:
            old = await self._old(app, token)
            if old is not None and old.is_prepaid:
                break
            chain[token] = old
            token = old.linked_purchase_token if old is not None else None
        while token and len(topped_up) < _LONGEST_CHAIN and token not in topped_up:
            old = await self._old(app, token)
            if old is None or not old.is_prepaid or not old.items:
                break
            topped_up[token] = old
            token = old.linked_purchase_token
        return tuple(chain.items()), tuple(topped_up.items())

    async def _old(self, app: ConnectedApp, token: str) -> resources.SubscriptionPurchase | None:
        key = (app.app_id, token)
        if key in self._replaced:
            self._replaced.move_to_end(key)
            return self._replaced[key]
        try:
            old = await self._publisher.subscription(app, token)
        except (UnknownPurchase, Gone):
            old = None
        if old is None or old.is_replaced:
            self._replaced[key] = old
        if len(self._replaced) > _MOST_REPLACED:
            self._replaced.popitem(last=False)
        return old

    async def _waits(self, app: ConnectedApp, token: str, is_subscription: bool) -> bool:
        try:
            if is_subscription:
                bought = await self._publisher.subscription(app, token)
                return bought.acknowledgement_state == resources.UNACKNOWLEDGED
            one = await self._publisher.product(app, token)
            paid = one.purchase_state_context.purchase_state == subscription.PURCHASED
            return paid and one.acknowledgement_state == resources.UNACKNOWLEDGED
        except (UnknownPurchase, Gone):
            return False

    async def _product(self, app: ConnectedApp, token: str) -> StoreReading:
        purchase = await self._publisher.product(app, token)
        orders = await self._publisher.orders(app, [purchase.order_id] if purchase.order_id else [])
        return subscription.read_product(app.app_id, token, purchase, orders.get(purchase.order_id or ""))

    async def _voided(self, app: ConnectedApp, voided: push.VoidedTold) -> StoreReading:
        if voided.refund_type == push.PARTIAL_REFUND:
            return StoreReading(note="Only a part of the quantity was refunded.")
        if voided.product_type == push.ONE_TIME:
            return await self._product(app, voided.purchase_token)
        beside = (voided.order_id,) if voided.order_id else ()
        if voided.product_type == push.SUBSCRIPTION:
            return await self._subscription(app, voided.purchase_token, beside=beside)
        return await self._either(app, voided.purchase_token, beside=beside)

    async def _refunded_later(self, app: ConnectedApp, voided: push.VoidedTold) -> StoreReading:
        """Google forgets a purchase 60 days after its end, and its orders later: only the refund can be told."""
        at = periods.refunded_at(await self._publisher.order(app, voided.order_id) if voided.order_id else None)
        if at is None:
            return StoreReading(note=_TOO_OLD)
        back = GivenBack(handle=voided.purchase_token, transaction_id=voided.order_id, at=at)
        return StoreReading(given_back=(back,), note=_TOO_OLD)


def _not_one_of_several(target: ActionTarget) -> None:
    if subscription.ADD_ON in target.handle:
        raise ActionRefused("It was bought together with others, and Google acts on all of them at once.")


def _token_of(handle: str) -> str:
    return handle.partition(subscription.ADD_ON)[0]


def _notification(app: ConnectedApp, voided: resources.VoidedPurchase, until: Ms) -> Notification:
    at = resources.millis(voided.voided_time_millis) or until
    said = push.GoogleNotification(
        package_name=app.credentials.package_name,
        event_time_millis=at,
        voided_purchase_notification=push.VoidedTold(purchase_token=voided.purchase_token, order_id=voided.order_id),
    )
    return Notification(
        external_id=f"voided/{voided.order_id}/{at}",
        kind=push.kind_of(said),
        environment=None,
        occurred_at=at,
        subject=voided.purchase_token,
        payload=push.encode(said),
        checked={"source": "purchases.voidedpurchases", "package_name": app.credentials.package_name},
    )
