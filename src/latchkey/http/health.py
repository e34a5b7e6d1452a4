"""Health checks and metrics: is the process alive, can it serve, what has it done."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from fastapi import Request
from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from latchkey.database import database_identity, migrate
from latchkey.database.errors import NoPrimaryError, RestoredError, StorageError
from latchkey.database.transient_errors import PASSING, REFUSES_WRITES
from latchkey.http.authentication import Provided
from latchkey.http.errors import Missing, Unauthenticated
from latchkey.http.exchange import SCOPE_KEY, WATCH_KEY
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Services
from latchkey.observability.peer_metrics import CONTENT_TYPE
from latchkey.observability.watch import Watch
from latchkey.settings import STOPPING

router = Router(tags=["Operation"])

# A health check that hangs is worse than one that fails.
_PATIENCE_SECONDS = 5.0
_SILENT = "The database does not answer."
_UNCONFIRMED = "The database does not confirm changes in time: it is overloaded, or its synchronous standby is gone."
_NO_PRIMARY = "The database has no primary: no server that the address names takes changes. The log says more."


class Health(Struct, frozen=True, kw_only=True):
    status: Literal["ok", "not_ready"]
    reason: str | UnsetType = UNSET
    # Processes of this machine that crash again and again. Requests are answered all the same, by the others.
    restarting: Sequence[str] | UnsetType = UNSET


@router.get("/healthz", responses=shows(Health))
async def healthz() -> Response:
    """The process is alive."""
    return reply(Health(status="ok"))


@router.get(
    "/readyz", responses=shows(Health) | shows(Health, 503, "Send traffic elsewhere for now"), response_class=Response
)
async def readyz(request: Request, services: Provided) -> Response:
    """The database answers, has the schema this version expects, and accepts changes. The process is not stopping."""
    reason = "This process is stopping." if STOPPING in request.scope else await _trouble(services)
    if reason is not None:
        return reply(Health(status="not_ready", reason=reason), 503)
    return reply(Health(status="ok", restarting=services.restarting() or UNSET))


async def _trouble(services: Services) -> str | None:
    if services.database.trouble is not None:
        return _NO_PRIMARY
    writing = False
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            async with services.database.acquire() as connection:
                await migrate.require_current(connection)
                await database_identity.require_settled(connection)
            writing = True
            await services.write_probe.check()
    except NoPrimaryError:
        return _NO_PRIMARY
    except REFUSES_WRITES:
        return "The database takes no changes: its disk is full, or it is read-only."
    except PASSING as error:
        return _UNCONFIRMED if writing and isinstance(error, TimeoutError) else _SILENT
    except RestoredError:
        return "The database was restored from a backup. The operator must run `latchkey admin after-restore`."
    except StorageError:
        return "The database's schema is not the one expected."
    return None


@router.get("/metrics")
async def show_metrics(request: Request) -> Response:
    """The metrics of this machine in Prometheus' text format, for the key that is set as `metrics_key`. Without that
    setting there is nothing here: metrics have a port of their own."""
    watch: Watch = request.scope[WATCH_KEY]
    if not watch.has_key:
        raise Missing("Metrics are not served here: `metrics_key` is not set.")
    if not watch.admits(request.scope[SCOPE_KEY].headers.get(b"authorization")):
        raise Unauthenticated("Send the metrics key as 'Authorization: Bearer <key>'.")
    return Response(await watch.text(), media_type=CONTENT_TYPE)
