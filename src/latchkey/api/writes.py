"""The two hot writes, without the framework in between: an app's receipt, and an action in the test store.

Only valid requests are handled here. A body that the model refuses goes on to the framework, which validates it with
the same model and reports the error; nothing has been counted or changed by then. So errors have one format.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import json
from pydantic import BaseModel, ValidationError

from latchkey.api.authentication import app_caller, leased_caller, project_caller
from latchkey.api.body import CheckedBody
from latchkey.api.errors import ApiError
from latchkey.api.exchange import Exchange
from latchkey.api.v1 import receipts
from latchkey.api.v2 import sandbox_store as test_store
from latchkey.usecases.engine.changes import KeyChanged
from latchkey.usecases.services import Services

Model = TypeVar("Model", bound=BaseModel)

_encode = json.Encoder().encode


class Writes:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def answer(self, exchange: Exchange, segments: list[str], body: CheckedBody) -> bytes | None:
        """The reply, if these are the segments of one of the two writes and its body is valid."""
        match segments:
            case ["v1", "receipts"]:
                return await self._receipt(exchange, body)
            # A project id is never empty.
            case ["v2", "projects", project_id, "test_store", "actions"] if project_id:
                exchange.route = test_store.ROUTE
                return await self._action(exchange, project_id, body)
            case _:
                return None

    async def spared(self, exchange: Exchange, error: ApiError) -> ApiError:
        """What a phone gets instead of an error that would make it drop a purchase."""
        return await receipts.spared(exchange, self._services, error)

    async def _receipt(self, exchange: Exchange, body: CheckedBody) -> bytes | None:
        new = _fitting(receipts.NewReceipt, await body.value())
        if new is None:
            return None
        caller = await app_caller(exchange, self._services, "write", receipt=True)
        return _encode(await receipts.take(exchange, self._services, caller, new))

    async def _action(self, exchange: Exchange, project_id: str, body: CheckedBody) -> bytes | None:
        new = _fitting(test_store.NewAction, await body.value())
        if new is None:
            return None
        leased = leased_caller(exchange, self._services, "write", project_id)
        if leased is not None:
            try:
                return _encode(await test_store.do(self._services, leased.caller, new, leased.key))
            except KeyChanged:
                self._services.admission.undo(leased)
        caller = await project_caller(exchange, self._services, "write", project_id)
        return _encode(await test_store.do(self._services, caller, new))


def _fitting(model: type[Model], value: Any) -> Model | None:
    try:
        return model.model_validate(value)
    except ValidationError:
        return None
