"""The address of a customer's pages. Ids are chosen by apps: almost anything can stand in one."""

from __future__ import annotations

from latchkey.dashboard.visit import Visit
from latchkey.domain.refusal import NotFound
from latchkey.domain.user_id import MAX_LENGTH


def address(visit: Visit, customer_id: str, *below: str, **query: object) -> str:
    return visit.path("customers", customer_id, *below, **query)


def customer_id(visit: Visit) -> str:
    """The id that the path names."""
    id = visit.param("customer_id")
    if len(id) > MAX_LENGTH:
        raise NotFound("There is no customer with so long an id.", param="customer_id")
    return id


def isolated(text: str) -> str:
    """Text from outside where no markup can hold it, such as a window's title: its direction ends with it."""
    return f"\u2068{text}\u2069"


def written_out(text: str) -> str | None:
    """Where an id holds what nobody sees (a space at its edge, a mark that turns the direction): all of it, spelled."""
    plain = text.isprintable() and text == text.strip() and "  " not in text
    return None if plain else repr(text)
