"""The App Store Server API of the emulator: the endpoints that a server of an app calls.

Every call has to show a token that was signed with the key of the credentials, as Apple demands it.
"""

import uuid
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Refusal
from latchkey.emulators.apple import apple_connect
from latchkey.emulators.apple.apple_books import ApplePurchase, AppleTransaction, purchase_of
from latchkey.emulators.apple.apple_emulator import AppleEmulator, SignedNotice
from latchkey.emulators.misbehaviour import Handler, faulty
from latchkey.emulators.notification_outbox import OutgoingNotification, SendAttempt

PAGE = 20
# Apple keeps notifications for so long.
_HISTORY = 180 * DAY

T = TypeVar("T")


class AppleApiError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def application(store: AppleEmulator) -> Starlette:
    api = _Api(store)
    routes = [
        ("GET", "/inApps/v2/history/{id}", api.history),
        ("GET", "/inApps/v1/transactions/{id}", api.transaction),
        ("GET", "/inApps/v1/subscriptions/{id}", api.subscriptions),
        ("PUT", "/inApps/v1/subscriptions/extend/{id}", api.extend),
        ("PUT", "/inApps/v2/transactions/consumption/{id}", api.consumption),
        ("POST", "/inApps/v1/notifications/history", api.notifications),
        ("POST", "/inApps/v1/notifications/test", api.send_test),
        ("GET", "/inApps/v1/notifications/test/{id}", api.test_status),
    ]
    server = [Route(path, api.guarded(handler), methods=[method]) for method, path, handler in routes]
    return Starlette(routes=[*server, *apple_connect.routes(store)])


