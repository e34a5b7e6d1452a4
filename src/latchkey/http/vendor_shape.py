"""The vendor's shape: V2 replies without our own fields, for clients that refuse fields they do not know.

A request with the header `Latchkey-Shape: vendor`, or with a key of that shape, gets every object of the vendor with
the vendor's fields alone. Objects that the vendor does not have stay as they are.
"""

import tomllib
from importlib.resources import files
from typing import Any

from msgspec import json
from starlette.types import Message, Send

from latchkey.http.errors import InvalidParameter
from latchkey.http.exchange import JSON_TYPE, Exchange, HeldReply

HEADER = b"latchkey-shape"
VENDOR = b"vendor"

# By object.
FIELDS: dict[str, frozenset[str]] = {
    name: frozenset(("object", *fields.split()))
    for name, fields in tomllib.loads((files(__package__) / "vendor_shape.toml").read_text(encoding="utf-8")).items()
}
_DELETED = {"object", "id", "deleted_at"}
# What these hold belongs to the operator.
_FREE = frozenset({"metadata", "additional_data"})


def check_header(exchange: Exchange) -> None:
    """Refuses a V2 request that asks for a shape which does not exist, before anything happens."""
    if _is_v2(exchange) and exchange.headers[HEADER] != VENDOR:
        raise InvalidParameter("Latchkey-Shape is 'vendor', or is not sent.", param="Latchkey-Shape")


def is_vendors(exchange: Exchange) -> bool:
    """Whether the request, or its key once that is known, asks for the vendor's shape."""
    caller = exchange.caller
    return exchange.headers.get(HEADER) == VENDOR or (caller is not None and caller.wants_vendor_shape)


def shaped(exchange: Exchange, body: bytes) -> bytes:
    """A JSON reply in the shape that this request wants."""
    return cut(body) if _is_v2(exchange) and is_vendors(exchange) else body


def _is_v2(exchange: Exchange) -> bool:
    return exchange.raw_path[:4] == b"/v2/"


def cut(body: bytes) -> bytes:
    """A JSON reply in the vendor's shape."""
    return json.encode(_cut(json.decode(body))) if body else body


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(one) for one in value if not _is_revoked_key(one)]
    if not isinstance(value, dict):
        return value
    name = value.get("object")
    if name is None:
        return {field: _cut(one) for field, one in value.items()}
    fields = FIELDS.get(name)
    if fields is None:
        return value
    if value.keys() == _DELETED:
        return _named(value)
    value = _translated(value)
    return _named({field: one if field in _FREE else _cut(one) for field, one in value.items() if field in fields})


def _named(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "object": "webhook_integration"} if value["object"] == "webhook" else value


def _translated(value: dict[str, Any]) -> dict[str, Any]:
    """Values that the vendor writes in another way."""
    match value["object"]:
        case "webhook":
            # For us an empty list means all types, for the vendor null does.
            types = [type.lower() for type in value["event_types"]]
            return {**value, "event_types": types or None}
        case "public_api_key" if value["key"] is None:
            return {**value, "key": value["masked_key"]}
    return value


def _is_revoked_key(value: Any) -> bool:
    """The vendor lists only keys that work, and has no field that says otherwise."""
    return isinstance(value, dict) and value.get("object") == "public_api_key" and value["revoked_at"] is not None


def _is_cut(start: Message) -> bool:
    return (start["status"] < 300 or start["status"] == 409) and JSON_TYPE in start["headers"]


def shaped_send(exchange: Exchange) -> Send:
    """Cuts a complete JSON reply where the vendor's shape is wanted. What is still in use is 422 for the vendor, where
    we say 409."""

    async def finish(start: Message, body: bytes) -> tuple[Message, bytes]:
        if start["status"] == 409:
            in_use = b'"type":"unprocessable_entity_error"' in body
            start = {**start, "status": 422 if in_use else 409}
        else:
            body = cut(body)
            lines = [(name, value) for name, value in start["headers"] if name != b"content-length"]
            start = {**start, "headers": [*lines, (b"content-length", b"%d" % len(body))]}
        return start, body

    return HeldReply(exchange.send, finish, lambda start: is_vendors(exchange) and _is_cut(start))
