"""Request bodies: limited in size, and on the APIs only JSON that PostgreSQL can store."""

import re
from collections.abc import Mapping
from json import JSONDecoder
from typing import Any

from fastapi.routing import APIRoute
from msgspec import DecodeError, ValidationError, json
from starlette.requests import Request
from starlette.types import Message, Receive

from latchkey.http.errors import BadRequest, BodyTooLarge, InvalidParameter, UnsupportedMediaType
from latchkey.http.exchange import DRY_RUN


class RepeatedFieldError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name[:100]


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedFieldError(next(name for name in names if names.count(name) > 1))
    return fields


# Raises RepeatedFieldError. The text must be valid JSON.
check_distinct = JSONDecoder(object_pairs_hook=_fields, parse_int=float).decode

LIMIT = 1024 * 1024
_TOO_LARGE = f"The body is larger than {LIMIT:,} bytes."
# Paths whose bodies are not ours to check: the store's adapter does.
RAW = "/incoming/"
# No body of ours is deeper than 5; the limit only has to be well below the interpreter's own.
DEEPEST = 64
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# NULs and halves of surrogate pairs. Group 1 stays: whole pairs, other escapes, and two texts that nobody may alter.
_UNSTORABLE = re.compile(
    rb'("(?:app_user_id|fetch_token)"\s*:\s*"[^"\\]*(?:\\.[^"\\]*)*"'
    rb"|\\[^u]|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u(?:0000|[dD][89a-fA-F]..)"
)
# Enough for every app, and too few to keep a process busy.
_MOST_ESCAPES = 10_000


class CheckedBody:
    """An ASGI `receive` that checks the whole body when it is first requested, and returns it at once.

    The routes without a framework use `value`; the body can still be received afterwards. `is_mended`: characters that
    cannot be stored are left out, where they would refuse the body."""

    def __init__(
        self, receive: Receive, headers: Mapping[bytes, bytes], *, is_json: bool, is_mended: bool = False
    ) -> None:
        self._receive = receive
        self._content_type = headers.get(b"content-type")
        self._announced = headers.get(b"content-length", b"")
        self._is_json, self._is_mended = is_json, is_mended
        self._body: bytes | None = None
        self._value: Any = None
        self._is_read = self._given = False

    async def __call__(self) -> Message:
        if self._given:
            return await self._receive()
        await self.value()
        if self._body is None:
            return {"type": "http.disconnect"}
        self._given = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def value(self) -> Any:
        """The parsed JSON; None if there is no body, or the client has disconnected."""
        if not self._is_read:
            body = await self._read()
            if body and self._is_json:
                check_content_type(self._content_type)
                try:
                    self._value = check_json(body)
                except BadRequest:
                    if not self._is_mended:
                        raise
                    body = _UNSTORABLE.sub(rb"\1", body, _MOST_ESCAPES)
                    self._value = check_json(body)
            self._body, self._is_read = body, True
        return self._value

    async def content(self) -> bytes | None:
        """The bytes, checked; None if the client has disconnected."""
        await self.value()
        return self._body

    async def _read(self) -> bytes | None:
        if self._announced.isdigit() and int(self._announced) > LIMIT:
            raise BodyTooLarge(_TOO_LARGE)
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > LIMIT:
                raise BodyTooLarge(_TOO_LARGE)
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)


async def check_body(request: Request) -> None:
    """Refuses a dry run of what has none. The body of every route that changes something is read and checked even if it
    takes none: a refund of 5 that was sent to a route which refunds everything must not be ignored silently."""
    if request.scope["path"].startswith(RAW):
        return
    route = request.scope["route"]
    if DRY_RUN.decode() in request.headers and not hasattr(route.endpoint, "audited_as"):
        raise InvalidParameter("This operation has no dry run, and nothing was done.", param="Latchkey-Dry-Run")
    if request.method == "GET":
        return
    body = await request.body()
    if body and isinstance(route, APIRoute) and route.body_field is None and json.decode(body) not in ({}, None):
        raise BadRequest("This takes no body: leave it empty.")


def check_content_type(value: bytes | None) -> None:
    media_type = (value or b"").split(b";", 1)[0].strip().lower()
    if media_type == b"application/json" or (media_type.startswith(b"application/") and media_type.endswith(b"+json")):
        return
    sent = repr(media_type.decode("latin-1")) if media_type else "none"
    raise UnsupportedMediaType(f"Send the body as JSON with 'Content-Type: application/json'; it was {sent}.")


def check_json(body: bytes) -> Any:
    try:
        value = json.decode(body)
    except UnicodeDecodeError:
        raise BadRequest("The body is not valid UTF-8.") from None
    except RecursionError:
        raise BadRequest(f"The body is nested deeper than {DEEPEST} levels.") from None
    except ValidationError:
        raise BadRequest("The body holds a number that is too large.") from None
    except DecodeError as error:
        raise BadRequest(f"The body is not valid JSON: {_reason(error, body)}") from None
    fields = _check_value(value, DEEPEST)
    # Every field has one colon. If there are more colons, a string contains one, or a field occurs twice: only then use
    # the parser that detects duplicates, which takes eight times as long as the one above.
    if body.count(b":") != fields:
        try:
            check_distinct(body.decode())
        except RepeatedFieldError as error:
            raise BadRequest(f"The body has the field {error.name!r} twice. Send it once.") from None
    return value


def _check_value(value: Any, depth: int) -> int:
    """The number of fields in all objects of the value."""
    fields = 0
    if isinstance(value, str):
        if "\0" in value:
            raise BadRequest("A text in the body contains the NUL character (\\u0000).")
    elif isinstance(value, dict):
        if not depth:
            raise BadRequest(f"The body is nested deeper than {DEEPEST} levels.")
        fields = len(value)
        for key, item in value.items():
            _check_value(key, depth)
            fields += _check_value(item, depth - 1)
    elif isinstance(value, list):
        if not depth:
            raise BadRequest(f"The body is nested deeper than {DEEPEST} levels.")
        for item in value:
            fields += _check_value(item, depth - 1)
    return fields


def _reason(error: DecodeError, body: bytes) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    if "surrogate" in text or ("truncated" in text and _SURROGATE.search(body)):
        return "it has half of a surrogate pair (\\ud800 to \\udfff)."
    return "it ends too early." if "truncated" in text else f"{text}."
