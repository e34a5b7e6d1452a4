"""A request that the service makes to itself, through the whole application, for the one that it is answering."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from starlette.types import Message, Scope

# Of the request that is being answered: from where it came, and to which address.
_PASSED_ON = frozenset({b"x-forwarded-for", b"host"})
_OF_THE_CONNECTION = frozenset({"type", "asgi", "http_version", "scheme", "client", "server"})


def inner_request(
    scope: Scope, method: str, target: str, headers: Mapping[str, str], passed_on: Collection[bytes] = ()
) -> Scope:
    """`passed_on` are the names of further headers to keep."""
    path, _, query = target.partition("?")
    lines = [line for line in scope["headers"] if line[0] in _PASSED_ON or line[0] in passed_on]
    return {
        **{name: value for name, value in scope.items() if name in _OF_THE_CONNECTION},
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [*lines, *((name.encode(), value.encode()) for name, value in headers.items())],
        "state": {},
    }


class Captured(Struct):
    """An ASGI request with this body, and its response."""

    request: bytes
    status: int = 0
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""
    is_read: bool = False

    async def receive(self) -> dict[str, Any]:
        if self.is_read:
            return {"type": "http.disconnect"}
        self.is_read = True
        return {"type": "http.request", "body": self.request, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message.get("headers", ()))
        else:
            self.body += message.get("body", b"")
