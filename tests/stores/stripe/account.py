"""A pretend account of Stripe in this process: what its API answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from stripe import WebhookSignature

from latchkey.domain.instants import DAY, Ms
from latchkey.stores.adapter import ConnectedApp, Incoming
from latchkey.stores.http import Answer, StoreHttp
from latchkey.stores.stripe.adapter import StripeAdapter
from latchkey.stores.stripe.api import API_VERSION

Json = dict[str, Any]

HOST = "stripe.test"
KEY, SECRET, OLD_SECRET = "sk_test_aaaaaaaaaaaaaaaa", "whsec_aaaaaaaaaaaaaaaa", "whsec_bbbbbbbbbbbbbbbb"
START: Ms = 1_767_261_600_000
MONTH: Ms = 30 * DAY
SUB, CUSTOMER, ITEM, SESSION, PAYMENT = "sub_00000001", "cus_00000001", "si_00000001", "cs_test_00000001", "pi_once_1"
PRICES = {"pro": 999, "max": 1999, "basic": 499, "extra": 299, "coins": 299}


def given(**more: Any) -> Json:
    return {"api_key": KEY, "webhook_secret": SECRET, "api_base_url": f"https://{HOST}", **more}


def connected(adapter: StripeAdapter, **more: Any) -> ConnectedApp:
    credentials = adapter.parse_credentials(given(**more), frozenset({HOST}))
    return ConnectedApp(project_id="proj_1", app_id="app_1", store=adapter.store, credentials=credentials, version=1)


def error(status: int, code: str = "", type: str = "invalid_request_error") -> Answer:
    body = {"error": {"type": type, "code": code, "message": f"No such thing: '{SUB}'"}}
    return Answer(status, {}, msgspec.json.encode(body))


def s(at: Ms) -> int:
    return at // 1000


def price(product: str, plan: str = "monthly") -> Json:
    amount = PRICES[product] * (10 if plan == "yearly" else 1)
    return {
        "id": f"price_{product}_{plan}",
        "object": "price",
        "product": f"prod_{product}",
        "currency": "eur",
        "unit_amount": amount,
    }


_numbers = count(1)


def event(type: str, object: Json, at: Ms) -> Json:
    return {
        "id": f"evt_{next(_numbers):08}",
        "object": "event",
        "api_version": "2020-08-27",
        "type": type,
        "created": s(at),
        "livemode": False,
        "data": {"object": object},
    }


def sent(body: Json | bytes, secret: str = SECRET, *, age_s: int = 0, received_at: Ms = START) -> Incoming:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    signature = WebhookSignature.generate_signature_header(raw.decode(), secret, int(time.time()) - age_s)
    return Incoming(body=raw, headers={"stripe-signature": signature}, received_at=received_at)


@dataclass
class Account(StoreHttp):
    now: Ms = START
    subscriptions: dict[str, Json] = field(default_factory=dict)
    # Newest last.
    invoices: list[Json] = field(default_factory=list)
    charges: list[Json] = field(default_factory=list)
    disputes: list[Json] = field(default_factory=list)
    sessions: dict[str, Json] = field(default_factory=dict)
    pending: list[Json] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)
    customer: Json = field(default_factory=lambda: {"id": CUSTOMER, "object": "customer", "metadata": {}})
    calls: list[str] = field(default_factory=list)
    refuse: Callable[[str], Answer | None] = lambda path: None
    page: int = 100
    # Of invoices with more lines than they show, by invoice.
    more_lines: dict[str, list[Json]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__("Stripe", lambda: self.now)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        json: Any = None,
        form: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        parts = urlsplit(url)
        assert (parts.scheme, parts.netloc) == ("https", HOST)
        path, sent_headers = (
            parts.path.removeprefix("/v1/"),
            {name.lower(): one for name, one in (headers or {}).items()},
        )
        asked = {name: values[-1] for name, values in parse_qs(parts.query or (body or b"").decode()).items()}
        self.calls.append(f"{method} {path}")
        assert sent_headers["stripe-version"] == API_VERSION
        if (refused := self.refuse(path)) is not None:
            return self._usable(refused)
        if sent_headers["authorization"] != f"Bearer {KEY}":
            return error(401, type="authentication_error")
        if method == "GET":
            return self._got(path, asked)
        return self._changed(method, path, asked)

    def _got(self, path: str, asked: dict[str, str]) -> Answer:
        match path.split("/"):
            case ["subscriptions", id]:
                return self._one(
                    {**self.subscriptions[id], "customer": self.customer} if id in self.subscriptions else None
                )
            case ["subscription_items", id]:
                items = (
                    (one["id"], item["id"]) for one in self.subscriptions.values() for item in one["items"]["data"]
                )
                return self._one(next(({"id": id, "subscription": of} for of, item in items if item == id), None))
            case ["checkout", "sessions", id]:
                return self._one({**self.sessions[id], "customer": self.customer} if id in self.sessions else None)
            case ["invoices", id, "lines"]:
                return self._list(self.more_lines[id], asked)
            case ["invoices", id]:
                return self._one(next((one for one in self.invoices if one["id"] == id), None))
            case ["subscriptions"]:
                return self._list([*self.subscriptions.values()], asked)
            case ["invoices"]:
                return self._list(self.invoices, asked)
            case ["charges"]:
                found = self.charges
                if "payment_intent" in asked:
                    found = [one for one in found if one["payment_intent"] == asked["payment_intent"]]
                return self._list([one for one in found if one["created"] >= int(asked.get("created[gte]", 0))], asked)
            case ["disputes"]:
                return self._list([one for one in self.disputes if one["charge"] == asked["charge"]], asked)
            case ["checkout", "sessions"]:
                named = {name: asked[name] for name in ("subscription", "payment_intent") if name in asked}
                found = [one for one in self.sessions.values() if named.items() <= one.items()]
                return self._list(found, asked)
            case ["invoice_payments"]:
                paid = [
                    {**payment, "invoice": one["id"]}
                    for one in self.invoices
                    for payment in one["payments"]["data"]
                    if asked.get("invoice", one["id"]) == one["id"]
                    and asked.get("payment[payment_intent]", payment["payment"]["payment_intent"])
                    == payment["payment"]["payment_intent"]
                    and asked.get("status", payment["status"]) == payment["status"]
                ]
                return self._list(paid, asked)
            case ["invoiceitems"]:
                return self._list(self.pending, asked)
            case ["events"]:
                low, high = int(asked.get("created[gte]", 0)), int(asked.get("created[lte]", 10**12))
                return self._list([one for one in self.events if low <= one["created"] <= high], asked)
        return error(404, "resource_missing")

    def _changed(self, method: str, path: str, asked: dict[str, str]) -> Answer:
        match method, path.split("/"):
            case "POST", ["subscriptions", id] if "trial_end" in asked:
                self.extend(int(asked["trial_end"]) * 1000)
                return self._one(self.subscriptions[id])
            case "POST", ["subscriptions", id]:
                self.cancel()
                return self._one(self.subscriptions[id])
            case "DELETE", ["subscriptions", id]:
                self.end("cancellation_requested")
                return self._one(self.subscriptions[id])
            case "POST", ["refunds"]:
                [charge] = [one for one in self.charges if one["payment_intent"] == asked["payment_intent"]]
                if charge["amount_refunded"]:
                    return error(400, "charge_already_refunded")
                return self._one(self.refund(charge))
        return error(404, "resource_missing")

    def _one(self, value: Json | None) -> Answer:
        return error(404, "resource_missing") if value is None else Answer(200, {}, msgspec.json.encode(value))

    def _list(self, values: list[Json], asked: dict[str, str]) -> Answer:
        newest = values[::-1]
        if "starting_after" in asked:
            ids = [one["id"] for one in newest]
            newest = newest[ids.index(asked["starting_after"]) + 1 :]
        limit = min(int(asked["limit"]), self.page)
        page = {"object": "list", "data": newest[:limit], "has_more": len(newest) > limit, "url": "/v1"}
        return Answer(200, {}, msgspec.json.encode(page))

    # What the API can change; `Shop` says how.

    def cancel(self) -> None:
        raise NotImplementedError

    def end(self, reason: str | None) -> None:
        raise NotImplementedError

    def extend(self, until: Ms) -> None:
        raise NotImplementedError

    def refund(self, charge: Json | None = None, amount: int | None = None) -> Json:
        raise NotImplementedError
