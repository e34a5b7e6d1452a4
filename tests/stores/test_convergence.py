"""Random lives in a store emulator that loses, repeats, reorders and delays what it sends. In the end Latchkey knows
what the store knows."""

import pytest

from latchkey.domain.instants import DAY
from tests.stores.lives import agrees, converges, live
from tests.stores.world import World

pytestmark = pytest.mark.thorough


# In the last one a subscription is cancelled that was unpaid before.
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 8])
async def test_what_is_known_of_every_store_converges(market: World, seed: int) -> None:
    await live(market, seed)
    await converges(market)


async def test_a_lost_revocation_of_a_yearly_subscription_is_found_within_a_month(google: World) -> None:
    """Google keeps no list of what it sent, and forgets a purchase two months after its end."""
    bought = await google.sell(product_id="pro_yearly:yearly", buyer="ada", account_token="ada")
    await google.move(google.now + DAY)
    google.store.misbehave(drop=1.0)
    google.store.act(bought, "revoke")
    await google.move(google.now + 31 * DAY, every=DAY)
    [truth] = google.store.expected_states()
    assert not truth.active
    await agrees(google, truth)
