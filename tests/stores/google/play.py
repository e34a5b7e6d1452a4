"""A Google Play of the tests, without a socket: what the emulator tells of purchases and orders, and a test alters."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from msgspec.structs import replace

from latchkey.domain.instants import DAY, Ms
from latchkey.domain.purchases.purchase import Environment
from latchkey.emulators.google import google_resources
from latchkey.emulators.google.google_books import GoogleBooks, GoogleProduct, GooglePurchase, new_purchase
from latchkey.emulators.google.google_keys import SigningKey
from latchkey.stores.adapter import AppReceipt, ConnectedApp, Incoming, Notification, StoreReading
from latchkey.stores.google import credentials
from latchkey.stores.google.adapter import GoogleAdapter
from latchkey.stores.http import StoreHttp, StoreResponse

PACKAGE = "com.example.app"
AUDIENCE = "https://latchkey.example.com/push"
PUSHER = "push@project.iam.gserviceaccount.com"
ACCOUNT = "api@project.iam.gserviceaccount.com"
APP_ID = "app_google"
HOST = "play.example.com"
START: Ms = 1_767_225_600_000  # 2026-01-01
MONTH: Ms = 30 * DAY
TOKEN = "token-of-a-purchase.AO-J1Ox"
ORDER = "GPA.1111-2222-3333-44444"
RECEIPT = AppReceipt(token=TOKEN, product_ids=("pro",))

PRO = GoogleProduct(id="pro", plan="monthly", currency="EUR", lasts="P30D")
BOOKS = GoogleBooks(products={PRO.name: PRO})

Json = dict[str, Any]


def iso(at: Ms) -> str:
    return datetime.fromtimestamp(at / 1000, tz=UTC).isoformat().replace("+00:00", "Z")


@dataclass
class Play(StoreHttp):
    """`now` is the clock of the test. Every call is kept in `calls`; `refuse` may answer in Google's place."""

    keys: SigningKey
    now: Ms = START
    subscriptions: dict[str, Json] = field(default_factory=dict)
    products: dict[str, Json] = field(default_factory=dict)
    orders: dict[str, Json] = field(default_factory=dict)
    resumes: dict[str, Ms] = field(default_factory=dict)
    voided: list[Json] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    cache_control: str = "public, max-age=21600, must-revalidate"
    refuse: Callable[[str], StoreResponse | None] = lambda path: None

    def __post_init__(self) -> None:
        """The service's clock is that of the store. Tokens count by the machine's, whatever the service's says."""
        super().__init__("Google", lambda: self.now)
        self.app = connected(self.keys)
        self.adapter = GoogleAdapter(lambda: self.now, self)

    # What the service asks and is sent.

    async def read_receipt(self, receipt: AppReceipt = RECEIPT) -> StoreReading:
        return await self.adapter.read_receipt(self.app, receipt)

    async def read(self, notification: Json) -> StoreReading:
        return await self.adapter.read(self.app, msgspec.json.encode(notification).decode())

    async def read_again(self, token: str = TOKEN) -> StoreReading:
        return await self.adapter.read_again(self.app, token, Environment.PRODUCTION)

    async def verify(self, incoming: Incoming) -> Notification:
        return await self.adapter.verify(self.app, incoming)

    # What Google answers.

    async def request(self, method: str, url: str, **sent: Any) -> StoreResponse:
        parts = urlsplit(url)
        path = parts.path.removeprefix(f"/androidpublisher/v3/applications/{PACKAGE}")
        self.calls.append(f"{method} {path}")
        if (refused := self.refuse(path)) is not None:
            return self._usable(refused)
        if path == "/certs":
            return self._json(200, self.keys.certificates(), {"cache-control": self.cache_control})
        if path == "/token":
            self.keys.claimed_by(sent["form"]["assertion"], url)
            return self._json(200, {"access_token": f"access-{len(self.calls)}", "expires_in": 3599})
        assert sent["headers"]["Authorization"].startswith("Bearer access-")
        return self._api(method, path, parse_qs(parts.query))

    def _api(self, method: str, path: str, query: dict[str, list[str]]) -> StoreResponse:
        *room, last = [unquote(part) for part in path.strip("/").split("/")]
        if method == "POST":
            token = last.removesuffix(":acknowledge")
            if token not in self.subscriptions and token not in self.products:
                return error(404, "purchaseTokenNotFound")
            self.acknowledged.append(path)
            return StoreResponse(204, {}, b"")
        if room == ["purchases", "subscriptionsv2", "tokens"]:
            return self._found(self.subscriptions.get(last))
        if room == ["purchases", "productsv2", "tokens"]:
            return self._found(self.products.get(last))
        if room == ["orders"]:
            return self._found(self.orders.get(last))
        if last == "orders:batchGet":
            wanted = [self.orders.get(id) for id in query["orderIds"]]
            return error(404, "orderNotFound") if None in wanted else self._json(200, {"orders": wanted})
        if last == "voidedpurchases":
            return self._json(200, {"voidedPurchases": self.voided} if self.voided else {})
        if room[:2] == ["purchases", "subscriptions"]:
            resumes = self.resumes.get(last)
            return self._json(200, {"autoResumeTimeMillis": str(resumes)} if resumes else {})
        return error(404, "notFound")

    def _found(self, value: Json | None) -> StoreResponse:
        return error(404, "purchaseTokenNotFound") if value is None else self._json(200, value)

    def _json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> StoreResponse:
        return self._usable(StoreResponse(status, dict(headers or {}), msgspec.json.encode(value)))

    # What happens in the store.

    def buy(self, token: str = TOKEN, order_id: str = ORDER, *, ends_at: Ms | None = None, **more: Any) -> Json:
        """Somebody subscribes to pro:monthly, or to what `item` says."""
        ends_at = self.now + MONTH if ends_at is None else ends_at
        bought = google_resources.subscription(BOOKS, _purchase(PRO, self.now, token, order_id, ends_at))
        bought["lineItems"][0] |= more.pop("item", {})
        phase = more.pop("phase", "baseDetails")
        self.subscriptions[token] = bought | more
        self.pay(token, order_id, self.now, ends_at, phase=phase)
        return self.subscriptions[token]

    def pay(self, token: str, order_id: str, begins_at: Ms, ends_at: Ms, *, phase: str) -> None:
        item = self.subscriptions[token]["lineItems"][0]
        sold = replace(PRO, id=item["productId"], plan=item.get("offerDetails", {}).get("basePlanId", ""))
        if phase == "freeTrialDetails":
            sold = replace(sold, amount=0)
        bought = _purchase(sold, self.now, token, order_id, ends_at)
        order = google_resources.order(bought, replace(bought.latest, starts_at=begins_at))
        order["lineItems"][0]["subscriptionDetails"]["offerPhaseDetails"] = {phase: {}}
        self.orders[order_id] = order

    def renew(self, token: str = TOKEN, *, begins_at: Ms | None = None, item: Json | None = None) -> str:
        """The next order is paid now, for a month from `begins_at`."""
        purchase = self.subscriptions[token]
        line = purchase["lineItems"][0]
        first, _, number = line["latestSuccessfulOrderId"].partition("..")
        order_id = f"{first}..{int(number) + 1 if number else 0}"
        begins_at = self.now if begins_at is None else begins_at
        line |= {"expiryTime": iso(begins_at + MONTH), "latestSuccessfulOrderId": order_id}
        line |= {"offerPhase": {"basePrice": {}}, **(item or {})}
        self.state("ACTIVE", token)
        self.pay(token, order_id, begins_at, begins_at + MONTH, phase="baseDetails")
        return order_id

    def state(self, name: str, token: str = TOKEN, *, ends_at: Ms | None = None, **more: Any) -> None:
        purchase = self.subscriptions[token]
        for context in ("pausedStateContext", "canceledStateContext"):
            purchase.pop(context, None)
        purchase |= {"subscriptionState": f"SUBSCRIPTION_STATE_{name}", **more}
        if ends_at is not None:
            purchase["lineItems"][0]["expiryTime"] = iso(ends_at)

    def cancel(self, who: str, token: str = TOKEN, *, state: str = "CANCELED", ends_at: Ms | None = None) -> None:
        said = {"cancelTime": iso(self.now)} if who == "user" else {}
        name = "replacementCancellation" if who == "replacement" else f"{who}InitiatedCancellation"
        self.state(state, token, ends_at=ends_at, canceledStateContext={name: said})
        plan = self.subscriptions[token]["lineItems"][0].get("autoRenewingPlan")
        if plan is not None:
            plan["autoRenewEnabled"] = False

    def refund(self, order_id: str = ORDER) -> None:
        order = self.orders[order_id]
        order["state"] = "REFUNDED"
        order["orderHistory"]["refundEvent"] = {"eventTime": iso(self.now), "refundReason": "OTHER"}

    def sell(self, token: str = TOKEN, order_id: str = ORDER, product_id: str = "coins", **more: Any) -> Json:
        """A one-time purchase."""
        sold = GoogleProduct(id=product_id, amount=1.99, currency="EUR")
        bought = _purchase(sold, self.now, token, order_id)
        self.products[token] = google_resources.product(bought) | more
        self.orders[order_id] = google_resources.order(bought, bought.latest)
        return self.products[token]


