"""The device's client of the push service: register, subscribe or unsubscribe, and receive."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from latchkey.http_client import HttpClient, HttpError
from latchkey.runtime.device_errors import PushServiceError, UnknownDeviceError

TIMEOUT = 10.0
# The service sends a heartbeat every 15 seconds.
HEARTBEAT_TIMEOUT = 45.0
_ANDROID = 1
_SUBSCRIBED, _REFUSED = 1, -2
_MOST = 1024 * 1024


class ArrivedNotification(msgspec.Struct, frozen=True):
    id: str
    heading: str = ""
    content: str = ""
    url: str | None = None
    data: Any = None


class _Registered(msgspec.Struct):
    id: str


class PushService:
    def __init__(self, url: str, app_id: str, identifier: str, *, extra_ca: bytes | None = None) -> None:
        self.url = url.rstrip("/")
        self.app_id = app_id
        self._identifier = identifier
        self._http = HttpClient(connect_timeout=TIMEOUT, extra_ca=extra_ca, http2=True)

    @property
    def name(self) -> str:
        return f"{self.url} {self.app_id}"

    async def close(self) -> None:
        await self._http.close()

    async def register(self, language: str) -> str:
        """This device's player id: a new one, or its existing one."""
        device = {
            "device_type": _ANDROID,
            "language": language,
            "identifier": self._identifier,
            "notification_types": _SUBSCRIBED,
        }
        try:
            return msgspec.json.decode(await self._ask("POST", "/api/v1/players", device), type=_Registered).id
        except UnknownDeviceError:
            # Not the device is unknown: it is only about to register.
            raise PushServiceError(f"{self.url} answered 404. Check the push URL and the app id.") from None
        except (ValueError, RecursionError):
            raise PushServiceError(f"{self.url} answered the registration with something else.") from None

    async def set_subscribed(self, player_id: str, language: str, *, subscribed: bool) -> None:
        types = _SUBSCRIBED if subscribed else _REFUSED
        change = {"language": language, "notification_types": types}
        await self._ask("PUT", f"/api/v1/players/{player_id}", change)

    async def arrivals(self, player_id: str) -> AsyncIterator[ArrivedNotification]:
        """The notifications for this device, until the connection breaks."""
        url = f"{self.url}/api/v1/players/{player_id}/arrivals"
        try:
            async with self._http.stream("GET", url, authorization=f"Device {self._identifier}") as response:
                self._require_ok(response.status)
                rest = b""
                while True:
                    async with asyncio.timeout(HEARTBEAT_TIMEOUT):
                        chunk = await response.body_reader.read_chunk()
                    if chunk is None:
                        return
                    *lines, rest = (rest + bytes(chunk)).split(b"\n")
                    if len(rest) > _MOST:
                        raise PushServiceError(f"{self.url} does not end its lines.")
                    for line in lines:
                        if line.startswith(b"data: "):
                            yield msgspec.json.decode(line[6:], type=ArrivedNotification)
        except (HttpError, TimeoutError, ValueError, RecursionError) as error:
            raise PushServiceError(f"The line to {self.url} broke ({type(error).__name__}).") from error

    async def _ask(self, method: str, path: str, value: dict[str, Any]) -> bytes:
        try:
            response = await self._http.ask(
                method,
                f"{self.url}{path}",
                headers={"Content-Type": "application/json; charset=utf-8"},
                authorization=f"Device {self._identifier}",
                body=msgspec.json.encode({"app_id": self.app_id, **value}),
                deadline=TIMEOUT,
                most_bytes=_MOST,
            )
        except (HttpError, TimeoutError) as error:
            raise PushServiceError(f"{self.url} cannot be reached ({type(error).__name__}).") from error
        self._require_ok(response.status)
        return response.body

    def _require_ok(self, status: int) -> None:
        if status == 404:
            raise UnknownDeviceError(f"{self.url} does not know this device.")
        if not 200 <= status < 300:
            raise PushServiceError(f"{self.url} answered {status}.")
