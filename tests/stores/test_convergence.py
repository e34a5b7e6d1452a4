"""Random lives in a store emulator that loses, repeats, reorders and delays what it sends. In the end Latchkey knows
what the store knows."""

import pytest

from latchkey.database.pool import Database
from latchkey.domain.instants import DAY
from latchkey.emulators.apple.apple_keys import AppleKeys
from latchkey.emulators.google.google_keys import GoogleKeys
from latchkey.emulators.stripe.stripe_emulator import StripeKeys
from tests.emulators.shops import app_store, play_store, stripe_account
from tests.stores.lives import agrees, converges, live
from tests.stores.world import world

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("seed", range(4))
async def test_google_converges(database: Database, google_keys: GoogleKeys, seed: int) -> None:
    async with play_store(google_keys) as store, world(database, store) as made:
        await live(made, seed)
        await converges(made)


@pytest.mark.parametrize("seed", range(4))
async def test_apple_converges(database: Database, apple_keys: AppleKeys, seed: int) -> None:
    async with app_store(apple_keys, environment="Production") as store, world(database, store) as made:
        await live(made, seed)
        await converges(made)


@pytest.mark.parametrize("seed", range(4))
async def test_stripe_converges(database: Database, stripe_keys: StripeKeys, seed: int) -> None:
    async with stripe_account(stripe_keys) as store, world(database, store) as made:
        await live(made, seed)
        await converges(made)


async def test_a_lost_revocation_of_a_yearly_subscription_is_found_within_a_month(
    database: Database, google_keys: GoogleKeys
) -> None:
    """Google keeps no list of what it sent, and forgets a purchase two months after its end."""
    async with play_store(google_keys) as store, world(database, store) as made:
        bought = store.sell(product_id="pro_yearly:yearly", buyer="ada", account_token="ada")
        await made.settle()
        await made.move(made.now + DAY)
        store.misbehave(drop=1.0)
        store.act(bought, "revoke")
        await made.move(made.now + 31 * DAY, every=DAY)
        [truth] = store.expected_states()
        assert not truth.active
        await agrees(made, truth)
