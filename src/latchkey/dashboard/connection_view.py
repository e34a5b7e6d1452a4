"""What pages show of an app's connection to its store."""

from typing import Any

from latchkey.dashboard.page import Visit
from latchkey.engine.storage.catalog import app_rows
from latchkey.subjects.purchase_intake.usecases import store_connections


async def shown_connection(visit: Visit, app: app_rows.App) -> dict[str, Any] | None:
    """What the pages of an app show of its connection. None: apps of this store are not connected."""
    found = await store_connections.load(visit.services.stores, visit.project_id, app.id)
    if found is None:
        return None
    healed = (await store_connections.healings(visit.services.stores, visit.project_id)).get(app.id)
    return {"row": found.row, "url": address_of(visit, found), "healed": healed, "reachable": _reachable(visit)}


def address_of(visit: Visit, found: store_connections.Connected) -> str:
    return f"https://{visit.request.headers.get('host', '')}{found.notification_path}"


def _reachable(visit: Visit) -> bool:
    """Whether the address of this page may be one that a store can reach."""
    host = visit.request.headers.get("host", "").partition(":")[0]
    return host != "127.0.0.1" and "." in host
