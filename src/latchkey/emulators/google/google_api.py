"""The Google Play Developer API of the emulator, its token address, and the certificates of its pushes."""

import secrets
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Refusal
from latchkey.emulators.google import google_resources
from latchkey.emulators.google.google_acts import READABLE_AFTER_END
from latchkey.emulators.google.google_books import GoogleOrder, GooglePurchase, GoogleState
from latchkey.emulators.google.google_emulator import GoogleEmulator
from latchkey.emulators.google.google_keys import GRANT_TYPE
from latchkey.emulators.misbehaviour import Handler, faulty
from latchkey.now import real_now

SCOPE = "https://www.googleapis.com/auth/androidpublisher"
_TOKEN_SECONDS = 3600
_LARGEST_FORM = 64 * 1024
# How far back voided purchases are listed.
_VOIDED_FOR = 30 * DAY

T = TypeVar("T")


class GoogleApiError(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


def application(store: GoogleEmulator) -> Starlette:
    api = _Api(store)
    app = "/androidpublisher/v3/applications/{package}"
    # Paths are decoded before they are matched: a token or an order may have slashes, as whoever forges one writes it.
    token = "tokens/{token:path}"  # noqa: S105 - a path
    guarded = [
        ("GET", f"{app}/purchases/subscriptionsv2/{token}", api.subscription),
        ("GET", f"{app}/purchases/productsv2/{token}", api.product),
        ("GET", f"{app}/purchases/subscriptions/{{product}}/{token}", api.old_subscription),
        ("GET", f"{app}/purchases/voidedpurchases", api.voided),
        ("GET", f"{app}/orders:batchGet", api.orders),
        ("GET", f"{app}/orders/{{order:path}}", api.order),
        ("GET", f"{app}/subscriptions", api.subscriptions),
        ("GET", f"{app}/subscriptions/-/basePlans/-/offers", api.offers),
        ("GET", f"{app}/oneTimeProducts", api.one_time_products),
        ("POST", f"{app}/purchases/{{kind}}/{{product}}/{token}:acknowledge", api.acknowledge),
        ("POST", f"{app}/purchases/subscriptionsv2/{token}:cancel", api.cancel),
        ("POST", f"{app}/purchases/subscriptionsv2/{token}:defer", api.defer),
        ("POST", f"{app}/purchases/subscriptionsv2/{token}:revoke", api.revoke),
        ("POST", f"{app}/orders/{{order:path}}:refund", api.refund),
        ("POST", f"{app}/purchases/products/{{product}}/{token}:consume", api.consume),
    ]
    routes = [Route(path, api.guarded(handler), methods=[method]) for method, path, handler in guarded]
    routes += [
        Route("/token", faulty(store.dice, api.token), methods=["POST"]),
        Route("/oauth2/v1/certs", faulty(store.dice, api.certificates), methods=["GET"]),
    ]
    return Starlette(routes=routes)


class _Api:
    def __init__(self, store: GoogleEmulator) -> None:
        self._store = store

    def guarded(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                self._authenticate(request)
                return await handler(request)
            except GoogleApiError as error:
                detail = {"message": error.message, "domain": "androidpublisher", "reason": error.reason}
                body = {"code": error.status, "message": error.message, "errors": [detail]}
                return _json({"error": body}, error.status)

        return faulty(self._store.dice, answer)

    async def token(self, request: Request) -> Response:
        """An access token for an assertion that the service account's key has signed."""
        body = await request.body()
        form = parse_qs(body[:_LARGEST_FORM].decode("latin-1"))
        if form.get("grant_type") != [GRANT_TYPE] or len(form.get("assertion", [])) != 1:
            return _oauth_error("unsupported_grant_type", "Invalid grant_type.")
        address = str(request.url.replace(query=""))
        try:
            claims = self._store.keys.account.claimed_by(form["assertion"][0], address)
        except ValueError:
            return _oauth_error("invalid_grant", "Invalid JWT Signature.")
        if claims["iss"] != self._store.app.service_account:
            return _oauth_error("invalid_grant", "Invalid grant: account not found")
        if SCOPE not in str(claims["scope"]).split():
            return _oauth_error("invalid_scope", "Invalid OAuth scope.")
        token = f"ya29.{secrets.token_urlsafe(32)}"
        now = real_now() // 1000
        kept = {known: until for known, until in self._store.access_tokens.items() if until > now}
        self._store.access_tokens = {**kept, token: now + _TOKEN_SECONDS}
        return _json({"access_token": token, "expires_in": _TOKEN_SECONDS, "token_type": "Bearer"})

    async def certificates(self, _: Request) -> Response:
        answer = _json(self._store.keys.google.certificates())
        answer.headers["Cache-Control"] = "public, max-age=3600, must-revalidate, no-transform"
        return answer

    def _authenticate(self, request: Request) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._store.access_tokens.get(token, 0) <= real_now() // 1000:
            raise GoogleApiError(401, "authError", "Request had invalid authentication credentials.")
        if request.path_params["package"] != self._store.app.package_name:
            raise GoogleApiError(404, "applicationNotFound", "No application was found for the given package name.")

    async def subscription(self, request: Request) -> Response:
        return _json(google_resources.subscription(self._store.books, self._purchase(request, subscription=True)))

    async def old_subscription(self, request: Request) -> Response:
        purchase = self._purchase(request, subscription=True)
        self._check_product(request, purchase)
        return _json(google_resources.old_subscription(purchase))

    async def product(self, request: Request) -> Response:
        return _json(google_resources.product(self._purchase(request, subscription=False)))

    async def order(self, request: Request) -> Response:
        return _json(google_resources.order(*self._order(str(request.path_params["order"]))))

    async def orders(self, request: Request) -> Response:
        wanted = request.query_params.getlist("orderIds")
        if not 1 <= len(wanted) <= 1000:
            raise GoogleApiError(400, "invalid", "orderIds: 1 to 1000 are needed.")
        return _json({"orders": [google_resources.order(*self._order(id)) for id in wanted]})

    async def voided(self, request: Request) -> Response:
        """Orders whose money was given back and whose access was taken away; subscriptions only with type=1."""
        query, now = request.query_params, self._store.clock.now()
        since = max(_number(query.get("startTime"), 0), now - _VOIDED_FOR)
        until = min(_number(query.get("endTime"), now), now)
        found = [
            google_resources.voided(purchase, order)
            for purchase, order in self._all_orders()
            if order.voided and order.refunded_at is not None and since <= order.refunded_at <= until
            if not purchase.subscription or query.get("type") == "1"
        ]
        found.sort(key=lambda voided: int(voided["voidedTimeMillis"]))
        most = min(_number(query.get("maxResults"), 1000), 1000) or 1000
        start = _number((query.get("token") or "n0").removeprefix("n"), 0)
        answer: dict[str, Any] = {}
        if page := found[start : start + most]:
            answer["voidedPurchases"] = page
        if start + most < len(found):
            answer["tokenPagination"] = {"nextPageToken": f"n{start + most}"}
        return _json(answer)

    async def subscriptions(self, request: Request) -> Response:
        archived = request.query_params.get("showArchived") == "true"
        found = google_resources.subscriptions(self._store.books, self._store.app.package_name, archived=archived)
        return _listed(request, "subscriptions", found)

    async def offers(self, request: Request) -> Response:
        return _listed(request, "subscriptionOffers", google_resources.offers(self._store.books))

    async def one_time_products(self, request: Request) -> Response:
        return _listed(request, "oneTimeProducts", google_resources.one_time_products(self._store.books))

    async def acknowledge(self, request: Request) -> Response:
        purchase = self._purchase(request, subscription=request.path_params["kind"] == "subscriptions")
        self._check_product(request, purchase)
        if purchase.acknowledged:
            return Response(status_code=204)
        if purchase.state in (GoogleState.EXPIRED, GoogleState.PENDING, GoogleState.PENDING_PURCHASE_CANCELED):
            raise GoogleApiError(400, "productNotOwnedByUser", "The product purchase is not owned by the user.")
        self._store.acknowledge(purchase.token)
        return Response(status_code=204)

    async def consume(self, request: Request) -> Response:
        purchase = self._purchase(request, subscription=False)
        self._check_product(request, purchase)
        self._store.consume(purchase.token)
        return Response(status_code=204)

    async def cancel(self, request: Request) -> Response:
        purchase = self._purchase(request, subscription=True)
        asked = (await _context(request, "cancellationContext", _CancellationContext)).cancellationType
        self._act(purchase, "cancel", by="developer" if asked == "DEVELOPER_REQUESTED_STOP_PAYMENTS" else "user")
        return _json({})

    async def defer(self, request: Request) -> Response:
        purchase = self._purchase(request, subscription=True)
        context = await _context(request, "deferralContext", _DeferralContext)
        if context.etag != google_resources.etag(purchase):
            raise GoogleApiError(400, "invalid", "The etag is not that of the subscription as it stands.")
        until = (purchase.expires_at or 0) + round(float(context.deferDuration.removesuffix("s")) * 1000)
        self._act(purchase, "defer", until=until)
        items = [{"productId": purchase.product.partition(":")[0], "expiryTime": google_resources.instant(until)}]
        return _json({"itemExpiryTimeDetails": items})

    async def revoke(self, request: Request) -> Response:
        """Only with a full refund. A period that cost nothing is only ended."""
        purchase = self._purchase(request, subscription=True)
        if (await _context(request, "revocationContext", dict[str, Any])).get("fullRefund") is None:
            raise GoogleApiError(400, "invalid", "Only revocationContext.fullRefund is emulated.")
        paid = purchase.latest.price.micros > 0 and purchase.latest.refunded_at is None
        self._act(purchase, "refund" if paid else "revoke")
        return _json({})

    async def refund(self, request: Request) -> Response:
        id, revoke = str(request.path_params["order"]), request.query_params.get("revoke") == "true"
        purchase, _ = self._order(id)
        self._act(purchase, "refund", order=id, revoke=revoke)
        return Response(status_code=204)

    def _act(self, purchase: GooglePurchase, act: str, **options: Any) -> None:
        try:
            self._store.act(purchase.token, act, **options)
        except Refusal as refusal:
            raise GoogleApiError(400, "failedPrecondition", refusal.message) from None

    def _purchase(self, request: Request, *, subscription: bool) -> GooglePurchase:
        found = self._store.books.purchases.get(str(request.path_params["token"]))
        if found is None or found.subscription is not subscription:
            raise GoogleApiError(404, "purchaseTokenNotFound", "The purchase token was not found.")
        over = found.state is GoogleState.EXPIRED and found.expires_at is not None
        if over and (found.expires_at or 0) + READABLE_AFTER_END < self._store.clock.now():
            message = (
                "The subscription purchase is no longer available for query because it has been expired for too long."
            )
            raise GoogleApiError(410, "subscriptionPurchaseNoLongerAvailable", message)
        return found

    def _check_product(self, request: Request, purchase: GooglePurchase) -> None:
        if request.path_params["product"] != purchase.product.partition(":")[0]:
            raise GoogleApiError(
                400, "purchaseTokenDoesNotMatchProductId", "The purchase token does not match the product ID."
            )

    def _order(self, id: str) -> tuple[GooglePurchase, GoogleOrder]:
        for purchase, order in self._all_orders():
            if order.id == id:
                return purchase, order
        raise GoogleApiError(404, "orderNotFound", "The order was not found.")

    def _all_orders(self) -> Iterator[tuple[GooglePurchase, GoogleOrder]]:
        return ((purchase, order) for purchase in self._store.books.purchases.values() for order in purchase.orders)


class _CancellationContext(msgspec.Struct):
    # Google's names.
    cancellationType: Literal["USER_REQUESTED_STOP_RENEWALS", "DEVELOPER_REQUESTED_STOP_PAYMENTS"]  # noqa: N815


class _DeferralContext(msgspec.Struct):
    etag: str
    deferDuration: Annotated[str, msgspec.Meta(pattern=r"^\d{1,9}(\.\d{1,9})?s$")]  # noqa: N815


async def _context(request: Request, name: str, type: type[T]) -> T:
    """The field of the body that says what to do."""
    try:
        fields = msgspec.json.decode(await request.body(), type=dict[str, msgspec.Raw])
        return msgspec.json.decode(fields[name], type=type)
    except (msgspec.DecodeError, KeyError):
        raise GoogleApiError(400, "invalid", "Invalid JSON payload received.") from None


def _listed(request: Request, name: str, found: list[dict[str, Any]]) -> Response:
    """A page of a list. Google sends 50 where nothing else is asked for, and 1,000 at most."""
    size = min(_number(request.query_params.get("pageSize"), 50) or 50, 1000)
    start = _number((request.query_params.get("pageToken") or "p0").removeprefix("p"), 0)
    answer: dict[str, Any] = {name: found[start : start + size]} if found else {}
    if start + size < len(found):
        answer["nextPageToken"] = f"p{start + size}"
    return _json(answer)


def _oauth_error(error: str, description: str) -> Response:
    return _json({"error": error, "error_description": description}, 400)


def _number(text: str | None, ordinary: int) -> int:
    if text is None:
        return ordinary
    if not text.isdigit() or len(text) > 15:
        raise GoogleApiError(400, "invalid", "Invalid Value")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json; charset=UTF-8")
