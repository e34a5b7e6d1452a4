"""Webhooks and their settings. Secrets are encrypted before they are stored, and shown only when they are created."""

import base64
import os
import secrets
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from latchkey.database.pool import Database
from latchkey.database.sealing import Sealer
from latchkey.database.transient_errors import transaction
from latchkey.domain.events.customer_event import Dialect
from latchkey.domain.instants import Ms
from latchkey.domain.retry import SCHEDULE
from latchkey.subjects.webhooks.rules import WebhookHealth, corrected, resumed
from latchkey.subjects.webhooks.storage import lanes, webhook_rows
from latchkey.subjects.webhooks.storage.webhook_rows import SealedSetup, SealedWebhook

SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix, not a secret
# Default of `in_flight_limit`: deliveries under way at once, over all workers.
IN_FLIGHT = 100
_LETTERS = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of a webhook."""

    name: str
    url: str
    # None: production and sandbox.
    environment: str | None = None
    # Empty: all types.
    event_types: tuple[str, ...] = ()
    app_id: str | None = None
    retry_seconds: tuple[int, ...] = SCHEDULE
    in_flight_limit: int = IN_FLIGHT
    enabled: bool = True
    dialect: str = Dialect.LATCHKEY
    # The whole value of the header, such as "Bearer ..."; None: no such header is sent.
    authorization: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Webhook:
    key: int
    project_id: str
    id: str
    version: int
    setup: Setup
    health: WebhookHealth
    secret: str = field(repr=False)
    previous_secret: str | None = field(repr=False)
    previous_secret_until: Ms | None
    created_at: Ms
    updated_at: Ms

    def secrets_at(self, now: Ms) -> tuple[str, ...]:
        """The secrets that sign now: the current one, and for a while after a rotation the previous one too."""
        if self.previous_secret is None or self.previous_secret_until is None or self.previous_secret_until <= now:
            return (self.secret,)
        return self.secret, self.previous_secret


class Webhooks:
    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer

    async def create(self, project_id: str, setup: Setup, now: Ms) -> Webhook:
        """A new webhook. This is the only time that its `secret` may be shown."""
        id = "wh_" + "".join(secrets.choice(_LETTERS) for _ in range(16))
        secret = self._sealer.seal(new_secret(), f"{id}/secret")
        sealed = await webhook_rows.create(self._database, project_id, id, self._sealed(id, setup), secret, now)
        return unsealed(sealed, self._sealer)

    async def load(self, project_id: str, id: str) -> Webhook | None:
        found = await webhook_rows.load(self._database, project_id, id)
        return unsealed(found, self._sealer) if found is not None else None

    async def page(self, project_id: str, after: str | None, limit: int) -> Sequence[Webhook]:
        found = await webhook_rows.page(self._database, project_id, after, limit)
        return [unsealed(one, self._sealer) for one in found]

    async def update(self, project_id: str, id: str, now: Ms, **changes: Any) -> Webhook | None:
        """Change some settings of the webhook. None: there is no such webhook."""
        async with transaction(self._database) as connection:
            found = await webhook_rows.lock_webhook(connection, project_id, id)
            if found is None:
                return None
            before = unsealed(found, self._sealer)
            setup = replace(before.setup, **changes)
            updated = await webhook_rows.update(connection, project_id, id, self._sealed(id, setup), now)
            health = before.health
            if any(getattr(setup, name) != getattr(before.setup, name) for name in ("url", "authorization", "enabled")):
                health = corrected(health, now)
                await webhook_rows.save(connection, {before.key: health})
            await lanes.wake(connection, updated.key)
        return replace(unsealed(updated, self._sealer), health=health)

    async def rotate_secret(self, project_id: str, id: str, overlap_ms: int, now: Ms) -> Webhook | None:
        """Replace the secret; for `overlap_ms` deliveries are signed with the old one too."""
        secret = self._sealer.seal(new_secret(), f"{id}/secret")
        async with transaction(self._database) as connection:
            if await webhook_rows.lock_webhook(connection, project_id, id) is None:
                return None
            rotated = await webhook_rows.rotate_secret(connection, project_id, id, secret, now + overlap_ms, now)
        return unsealed(rotated, self._sealer)

    async def pause(self, project_id: str, id: str, now: Ms) -> Webhook | None:
        """Send nothing until it is resumed; new deliveries are queued."""
        return await self._set_health(project_id, id, lambda health: replace(health, paused_at=health.paused_at or now))

    async def resume(self, project_id: str, id: str) -> Webhook | None:
        return await self._set_health(project_id, id, resumed)

    async def delete(self, project_id: str, id: str, now: Ms) -> bool:
        return await webhook_rows.delete(self._database, project_id, id, now)

    async def _set_health(
        self, project_id: str, id: str, change: Callable[[WebhookHealth], WebhookHealth]
    ) -> Webhook | None:
        async with transaction(self._database) as connection:
            found = await webhook_rows.lock_webhook(connection, project_id, id)
            if found is None:
                return None
            webhook = unsealed(found, self._sealer)
            health = change(webhook.health)
            await webhook_rows.save(connection, {webhook.key: health})
            await lanes.wake(connection, webhook.key)
        return replace(webhook, health=health)

    def _sealed(self, id: str, setup: Setup) -> SealedSetup:
        authorization = None
        if setup.authorization is not None:
            authorization = self._sealer.seal(setup.authorization, f"{id}/authorization")
        return SealedSetup(
            name=setup.name,
            url=setup.url,
            environment=setup.environment,
            event_types=setup.event_types,
            app_id=setup.app_id,
            retry_seconds=setup.retry_seconds,
            in_flight_limit=setup.in_flight_limit,
            enabled=setup.enabled,
            dialect=setup.dialect,
            authorization=authorization,
        )


def unsealed(sealed: SealedWebhook, sealer: Sealer) -> Webhook:
    """The webhook with its secrets decrypted. Raises UnsealableError."""
    id, setup = sealed.id, sealed.setup
    return Webhook(
        key=sealed.key,
        project_id=sealed.project_id,
        id=id,
        version=sealed.version,
        setup=Setup(
            name=setup.name,
            url=setup.url,
            environment=setup.environment,
            event_types=setup.event_types,
            app_id=setup.app_id,
            retry_seconds=setup.retry_seconds,
            in_flight_limit=setup.in_flight_limit,
            enabled=setup.enabled,
            dialect=setup.dialect,
            authorization=(
                sealer.unseal(setup.authorization, f"{id}/authorization") if setup.authorization is not None else None
            ),
        ),
        health=sealed.health,
        secret=sealer.unseal(sealed.secret, f"{id}/secret"),
        # Encrypted under the name `secret` too, because a rotation moves the encrypted bytes unchanged.
        previous_secret=(
            sealer.unseal(sealed.previous_secret, f"{id}/secret") if sealed.previous_secret is not None else None
        ),
        previous_secret_until=sealed.previous_secret_until,
        created_at=sealed.created_at,
        updated_at=sealed.updated_at,
    )


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(os.urandom(24)).decode()
