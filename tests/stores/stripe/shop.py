"""What happens to one customer in the pretend account."""

from __future__ import annotations

from itertools import count
from typing import Any

from latchkey.domain.instants import HOUR, Ms
from tests.stores.stripe.account import (
    CUSTOMER,
    ITEM,
    MONTH,
    PAYMENT,
    PRICES,
    SESSION,
    START,
    SUB,
    Account,
    Json,
    price,
    s,
)

_numbers = count(1)


class Shop(Account):
    # What happens in the account.

    @property
    def sub(self) -> Json:
        return self.subscriptions[SUB]

    @property
    def item(self) -> Json:
        item: Json = self.sub["items"]["data"][0]
        return item

    def subscribe(self, product: str = "pro", *also: str, status: str = "active", trial: Ms = 0, **more: Any) -> Json:
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
                        "id": f"si_{next(_numbers):014}" if number else ITEM,
                        "object": "subscription_item",
                        "created": s(self.now),
                        "price": price(one),
                        "current_period_start": s(self.now),
                        "current_period_end": s(end),
                    }
                    for number, one in enumerate((product, *also))
                ],
            },
            **more,
        }
        self.bill("subscription_create", lines=self._regular(0 if trial else 1), paid=status == "active")
        return self.sub

    def _regular(self, times: int = 1) -> list[Json]:
        return [self.line(one["price"]["unit_amount"] * times, item=one) for one in self.sub["items"]["data"]]

    def add_item(self, product: str = "extra", *, credit: str = "later") -> None:
        """Another item for the rest of the period. `credit` as for `remove_item`."""
        new = {**self.item, "id": f"si_{next(_numbers):014}", "created": s(self.now), "price": price(product)}
        self.sub["items"]["data"].append(new)
        self._prorate(new, PRICES[product] // 2, credit)

    def remove_item(self, position: int = 1, *, credit: str = "later") -> None:
        """The rest of the price is credited with the next invoice, at once, or not at all."""
        gone = self.sub["items"]["data"].pop(position)
        self._prorate(gone, -gone["price"]["unit_amount"] // 2, credit)

    def replace_item(self, position: int = 0, product: str = "max", *, credit: str = "later") -> None:
        """In one request, as some shops change a plan."""
        self.add_item(product, credit=credit)
        self.remove_item(position, credit=credit)

    def _prorate(self, item: Json, amount: int, credit: str) -> None:
        end = item["current_period_end"]
        if credit == "later":
            self._wait(item, amount, end)
        elif credit == "at once":
            line = self.line(amount, self.now, end * 1000, proration=f"ii_{next(_numbers)}", price=item["price"])
            self.bill("subscription_update", lines=[line])

    def line(self, amount: int, start: Ms | None = None, end: Ms | None = None, **more: Any) -> Json:
        """A regular line of the item as it is now; a proration where `proration` names its invoice item."""
        item, proration = more.pop("item", self.item), more.pop("proration", None)
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
        """The next period begins. Stripe charges an hour later, as this does, and for the changes of the last one."""
        for item in self.sub["items"]["data"]:
            item["current_period_start"] = item["current_period_end"]
            item["current_period_end"] += s(MONTH)
        pending, self.pending = self.pending, []
        lines = []
        for one in pending:
            start, end, named = (
                one["period"]["start"] * 1000,
                one["period"]["end"] * 1000,
                one["pricing"]["price_details"],
            )
            priced = {"id": named["price"], "product": named["product"]}
            lines.append(self.line(one["amount"], start, end, proration=one["id"], price=priced))
        self.sub["status"] = "active" if paid else "past_due"
        return self.bill("subscription_cycle", lines=[*lines, *self._regular()], paid=paid)

    def begin_period(self, **more: Any) -> Json:
        """The next period begins with a draft, for which Stripe charges an hour later."""
        invoice = self.renew(paid=False)
        self.sub["status"], invoice["status"], self.charges = "active", "draft", self.charges[:-1]
        invoice["status_transitions"]["finalized_at"] = None
        invoice["payments"]["data"] = []
        invoice.update({"automatically_finalizes_at": s(self.now + HOUR), **more})
        return invoice

    def send_invoice(self) -> Json:
        """The next period begins, and its invoice is sent to the customer."""
        invoice = self.begin_period(status="open", automatically_finalizes_at=None, due_date=s(self.now + MONTH // 2))
        invoice["status_transitions"]["finalized_at"] = s(self.now)
        return invoice

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
        old, end = dict(self.item), self.item["current_period_end"]
        self.item["price"] = price(product)
        self._wait(old, -old["price"]["unit_amount"] // 2, end)
        self._wait(self.item, PRICES[product] // 2, end)

    def _wait(self, item: Json, amount: int, end: int) -> None:
        """A proration for the next invoice."""
        priced = item["price"]
        self.pending.append(
            {
                "id": f"ii_{len(self.pending) + 1}",
                "object": "invoiceitem",
                "amount": amount,
                "currency": "eur",
                "proration": True,
                "period": {"start": s(self.now), "end": end},
                "parent": {"subscription_details": {"subscription": SUB, "subscription_item": item["id"]}},
                "pricing": {"price_details": {"price": priced["id"], "product": priced["product"]}},
            }
        )

    def change_for_nothing(self, product: str = "max") -> None:
        """At once, without a proration: nothing dates it."""
        self.item["price"] = price(product)

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
