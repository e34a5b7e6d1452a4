from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from latchkey.domain.instants import Ms

# The stores in which an app can be created.
AppStore = Literal[
    "app_store", "mac_app_store", "play_store", "amazon", "galaxy", "stripe", "rc_billing", "paddle", "test_store"
]

TestStore = Literal["open", "closed"]


@dataclass(frozen=True, slots=True)
class Project:
    id: str
    name: str
    restore_behavior: Literal["transfer", "keep", "transfer_if_no_active_subscriptions"]
    created_at: Ms
    test_store: TestStore


@dataclass(frozen=True, slots=True)
class App:
    project_id: str
    id: str
    name: str
    store: AppStore
    created_at: Ms
    # What the store calls it, and the like, by field. No secrets.
    details: Mapping[str, Any]
