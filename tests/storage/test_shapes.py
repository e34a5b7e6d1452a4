"""A customer as decoded for reading lacks some fields, but has the same properties and gets the same answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from msgspec import json

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.storage.customers.state_format import UNSEEN, decode, decode_for_reading, encode, struct_of
from latchkey.usecases.rendering import v1, v2
from latchkey.usecases.rendering.view import LastSeen, View
from tests.domain.book import Book
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG as SHOP
from tests.storage.lives import CATALOG, LIVES

WHOLE = json.Decoder(struct_of(Customer))


@pytest.mark.parametrize("life", LIVES, ids=lambda one: one.__name__)
def test_a_struct_of_a_customer_has_every_field_and_gives_the_same_answers(life: Callable[[], Book]) -> None:
    book = life()
    whole, seen = decode(encode(book.customer)), WHOLE.decode(encode(book.customer))
    assert plain(seen) == plain(whole)
    assert encode(seen) == encode(whole)
    assert answers(seen, book.now) == answers(whole, book.now)


@given(lives())
def test_whatever_happened_in_a_life_is_the_same_when_decoded_for_reading(life: Life) -> None:
    for at, customer in life.book.states:
        one, other = (
            View(1, seen, SHOP, at, LastSeen(at)) for seen in (customer, decode_for_reading(encode(customer)))
        )
        assert v1.subscriber(one) == v1.subscriber(other)
        assert v2.customer(one) == v2.customer(other)


def test_what_is_not_decoded_for_reading_is_named_after_fields_that_exist_and_is_left_out() -> None:
    for shape, hidden in UNSEEN:
        names = set(shape.__struct_fields__)
        assert hidden <= names
        assert set(struct_of(shape, UNSEEN).__struct_fields__) == names - hidden


def answers(customer: Customer, now: Ms) -> list[Any]:
    """What V1 and V2 answer at several moments."""
    views = [View(1, customer, CATALOG, at, LastSeen(at)) for at in (now, *(now + n * DAY for n in (5, 45, 400)))]
    return [(v1.subscriber(view), v2.customer(view)) for view in views]


def plain(value: Any) -> Any:
    """Its fields and properties, and recursively those of its parts, whatever their classes."""
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    fields = getattr(value, "__struct_fields__", None)
    if fields is None:
        return value
    named = [name for name, one in vars(type(value)).items() if isinstance(one, property)]
    return {name: plain(getattr(value, name)) for name in (*fields, *named)}
