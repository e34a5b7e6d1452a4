"""The API of the Stripe emulator: form-encoded requests, JSON answers, and Stripe's errors."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.misbehaviour import faulty
from latchkey.emulators.stripe import checkout_pages
from latchkey.emulators.stripe import stripe_queries as queries
from latchkey.emulators.stripe import stripe_writes as writes
from latchkey.emulators.stripe.stripe_books import DAY_S, secret_of
from latchkey.emulators.stripe.stripe_catalog_objects import stripe_object
from latchkey.emulators.stripe.stripe_changeset import StripeChangeset
from latchkey.emulators.stripe.stripe_emulator import StripeEmulator
from latchkey.emulators.stripe.stripe_objects import API_VERSION

# The id is that of the path, if it has one.
Handler = Callable[[Request, str, dict[str, Any]], Awaitable[Any]]

_LARGEST_FORM = 256 * 1024
# Answers that are kept for requests with an Idempotency-Key.
_MOST_ANSWERS = 1000
_EVENTS_FOR = 30 * DAY_S
# What Stripe.js asks for with the publishable key.
_PUBLIC = {
    ("GET", "/payment_intents/{id}"),
    ("POST", "/payment_intents/{id}/confirm"),
    ("GET", "/setup_intents/{id}"),
    ("POST", "/setup_intents/{id}/confirm"),
    ("POST", "/payment_pages/{id}/init"),
    ("POST", "/payment_pages/{id}/confirm"),
}


def application(store: StripeEmulator) -> Starlette:
    api = _Api(store)
    routes = [
        Route(f"/v1{path}", api.guarded(handler, public=(method, path) in _PUBLIC), methods=[method])
        for method, path, handler in api.routes()
    ]
    return Starlette(routes=[*routes, *checkout_pages.routes(store)])


class _Api:
    def __init__(self, store: StripeEmulator) -> None:
        self._store = store

    def routes(self) -> list[tuple[str, str, Handler]]:
        get, find, make, change = self._get, self._find, self._make, self._change
        sessions = queries.all_of("sessions", "customer", "payment_intent", "subscription", "status")
        return [
            ("GET", "/account", self.account),
            ("GET", "/events", self.events),
            ("GET", "/products", find(queries.all_of("products", "active"))),
            ("GET", "/products/{id}", get("product")),
            ("GET", "/prices", find(queries.all_of("prices", "product", "currency", "type", "active"))),
            ("GET", "/prices/{id}", get("price")),
            ("GET", "/customers", find(queries.all_of("customers", "email"))),
            ("GET", "/customers/{id}", get("customer")),
            ("POST", "/customers", make(writes.new_customer)),
            ("GET", "/subscriptions", find(queries.subscriptions)),
            ("GET", "/subscriptions/{id}", get("subscription")),
            ("POST", "/subscriptions", make(writes.new_subscription)),
            ("POST", "/subscriptions/{id}", change(writes.change_subscription)),
            ("DELETE", "/subscriptions/{id}", change(writes.cancel_subscription)),
            ("GET", "/subscription_schedules/{id}", get("subscription_schedule")),
            ("GET", "/subscription_items", find(queries.subscription_items)),
            ("GET", "/subscription_items/{id}", get("subscription_item")),
            ("GET", "/invoices", find(queries.invoices)),
            ("GET", "/invoices/{id}", get("invoice")),
            ("GET", "/invoices/{id}/lines", self.invoice_lines),
            ("GET", "/invoiceitems", find(queries.invoice_items)),
            ("GET", "/invoice_payments", find(queries.invoice_payments)),
            ("GET", "/charges", find(queries.all_of("charges", "customer", "payment_intent"))),
            ("GET", "/charges/{id}", get("charge")),
            ("GET", "/refunds", find(queries.all_of("refunds", "charge", "payment_intent"))),
            ("GET", "/refunds/{id}", get("refund")),
            ("POST", "/refunds", make(writes.new_refund)),
            ("GET", "/disputes", find(queries.all_of("disputes", "charge", "payment_intent"))),
            ("GET", "/disputes/{id}", get("dispute")),
            ("GET", "/payment_intents", find(queries.all_of("intents", "customer"))),
            ("GET", "/payment_intents/{id}", get("payment_intent")),
            ("POST", "/payment_intents", make(writes.new_intent)),
            ("POST", "/payment_intents/{id}/confirm", self.confirm),
            ("GET", "/setup_intents/{id}", get("setup_intent")),
            ("POST", "/setup_intents", make(writes.new_setup)),
            ("POST", "/setup_intents/{id}/confirm", change(writes.confirm_setup)),
            ("GET", "/checkout/sessions", find(sessions)),
            ("GET", "/checkout/sessions/{id}", get("checkout.session")),
            ("GET", "/checkout/sessions/{id}/line_items", self.session_lines),
            ("POST", "/checkout/sessions", self.new_session),
            ("POST", "/checkout/sessions/{id}/expire", change(writes.expire_session)),
            ("POST", "/payment_pages/{id}/init", self.checkout),
            ("POST", "/payment_pages/{id}/confirm", self.pay),
        ]

    def guarded(self, handler: Handler, *, public: bool) -> Callable[[Request], Awaitable[Response]]:
        """What is `public`, Stripe.js may ask too, from any page."""

        async def answer(request: Request) -> Response:
            response = await checked(request)
            if public:
                response.headers["Access-Control-Allow-Origin"] = "*"
            return response

        async def checked(request: Request) -> Response:
            try:
                return await self._once(request, handler, public=public)
            except queries.StripeError as error:
                return refused(error)
            except NotFound as error:
                return refused(queries.StripeError(404, error.message, code="resource_missing", param=error.param))
            except Refusal as error:
                return refused(queries.StripeError(400, error.message, param=error.param))

        busy = refused(queries.StripeError(429, "Request rate limit exceeded.", code="rate_limit"))
        return faulty(self._store.dice, answer, busy=bytes(busy.body))

    async def account(self, _: Request, id: str, asked: dict[str, Any]) -> Any:  # noqa: ARG002 - as all of them
        return stripe_object(self._store.books, "account", self._store.account, {})

    async def events(self, request: Request, _: str, asked: dict[str, Any]) -> Any:
        since = self._store.now - _EVENTS_FOR
        types = set(queries.items(asked.get("types"))) or ({asked["type"]} if "type" in asked else None)
        wanted = (
            self._store.event(event)
            for event in self._store.books.events
            if event.created >= since and (types is None or _is_of(event.type, types))
        )
        return queries.page(self._store.books, request.url.path, wanted, asked)

    async def invoice_lines(self, request: Request, id: str, asked: dict[str, Any]) -> Any:
        lines = queries.of_kind(self._store.books, "invoice", id)["lines"]["data"]
        return queries.page(self._store.books, request.url.path, lines[::-1], asked)

    async def session_lines(self, _: Request, id: str, asked: dict[str, Any]) -> Any:
        return queries.session_lines(self._store.books, id, asked)

    async def new_session(self, request: Request, id: str, asked: dict[str, Any]) -> Any:
        page_at = str(request.base_url).rstrip("/")
        return await self._make(lambda changes, form: writes.new_session(changes, form, page_at))(request, id, asked)

    async def confirm(self, request: Request, id: str, asked: dict[str, Any]) -> Any:
        """A declined card is an error, but the failed try is kept."""
        shown = await self._change(writes.confirm_intent)(request, id, asked)
        if shown["status"] == "requires_payment_method":
            raise queries.StripeError(402, "Your card was declined.", code="card_declined")
        return shown

    async def checkout(self, request: Request, id: str, asked: dict[str, Any]) -> Any:  # noqa: ARG002 - as all of them
        session = self._store.books.sessions[id]
        if session.status != "open":
            raise queries.StripeError(400, f"This checkout is {session.status}.")
        return checkout_pages.summary(self._store.books, session)

    async def pay(self, _: Request, id: str, asked: dict[str, Any]) -> Any:
        self._store.do(lambda changes: writes.complete_session(changes, id, asked))
        return checkout_pages.summary(self._store.books, self._store.books.sessions[id])

    def _get(self, kind: str) -> Handler:
        async def read(_: Request, id: str, asked: dict[str, Any]) -> Any:
            books = self._store.books
            return queries.expanded(books, queries.of_kind(books, kind, id), asked)

        return read

    def _find(self, listing: queries.Lists) -> Handler:
        async def read(request: Request, _: str, asked: dict[str, Any]) -> Any:
            return queries.page(self._store.books, request.url.path, listing(self._store.books, asked), asked)

        return read

    def _make(self, make: Callable[[StripeChangeset, dict[str, Any]], str]) -> Handler:
        async def write(_: Request, __: str, asked: dict[str, Any]) -> Any:
            return self._written(self._store.do(lambda changes: make(changes, asked)), asked)

        return write

    def _change(self, change: Callable[[StripeChangeset, str, dict[str, Any]], None]) -> Handler:
        async def write(_: Request, id: str, asked: dict[str, Any]) -> Any:
            self._store.do(lambda changes: change(changes, id, asked))
            return self._written(id, asked)

        return write

    def _written(self, id: str, asked: dict[str, Any]) -> dict[str, Any]:
        return queries.expanded(self._store.books, queries.found(self._store.books, id) or {}, asked)

    async def _once(self, request: Request, handler: Handler, *, public: bool) -> Response:
        """Carried out once for an Idempotency-Key; the answer is kept."""
        if not public:
            self._authenticate(request)
        id, raw = str(request.path_params.get("id", "")), await request.body()
        if len(raw) > _LARGEST_FORM:
            raise queries.StripeError(413, "The request is too large.")
        text = request.url.query if request.method == "GET" else raw.decode("utf-8", "replace")
        asked = queries.parse(text)
        if request.method == "DELETE":
            asked |= queries.parse(request.url.query)
        if public:
            self._authenticate_page(request, id, asked)
        key = request.headers.get("idempotency-key")
        if key is None or request.method == "GET":
            return self._answer(await handler(request, id, asked))
        what = (request.method, request.url.path, text)
        kept = self._store.answered.get(key)
        if kept is None:
            answer = self._answer(await handler(request, id, asked))
            self._store.answered[key] = (what, answer.status_code, bytes(answer.body))
            for old in list(self._store.answered)[:-_MOST_ANSWERS]:
                del self._store.answered[old]
            return answer
        if kept[0] != what:
            message = (
                "Keys for idempotent requests can only be used with the same parameters they were first used with. "
                "Try using a key other than the one you used here."
            )
            raise queries.StripeError(400, message, code="idempotency_error")
        headers = {"Idempotent-Replayed": "true", "Stripe-Version": API_VERSION}
        return Response(kept[2], kept[1], headers, "application/json")

    def _answer(self, value: Any) -> Response:
        headers = {"Stripe-Version": API_VERSION, "Request-Id": f"req_{len(self._store.books.events):014}"}
        return Response(msgspec.json.encode(value), 200, headers, "application/json")

    def _authenticate_page(self, request: Request, id: str, asked: dict[str, Any]) -> None:
        """A page has the publishable key and the client secret of the object. A server has the secret key."""
        if "authorization" in request.headers:
            self._authenticate(request)
            return
        books = self._store.books
        if not _same(asked.get("key"), self._store.keys.publishable_key):
            raise queries.StripeError(401, "Invalid API Key provided.", code="invalid_api_key")
        if id in books.sessions:
            secret = secret_of(books, id)
        else:
            intent = books.intents.get(id) or books.setups.get(id)
            secret = intent.client_secret if intent else ""
        if not secret or not _same(asked.get("client_secret"), secret):
            raise queries.missing("payment_intent", id)

    def _authenticate(self, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not given:
            raise queries.StripeError(
                401,
                "You did not provide an API key. You need to provide your API key in the Authorization header, using "
                "Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
            )
        if not _same(given, self._store.keys.secret_key):
            raise queries.StripeError(401, f"Invalid API Key provided: {given[:8]}{'*' * 8}", code="invalid_api_key")


def _same(given: object, secret: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(given.encode(), secret.encode())


def refused(error: queries.StripeError) -> Response:
    kind = "idempotency_error" if error.code == "idempotency_error" else "invalid_request_error"
    declined = error.status == 402
    if declined:
        kind = "card_error"
    body: dict[str, Any] = {"message": error.message, "type": kind}
    if error.code is not None and error.code != kind:
        body["code"] = error.code
    if declined:
        body["decline_code"] = "generic_decline"
    if error.param is not None:
        body["param"] = error.param
    return Response(msgspec.json.encode({"error": body}), error.status, {}, "application/json")


def _is_of(type: str, wanted: set[str]) -> bool:
    return any(type == item or (item.endswith(".*") and type.startswith(item[:-1])) for item in wanted)
