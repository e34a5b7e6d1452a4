"""The short rendering of plain customers says what the general one says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from msgspec import json

from latchkey.domain.catalog import Catalog, Former
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import DAY, Ms
from latchkey.usecases.engine.passing_time import at_present
from latchkey.usecases.rendering import v1, v2
from latchkey.usecases.rendering.plain import only_subscription
from latchkey.usecases.rendering.view import LastSeen, View
from tests.domain.lives import Life, lives
from tests.domain.shop import CATALOG as SHOP
from tests.storage.test_shapes import CATALOG, LIVES, NOW, PLAIN

PLAIN_LIVES = {"subscribed", "on trial", "cancelled", "ended", "noted"}
RENEWED = at_present(PLAIN, CATALOG, NOW + 100 * DAY)


def agree(customer: Customer, catalog: Catalog, now: Ms) -> None:
    view = View(1, customer, catalog, now, LastSeen(now))
    for with_attributes, token in ((True, None), (False, None), (False, "id0")):
        short = v1.subscriber(view, with_attributes=with_attributes, token=token)
        # As bytes, because the order counts too.
        assert json.encode(short) == json.encode(v1.in_full(view, with_attributes=with_attributes, token=token))
    assert v2.active_entitlements(view, 100, None).items == v2.active_in_full(view)


@pytest.mark.parametrize("life", LIVES)
def test_both_say_the_same_of_every_kind_of_customer(life: str) -> None:
    customer = LIVES[life]
    assert (only_subscription(customer, CATALOG) is not None) is (life in PLAIN_LIVES)
    ends = [period.ends_at for subscription in customer.subscriptions for period in subscription.periods]
    for now in (NOW, NOW + 5 * DAY, NOW + 400 * DAY, *ends, *(end - 1 for end in ends)):
        agree(customer, CATALOG, now)
        agree(customer, Catalog(), now)


@given(lives())
def test_both_say_the_same_whatever_happened_in_a_life(life: Life) -> None:
    for at, customer in life.book.states:
        agree(customer, SHOP, at)


def test_many_periods_of_one_product_are_plain_and_a_detached_product_is_not() -> None:
    assert len(RENEWED.subscriptions[0].periods) > 2
    assert only_subscription(RENEWED, CATALOG) is RENEWED.subscriptions[0]
    agree(RENEWED, CATALOG, NOW + 100 * DAY)
    detached = replace(CATALOG, former={None: {"pro": (Former("more", NOW + DAY),)}})
    assert only_subscription(RENEWED, detached) is None
