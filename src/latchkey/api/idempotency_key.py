"""The header Idempotency-Key on every POST of V2: a request is carried out once, and repeating it gets its reply."""

from __future__ import annotations

import re

import structlog
from starlette.types import Message, Scope, Send

from latchkey.api.authentication import caller_of
from latchkey.api.body import CheckedBody
from latchkey.api.errors import Conflicting, InvalidParameter, UnderWay, Unprocessable
from latchkey.api.exchange import Exchange
from latchkey.usecases.access.idempotency import Begun, Idempotency, Replayed
from latchkey.usecases.services import Services

log = structlog.get_logger()

HEADER = b"idempotency-key"
LONGEST_KEY = 255
PATTERN = r"^[!-~]([ -~]*[!-~])?$"
_KEY = re.compile(PATTERN.encode())
_PARAM = "Idempotency-Key"


async def is_answered(exchange: Exchange, services: Services, scope: Scope, body: CheckedBody) -> bool:
    """Whether the request got the reply of an earlier one. Otherwise it is to be carried out, and its reply is kept."""
    keys = [value for name, value in scope["headers"] if name == HEADER]
    if len(keys) != 1 or len(keys[0]) > LONGEST_KEY or _KEY.fullmatch(keys[0]) is None:
        raise InvalidParameter(f"Send one {_PARAM} of 1 to {LONGEST_KEY} ASCII characters.", param=_PARAM)
    caller, content = await caller_of(exchange, services), await body.content()
    # Anybody has a public key, which may change nothing here; and half a request is not carried out.
    if caller.is_public or content is None:
        return False
    request = b"%b?%b\0%b" % (exchange.raw_path, scope["query_string"], content)
    begun = await services.idempotency.begin(caller.project_id, caller.key_id, keys[0], request)
    if isinstance(begun, Begun):
        exchange.operation_id = begun.operation_id
        exchange.wrap_send(lambda send: _Keeping(send, services.idempotency, begun))
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


class _Keeping:
    """An ASGI `send` that keeps the complete reply, and then sends it."""

    def __init__(self, send: Send, idempotency: Idempotency, begun: Begun) -> None:
        self._send = send
        self._idempotency = idempotency
        self._begun = begun
        self._held: list[Message] = []

    async def __call__(self, message: Message) -> None:
        self._held.append(message)
        if message["type"] == "http.response.start" or message.get("more_body", False):
            return
        body = b"".join(one.get("body", b"") for one in self._held)
        try:
            await self._idempotency.finish(self._begun, self._held[0]["status"], body)
        except Exception as error:
            # It was carried out, so the reply is sent. Repeated requests are told that the outcome is not known.
            log.warning("reply of an idempotent request not kept", error=str(error))
        for one in self._held:
            await self._send(one)
