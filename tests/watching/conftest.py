from collections.abc import AsyncIterator

import pytest

from tests.api.client import Shop
from tests.api.conftest import opened
from tests.databases import DemoShelf


@pytest.fixture
async def shop(demo_shelf: DemoShelf) -> AsyncIterator[Shop]:
    async with demo_shelf.shelf.lend() as database, opened(database, demo_shelf.demo) as shop:
        yield shop
