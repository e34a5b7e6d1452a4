"""A project with the demo catalog, and a clock that the test moves."""

import pytest

from latchkey.database.pool import Database
from latchkey.subjects.demo.usecases.project import add_catalog
from latchkey.subjects.projects.usecases import create_project
from tests.usecases.conftest import NOON, Shop


@pytest.fixture
async def shop(database: Database) -> Shop:
    await create_project(database, "Shop", NOON, project_id="proj_shop")
    await add_catalog(database, "proj_shop", NOON)
    return Shop(database, "proj_shop")
