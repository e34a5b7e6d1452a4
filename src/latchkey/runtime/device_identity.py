"""The identity of a device, kept in its folder, so that it is the same phone after every start.

device.json   its secret identifier, its player id with each push service, what it has already shown
browser/      Chromium's profile: storage, cookies, sign-ins
lock          held while the device runs
"""

import contextlib
import fcntl
import os
import secrets
from pathlib import Path
from typing import IO

import msgspec

from latchkey.runtime.device_errors import DeviceError

# A push service may repeat notifications; it repeats none older than the last 500.
_REMEMBERED = 500


class _StoredIdentity(msgspec.Struct):
    identifier: str
    players: dict[str, str] = {}
    shown: list[str] = []


class DeviceIdentity:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.browser = self.folder / "browser"
        self._file = self.folder / "device.json"
        self._lock: IO[bytes] | None = None
        self._stored = _StoredIdentity("")

    @property
    def identifier(self) -> str:
        return self._stored.identifier

    def claim(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (self.folder / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise DeviceError(
                f"The device in {self.folder} is already running. Stop it, or start another with --state."
            ) from None
        self._lock = lock
        try:
            self._stored = msgspec.json.decode(self._file.read_bytes(), type=_StoredIdentity)
        except (OSError, msgspec.DecodeError):
            # New or damaged: like a phone that was reset.
            self._stored = _StoredIdentity(secrets.token_urlsafe(32))
            self._write()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def player_id(self, service: str) -> str | None:
        return self._stored.players.get(service)

    def remember_player(self, service: str, id: str | None) -> None:
        if id is None:
            self._stored.players.pop(service, None)
        else:
            self._stored.players[service] = id
        self._write()

    def is_new(self, notification_id: str) -> bool:
        """Whether this notification is new. Remembers it."""
        if notification_id in self._stored.shown:
            return False
        self._stored.shown = [*self._stored.shown, notification_id][-_REMEMBERED:]
        self._write()
        return True

    def _write(self) -> None:
        draft = self._file.with_suffix(".draft")
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(self._stored))
        draft.rename(self._file)
