"""Connects the apps to their stores, as the settings say. Imports no web framework: background processes and commands
use it too, and start in half the time without."""

from __future__ import annotations

from collections.abc import Callable

from latchkey.delivery.sealing import Sealer
from latchkey.domain.instants import Ms
from latchkey.settings import Settings
from latchkey.storage.database import Database
from latchkey.usecases.stores.connections import Connections, adapters


def connect(database: Database, settings: Settings, now: Callable[[], Ms]) -> Connections:
    """The apps' connections to their stores."""
    extra_ca = settings.store_extra_ca.read_bytes() if settings.store_extra_ca is not None else None
    hosts = frozenset(settings.store_allow_hosts)
    return Connections(database, Sealer(settings.secret_key), adapters(extra_ca), hosts, now)
