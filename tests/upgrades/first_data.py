"""Runs with the last release's code: migrates an empty database, and creates a project with its catalog and keys.

It prints what it made, and where its code is. It may call only what that release has.
"""

from __future__ import annotations

import asyncio
import sys

from msgspec import json

import latchkey
from latchkey.now import real_now
from latchkey.storage.database import Database, connect
from latchkey.storage.migrate import migrate
from latchkey.usecases.access.keys import create_public_key, create_secret_key
from latchkey.usecases.access.projects import create_app, create_project
from latchkey.usecases.sandbox.demo import add_catalog

PROJECT = "proj_shop"
NO_LIMIT = 1_000_000


async def main(url: str) -> None:
    connection = await connect(url)
    await migrate(connection)
    await connection.close()
    async with Database(url, max_size=2) as database:
        await create_project(database, "Shop", real_now(), project_id=PROJECT)
        await add_catalog(database, PROJECT, real_now())
        await create_app(database, PROJECT, "Phones", "test_store", real_now(), app_id="app_phones")
        secret = await create_secret_key(database, PROJECT, "lives", real_now(), rate_limit=NO_LIMIT)
        public = await create_public_key(database, PROJECT, "app_phones", "phones", real_now())
    made = {
        "code": latchkey.__file__,
        "project": PROJECT,
        "secret_key": secret.plaintext,
        "public_key": public.plaintext,
    }
    sys.stdout.write(json.encode(made).decode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
