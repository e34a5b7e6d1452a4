import pytest

from latchkey.emulators.google.google_keys import SigningKey, make_signing_key
from tests.stores.adapter_life import Life
from tests.stores.google.play import Play


@pytest.fixture(scope="session")
def keys() -> SigningKey:
    return make_signing_key()


@pytest.fixture
def play(keys: SigningKey) -> Play:
    return Play(keys)


@pytest.fixture
def life(play: Play) -> Life:
    return Life(play.adapter, play.app, lambda: play.now)
