"""The lists of the API: everything of a kind, oldest first, that has what was asked for."""

from __future__ import annotations

from typing import Any

from latchkey.emulators.stripe.forms import items as listed_in
from latchkey.emulators.stripe.reading import of_kind
from latchkey.emulators.stripe.resources import rendered
from latchkey.emulators.stripe.resources_invoices import invoice_item, invoice_payment
from latchkey.emulators.stripe.state import Life


def products(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _where(_all(life, life.products), asked, "active")


def _all(life: Life, shelf: dict[str, Any]) -> list[dict[str, Any]]:
    return [rendered(life, one) for one in shelf.values()]


def _where(shown: list[dict[str, Any]], asked: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    """Those with the same values as was asked for."""
    wanted = {name: asked[name] for name in names if name in asked}
    return [one for one in shown if all(str(one[name]).lower() == value for name, value in wanted.items())]


def _exact(shown: list[dict[str, Any]], asked: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    wanted = {name: asked[name] for name in names if name in asked}
    return [one for one in shown if all(one[name] == value for name, value in wanted.items())]


def prices(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    listed = _where(_exact(_all(life, life.prices), asked, "product", "currency", "type"), asked, "active")
    keys = listed_in(asked.get("lookup_keys"))
    return [one for one in listed if not keys or one["lookup_key"] in keys]


def customers(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.customers), asked, "email")


def subscriptions(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Without a status, those that are not over."""
    listed = _exact(_all(life, life.subscriptions), asked, "customer")
    status = asked.get("status")
    if status is None:
        return [one for one in listed if one["status"] != "canceled"]
    if status == "ended":
        return [one for one in listed if one["status"] in ("canceled", "incomplete_expired")]
    return listed if status == "all" else [one for one in listed if one["status"] == status]


def items(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    shown = of_kind(life, "subscription", str(asked.get("subscription", "")))
    listed: list[dict[str, Any]] = shown["items"]["data"]
    return listed


def invoices(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = life.invoices.values()
    if (id := asked.get("subscription")) is not None:
        of_kind(life, "subscription", id)
        return _exact([rendered(life, one) for one in wanted if one.subscription == id], asked, "customer", "status")
    return _exact([rendered(life, one) for one in wanted], asked, "customer", "status")


def invoice_items(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Only those that wait for an invoice."""
    if asked.get("pending") == "false":
        return []
    waiting = [invoice_item(life, of, one) for of in life.subscriptions.values() for one in of.pending]
    return _exact(waiting, asked, "customer")


def invoice_payments(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    all_of_them = [invoice_payment(life, one) for one in life.invoices.values()]
    listed = _exact([one for one in all_of_them if one is not None], asked, "invoice", "status")
    wanted = asked.get("payment")
    if isinstance(wanted, dict) and "payment_intent" in wanted:
        return [one for one in listed if one["payment"]["payment_intent"] == wanted["payment_intent"]]
    return listed


def charges(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.charges), asked, "customer", "payment_intent")


def refunds(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.refunds), asked, "charge", "payment_intent")


def disputes(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.disputes), asked, "charge", "payment_intent")


def intents(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.intents), asked, "customer")


def sessions(life: Life, asked: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("customer", "payment_intent", "subscription", "status")
    return _exact(_all(life, life.sessions), asked, *names)
