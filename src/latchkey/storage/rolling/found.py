"""A customer of a batch."""

from __future__ import annotations

from functools import cached_property

from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.storage.customers.state_format import decode


class Found:
    """As stored. Decoded when it is first needed, once for charts and lists. One that cannot be decoded must not stop
    the others, so whoever needs it handles the error."""

    def __init__(
        self,
        project_id: str,
        key: int,
        state: bytes,
        last_seen_at: Ms,
        country: str | None,
        platform: str | None = None,
        app_version: str | None = None,
    ) -> None:
        self.project_id = project_id
        self.key = key
        self.last_seen_at = last_seen_at
        self.country = country
        self.platform = platform
        self.app_version = app_version
        self._state = state

    @cached_property
    def customer(self) -> Customer:
        return decode(self._state)