def _purchase(product: GoogleProduct, now: Ms, token: str, order_id: str, ends_at: Ms | None = None) -> GooglePurchase:
    """As the emulator has it, with a token and an order of the test's."""
    _, bought = new_purchase(GoogleBooks(), now, product, ends_at=ends_at, buyer="ada", test=False)
    return replace(bought, token=token, orders=(replace(bought.latest, id=order_id),))


def error(status: int, reason: str = "", name: str = "") -> StoreResponse:
    said = {"code": status, "message": "…", "status": name, "errors": [{"reason": reason, "message": "…"}]}
    return StoreResponse(status, {}, msgspec.json.encode({"error": said}))


def given(keys: SigningKey) -> Json:
    """Credentials that lead to `Play`."""
    return {
        "package_name": PACKAGE,
        "service_account": keys.service_account(ACCOUNT),
        "push_audience": AUDIENCE,
        "push_service_account": PUSHER,
        "api_base_url": f"https://{HOST}",
        "certificates_url": f"https://{HOST}/certs",
        "token_url": f"https://{HOST}/token",
    }


def connected(keys: SigningKey, **replaced: Any) -> ConnectedApp:
    parsed = credentials.FORM.parse(given(keys) | replaced, frozenset({HOST, "127.0.0.1"}))
    return ConnectedApp(project_id="proj", app_id=APP_ID, store="play_store", credentials=parsed, version=1)


