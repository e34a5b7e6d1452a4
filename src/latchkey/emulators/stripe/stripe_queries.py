"""Reads of the API: objects by id, lists page by page, and expansion of the fields that were asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from latchkey.emulators.stripe import stripe_catalog_objects, stripe_objects
from latchkey.emulators.stripe.stripe_books import StripeBooks
from latchkey.emulators.stripe.stripe_catalog_objects import listed
from latchkey.emulators.stripe.stripe_objects import invoice_item, invoice_payment, rendered

_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_PART = re.compile(r"\[([^\[\]]*)\]")
_DEEPEST_NAME = 6


class FormError(ValueError):
    """Its text is shown."""


def parse(text: str) -> dict[str, Any]:
    """Lists are written with numbers, or with empty brackets. All values are text."""
    found: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=1000):
        match = _NAME.fullmatch(name)
        parts = [match[1], *_PART.findall(match[2])] if match else []
        if match is None or len(parts) > _DEEPEST_NAME:
            raise FormError(f"Invalid parameter name: {name[:100]}")
        place = found
        for part, following in zip(parts, [*parts[1:], None], strict=True):
            key = part or str(len(place))
            if following is None:
                place[key] = value
                break
            inside = place.setdefault(key, {})
            if not isinstance(inside, dict):
                raise FormError(f"Invalid parameter: {name[:100]}")
            place = inside
    return found


def items(value: Any) -> list[Any]:
    """A list that was sent in a form."""
    if value in (None, ""):
        return []
    if not isinstance(value, dict):
        raise FormError("Invalid array")
    try:
        return [value[key] for key in sorted(value, key=int)]
    except ValueError:
        raise FormError("Invalid array") from None


_MOST = 100
_DEEPEST = 4

# Which shelf of the books has the ids that begin so.
_SHELVES = {
    "sub_sched_": "schedules",
    "sub_": "subscriptions",
    "in_": "invoices",
    "pi_": "intents",
    "seti_": "setups",
    "ch_": "charges",
    "re_": "refunds",
    "du_": "disputes",
    "cs_": "sessions",
    "cus_": "customers",
    "price_": "prices",
}


class StripeError(Exception):
    """Its message is shown to who asked."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param


def found(life: StripeBooks, id: str) -> dict[str, Any] | None:
    """Any object by its id."""
    if id in life.products:
        return rendered(life, life.products[id])
    if id.startswith("inpay_"):
        of = life.invoices.get(f"in_{id.removeprefix('inpay_')}")
        return stripe_objects.invoice_payment(life, of) if of else None
    if id.startswith("txn_failed_"):
        failed = life.refunds.get(f"re_{id.removeprefix('txn_failed_')}")
        return stripe_objects.failure_movement(failed) if failed else None
    shelf = next((shelf for prefix, shelf in _SHELVES.items() if id.startswith(prefix)), "prices")
    if shelf == "schedules":
        owner = next((one for one in life.subscriptions.values() if one.schedule == id), None)
        return stripe_catalog_objects.schedule(life, owner) if owner else None
    one = getattr(life, shelf).get(id)
    return rendered(life, one) if one is not None else None


def of_kind(life: StripeBooks, kind: str, id: str) -> dict[str, Any]:
    """The object with this id, if it is of this kind."""
    one = found(life, id)
    if one is None or one["object"] != kind:
        raise missing(kind, id)
    return one


def missing(kind: str, id: str) -> StripeError:
    return StripeError(404, f"No such {kind.replace('_', '')}: '{id[:100]}'", code="resource_missing", param="id")


