"""One POST to a receiver: guarded, signed, timed, and told in words when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from latchkey.delivery.webhook import Webhook
from latchkey.domain.instants import Ms

# Of an answer's body so much is kept; the rest is not read.
BODY_LIMIT = 16 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one attempt. Exactly a status of 200 is success; everything else has its `error` in words."""

    at: Ms
    took_ms: int
    status: int | None
    error: str | None
    request_headers: Mapping[str, str]  # secrets masked
    response_headers: tuple[tuple[str, str], ...] = ()
    response_body: bytes = b""
    retry_after_ms: int | None = None

    @property
    def delivered(self) -> bool:
        return self.status == 200 and self.error is None


class Sends(Protocol):
    async def send(self, webhook: Webhook, message_id: str, body: bytes) -> Answer:
        """Send `body` once. Never raises for anything a receiver can do."""
        ...

    async def close(self) -> None: ...
