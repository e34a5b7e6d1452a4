"""Objects of the books for the API: found by id, listed page by page, and expanded where that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from latchkey.emulators.stripe import resources, resources_invoices, resources_paying
from latchkey.emulators.stripe.forms import items
from latchkey.emulators.stripe.resources import listed, rendered
from latchkey.emulators.stripe.state import Life

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


def found(life: Life, id: str) -> dict[str, Any] | None:
    """Any object by its id."""
    if id in life.products:
        return rendered(life, life.products[id])
    if id.startswith("inpay_"):
        of = life.invoices.get(f"in_{id.removeprefix('inpay_')}")
        return resources_invoices.invoice_payment(life, of) if of else None
    if id.startswith("txn_failed_"):
        failed = life.refunds.get(f"re_{id.removeprefix('txn_failed_')}")
        return resources_paying.failure_movement(failed) if failed else None
    shelf = next((shelf for prefix, shelf in _SHELVES.items() if id.startswith(prefix)), "prices")
    if shelf == "schedules":
        owner = next((one for one in life.subscriptions.values() if one.schedule == id), None)
        return resources.schedule(life, owner) if owner else None
    one = getattr(life, shelf).get(id)
    return rendered(life, one) if one is not None else None


def of_kind(life: Life, kind: str, id: str) -> dict[str, Any]:
    """The object with this id, if it is of this kind."""
    one = found(life, id)
    if one is None or one["object"] != kind:
        raise missing(kind, id)
    return one


def missing(kind: str, id: str) -> StripeError:
    return StripeError(404, f"No such {kind.replace('_', '')}: '{id[:100]}'", code="resource_missing", param="id")


def expanded(life: Life, value: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    for path in items(asked.get("expand")):
        parts = str(path).split(".")
        if len(parts) > _DEEPEST + 1:
            raise StripeError(400, "You cannot expand more than 4 levels of a property.", param="expand")
        _expand(life, value, parts, str(path))
    return value


def _expand(life: Life, value: Any, parts: list[str], path: str) -> None:
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


def _payments(life: Life, value: dict[str, Any]) -> dict[str, Any]:
    one = resources_invoices.invoice_payment(life, life.invoices[value["id"]])
    return listed(f"/v1/invoice_payments?invoice={value['id']}", [one] if one else [])


def _confirmation(life: Life, value: dict[str, Any]) -> dict[str, Any] | None:
    invoice = life.invoices[value["id"]]
    if invoice.intent is None or invoice.status != "open":
        return None
    return {"client_secret": life.intents[invoice.intent].secret, "type": "payment_intent"}


def _line_items(life: Life, value: dict[str, Any]) -> dict[str, Any]:
    return listed(f"/v1/checkout/sessions/{value['id']}/line_items", session_lines(life, value["id"]))


def _refunds(life: Life, value: dict[str, Any]) -> dict[str, Any]:
    of = [rendered(life, one) for one in life.refunds.values() if one.charge == value["id"]]
    return listed(f"/v1/charges/{value['id']}/refunds", of[::-1])


def _subscriptions(life: Life, value: dict[str, Any]) -> dict[str, Any]:
    of = [rendered(life, one) for one in life.subscriptions.values() if one.customer == value["id"]]
    return listed(f"/v1/customers/{value['id']}/subscriptions", of[::-1])


# Only shown when they are asked for.
_HIDDEN: dict[str, dict[str, Callable[[Life, dict[str, Any]], Any]]] = {
    "invoice": {"payments": _payments, "confirmation_secret": _confirmation},
    "checkout.session": {"line_items": _line_items},
    "charge": {"refunds": _refunds},
    "customer": {"subscriptions": _subscriptions},
}


def session_lines(life: Life, id: str) -> list[dict[str, Any]]:
    of = life.sessions[id]
    return [resources_paying.session_item(life, of, one) for one in of.items]


def page(life: Life, url: str, all_of_it: Iterable[dict[str, Any]], asked: Mapping[str, Any]) -> dict[str, Any]:
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


def charge_for(life: Life, asked: Mapping[str, Any]) -> str:
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
