"""The API of a running service, for programs of this machine: what it refuses is raised in its own words."""

from pathlib import Path
from typing import Any

from msgspec import json

from latchkey.cli.data_folder import Connection
from latchkey.domain.refusal import Refusal
from latchkey.http_client import Closing, HttpClient, HttpError, HttpResponse, causes_of

_MOST_BYTES = 32 * 1024 * 1024


class ServiceAway(Refusal):
    """The service does not answer, or is too busy."""


class ServiceClient(Closing):
    def __init__(self, url: str, key: str, authority: bytes | None = None, **options: Any) -> None:
        """`authority` is trusted besides those of the system. Options are those of the HTTP client."""
        self.url, self._key = url.rstrip("/"), key
        self._http = HttpClient(extra_ca=authority, **options)

    async def close(self) -> None:
        await self._http.close()

    async def send(self, method: str, path: str, *, key: str | None = None, **what: Any) -> HttpResponse:
        sent = {"authorization": f"Bearer {key or self._key}", "most_bytes": _MOST_BYTES, **what}
        try:
            return await self._http.ask(method, self.url + path, **sent)
        except (HttpError, ValueError) as error:
            raise self._away((causes_of(error) or ["no response"])[-1]) from error

    async def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> dict[str, Any]:
        reply = await self.send(method, path, key=key, json=body)
        try:
            said = json.decode(reply.body, type=dict[str, Any])
        except (ValueError, RecursionError):
            raise self._away(f"status {reply.status}") from None
        if reply.status < 300:
            return said
        words = str(said.get("message", f"status {reply.status}"))
        if reply.status in {401, 403}:
            words = f"{self.url} refused the key: {words}"
        raise (ServiceAway if reply.status == 429 or reply.status >= 500 else Refusal)(words, param=said.get("param"))

    def _away(self, reason: str) -> ServiceAway:
        return ServiceAway(f"{self.url} does not answer as a Latchkey service does: {reason}. Is it still running?")


def client_of_up(up: Connection) -> ServiceClient:
    """With the key of the demo project."""
    return ServiceClient(up.base_url, up.api_key, Path(up.ca_cert).read_bytes(), timeout=60, use_proxy=False)
