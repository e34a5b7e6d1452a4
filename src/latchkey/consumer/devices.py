"""`/api/devices`: a signed-in user's phones.

| request | answer |
|---|---|
| POST `{player_id, platform?, language?}` | 201 if it is new for this user, 200 if it is known: the device |
| GET | 200 `{devices: […]}`, the user's own |
| DELETE `/api/devices/{player_id}` | 200 `{message}`; 404 `{error}` if it is not this user's |
| not signed in, or an invalid token | 401 `{error: 'Unauthorized'}` |
| an invalid body | 400 `{error: 'Invalid device'}` |

A phone belongs to the user who registered it last. A user has at most `devices_per_user`; the one that was not seen for
the longest time is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from latchkey.consumer.http import Refused, TooLargeError, body_of, reply
from latchkey.consumer.instants import Ms, to_iso
from latchkey.consumer.settings import Settings
from latchkey.consumer.storage.store import Store
from latchkey.consumer.users import Identify, identified

BODY_LIMIT = 4_096


class NewDevice(Struct, frozen=True):
    # No provider's ids have spaces or control characters; ours are UUIDs.
    player_id: Annotated[str, Meta(pattern=r"^[!-~]{1,255}\Z")]
    platform: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,32}\Z")] | None = None
    language: Annotated[str, Meta(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}\Z", max_length=35)] | None = None


_decoder = msgspec.json.Decoder(NewDevice)


class DeviceEndpoints:
    def __init__(self, store: Store, settings: Settings, identify: Identify, now: Callable[[], Ms]) -> None:
        self._store = store
        self._settings = settings
        self._identify = identify
        self._now = now

    async def register(self, request: Request) -> Response:
        user = await self._user(request)
        try:
            new = _decoder.decode(await body_of(request, BODY_LIMIT))
        except TooLargeError:
            raise Refused(413, "Payload too large") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Refused(400, "Invalid device") from None
        now = self._now()
        row = {**msgspec.structs.asdict(new), "app_user_id": user, "registered_at": now, "last_seen_at": now}
        is_new = await self._store.devices.register(row, self._settings.devices_per_user)
        return reply(_shown(row), 201 if is_new else 200)

    async def show(self, request: Request) -> Response:
        found = await self._store.devices.of_user(await self._user(request))
        return reply({"devices": [_shown(row) for row in found]}, headers={"Cache-Control": "no-store"})

    async def forget(self, request: Request) -> Response:
        if not await self._store.devices.forget(await self._user(request), request.path_params["player_id"]):
            raise Refused(404, "Device not found")
        return reply({"message": "Device removed"})

    async def _user(self, request: Request) -> str:
        user = await identified(self._identify, request)
        if user is None:
            raise Refused(401, "Unauthorized")
        return user


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "player_id": row["player_id"],
        "platform": row["platform"],
        "language": row["language"],
        "last_seen_at": to_iso(row["last_seen_at"]),
    }
