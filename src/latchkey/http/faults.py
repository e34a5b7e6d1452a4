"""Translates errors of the framework to our own errors."""

import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from latchkey.domain.refusal import Refusal
from latchkey.http.errors import (
    ApiError,
    BadRequest,
    InvalidAppUserId,
    InvalidParameter,
    MethodNotAllowed,
    NoSuchPath,
    said,
)
from latchkey.http.exchange import SCOPE_KEY, WRITES_KEY, Exchange
from latchkey.http.front import as_api_error
from latchkey.http.models import EMPTY_USER_ID, INVALID_USER_ID

# Where the framework found a value; not part of the field's name.
_PLACES = frozenset({"body", "query", "path", "header", "cookie"})
# The alternative of a field's type that it names; not part of the field's name either.
_BRANCH = re.compile(r"constrained-\w+|str|(list|dict)\[.+\]")


def handle_faults(app: FastAPI) -> None:
    """Call it after adding all routers: it collects the methods of each path."""
    methods = _methods_by_path(app)

    async def on_error(request: Request, error: Exception) -> Response:
        return await _response(request, as_api_error(error))

    async def on_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return await _response(request, _from_http_exception(error, request.scope["path"], methods))

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return await _response(request, from_validation(error))

    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(Refusal, on_error)
    # This handler replies and raises again, so that the front can log the error.
    app.add_exception_handler(Exception, on_error)


def from_validation(error: RequestValidationError) -> ApiError:
    """The first error, with the name of its field."""
    first: dict[str, Any] = error.errors()[0]
    names = [name for part in first["loc"] if part not in _PLACES and not _BRANCH.fullmatch(name := str(part))]
    param = ".".join(names) or None
    message = said(first)
    if first["type"] in {EMPTY_USER_ID, INVALID_USER_ID}:
        return InvalidAppUserId(message, param=param or "app_user_id", empty=first["type"] == EMPTY_USER_ID)
    if param is None:
        message = "Send a body: a JSON object." if first["type"] == "missing" else "The body must be a JSON object."
    return InvalidParameter(f"{param}: {message}" if param else message, param=param)


def _from_http_exception(error: HTTPException, path: str, methods: list[tuple[re.Pattern[str], set[str]]]) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if error.status_code == 405:
        allowed = set().union(*(found for pattern, found in methods if pattern.match(path)))
        if "GET" in allowed:
            allowed.add("HEAD")
        return MethodNotAllowed(sorted(allowed))
    if error.status_code == 404:
        return NoSuchPath()
    if error.status_code < 500:
        return BadRequest(str(error.detail))
    return as_api_error(error)


async def _response(request: Request, error: ApiError) -> Response:
    exchange: Exchange = request.scope[SCOPE_KEY]
    error = await request.scope[WRITES_KEY].spared(exchange, error)
    body = error.body(exchange.version, exchange.request_id.decode())
    return Response(body, error.status, headers=error.headers, media_type="application/json")


def _methods_by_path(app: FastAPI) -> list[tuple[re.Pattern[str], set[str]]]:
    return [
        (compile_path(context.path)[0], set(context.methods))
        for context in iter_route_contexts(app.routes)
        if context.path and context.methods
    ]
