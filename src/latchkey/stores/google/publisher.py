"""The calls of the Android Publisher API that the adapter makes."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from latchkey.domain.instants import MINUTE, Ms
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import CredentialsRefused, StoreDown, StoreError
from latchkey.stores.google.access_token import AccessTokens
from latchkey.stores.google.refusal import Gone, UnknownPurchase, refusal, refusal_of_action
from latchkey.stores.google.resources import (
    GoogleOrder,
    GoogleOrders,
    OldSubscription,
    ProductPurchase,
    SubscriptionPurchase,
    VoidedPurchase,
    VoidedPurchases,
    millis,
)
from latchkey.stores.http import StoreHttp, StoreResponse

T = TypeVar("T")

# Google takes 1,000, but an address has its limits too.
_ORDERS_AT_ONCE = 100
# More renewals than this are not read back: 20 years of months.
_MOST_ORDERS = 240
_MOST_ONE_BY_ONE = 12
_VOIDED_AT_ONCE = 1000
# How long readings wait for orders that cannot be read while Google answers about purchases.
_PATIENCE: Ms = 2 * MINUTE


class Publisher:
    """Raises Unknown and Gone for a purchase or order that Google does not tell of; StoreDown and CredentialsRefused as
    everywhere."""

    def __init__(self, http: StoreHttp, tokens: AccessTokens, now: Callable[[], Ms]) -> None:
        self._http = http
        self._tokens = tokens
        self._now = now
        # By app: since when its orders cannot be read.
        self._without_orders: dict[str, Ms] = {}

    async def subscription(self, app: ConnectedApp, token: str) -> SubscriptionPurchase:
        return await self._get(app, f"/purchases/subscriptionsv2/tokens/{_part(token)}", SubscriptionPurchase)

    async def product(self, app: ConnectedApp, token: str) -> ProductPurchase:
        return await self._get(app, f"/purchases/productsv2/tokens/{_part(token)}", ProductPurchase)

    async def orders(
        self, app: ConnectedApp, needed: Iterable[str], welcome: Iterable[str] = ()
    ) -> dict[str, GoogleOrder]:
        """Those that can be read; of the `welcome` ones the last come first. An order that cannot be read leaves a gap.
        Where Google cannot be asked now, the reading waits a while: with its order a period is told more exactly."""
        try:
            found = await self._orders(app, list(dict.fromkeys(needed)), list(dict.fromkeys(welcome)))
        except StoreDown:
            now = self._now()
            if now - self._without_orders.setdefault(app.app_id, now) < _PATIENCE:
                raise
            return {}
        self._without_orders.pop(app.app_id, None)
        return found

    async def _orders(self, app: ConnectedApp, must: list[str], welcome: list[str]) -> dict[str, GoogleOrder]:
        also = [one for one in welcome if one not in must][-_MOST_ORDERS:]
        if len(must) + len(also) > 1:
            try:
                return await self._many_orders(app, [*must, *also])
            except StoreDown:
                raise
            except CredentialsRefused:
                return {}
            except StoreError:
                # One that Google does not know fails the call for all.
                also = also[-_MOST_ONE_BY_ONE:]
        found: dict[str, GoogleOrder] = {}
        for order_id in (*must, *also):
            if (order := await self.order(app, order_id)) is not None:
                found[order_id] = order
        return found

    async def order(self, app: ConnectedApp, order_id: str) -> GoogleOrder | None:
        """None where Google does not tell of it."""
        try:
            return await self._get(app, f"/orders/{_part(order_id)}", GoogleOrder)
        except StoreDown:
            raise
        except StoreError:
            return None

    async def _many_orders(self, app: ConnectedApp, asked: list[str]) -> dict[str, GoogleOrder]:
        found: dict[str, GoogleOrder] = {}
        for first in range(0, len(asked), _ORDERS_AT_ONCE):
            query = urlencode([("orderIds", one) for one in asked[first : first + _ORDERS_AT_ONCE]])
            page = await self._get(app, f"/orders:batchGet?{query}", GoogleOrders)
            found |= {order.order_id: order for order in page.orders}
        return found

    async def planned_pause(self, app: ConnectedApp, product_id: str, token: str) -> tuple[bool, Ms | None]:
        """Whether Google tells of pauses that have not begun, and when this one ends. Only the old form of the resource
        does, until Google ends it on 2027-08-31. Where it cannot be read, the pause is told when it begins."""
        path = f"/purchases/subscriptions/{_part(product_id)}/tokens/{_part(token)}"
        try:
            return True, millis((await self._get(app, path, OldSubscription)).auto_resume_time_millis)
        except StoreError:
            return False, None

    async def acknowledge(self, app: ConnectedApp, token: str, product_id: str, *, subscription: bool) -> None:
        room = "subscriptions" if subscription else "products"
        await self._call(app, "POST", f"/purchases/{room}/{_part(product_id)}/tokens/{_part(token)}:acknowledge", {})

    async def cancel(self, app: ConnectedApp, token: str) -> None:
        body = {"cancellationContext": {"cancellationType": "DEVELOPER_REQUESTED_STOP_PAYMENTS"}}
        await self._act(app, f"/purchases/subscriptionsv2/tokens/{_part(token)}:cancel", body)

    async def revoke(self, app: ConnectedApp, token: str) -> None:
        body: dict[str, Any] = {"revocationContext": {"fullRefund": {}}}
        await self._act(app, f"/purchases/subscriptionsv2/tokens/{_part(token)}:revoke", body)

    async def refund(self, app: ConnectedApp, order_id: str, *, revoke: bool) -> None:
        await self._act(app, f"/orders/{_part(order_id)}:refund?revoke={'true' if revoke else 'false'}")

    async def defer(self, app: ConnectedApp, token: str, *, etag: str, by: Ms) -> None:
        """Only while the subscription stands as its `etag` says: the same request twice defers once."""
        context = {"etag": etag, "deferDuration": f"{by // 1000}.{by % 1000:03}s"}
        await self._act(app, f"/purchases/subscriptionsv2/tokens/{_part(token)}:defer", {"deferralContext": context})

    async def voided(self, app: ConnectedApp, since: Ms, until: Ms) -> AsyncIterator[VoidedPurchase]:
        query = {"startTime": str(since), "endTime": str(until), "type": "1", "maxResults": str(_VOIDED_AT_ONCE)}
        page = await self._get(app, f"/purchases/voidedpurchases?{urlencode(query)}", VoidedPurchases)
        while True:
            for one in page.voided_purchases:
                yield one
            following = page.token_pagination.next_page_token
            if not following or not page.voided_purchases:
                return
            more = urlencode(query | {"token": following})
            page = await self._get(app, f"/purchases/voidedpurchases?{more}", VoidedPurchases)

    async def check(self, app: ConnectedApp) -> None:
        """A call that needs the right package, a key that works, and the right to see orders."""
        try:
            await self._get(app, "/purchases/voidedpurchases?maxResults=1&type=1", VoidedPurchases)
        except (UnknownPurchase, Gone):
            raise CredentialsRefused("Google knows no app with this package_name.") from None

    async def _get(self, app: ConnectedApp, path: str, type: type[T]) -> T:
        return (await self._call(app, "GET", path)).json(type, "Google")

    async def _call(
        self, app: ConnectedApp, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> StoreResponse:
        answer = await self._answer(app, method, path, body)
        if not 200 <= answer.status < 300:
            refused: StoreError = refusal(answer)
            raise refused
        return answer

    async def _act(self, app: ConnectedApp, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Raises ActionRefused for what Google does not do."""
        answer = await self._answer(app, "POST", path, body)
        if not 200 <= answer.status < 300:
            refused: StoreError = refusal_of_action(answer)
            raise refused

    async def _answer(self, app: ConnectedApp, method: str, path: str, body: Mapping[str, Any] | None) -> StoreResponse:
        credentials = app.credentials
        package = _part(credentials.package_name)
        url = f"{credentials.api_base_url}/androidpublisher/v3/applications/{package}{path}"
        token = await self._tokens.get(app)
        answer = await self._send(method, url, token, body)
        if answer.status == 401:
            # The token may have been revoked before its time.
            token = await self._tokens.get(app, instead_of=token)
            answer = await self._send(method, url, token, body)
        if answer.status == 401:
            self._tokens.forget(app)
        return answer

    async def _send(self, method: str, url: str, token: str, body: Mapping[str, Any] | None) -> StoreResponse:
        headers = {"Authorization": f"Bearer {token}"}
        return await self._http.request(method, url, headers=headers, json=body)


def _part(text: str) -> str:
    """One part of a path. Dots alone would lead upwards, in whatever way they are written: nothing has such a name."""
    if not text.strip("."):
        raise UnknownPurchase("Google knows no such purchase.")
    return quote(text, safe="")
