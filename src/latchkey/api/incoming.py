"""Where stores send their notifications: a URL for each app, with a token that nobody can guess.

The answer tells the store whether to try again: 2xx when the notification is in the journal, 5xx when it could not be
checked or stored now, 4xx when it will never be taken.
"""

from __future__ import annotations

import structlog
from fastapi import Request
from msgspec import Struct
from starlette.responses import Response

from latchkey.api.errors import BadRequest, Forbidden, StoreNotConnected, Unauthenticated
from latchkey.api.routing import Router, reply
from latchkey.api.services import Provided
from latchkey.usecases.services import Services
from latchkey.usecases.stores.incoming import (
    CredentialsRefused,
    Malformed,
    Misdirected,
    NotAuthentic,
    NotConnected,
    StoreDown,
)

router = Router(tags=["Stores"])

log = structlog.get_logger()


class Received(Struct, frozen=True, kw_only=True):
    received: bool = True
    # It was in the journal already, so nothing follows from this one.
    duplicate: bool


# Not in the document: stores do not read it, and everybody else must not use it.
@router.post("/incoming/{token}", include_in_schema=False)
async def receive_notification(request: Request, services: Provided, token: str) -> Response:
    try:
        new = await services.inbox.receive(token, await request.body(), dict(request.headers))
    except NotAuthentic as error:
        log.warning("notification refused", app_id=await _app_of(services, token), reason=error.message)
        raise Unauthenticated(error.message) from error
    except Misdirected as error:
        log.warning("notification refused", app_id=await _app_of(services, token), reason=error.message)
        raise Forbidden(error.message) from error
    except Malformed as error:
        log.warning("notification refused", app_id=await _app_of(services, token), reason=error.message)
        raise BadRequest(error.message) from error
    except (StoreDown, CredentialsRefused) as error:
        log.warning("notification not checked", app_id=await _app_of(services, token), reason=error.message)
        raise StoreNotConnected(error.message) from error
    except NotConnected as error:
        log.error("notification for an app without credentials", app_id=await _app_of(services, token))
        raise StoreNotConnected("This app has no credentials for its store yet, so nothing can be checked.") from error
    return reply(Received(duplicate=not new))


async def _app_of(services: Services, token: str) -> str | None:
    """Whose URL it is. The token itself is a secret and never logged."""
    known = await services.stores.by_token(token)
    return known.app_id if known is not None else None
