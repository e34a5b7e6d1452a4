"""What wraps a route that changes something.

The header Idempotency-Key on every POST of V2: a request is carried out once, and repeating it gets its reply.

The audit log of changes made with an API key:

    @router.creates("/products", wire.Product, "product.created")
    async def create_product(call: WriteKey, new: NewProduct) -> Response:

The entry is written before the route runs, and completed with the outcome, as for the dashboard's pages. A request that
is refused earlier (key, scope, body) changes nothing and is not logged.

The header Latchkey-Dry-Run on such a route: key, scope and body are checked, and the reply says what the request would
do, with a token. Sent with the token in Latchkey-Confirm, exactly this request of this key is carried out.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from hashlib import sha256
from typing import Any

import structlog
from msgspec import MsgspecError, json
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Message, Scope, Send

from latchkey.database.sealing import UnsealableError
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.refusal import Refusal
from latchkey.http.authentication import Call, address_of, caller_of
from latchkey.http.body import CheckedBody
from latchkey.http.errors import Conflicting, InvalidParameter, UnderWay, Unprocessable
from latchkey.http.exchange import DRY_RUN, Exchange, HeldReply
from latchkey.http.services import Services
from latchkey.subjects.api_keys.usecases import actor_of, load_key
from latchkey.subjects.audit import rules as audit_rules
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.request_log.usecases import BegunRequest, Idempotency, Replayed

Endpoint = Callable[..., Awaitable[Response]]

log = structlog.get_logger()

HIDDEN = "***"


def audited(action: str, *, erases: bool = False, about: str = "") -> Callable[[Endpoint], Endpoint]:
    """Decorates a route that needs a secret key: its changes are in the project's audit log under this name. A route
    that erases a person writes none of their ids there. `about` is the subject where the route names none."""

    def decorate(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def noted(call: Call, **given: Any) -> Response:
            if DRY_RUN in call.exchange.headers:
                return await _dry_run(call, action, given)
            if CONFIRM in call.exchange.headers:
                await _check_confirmed(call)
            position = await _begin(call, action)
            subject = ERASED if erases else named_by(call.request.path_params)
            detail = _detail(call, given)
            try:
                response = await endpoint(call=call, **given)
            except Exception as error:
                refused = isinstance(error, Refusal | HTTPException)
                # Of somebody who was erased before, the message has the id.
                said = {"refusal": error.message} if isinstance(error, Refusal) and not erases else {}
                outcome: audit_rules.Outcome = "refused" if refused else "failed"
                await _finish(call.services, position, outcome, subject, {**detail, **said})
                raise
            changed = subject or _id_of(response) or about
            await _finish(call.services, position, "done", changed, detail)
            return response

        noted.audited_as = action  # type: ignore[attr-defined]  # for the OpenAPI document, and a test
        return noted

    return decorate


CONFIRM = b"latchkey-confirm"
# How long after its dry run a request can be confirmed.
CONFIRMED_WITHIN_MS = 10 * 60_000


async def _dry_run(call: Call, action: str, given: Mapping[str, Any]) -> Response:
    if call.exchange.headers[DRY_RUN] != b"true":
        raise InvalidParameter("Latchkey-Dry-Run is 'true', or is not sent.", param="Latchkey-Dry-Run")
    now = call.now()
    token = call.services.sealer.token(now, await _fingerprint(call))
    shown = {
        "object": "dry_run",
        "action": action,
        "request": f"{call.exchange.method} {call.exchange.raw_path.decode(errors='replace')}",
        "sent": _detail(call, given).get("sent", {}),
        "confirm": token,
        "expires_at": now + CONFIRMED_WITHIN_MS,
        "checked": "Key, scope and body; not whether what the request names exists. If not, it will be 404.",
    }
    return Response(json.encode(shown), media_type="application/json")


async def _check_confirmed(call: Call) -> None:
    try:
        token = call.exchange.headers[CONFIRM].decode("latin-1")
        made_at = call.services.sealer.opened(token, int, await _fingerprint(call))
    except UnsealableError:
        message = "This token is not from a dry run of exactly this request with this key. Make the dry run again."
        raise InvalidParameter(message, param="Latchkey-Confirm") from None
    if call.now() > made_at + CONFIRMED_WITHIN_MS:
        raise InvalidParameter("The dry run is more than 10 minutes old. Make it again.", param="Latchkey-Confirm")


async def _fingerprint(call: Call) -> str:
    exchange, query, body = call.exchange, call.request.scope["query_string"], await call.request.body()
    digest = sha256(b"%b?%b\0%b" % (exchange.raw_path, query, body)).hexdigest()
    return f"confirm/{call.caller.key_id}/{exchange.method}/{digest}"


async def actor(call: Call) -> str:
    """Who makes the request, as the audit log names them."""
    return call.caller.email or actor_of(await call.run(load_key, call.caller.key_id))


async def _begin(call: Call, action: str) -> int:
    return await audit.begin(
        call.database,
        project_id=call.project_id,
        account_id=call.caller.key_id if call.caller.email is not None else None,
        actor=await actor(call),
        action=action,
        now=call.now(),
        subject=named_by(call.request.path_params),
        address=address_of(call.exchange, call.services),
    )


async def _finish(
    services: Services, position: int, outcome: audit_rules.Outcome, subject: str, detail: Mapping[str, Any]
) -> None:
    """The route's changes are committed, so its reply is sent. An entry that cannot be finished stays 'begun'."""
    try:
        await audit.finish(services.database, position, outcome, subject, detail)
    except Exception as error:
        log.warning("audit entry not finished", position=position, outcome=outcome, error=str(error))


