"""Forwards a webhook to an app on this machine over plain HTTP, and its response back to the service."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http.client import responses
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from latchkey.delivery.receiver import Arrival
from latchkey.delivery.sending import failure
from latchkey.http_client import HttpClient, HttpError
from latchkey.runtime.script import is_this_machine

# A little less than the 60 seconds that the service waits, so that it gets our 502 with the reason.
PATIENCE_MS = 55_000
# Hop-by-hop headers, which are not forwarded. The client sets its own Host and Content-Length.
_OF_THE_CONNECTION = {
    "connection", "content-length", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
_WITHOUT_BODY = {204, 304}


class CannotForwardError(Exception):
    """The address in --forward-to cannot be used."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    took_ms: int
    # Why the app did not respond; the service then gets a 502 with this text.
    error: str | None = None

    def written(self) -> bytes:
        """As HTTP/1.1."""
        lines = [
            f"HTTP/1.1 {self.status} {responses.get(self.status, '')}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        if self.status in _WITHOUT_BODY:
            return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
        lines += [f"content-length: {len(self.body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1", "replace") + self.body


def check(url: str) -> str:
    """The address, if it is on this machine: secrets must not leave it over plain HTTP."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise CannotForwardError(f"{url} is not a URL.") from None
    if parts.scheme not in ("http", "https") or not host:
        raise CannotForwardError(f"{url} is not an address such as http://localhost:3000/hook.")
    if parts.scheme == "http" and not is_this_machine(host):
        raise CannotForwardError(
            f"{url} is not on this machine. Webhooks carry secrets, so plain http:// works only to "
            "localhost. For another machine, create a webhook with its https:// address."
        )
    return url


class Forwarder:
    def __init__(self, url: str, patience_ms: int = PATIENCE_MS) -> None:
        self._url = check(url)
        self._patience_ms = patience_ms
        # The response is returned as the app sent it: not decompressed, redirects not followed, no proxy in between.
        self._http = HttpClient(timeout=patience_ms / 1000, https_only=False, use_proxy=False, decompress=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self._http.close()

    async def pass_on(self, arrival: Arrival) -> Reply:
        headers = {name: value for name, value in arrival.headers.items() if name not in _OF_THE_CONNECTION}
        began = time.monotonic()
        try:
            response = await self._http.ask("POST", self._url, headers=headers, body=arrival.body)
        except (HttpError, TimeoutError) as error:
            return self._unanswered(error, _since(began))
        back = tuple((name, value) for name, value in response.headers() if name not in _OF_THE_CONNECTION)
        return Reply(response.status, back, response.body, _since(began))

    def _unanswered(self, error: Exception, took_ms: int) -> Reply:
        reason = failure.in_words(error, took_ms, self._patience_ms).replace("the receiver", "the app")
        words = f"{self._url}: {reason}"
        return Reply(502, (("content-type", "text/plain; charset=utf-8"),), f"{words}\n".encode(), took_ms, words)


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
