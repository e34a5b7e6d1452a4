"""Reads of the API: objects by id, lists page by page, and expansion of the fields that were asked for."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from latchkey.emulators.stripe import stripe_catalog_objects, stripe_objects
from latchkey.emulators.stripe.stripe_books import StripeBooks
from latchkey.emulators.stripe.stripe_catalog_objects import listed
from latchkey.emulators.stripe.stripe_objects import invoice_item, invoice_payment, record_of, rendered

_NAME = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_PART = re.compile(r"\[([^\[\]]*)\]")
_DEEPEST_NAME = 6


Lists = Callable[[StripeBooks, dict[str, Any]], list[dict[str, Any]]]


class StripeError(Exception):
    """Its message is shown to who asked."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param


def parse(text: str) -> dict[str, Any]:
    """Lists are written with numbers, or with empty brackets. All values are text."""
    found: dict[str, Any] = {}
    for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=1000):
        match = _NAME.fullmatch(name)
        parts = [match[1], *_PART.findall(match[2])] if match else []
        if match is None or len(parts) > _DEEPEST_NAME:
            raise StripeError(400, f"Invalid parameter name: {name[:100]}")
        place = found
        for part, following in zip(parts, [*parts[1:], None], strict=True):
            key = part or str(len(place))
            if following is None:
                place[key] = value
                break
            inside = place.setdefault(key, {})
            if not isinstance(inside, dict):
                raise StripeError(400, f"Invalid parameter: {name[:100]}")
            place = inside
    return found


def items(value: Any) -> list[Any]:
    if value in (None, ""):
        return []
    if not isinstance(value, dict):
        raise StripeError(400, "Invalid array")
    try:
        return [value[key] for key in sorted(value, key=int)]
    except ValueError:
        raise StripeError(400, "Invalid array") from None


_MOST = 100
_DEEPEST = 4


def found(books: StripeBooks, id: str) -> dict[str, Any] | None:
    if (record := record_of(books, id)) is not None:
        return rendered(books, record)
    if id.startswith("txn_failed_"):
        failed = books.refunds.get(f"re_{id.removeprefix('txn_failed_')}")
        return stripe_objects.failure_movement(books, failed) if failed else None
    for subscription in books.subscriptions.values():
        if subscription.schedule == id:
            return stripe_catalog_objects.schedule(books, subscription)
        for item in subscription.items:
            if item.id == id:
                return stripe_catalog_objects.item(books, subscription, item)
    return None


def of_kind(books: StripeBooks, kind: str, id: str) -> dict[str, Any]:
    shown = found(books, id)
    if shown is None or shown["object"] != kind:
        raise missing(kind, id)
    return shown


def missing(kind: str, id: str) -> StripeError:
    return StripeError(404, f"No such {kind.replace('_', '')}: '{id[:100]}'", code="resource_missing", param="id")