class _Api:
    def __init__(self, store: AppleEmulator) -> None:
        self._store = store

    def guarded(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            if not self._knows(request.headers.get("authorization", "")):
                return Response("Unauthenticated\n", 401, media_type="text/plain")
            try:
                return await handler(request)
            except AppleApiError as error:
                return JSONResponse({"errorCode": error.code, "errorMessage": error.message}, error.code // 10_000)

        return faulty(self._store.dice, answer)

    async def history(self, request: Request) -> Response:
        """All transactions of the customer, not only those of one purchase."""
        made = [(purchase, bought) for purchase in self._of_customer(request) for bought in purchase.transactions]
        made.sort(key=lambda both: (both[1].purchased_at, int(both[1].id)))
        page, more, revision = _page(made, request, "revision", 4000005, "The revision is invalid.")
        app = self._store.app
        return JSONResponse(
            {
                "revision": revision,
                "hasMore": more,
                "bundleId": app.bundle_id,
                "appAppleId": app.app_apple_id,
                "environment": app.environment,
                "signedTransactions": [self._store.signed_transaction(*found) for found in page],
            }
        )

    async def transaction(self, request: Request) -> Response:
        purchase, transaction = self._transaction(request)
        return JSONResponse({"signedTransactionInfo": self._store.signed_transaction(purchase, transaction)})

    async def subscriptions(self, request: Request) -> Response:
        """The latest transaction of each of the customer's subscriptions, by group."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for purchase in self._of_customer(request):
            if purchase.status is None:
                continue
            product = self._store.books.products.get(purchase.latest.product_id)
            groups.setdefault(product.group if product else "", []).append(
                {
                    "originalTransactionId": purchase.id,
                    "status": int(purchase.status),
                    "signedTransactionInfo": self._store.signed_transaction(purchase, purchase.latest),
                    "signedRenewalInfo": self._store.signed_renewal(purchase),
                }
            )
        app = self._store.app
        return JSONResponse(
            {
                "environment": app.environment,
                "bundleId": app.bundle_id,
                "appAppleId": app.app_apple_id,
                "data": [
                    {"subscriptionGroupIdentifier": group, "lastTransactions": found} for group, found in groups.items()
                ],
            }
        )

    async def extend(self, request: Request) -> Response:
        asked = await _decoded(request, _Extension)
        if not 1 <= asked.extendByDays <= 90:
            raise AppleApiError(4000009, "Invalid extend by days value.")
        if not 0 <= asked.extendReasonCode <= 3:
            raise AppleApiError(4000010, "Invalid extend reason code.")
        if not 1 <= len(asked.requestIdentifier) <= 128:
            raise AppleApiError(4000011, "Invalid request identifier.")
        purchase = self._purchase_of(str(request.path_params["id"]))
        if purchase.family:
            raise AppleApiError(4030007, "Subscriptions that users obtain through Family Sharing cannot be extended.")
        made = [at for at in self._store.extensions.get(purchase.id, []) if at > self._store.clock.now() - 365 * DAY]
        if len(made) >= 2:
            raise AppleApiError(4030005, "The subscription has reached the maximum number of extensions.")
        try:
            self._store.act(purchase.id, "extend", days=asked.extendByDays)
        except Refusal:
            raise AppleApiError(4030004, "Forbidden - subscription state ineligible for extension.") from None
        self._store.extensions[purchase.id] = [*made, self._store.clock.now()]
        latest = self._purchase_of(purchase.id).latest
        return JSONResponse({"originalTransactionId": purchase.id, "effectiveDate": latest.expires_at, "success": True})

    async def consumption(self, request: Request) -> Response:
        _, transaction = self._transaction(request)
        usage = await _decoded(request, dict[str, Any])
        if usage.get("customerConsented") is not True:
            raise AppleApiError(4000035, "Invalid request. The customer consented field is invalid.")
        self._store.consumption[transaction.id] = usage
        return Response(status_code=202)

    async def notifications(self, request: Request) -> Response:
        asked = await _decoded(request, _NotificationHistory)
        if asked.startDate < self._store.clock.now() - _HISTORY:
            raise AppleApiError(4000012, "Invalid request. The start date is earlier than the earliest allowed date.")
        if asked.startDate >= asked.endDate:
            raise AppleApiError(
                4000013, "Invalid request. The end date precedes the start date or the dates are equal."
            )
        found = [
            message
            for message in self._store.outbox.messages
            if message.attempts and asked.startDate <= message.content.signed_at < asked.endDate
            if not asked.onlyFailures or message.state != "delivered"
        ]
        page, more, token = _page(found, request, "paginationToken", 4000014, "Invalid pagination token.")
        answer: dict[str, Any] = {"notificationHistory": [_history_item(sent) for sent in page], "hasMore": more}
        return JSONResponse({**answer, "paginationToken": token} if more else answer)

    async def send_test(self, _: Request) -> Response:
        if self._store.outbox.url is None:
            raise AppleApiError(4040007, "No App Store Server Notification URL found for provided app.")
        id = self._store.send_test()
        await self._store.deliver()
        return JSONResponse({"testNotificationToken": f"{id}_{int(self._store.clock.now())}"})

    async def test_status(self, request: Request) -> Response:
        id = str(request.path_params["id"]).partition("_")[0]
        try:
            uuid.UUID(id)
        except ValueError:
            raise AppleApiError(4000020, "Invalid request. The test notification token is invalid.") from None
        for message in self._store.outbox.messages:
            if message.id == id and message.kind == "TEST" and message.attempts:
                return JSONResponse(_history_item(message))
        raise AppleApiError(
            4040008, "Either the test notification token is expired or the notification is not sent yet."
        )

    def _knows(self, authorization: str) -> bool:
        keys, app = self._store.keys, self._store.app
        claims = apple_connect.claims_of(authorization, keys, keys.key_id, keys.private_key)
        return claims is not None and bool(claims.get("bid") == app.bundle_id)

    def _purchase_of(self, id: str) -> ApplePurchase:
        if not id.isdigit() or len(id) > 30:
            raise AppleApiError(4000006, "Invalid transaction id.")
        try:
            return purchase_of(self._store.books, id)
        except Refusal:
            raise AppleApiError(4040010, "Transaction id not found.") from None

    def _transaction(self, request: Request) -> tuple[ApplePurchase, AppleTransaction]:
        id = str(request.path_params["id"])
        purchase = self._purchase_of(id)
        return purchase, next(transaction for transaction in purchase.transactions if transaction.id == id)

    def _of_customer(self, request: Request) -> list[ApplePurchase]:
        buyer = self._purchase_of(str(request.path_params["id"])).buyer
        return [purchase for purchase in self._store.books.purchases.values() if purchase.buyer == buyer]


class _Extension(msgspec.Struct):
    extendByDays: int  # noqa: N815 - Apple's names
    extendReasonCode: int  # noqa: N815
    requestIdentifier: str  # noqa: N815


class _NotificationHistory(msgspec.Struct):
    startDate: int  # noqa: N815 - Apple's names
    endDate: int  # noqa: N815
    onlyFailures: bool = False  # noqa: N815


async def _decoded(request: Request, type: type[T]) -> T:
    try:
        return msgspec.json.decode(await request.body(), type=type)
    except msgspec.DecodeError:
        raise AppleApiError(4000000, "Bad request.") from None


def _history_item(message: OutgoingNotification) -> dict[str, Any]:
    content: SignedNotice = message.content
    attempts = [{"attemptDate": attempt.at, "sendAttemptResult": _result(attempt)} for attempt in message.attempts[-6:]]
    return {"signedPayload": content.signed_payload, "sendAttempts": attempts}


def _result(attempt: SendAttempt) -> str:
    if attempt.status is None:
        return "NO_RESPONSE"
    return "SUCCESS" if attempt.status in AppleEmulator.accepted else "UNSUCCESSFUL_HTTP_RESPONSE_CODE"


def _page(found: list[Any], request: Request, param: str, code: int, wrong: str) -> tuple[list[Any], bool, str]:
    """Where the next page begins is in the token; Apple's is opaque, and so should this one be to its caller."""
    kind, _, place = request.query_params.get(param, "r-0").partition("-")
    if kind != "r" or not place.isdigit():
        raise AppleApiError(code, f"Invalid request. {wrong}")
    page = found[(start := int(place)) : start + PAGE]
    return page, start + PAGE < len(found), f"r-{start + len(page)}"
