"""Checks a Standard Webhooks signature: HMAC-SHA256 of `id.timestamp.body`, not older or newer than five minutes.

The library does the same and costs ten times as much for each event; a test compares the two (decision 0088).
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Iterable, Mapping

PREFIX = "whsec_"
TOLERANCE_SECONDS = 5 * 60
_VERSION = b"v1,"


class Signatures:
    """The signing secrets; several during a rotation."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._keys = [_key(secret) for secret in secrets]

    def __bool__(self) -> bool:
        return bool(self._keys)

    def verify(self, headers: Mapping[bytes, bytes], body: bytes) -> bool:
        """Whether the body was signed with one of the secrets, within the last minutes. `headers` are in lower case."""
        id, timestamp = headers.get(b"webhook-id"), headers.get(b"webhook-timestamp")
        given = headers.get(b"webhook-signature")
        # Digits only, as the standard has it, and no more than a year needs: int() takes much else.
        if not id or not given or not timestamp or not timestamp.isdigit() or len(timestamp) > len("99999999999"):
            return False
        if abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
            return False
        content = b"%b.%b.%b" % (id, timestamp, body)
        listed = given.split(b" ")
        for key in self._keys:
            expected = _VERSION + base64.b64encode(hmac.digest(key, content, "sha256"))
            if any(hmac.compare_digest(expected, one) for one in listed):
                return True
        return False


def _key(secret: str) -> bytes:
    # The padding may be missing; more of it than needed does no harm.
    key = base64.b64decode(secret.removeprefix(PREFIX) + "==")
    if not key:
        raise ValueError("A signing secret is empty.")
    return key
