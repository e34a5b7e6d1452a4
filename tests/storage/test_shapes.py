"""A customer as decoded for reading lacks some fields, but has the same properties and gets the same answers."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from msgspec import json

from latchkey.domain.catalog import Catalog, Credit, Product, ProductKind
from latchkey.domain.customers.customer import Attribute, Customer, Enrollment, let_time_pass, newcomer
from latchkey.domain.customers.intake import take_in
from latchkey.domain.customers.promotion import grant, revoke
from latchkey.domain.instants import DAY, Duration
from latchkey.domain.money import Price
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.stores.test_store import actions
from latchkey.storage.customers.state_format import UNSEEN, decode, decode_for_reading, encode, struct_of
from latchkey.usecases.rendering import v1, v2
from latchkey.usecases.rendering.view import LastSeen, View
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG as SHOP

NOW = 1_767_960_000_000
WHOLE = json.Decoder(struct_of(Customer))
PRO = Product(
    id="pro",
    kind=ProductKind.SUBSCRIPTION,
    price=Price(9_990_000, "USD"),
    duration=Duration(months=1),
    trial=Duration(days=7),
    grants=("pro", "more"),
)
YEARLY = replace(PRO, id="yearly", duration=Duration(months=12), grants=("pro",))
LIFETIME = Product(id="lifetime", kind=ProductKind.ONE_TIME, price=Price(99_000_000, "EUR"), grants=("pro",))
COINS = Product(id="coins", kind=ProductKind.ONE_TIME, price=Price(1_000_000, "EUR"), credits=Credit("GLD", 100))
CATALOG = Catalog({one.id: one for one in (PRO, YEARLY, LIFETIME, COINS)}, frozenset({"pro", "more"}))


def bought(*products: Product, trial: bool = False) -> Customer:
    customer = newcomer("proj", "ada", NOW)
    for number, product in enumerate(products):
        seen = actions.buy(
            customer, product, NOW + number, id=f"id{number}", environment=Environment.SANDBOX, trial=trial
        )
        customer = take_in(customer, seen, NOW + number)
    return customer


def subscription(customer: Customer) -> Subscription:
    return customer.subscriptions[0]


PLAIN = bought(PRO)
LIVES = {
    "nothing": newcomer("proj", "ada", NOW),
    "subscribed": PLAIN,
    "everything": bought(PRO, LIFETIME, COINS),
    "on trial": bought(PRO, trial=True),
    "cancelled": take_in(PLAIN, actions.cancel(subscription(PLAIN), NOW + DAY), NOW + DAY),
    "failing": take_in(PLAIN, actions.fail_billing(subscription(PLAIN), NOW + DAY, 60), NOW + DAY),
    "paused": take_in(PLAIN, actions.pause(subscription(PLAIN), NOW, NOW + 90 * DAY), NOW),
    "granted": grant(grant(PLAIN, "more", None, NOW), "pro", NOW + 90 * DAY, NOW),
    "revoked": revoke(grant(PLAIN, "more", None, NOW), "more", NOW + DAY),
    "changed": take_in(
        PLAIN, actions.change_product(subscription(PLAIN), YEARLY, NOW + DAY, at_renewal=False), NOW + DAY
    ),
    "ended": let_time_pass(PLAIN, NOW + 60 * DAY),
    "refunded": take_in(PLAIN, actions.refund(subscription(PLAIN), NOW + DAY), NOW + DAY),
    "noted": replace(
        PLAIN,
        attributes={"$email": Attribute("a@b.example", NOW), "gone": Attribute("", NOW), "a": Attribute("ü", 1)},
        balances={"GLD": 5},
        enrollments=(Enrollment("exp", "Price", "b", NOW),),
        aliases=("ada", "bob"),
    ),
}


@pytest.mark.parametrize("life", LIVES)
def test_a_struct_of_a_customer_has_every_field_and_gives_the_same_answers(life: str) -> None:
    whole, seen = decode(encode(LIVES[life])), WHOLE.decode(encode(LIVES[life]))
    assert plain(seen) == plain(whole)
    assert encode(seen) == encode(whole)
    assert answers(seen) == answers(whole)


@pytest.mark.parametrize("life", LIVES)
def test_a_customer_decoded_for_reading_gives_the_same_answers(life: str) -> None:
    assert answers(decode_for_reading(encode(LIVES[life]))) == answers(decode(encode(LIVES[life])))


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
        names = {field.name for field in dataclasses.fields(shape)}
        assert hidden <= names
        assert set(struct_of(shape, UNSEEN).__struct_fields__) == names - hidden


def answers(customer: Customer) -> list[Any]:
    """What V1 and V2 answer at several moments."""
    views = [View(1, customer, CATALOG, now, LastSeen(now)) for now in (NOW, *(NOW + n * DAY for n in (5, 45, 400)))]
    return [(v1.subscriber(view), v2.customer(view)) for view in views]


def plain(value: Any) -> Any:
    """Its fields and properties, and recursively those of its parts, whatever their classes."""
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    fields = getattr(value, "__struct_fields__", None) or (
        [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else None
    )
    if fields is None:
        return value
    named = [name for name, one in vars(type(value)).items() if isinstance(one, property)]
    return {name: plain(getattr(value, name)) for name in (*fields, *named)}
