"""URLs of a customer's pages: apps choose the ids, so they may contain almost any character. And the commands of a
first purchase."""

from shlex import quote
from typing import Any

from msgspec import json

from latchkey.dashboard.page import JSON, Visit
from latchkey.domain.refusal import NotFound
from latchkey.domain.user_id import MAX_LENGTH
from latchkey.subjects.catalog.usecases.product_catalog import list_products


def address(visit: Visit, customer_id: str, *below: str, **query: object) -> str:
    return visit.path("customers", customer_id, *below, **query)


def customer_id(visit: Visit) -> str:
    """The id in the path."""
    id = visit.param("customer_id")
    if len(id) > MAX_LENGTH:
        raise NotFound("No customer has such a long id.", param="customer_id")
    return id


def isolated(text: str) -> str:
    """External text in our sentence, or in a page title: its text direction is isolated."""
    return f"\u2068{text}\u2069"


def written_out(text: str) -> str | None:
    """Spells out an id with invisible characters (a space at its edge, a direction mark); None for an ordinary id."""
    plain = text.isprintable() and text == text.strip() and "  " not in text
    return None if plain else repr(text)


# What a project without a catalog needs before a purchase.
_PRODUCT = {"id": "pro_monthly", "kind": "subscription", "duration": "P1M", "price": 9.99, "currency": "USD"}
_ENTITLEMENT = {"id": "pro", "display_name": "Pro"}


async def first_purchase(visit: Visit) -> str:
    """The command with which alice buys a product of this project. If it has none, first the commands to create
    one."""
    found = await visit.run(list_products, limit=1)
    product = found[0].id if found else str(_PRODUCT["id"])
    if found:
        return visit.curl("test_store/actions", _buying(product))
    attach = f"entitlements/{_ENTITLEMENT['id']}/actions/attach_products"
    steps: dict[str, dict[str, Any]] = {
        "products": _PRODUCT,
        "entitlements": _ENTITLEMENT,
        attach: {"product_ids": [product]},
        "test_store/actions": _buying(product),
    }
    address, *headers = visit.curl_call("")
    return "\n".join(
        (
            "# This project has no products yet: create one, let it grant an entitlement, and buy it.",
            " \\\n  ".join(("post() { " + f'{address}"$1"', *headers, JSON, '-d "$2"; echo; }')),
            *(f"post {path} {quote(json.encode(body).decode())}" for path, body in steps.items()),
        )
    )


def _buying(product: str) -> dict[str, Any]:
    return {"action": "purchase", "app_user_id": "alice", "product_id": product}
