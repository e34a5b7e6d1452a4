"""Webhooks with their health and the counts of their deliveries, and operational events about them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

import structlog
from msgspec import Struct

from latchkey.database.pool import Connection, Database, Executor, Record
from latchkey.database.rows import executes, fetches_all, fetches_value, item_of, returns_row
from latchkey.database.sealing import Sealer, UnsealableError
from latchkey.database.sql import query
from latchkey.database.transient_errors import translates_errors
from latchkey.domain.instants import Ms
from latchkey.subjects.webhooks.rules import DeliveryCounts, OperationalEvent, Setup, Webhook, WebhookHealth

log = structlog.get_logger()

_LIST = query("list_webhooks")


class LockedHealth(Struct, frozen=True):
    """The health of a webhook, locked by the transaction that loaded it."""

    key: int
    project_id: str
    id: str
    url: str
    health: WebhookHealth


async def create(
    connection: Connection, sealer: Sealer, project_id: str, id: str, setup: Setup, secret: str, now: Ms
) -> Webhook:
    values = *_values(id, setup, sealer), sealer.seal(secret, f"{id}/secret"), now
    return await _write(connection, sealer, query("create_webhook"), project_id, id, *values)


@translates_errors
async def load(database: Database, sealer: Sealer, project_id: str, id: str) -> Webhook | None:
    row = await database.pool.fetchrow(_LIST, project_id, None, 1, id)
    return _webhook(row, sealer) if row is not None else None


@translates_errors
async def usable(database: Database, sealer: Sealer, keys: Sequence[int]) -> list[Webhook]:
    """The webhooks with these keys, without those whose secrets cannot be decrypted."""
    found = []
    for row in await database.pool.fetch(query("webhooks_by_key"), keys):
        try:
            found.append(_webhook(row, sealer))
        except UnsealableError as error:
            log.error("webhook not usable", webhook=row["id"], reason=str(error))
    return found


@translates_errors
async def page(
    database: Database, sealer: Sealer, project_id: str, after: str | None, limit: int | None
) -> list[Webhook]:
    """A project's webhooks, oldest first, from after the one with this id."""
    return [_webhook(row, sealer) for row in await database.pool.fetch(_LIST, project_id, after, limit, None)]


async def lock(connection: Connection, sealer: Sealer, project_id: str, id: str) -> Webhook | None:
    """The webhook, locked until the end of the transaction."""
    row = await connection.fetchrow(query("lock_webhook"), project_id, id)
    return _webhook(row, sealer) if row is not None else None


async def update(connection: Connection, sealer: Sealer, changed: Webhook, now: Ms) -> Webhook:
    """Stores its settings."""
    values = changed.project_id, changed.id, *_values(changed.id, changed, sealer), now
    return await _write(connection, sealer, query("update_webhook"), *values)


async def rotate_secret(
    connection: Connection, sealer: Sealer, project_id: str, id: str, secret: str, previous_until: Ms, now: Ms
) -> Webhook:
    """A new secret; the previous one signs too until the given time."""
    values = project_id, id, sealer.seal(secret, f"{id}/secret"), previous_until, now
    return await _write(connection, sealer, query("rotate_webhook_secret"), *values)


# Nothing more is sent to it. False: there was none. Pruning deletes its rows later.
delete = translates_errors(returns_row(query("delete_webhook")))
# Whether a webhook with this id exists, or existed and is not pruned yet.
was_made = fetches_value(bool, query("webhook_was_made"))


def _values(id: str, setup: Setup, sealer: Sealer) -> tuple[object, ...]:
    """From $3 on of `create_webhook` and `update_webhook`: the fields in their order, the last ones sealed."""
    values = {field.name: getattr(setup, field.name) for field in fields(Setup)}
    for name in ("authorization", "destination"):
        if values[name] is not None:
            values[name] = sealer.seal(values[name], f"{id}/{name}")
    return tuple(values.values())


async def _write(connection: Connection, sealer: Sealer, statement: str, *values: object) -> Webhook:
    [row] = await connection.fetch(statement, *values)
    return _webhook(row, sealer)


def _webhook(row: Record, sealer: Sealer) -> Webhook:
    """With its secrets decrypted. Raises UnsealableError."""
    unsealed = {
        # The previous secret is encrypted under the same name: a rotation moves the encrypted bytes unchanged.
        field: sealer.unseal(sealed, f"{row['id']}/{field.removeprefix('previous_')}")
        for field in ("authorization", "destination", "secret", "previous_secret")
        if (sealed := row[f"{field}_sealed"]) is not None
    }
    return item_of(Webhook, row, **unsealed, health=dict(row))


async def delivery_counts(connection: Executor, webhook_keys: Sequence[int]) -> dict[int, DeliveryCounts]:
    """By webhook key."""
    return {
        row["key"]: item_of(DeliveryCounts, row)
        for row in await connection.fetch(query("count_deliveries_of_webhooks"), webhook_keys)
    }


async def has_delivered(connection: Connection, project_id: str) -> bool:
    """Whether a webhook of the project has received one of its newest events."""
    keys = [row["key"] for row in await connection.fetch(_LIST, project_id, None, 20, None)]
    counts = await delivery_counts(connection, keys)
    return any(counted.last_success_at is not None for counted in counts.values())


async def healths(database: Database, project_id: str) -> list[tuple[str, str, WebhookHealth]]:
    """Of all webhooks, the oldest first: id, name and health."""
    rows = await database.pool.fetch(_LIST, project_id, None, None, None)
    return [(row["id"], row["name"], item_of(WebhookHealth, row)) for row in rows]


async def lock_health(connection: Connection, keys: Iterable[int]) -> list[LockedHealth]:
    rows = await connection.fetch(query("lock_health"), sorted(keys))
    return [item_of(LockedHealth, row, health=dict(row)) for row in rows]


async def save_health(connection: Connection, healths: Mapping[int, WebhookHealth]) -> None:
    """By the webhooks' keys."""
    names = ("failures", "open_until", "failing_since", "announced_at", "paused_at")
    columns = [[getattr(health, name) for health in healths.values()] for name in names]
    await connection.execute(query("save_health"), list(healths), *columns)


async def announce(connection: Connection, event: OperationalEvent) -> None:
    """Stores an operational event. It is due for the operations URL at once."""
    await connection.execute(
        query("announce"), event.project_id, event.id, event.webhook_id, event.type, event.at, event.body
    )


# Claims what is due. No other worker gets it until the lease runs out.
claim_announcements = translates_errors(fetches_all(OperationalEvent, query("claim_announcements")))
# When it is sent next, when it was delivered, and the error.
record_announcement = translates_errors(executes(query("record_announcement")))
prune_announcements = translates_errors(executes(query("prune_announcements")))
# Newest first: after an id, so many, or the one with an id; of one webhook or of all.
operational_events = fetches_all(OperationalEvent, query("page_of_operational_events"))
