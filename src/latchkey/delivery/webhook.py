"""Webhooks as people set them up. Secrets are sealed before they reach a row, and shown only when they are made."""

from __future__ import annotations

import base64
import os
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from latchkey.delivery.sealing import Sealer
from latchkey.domain.instants import Ms
from latchkey.domain.retry import SCHEDULE
from latchkey.domain.webhook_health import Health, resumed
from latchkey.storage.database import Database, Record
from latchkey.storage.sql import query

_CREATE = query("create_webhook")
_LOAD = query("load_webhook")
_LOCK = query("lock_webhook")
_LIST = query("list_webhooks")
_UPDATE = query("update_webhook")
_ROTATE = query("rotate_webhook_secret")
_DELETE = query("delete_webhook")
_SAVE_HEALTH = query("save_health")
_WAKE = query("wake_workers")

SECRET_PREFIX = "whsec_"  # noqa: S105 - how a secret begins, not one
IN_FLIGHT = 100
_LETTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What people may set."""

    name: str
    url: str
    # None is both.
    environment: str | None = None
    # Empty is all.
    event_types: tuple[str, ...] = ()
    app_id: str | None = None
    retry_seconds: tuple[int, ...] = SCHEDULE
    in_flight_limit: int = IN_FLIGHT
    enabled: bool = True
    # The whole value of the header, such as "Bearer ..."; None sends none.
    authorization: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Webhook:
    key: int
    project_id: str
    id: str
    version: int
    setup: Setup
    health: Health
    secret: str = field(repr=False)
    previous_secret: str | None = field(repr=False)
    previous_secret_until: Ms | None
    created_at: Ms
    updated_at: Ms

    def secrets_at(self, now: Ms) -> tuple[str, ...]:
        """What signs at this moment: the secret, and while a rotation overlaps the one before it too."""
        if self.previous_secret is None or self.previous_secret_until is None or self.previous_secret_until <= now:
            return (self.secret,)
        return self.secret, self.previous_secret


class Webhooks:
    def __init__(self, db: Database, sealer: Sealer) -> None:
        self._db = db
        self._sealer = sealer

    async def create(self, project_id: str, setup: Setup, now: Ms) -> Webhook:
        """A new webhook; its `secret` is to be shown once, now."""
        id = "wh_" + "".join(secrets.choice(_LETTERS) for _ in range(16))
        row = await self._db.pool.fetchrow(
            _CREATE,
            project_id,
            id,
            setup.name,
            setup.url,
            self._sealed_authorization(id, setup),
            setup.environment,
            setup.event_types,
            setup.app_id,
            setup.retry_seconds,
            setup.in_flight_limit,
            setup.enabled,
            self._sealer.seal(new_secret(), f"{id}/secret"),
            now,
        )
        assert row is not None
        return unsealed(row, self._sealer)

    async def load(self, project_id: str, id: str) -> Webhook | None:
        row = await self._db.pool.fetchrow(_LOAD, project_id, id)
        return unsealed(row, self._sealer) if row is not None else None

    async def page(self, project_id: str, after: str | None, limit: int) -> Sequence[Webhook]:
        rows = await self._db.pool.fetch(_LIST, project_id, after, limit)
        return [unsealed(row, self._sealer) for row in rows]

    async def update(self, project_id: str, id: str, now: Ms, **changes: Any) -> Webhook | None:
        """The webhook with some fields of its Setup changed; nothing when there is none."""
        async with self._db.transaction() as connection:
            row = await connection.fetchrow(_LOCK, project_id, id)
            if row is None:
                return None
            setup = replace(unsealed(row, self._sealer).setup, **changes)
            row = await connection.fetchrow(
                _UPDATE,
                project_id,
                id,
                setup.name,
                setup.url,
                self._sealed_authorization(id, setup),
                setup.environment,
                setup.event_types,
                setup.app_id,
                setup.retry_seconds,
                setup.in_flight_limit,
                setup.enabled,
                now,
            )
            assert row is not None
            await connection.execute(_WAKE, str(row["key"]))
        return unsealed(row, self._sealer)

    async def rotate_secret(self, project_id: str, id: str, overlap_ms: int, now: Ms) -> Webhook | None:
        """The webhook with a new `secret`; for `overlap_ms` more the old one signs along."""
        sealed = self._sealer.seal(new_secret(), f"{id}/secret")
        async with self._db.transaction() as connection:
            if await connection.fetchrow(_LOCK, project_id, id) is None:
                return None
            row = await connection.fetchrow(_ROTATE, project_id, id, sealed, now + overlap_ms, now)
        assert row is not None
        return unsealed(row, self._sealer)

    async def pause(self, project_id: str, id: str, now: Ms) -> Webhook | None:
        """Send nothing until it is resumed; what happens meanwhile waits."""
        return await self._set_health(project_id, id, lambda health: replace(health, paused_at=health.paused_at or now))

    async def resume(self, project_id: str, id: str) -> Webhook | None:
        return await self._set_health(project_id, id, resumed)

    async def delete(self, project_id: str, id: str, now: Ms) -> bool:
        return await self._db.pool.fetchrow(_DELETE, project_id, id, now) is not None

    async def _set_health(self, project_id: str, id: str, change: Any) -> Webhook | None:
        async with self._db.transaction() as connection:
            row = await connection.fetchrow(_LOCK, project_id, id)
            if row is None:
                return None
            webhook = unsealed(row, self._sealer)
            health = change(webhook.health)
            await save_health(connection, {webhook.key: health})
            await connection.execute(_WAKE, str(webhook.key))
        return replace(webhook, health=health)

    def _sealed_authorization(self, id: str, setup: Setup) -> bytes | None:
        if setup.authorization is None:
            return None
        return self._sealer.seal(setup.authorization, f"{id}/authorization")


async def save_health(connection: Any, healths: dict[int, Health]) -> None:
    found = list(healths.values())
    await connection.execute(
        _SAVE_HEALTH,
        list(healths),
        [one.failures for one in found],
        [one.open_until for one in found],
        [one.failing_since for one in found],
        [one.announced_at for one in found],
        [one.paused_at for one in found],
    )


def health_of(row: Record) -> Health:
    return Health(row["failures"], row["open_until"], row["failing_since"], row["announced_at"], row["paused_at"])


def unsealed(row: Record, sealer: Sealer) -> Webhook:
    id = row["id"]
    authorization, previous = row["authorization_sealed"], row["previous_secret_sealed"]
    return Webhook(
        key=row["key"],
        project_id=row["project_id"],
        id=id,
        version=row["version"],
        setup=Setup(
            name=row["name"],
            url=row["url"],
            environment=row["environment"],
            event_types=tuple(row["event_types"]),
            app_id=row["app_id"],
            retry_seconds=tuple(row["retry_seconds"]),
            in_flight_limit=row["in_flight_limit"],
            enabled=row["enabled"],
            authorization=sealer.unseal(authorization, f"{id}/authorization") if authorization is not None else None,
        ),
        health=health_of(row),
        secret=sealer.unseal(row["secret_sealed"], f"{id}/secret"),
        # The same place: a rotation moves the sealed bytes as they are.
        previous_secret=sealer.unseal(previous, f"{id}/secret") if previous is not None else None,
        previous_secret_until=row["previous_secret_until"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(os.urandom(24)).decode()
