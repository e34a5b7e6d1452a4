"""The audit log of changes made with an API key.

    @router.post("/products", ...)
    @audited("product.created")
    async def create_product(services: Provided, caller: WriteKey, new: NewProduct) -> Response:

The entry is written before the route runs, and completed with the outcome, as for the dashboard's pages. A request that
is refused earlier (key, scope, body) changes nothing and is not logged.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any

import structlog
from fastapi import Request
from msgspec import MsgspecError, Struct, json
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from latchkey.api.exchange import SCOPE_KEY, Exchange
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.refusal import Refusal
from latchkey.domain.team.client_address import client_address
from latchkey.usecases.access import audit
from latchkey.usecases.access.keys import actor_of, load_key
from latchkey.usecases.engine.admission import Caller
from latchkey.usecases.services import Services

Endpoint = Callable[..., Awaitable[Response]]

log = structlog.get_logger()

HIDDEN = "***"


class _Made(Struct):
    id: str = ""
    code: str = ""


def audited(action: str, *, erases: bool = False, about: str = "") -> Callable[[Endpoint], Endpoint]:
    """Decorates a route that needs a secret key: its changes are in the project's audit log under this name. A route
    that erases a person writes none of their ids there. `about` is the subject where the route names none."""

    def decorate(endpoint: Endpoint) -> Endpoint:
        # Evaluated here, where the route's own names are known; FastAPI sees the request as an additional parameter.
        signature = inspect.signature(endpoint, eval_str=True)
        parameters = dict(signature.parameters)
        takes_request = "request" in parameters
        if not takes_request:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters["request"] = inspect.Parameter("request", kind, annotation=Request)

        @wraps(endpoint)
        async def noted(**given: Any) -> Response:
            request: Request = given["request"] if takes_request else given.pop("request")
            services: Services = given["services"]
            position = await _begin(request, services, given["caller"], action)
            subject, detail = _named(request.path_params), _detail(request, given)
            try:
                response = await endpoint(**given)
            except Exception as error:
                refused = isinstance(error, Refusal | HTTPException)
                said = {"refusal": error.message} if isinstance(error, Refusal) else {}
                outcome: audit.Outcome = "refused" if refused else "failed"
                await _finish(services, position, outcome, subject, {**detail, **said})
                raise
            changed = ERASED if erases else subject or _id_of(response) or about
            await _finish(services, position, "done", changed, detail)
            return response

        noted.__signature__ = signature.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]  # as inspect reads it
        noted.audited_as = action  # type: ignore[attr-defined]  # for the test that every route is audited
        return noted

    return decorate


async def _begin(request: Request, services: Services, caller: Caller, action: str) -> int:
    key = await load_key(services.database, caller.project_id, caller.key_id)
    return await audit.begin(
        services.database,
        project_id=caller.project_id,
        account_id=None,
        actor=actor_of(key),
        action=action,
        now=services.now(),
        subject=_named(request.path_params),
        address=client_address(
            request.client.host if request.client else None,
            request.headers.get("x-forwarded-for"),
            behind_proxy=services.behind_proxy,
        ),
    )


async def _finish(
    services: Services, position: int, outcome: audit.Outcome, subject: str, detail: Mapping[str, Any]
) -> None:
    """The route's changes are committed, so its reply is sent. An entry that cannot be finished stays 'begun'."""
    try:
        await audit.finish(services.database, position, outcome, subject, detail)
    except Exception as error:
        log.warning("audit entry not finished", position=position, outcome=outcome, error=str(error))


def _detail(request: Request, given: Mapping[str, Any]) -> dict[str, Any]:
    exchange: Exchange = request.scope[SCOPE_KEY]
    # Ids from the path are only in the subject, where erasure finds them.
    detail: dict[str, Any] = {"request": f"{exchange.method} {request.scope['route'].path}"}
    for value in given.values():
        if isinstance(value, BaseModel):
            sent = value.model_dump(mode="json", exclude_unset=True)
            fields = type(value).model_fields
            # Fields without a repr are secret.
            detail["sent"] = {
                name: one if fields[name].repr and not _holds_secret(one) else HIDDEN for name, one in sent.items()
            }
    return {**detail, "request_id": exchange.request_id.decode()}


# A URL with a user or a password in it.
_WITH_PASSWORD = re.compile(r"://[^/?#\s]*@")


def _holds_secret(value: Any) -> bool:
    """Somebody may have pasted a key into the wrong field, or a password into a URL."""
    text = str(value)
    return "PRIVATE KEY" in text or _WITH_PASSWORD.search(text) is not None


def _named(params: Mapping[str, Any]) -> str:
    return ", ".join(str(value) for name, value in params.items() if name != "project_id")


def _id_of(response: Response) -> str:
    """The id of the created object, from the reply."""
    try:
        made = json.decode(response.body, type=_Made)
    except MsgspecError:
        return ""
    return made.id or made.code
