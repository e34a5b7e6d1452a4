"""A pretend account of Stripe in this process: what its API answers, and what happens to one customer in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from stripe import WebhookSignature

from latchkey.domain.instants import DAY, HOUR, Ms
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
PRICES = {"pro": 999, "max": 1999, "basic": 499, "coins": 299}


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
class Shop(StoreHttp):
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
            case ["checkout", "sessions", id]:
                return self._one({**self.sessions[id], "customer": self.customer} if id in self.sessions else None)
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

    # What happens in the account.

    @property
    def sub(self) -> Json:
        return self.subscriptions[SUB]

    @property
    def item(self) -> Json:
        item: Json = self.sub["items"]["data"][0]
        return item

    def subscribe(self, product: str = "pro", *, status: str = "active", trial: Ms = 0, **more: Any) -> Json:
        end = self.now + (trial or MONTH)
        self.subscriptions[SUB] = {
            "id": SUB,
            "object": "subscription",
            "status": "trialing" if trial else status,
            "created": s(self.now),
            "start_date": s(self.now),
            "livemode": False,
            "currency": "eur",
            "customer": CUSTOMER,
            "metadata": {"app_user_id": "ada"},
            "cancel_at": None,
            "cancel_at_period_end": False,
            "canceled_at": None,
            "ended_at": None,
            "cancellation_details": {"reason": None},
            "collection_method": "charge_automatically",
            "pause_collection": None,
            "schedule": None,
            "trial_start": s(self.now) if trial else None,
            "trial_end": s(end) if trial else None,
            "items": {
                "object": "list",
                "has_more": False,
                "data": [
                    {
                        "id": ITEM,
                        "object": "subscription_item",
                        "created": s(self.now),
                        "price": price(product),
                        "current_period_start": s(self.now),
                        "current_period_end": s(end),
                    }
                ],
            },
            **more,
        }
        self.bill("subscription_create", 0 if trial else PRICES[product], paid=status == "active")
        return self.sub

    def line(self, amount: int, start: Ms | None = None, end: Ms | None = None, **more: Any) -> Json:
        """A regular line of the item as it is now; a proration where `proration` names its invoice item."""
        item, proration = self.item, more.pop("proration", None)
        priced = more.pop("price", item["price"])
        parent: Json = {
            "type": "subscription_item_details",
            "subscription_item_details": {"subscription": SUB, "subscription_item": item["id"], "proration": False},
        }
        if proration is not None:
            details = {"invoice_item": proration, "proration": True, "subscription": SUB}
            parent = {"type": "invoice_item_details", "invoice_item_details": details}
        return {
            "id": f"il_{next(_numbers):08}",
            "object": "line_item",
            "amount": amount,
            "currency": "eur",
            "period": {
                "start": item["current_period_start"] if start is None else s(start),
                "end": item["current_period_end"] if end is None else s(end),
            },
            "discount_amounts": [],
            "taxes": [],
            "pricing": {
                "type": "price_details",
                "price_details": {"price": priced["id"], "product": priced["product"]},
            },
            "parent": parent,
            **more,
        }

    def bill(self, reason: str, *amounts: int, paid: bool = True, lines: list[Json] | None = None) -> Json:
        """An invoice of the subscription, finalized now; paid, or a payment that failed."""
        lines = [self.line(one) for one in amounts] if lines is None else lines
        total, number = sum(one["amount"] for one in lines), len(self.invoices) + 1
        invoice: Json = {
            "id": f"in_{number:08}",
            "object": "invoice",
            "created": s(self.now),
            "currency": "eur",
            "total": max(0, total),
            "status": "open",
            "billing_reason": reason,
            "customer_address": {"country": "DE"},
            "parent": {"type": "subscription_details", "subscription_details": {"subscription": SUB}},
            "lines": {"object": "list", "data": lines, "has_more": False},
            "payments": {"object": "list", "data": [], "has_more": False},
            "status_transitions": {"finalized_at": s(self.now), "paid_at": None},
        }
        self.invoices.append(invoice)
        if total > 0:
            payment = {"type": "payment_intent", "payment_intent": f"pi_{number:08}"}
            invoice["payments"]["data"] = [{"id": f"inpay_{number}", "status": "open", "payment": payment}]
        if total <= 0 or paid:
            self.pay(invoice)
        else:
            self.charge(f"pi_{number:08}", total, "failed")
        return invoice

    def charge(self, payment_intent: str, amount: int, status: str = "succeeded") -> Json:
        charge: Json = {
            "id": f"ch_{len(self.charges) + 1:08}",
            "object": "charge",
            "amount": amount,
            "amount_refunded": 0,
            "currency": "eur",
            "created": s(self.now),
            "status": status,
            "disputed": False,
            "customer": CUSTOMER,
            "payment_intent": payment_intent,
            "billing_details": {"address": {"country": "DE"}},
            "refunds": {"object": "list", "data": [], "has_more": False},
        }
        self.charges.append(charge)
        return charge

    def pay(self, invoice: Json | None = None) -> Json:
        invoice = self.invoices[-1] if invoice is None else invoice
        invoice["status"], invoice["status_transitions"]["paid_at"] = "paid", s(self.now)
        for one in invoice["payments"]["data"]:
            one["status"] = "paid"
            self.charge(one["payment"]["payment_intent"], invoice["total"])
        if self.sub["status"] in ("incomplete", "past_due", "unpaid"):
            self.sub["status"] = "active"
        return invoice

    def renew(self, *, paid: bool = True) -> Json:
        """The next period begins. Stripe charges an hour later, as this does."""
        item = self.item
        item["current_period_start"] = item["current_period_end"]
        item["current_period_end"] += s(MONTH)
        self.sub["status"] = "active" if paid else "past_due"
        return self.bill("subscription_cycle", item["price"]["unit_amount"], paid=paid)

    def try_again(self) -> None:
        invoice = self.invoices[-1]
        self.charge(invoice["payments"]["data"][0]["payment"]["payment_intent"], invoice["total"], "failed")

    def cancel(self) -> None:
        self.sub.update(cancel_at_period_end=True, canceled_at=s(self.now), cancel_at=self.item["current_period_end"])
        self.sub["cancellation_details"] = {"reason": "cancellation_requested"}

    def uncancel(self) -> None:
        self.sub.update(cancel_at_period_end=False, canceled_at=None, cancel_at=None)
        self.sub["cancellation_details"] = {"reason": None}

    def end(self, reason: str | None) -> None:
        self.sub.update(status="canceled", ended_at=s(self.now), canceled_at=self.sub["canceled_at"] or s(self.now))
        self.sub["cancellation_details"] = {"reason": reason}

    def upgrade(self, product: str = "max") -> Json:
        """At once, and charged at once: the rest of the old price comes back, the new one costs the rest."""
        old, end = self.item["price"], self.item["current_period_end"] * 1000
        self.item["price"] = price(product)
        lines = [
            self.line(-old["unit_amount"] // 2, self.now, end, proration="ii_1", price=old),
            self.line(PRICES[product] // 2, self.now, end, proration="ii_2"),
        ]
        return self.bill("subscription_update", lines=lines)

    def upgrade_later_paid(self, product: str = "max") -> None:
        """At once, charged with the next invoice: Stripe's default."""
        old, end = self.item["price"], self.item["current_period_end"]
        self.item["price"] = price(product)
        for id, amount, priced in (
            ("ii_1", -old["unit_amount"] // 2, old),
            ("ii_2", PRICES[product] // 2, price(product)),
        ):
            self.pending.append(
                {
                    "id": id,
                    "object": "invoiceitem",
                    "amount": amount,
                    "currency": "eur",
                    "proration": True,
                    "period": {"start": s(self.now), "end": end},
                    "parent": {"subscription_details": {"subscription": SUB, "subscription_item": ITEM}},
                    "pricing": {"price_details": {"price": priced["id"], "product": priced["product"]}},
                }
            )

    def renew_with_pending(self) -> Json:
        item = self.item
        item["current_period_start"] = item["current_period_end"]
        item["current_period_end"] += s(MONTH)
        pending, self.pending = self.pending, []
        lines = [
            self.line(
                one["amount"],
                one["period"]["start"] * 1000,
                one["period"]["end"] * 1000,
                proration=one["id"],
                price={
                    "id": one["pricing"]["price_details"]["price"],
                    "product": one["pricing"]["price_details"]["product"],
                },
            )
            for one in pending
        ]
        return self.bill("subscription_cycle", lines=[*lines, self.line(item["price"]["unit_amount"])])

    def schedule(self, product: str | None) -> None:
        end = self.item["current_period_end"]
        phases = [
            {
                "start_date": self.item["current_period_start"],
                "end_date": end,
                "items": [{"price": self.item["price"]}],
            },
            {"start_date": end, "end_date": end + s(MONTH), "items": [{"price": price(product)}]} if product else {},
        ]
        self.sub["schedule"] = {"id": "sub_sched_1", "status": "active", "phases": phases} if product else None

    def pause(self, resumes_at: Ms | None = None) -> None:
        self.sub["pause_collection"] = {"behavior": "void", "resumes_at": s(resumes_at) if resumes_at else None}

    def resume(self) -> None:
        self.sub["pause_collection"] = None

    def extend(self, until: Ms) -> None:
        """A trial that ends later, or one for a subscription that is paid: Stripe writes an invoice over nothing."""
        if self.sub["status"] == "active":
            self.sub.update(status="trialing", trial_start=s(self.now))
            self.item["current_period_start"] = s(self.now)
        self.sub["trial_end"] = self.item["current_period_end"] = s(until)
        self.bill("subscription_update", 0)

    def refund(self, charge: Json | None = None, amount: int | None = None) -> Json:
        charge = next(one for one in self.charges[::-1] if one["status"] == "succeeded") if charge is None else charge
        refund: Json = {
            "id": f"re_{next(_numbers):08}",
            "object": "refund",
            "amount": charge["amount"] if amount is None else amount,
            "created": s(self.now),
            "status": "succeeded",
            "charge": charge["id"],
            "payment_intent": charge["payment_intent"],
            "failure_balance_transaction": None,
        }
        charge["refunds"]["data"].insert(0, refund)
        charge["amount_refunded"] += refund["amount"]
        return refund

    def refund_fails(self) -> Json:
        refund: Json = next(one for charge in self.charges for one in charge["refunds"]["data"])
        came = {"id": "txn_back", "amount": refund["amount"], "created": s(self.now)}
        refund.update(status="failed", failure_balance_transaction=came)
        return refund

    def dispute(self) -> Json:
        charge = self.charges[-1]
        charge["disputed"] = True
        moved = {"id": "txn_1", "amount": -charge["amount"] - 50, "created": s(self.now)}
        dispute: Json = {
            "id": "dp_1",
            "object": "dispute",
            "amount": charge["amount"],
            "charge": charge["id"],
            "payment_intent": charge["payment_intent"],
            "status": "needs_response",
            "balance_transactions": [moved],
        }
        self.disputes.append(dispute)
        return dispute

    def reinstate(self) -> Json:
        dispute = self.disputes[-1]
        dispute["balance_transactions"].append({"id": "txn_2", "amount": dispute["amount"], "created": s(self.now)})
        return dispute

    def checkout(self, *products: str, mode: str = "payment", paid: bool = True, **more: Any) -> Json:
        total = sum(PRICES[one] for one in products)
        self.sessions[SESSION] = {
            "id": SESSION,
            "object": "checkout.session",
            "mode": mode,
            "created": s(self.now),
            "livemode": False,
            "status": "complete",
            "payment_status": "paid" if paid else "unpaid",
            "client_reference_id": "ada",
            "customer": CUSTOMER,
            "metadata": {},
            "payment_intent": PAYMENT if mode == "payment" else None,
            "subscription": SUB if mode == "subscription" else None,
            "line_items": {
                "object": "list",
                "has_more": False,
                "data": [
                    {"id": f"li_{one}", "amount_total": PRICES[one], "currency": "eur", "price": price(one, "once")}
                    for one in products
                ],
            },
            **more,
        }
        if mode == "payment" and paid:
            self.charge(PAYMENT, total)
        return self.sessions[SESSION]


END = START + MONTH
CHARGED = END + HOUR
