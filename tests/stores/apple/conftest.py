from collections.abc import AsyncIterator

import pytest

from latchkey.emulators.apple.apple_keys import AppleChain, make_chain
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.apple.adapter import AppleAdapter
from tests.stores.apple.app_store import START, connected


@pytest.fixture(scope="session")
def chain() -> AppleChain:
    return make_chain()


@pytest.fixture
async def adapter() -> AsyncIterator[AppleAdapter]:
    made = AppleAdapter(lambda: START)
    yield made
    await made.close()


@pytest.fixture
def app(adapter: AppleAdapter, chain: AppleChain) -> ConnectedApp:
    return connected(adapter, chain)
