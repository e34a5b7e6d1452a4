from collections.abc import AsyncIterator

import pytest

from tests.http.apple import AppStore, app_store


@pytest.fixture
async def store() -> AsyncIterator[AppStore]:
    async with app_store() as store:
        yield store
