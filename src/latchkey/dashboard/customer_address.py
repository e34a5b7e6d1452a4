"""The URLs of a customer's pages. Apps choose the ids, so they may contain almost any character."""

from __future__ import annotations

from latchkey.dashboard.page import Visit
from latchkey.domain.refusal import NotFound
from latchkey.domain.user_id import MAX_LENGTH


def address(visit: Visit, customer_id: str, *below: str, **query: object) -> str:
    return visit.path("customers", customer_id, *below, **query)


def customer_id(visit: Visit) -> str:
    """The id in the path."""
    id = visit.param("customer_id")
    if len(id) > MAX_LENGTH:
        raise NotFound("No customer has such a long id.", param="customer_id")
    return id


def isolated(text: str) -> str:
    """External text in places without markup, such as a page title: its text direction is isolated."""
    return f"\u2068{text}\u2069"


def written_out(text: str) -> str | None:
    """Spells out an id with invisible characters (a space at its edge, a direction mark); None for an ordinary id."""
    plain = text.isprintable() and text == text.strip() and "  " not in text
    return None if plain else repr(text)
