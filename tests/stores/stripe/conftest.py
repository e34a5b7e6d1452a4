import pytest

from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.stripe.adapter import StripeAdapter
from tests.stores.adapter_life import Life
from tests.stores.stripe.emulated_stripe import EmulatedStripe, connected


@pytest.fixture
def stripe() -> EmulatedStripe:
    return EmulatedStripe()


@pytest.fixture
def adapter(stripe: EmulatedStripe) -> StripeAdapter:
    return StripeAdapter(lambda: stripe.now, stripe)


@pytest.fixture
def app(adapter: StripeAdapter) -> ConnectedApp:
    return connected(adapter)


@pytest.fixture
def life(adapter: StripeAdapter, app: ConnectedApp, stripe: EmulatedStripe) -> Life:
    return Life(adapter, app, lambda: stripe.now)
