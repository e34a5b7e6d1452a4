"""The shapes in `connection.json`, which `latchkey up` writes for scripts and tests.

They need nothing but msgspec: `latchkey device` reads the file where only the extra `runtime` is installed.
"""

from __future__ import annotations

import msgspec


class PushConnection(msgspec.Struct, frozen=True, kw_only=True):
    """How a server reaches the sandbox; `push` in connection.json."""

    base_url: str
    app_id: str
    rest_api_key: str


class DemoUser(msgspec.Struct, frozen=True):
    app_user_id: str
    token: str


class ConsumerConnection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach the consumer; `consumer` in connection.json."""

    base_url: str
    webhook_url: str
    webhook_secret: str
    operator_token: str
    users: list[DemoUser]


class DashboardConnection(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    email: str
    # Null once it was changed.
    password: str | None


class StoreConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A pretend store and the demo's app in it; one of `stores` in connection.json."""

    app_id: str
    public_api_key: str
    # The store's API, as the service asks it.
    api_url: str
    # Sells, acts and moves the clock; see docs/emulators.md.
    control_url: str


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    base_url: str
    ca_cert: str
    project_id: str
    api_key: str
    public_api_key: str
    database_url: str
    push: PushConnection
    consumer: ConsumerConnection
    dashboard: DashboardConnection
    # By "apple", "google" and "stripe"; empty with --no-stores.
    stores: dict[str, StoreConnection] = {}
