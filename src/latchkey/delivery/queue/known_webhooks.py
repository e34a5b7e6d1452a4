"""A cache of webhook settings, so that a delivery need not read and decrypt them."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from latchkey.delivery.sealing import Sealer, UnsealableError
from latchkey.delivery.webhook import IN_FLIGHT, Webhook, unsealed
from latchkey.storage.database import Database
from latchkey.storage.deliveries import webhooks

log = structlog.get_logger()


class KnownWebhooks:
    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer
        self._known: dict[int, Webhook] = {}

    def get(self, key: int) -> Webhook | None:
        return self._known.get(key)

    def limit(self, key: int) -> int:
        known = self._known.get(key)
        return known.setup.in_flight_limit if known is not None else IN_FLIGHT

    async def refresh(self, versions: Mapping[int, int]) -> None:
        """Load the webhooks that are not cached in this version."""
        old = [
            key for key, version in versions.items() if (one := self._known.get(key)) is None or one.version != version
        ]
        if not old:
            return
        for sealed in await webhooks.by_keys(self._database, old):
            try:
                self._known[sealed.key] = unsealed(sealed, self._sealer)
            except UnsealableError as error:
                self._known.pop(sealed.key, None)
                log.error("webhook not usable", webhook=sealed.id, reason=str(error))
