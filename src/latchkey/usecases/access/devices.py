"""Known devices: browsers that have signed in before, proved by a cookie.

The cookie is a random id and, for each account that signed in with it, a signature over both and the time. It proves an
earlier sign-in and nothing else: whoever steals it can guess passwords at the pace of one known device.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from latchkey.domain.instants import DAY, Ms

KNOWN_FOR: Ms = 180 * DAY
# A browser is rarely shared by more people.
MOST_ACCOUNTS = 5
_FORM = re.compile(rf"(?P<id>[0-9a-f]{{32}})(?P<entries>(?:\.[0-9]{{1,15}}-[0-9a-f]{{64}}){{1,{MOST_ACCOUNTS}}})")


class Devices:
    def __init__(self, secret_key: bytes) -> None:
        self._key = hmac.new(secret_key, b"latchkey known devices", hashlib.sha256).digest()

    def known(self, cookie: str, account_id: str, now: Ms) -> str | None:
        """The device's id, if this account signed in with it and not too long ago."""
        device, entries = _read(cookie)
        for entry in entries:
            since = int(entry.partition("-")[0])
            if self._is_for(entry, device, account_id) and since <= now < since + KNOWN_FOR:
                return device
        return None

    def remember(self, cookie: str, account_id: str, now: Ms) -> str:
        """The cookie after this account signed in. Other accounts in it stay known."""
        device, entries = _read(cookie)
        device = device or secrets.token_hex(16)
        others = [entry for entry in entries if not self._is_for(entry, device, account_id)]
        return ".".join([device, f"{now}-{self._signature(device, account_id, now)}", *others[: MOST_ACCOUNTS - 1]])

    def _is_for(self, entry: str, device: str, account_id: str) -> bool:
        since, _, signature = entry.partition("-")
        return hmac.compare_digest(signature, self._signature(device, account_id, int(since)))

    def _signature(self, device: str, account_id: str, since: Ms) -> str:
        return hmac.new(self._key, f"{device} {account_id} {since}".encode(), hashlib.sha256).hexdigest()


def _read(cookie: str) -> tuple[str, list[str]]:
    found = _FORM.fullmatch(cookie)
    return (found["id"], found["entries"].split(".")[1:]) if found else ("", [])
