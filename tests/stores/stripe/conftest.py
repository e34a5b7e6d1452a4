from __future__ import annotations

import pytest

from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.stripe.adapter import StripeAdapter
from tests.stores.google.life import Life
from tests.stores.stripe.account import connected
from tests.stores.stripe.shop import Shop


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def stripe(shop: Shop) -> StripeAdapter:
    return StripeAdapter(lambda: shop.now, shop)


@pytest.fixture
def app(stripe: StripeAdapter) -> ConnectedApp:
    return connected(stripe)


@pytest.fixture
def life(stripe: StripeAdapter, app: ConnectedApp, shop: Shop) -> Life:
    return Life(stripe, app, lambda: shop.now)
