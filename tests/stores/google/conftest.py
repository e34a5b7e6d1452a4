import pytest

from latchkey.emulators.google.google_keys import SigningKey, make_signing_key
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.google.adapter import GoogleAdapter
from tests.stores.adapter_life import Life
from tests.stores.google.play import Play, connected


@pytest.fixture(scope="session")
def keys() -> SigningKey:
    return make_signing_key()


@pytest.fixture(scope="session")
def app(keys: SigningKey) -> ConnectedApp:
    return connected(keys)


@pytest.fixture
def play(keys: SigningKey) -> Play:
    return Play(keys)


@pytest.fixture
def google(play: Play) -> GoogleAdapter:
    """The service's clock is that of the store. Tokens count by the machine's, whatever the service's says."""
    return GoogleAdapter(lambda: play.now, play)


@pytest.fixture
def life(google: GoogleAdapter, play: Play, app: ConnectedApp) -> Life:
    return Life(google, app, lambda: play.now)