def expanded(life: StripeBooks, value: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    for path in items(asked.get("expand")):
        parts = str(path).split(".")
        if len(parts) > _DEEPEST + 1:
            raise StripeError(400, "You cannot expand more than 4 levels of a property.", param="expand")
        _expand(life, value, parts, str(path))
    return value


def _expand(life: StripeBooks, value: Any, parts: list[str], path: str) -> None:
    if isinstance(value, list):
        for one in value:
            _expand(life, one, parts, path)
        return
    if not parts or value is None:
        return
    name, *rest = parts
    if not isinstance(value, dict) or (name not in value and name not in _HIDDEN.get(value.get("object", ""), {})):
        raise StripeError(400, f"This property cannot be expanded ({path}).", param="expand[0]")
    inside = value.get(name)
    if name not in value:
        inside = _HIDDEN[value["object"]][name](life, value)
    elif isinstance(inside, str):
        inside = found(life, inside) or inside
    value[name] = inside
    _expand(life, inside, rest, path)


def _payments(life: StripeBooks, value: dict[str, Any]) -> dict[str, Any]:
    one = stripe_objects.invoice_payment(life, life.invoices[value["id"]])
    return listed(f"/v1/invoice_payments?invoice={value['id']}", [one] if one else [])


def _confirmation(life: StripeBooks, value: dict[str, Any]) -> dict[str, Any] | None:
    invoice = life.invoices[value["id"]]
    if invoice.intent is None or invoice.status != "open":
        return None
    return {"client_secret": life.intents[invoice.intent].secret, "type": "payment_intent"}


def _line_items(life: StripeBooks, value: dict[str, Any]) -> dict[str, Any]:
    return listed(f"/v1/checkout/sessions/{value['id']}/line_items", session_lines(life, value["id"]))


def _refunds(life: StripeBooks, value: dict[str, Any]) -> dict[str, Any]:
    of = [rendered(life, one) for one in life.refunds.values() if one.charge == value["id"]]
    return listed(f"/v1/charges/{value['id']}/refunds", of[::-1])


def _subscriptions(life: StripeBooks, value: dict[str, Any]) -> dict[str, Any]:
    of = [rendered(life, one) for one in life.subscriptions.values() if one.customer == value["id"]]
    return listed(f"/v1/customers/{value['id']}/subscriptions", of[::-1])


# Only shown when they are asked for.
_HIDDEN: dict[str, dict[str, Callable[[StripeBooks, dict[str, Any]], Any]]] = {
    "invoice": {"payments": _payments, "confirmation_secret": _confirmation},
    "checkout.session": {"line_items": _line_items},
    "charge": {"refunds": _refunds},
    "customer": {"subscriptions": _subscriptions},
}


def session_lines(life: StripeBooks, id: str) -> list[dict[str, Any]]:
    of = life.sessions[id]
    return [stripe_objects.session_item(life, of, one) for one in of.items]


def page(life: StripeBooks, url: str, all_of_it: Iterable[dict[str, Any]], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A page of a list, newest first. The list comes oldest first."""
    limit = _number(asked, "limit", 10)
    if not 1 <= limit <= _MOST:
        raise StripeError(400, "Invalid integer: limit is 1 to 100.", param="limit")
    wanted = [one for one in all_of_it if _created(one, asked)][::-1]
    ids = [one["id"] for one in wanted]
    after, before = asked.get("starting_after"), asked.get("ending_before")
    if after is not None:
        wanted = wanted[_place(ids, after, "starting_after") + 1 :]
    if before is not None:
        wanted = wanted[: _place(ids, before, "ending_before")]
        shown, has_more = wanted[-limit:], len(wanted) > limit
    else:
        shown, has_more = wanted[:limit], len(wanted) > limit
    return expanded(life, listed(url, shown, has_more=has_more), asked)


def charge_for(life: StripeBooks, asked: Mapping[str, Any]) -> str:
    """The payment that a refund names."""
    if (charge := asked.get("charge")) is not None:
        of_kind(life, "charge", charge)
        return str(charge)
    intent = of_kind(life, "payment_intent", str(asked.get("payment_intent", "")))
    if intent["latest_charge"] is None:
        raise StripeError(
            400, "This PaymentIntent does not have a successful charge to refund.", param="payment_intent"
        )
    return str(intent["latest_charge"])


def _created(one: dict[str, Any], asked: Mapping[str, Any]) -> bool:
    wanted = asked.get("created")
    if wanted is None:
        return True
    if not isinstance(wanted, dict):
        return bool(one["created"] == _number(asked, "created", 0))
    at = one["created"]
    checks = {"gte": at.__ge__, "gt": at.__gt__, "lte": at.__le__, "lt": at.__lt__}
    if unknown := wanted.keys() - checks.keys():
        raise StripeError(400, f"Received unknown parameter: created[{min(unknown)}]", param="created")
    return all(checks[name](_number(wanted, name, 0)) for name in wanted)


def _place(ids: list[str], id: str, param: str) -> int:
    if id not in ids:
        raise StripeError(400, f"No such object: '{id[:100]}'", code="resource_missing", param=param)
    return ids.index(id)


def _number(asked: Mapping[str, Any], name: str, ordinary: int) -> int:
    text = asked.get(name)
    if text is None:
        return ordinary
    if not isinstance(text, str) or not text.isdigit() or len(text) > 12:
        raise StripeError(400, f"Invalid integer: {str(text)[:100]}", code="parameter_invalid_integer", param=name)
    return int(text)


def products(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _where(_all(life, life.products), asked, "active")


def _all(life: StripeBooks, shelf: dict[str, Any]) -> list[dict[str, Any]]:
    return [rendered(life, one) for one in shelf.values()]


def _where(shown: list[dict[str, Any]], asked: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    """Those with the same values as was asked for."""
    wanted = {name: asked[name] for name in names if name in asked}
    return [one for one in shown if all(str(one[name]).lower() == value for name, value in wanted.items())]


def _exact(shown: list[dict[str, Any]], asked: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    wanted = {name: asked[name] for name in names if name in asked}
    return [one for one in shown if all(one[name] == value for name, value in wanted.items())]


def prices(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    listed = _where(_exact(_all(life, life.prices), asked, "product", "currency", "type"), asked, "active")
    keys = items(asked.get("lookup_keys"))
    return [one for one in listed if not keys or one["lookup_key"] in keys]


def customers(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.customers), asked, "email")


def subscriptions(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Without a status, those that are not over."""
    listed = _exact(_all(life, life.subscriptions), asked, "customer")
    status = asked.get("status")
    if status is None:
        return [one for one in listed if one["status"] != "canceled"]
    if status == "ended":
        return [one for one in listed if one["status"] in ("canceled", "incomplete_expired")]
    return listed if status == "all" else [one for one in listed if one["status"] == status]


def subscription_items(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    shown = of_kind(life, "subscription", str(asked.get("subscription", "")))
    listed: list[dict[str, Any]] = shown["items"]["data"]
    return listed


def invoices(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    wanted = life.invoices.values()
    if (id := asked.get("subscription")) is not None:
        of_kind(life, "subscription", id)
        return _exact([rendered(life, one) for one in wanted if one.subscription == id], asked, "customer", "status")
    return _exact([rendered(life, one) for one in wanted], asked, "customer", "status")


def invoice_items(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Only those that wait for an invoice."""
    if asked.get("pending") == "false":
        return []
    waiting = [invoice_item(life, of, one) for of in life.subscriptions.values() for one in of.pending]
    return _exact(waiting, asked, "customer")


def invoice_payments(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    all_of_them = [invoice_payment(life, one) for one in life.invoices.values()]
    listed = _exact([one for one in all_of_them if one is not None], asked, "invoice", "status")
    wanted = asked.get("payment")
    if isinstance(wanted, dict) and "payment_intent" in wanted:
        return [one for one in listed if one["payment"]["payment_intent"] == wanted["payment_intent"]]
    return listed


def charges(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.charges), asked, "customer", "payment_intent")


def refunds(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.refunds), asked, "charge", "payment_intent")


def disputes(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.disputes), asked, "charge", "payment_intent")


def intents(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    return _exact(_all(life, life.intents), asked, "customer")


def sessions(life: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    names = ("customer", "payment_intent", "subscription", "status")
    return _exact(_all(life, life.sessions), asked, *names)
