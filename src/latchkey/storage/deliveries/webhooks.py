"""Webhooks as stored: secrets are encrypted, and only `delivery/webhook.py` decrypts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from latchkey.domain.instants import Ms
from latchkey.domain.webhooks.health import Health
from latchkey.storage.database import Connection, Database, Record
from latchkey.storage.deliveries.health import health_of
from latchkey.storage.outages import translates_errors
from latchkey.storage.sql import query

_CREATE = query("create_webhook")
_LOCK = query("lock_webhook")
_BY_KEY = query("webhooks_by_key")
_LIST = query("list_webhooks")
_UPDATE = query("update_webhook")
_ROTATE = query("rotate_webhook_secret")
_DELETE = query("delete_webhook")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSetup:
    """The settings of a webhook, with the Authorization value encrypted."""

    name: str
    url: str
    environment: str | None
    event_types: tuple[str, ...]
    app_id: str | None
    retry_seconds: tuple[int, ...]
    in_flight_limit: int
    enabled: bool
    dialect: str
    authorization: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedWebhook:
    key: int
    project_id: str
    id: str
    # Incremented by every change; a worker with an older version loads the webhook again.
    version: int
    setup: SealedSetup
    health: Health
    secret: bytes = field(repr=False)
    previous_secret: bytes | None = field(repr=False)
    previous_secret_until: Ms | None
    created_at: Ms
    updated_at: Ms


@translates_errors
async def create(
    database: Database, project_id: str, id: str, setup: SealedSetup, secret: bytes, now: Ms
) -> SealedWebhook:
    return _only(await database.pool.fetchrow(_CREATE, project_id, id, *_values(setup), secret, now))


@translates_errors
async def load(database: Database, project_id: str, id: str) -> SealedWebhook | None:
    row = await database.pool.fetchrow(_LIST, project_id, None, 1, id)
    return _webhook(row) if row is not None else None


@translates_errors
async def by_keys(database: Database, keys: Sequence[int]) -> list[SealedWebhook]:
    return [_webhook(row) for row in await database.pool.fetch(_BY_KEY, keys)]


@translates_errors
async def page(database: Database, project_id: str, after: str | None, limit: int) -> list[SealedWebhook]:
    """A project's webhooks, oldest first, from after the one with this id."""
    return [_webhook(row) for row in await database.pool.fetch(_LIST, project_id, after, limit, None)]


async def lock(connection: Connection, project_id: str, id: str) -> SealedWebhook | None:
    """The webhook, locked until the end of the transaction."""
    row = await connection.fetchrow(_LOCK, project_id, id)
    return _webhook(row) if row is not None else None


async def update(connection: Connection, project_id: str, id: str, setup: SealedSetup, now: Ms) -> SealedWebhook:
    return _only(await connection.fetchrow(_UPDATE, project_id, id, *_values(setup), now))


async def rotate_secret(
    connection: Connection, project_id: str, id: str, secret: bytes, previous_until: Ms, now: Ms
) -> SealedWebhook:
    """A new secret; the previous one signs too until the given time."""
    return _only(await connection.fetchrow(_ROTATE, project_id, id, secret, previous_until, now))


@translates_errors
async def delete(database: Database, project_id: str, id: str, now: Ms) -> bool:
    """Nothing more is sent to it. False: there was none. Pruning deletes its rows later."""
    return await database.pool.fetchrow(_DELETE, project_id, id, now) is not None


def _values(setup: SealedSetup) -> tuple[object, ...]:
    """In the order in which `create_webhook` and `update_webhook` take them, from $3 on."""
    return (
        setup.name,
        setup.url,
        setup.authorization,
        setup.environment,
        setup.event_types,
        setup.app_id,
        setup.retry_seconds,
        setup.in_flight_limit,
        setup.enabled,
        setup.dialect,
    )


def _only(row: Record | None) -> SealedWebhook:
    assert row is not None, "the statement returns the row that it wrote"
    return _webhook(row)


def _webhook(row: Record) -> SealedWebhook:
    return SealedWebhook(
        key=row["key"],
        project_id=row["project_id"],
        id=row["id"],
        version=row["version"],
        setup=SealedSetup(
            name=row["name"],
            url=row["url"],
            environment=row["environment"],
            event_types=tuple(row["event_types"]),
            app_id=row["app_id"],
            retry_seconds=tuple(row["retry_seconds"]),
            in_flight_limit=row["in_flight_limit"],
            enabled=row["enabled"],
            dialect=row["dialect"],
            authorization=row["authorization_sealed"],
        ),
        health=health_of(row),
        secret=row["secret_sealed"],
        previous_secret=row["previous_secret_sealed"],
        previous_secret_until=row["previous_secret_until"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
