"""Secret API keys: shown once, then only masked. An app's public keys are in `apps.py`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import Response

from latchkey.api.audited import audited
from latchkey.api.authentication import ReadKey, WriteKey
from latchkey.api.errors import Forbidden
from latchkey.api.models import Body, Limit, Name, RateLimit, StartingAfter
from latchkey.api.replies import reply, shows
from latchkey.api.routing import Router
from latchkey.api.services import Provided
from latchkey.domain.refusal import NotFound
from latchkey.usecases.access import keys
from latchkey.usecases.rendering import management as render
from latchkey.usecases.rendering.v2 import DEFAULT_LIMIT
from latchkey.wire import management as wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/api_keys", tags=["V2 API keys"])


class NewKey(Body):
    name: Name
    scopes: Annotated[list[Literal["read", "write"]], Field(min_length=1, max_length=2)]
    rate_limit: RateLimit = keys.RATE_LIMIT


@router.post("", responses=shows(wire.ApiKey, 201), status_code=201, response_class=Response)
@audited("key.created")
async def create_api_key(services: Provided, caller: WriteKey, new: NewKey) -> Response:
    """Create a secret key. Only this response shows it."""
    beyond = sorted(set(new.scopes) - caller.scopes)
    if beyond:
        raise Forbidden(f"This key lacks the scope '{beyond[0]}', so it cannot give it to another.", param="scopes")
    made = await keys.create_secret_key(
        services.database,
        caller.project_id,
        new.name,
        services.now(),
        scopes=new.scopes,
        rate_limit=new.rate_limit,
    )
    return reply(render.api_key(caller.project_id, made.key, made.plaintext), 201)


@router.get("", responses=shows(Page[wire.ApiKey]), response_class=Response)
async def list_api_keys(
    services: Provided, caller: ReadKey, limit: Limit = DEFAULT_LIMIT, starting_after: StartingAfter = None
) -> Response:
    """The project's secret keys, oldest first, including revoked ones."""
    found = await keys.list_keys(
        services.database, caller.project_id, after=starting_after, limit=limit + 1, kind="secret"
    )
    return reply(render.listed(found, render.api_key, lambda item: item.id, limit, caller.project_id, "api_keys"))


@router.delete("/{key_id}", responses=shows(wire.ApiKey), response_class=Response)
@audited("key.revoked")
async def revoke_api_key(services: Provided, caller: WriteKey, key_id: str) -> Response:
    """Revoke a key. The next request with it is refused."""
    if (await keys.load_key(services.database, caller.project_id, key_id)).kind != "secret":
        raise NotFound(f"{key_id} is the public key of an app; revoke it there.", param="key_id")
    revoked = await keys.revoke_key(services.database, caller.project_id, key_id, services.now())
    return reply(render.api_key(caller.project_id, revoked))