def notice(code: int, token: str = TOKEN, at: Ms = START) -> Json:
    return _about(at, subscriptionNotification={"version": "1.0", "notificationType": code, "purchaseToken": token})


def one_time_notice(code: int, token: str = TOKEN, at: Ms = START) -> Json:
    said = {"version": "1.0", "notificationType": code, "purchaseToken": token, "sku": "coins"}
    return _about(at, oneTimeProductNotification=said)


def voided_notice(token: str = TOKEN, order_id: str = ORDER, *, type: int = 1, refund_type: int = 1) -> Json:
    said = {"purchaseToken": token, "orderId": order_id, "productType": type, "refundType": refund_type}
    return _about(START, voidedPurchaseNotification=said)


def _about(at: Ms, **what: Any) -> Json:
    return {"version": "1.0", "packageName": PACKAGE, "eventTimeMillis": str(at), **what}


def pushed(told: Json | bytes, authorization: str, message_id: str = "136969346945") -> Incoming:
    data = told if isinstance(told, bytes) else msgspec.json.encode(told)
    message = {"attributes": {}, "data": b64encode(data).decode(), "messageId": message_id, "publishTime": iso(START)}
    body = msgspec.json.encode({"message": message, "subscription": "projects/p/subscriptions/s"})
    return Incoming(body=body, headers={"authorization": authorization}, received_at=START)
