from collections.abc import AsyncIterator
from typing import Any

import pytest

from latchkey.database.pool import Database
from latchkey.emulators.apple.apple_keys import AppleKeys
from latchkey.emulators.google.google_keys import GoogleKeys
from latchkey.emulators.stripe.stripe_emulator import StripeKeys
from tests.emulators.shops import app_store, play_store, stripe_account
from tests.stores.world import PRODUCTS, World, world


@pytest.fixture
async def apple(database: Database, apple_keys: AppleKeys) -> AsyncIterator[World]:
    async with app_store(apple_keys, environment="Production") as store, world(database, store) as made:
        yield made


@pytest.fixture
async def google(database: Database, google_keys: GoogleKeys) -> AsyncIterator[World]:
    async with play_store(google_keys) as store, world(database, store) as made:
        yield made


@pytest.fixture
async def billing(database: Database, stripe_keys: StripeKeys) -> AsyncIterator[World]:
    """Stripe Billing."""
    async with stripe_account(stripe_keys) as store, world(database, store) as made:
        yield made


@pytest.fixture(params=PRODUCTS)
async def market(
    request: pytest.FixtureRequest,
    database: Database,
    apple_keys: AppleKeys,
    google_keys: GoogleKeys,
    stripe_keys: StripeKeys,
) -> AsyncIterator[World]:
    """Each store with its emulator."""
    shops: dict[str, Any] = {
        "apple": lambda: app_store(apple_keys, environment="Production"),
        "google": lambda: play_store(google_keys),
        "stripe": lambda: stripe_account(stripe_keys),
    }
    async with shops[request.param]() as store, world(database, store) as made:
        yield made
