"""The catalog of the demo project, from `queries/demo.sql`, and the events of its history."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, json

from latchkey.domain.instants import Ms
from latchkey.storage.database import Connection
from latchkey.storage.sql import query
from latchkey.wire.event import Event

_CATALOG = tuple(query(name) for name in ("add_demo_entitlements", "add_demo_currencies", "add_demo_products"))
_MAPPING = query("add_demo_mapping")
_OFFERINGS = tuple(query(name) for name in ("add_demo_offerings", "add_demo_packages", "add_demo_placements"))
_PACKAGE_PRODUCTS = query("add_demo_package_products")
_ADD_BASE_PLANS = query("add_demo_base_plans")
_SELL_BASE_PLANS = query("sell_demo_base_plans")
# Statements of their own: Citus refuses all three inserts in one.
_LIKE_PRODUCTS = tuple(query(name) for name in ("grant_demo_base_plans", "pack_demo_base_plans"))
_HAS_CATALOG = query("has_catalog")


async def has_catalog(connection: Connection, project_id: str) -> bool:
    """Whether the project has a product or an entitlement."""
    there: bool = await connection.fetchval(_HAS_CATALOG, project_id)
    return there


async def add_catalog(connection: Connection, project_id: str, now: Ms) -> None:
    """Existing entries stay as they are."""
    for statement in _CATALOG:
        await connection.execute(statement, project_id, now)
    await connection.execute(_MAPPING, project_id)
    for statement in _OFFERINGS:
        await connection.execute(statement, project_id, now)
    await connection.execute(_PACKAGE_PRODUCTS, project_id)


async def add_base_plans(connection: Connection, project_id: str, app_id: str, now: Ms) -> None:
    """The demo's subscriptions as Google Play sells them, in this app alone."""
    await connection.execute(_ADD_BASE_PLANS, project_id, now)
    await connection.execute(_SELL_BASE_PLANS, project_id, app_id, now)
    for statement in _LIKE_PRODUCTS:
        await connection.execute(statement, project_id)


_ADD = query("add_past_events")
_ENCODER = json.Encoder()


async def add_events(connection: Connection, project_id: str, events: Sequence[tuple[int, Event]], now: Ms) -> None:
    """Adds them to the feed in this order, each with its customer's key. No webhook gets a delivery. Call it last in a
    transaction: it holds the feed's lock until the commit."""
    if not events:
        return
    await connection.execute(
        _ADD,
        project_id,
        now,
        [key for key, _ in events],
        [event.id for _, event in events],
        [event.sequence for _, event in events],
        [event.type for _, event in events],
        [event.environment for _, event in events],
        [None if event.app_id is UNSET else event.app_id for _, event in events],
        [event.event_timestamp_ms for _, event in events],
        [_ENCODER.encode(event) for _, event in events],
    )
