"""The migrations create what the code expects, and run once, however many processes start them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from latchkey.consumer.rules.record import Entitlement, Subscription
from latchkey.consumer.storage.consumer_database import ConsumerDatabase
from latchkey.consumer.storage.copy_tables import entitlements, metadata, processed_events, subscriptions
from latchkey.consumer.storage.schema import VERSION_TABLE, config, migrate, newest
from latchkey.database.embedded.postgres import EmbeddedServer
from tests.consumer.world import both_databases

SPECIFIED = {
    "external_user_id", "email", "is_active", "subscription_status", "product_id", "entitlements", "expires_at",
    "purchased_at", "cancelled_at", "trial_end_at", "grace_period_expires_at", "auto_renew", "billing_issue", "store",
    "environment", "last_webhook_event_id", "last_webhook_event_type", "last_revenue_sync_at", "last_updated",
}  # fmt: skip


@both_databases
async def test_the_migrations_make_exactly_the_tables_of_the_code(url: str) -> None:
    database = ConsumerDatabase(url)

    def differences(connection: Connection) -> list[object]:
        ours = {"version_table": VERSION_TABLE, "compare_type": not database.is_sqlite}
        return list(compare_metadata(MigrationContext.configure(connection, opts=ours), metadata))

    async with database.reading() as connection:
        assert await connection.run_sync(differences) == []
    await database.close()


def test_the_newest_version_is_alembics() -> None:
    assert newest() == ScriptDirectory.from_config(config()).get_current_head()


async def test_migrating_twice_and_at_once_is_migrating(
    tmp_path: Path, postgres: EmbeddedServer, administration: asyncpg.Connection[asyncpg.Record]
) -> None:
    await administration.execute("create database consumer_racing strategy file_copy")
    for url in (f"sqlite:///{tmp_path / 'new.db'}", postgres.url("consumer_racing")):
        databases = [ConsumerDatabase(url) for _ in range(3)]
        results = await asyncio.gather(*(migrate(database) for database in databases))
        assert sorted(before or "" for before, _ in results) == ["", newest(), newest()]
        for database in databases:
            await database.close()
    await administration.execute("drop database consumer_racing with (force)")


def test_every_field_of_the_specification_is_there() -> None:
    assert set(subscriptions.columns.keys()) >= SPECIFIED | {"app_user_id"}
    assert set(entitlements.columns.keys()) == {
        "app_user_id", "entitlement_id", "product_id", "is_active", "granted_at", "expires_at",
        "grace_period_expires_at", "purchase_date", "store", "environment",
    }  # fmt: skip
    assert set(processed_events.columns.keys()) == {
        "event_id", "event_type", "app_user_id", "environment", "processed_at",
    }  # fmt: skip
    new = Subscription(app_user_id="ada")
    assert (new.is_active, new.auto_renew, new.billing_issue) == (False, True, False)
    assert Entitlement(entitlement_id="pro").is_active
