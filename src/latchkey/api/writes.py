"""The hot write, an app's receipt, without the framework in between.

Only valid requests are handled here. A body that the model refuses goes on to the framework, which validates it with
the same model and reports the error; nothing has been counted or changed by then. So errors have one format.
"""

from __future__ import annotations

from msgspec import json
from pydantic import ValidationError

from latchkey.api.authentication import app_caller
from latchkey.api.body import CheckedBody
from latchkey.api.errors import ApiError
from latchkey.api.exchange import Exchange
from latchkey.api.v1 import receipts
from latchkey.usecases.services import Services

_encode = json.Encoder().encode


class Writes:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def answer(self, exchange: Exchange, segments: list[str], body: CheckedBody) -> bytes | None:
        """The reply, if this is a receipt and its body is valid."""
        if segments != ["v1", "receipts"]:
            return None
        try:
            new = receipts.NewReceipt.model_validate(await body.value())
        except ValidationError:
            return None
        caller = await app_caller(exchange, self._services, "write", receipt=True)
        return _encode(await receipts.take(exchange, self._services, caller, new))

    async def spared(self, exchange: Exchange, error: ApiError) -> ApiError:
        """What a phone gets instead of an error that would make it drop a purchase."""
        return await receipts.spared(exchange, self._services, error)
