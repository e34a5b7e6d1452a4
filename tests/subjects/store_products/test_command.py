"""`latchkey app products`: a preview, and with --apply what it shows."""

import asyncio

from msgspec import json

from latchkey.database.pool import Database
from latchkey.now import real_now
from latchkey.settings import Settings
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.catalog.usecases import product_catalog
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.usecases import store_connections
from tests.cli.running import typed
from tests.http.apple import app_store
from tests.subjects.purchase_intake.test_command import KEY

PROJECT = "proj_shop"


async def test_products_are_shown_first_and_taken_over_with_apply(database: Database) -> None:
    await projects.create_project(database, "Shop", real_now(), project_id=PROJECT)
    await projects.create_app(database, PROJECT, "Notes", "app_store", real_now(), app_id="app_notes")
    hosts = {"LATCHKEY_STORE_ALLOW_HOSTS": "127.0.0.1", "LATCHKEY_SECRET_KEY": KEY}
    environment = {"LATCHKEY_DATABASE_URL": database.url, **hosts}
    settings = Settings(secret_key=b"k" * 32, store_allow_hosts=("127.0.0.1",), database_url=database.url)
    connections = store_connections.connect(database, settings, real_now)
    async with app_store() as store:
        await store_connections.save(connections, PROJECT, "app_notes", store.credentials)

        async def run(*words: str) -> str:
            told = await asyncio.to_thread(typed, "app", "products", "app_notes", *words, **environment)
            assert told.returncode == 0, told.stderr
            return told.stdout

        assert "Not in the catalog yet" in await run()
        assert await product_catalog.list_products(database, PROJECT) == []
        one = json.decode(await run("--product", "pro_yearly", "--apply", "--json"))
        assert (one["created"], one["updated"]) == (["pro_yearly"], [])
        assert "5 products were created and 0 changed" in await run("--apply")
        assert "The catalog has them as the store does" in await run("--apply", "--product", "pro_yearly")
        assert {each["status"] for each in json.decode(await run("--json"))["items"]} == {"same"}
        wrong = await asyncio.to_thread(
            typed, "app", "products", "app_notes", "--apply", "--product", "no_such", **environment
        )
        assert (wrong.returncode, "The store has no product 'no_such'" in wrong.stderr) == (1, True), wrong
        # A host that is allowed no more.
        environment["LATCHKEY_STORE_ALLOW_HOSTS"] = ""
        away = await asyncio.to_thread(typed, "app", "products", "app_notes", **environment)
        assert (away.returncode, "not allow: 127.0.0.1 (setting store_allow_hosts)." in away.stderr) == (1, True), away
        assert "has no credentials yet" not in away.stderr
    await connections.close()
    (entry,) = await audit.entries(database, PROJECT, limit=1)
    assert (entry.action, entry.outcome) == ("store_products.taken_over", "refused")
