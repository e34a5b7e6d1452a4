"""The API of the pretend Stripe: form-encoded requests, JSON answers, and Stripe's errors."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from latchkey.domain.refusal import NotFound, Refusal
from latchkey.emulators.faults import around
from latchkey.emulators.stripe import forms, pages, writing
from latchkey.emulators.stripe.emulator import StripeEmulator
from latchkey.emulators.stripe.reading import (
    StripeError,
    expanded,
    found,
    missing,
    of_kind,
    page,
    session_lines,
)
from latchkey.emulators.stripe.resources import API_VERSION, rendered
from latchkey.emulators.stripe.resources_paying import invoice_item, invoice_payment
from latchkey.emulators.stripe.state import DAY_S, Life

Handler = Callable[[Request, dict[str, Any]], Awaitable[Any]]
Lists = Callable[[Life, dict[str, Any]], Iterable[dict[str, Any]]]

_LARGEST_FORM = 256 * 1024
# Answers that are kept for requests with an Idempotency-Key.
_MOST_ANSWERS = 1000
_EVENTS_FOR = 30 * DAY_S
_BUSY = msgspec.json.encode(
    {"error": {"code": "rate_limit", "message": "Request rate limit exceeded.", "type": "invalid_request_error"}}
)


def application(store: StripeEmulator) -> Starlette:
    api = _Api(store)
    routes = [Route(f"/v1{path}", api.guarded(handler), methods=[method]) for method, path, handler in api.routes()]
    return Starlette(routes=[*routes, *pages.routes(store)])


class _Api:
    def __init__(self, store: StripeEmulator) -> None:
        self._store = store

    def routes(self) -> list[tuple[str, str, Handler]]:
        one, many, make, change = self._one, self._many, self._make, self._change
        return [
            ("GET", "/account", self.account),
            ("GET", "/balance", self.balance),
            ("GET", "/events", self.events),
            ("GET", "/events/{id}", self.event),
            ("GET", "/products", many("/v1/products", lambda life, _: _all(life, life.products))),
            ("GET", "/products/{id}", one("product")),
            ("POST", "/products", make(writing.new_product)),
            ("GET", "/prices", many("/v1/prices", _prices)),
            ("GET", "/prices/{id}", one("price")),
            ("POST", "/prices", make(writing.new_price)),
            ("GET", "/customers", many("/v1/customers", _customers)),
            ("GET", "/customers/{id}", one("customer")),
            ("POST", "/customers", make(writing.new_customer)),
            ("POST", "/customers/{id}", change(writing.change_customer)),
            ("GET", "/subscriptions", many("/v1/subscriptions", _subscriptions)),
            ("GET", "/subscriptions/{id}", one("subscription")),
            ("POST", "/subscriptions", make(writing.new_subscription)),
            ("POST", "/subscriptions/{id}", change(writing.change_subscription)),
            ("DELETE", "/subscriptions/{id}", change(writing.cancel_subscription)),
            ("GET", "/subscription_schedules/{id}", one("subscription_schedule")),
            ("GET", "/subscription_items", many("/v1/subscription_items", _items)),
            ("GET", "/invoices", many("/v1/invoices", _invoices)),
            ("GET", "/invoices/{id}", one("invoice")),
            ("GET", "/invoices/{id}/lines", self.invoice_lines),
            ("GET", "/invoiceitems", many("/v1/invoiceitems", _invoice_items)),
            ("GET", "/invoice_payments", many("/v1/invoice_payments", _invoice_payments)),
            ("GET", "/invoice_payments/{id}", one("invoice_payment")),
            ("GET", "/charges", many("/v1/charges", _charges)),
            ("GET", "/charges/{id}", one("charge")),
            ("GET", "/refunds", many("/v1/refunds", _refunds)),
            ("GET", "/refunds/{id}", one("refund")),
            ("POST", "/refunds", make(writing.new_refund)),
            ("GET", "/disputes", many("/v1/disputes", _disputes)),
            ("GET", "/disputes/{id}", one("dispute")),
            ("GET", "/payment_intents", many("/v1/payment_intents", _intents)),
            ("GET", "/payment_intents/{id}", one("payment_intent")),
            ("POST", "/payment_intents", make(writing.new_intent)),
            ("POST", "/payment_intents/{id}", change(writing.change_intent)),
            ("POST", "/payment_intents/{id}/confirm", change(writing.confirm_intent)),
            ("GET", "/setup_intents/{id}", one("setup_intent")),
            ("POST", "/setup_intents", make(writing.new_setup)),
            ("POST", "/setup_intents/{id}/confirm", change(writing.confirm_setup)),
            ("GET", "/checkout/sessions", many("/v1/checkout/sessions", _sessions)),
            ("GET", "/checkout/sessions/{id}", one("checkout.session")),
            ("GET", "/checkout/sessions/{id}/line_items", self.session_lines),
            ("POST", "/checkout/sessions", self.new_session),
            ("POST", "/checkout/sessions/{id}/expire", change(writing.expire_session)),
        ]

    def guarded(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                self._authenticate(request)
                return await self._once(request, handler)
            except StripeError as error:
                return refused(error)
            except NotFound as error:
                return refused(StripeError(404, error.message, code="resource_missing", param=error.param))
            except Refusal as error:
                return refused(StripeError(400, error.message, param=error.param))
            except forms.FormError as error:
                return refused(StripeError(400, str(error)))

        async def faulty(request: Request) -> Response:
            return await around(self._store.dice.api_fault(), lambda: answer(request), busy=_BUSY)

        return faulty

    async def account(self, _: Request, asked: dict[str, Any]) -> Any:  # noqa: ARG002 - as all of them
        account = self._store.account
        return {
            "id": account.id,
            "object": "account",
            "charges_enabled": True,
            "country": account.country,
            "default_currency": "usd",
            "details_submitted": True,
            "email": "owner@example.com",
            "payouts_enabled": True,
            "type": "standard",
        }

    async def balance(self, _: Request, asked: dict[str, Any]) -> Any:  # noqa: ARG002 - as all of them
        taken = [one.amount - one.refunded for one in self._store.life.charges.values() if one.succeeded]
        money = [{"amount": sum(taken), "currency": "usd", "source_types": {"card": sum(taken)}}]
        return {"object": "balance", "available": money, "livemode": self._store.life.live, "pending": []}

    async def events(self, _: Request, asked: dict[str, Any]) -> Any:
        since = self._store.now - _EVENTS_FOR
        types = set(forms.items(asked.get("types"))) or ({asked["type"]} if "type" in asked else None)
        wanted = (
            self._store.event(one)
            for one in self._store.life.events
            if one.created >= since and (types is None or _is_of(one.type, types))
        )
        if (delivered := asked.get("delivery_success")) is not None:
            failed = {one.id for one in self._store.outbox.messages if one.state != "delivered"}
            wanted = (one for one in wanted if (one["id"] in failed) is (delivered == "false"))
        return page(self._store.life, "/v1/events", wanted, asked)

    async def event(self, request: Request, asked: dict[str, Any]) -> Any:  # noqa: ARG002 - as all of them
        id = str(request.path_params["id"])
        event = next((one for one in self._store.life.events if one.id == id), None)
        if event is None:
            raise missing("event", id)
        return self._store.event(event)

    async def invoice_lines(self, request: Request, asked: dict[str, Any]) -> Any:
        id = str(request.path_params["id"])
        lines = of_kind(self._store.life, "invoice", id)["lines"]["data"]
        return page(self._store.life, f"/v1/invoices/{id}/lines", lines[::-1], asked)

    async def session_lines(self, request: Request, asked: dict[str, Any]) -> Any:
        id = str(request.path_params["id"])
        of_kind(self._store.life, "checkout.session", id)
        lines = session_lines(self._store.life, id)
        return page(self._store.life, f"/v1/checkout/sessions/{id}/line_items", lines[::-1], asked)

    async def new_session(self, request: Request, asked: dict[str, Any]) -> Any:
        page_at = str(request.base_url).rstrip("/")
        return await self._make(lambda life, at, said: writing.new_session(life, at, said, page_at))(request, asked)

    def _one(self, kind: str) -> Handler:
        async def read(request: Request, asked: dict[str, Any]) -> Any:
            life = self._store.life
            return expanded(life, of_kind(life, kind, str(request.path_params["id"])), asked)

        return read

    def _many(self, url: str, listing: Lists) -> Handler:
        async def read(_: Request, asked: dict[str, Any]) -> Any:
            return page(self._store.life, url, listing(self._store.life, asked), asked)

        return read

    def _make(self, make: Callable[[Life, int, dict[str, Any]], writing.Made]) -> Handler:
        async def write(_: Request, asked: dict[str, Any]) -> Any:
            id = self._store.do(lambda life, at: make(life, at, asked))
            return expanded(self._store.life, _found(self._store.life, id), asked)

        return write

    def _change(self, change: Callable[[Life, int, str, dict[str, Any]], writing.Made]) -> Handler:
        async def write(request: Request, asked: dict[str, Any]) -> Any:
            id = str(request.path_params["id"])
            self._store.do(lambda life, at: change(life, at, id, asked))
            return expanded(self._store.life, _found(self._store.life, id), asked)

        return write

    async def _once(self, request: Request, handler: Handler) -> Response:
        """Carried out once for an Idempotency-Key; the answer is kept."""
        raw = await request.body()
        if len(raw) > _LARGEST_FORM:
            raise StripeError(413, "The request is too large.")
        text = request.url.query if request.method == "GET" else raw.decode("utf-8", "replace")
        asked = forms.parse(text)
        if request.method == "DELETE":
            asked |= forms.parse(request.url.query)
        key = request.headers.get("idempotency-key")
        if key is None or request.method == "GET":
            return self._answer(await handler(request, asked))
        what = (request.method, request.url.path, text)
        kept = self._store.answered.get(key)
        if kept is None:
            answer = self._answer(await handler(request, asked))
            self._store.answered[key] = (what, answer.status_code, bytes(answer.body))
            for old in list(self._store.answered)[:-_MOST_ANSWERS]:
                del self._store.answered[old]
            return answer
        if kept[0] != what:
            message = (
                "Keys for idempotent requests can only be used with the same parameters they were first used with. "
                "Try using a key other than the one you used here."
            )
            raise StripeError(400, message, code="idempotency_error")
        headers = {"Idempotent-Replayed": "true", "Stripe-Version": API_VERSION}
        return Response(kept[2], kept[1], headers, "application/json")

    def _answer(self, value: Any) -> Response:
        headers = {"Stripe-Version": API_VERSION, "Request-Id": f"req_{len(self._store.life.events):014}"}
        return Response(msgspec.json.encode(value), 200, headers, "application/json")

    def _authenticate(self, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not given:
            raise StripeError(
                401,
                "You did not provide an API key. You need to provide your API key in the Authorization header, using "
                "Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
            )
        if not hmac.compare_digest(given.encode(), self._store.keys.secret_key.encode()):
            raise StripeError(401, f"Invalid API Key provided: {given[:8]}{'*' * 8}", code="invalid_api_key")


def refused(error: StripeError) -> Response:
    kind = "idempotency_error" if error.code == "idempotency_error" else "invalid_request_error"
    if error.status == 402:
        kind = "card_error"
    said: dict[str, Any] = {"message": error.message, "type": kind}
    if error.code is not None and error.code != kind:
        said["code"] = error.code
    if error.param is not None:
        said["param"] = error.param
    return Response(msgspec.json.encode({"error": said}), error.status, {}, "application/json")


def _found(life: Life, id: str) -> dict[str, Any]:
    value = found(life, id)
    assert value is not None
    return value


def _is_of(type: str, wanted: set[str]) -> bool:
    return any(type == one or (one.endswith(".*") and type.startswith(one[:-1])) for one in wanted)


def _all(life: Life, shelf: dict[str, Any]) -> list[dict[str, Any]]:
    return [rendered(life, one) for one in shelf.values()]


def _where(shown: list[dict[str, Any]], asked: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    """Those with the same values as was asked for."""
    wanted = {name: asked[name] for name in names if name in asked}
    return [one for one in shown if all(str(one[name]).lower() == value for name, value in wanted.items())]


def _exact(shown: list[dict[str, Any]], asked: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    wanted = {name: asked[name] for name in names if name in asked}
    return [one for one in shown if all(one[name] == value for name, value in wanted.items())]


def _prices(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    listed = _where(_exact(_all(life, life.prices), asked, "product", "currency", "type"), asked, "active")
    keys = forms.items(asked.get("lookup_keys"))
    return [one for one in listed if not keys or one["lookup_key"] in keys]


def _customers(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.customers), asked, "email")


def _subscriptions(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Without a status, those that are not over."""
    listed = _exact(_all(life, life.subscriptions), asked, "customer")
    status = asked.get("status")
    if status is None:
        return [one for one in listed if one["status"] != "canceled"]
    if status == "ended":
        return [one for one in listed if one["status"] in ("canceled", "incomplete_expired")]
    return listed if status == "all" else [one for one in listed if one["status"] == status]


