"""What operators see of webhooks beside the log: counts of deliveries, failing webhooks, replays, operational
events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from latchkey.database.pool import Connection, Database, Record
from latchkey.database.sql import query
from latchkey.database.transient_errors import translates_errors
from latchkey.domain.instants import Ms
from latchkey.subjects.webhooks.rules import OperationalEvent, WebhookHealth

_COUNTS = query("count_deliveries_of_webhooks")
_WAS_MADE = query("webhook_was_made")


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Counts of a webhook's deliveries."""

    waiting: int = 0
    failed: int = 0
    last_success_at: Ms | None = None


async def delivery_counts(connection: Connection, webhook_keys: Sequence[int]) -> dict[int, DeliveryCounts]:
    """By webhook key."""
    rows = await connection.fetch(_COUNTS, webhook_keys)
    return {row["key"]: DeliveryCounts(row["waiting"], row["failed"], row["last_success_at"]) for row in rows}


async def was_made(connection: Connection, project_id: str, webhook_id: str) -> bool:
    """Whether a webhook with this id exists, or existed and is not pruned yet."""
    known: bool = await connection.fetchval(_WAS_MADE, project_id, webhook_id)
    return known


_WEBHOOKS = query("list_webhooks")


@dataclass(frozen=True, slots=True)
class TroubledWebhook:
    id: str
    name: str
    health: WebhookHealth


async def troubled(connection: Connection, project_id: str, limit: int) -> list[TroubledWebhook]:
    """Oldest webhook first, including paused ones."""
    return [
        TroubledWebhook(
            id=row["id"],
            name=row["name"],
            health=WebhookHealth(
                failures=row["failures"],
                open_until=row["open_until"],
                failing_since=row["failing_since"],
                announced_at=row["announced_at"],
                paused_at=row["paused_at"],
            ),
        )
        for row in await connection.fetch(_WEBHOOKS, project_id, None, None, None)
        if row["failing_since"] is not None
    ][:limit]


_PAGE = query("page_of_operational_events")
_PLACE = query("operational_event_place")


class OperationalEventCursor(NamedTuple):
    """The position of an operational event in the list. Higher is newer."""

    at: Ms
    id: str


# After every event.
END = OperationalEventCursor(2**63 - 1, "")


async def place_of_operational_event(connection: Connection, project_id: str, id: str) -> OperationalEventCursor | None:
    row = await connection.fetchrow(_PLACE, project_id, id)
    return None if row is None else OperationalEventCursor(row["at"], row["id"])


async def operational_events(
    connection: Connection, project_id: str, before: OperationalEventCursor, webhook_id: str | None, limit: int
) -> list[OperationalEvent]:
    """Newest first, of one webhook or of all."""
    return [
        OperationalEvent(
            id=row["id"],
            project_id=row["project_id"],
            type=row["type"],
            webhook_id=row["webhook_id"],
            at=row["at"],
            body=row["body"],
            delivered_at=row["delivered_at"],
            error=row["error"],
        )
        for row in await connection.fetch(_PAGE, project_id, *before, webhook_id, limit)
    ]


_LOCK_HEALTH = query("lock_health")
_SAVE = query("save_health")


@dataclass(frozen=True, slots=True)
class Patient:
    """A webhook whose health may change, locked by the transaction that loaded it."""

    key: int
    project_id: str
    webhook_id: str
    url: str
    health: WebhookHealth


async def lock_health(connection: Connection, keys: Iterable[int]) -> list[Patient]:
    rows = await connection.fetch(_LOCK_HEALTH, sorted(keys))
    return [Patient(row["key"], row["project_id"], row["id"], row["url"], health_of(row)) for row in rows]


async def save(connection: Connection, healths: Mapping[int, WebhookHealth]) -> None:
    """Store the health of webhooks, by their keys."""
    found = list(healths.values())
    await connection.execute(
        _SAVE,
        list(healths),
        [one.failures for one in found],
        [one.open_until for one in found],
        [one.failing_since for one in found],
        [one.announced_at for one in found],
        [one.paused_at for one in found],
    )


def health_of(row: Record) -> WebhookHealth:
    """For other storage modules that read these columns together with more."""
    return WebhookHealth(
        row["failures"], row["open_until"], row["failing_since"], row["announced_at"], row["paused_at"]
    )


_CREATE = query("create_webhook")
_LOCK_WEBHOOK = query("lock_webhook")
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
    health: WebhookHealth
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


async def lock_webhook(connection: Connection, project_id: str, id: str) -> SealedWebhook | None:
    """The webhook, locked until the end of the transaction."""
    row = await connection.fetchrow(_LOCK_WEBHOOK, project_id, id)
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


async def has_delivered(connection: Connection, project_id: str) -> bool:
    """Whether a webhook of the project has got one of its newest events."""
    keys = [row["key"] for row in await connection.fetch(_WEBHOOKS, project_id, None, 20, None)]
    counts = await delivery_counts(connection, keys)
    return any(counted.last_success_at is not None for counted in counts.values())