def expanded(books: StripeBooks, value: dict[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    for path in items(asked.get("expand")):
        parts = str(path).split(".")
        if len(parts) > _DEEPEST + 1:
            raise StripeError(400, "You cannot expand more than 4 levels of a property.", param="expand")
        _expand(books, value, parts, str(path))
    return value


def _expand(books: StripeBooks, value: Any, parts: list[str], path: str) -> None:
    if isinstance(value, list):
        for element in value:
            _expand(books, element, parts, path)
        return
    if not parts or value is None:
        return
    name, *rest = parts
    if not isinstance(value, dict) or (name not in value and name not in _HIDDEN.get(value.get("object", ""), {})):
        raise StripeError(400, f"This property cannot be expanded ({path}).", param="expand[0]")
    inside = value.get(name)
    if name not in value:
        inside = _HIDDEN[value["object"]][name](books, value)
    elif isinstance(inside, str):
        inside = found(books, inside) or inside
    value[name] = inside
    _expand(books, inside, rest, path)


def _payments(books: StripeBooks, value: dict[str, Any]) -> dict[str, Any]:
    return listed(f"/v1/invoice_payments?invoice={value['id']}", invoice_payments(books, {"invoice": value["id"]}))


def _confirmation(books: StripeBooks, value: dict[str, Any]) -> dict[str, Any] | None:
    invoice = books.invoices[value["id"]]
    if invoice.payment_intent is None or invoice.status != "open":
        return None
    return {"client_secret": books.intents[invoice.payment_intent].client_secret, "type": "payment_intent"}


def _of_owner(shelf: str, field: str) -> Callable[[StripeBooks, dict[str, Any]], dict[str, Any]]:
    """The objects of a shelf that name their owner in this field, newest first."""

    def read(books: StripeBooks, value: dict[str, Any]) -> dict[str, Any]:
        owned = all_of(shelf, field)(books, {field: value["id"]})
        return listed(f"/v1/{field}s/{value['id']}/{shelf}", owned[::-1])

    return read


# Only shown when they are asked for.
_HIDDEN: dict[str, dict[str, Callable[[StripeBooks, dict[str, Any]], Any]]] = {
    "invoice": {"payments": _payments, "confirmation_secret": _confirmation},
    "checkout.session": {"line_items": lambda books, value: session_lines(books, value["id"], {})},
    "charge": {"refunds": _of_owner("refunds", "charge")},
    "customer": {"subscriptions": _of_owner("subscriptions", "customer")},
}


def session_lines(books: StripeBooks, id: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    of_kind(books, "checkout.session", id)
    of = books.sessions[id]
    lines = [stripe_catalog_objects.session_item(books, of, item) for item in reversed(of.items)]
    return page(books, f"/v1/checkout/sessions/{id}/line_items", lines, asked)


def page(books: StripeBooks, url: str, all_of_it: Iterable[dict[str, Any]], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A page of a list, newest first. The list comes oldest first."""
    limit = number(asked, "limit", 10)
    if not 1 <= limit <= _MOST:
        raise StripeError(400, "Invalid integer: limit is 1 to 100.", param="limit")
    wanted = [shown for shown in all_of_it if _created(shown, asked)][::-1]
    ids = [item["id"] for item in wanted]
    if (after := asked.get("starting_after")) is not None:
        if after not in ids:
            raise StripeError(400, f"No such object: '{after[:100]}'", code="resource_missing", param="starting_after")
        wanted = wanted[ids.index(after) + 1 :]
    return expanded(books, listed(url, wanted[:limit], has_more=len(wanted) > limit), asked)


def charge_for(books: StripeBooks, asked: Mapping[str, Any]) -> str:
    if (charge := asked.get("charge")) is not None:
        of_kind(books, "charge", charge)
        return str(charge)
    intent = of_kind(books, "payment_intent", str(asked.get("payment_intent", "")))
    if intent["latest_charge"] is None:
        raise StripeError(
            400, "This PaymentIntent does not have a successful charge to refund.", param="payment_intent"
        )
    return str(intent["latest_charge"])


def _created(shown: dict[str, Any], asked: Mapping[str, Any]) -> bool:
    if (wanted := asked.get("created")) is None:
        return True
    at = shown["created"]
    checks = {"gte": at.__ge__, "gt": at.__gt__, "lte": at.__le__, "lt": at.__lt__}
    if unknown := wanted.keys() - checks.keys():
        raise StripeError(400, f"Received unknown parameter: created[{min(unknown)}]", param="created")
    return all(checks[name](number(wanted, name, 0)) for name in wanted)


def number(asked: Mapping[str, Any], name: str, ordinary: int | None = None) -> int:
    text = asked.get(name)
    if text is None and ordinary is not None:
        return ordinary
    if not isinstance(text, str) or not text.isdigit() or len(text) > 12:
        raise StripeError(400, f"Invalid integer: {str(text)[:100]}", code="parameter_invalid_integer", param=name)
    return int(text)


def all_of(shelf: str, *fields: str) -> Lists:
    """A list of everything on a shelf, filtered by these fields where they are asked for."""

    def read(books: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
        return _where([rendered(books, record) for record in getattr(books, shelf).values()], asked, *fields)

    return read


def _where(shown: list[dict[str, Any]], asked: dict[str, Any], *fields: str) -> list[dict[str, Any]]:
    wanted = {field: asked[field] for field in fields if field in asked}
    return [item for item in shown if all(_text(item[field]) == value for field, value in wanted.items())]


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def subscriptions(books: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Without a status, those that are not over."""
    listed = all_of("subscriptions", "customer")(books, asked)
    if (status := asked.get("status")) is None:
        return [item for item in listed if item["status"] != "canceled"]
    return listed if status == "all" else [item for item in listed if item["status"] == status]


def subscription_items(books: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    shown = of_kind(books, "subscription", str(asked.get("subscription", "")))
    listed: list[dict[str, Any]] = shown["items"]["data"]
    return listed


def invoices(books: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    listed = all_of("invoices", "customer", "status")(books, asked)
    if (id := asked.get("subscription")) is not None:
        of_kind(books, "subscription", id)
        listed = [shown for shown in listed if books.invoices[shown["id"]].subscription == id]
    return listed


def invoice_items(books: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Only those that wait for an invoice."""
    waiting = [invoice_item(books, of, line) for of in books.subscriptions.values() for line in of.pending]
    return _where(waiting, asked, "customer")


def invoice_payments(books: StripeBooks, asked: dict[str, Any]) -> list[dict[str, Any]]:
    payments = [invoice_payment(books, paid) for paid in books.invoices.values() if paid.payment_intent is not None]
    listed = _where(payments, asked, "invoice", "status")
    wanted = asked.get("payment")
    if isinstance(wanted, dict) and "payment_intent" in wanted:
        return [item for item in listed if item["payment"]["payment_intent"] == wanted["payment_intent"]]
    return listed