def _items(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    shown = of_kind(life, "subscription", str(asked.get("subscription", "")))
    listed: list[dict[str, Any]] = shown["items"]["data"]
    return listed


def _invoices(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = life.invoices.values()
    if (id := asked.get("subscription")) is not None:
        of_kind(life, "subscription", id)
        return _exact([rendered(life, one) for one in wanted if one.subscription == id], asked, "customer", "status")
    return _exact([rendered(life, one) for one in wanted], asked, "customer", "status")


def _invoice_items(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Only those that wait for an invoice."""
    if asked.get("pending") == "false":
        return []
    waiting = [invoice_item(life, of, one) for of in life.subscriptions.values() for one in of.pending]
    return _exact(waiting, asked, "customer")


def _invoice_payments(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    all_of_them = [invoice_payment(life, one) for one in life.invoices.values()]
    listed = _exact([one for one in all_of_them if one is not None], asked, "invoice", "status")
    wanted = asked.get("payment")
    if isinstance(wanted, dict) and "payment_intent" in wanted:
        return [one for one in listed if one["payment"]["payment_intent"] == wanted["payment_intent"]]
    return listed


def _charges(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.charges), asked, "customer", "payment_intent")


def _refunds(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.refunds), asked, "charge", "payment_intent")


def _disputes(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.disputes), asked, "charge", "payment_intent")


def _intents(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.intents), asked, "customer")


def _sessions(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("customer", "payment_intent", "subscription", "status")
    return _exact(_all(life, life.sessions), asked, *names)
