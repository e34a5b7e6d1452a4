"""The two hot reads, without a framework in between.

A request needs one question, which authenticates it and reads the customer, and shares its query with all other
requests of the same tick.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any

from msgspec import json

from latchkey.api.authentication import (
    admitted,
    check_refused_before,
    key_hash,
    require_project,
    require_room,
    require_scope,
    require_secret,
)
from latchkey.api.errors import InvalidAppUserId, Missing
from latchkey.api.etag import etag_of_subscriber
from latchkey.api.exchange import ETAG, Exchange
from latchkey.api.shape import is_vendors
from latchkey.api.visit import visit_of
from latchkey.domain.user_id import problem_with
from latchkey.usecases.engine.admission import Caller
from latchkey.usecases.engine.changes import Change, unchanged
from latchkey.usecases.engine.reading import Answer
from latchkey.usecases.rendering import v1, v2
from latchkey.usecases.rendering.view import View, view_for_reading, view_for_v2
from latchkey.usecases.services import Services

V1_ROUTE = "/v1/subscribers/{app_user_id}"
V2_ROUTE = "/v2/projects/{project_id}/customers/{customer_id}"

_encode = json.Encoder().encode


class Reads:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._now = services.now
        self._admit = services.reader.admit
        self._refused_keys = services.refused_keys

    def answer(self, exchange: Exchange, segments: list[str]) -> Awaitable[tuple[int, bytes]] | None:
        """An awaitable of status and body, if these are the segments of one of the two reads."""
        match segments:
            case ["v1", "subscribers", app_user_id]:
                exchange.route = V1_ROUTE
                return self.subscriber(exchange, app_user_id)
            # A trailing slash is not a customer's id.
            case ["v2", "projects", project_id, "customers", customer_id] if customer_id:
                exchange.route = V2_ROUTE
                return self.customer(exchange, project_id, customer_id)
            case _:
                return None

    async def subscriber(self, exchange: Exchange, app_user_id: str) -> tuple[int, bytes]:
        problem = problem_with(app_user_id)
        answer = await self._ask(exchange, app_user_id, problem)
        caller = admitted(answer.verdict, exchange, self._services)
        if caller.is_public:
            require_room(exchange, self._services, caller, app_user_id)
        if problem is not None:
            raise InvalidAppUserId(problem, param="app_user_id", empty=not app_user_id.strip())
        if not caller.is_public:
            require_scope(caller, "read")
        if answer.row is not None:
            status, view = 200, view_for_reading(answer.row, self._now())
        elif exchange.is_head:
            # Sent by link checkers, and must not change anything.
            raise Missing(f"There is no subscriber {app_user_id!r}.", param="app_user_id")
        else:
            status, view = await self._get_or_create(caller, app_user_id)
        self._note(exchange, caller, view)
        shown = v1.subscriber(view, v1.Reader(caller.is_public, vendor_shape=is_vendors(exchange)))
        exchange.request_time = view.now if caller.is_public else None
        # Only the vendor's native SDKs send a tag.
        if caller.is_public and (known := exchange.headers.get(ETAG)) is not None and not exchange.is_head:
            exchange.etag = etag_of_subscriber(shown.subscriber)
            if known == exchange.etag:
                return 304, b""
        return status, _encode(shown)

    async def customer(self, exchange: Exchange, project_id: str, customer_id: str) -> tuple[int, bytes]:
        problem = problem_with(customer_id)
        answer = await self._ask(exchange, customer_id, problem)
        caller = admitted(answer.verdict, exchange, self._services)
        require_secret(caller)
        require_scope(caller, "read")
        require_project(caller, project_id)
        if problem is not None:
            raise InvalidAppUserId(problem, param="customer_id", empty=not customer_id.strip())
        if answer.row is None:
            raise Missing(f"There is no customer {customer_id!r}.", param="customer_id")
        view = view_for_v2(answer.row, self._now())
        self._note(exchange, caller, view)
        exchange.sequence = view.customer.sequence
        return 200, _encode(v2.customer(view))

    def _ask(self, exchange: Exchange, app_user_id: str, problem: str | None) -> Coroutine[Any, Any, Answer]:
        """An invalid id is not looked up; the request is still authenticated and counted."""
        hashed = key_hash(exchange.headers.get(b"authorization"))
        asked = app_user_id if problem is None else None
        return self._check_and_ask(exchange, hashed, asked) if self._refused_keys else self._admit(hashed, asked)

    async def _check_and_ask(self, exchange: Exchange, hashed: bytes, app_user_id: str | None) -> Answer:
        await check_refused_before(exchange, self._services, hashed)
        return await self._admit(hashed, app_user_id)

    async def _get_or_create(self, caller: Caller, app_user_id: str) -> tuple[int, View]:
        change = Change(project_id=caller.project_id, app_user_id=app_user_id, apply=unchanged, create=True)
        made = await self._services.changes.make(change)
        return 201 if made.created else 200, made.view(self._now())

    def _note(self, exchange: Exchange, caller: Caller, view: View) -> None:
        # Most requests come from servers and are not visits; this check is fast.
        if not caller.is_public and b"x-platform" not in exchange.headers:
            return
        seen = visit_of(exchange.headers, view.now, always=caller.is_public)
        if seen is not None:
            self._services.presence.note(caller.project_id, view.key, seen)
