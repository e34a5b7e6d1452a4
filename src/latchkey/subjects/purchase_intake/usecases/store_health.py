"""How a project's apps stand with their stores: what an operator has to do, and what the safety net made good."""

from dataclasses import dataclass
from typing import Literal

from latchkey.domain.stores.store import STORES
from latchkey.subjects.projects.usecases import list_apps
from latchkey.subjects.purchase_intake.usecases import journal, store_connections
from latchkey.subjects.purchase_intake.usecases.store_connections import Connections

# Apps that are looked at.
MOST_APPS = 200
HEALED_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTrouble:
    app_id: str
    app_name: str
    # The store's name for people.
    store: str
    # `missing`: there are no credentials. `refused`: the store does not accept them.
    what: Literal["missing", "refused"]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    troubles: tuple[StoreTrouble, ...] = ()
    # Failed entries of the journal, at most `journal.MOST_COUNTED`.
    failed: int = 0
    # Of the last `HEALED_DAYS` days: purchases that were read again, and those in which something was missing.
    checks: int = 0
    healed: int = 0


async def standing_of(connections: Connections, project_id: str) -> StoreHealth:
    apps = await list_apps(connections.database, project_id, limit=MOST_APPS)
    connected = await store_connections.load_some(connections, project_id, apps)
    if not connected:
        return StoreHealth()
    troubles = []
    for app in apps:
        if (one := connected.get(app.id)) is None:
            continue
        missing = one.row.credentials is None
        if missing or one.row.check_result == "refused":
            troubles.append(
                StoreTrouble(
                    app_id=app.id,
                    app_name=app.name,
                    store=STORES[app.store].title,
                    what="missing" if missing else "refused",
                    message="" if missing else one.row.check_message,
                )
            )
    healings = (await store_connections.healings(connections, project_id, HEALED_DAYS)).values()
    return StoreHealth(
        troubles=tuple(troubles),
        failed=await journal.count_failed(connections.database, project_id),
        checks=sum(one.checks for one in healings),
        healed=sum(one.healed for one in healings),
    )