def _detail(call: Call, given: Mapping[str, Any]) -> dict[str, Any]:
    # Ids from the path are only in the subject, where erasure finds them.
    detail: dict[str, Any] = {"request": f"{call.exchange.method} {call.request.scope['route'].path}"}
    for value in given.values():
        if isinstance(value, BaseModel):
            sent = value.model_dump(mode="json", exclude_unset=True)
            fields = type(value).model_fields
            # Fields without a repr are secret.
            detail["sent"] = {
                name: one if fields[name].repr and not _holds_secret(one) else HIDDEN for name, one in sent.items()
            }
    return {**detail, "request_id": call.exchange.request_id.decode()}


# A URL with a user or a password in it.
_WITH_PASSWORD = re.compile(r"://[^/?#\s]*@")


def _holds_secret(value: Any) -> bool:
    """Somebody may have pasted a key into the wrong field, or a password into a URL."""
    text = str(value)
    return "PRIVATE KEY" in text or _WITH_PASSWORD.search(text) is not None


def named_by(params: Mapping[str, Any]) -> str:
    """What a path names. The token of a link is left out: it is a secret while it works."""
    return ", ".join(str(value) for name, value in params.items() if name not in {"project_id", "token"})


def _id_of(response: Response) -> str:
    """The id of the created object, from the reply."""
    try:
        made = json.decode(response.body, type=dict[str, Any])
    except MsgspecError:
        return ""
    return str(made.get("id") or made.get("code") or "")


HEADER = b"idempotency-key"
# With one of these a POST is carried out once. The vendor's V1 has no such keys.
ONCE = {"v1": {CONFIRM}, "v2": {HEADER, CONFIRM}}
LONGEST_KEY = 255
PATTERN = r"^[!-~]([ -~]*[!-~])?$"
_KEY = re.compile(PATTERN.encode())
_PARAM = "Idempotency-Key"


async def is_answered(exchange: Exchange, services: Services, scope: Scope, body: CheckedBody) -> bool:
    """Whether the request got the reply of an earlier one. Otherwise it is to be carried out, and its reply is kept."""
    keys = [value for name, value in scope["headers"] if name == HEADER and HEADER in ONCE[exchange.version]]
    if keys and (len(keys) != 1 or len(keys[0]) > LONGEST_KEY or _KEY.fullmatch(keys[0]) is None):
        raise InvalidParameter(f"Send one {_PARAM} of 1 to {LONGEST_KEY} ASCII characters.", param=_PARAM)
    caller, content = await caller_of(exchange, services), await body.content()
    # Anybody has a public key, which may change nothing here; and half a request is not carried out.
    if caller.is_public or content is None:
        return False
    request = b"%b?%b\0%b" % (exchange.raw_path, scope["query_string"], content)
    # A token confirms one request, once. Sent with another it is refused, and stays good for the right one.
    key = keys[0] if keys else sha256(exchange.headers[CONFIRM] + request).digest()
    begun = await services.idempotency.begin(caller.project_id, caller.key_id, key, request)
    if isinstance(begun, BegunRequest):
        exchange.operation_id = begun.operation_id
        exchange.wrap_send(lambda send: _kept(send, services.idempotency, begun))
        return False
    if isinstance(begun, Replayed):
        exchange.route = "replayed"
        await exchange.reply(begun.status, begun.body, [(b"idempotent-replayed", b"true")])
        return True
    if begun.reused:
        message = "This key was used for another request: another path or another body. Use a new key for each request."
        raise Unprocessable(message, type="idempotency_error", param=_PARAM)
    if begun.under_way:
        raise UnderWay(param=_PARAM)
    raise Conflicting(
        "The first request with this key was interrupted. Whether it took effect is not known: look, and if it did "
        "not, send it with a new key.",
        type="idempotency_error",
        param=_PARAM,
    )


def _kept(send: Send, idempotency: Idempotency, begun: BegunRequest) -> Send:
    """Keeps the complete reply, and then sends it."""

    async def finish(start: Message, body: bytes) -> tuple[Message, bytes]:
        try:
            await idempotency.finish(begun, start["status"], body)
        except Exception as error:
            # It was carried out, so the reply is sent. Repeated requests are told that the outcome is not known.
            log.warning("reply of an idempotent request not kept", error=str(error))
        return start, body

    return HeldReply(send, finish, lambda _: True)
